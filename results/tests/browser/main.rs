//! The page in a real browser, as each of its readers has it: in three widths, light, dark, printed, by
//! keyboard and by a screen reader's tree. No error, no request to anybody, tables that sort and filter,
//! cells that lead to proofs. Skipped, and said so, where there is no Chromium.

mod devtools;

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use results::merge::merge;
use results::report;
use results::run::Run;
use results::store;
use serde_json::{Value, json};

use self::devtools::{Browser, program_or_skip};

/// Runs inside of the page after its own script, and leaves what it found in the attribute `data-found` of
/// the root.
const SELF_TEST: &str = r##"
const problems = [];
addEventListener("error", (event) => problems.push("error: " + event.message));
addEventListener("unhandledrejection", (event) => problems.push("rejection: " + event.reason));
addEventListener("securitypolicyviolation", (event) => problems.push("request: " + event.blockedURI));
const check = (good, what) => { if (!good) problems.push(what); };
const cells = (table, column) => [...table.tBodies[0].rows].map((row) => row.cells[column].dataset.v ?? "");
addEventListener("load", () => setTimeout(() => {
  try {
    const bench = document.querySelector("table.bench");
    const button = bench.tHead.rows[0].cells[1].querySelector("button");
    button.click();
    const rising = cells(bench, 1).filter((v) => v !== "").map(Number);
    check(rising.length > 1 && rising.every((v, i) => i === 0 || rising[i - 1] <= v), "not sorted upwards: " + rising);
    button.click();
    const falling = cells(bench, 1).filter((v) => v !== "").map(Number);
    check(falling.every((v, i) => i === 0 || falling[i - 1] >= v), "not sorted downwards: " + falling);
    check(bench.tHead.rows[0].cells[1].getAttribute("aria-sort") === "descending", "the order is not said");

    const field = document.querySelector(".filter input");
    const rows = [...field.closest(".filter").nextElementSibling.querySelectorAll("tbody tr")];
    field.value = "no such row anywhere";
    field.dispatchEvent(new Event("input"));
    check(rows.every((row) => row.hidden), "a filter that nothing keeps hides nothing");
    field.value = "";
    field.dispatchEvent(new Event("input"));
    check(rows.every((row) => !row.hidden), "an empty filter hides something");

    const cell = document.querySelector("table.matrix a.lost");
    cell.click();
    const target = document.getElementById(location.hash.slice(1));
    check(target && target.matches(":target"), "the cell leads nowhere: " + location.hash);
    check(target.textContent.trim().length > 20, "the proof is empty");
    const box = target.getBoundingClientRect();
    check(box.top < innerHeight && box.bottom > 0, "the proof is not in view");

    for (const link of document.querySelectorAll('a[href^="#"]')) {
      check(document.getElementById(link.getAttribute("href").slice(1)), "dead link " + link.getAttribute("href"));
    }
    for (const box of document.querySelectorAll(".scroll:not(.chartbox)")) {
      for (let fold = box.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      check(box.scrollWidth <= box.clientWidth + 1, `cut off: ${box.getAttribute("aria-label")}, ${box.scrollWidth} of ${box.clientWidth} px`);
    }
    check(document.documentElement.scrollWidth <= innerWidth + 1, "wider than the window: " + document.documentElement.scrollWidth);
    check(performance.getEntriesByType("resource").length === 0, "something was fetched");
  } catch (error) {
    problems.push("the check itself: " + error);
  }
  document.documentElement.dataset.found = problems.length ? problems.join(" | ") : "nothing wrong";
}, 50));
"##;

/// What is written too faintly: text of less than 4.5 times its ground's light, as WCAG 2.1 has it for small
/// letters.
const FAINT: &str = r##"
(() => {
  const light = (color) => {
    const [r, g, b] = color.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (css) => (css.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  const over = (top, below) => {
    const a = top[3] ?? 1;
    return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a));
  };
  const ground = (element) => {
    if (!element) return parse(getComputedStyle(document.documentElement).getPropertyValue("background-color")).slice(0, 3);
    const own = parse(getComputedStyle(element).backgroundColor);
    return (own[3] ?? 1) === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement));
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("body *:not(script, style, svg *)")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !element.checkVisibility() || element.matches(".skip")) continue;
    const below = ground(element), ink = over(parse(getComputedStyle(element).color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.add(`${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 30)} (${ratio.toFixed(2)})`);
  }
  return [...faint];
})()
"##;

/// What can be reached by Tab and is seen, each with a number, and where the keyboard is.
const REACHABLE: &str = r##"
(() => {
  const all = [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")];
  all.forEach((element, number) => element.dataset.number = number);
  return all.filter((element) => element.checkVisibility()).map((element) => element.dataset.number);
})()
"##;

const FOCUSED: &str = r##"
(() => {
  const element = document.activeElement, style = getComputedStyle(element);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
  return [element.dataset.number ?? "", element.matches("body, :focus-visible") && (seen || element === document.body)];
})()
"##;

/// A page of a run with all that a page has, and one of three runs side by side.
fn pages() -> [(&'static str, String); 2] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quickstart.run.json");
    let run = || store::parse(&path, &fs::read(&path).expect("the fixture")).expect("a good run");
    let named = |name: &str| Run { run: name.to_owned(), ..run() };
    let joined = merge(vec![named("a"), named("b"), named("c")], "a + b + c").expect("three runs");
    [("one", rendered(&run())), ("three", rendered(&joined))]
}

fn rendered(run: &Run) -> String {
    let html = report::by_name("html").expect("a known format");
    html.render(run).expect("a page")
}

/// What the page's own test found, with all that the browser had to say.
fn found(browser: &mut Browser, page: &str, width: u32) -> String {
    browser.open(page, width);
    let found = browser.value("document.documentElement.dataset.found ?? null");
    let found = found.as_str().unwrap_or_default();
    format!("{found}{}", browser.noise.join(" | "))
}

fn with_self_test(program: &Path) -> Browser {
    let mut browser = Browser::start(program);
    let script = json!({"source": SELF_TEST});
    browser.call("Page.addScriptToEvaluateOnNewDocument", script);
    browser
}

#[test]
fn the_page_works_and_asks_nobody() {
    let Some(program) = program_or_skip("the_page_works_and_asks_nobody") else {
        return;
    };
    let mut browser = with_self_test(&program);
    for (name, page) in pages() {
        for width in [1400, 800, 400] {
            let found = found(&mut browser, &page, width);
            assert_eq!(found, "nothing wrong", "{name}, {width} px");
        }
    }
}

/// A page that has each of the faults that are looked for: a test that cannot fail shows nothing.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    let Some(program) = program_or_skip("what_is_wrong_with_a_page_is_found") else {
        return;
    };
    let mut browser = with_self_test(&program);
    let [(_, page), _] = pages();
    let changed = |from: &str, to: &str| {
        assert!(page.contains(from), "{from}");
        page.replacen(from, to, 1)
    };
    let asking = "<img alt=\"\" src=\"http://127.0.0.1:9/x.png\"></main>";
    for (from, to, said) in [
        ("</main>", asking, "request: http://127.0.0.1:9/x.png"),
        ("const enough = 7;", "const enough = nothing;", "nothing is not defined"),
        ("id=\"s1-contract\"", "id=\"elsewhere\"", "dead link #s1-contract"),
        ("<main id=\"main\">", "<main id=\"main\" style=\"width: 450px\">", "wider than the window"),
    ] {
        let found = found(&mut browser, &changed(from, to), 400);
        assert!(found.contains(said), "{found}");
    }
    browser.open(
        &changed(
            "<main id=\"main\">",
            "<main id=\"main\"><p style=\"color: #999; background: #aaa\">faint</p>",
        ),
        800,
    );
    let faint = browser.value(FAINT).to_string();
    assert!(faint.contains("faint"), "{faint}");
    for (from, to, said) in [
        ("</main>", "<a href=\"#main\"></a></main>", "link without a name"),
        ("</main>", "<h5>x</h5></main>", "heading of level 5 after one of level"),
        ("<title>", "<title></title><desc>", "without a name"),
        ("<h1", "<h2", "no heading of the first level"),
    ] {
        // The first title is the document's own.
        let wrong = match from {
            "<title>" => {
                page.replace("aria-labelledby=", "data-none=").replace("<title id=", "<metadata id=")
            }
            from => changed(from, to),
        };
        browser.open(&wrong, 800);
        let problems = tree_problems(&mut browser).join(" | ");
        assert!(problems.contains(said), "{said}: {problems}");
    }
    browser.open(
        &changed(
            "<main id=\"main\">",
            "<main id=\"main\"><style>:focus-visible { outline: none !important; }</style>",
        ),
        800,
    );
    assert!(keyboard_problems(&mut browser).join(" ").contains("is not seen"));
}

#[test]
fn it_is_readable_in_light_in_dark_and_on_paper() {
    let Some(program) = program_or_skip("it_is_readable_in_light_in_dark_and_on_paper") else {
        return;
    };
    let mut browser = Browser::start(&program);
    let mut pictures = Vec::new();
    for (name, page) in pages() {
        for (media, scheme, width) in [
            ("screen", "light", 1400),
            ("screen", "dark", 1400),
            ("screen", "light", 400),
            ("screen", "dark", 400),
            ("print", "dark", 794),
        ] {
            browser.media(media, scheme);
            browser.open(&page, width);
            browser.value("document.querySelectorAll('details').forEach((fold) => fold.open = true) ?? true");
            let faint = browser.value(FAINT);
            assert_eq!(faint, json!([]), "{name}, {media}, {scheme}");
            let shot = json!({"captureBeyondViewport": true});
            let shot = browser.call("Page.captureScreenshot", shot);
            let png = decoded(&shot["data"]);
            assert!(png.starts_with(b"\x89PNG"), "{name}");
            if let Some(keep) = std::env::var_os("LOCKLAB_PICTURES") {
                let file = format!("{name}-{media}-{scheme}-{width}.png");
                fs::write(Path::new(&keep).join(file), &png).expect("a copy");
            }
            pictures.push(png);
        }
        let paper = browser.call("Page.printToPDF", json!({"preferCSSPageSize": true}));
        let paper = decoded(&paper["data"]);
        assert!(paper.starts_with(b"%PDF"), "{name}");
        let wide = browser.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().is_some_and(|more| more <= 1), "{name}: {wide} px do not fit on paper");
    }
    assert_ne!(pictures[0], pictures[1], "dark is not light");
}

fn decoded(data: &Value) -> Vec<u8> {
    STANDARD.decode(data.as_str().expect("data")).expect("base64")
}

#[test]
fn the_keyboard_reaches_and_shows_everything() {
    let Some(program) = program_or_skip("the_keyboard_reaches_and_shows_everything") else {
        return;
    };
    let mut browser = Browser::start(&program);
    for (name, page) in pages() {
        browser.open(&page, 800);
        assert_eq!(keyboard_problems(&mut browser), Vec::<String>::new(), "{name}");
        browser.value("document.querySelector('summary').focus() ?? true");
        browser.press("Enter", 13);
        let open = browser.value("document.querySelector('details').open");
        assert_eq!(open, json!(true), "{name}: Enter does not unfold");
    }
}

fn keyboard_problems(browser: &mut Browser) -> Vec<String> {
    let wanted = browser.value(REACHABLE);
    let wanted: Vec<String> = serde_json::from_value(wanted).expect("numbers");
    assert!(wanted.len() > 20, "{wanted:?}");
    let (mut reached, mut problems) = (Vec::new(), Vec::new());
    for _ in 0..=wanted.len() {
        browser.press("Tab", 9);
        let focused = browser.value(FOCUSED);
        let (number, is_seen): (String, bool) = serde_json::from_value(focused).expect("a focus");
        if !is_seen {
            problems.push(format!("the focus on {number} is not seen"));
        }
        if !number.is_empty() {
            reached.push(number);
        }
    }
    let missed = wanted.iter().filter(|number| !reached.contains(number));
    problems.extend(missed.map(|number| format!("Tab does not reach {number}")));
    problems
}

#[test]
fn a_screen_reader_finds_headings_in_order_and_names_everywhere() {
    let Some(program) = program_or_skip("a_screen_reader_finds_headings_in_order_and_names_everywhere")
    else {
        return;
    };
    let mut browser = Browser::start(&program);
    for (name, page) in pages() {
        browser.open(&page, 800);
        browser.value("document.querySelectorAll('details').forEach((fold) => fold.open = true) ?? true");
        assert_eq!(tree_problems(&mut browser), Vec::<String>::new(), "{name}");
    }
}

/// What is wrong in the tree that a screen reader is given.
fn tree_problems(browser: &mut Browser) -> Vec<String> {
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    let nodes = nodes.iter().filter(|node| node["ignored"] != json!(true));
    let mut problems = Vec::new();
    let (mut level, mut first, mut images) = (0, 0, 0);
    for node in nodes.clone() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default();
        let named = [
            "link",
            "button",
            "textbox",
            "searchbox",
            "image",
            "img",
            "table",
            "navigation",
            "DisclosureTriangle",
            "heading",
        ];
        if named.contains(&role) && name.trim().is_empty() {
            problems.push(format!("{role} without a name"));
        }
        images += u32::from(["image", "img"].contains(&role));
        if role == "heading" {
            let properties = node["properties"].as_array().expect("properties");
            let own = properties.iter().find(|one| one["name"] == json!("level"));
            let own = own.and_then(|one| one["value"]["value"].as_u64()).unwrap_or(0);
            if own > level + 1 {
                problems.push(format!("heading of level {own} after one of level {level}: {name}"));
            }
            first += u32::from(own == 1);
            level = own;
        }
    }
    if first != 1 {
        problems.push("no heading of the first level, or several".to_owned());
    }
    if images == 0 {
        problems.push("no chart is there".to_owned());
    }
    if !nodes.clone().any(|node| node["role"]["value"] == json!("main")) {
        problems.push("no main part".to_owned());
    }
    problems
}
