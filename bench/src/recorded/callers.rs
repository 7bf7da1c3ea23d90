//! The callers of an open loop, from when each was due to its grant, or to the end of what was seen of it.

use std::collections::{BTreeSet, HashMap};

use results::open_loop::OpenLoopCall;

/// Everybody who was due, on the sink's clock.
#[derive(Default)]
pub(super) struct Callers {
    waiting: BTreeSet<u64>,
    calls: HashMap<u64, u64>,
    answered: Vec<OpenLoopCall>,
    ended_ns: Option<u64>,
}

impl Callers {
    /// A caller is due, whether or not a task is free to make its call.
    pub(super) fn due(&mut self, due_ns: u64) {
        self.waiting.insert(due_ns);
    }

    pub(super) fn calls(&mut self, call: u64, due_ns: u64) {
        self.calls.insert(call, due_ns);
    }

    /// An answer to a call; nothing of a call that was not due at a certain time.
    pub(super) fn answer(&mut self, call: u64, at_ns: u64, granted: bool) {
        let Some(due_ns) = self.calls.remove(&call) else { return };
        self.waiting.remove(&due_ns);
        self.answered.push(OpenLoopCall { due_ns, waited_ns: at_ns.saturating_sub(due_ns), granted });
    }

    pub(super) fn end(&mut self, at_ns: u64) {
        self.ended_ns.get_or_insert(at_ns);
    }

    /// All who were due before the load ended; one that has no answer waited at least until then.
    pub(super) fn waits(&self) -> Vec<OpenLoopCall> {
        let end_ns = self.ended_ns.unwrap_or(0);
        let unanswered = self.waiting.iter().filter(|due_ns| **due_ns < end_ns).map(|due_ns| OpenLoopCall {
            due_ns: *due_ns,
            waited_ns: end_ns - due_ns,
            granted: false,
        });
        self.answered.iter().copied().chain(unanswered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_was_due_is_left_out() {
        let mut callers = Callers::default();
        [10, 20, 30, 40, 100].into_iter().for_each(|due_ns| callers.due(due_ns));
        callers.calls(1, 10);
        callers.calls(2, 20);
        callers.calls(3, 30);
        callers.answer(1, 15, true);
        callers.answer(2, 60, false);
        callers.answer(9, 60, true);
        callers.end(90);
        let wait = |due_ns, waited_ns, granted| OpenLoopCall { due_ns, waited_ns, granted };
        // The third was never answered, for the fourth there was no task, the fifth was due after the end.
        let waits = [wait(10, 5, true), wait(20, 40, false), wait(30, 60, false), wait(40, 50, false)];
        assert_eq!(callers.waits(), waits);
    }
}
