//! Documents of a run. One format per file, one row per format in [`FORMATS`]; each reads the run alone.
//!
//! | file | what it is for |
//! |---|---|
//! | `document.rs`, `sections/` | what a document says, whatever its form |
//! | `cells.rs`, `measures.rs`, `fault_words.rs` | parts of it in words |
//! | `charts.rs`, `two_owners.rs` | its pictures |
//! | `html.rs`, `markdown.rs`, `text/` | forms for people |
//! | `csv.rs`, `junit.rs`, `annotations.rs`, `audit_document.rs` | forms for programs |
//! | `index.rs` | the page that lists all runs |

mod annotations;
mod audit_document;
mod cells;
mod charts;
mod csv;
mod document;
mod fault_words;
mod html;
mod index;
pub mod junit;
mod markdown;
mod measures;
mod sections;
pub mod text;
mod two_owners;

use std::collections::BTreeMap;
use std::path::Path;

use itertools::Itertools;
use serde_json::Value;

pub use audit_document::{AuditDocument, WatchDocument};
pub use cells::rates;
pub use cells::{printable_json, printable_lines, printable_message};
pub use index::index;

use crate::answer::{answer, lost};
use crate::record::run::Run;
use crate::svg;

/// Why a document could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot render {format}: {message}")]
pub struct ReportError {
    /// The format's name.
    pub format: &'static str,
    /// What went wrong.
    pub message: String,
    /// The run holds nothing that the format shows: no defect, and another format fits.
    pub is_of_run: bool,
}

/// Why a renderer made no document.
enum Fault {
    /// The run holds nothing that the format shows.
    Nothing(&'static str),
    Defect(String),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Fault::Defect(message)
    }
}

fn number_among<K: Ord>(known: &mut BTreeMap<K, u32>, key: K) -> u32 {
    let number = known.entry(key).or_default();
    *number += 1;
    *number
}

/// A form that a run can be given.
#[derive(Debug)]
pub struct Format {
    /// The name after `--format`.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    render: fn(&Run) -> Result<String, Fault>,
}

impl Format {
    /// The document, with a newline at its end. The same run gives the same bytes.
    pub fn render(&self, run: &Run) -> Result<String, ReportError> {
        (self.render)(run).map_err(|fault| ReportError {
            format: self.name,
            is_of_run: matches!(fault, Fault::Nothing(_)),
            message: match fault {
                Fault::Defect(message) => message,
                Fault::Nothing(what) => {
                    let others = FORMATS.iter().filter(|other| other.name != self.name);
                    let others = others.map(|other| other.name).join(", ");
                    format!("the run holds {what}; these formats show what it holds: {others}")
                }
            },
        })
    }
}

/// The page for a browser.
pub static HTML: Format = Format {
    name: "html",
    about: "one page for a browser, with charts and proofs",
    render: |run| Ok(html::render(run)?),
};

/// All forms, in the order in which they are listed.
pub static FORMATS: [&Format; 8] = [
    &HTML,
    &Format {
        name: "markdown",
        about: "tables and proofs, for a CI summary or a comment",
        render: |run| Ok(markdown::render(run)),
    },
    &Format {
        name: "junit",
        about: "one test case per scenario and row: a lock that was lost or a file that was not met is a failure, unknown an error",
        render: |run| Ok(junit::render(run)?),
    },
    &Format {
        name: "annotations",
        about: "an error or a warning per scenario and row that JUnit has one for, as commands of a GitHub runner",
        render: |run| Ok(annotations::render(run)),
    },
    &Format {
        name: "csv",
        about: "one figure per line: part, subject, topology, name, tasks, metric, value, low, high, kind, added_rtt_ns, run, number",
        render: |run| Ok(csv::render(run)),
    },
    &Format { name: "json", about: "everything, for programs", render: |run| Ok(json(run)?) },
    &Format {
        name: "svg",
        about: "the charts alone, below each other; of an audit its badge",
        render: |run| match &run.audit {
            Some(audit) => Ok(svg::badge(audit)),
            None => charts::document(run),
        },
    },
    &Format {
        name: "text",
        about: "the summary, as on the terminal",
        render: |run| Ok(text::summary(run, text::TextOptions::default())),
    },
];

/// A run as programs get it: the fields of `run.json`, the answer, and where the lock was lost.
pub fn answered(run: &Run) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(run)?;
    document["answer"] = answer(run).into();
    document["lost"] = lost(run).into();
    for (number, result) in run.scenarios.iter().enumerate() {
        document["scenarios"][number]["lost"] = result.is_lost().into();
    }
    Ok(document)
}

fn json(run: &Run) -> Result<String, String> {
    let text = match AuditDocument::of(run) {
        Some(document) => serde_json::to_string_pretty(&document),
        None => answered(run).and_then(|document| serde_json::to_string_pretty(&document)),
    };
    Ok(text.map_err(|error| error.to_string())? + "\n")
}

/// The format of a name; `None` if there is none.
pub fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.into_iter().find(|format| format.name == name)
}

/// The format that the ending of a file's name says; HTML where it says none.
pub fn format_of(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("md") => "markdown",
        Some("xml") => "junit",
        Some("txt") => "text",
        Some(end) => by_name(end).map_or("html", |format| format.name),
        None => "html",
    }
}
