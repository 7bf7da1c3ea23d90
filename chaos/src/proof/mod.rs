//! The proof of each violated verdict: a picture, and the shortest history that still convicts.
//!
//! | file | what it is for |
//! |---|---|
//! | `history_slice.rs`, `units.rs` | the shortest history, and what may be left out of one |
//! | `picture.rs` | the holds around an anomaly |

pub(crate) mod history_slice;
mod picture;
mod units;

use std::fs;
use std::io;
use std::path::Path;

use results::history::{History, Line};
use results::proof::Proof;
use results::timeline::TimelineData;
use results::verdict::{Anomaly, CLASSES, State, Verdicts};

use crate::checkers::{CheckOptions, CheckReport};

pub use history_slice::{HistorySlice, shortest};
pub(crate) use picture::hold_bar;

/// The directory of a scenario's proofs, beside its history.
pub const PROOF_DIR: &str = "proof";

/// Gives every violated verdict of the whole history its [`results::verdict::Verdict::proof`]. `history` and
/// `options` are those that were judged.
pub fn attach(report: &mut CheckReport, history: &History, options: &CheckOptions<'_>) {
    for class in CLASSES {
        let proof = prove(report, history, options, class);
        if let Some(verdict) = report.verdicts.get_mut(class) {
            verdict.proof = proof;
        }
    }
}

fn prove(report: &CheckReport, history: &History, options: &CheckOptions<'_>, class: &str) -> Option<Proof> {
    let verdict = report.verdicts.get(class)?;
    if verdict.state != State::Violated {
        return None;
    }
    let anomaly = gravest(&verdict.anomalies)?;
    let slice = shortest(history, options, class, anomaly);
    Some(Proof {
        timeline: picture::around(report, class, anomaly, options.drift)?,
        of_lines: history.lines.len() as u64,
        shortest: slice.as_ref().is_some_and(|slice| slice.shortest),
        slice: slice.map_or(Vec::new(), |slice| slice.history.lines.iter().map(Line::to_json).collect()),
    })
}

/// The anomaly that a proof is about: the longest overlap, else the longest; the first of equals.
fn gravest(anomalies: &[Anomaly]) -> Option<&Anomaly> {
    let rank = |anomaly: &&Anomaly| {
        let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
        (anomaly.what == "overlap", length_ns, std::cmp::Reverse(anomaly.from_ns))
    };
    anomalies.iter().max_by_key(rank)
}

/// The picture of the gravest class that has one with two holds at once; else of any.
pub(crate) fn gravest_picture(verdicts: &Verdicts) -> Option<TimelineData> {
    let of = |class: &str| Some(verdicts.get(class)?.proof.as_ref()?.timeline.clone());
    ["contract", "confirmed", "belief", "effect", "liveness"].into_iter().find_map(of)
}

/// Writes the proofs of a history into `dir`: per violated class the slice (`.jsonl`), the drawing (`.txt`)
/// and the picture (`.svg`).
pub fn write(verdicts: &Verdicts, dir: &Path) -> io::Result<()> {
    let proofs =
        verdicts.iter().filter_map(|(class, verdict)| Some((class, verdict, verdict.proof.as_ref()?)));
    for (class, verdict, proof) in proofs {
        fs::create_dir_all(dir)?;
        if !proof.slice.is_empty() {
            fs::write(dir.join(format!("{class}.jsonl")), proof.history())?;
        }
        let words = gravest(&verdict.anomalies).map_or("", |anomaly| anomaly.proof.as_str());
        let text = format!("{class}: {words}\n\n{}", proof.text());
        fs::write(dir.join(format!("{class}.txt")), text)?;
        let picture = results::svg::timeline(&proof.timeline).document();
        fs::write(dir.join(format!("{class}.svg")), picture)?;
    }
    Ok(())
}
