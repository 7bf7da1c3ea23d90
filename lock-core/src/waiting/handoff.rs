//! The hand-off: a release names the next waiters of its own client, and notifies them of what came of it.
//!
//! Of a kind where a client has one place in the line for all, a release says who is to have the lock if
//! nobody of another client came before it, and who stands in the place then. So a lock goes from task to
//! task by the command that gives it back.

use std::sync::Arc;

use crate::clock::Instant;
use crate::hold::Hold;
use crate::hold::release::{Open, ReleaseReason};
use crate::kind::{ReleaseAnswer, Successor};
use crate::waiting::queue::WaitQueue;

/// The waiters that a release on its way has named. Dropped without an answer it counts as one that was lost.
#[derive(Debug)]
pub(crate) struct Handoff {
    queue: Option<Arc<WaitQueue>>,
    holds: Vec<Arc<Hold>>,
    said: Vec<Successor>,
    /// The answer is still to come.
    open: bool,
}

impl Handoff {
    /// Of a hold whose release is sent until `deadline`, or its undo.
    pub(crate) fn of(hold: &Hold, deadline: Instant) -> Self {
        let line = hold.lock.format.line().filter(|line| line.shares_place());
        let Some(queue) = line.and_then(|_| hold.client().wait_queues.queue(&hold.lock)) else {
            return Handoff::none();
        };
        let (holds, said) = queue.successors(hold);
        if !holds.is_empty() {
            hold.stand_in_line(queue.is_subscribed());
        }
        for successor in &holds {
            successor.may_last(deadline, successor.lease);
        }
        Handoff { open: !holds.is_empty(), queue: Some(queue), holds, said }
    }

    /// Of a release that names nobody.
    pub(crate) fn none() -> Self {
        Handoff { queue: None, holds: Vec::new(), said: Vec::new(), open: false }
    }

    pub(crate) fn said(&self) -> &[Successor] {
        &self.said
    }

    /// The release was answered; the question for it was sent at `sent_at`.
    pub(crate) fn tell(mut self, given: ReleaseAnswer, sent_at: Instant) {
        self.open = false;
        let (Some(queue), Some(first)) = (&self.queue, self.said.first()) else {
            return;
        };
        match given {
            ReleaseAnswer::Passed { token } | ReleaseAnswer::Inherited { token } => {
                // Before the first one leaves, so that the second need not ask.
                if let Some(second) = self.said.get(1)
                    && !queue.placed(&second.owner, None)
                {
                    give_back(&self.holds[1], ReleaseReason::Undo);
                }
                if !queue.call(&first.owner, token, first.lease, Some(sent_at)) {
                    give_back(&self.holds[0], ReleaseReason::Undo);
                }
            }
            // One that has left gave its place up itself, perhaps before this release came.
            ReleaseAnswer::Freed if !queue.placed(&first.owner, None) => {
                give_back(&self.holds[0], ReleaseReason::Undo);
            }
            // An earlier undo may have given the client's place up under later waiters: their first asks.
            ReleaseAnswer::Absent => {
                queue.ask_again(&first.owner);
            }
            ReleaseAnswer::Freed | ReleaseAnswer::Kept => {}
        }
    }
}

impl Drop for Handoff {
    /// Nobody knows: the first one asks, and one that waits no more gives back what it may have got.
    fn drop(&mut self) {
        let Some(queue) = self.queue.as_ref().filter(|_| self.open) else {
            return;
        };
        for (hold, said) in self.holds.iter().zip(&self.said) {
            hold.unsettled.set(true);
            if !queue.ask_again(&said.owner) {
                give_back(hold, ReleaseReason::UndoNamed);
            }
        }
    }
}

/// A hold that nobody waits for any more may have been granted; to a question of its own, it stays.
fn give_back(hold: &Arc<Hold>, giving: ReleaseReason) {
    if hold.is_asked() {
        Open::new(hold, giving).add_all();
    }
}
