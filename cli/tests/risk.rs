//! `risk` answers with a figure for each configuration, and says what it lacks.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use support::{code, run, stderr, stdout};

const SERVICE: [&str; 10] = [
    "--outage", "2.2s", "--lag", "20ms", "--grants", "50/s", "--hold", "5s", "--lease", "30s",
];

fn said(args: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &[&["risk"], args].concat());
    (code(&output), stdout(&output), stderr(&output))
}

fn doubles(json: &str, name: &str) -> (f64, f64, f64) {
    let json: Value = serde_json::from_str(json).unwrap();
    let all = json["configurations"].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == name);
    let found = &found.unwrap_or_else(|| panic!("{json:#}"))["double_grants_per_year"];
    let figure = |field: &str| found[field].as_f64().unwrap();
    (figure("low"), figure("estimate"), figure("high"))
}

#[test]
fn each_configuration_has_its_figures_and_a_range_gives_an_interval() {
    let (ended, json, why) = said(&[&["--json", "--failovers", "4/year"], &SERVICE[..]].concat());
    assert_eq!(ended, 0, "{why}");
    let (low, estimate, high) = doubles(&json, "sentinel, asynchronous");
    assert!((2.5..2.7).contains(&estimate) && low == high, "{json}");
    assert_eq!(doubles(&json, "sentinel, wait:all").1, 0.0);
    let ranged = [&["--json", "--failovers", "2/year..8/year"], &SERVICE[..]].concat();
    let (_, json, _) = said(&ranged);
    let (low, estimate, high) = doubles(&json, "sentinel, asynchronous");
    assert!(low < estimate && estimate < high, "{json}");
    let (ended, text, _) = said(&[&["--failovers", "4/year"], &SERVICE[..]].concat());
    assert_eq!(ended, 0);
    assert!(
        text.contains("sentinel, asynchronous") && text.contains("2.6"),
        "{text}"
    );
}

#[test]
fn what_is_missing_contradictory_or_out_of_range_is_one_message() {
    let (ended, _, why) = said(&["--lag", "20ms"]);
    assert_eq!(ended, 64);
    assert!(
        why.contains("--failovers 4/year --outage 2.2s --grants 50/s"),
        "{why}"
    );
    let short = [
        "--failovers",
        "4/year",
        "--outage",
        "1s",
        "--lag",
        "1ms",
        "--grants",
        "1/s",
        "--hold",
        "30s",
        "--lease",
        "10s",
    ];
    let (ended, _, why) = said(&short);
    assert_eq!(ended, 64);
    assert!(why.contains("--renewed"), "{why}");
    assert_eq!(said(&[&short[..], &["--renewed"]].concat()).0, 0);
    for wrong in [
        ["--failovers", "4"],
        ["--machine-share", "110%"],
        ["--lag", "5s..1s"],
    ] {
        let (ended, _, why) = said(&[&SERVICE[..], &wrong[..]].concat());
        assert_eq!(ended, 64, "{wrong:?}: {why}");
    }
}

#[test]
fn the_page_of_the_book_has_the_figures_of_its_command() {
    let (_, text, _) = said(&[&["--failovers", "4/year"], &SERVICE[..]].concat());
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/risk.md"));
    let page = page.unwrap();
    let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
    for row in rows {
        let cells: Vec<&str> = row
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let row = format!("| {} |", cells[..4].join(" | "));
        assert!(page.contains(&row), "{row}");
    }
}
