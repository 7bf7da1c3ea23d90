//! Renewals: one task per client keeps every renewed hold alive, each at its own time, all servers side by side.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::Notify;

use crate::{background::Background, guard::LostReason, hold::Hold, servers::Lengthened};

/// When a hold is due, and a number that tells holds of one instant apart.
pub(crate) type Due = (Instant, u64);

/// The renewals of one client. Registering and removing cost a tree operation under a short mutex and no task;
/// a hold that ends leaves nothing behind in the queue.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    holds: Mutex<Holds>,
    /// An earlier deadline than the task sleeps for has come, or the end.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Holds {
    due: BTreeMap<Due, Arc<Hold>>,
    last_number: u64,
    started: bool,
    closed: bool,
}

impl Watchdog {
    /// Renews the hold from now on.
    pub(crate) fn add(&self, hold: &Arc<Hold>, background: &Background) {
        let start = {
            let mut holds = self.queue.lock();
            !std::mem::replace(&mut holds.started, true)
        };
        if start {
            background.spawn_uncounted(run(Arc::clone(&self.queue)));
        }
        self.queue.insert(hold, hold.sent_at() + period(hold.lease));
    }

    /// Renews it no more. Nothing but this hold is touched.
    pub(crate) fn remove(&self, hold: &Hold) {
        if !hold.renewed {
            return;
        }
        let mut holds = self.queue.lock();
        if let Some(due) = hold.due_mut().take() {
            holds.due.remove(&due);
        }
    }

    /// Ends all renewals; holds are left to their leases.
    pub(crate) fn close(&self) {
        let mut holds = self.queue.lock();
        holds.closed = true;
        holds.due.clear();
        drop(holds);
        self.queue.wake.notify_one();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, hold: &Arc<Hold>, at: Instant) {
        let mut holds = self.lock();
        // A release ends the hold before it looks for it here: whoever comes second sees the other.
        if holds.closed || !hold.is_held() {
            return;
        }
        holds.last_number += 1;
        let due = (at, holds.last_number);
        *hold.due_mut() = Some(due);
        holds.due.insert(due, Arc::clone(hold));
        if holds
            .due
            .first_key_value()
            .is_some_and(|(first, _)| *first == due)
        {
            drop(holds);
            self.wake.notify_one();
        }
    }

    /// The holds that are due, and when the next one is; `None` after the end.
    fn take_due(&self, now: Instant) -> Option<(Vec<Arc<Hold>>, Option<Instant>)> {
        let mut holds = self.lock();
        if holds.closed {
            return None;
        }
        let mut due = Vec::new();
        while let Some(entry) = holds.due.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let hold = entry.remove();
            hold.due_mut().take();
            due.push(hold);
        }
        let next = holds.due.first_key_value().map(|((at, _), _)| *at);
        Some((due, next))
    }
}

/// From one renewal to the next: a third of the lease, up to a tenth less so that holds spread out.
fn period(lease: Duration) -> Duration {
    (lease / 3).mul_f64(rand::random_range(0.9..=1.0))
}

/// From a failed renewal to the next attempt: short against the lease, so that there are many before its end.
fn retry_pause(lease: Duration) -> Duration {
    let pause = (lease / 30).clamp(Duration::from_millis(10), Duration::from_secs(1));
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

async fn run(queue: Arc<Queue>) {
    let mut renewals = FuturesUnordered::new();
    while let Some((due, next)) = queue.take_due(Instant::now()) {
        for hold in due {
            renewals.push(renew(&queue, hold));
        }
        let sleep = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = queue.wake.notified() => {}
            () = sleep => {}
            Some(()) = renewals.next(), if !renewals.is_empty() => {}
        }
    }
}

/// One renewal of one hold; puts it back into the queue unless it is over.
async fn renew(queue: &Queue, hold: Arc<Hold>) {
    // Looking raises the lost-signal when the validity has run out.
    if !hold.is_held() {
        return;
    }
    let timeout = hold.client().options.request_timeout(hold.durability);
    let deadline = hold.valid_until().min(Instant::now() + timeout);
    let answer = hold.lock.servers.extend(&hold, hold.lease, deadline).await;
    let next = match answer {
        Ok(Lengthened::Held { sent_at }) => {
            hold.lengthen(sent_at, hold.lease, true);
            sent_at + period(hold.lease)
        }
        Ok(Lengthened::Missing) => {
            hold.lose(LostReason::Missing);
            return;
        }
        Ok(Lengthened::Thin { .. }) | Err(_) => hold
            .valid_until()
            .min(Instant::now() + retry_pause(hold.lease)),
    };
    queue.insert(&hold, next);
}
