//! Every format over one sample run: the bytes that are promised, and what must never be in them. Beside it
//! what documents are made of: answers, comparisons, decisions, joined runs, convictions.

mod answers;
mod charts;
mod comparisons;
mod convictions;
mod csv;
mod gates;
mod histograms;
mod measures;
mod merges;
mod open_loops;
mod over_time;
mod parts;
mod pivots;
mod records;
mod samples;
mod screens;
mod set_ups;

use std::fs;
use std::path::{Path, PathBuf};

use results::report::{self, FORMATS};
use results::run::{BenchRow, Meta, Run, ScenarioResult};
use results::store;
use results::verdict::{CLASSES, State, Verdict, Verdicts};

fn sample() -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quickstart.run.json");
    store::parse(&path, &fs::read(&path).expect("the fixture")).expect("a good run")
}

fn render(format: &str, run: &Run) -> String {
    report::by_name(format).expect("a known format").render(run).expect("a document")
}

/// The cells of the first table below a heading in Markdown, row by row, each cell's lines joined by `; `.
fn table(run: &Run, heading: &str) -> Vec<Vec<String>> {
    let text = render("markdown", run);
    let section = text.split_once(&format!("## {heading}\n")).map_or("", |(_, section)| section);
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with("| "));
    let plain = |cell: &str| cell.replace("<br><sub>", "; ").replace("</sub>", "");
    rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").map(plain).collect()).collect()
}

/// Compares with the file in `tests/expected`; with `LOCKLAB_BLESS=1` in the environment it is written
/// instead.
fn assert_as_kept(name: &str, document: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        fs::write(&path, document).expect("the expected file is written");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let first = kept.lines().zip(document.lines()).position(|(a, b)| a != b);
    assert!(
        kept == document,
        "{} differs, first in line {:?}; if that is meant, set LOCKLAB_BLESS=1 and look at the difference",
        path.display(),
        first.map(|index| index + 1)
    );
}

#[test]
fn every_format_is_found_by_its_name_and_gives_the_same_bytes_twice() {
    let run = sample();
    for format in FORMATS {
        let again = report::by_name(format.name).expect("found");
        assert_eq!(again.about, format.about);
        let document = format.render(&run).expect("a document");
        assert!(document.ends_with('\n'), "{}", format.name);
        assert_eq!(document, format.render(&run).expect("a document"), "{}", format.name);
    }
    assert!(report::by_name("pdf").is_none());
}

#[test]
fn text_is_as_kept() {
    assert_as_kept("quickstart.txt", &render("text", &sample()));
}

#[test]
fn markdown_is_as_kept() {
    assert_as_kept("quickstart.md", &render("markdown", &sample()));
}

#[test]
fn charts_are_as_kept() {
    assert_as_kept("quickstart.svg", &render("svg", &sample()));
}

#[test]
fn junit_is_as_kept() {
    assert_as_kept("quickstart.xml", &render("junit", &sample()));
}

#[test]
fn json_is_the_run_again() {
    let run = sample();
    let again: Run = serde_json::from_str(&render("json", &run)).expect("json");
    assert_eq!(again, run);
}

#[test]
fn the_page_asks_nobody_for_anything() {
    let page = render("html", &sample());
    // Names of namespaces are no addresses; a page without any needs no exception.
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden} is in the page");
    }
    assert!(page.len() < 500_000, "{} bytes", page.len());
}

/// A run as large as a quickstart is, with histories judged.
fn quickstart() -> Run {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("published");
    store::load_dir(&published.join("2026-11-28-vm-2-cores-quickstart")).expect("a kept run")
}

/// Its scenarios so many times under names that say which they are, of each time one conviction that nobody
/// expected.
fn suite(times: usize) -> Run {
    let mut run = quickstart();
    let of_one = run.scenarios.len();
    run.scenarios = vec![run.scenarios; times].concat();
    for (index, result) in run.scenarios.iter_mut().enumerate() {
        if index % of_one == 0 {
            assert_eq!(result.verdicts.contract.state, State::Violated);
            (result.as_expected, result.exit_code) = (false, 1);
        }
        result.name = format!("{}-of-{index}", result.name);
    }
    run
}

/// What an element or attribute that begins so holds, wherever there is one.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let found = page.split(begin).skip(1);
    found.filter_map(|rest| Some(rest.split_once(end)?.0)).collect()
}

#[test]
fn a_page_below_the_limit_leaves_nothing_out() {
    let run = quickstart();
    let page = render("html", &run);
    assert!(!page.contains("left-out") && !page.contains("Left out: "));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let sections = between(&page, "class=\"scenario\"", "</section>");
    assert_eq!(sections.len(), run.scenarios.len());
    for (section, result) in sections.iter().zip(&run.scenarios) {
        let name = &result.name;
        assert!(section.contains("How operations ended"), "{name}");
        let is_convicted = result.verdicts.contract.state == State::Violated;
        assert_eq!(section.contains("How it came about"), is_convicted, "{name}");
        assert_eq!(section.contains("the lines that convict"), is_convicted, "{name}");
    }
}

#[test]
fn a_page_of_a_whole_suite_is_below_500_kb_and_says_what_it_leaves_out() {
    let run = suite(15);
    let page = render("html", &run);
    assert!(page.len() < 500_000, "{} bytes", page.len());
    assert_eq!(page, render("html", &run));
    let rows = between(&page, "<table class=\"matrix", "</table>").concat();
    for result in &run.scenarios {
        assert!(rows.contains(&format!(">{}</b></a>", result.name)), "{}", result.name);
    }
    let [said] = between(&page, "id=\"left-out\">", "</p>")[..] else {
        panic!("what is left out is not said");
    };
    for part in ["charts over time", "locklab report RUN --scenario NAME"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What did not come out as expected is drawn to the last.
    let sections = between(&page, "class=\"scenario\"", "</section>");
    let surprising = sections.iter().filter(|section| !section.contains("as its file expects"));
    let drawn = surprising.map(|section| section.contains("How it came about"));
    assert_eq!(drawn.collect::<Vec<_>>(), [true; 15]);
    assert!(!page.contains("<!--"), "a mark of a part is left");
    let ids = between(&page, " id=\"", "\"");
    for link in between(&page, "href=\"#", "\"") {
        assert!(ids.contains(&link), "a dead link to {link}");
    }
    // Alone each of them has all.
    let one = run.scenarios[0].name.clone();
    let alone = run.only(&one).expect("a scenario of this name");
    assert!(!render("html", &alone).contains("left-out"));
}

#[test]
fn a_page_that_has_no_room_for_its_rows_is_below_500_kb_too() {
    let page = render("html", &suite(80));
    assert!(page.len() < 500_000, "{} bytes", page.len());
    assert!(page.contains("What became of the lock") && page.contains("behind rows"));
    let mut run = quickstart();
    run.rows = vec![run.rows; 100].concat();
    let page = render("html", &run);
    assert!(page.len() < 500_000, "{} bytes", page.len());
    assert!(page.contains("benchmark rows"));
}

#[test]
fn every_cell_of_the_matrix_leads_to_a_proof_that_is_there() {
    let run = sample();
    let page = render("html", &run);
    for index in 1..=run.scenarios.len() {
        for class in CLASSES {
            assert!(page.contains(&format!("href=\"#s{index}-{class}\"")), "s{index}-{class}");
            assert!(page.contains(&format!("id=\"s{index}-{class}\"")), "s{index}-{class}");
        }
    }
}

#[test]
fn no_id_is_given_twice_in_the_page() {
    let page = render("html", &sample());
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn text_from_outside_cannot_end_a_cell_or_begin_markup_or_drive_a_terminal() {
    for (name, title) in [
        ("a|b <script> [x](y) `c`\nd", "# a\\|b &lt;script&gt; \\[x\\](y) \\`c\\` d\n"),
        ("a\u{1b}[31mb\nc\u{202e}", "# a\u{fffd}\\[31mb c\u{fffd}\n"),
    ] {
        let text = render("markdown", &Run::new(name, "bench", Meta::default()));
        assert!(text.starts_with(title), "{text}");
    }
}

#[test]
fn text_from_outside_is_text_in_every_format() {
    let mut run = sample();
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{1b}[2J\"'|`&";
    run.warnings.push(evil.to_owned());
    run.run = evil.to_owned();
    run.meta.command_line.push(evil.to_owned());
    for result in &mut run.scenarios {
        result.name = evil.to_owned();
        result.subject = evil.to_owned();
        result.about = evil.to_owned();
        if let Some(timeline) = &mut result.timeline {
            timeline.lock = evil.to_owned();
            timeline.holds.iter_mut().for_each(|hold| hold.client = evil.to_owned());
            timeline.faults.iter_mut().for_each(|fault| fault.label = evil.to_owned());
        }
        for fault in &mut result.faults {
            fault.fault = evil.to_owned();
            fault.proof = evil.to_owned();
        }
    }
    for row in &mut run.rows {
        row.subject = evil.to_owned();
        row.why_invalid = vec![evil.to_owned()];
        row.valid = false;
    }
    for format in ["html", "svg", "markdown", "junit"] {
        let mut document = render(format, &run);
        if format == "markdown" {
            // Inside a fence, here the command line, nothing is markup.
            document = document.split("```").step_by(2).collect();
        }
        assert!(!document.contains("<script>alert"), "{format}");
        assert!(!document.contains("<img"), "{format}");
    }
    let page = render("html", &run);
    assert_eq!(page.matches("</script>").count(), 1, "the code, nothing else");
    for format in ["text", "svg", "markdown", "junit"] {
        assert!(!render(format, &run).contains('\u{1b}'), "{format}");
    }
}

#[test]
fn the_page_opens_with_what_became_of_the_lock_and_pairs_twins_the_worst_first() {
    let page = render("html", &quickstart());
    let said = |text: &str| text.to_owned();
    assert_eq!(between(&page, "<h1 class=\"lost\">", "</h1>"), ["Redis lost the lock in 3 of 7 set-ups"]);
    let head = page.split("<section id=\"matrix-h\"").next().expect("a beginning");
    assert!(head.contains("Two owners at once"), "{head}");
    for later in ["Seed", "Machine"] {
        assert!(!head.contains(&format!("<dt>{later}")), "{later} stands first");
    }
    let rows = between(&page, "<table class=\"matrix", "</table>").concat();
    let rows = between(&rows, "<th scope=\"row\">", "</tr>");
    let cells = rows.iter().map(|row| {
        let (place, rest) = row.split_once("</small></th>").expect("a head");
        let labels = between(rest, "\"><small>", "</b></a>");
        let labels = labels.iter();
        let labels = labels.map(|cell| said(&cell.replace("</small><b>", ": ")));
        format!("{} = {}", place.replace("<small>", ", "), labels.collect::<Vec<_>>().join(" | "))
    });
    assert_eq!(
        cells.collect::<Vec<_>>(),
        [
            "single, server killed = no persistence: contract ✗ belief ✗: lost for 2.11 s, 3 times | AOF, synced always: contract ✓ belief ✓: kept, 5.04 ms without a grant",
            "cluster, master killed, replication late = asynchronous: contract ✗ belief ✗: lost for 1.81 s, 3 times | wait:all: contract ✓ belief ✓: kept, 4.05 s without a grant",
            "sentinel, master killed, replication late = asynchronous: contract ✗ belief ✗: lost for 1.4 s, 3 times | wait:all: contract ✓ belief ✓: kept, 5.64 s without a grant",
            "masters, one master killed = a majority grants: contract ✓ belief ✓: kept, 56.7 ms without a grant",
            "single, no fault = broken:release-without-owner-check, a control: contract ✗ belief ✗: lost for 293 ms, 35 times",
        ]
    );
}

#[test]
fn figures_of_an_unsafe_lock_are_shown_nowhere() {
    let mut run = sample();
    run.rows.retain(|row| row.safety.state == State::Violated);
    assert!(!run.rows.is_empty());
    for row in &mut run.rows {
        row.cycles_per_s.median = 98_765.0;
    }
    for format in ["text", "markdown", "csv", "svg"] {
        let document = render(format, &run);
        assert!(!document.contains("98765"), "{format}");
    }
    let shown = render("html", &run);
    assert!(!shown.contains("98765"));
}

#[test]
fn an_empty_run_has_a_page_and_a_summary() {
    let run = Run::new("", "bench", Meta::default());
    for format in FORMATS {
        // There is nothing to draw, which is said and not drawn.
        assert_eq!(format.render(&run).is_ok(), format.name != "svg", "{}", format.name);
    }
}

#[test]
fn unknown_is_an_error_in_junit_and_never_a_pass() {
    let document = render("junit", &sample());
    assert!(document.contains("errors=\"1\""), "{document}");
    let mut run = sample();
    run.scenarios.clear();
    run.rows.clear();
    run.partial = true;
    assert!(render("junit", &run).contains("errors=\"1\""));
}

#[test]
fn a_row_is_a_case_in_junit_and_an_unsafe_or_invalid_one_is_no_success() {
    let mut run = sample();
    run.scenarios.clear();
    run.rows.truncate(1);
    let row = &mut run.rows[0];
    (row.valid, row.why_invalid) = (true, Vec::new());
    row.safety.state = State::Clean;
    let counts = |run: &Run| {
        let document = render("junit", run);
        let suite = between(&document, "<testsuite ", ">")[0].to_owned();
        let of = |name: &str| between(&suite, &format!(" {name}=\""), "\"")[0].to_owned();
        ["tests", "failures", "errors", "skipped"].map(of).join(" ")
    };
    assert_eq!(counts(&run), "1 0 0 0");
    let mut unsafe_run = run.clone();
    unsafe_run.rows[0].safety.state = State::Violated;
    unsafe_run.rows[0].valid = false;
    assert_eq!(counts(&unsafe_run), "1 1 0 0");
    run.rows[0].valid = false;
    run.rows[0].why_invalid = vec!["too few cycles: 3".to_owned()];
    assert_eq!(counts(&run), "1 0 1 0");
    assert!(render("junit", &run).contains("too few cycles: 3"));
    let mut valid = run.rows[0].clone();
    (valid.valid, valid.why_invalid) = (true, Vec::new());
    run.rows.push(valid);
    assert_eq!(counts(&run), "2 0 0 1", "beside one that is valid");
}

#[test]
fn a_run_is_made_again_with_its_seed_and_in_another_place() {
    let again = |words: &[&str]| {
        let mut run = Run::new("r", "chaos", Meta::default());
        run.meta.command_line = words.iter().map(|word| (*word).to_owned()).collect();
        run.meta.seed = 7;
        let text = render("markdown", &run);
        between(&text, "```sh\n", "\n```").first().map(|line| (*line).to_owned())
    };
    let given = ["locklab", "--out", "a b", "chaos", "--seed=7", "x.toml", "--out=c"];
    assert_eq!(again(&["locklab", "chaos", "x.toml"]).as_deref(), Some("locklab chaos x.toml --seed 7"));
    assert_eq!(again(&given).as_deref(), Some("locklab chaos --seed=7 x.toml"));
    assert_eq!(again(&[]), None);
}

#[test]
fn what_was_not_measured_is_a_dash_and_not_a_zero() {
    let run = Run { rows: vec![BenchRow::default()], ..Run::new("r", "bench", Meta::default()) };
    let rows = table(&run, "Benchmarks");
    assert_eq!(rows[0].iter().filter(|cell| *cell == "–").count(), 5, "{rows:?}");
}

#[test]
fn what_is_not_known_of_the_machine_leaves_no_gap_in_markdown() {
    let mut run = sample();
    run.meta.environment.servers.clear();
    run.meta.started_at.clear();
    let text = render("markdown", &run);
    let last = text.trim_end().lines().last().expect("a footer");
    assert!(last.contains("; Seed: 7; Machine: "), "{last}");
    assert!(!last.contains("Servers") && !last.contains("Started"), "{last}");
}

#[test]
fn a_run_counts_by_what_its_scenario_judges() {
    let verdict = |state| Verdict { state, ..Verdict::default() };
    let result = |contract: State, belief: State| ScenarioResult {
        name: "a".to_owned(),
        verdicts: Verdicts { contract: verdict(contract), belief: verdict(belief), ..Verdicts::default() },
        expected: [("contract".to_owned(), "clean".to_owned())].into(),
        as_expected: contract == State::Clean,
        ..ScenarioResult::default()
    };
    let text = report::text::tally_results(&[
        result(State::Clean, State::Violated),
        result(State::Violated, State::Clean),
        result(State::Unknown, State::Clean),
    ]);
    let words: Vec<&str> = text.lines().nth(1).expect("one scenario").split_whitespace().collect();
    assert_eq!(words, ["a", "3", "1", "1", "1", "1"]);
}
