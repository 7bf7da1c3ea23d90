//! Renewals: one task per client keeps every renewed hold alive at its own time, all servers at once.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    future::{join_all, select_all},
    stream::FuturesUnordered,
};

use crate::KeyTracking;
use crate::client::background::Background;
use crate::clock::{Instant, sleep_until};
use crate::hold::Hold;
use crate::hold::guard_event::LostReason;
use crate::hold::renewals::RenewalQueue;
use crate::machine;
use crate::servers::{self, ExtendOutcome, Together};
use crate::topology::{NodeError, Route, WRONG_TYPE};
use crate::waiting::queue::claim_after;

/// Most holds that one request renews. The request stays cheap, and others wait some 100 µs of server time.
const BATCH: usize = 64;

/// A hold's key is followed from its first renewal on, this long after the grant. Shorter holds cost nothing.
const FOLLOWED_AFTER: Duration = Duration::from_secs(1);
/// Pause before a hold is looked up again that `renew` has taken out of the queue.
const REQUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Starts the renewal task with the client. Begun by the first hold, it would wait behind its holder's work.
pub(crate) fn start(background: &Background) -> Arc<RenewalQueue<Hold>> {
    let queue = Arc::new(RenewalQueue::new());
    background.spawn_uncounted(run(Arc::clone(&queue)));
    queue
}

/// Renews the hold from now on. A hold granted for less than the lease asked for claims the rest first.
pub(crate) fn add(hold: &Arc<Hold>) {
    let first = match hold.is_unclaimed() {
        true => hold.sent_at() + claim_after(hold.granted_lease()),
        false if is_followed(hold) => hold.sent_at() + period(hold.lease).min(FOLLOWED_AFTER),
        false => hold.sent_at() + period(hold.lease),
    };
    if hold.client().renewals.insert(hold, first) {
        // The holder may compute from now on. A task in its worker's LIFO slot would be kept from the others.
        machine::empty_lifo_slot();
    }
}

/// Stops the renewals of this hold, and of no other.
pub(crate) fn remove(hold: &Hold) {
    if hold.renewed || hold.is_unclaimed() {
        hold.client().renewals.remove(hold);
    }
}

/// Whether the hold's key is followed, so that a loss is noticed before the next renewal.
fn is_followed(hold: &Hold) -> bool {
    let is_wanted = match hold.client().options.key_tracking {
        KeyTracking::Off => false,
        KeyTracking::Auto => hold.lease >= FOLLOWED_AFTER * 3,
        KeyTracking::On => true,
    };
    is_wanted && !hold.lock.format.is_shared() && hold.lock.names.all().count() == 1
}

/// Renews a hold as soon as its key hints at a loss. A hint proves nothing: the renewal's answer decides.
async fn follow_key(hold: Arc<Hold>) {
    let client = hold.client();
    let names = &hold.lock.names;
    let follow = |route: &Arc<Route>| {
        route.channels().follow_key(&names.key, hold.lock.format.key_check(&hold.request()))
    };
    let mut keys: Vec<_> = hold.lock.servers.routes().iter().map(follow).collect();
    while hold.is_held() {
        let hint = select_all(keys.iter_mut().map(|key| Box::pin(key.hint())));
        tokio::select! {
            _ = hint => {
                while hold.is_held() && !client.background.is_closed() && !client.renewals.hasten(&hold) {
                    sleep_until(Instant::now() + REQUEUE_PAUSE).await;
                }
            }
            () = hold.change() => {}
            () = client.background.closed() => return,
        }
    }
}

/// From one renewal to the next: a third of the lease, up to a tenth less so that holds spread out.
fn period(lease: Duration) -> Duration {
    (lease / 3).mul_f64(rand::random_range(0.9..=1.0))
}

/// From a failed renewal to the next attempt: a small part of the lease, so that many attempts fit into it.
fn retry_pause(lease: Duration) -> Duration {
    let pause = (lease / 30).clamp(Duration::from_millis(10), Duration::from_secs(1));
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

async fn run(queue: Arc<RenewalQueue<Hold>>) {
    let mut renewals = FuturesUnordered::new();
    while let Some((due, next)) = queue.take_due(Instant::now()) {
        for batch in batches(due) {
            renewals.push(renew(&queue, batch));
        }
        let sleep = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let mut sleep = std::pin::pin!(sleep);
        loop {
            tokio::select! {
                () = queue.woken() => break,
                () = &mut sleep => break,
                Some(()) = renewals.next(), if !renewals.is_empty() => {}
            }
        }
    }
}

fn batches(due: Vec<Arc<Hold>>) -> Vec<Vec<Arc<Hold>>> {
    let mut batches = Vec::new();
    let mut open: HashMap<Together, Vec<Arc<Hold>>> = HashMap::new();
    for hold in due {
        // `is_held` raises the lost-signal when the validity has run out.
        if !hold.is_held() {
            continue;
        }
        let Some(together) = servers::renewed_together(&hold) else {
            batches.push(vec![hold]);
            continue;
        };
        let batch = open.entry(together).or_default();
        batch.push(hold);
        if batch.len() == BATCH {
            batches.push(std::mem::take(batch));
        }
    }
    batches.extend(open.into_values().filter(|batch| !batch.is_empty()));
    batches
}

/// Renews one hold or a batch once. Holds that are still held go back into the queue.
async fn renew(queue: &RenewalQueue<Hold>, batch: Vec<Arc<Hold>>) {
    if let [_, _, ..] = batch.as_slice() {
        let now = Instant::now();
        let deadline = batch.iter().map(|hold| hold.valid_until()).min();
        let timeout = batch[0].client().options.response_timeout;
        let deadline = deadline.map_or(now + timeout, |first| first.min(now + timeout));
        match servers::extend_together(&batch, deadline).await {
            Ok(answers) => {
                for (hold, answer) in batch.iter().zip(answers) {
                    renewed(queue, hold, Ok(answer));
                }
                return;
            }
            // The error names no hold: renew each by a request of its own, at once.
            Err(error) if error.code.is_some() => {}
            Err(_) => {
                for hold in &batch {
                    retry(queue, hold);
                }
                return;
            }
        }
    }
    // Side by side: a server that is silent for one of them must not cost the others their time.
    let each = batch.iter().map(async |hold| {
        let timeout = hold.client().options.request_timeout(hold.durability);
        let deadline = hold.valid_until().min(Instant::now() + timeout);
        let answer = hold.lock.servers.extend(hold, hold.lease, deadline).await;
        renewed(queue, hold, answer);
    });
    join_all(each).await;
}

fn renewed(queue: &RenewalQueue<Hold>, hold: &Arc<Hold>, answer: Result<ExtendOutcome, NodeError>) {
    match answer {
        Ok(ExtendOutcome::Held { sent_at }) => {
            hold.extend(sent_at, hold.lease, true);
            // A claim is made once; only a renewed hold goes back into the queue.
            if hold.renewed {
                queue.insert(hold, sent_at + period(hold.lease));
                if is_followed(hold) && !hold.key_is_followed.get() {
                    hold.key_is_followed.set(true);
                    hold.client().background.spawn_uncounted(follow_key(Arc::clone(hold)));
                }
            }
        }
        Ok(ExtendOutcome::Missing) => hold.lose(LostReason::Missing),
        // The key now holds another type, so the lock is gone.
        Err(error) if error.code.as_deref() == Some(WRONG_TYPE) => hold.lose(LostReason::Missing),
        Ok(ExtendOutcome::Thin { .. }) | Err(_) => retry(queue, hold),
    }
}

fn retry(queue: &RenewalQueue<Hold>, hold: &Arc<Hold>) {
    let pause = Instant::now() + retry_pause(hold.standing_lease());
    queue.insert(hold, hold.valid_until().min(pause));
}
