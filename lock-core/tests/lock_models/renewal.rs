//! A model of the renewal queue, its task, and holders that come and go.
//!
//! Time stands still: what is due is due at once, what is not never becomes so. The task is asleep when it
//! has nothing to do, and only the queue can wake it. A holder stays until it has been renewed, so that a
//! missed wake-up is a deadlock, which the checker finds.

use std::{
    pin::pin,
    sync::{Arc, LazyLock},
    task::{Context, Waker},
    time::Duration,
};

use loom::{
    future::block_on,
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    clock::Instant,
    renewals::{DueSlot, Renewable, RenewalQueue},
    twin::{self, Line},
};

/// One moment for all executions, which must not differ.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const LEASE: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(10);

struct Hold {
    place: DueSlot,
    state: Mutex<State>,
    renewed: Condvar,
}

#[derive(Default)]
struct State {
    ended: bool,
    renewals: u32,
}

impl Hold {
    fn new() -> Arc<Self> {
        Arc::new(Hold { place: DueSlot::default(), state: Mutex::default(), renewed: Condvar::new() })
    }

    /// As the library's: ends, then leaves the queue.
    fn release(&self, queue: &RenewalQueue<Hold>) {
        self.state.lock().unwrap().ended = true;
        if !twin::lacks(Line::RemovesAtRelease) {
            queue.remove(self);
        }
    }
}

impl Renewable for Hold {
    fn is_held(&self) -> bool {
        twin::lacks(Line::RefusesWhatHasEnded) || !self.state.lock().unwrap().ended
    }

    fn lease(&self) -> Duration {
        LEASE
    }

    fn place(&self) -> &DueSlot {
        &self.place
    }
}

/// The task: renews what is due, puts it back for later, sleeps.
fn renew(queue: &RenewalQueue<Hold>) {
    while let Some((due, _)) = queue.take_due(*NOW) {
        for hold in due {
            let mut state = hold.state.lock().unwrap();
            state.renewals += 1;
            drop(state);
            hold.renewed.notify_all();
            queue.insert(&hold, *NOW + LATER);
        }
        block_on(queue.woken());
    }
}

/// Two holders, each due at once, each gone when it has been renewed.
pub(crate) fn two_holders() {
    let queue = Arc::new(RenewalQueue::new());
    let task = thread::spawn({
        let queue = Arc::clone(&queue);
        move || renew(&queue)
    });
    let stays = Hold::new();
    queue.insert(&stays, *NOW + LATER * 2);
    let holder = {
        let queue = Arc::clone(&queue);
        move || {
            let hold = Hold::new();
            queue.insert(&hold, *NOW);
            let mut state = hold.state.lock().unwrap();
            while state.renewals == 0 {
                state = hold.renewed.wait(state).unwrap();
            }
            drop(state);
            hold.release(&queue);
            hold
        }
    };
    let other = thread::spawn(holder.clone());
    let mine = holder();
    let others = other.join().unwrap();
    // What stays is untouched by what ended; it is due before the end of its lease, and nothing else is any
    // more.
    let due = queue.take_due(*NOW + LATER * 3);
    queue.close();
    task.join().unwrap();
    let (due, next) = due.expect("not closed");
    assert!(next.is_none());
    for hold in &due {
        // The renewal of one that ended may still be under way, but it is not put back.
        assert!(Arc::ptr_eq(hold, &stays), "an ended hold is still to be renewed");
    }
    assert_eq!(due.len(), 1, "a hold lost its renewal");
    assert!(mine.state.lock().unwrap().ended && others.state.lock().unwrap().ended);
}

/// The client closes while a holder comes: the task ends, whatever came first, and nothing is kept.
pub(crate) fn closing() {
    let queue = Arc::new(RenewalQueue::new());
    let task = thread::spawn({
        let queue = Arc::clone(&queue);
        move || renew(&queue)
    });
    let holder = thread::spawn({
        let queue = Arc::clone(&queue);
        move || {
            let hold = Hold::new();
            queue.insert(&hold, *NOW + LATER);
            hold
        }
    });
    queue.close();
    task.join().unwrap();
    let hold = holder.join().unwrap();
    assert_eq!(Arc::strong_count(&hold), 1, "kept after the end");
}

/// Holds come one after the other, each gone before it was due: the task, which sleeps towards the first, is
/// woken by none of the others, although each finds the queue empty.
pub(crate) fn coming_and_going() {
    let queue = RenewalQueue::new();
    let first = Hold::new();
    queue.insert(&first, *NOW + LATER);
    block_on(queue.woken());
    first.release(&queue);
    for number in 1..4 {
        let looks_at = queue.take_due(*NOW).and_then(|(_, next)| next);
        assert_eq!(looks_at, Some(*NOW + LATER), "the task has nothing to sleep for");
        let next = Hold::new();
        queue.insert(&next, *NOW + LATER + Duration::from_millis(number));
        let woken = pin!(queue.woken()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(woken.is_pending(), "woken for what is due later");
        next.release(&queue);
    }
}
