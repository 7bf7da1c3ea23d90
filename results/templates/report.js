"use strict";
(() => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const numeric = head.classList.contains("num");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (numeric && (x === "" || y === "")) return (x === "") - (y === "");
        const order = numeric ? x - y : x.localeCompare(y);
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    }));
  }
  const button = document.getElementById("download");
  button.hidden = false;
  button.addEventListener("click", () => {
    const data = new Blob([document.getElementById("run").textContent], { type: "application/json" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(data);
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
