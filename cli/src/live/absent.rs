//! Turns `--tui` of a build without the screen into one message that says how to get it.

use std::path::Path;
use std::sync::Arc;

use bench::live::LiveLoad;

use super::Diverted;
use crate::exit;

/// The screen, of which there is none in this build.
pub(crate) enum Live {}

impl Live {
    /// # Errors
    /// Always: wrong usage of this build.
    pub(crate) fn start(_title: &str, _diverted: Diverted) -> anyhow::Result<Self> {
        Err(exit::usage(
            "this locklab was built without the live screen; `cargo build --release -p cli --features tui` builds one with it",
        ))
    }

    pub(crate) fn follow(&self, _name: &str, _history: &Path) {
        match *self {}
    }

    pub(crate) fn load(&self) -> Arc<LiveLoad> {
        match *self {}
    }

    pub(crate) fn progress(&self, _done: usize, _total: usize, _now: &str) {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }
}

/// Nothing was changed, so nothing is given back.
pub(crate) fn restore() {}
