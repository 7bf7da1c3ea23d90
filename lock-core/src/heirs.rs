//! Turns a release into a hand-off: names those of the same client who wait next, and tells them what came of it.
//!
//! Of a kind where a client has one place in the line for all, a release says who is to have the lock if nobody of another client
//! came before it, and who stands in the place then. So a lock goes from task to task by the command that gives it back.

use std::sync::Arc;

use crate::{
    clock::Instant,
    hold::Hold,
    kind::{Given, Heir},
    queue::Post,
    release::{Giving, Open},
};

/// Those whom a release on its way has named. Dropped without an answer it counts as one that was lost.
#[derive(Debug)]
pub(crate) struct Heirs {
    post: Option<Arc<Post>>,
    holds: Vec<Arc<Hold>>,
    said: Vec<Heir>,
    /// What came of it is still to be told.
    open: bool,
}

impl Heirs {
    /// Of a hold whose release is sent until `deadline`.
    pub(crate) fn of(hold: &Hold, deadline: Instant) -> Self {
        let line = hold.lock.form.line().filter(|line| line.shares_place());
        let Some(post) = line.and_then(|_| hold.client().posts.post(&hold.lock)) else {
            return Heirs::none();
        };
        let (holds, said) = post.heirs();
        if !holds.is_empty() {
            hold.stand_in_line(post.is_subscribed());
        }
        for heir in &holds {
            heir.may_last(deadline, heir.lease);
        }
        Heirs {
            open: !holds.is_empty(),
            post: Some(post),
            holds,
            said,
        }
    }

    /// Of what gives the lock to whoever comes next.
    pub(crate) fn none() -> Self {
        Heirs {
            post: None,
            holds: Vec::new(),
            said: Vec::new(),
            open: false,
        }
    }

    /// What the release says of them.
    pub(crate) fn said(&self) -> &[Heir] {
        &self.said
    }

    /// The release was answered; the question for it was sent at `sent_at`.
    pub(crate) fn tell(mut self, given: Given, sent_at: Instant) {
        self.open = false;
        let (Some(post), Some(first)) = (&self.post, self.said.first()) else {
            return;
        };
        match given {
            Given::Passed { token } | Given::Inherited { token } => {
                // Before the first one leaves, so that the second need not ask.
                if let Some(second) = self.said.get(1) {
                    post.placed(&second.owner);
                }
                if !post.call(&first.owner, token, first.lease, Some(sent_at)) {
                    give_back(&self.holds[0]);
                }
            }
            Given::Freed => post.placed(&first.owner),
            Given::Kept | Given::Absent => {}
        }
    }
}

impl Drop for Heirs {
    /// Nobody knows: the first one asks, and one that waits no more gives back what it may have got.
    fn drop(&mut self) {
        let Some(post) = self.post.as_ref().filter(|_| self.open) else {
            return;
        };
        for (hold, said) in self.holds.iter().zip(&self.said) {
            hold.unsettle();
            if !post.ask_again(&said.owner) {
                give_back(hold);
            }
        }
    }
}

/// A hold that nobody waits for any more may have been granted. If it was granted to a question of its own, it stays.
fn give_back(hold: &Arc<Hold>) {
    if hold.is_asked() {
        let mut open = Open::new(hold, Giving::Undo);
        open.add_all();
    }
}
