//! Runs that earlier versions published: they load and render, and every figure that README and book quote is
//! in the run that they name.

use std::fs;
use std::path::{Path, PathBuf};

use results::report::FORMATS;
use results::store;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn published_runs_load_and_render_in_every_format() {
    let published = root().join("results/published");
    let mut seen = 0;
    for entry in fs::read_dir(published).expect("the directory") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            continue;
        }
        seen += 1;
        // Of an audit its document is kept, and the page as it was made.
        if path.join("audit.json").is_file() {
            assert!(path.join("report.html").is_file(), "{}", path.display());
            continue;
        }
        let run = store::load_dir(&path).expect("a run of an earlier version");
        for format in FORMATS {
            let document = format.render(&run).expect("a document");
            // Where nothing was lost, one annotation says so.
            let least = if format.name == "annotations" { 20 } else { 100 };
            assert!(document.len() > least, "{}", format.name);
        }
    }
    assert!(seen > 0, "there is no published run");
}

/// A figure of a text: its digits, the decimals that it has, and the unit behind it.
#[derive(Debug, Clone, PartialEq)]
struct Quoted {
    text: String,
    value: f64,
    decimals: usize,
    unit: String,
}

/// The figures of a text, without those that are part of a word, such as `p50`.
fn quoted(text: &str) -> Vec<Quoted> {
    let letters: Vec<char> = text.chars().collect();
    let mut figures = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if !letters[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        let part_of_number = |at: usize| {
            letters[at].is_ascii_digit()
                || (matches!(letters[at], '.' | ',') && letters.get(at + 1).is_some_and(char::is_ascii_digit))
        };
        while at < letters.len() && part_of_number(at) {
            at += 1;
        }
        let in_word = start > 0 && (letters[start - 1].is_alphanumeric() || letters[start - 1] == '_');
        if in_word {
            continue;
        }
        let text: String = letters[start..at].iter().filter(|c| **c != ',').collect();
        let after: String = letters[at..].iter().take(4).collect();
        let unit = after.trim_start_matches([' ', '\u{a0}']);
        let unit: String = unit.chars().take_while(|c| c.is_alphabetic()).collect();
        figures.push(Quoted {
            value: text.parse().expect("digits"),
            decimals: text.split_once('.').map_or(0, |(_, decimals)| decimals.len()),
            unit,
            text,
        });
    }
    figures
}

/// Every number of a run but the counted samples, among which anything can be found.
fn numbers(value: &serde_json::Value, into: &mut Vec<f64>) {
    match value {
        serde_json::Value::Number(number) => into.extend(number.as_f64()),
        serde_json::Value::Array(all) => all.iter().for_each(|one| numbers(one, into)),
        serde_json::Value::Object(fields) => {
            let told = fields.iter().filter(|(name, _)| *name != "raw");
            told.for_each(|(_, value)| numbers(value, into));
        }
        _ => {}
    }
}

fn is_in(figure: &Quoted, numbers: &[f64]) -> bool {
    // Times are kept in nanoseconds, CPU in microseconds.
    let scales: &[f64] = match figure.unit.as_str() {
        "ms" => &[1e-6],
        "s" => &[1e-9],
        "µs" => &[1.0, 1e-3],
        _ => &[1.0],
    };
    let half = 0.5 * 10_f64.powi(-(figure.decimals as i32)) * 1.000_001;
    numbers.iter().any(|number| scales.iter().any(|scale| (number * scale - figure.value).abs() <= half))
}

/// Stretches between `<!-- figures: DIRECTORY -->` and `<!-- /figures -->`.
fn stretches(text: &str) -> Vec<(&str, &str)> {
    text.split("<!-- figures: ")
        .skip(1)
        .map(|rest| {
            let (directory, rest) = rest.split_once(" -->").expect("the mark has an end");
            let (stretch, _) = rest.split_once("<!-- /figures -->").expect("the stretch has an end");
            (directory, stretch)
        })
        .collect()
}

#[test]
fn every_figure_that_is_quoted_is_in_the_run_that_is_named() {
    let mut pages = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs/src")).expect("the book") {
        pages.push(entry.expect("an entry").path());
    }
    let mut seen = 0;
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for (directory, stretch) in stretches(&text) {
            let file = root().join(directory).join("run.json");
            let kept = fs::read_to_string(&file).expect("the run that is named");
            let kept = serde_json::from_str(&kept).expect("json");
            let mut known = Vec::new();
            numbers(&kept, &mut known);
            for figure in quoted(stretch) {
                seen += 1;
                assert!(
                    is_in(&figure, &known),
                    "{}: {} {} is not in {}",
                    page.display(),
                    figure.text,
                    figure.unit,
                    file.display()
                );
            }
        }
    }
    assert!(seen > 20, "the README quotes figures, and {seen} were found");
}

#[test]
fn figures_are_found_with_their_units_and_wrong_ones_are_not_in_a_run() {
    let found = quoted("| 12,902 (10,328–13,644) | 0.59 ms / p50 | 50 µs |");
    let texts: Vec<&str> = found.iter().map(|figure| figure.text.as_str()).collect();
    assert_eq!(texts, ["12902", "10328", "13644", "0.59", "50"]);
    assert_eq!(found[3].unit, "ms");
    assert!(is_in(&found[3], &[591_359.0]));
    assert!(!is_in(&found[3], &[601_359.0]));
    assert!(!is_in(&found[0], &[12_903.0]));
}
