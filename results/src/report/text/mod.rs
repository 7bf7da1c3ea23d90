//! The summary of a run for a terminal, and for `summary.txt`.
//!
//! | file | what it is for |
//! |---|---|
//! | `screen.rs` | a run on one screen |
//! | `summary.rs` | all of a run |
//! | `comparison.rs`, `gate.rs`, `watch.rs` | a comparison, a decision, a watch |
//! | `verdicts.rs` | verdicts on a history; how often scenarios came out how |
//! | `text_layout.rs` | tables, colours and sections |

mod comparison;
mod gate;
mod screen;
mod summary;
mod text_layout;
mod verdicts;
mod watch;

use itertools::Itertools;

pub use self::comparison::{comparison, pivot};
pub use self::gate::decision;
pub use self::screen::{ScreenOptions, screen};
pub use self::summary::{proofs, summary};
use self::text_layout::{GREY, paint, tone_color};
pub use self::text_layout::{columns, printable_report};
pub use self::verdicts::{tally, tally_results, verdicts};
use super::cells::printable;
use crate::answer::{Tone, parts, small_print};
use crate::record::run::Run;

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
        Self { width: 120, color: false }
    }
}

/// What became of the lock, in colours, and in grey whether scenarios came out as their files expect.
fn headline(run: &Run, details: bool) -> String {
    let parts = parts(run).into_iter().filter(|(tone, _)| details || *tone != Tone::Detail);
    let parts = parts.map(|(tone, words)| paint(tone_color(tone), &printable(&words)));
    let mut out = format!("{}.\n", parts.format("; "));
    for line in small_print(run) {
        out += &(paint(GREY, &printable(&line)) + "\n");
    }
    out
}
