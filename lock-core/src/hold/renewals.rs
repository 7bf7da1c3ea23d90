//! The queue of renewals: what is to be renewed now, and when to look again.
//!
//! Registering and removing cost a tree operation under a short mutex and no task; a hold that ends leaves
//! nothing behind. What is promised, and proved over all orders of events by `tests/lock_models.rs`: a hold
//! that is held is in here or in the hands of the task that renews; one that has ended is not in here once
//! both its end and its renewal are through; and the task is woken for all that is due before.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::clock::Instant;
use crate::sync::{Mutex, Notify};

/// When a hold is due, and a number that tells holds of one instant apart.
type Due = (Instant, u64);

pub(crate) trait Renewable {
    /// Whether it is held, as far as is known now.
    fn is_held(&self) -> bool;
    fn lease(&self) -> Duration;
    fn place(&self) -> &DueSlot;
}

/// A hold's place in the queue, if it has one; read and changed under the queue's mutex only.
#[derive(Debug, Default)]
pub(crate) struct DueSlot(Mutex<Option<Due>>);

#[derive(Debug)]
pub(crate) struct RenewalQueue<H> {
    holds: Mutex<Holds<H>>,
    /// An earlier deadline than the task sleeps for has come, or the end.
    wake: Notify,
}

#[derive(Debug)]
struct Holds<H> {
    due: BTreeMap<Due, Arc<H>>,
    last_number: u64,
    looks_at: Option<Instant>,
    closed: bool,
}

impl<H: Renewable> RenewalQueue<H> {
    pub(crate) fn new() -> Self {
        RenewalQueue {
            holds: Mutex::new(Holds { due: BTreeMap::new(), last_number: 0, looks_at: None, closed: false }),
            wake: Notify::new(),
        }
    }

    /// The hold is due then. Nothing happens if it or the queue has ended. True if the task was woken.
    pub(crate) fn insert(&self, hold: &Arc<H>, at: Instant) -> bool {
        let mut holds = self.holds.lock();
        // A release ends the hold before it looks for it here: the one that comes second sees the other.
        if holds.closed || !hold.is_held() {
            return false;
        }
        holds.last_number += 1;
        let due = (at, holds.last_number);
        *hold.place().0.lock() = Some(due);
        holds.due.insert(due, Arc::clone(hold));
        // Mostly the task looks before this one is due: holds come and go without waking it.
        let is_sooner = holds.looks_at.is_none_or(|looks_at| at < looks_at);
        if is_sooner {
            holds.looks_at = Some(at);
            drop(holds);
            self.wake.notify_one();
        }
        is_sooner
    }

    /// The hold is not due any more. Nothing but this hold is touched.
    pub(crate) fn remove(&self, hold: &H) {
        let mut holds = self.holds.lock();
        let due = hold.place().0.lock().take();
        if let Some(due) = due {
            holds.due.remove(&due);
        }
    }

    /// A hold that is due later is due now. False if it is not in here: it is over, or being renewed.
    pub(crate) fn hasten(&self, hold: &H) -> bool {
        let mut holds = self.holds.lock();
        let due = hold.place().0.lock().take();
        let Some(hold) = due.and_then(|due| holds.due.remove(&due)) else {
            return false;
        };
        drop(holds);
        self.insert(&hold, Instant::now());
        true
    }

    /// The holds that are due or soon will be, and when to look again; `None` after the end.
    pub(crate) fn take_due(&self, now: Instant) -> Option<(Vec<Arc<H>>, Option<Instant>)> {
        let mut holds = self.holds.lock();
        if holds.closed {
            return None;
        }
        let mut due = Vec::new();
        while let Some(entry) = holds.due.first_entry() {
            if entry.key().0 > now + early(entry.get().lease()) {
                break;
            }
            let hold = entry.remove();
            hold.place().0.lock().take();
            due.push(hold);
        }
        // The task goes on sleeping towards the moment that was known, even if what was due then is gone:
        // otherwise each of many holds that come and go, and find the queue empty, would wake it.
        let known = holds.looks_at.filter(|at| *at > now);
        let first = holds.due.first_key_value().map(|((at, _), _)| *at);
        holds.looks_at = first.into_iter().chain(known).min();
        Some((due, holds.looks_at))
    }

    /// Completes when something is due before `take_due` said, or at the end. Cancel-safe.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Lets go of all holds, and takes no more.
    pub(crate) fn close(&self) {
        let mut holds = self.holds.lock();
        holds.closed = true;
        let due = std::mem::take(&mut holds.due);
        drop(holds);
        // A hold may be the last to know its client: that is not for under the mutex.
        drop(due);
        self.wake.notify_one();
    }
}

/// How early a renewal may be, so that several share a request: a hundredth of the period.
fn early(lease: Duration) -> Duration {
    lease / 300
}
