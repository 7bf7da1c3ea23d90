//! The summary of a run for a terminal, and for `summary.txt`.

mod audit;
mod bench;
mod comparison;
mod gate;
mod paper;
mod scenarios;

pub use self::comparison::{comparison, pivot};
pub use self::gate::decision;
use self::paper::{finish, outcome_color, paint, section};
pub use self::scenarios::{faults, proofs};
use super::cells::{self, printable};
use super::table;
use crate::answer::answer;
use crate::run::{Outcome, Run};

/// How the summary is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal; tables wrap their cells to stay within it. Below 60 they need 60.
    pub width: u16,
    /// Whether to colour what is as expected, what is not, and what is unknown.
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            width: 120,
            color: false,
        }
    }
}

/// The summary: the answer, warnings, the verdict of every scenario with the proofs that matter, benchmark rows and comparisons.
pub fn summary(run: &Run, options: TextOptions) -> String {
    let mut out = format!("{}\n", printable(&answer(run)));
    for warning in &run.warnings {
        out.push_str(&paper::warning(warning));
    }
    if run.partial {
        let cut = "the run was cut short: what follows was measured until then";
        out.push_str(&paper::warning(cut));
    }
    let parts = run.parts.iter().map(ToString::to_string);
    let skipped = run.not_applicable.iter().map(ToString::to_string);
    for line in parts.chain(skipped) {
        out += &format!("- {}\n", printable(&line));
    }
    let audit = run.audit.iter();
    for card in audit.flat_map(|audit| audit::scorecard(run, audit, options.width)) {
        section(&mut out, &card);
    }
    if !run.scenarios.is_empty() && run.audit.is_none() {
        section(&mut out, &scenarios::servers(run, options.width));
        section(&mut out, &scenarios::verdict_table(run, options.width));
        section(&mut out, &scenarios::reasons(run));
        section(&mut out, &scenarios::recovery_table(run, options.width));
        section(&mut out, &scenarios::open_loops(run, options.width));
        section(&mut out, &scenarios::repeats(run));
    }
    if !run.rows.is_empty() {
        section(&mut out, &bench::bench_table(run, options.width));
        section(&mut out, &bench::invalid(run));
        for table in table::costs(run) {
            section(&mut out, &bench::cost_table(&table, options.width));
        }
        // A sweep has many rows of one kind: its curve says what matters. The bench of an audit is short.
        if run.sweeps.is_empty() && run.audit.is_none() {
            section(&mut out, &bench::more(run, options.width));
        }
    }
    for sweep in &run.sweeps {
        section(&mut out, &bench::sweep(sweep, options.width));
    }
    if !run.comparisons.is_empty() {
        section(&mut out, &bench::comparison_table(run, options.width));
    }
    let outcome = run.outcome();
    if outcome != Outcome::None {
        let words = paint(outcome_color(outcome), &cells::outcome(outcome));
        section(&mut out, &words);
    }
    finish(&out, options.color)
}
