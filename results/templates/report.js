"use strict";
(() => {
  const enough = 7;
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = head.classList.contains("num") || "numeric" in head.dataset;
      const key = (row) => row.cells[column].dataset.v ?? (numeric ? "0" : row.cells[column].textContent.trim());
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (numeric && (x === "" || y === "")) return (x === "") - (y === "");
        const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    }));
  };
  // Rows stay that hold every word of the field, in any column.
  const filterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < enough) return;
    const label = document.createElement("label");
    label.className = "filter";
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Filter rows";
    field.setAttribute("aria-label", "Filter rows");
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    label.append(field, count);
    const box = table.closest(".scroll");
    box.before(label);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    sortable(table);
    filterable(table);
  }
  // What stood at the moment under the pointer: on a chart over time all lanes say it at once.
  const pointed = (svg) => {
    const { to, left, right, part, grants, name, interval, tail } = svg.dataset;
    const [counts, tails] = [grants.split(" "), (tail ?? "").split("|")];
    const [cursor, words] = ["path", "text"].map((name) => document.createElementNS(svg.namespaceURI, name));
    cursor.setAttribute("class", "c-cursor");
    words.setAttribute("class", "c-strong c-halo");
    svg.append(cursor, words);
    svg.addEventListener("pointermove", (event) => {
      const x = event.offsetX * svg.viewBox.baseVal.width / svg.clientWidth;
      const share = (x - left) / (right - left);
      if (share < 0 || share > 1) return;
      const ns = share * to;
      const slow = tails[Math.floor(ns / interval)];
      cursor.setAttribute("d", `M${x} 26V${svg.viewBox.baseVal.height - 44}`);
      words.setAttribute("x", share > 0.6 ? x - 8 : x + 8);
      words.style.textAnchor = share > 0.6 ? "end" : "start";
      words.setAttribute("y", 40);
      words.textContent = `${(ns / 1e9).toFixed(2)} s: ${counts[Math.floor(ns / part)] ?? 0} grants${slow ? `, ${name} ${slow}` : ""}`;
    });
    svg.addEventListener("pointerleave", () => { cursor.removeAttribute("d"); words.textContent = ""; });
  };
  document.querySelectorAll("svg[data-grants]").forEach(pointed);
  // A proof inside something folded is opened when a link leads to it.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (!target.matches("section")) target.querySelectorAll("details").forEach((part) => { part.open = true; });
    for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
