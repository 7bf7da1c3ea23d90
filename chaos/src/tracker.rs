//! Watches the entries that pass into the history for what faults need to know: who holds now.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bench::sink::{HistorySink, Sink};
use results::history::{Call, End, Entry, Event};

/// A history that also knows its present holders.
pub(crate) struct Tracker {
    history: HistorySink,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Clients of acquires in flight, by id.
    asked: HashMap<u64, String>,
    /// Grant and client, the oldest grant first.
    holders: Vec<(String, String)>,
}

impl Tracker {
    pub(crate) fn new(history: HistorySink) -> Self {
        Self {
            history,
            state: Mutex::default(),
        }
    }

    /// The client whose grant is the oldest that was neither released nor lost.
    pub(crate) fn holder(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.holders.first().map(|(_, client)| client.clone())
    }

    /// See [`HistorySink::finish`].
    pub(crate) fn finish(&self) -> Result<u64, String> {
        self.history.finish()
    }

    fn follow(&self, entry: &Entry) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match entry {
            Entry::Call { id, call } => match call {
                Call::Acquire(acquire) => {
                    state.asked.insert(*id, acquire.client.clone());
                }
                Call::Release { grant } => state.holders.retain(|(held, _)| held != grant),
                _ => {}
            },
            Entry::End { id, end } => {
                if let (
                    Some(client),
                    End::Ok {
                        grant: Some(grant), ..
                    },
                ) = (state.asked.remove(id), end)
                {
                    state.holders.push((grant.clone(), client));
                }
            }
            Entry::Event(Event::Lost { grant, .. }) => {
                state.holders.retain(|(held, _)| held != grant);
            }
            Entry::Event(Event::Crash { client }) => {
                state.holders.retain(|(_, of)| of != client);
                state.asked.retain(|_, of| of != client);
            }
            _ => {}
        }
    }
}

impl Sink for Tracker {
    fn record(&self, entry: Entry) -> u64 {
        self.follow(&entry);
        self.history.record(entry)
    }

    fn ns(&self, at: Instant) -> u64 {
        self.history.ns(at)
    }
}
