//! The summary of a run for a terminal, and for `summary.txt`.

mod audit;
mod bench;
mod comparison;
mod gate;
mod scenarios;
mod screen;
mod text_layout;

use itertools::Itertools;

pub use self::comparison::{comparison, pivot};
pub use self::gate::decision;
pub use self::scenarios::{faults, proofs};
pub use self::screen::{ScreenOptions, screen};
use self::text_layout::{GREY, finish, paint, section, tone_color};
use super::cells::printable;
use crate::answer::{Tone, parts, small_print};
use crate::run::Run;

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

/// The summary, all of it: the answer, warnings, the verdict of every scenario with the proofs that matter, benchmark rows and comparisons.
pub fn summary(run: &Run, options: TextOptions) -> String {
    let mut out = headline(run, true);
    for warning in &run.warnings {
        out.push_str(&text_layout::warning(warning));
    }
    if run.partial {
        let cut = "the run was cut short: what follows was measured until then";
        out.push_str(&text_layout::warning(cut));
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
    finish(&out, options.color)
}

/// What became of the lock, in colours, and in grey whether scenarios came out as their files expect.
fn headline(run: &Run, details: bool) -> String {
    let parts = parts(run).into_iter();
    let parts = parts.filter(|(tone, _)| details || *tone != Tone::Detail);
    let parts = parts.map(|(tone, words)| paint(tone_color(tone), &printable(&words)));
    let mut out = format!("{}.\n", parts.format("; "));
    for line in small_print(run) {
        out += &(paint(GREY, &printable(&line)) + "\n");
    }
    out
}
