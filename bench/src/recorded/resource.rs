//! What a lock protects in a scenario: a counter that shows lost updates, a register that checks tokens.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use results::history::{Entry, Event};

use crate::sink::Sink;

/// The protected resources of a run, one counter and one register per lock, in the harness's memory.
#[derive(Debug, Default)]
pub(super) struct Resources {
    counters: Mutex<HashMap<String, i64>>,
    registers: Mutex<HashMap<String, AcceptedToken>>,
}

#[derive(Debug)]
struct AcceptedToken {
    token: u64,
    grant: String,
}

impl Resources {
    pub(super) fn read(&self, lock: &str) -> i64 {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).get(lock).copied().unwrap_or(0)
    }

    /// Writes what was read plus one, unsynchronised on purpose: two holders lose an update. The record is
    /// made under the counter's mutex, so that writes stand in the history in their order.
    pub(super) fn write(&self, lock: &str, grant: &str, token: Option<u64>, read: i64, sink: &dyn Sink) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let wrote = read + 1;
        counters.insert(lock.to_owned(), wrote);
        sink.record(Entry::Event(Event::Write {
            lock: lock.to_owned(),
            grant: grant.to_owned(),
            token,
            accepted: true,
            read: Some(read),
            wrote: Some(wrote),
        }));
    }

    /// Shows a token to the register, which takes a higher one than before, or an equal one of the same hold.
    pub(super) fn show(&self, lock: &str, grant: &str, token: u64, sink: &dyn Sink) {
        let mut registers = self.registers.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = registers
            .get(lock)
            .is_none_or(|taken| token > taken.token || (token == taken.token && grant == taken.grant));
        if accepted {
            registers.insert(lock.to_owned(), AcceptedToken { token, grant: grant.to_owned() });
        }
        sink.record(Entry::Event(Event::Write {
            lock: lock.to_owned(),
            grant: grant.to_owned(),
            token: Some(token),
            accepted,
            read: None,
            wrote: None,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[derive(Default)]
    struct RecordingSink(Mutex<Vec<Entry>>);

    impl Sink for RecordingSink {
        fn record(&self, entry: Entry) -> u64 {
            let mut kept = self.0.lock().unwrap();
            kept.push(entry);
            kept.len() as u64
        }

        fn ns(&self, _at: Instant) -> u64 {
            0
        }
    }

    fn accepted(kept: &RecordingSink) -> Vec<bool> {
        let kept = kept.0.lock().unwrap();
        kept.iter().map(|entry| matches!(entry, Entry::Event(Event::Write { accepted: true, .. }))).collect()
    }

    #[test]
    fn a_register_refuses_a_token_that_is_not_higher_than_another_holds() {
        let resources = Resources::default();
        let kept = RecordingSink::default();
        for (grant, token) in [("a", 5), ("a", 5), ("b", 5), ("b", 6), ("a", 5)] {
            resources.show("orders", grant, token, &kept);
        }
        assert_eq!(accepted(&kept), [true, true, false, true, false]);
    }

    #[test]
    fn a_counter_loses_an_update_of_two_that_read_the_same() {
        let resources = Resources::default();
        let kept = RecordingSink::default();
        let (first, second) = (resources.read("orders"), resources.read("orders"));
        resources.write("orders", "a", None, first, &kept);
        resources.write("orders", "b", None, second, &kept);
        assert_eq!(resources.read("orders"), 1, "two writes, one of them lost");
    }
}
