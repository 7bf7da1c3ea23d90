//! Watches the entries that pass into the history for what faults need to know: who holds now, and what a
//! message on the wire is about.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bench::sink::{HistorySink, Sink};
use cluster_config::{Label, Labels, MessagePassage, MessageWords};
use results::history::Entry;

use crate::roles::Roles;

/// A history that also knows what is in flight and who holds.
pub(crate) struct Tracker {
    pub(crate) history: HistorySink,
    roles: Mutex<Roles>,
}

impl Tracker {
    pub(crate) fn new(history: HistorySink) -> Self {
        Self { history, roles: Mutex::default() }
    }

    /// The client whose grant is the oldest that was neither released nor lost.
    pub(crate) fn holder(&self) -> Option<String> {
        self.roles().holder().map(str::to_owned)
    }

    /// How many commands named a lock and could have been of several roles.
    pub(crate) fn unclear(&self) -> u64 {
        self.roles().unclear()
    }

    fn roles(&self) -> MutexGuard<'_, Roles> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Tracker {
    fn record(&self, entry: Entry) -> u64 {
        self.roles().follow(&entry);
        self.history.record(entry)
    }

    fn ns(&self, at: Instant) -> u64 {
        self.history.ns(at)
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

impl Labels for Tracker {
    fn command(&self, passage: MessagePassage<'_>, words: &MessageWords) -> (Label, Label) {
        self.roles().command(passage, words)
    }

    fn push(&self, passage: MessagePassage<'_>, words: &MessageWords) -> Label {
        self.roles().push(passage, words)
    }
}
