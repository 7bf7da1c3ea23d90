//! Turns what a run writes and counts anyway into a screen that follows it: `--tui` of `bench` and `chaos`.
//!
//! The measured path does nothing for it. A scenario is followed by reading its `history.jsonl`, which is written line by line whether
//! somebody reads it or not; a benchmark by loads of atomic counters that its sampler reads a hundred times as often.
//!
//! The screen is an optional feature, so that nobody compiles it who does not want it; without it the flag says how to get it.

#[cfg(not(feature = "tui"))]
mod absent;
#[cfg(feature = "tui")]
mod follow;
#[cfg(feature = "tui")]
mod model;
#[cfg(feature = "tui")]
mod screen;
#[cfg(feature = "tui")]
mod tty;
#[cfg(feature = "tui")]
mod view;

#[cfg(not(feature = "tui"))]
pub(crate) use absent::{Live, restore};
#[cfg(feature = "tui")]
pub(crate) use tty::restore;
#[cfg(feature = "tui")]
pub(crate) use view::Live;

use std::sync::{Arc, Mutex, PoisonError};

/// Lines that would have gone to standard error while the screen has it; `None` while nothing has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diverted(Arc<Mutex<Option<Vec<String>>>>);

impl Diverted {
    /// Keeps a line, or gives it back where lines are not diverted.
    pub(crate) fn take<'a>(&self, line: &'a str) -> Option<&'a str> {
        match self.lock().as_mut() {
            Some(kept) => {
                kept.push(line.to_owned());
                None
            }
            None => Some(line),
        }
    }

    /// Lines from now on are kept.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub(crate) fn begin(&self) {
        self.lock().get_or_insert_default();
    }

    /// The last of them.
    #[cfg_attr(not(feature = "tui"), allow(dead_code))]
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let kept = self.lock();
        let lines = kept.as_deref().unwrap_or_default();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    /// All of them; from now on none is kept.
    pub(crate) fn end(&self) -> Vec<String> {
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
