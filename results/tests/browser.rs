//! The page in a real browser: no error, no request to anybody, tables that sort and filter, cells that lead to proofs, and pictures in
//! light, dark and on a phone. Skipped, and said so, where there is no Chromium.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use results::report;
use results::store;

/// Runs inside of the page after its own script, and leaves what it found in the attribute `data-found` of the root.
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
    for (const svg of document.querySelectorAll("svg")) {
      check(svg.querySelector("title") && svg.querySelector("desc"), "a chart without a text alternative");
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

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = || {
        std::env::split_paths(&paths)
            .flat_map(|dir| usual.map(|name| dir.join(name)))
            .find(|path| path.is_file())
    };
    named.or_else(found)
}

/// The browser, or `None` after saying aloud that the test is skipped.
fn browser_or_skip(test: &str) -> Option<PathBuf> {
    let found = browser();
    if found.is_none() {
        // Past the capture of the test harness, which shows only what failing tests say.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: there is no Chromium; `apt-get install chromium` provides it"
        );
    }
    found
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quickstart.run.json");
    let run = store::parse(&path, &fs::read(&path).expect("the fixture")).expect("a good run");
    report::by_name("html")
        .expect("a known format")
        .render(&run)
        .expect("a page")
}

/// The page with the self-test in front of its own script, so that no error of that escapes.
fn tested(page: &str) -> String {
    page.replacen(
        "<meta charset=\"utf-8\">",
        &format!("<meta charset=\"utf-8\"><script>{SELF_TEST}</script>"),
        1,
    )
}

struct Seen {
    out: String,
    console: String,
}

/// Opens a page of this machine's disk in a browser of its own profile, without any network.
fn open(browser: &Path, dir: &Path, page: &str, arguments: &[&str]) -> Seen {
    let file = dir.join("page.html");
    fs::write(&file, page).expect("the page is written");
    let output = Command::new(browser)
        .args([
            "--headless",
            // Inside of a container there is no other sandbox to be had; the page is our own.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--proxy-server=127.0.0.1:1",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--virtual-time-budget=3000",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser runs");
    Seen {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn found(seen: &Seen) -> &str {
    seen.out
        .split_once("data-found=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("the self-test did not run", |(found, _)| found)
}

#[test]
fn the_page_works_and_asks_nobody() {
    let Some(browser) = browser_or_skip("the_page_works_and_asks_nobody") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    for window in [
        "--window-size=1400,900",
        "--window-size=800,900",
        "--window-size=500,800",
    ] {
        let seen = open(
            &browser,
            dir.path(),
            &tested(&page()),
            &["--dump-dom", window],
        );
        assert_eq!(found(&seen), "nothing wrong", "{window}");
        assert_eq!(seen.console, "", "{window}");
    }
}

/// A page that has each of the faults that are looked for: a test that cannot fail shows nothing.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    let Some(browser) = browser_or_skip("what_is_wrong_with_a_page_is_found") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let wrong = |from: &str, to: &str| {
        let page = page();
        assert!(page.contains(from), "{from}");
        let seen = open(
            &browser,
            dir.path(),
            &tested(&page.replace(from, to)),
            &["--dump-dom", "--window-size=1280,900"],
        );
        format!("{} {}", found(&seen), seen.console)
    };
    let asks = wrong(
        "</main>",
        "<img alt=\"\" src=\"http://127.0.0.1:9/x.png\"></main>",
    );
    assert!(asks.contains("request: http://127.0.0.1:9/x.png"), "{asks}");
    let throws = wrong("const enough = 7;", "const enough = nothing;");
    assert!(throws.contains("nothing is not defined"), "{throws}");
    let dead = wrong("id=\"s1-contract\"", "id=\"elsewhere\"");
    assert!(dead.contains("dead link #s1-contract"), "{dead}");
}

#[test]
fn pictures_are_taken_in_light_in_dark_and_on_a_phone() {
    let Some(browser) = browser_or_skip("pictures_are_taken_in_light_in_dark_and_on_a_phone")
    else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page = page();
    // What a reader with a dark system sees, without asking the browser to pretend.
    let dark = page.replace("@media (prefers-color-scheme: dark)", "@media all");
    let mut pictures = Vec::new();
    for (name, page, window) in [
        ("light", &page, "--window-size=1280,4000"),
        ("dark", &dark, "--window-size=1280,4000"),
        ("phone", &page, "--window-size=500,4000"),
    ] {
        let file = dir.path().join(format!("{name}.png"));
        let shot = format!("--screenshot={}", file.display());
        open(&browser, dir.path(), page, &[&shot, window]);
        let png = fs::read(&file).expect("a picture");
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        // An empty page compresses to a few kilobytes.
        assert!(png.len() > 50_000, "{name}: {} bytes", png.len());
        if let Some(keep) = std::env::var_os("LOCKLAB_PICTURES") {
            fs::copy(&file, Path::new(&keep).join(format!("{name}.png"))).expect("a copy");
        }
        pictures.push(png);
    }
    assert_ne!(pictures[0], pictures[1], "dark is not light");
}
