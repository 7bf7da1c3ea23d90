//! Every workload, in the order of the docs: a row each, which says how it differs from the plain loop.

use std::time::Duration;

use super::{CycleShape, LeaseOf, Rhythm, Spread, Workload};

const MS: Duration = Duration::from_millis(1);

/// The plain closed loop, which the others differ from in what they name.
const CYCLES: Workload = Workload {
    name: "",
    about: "",
    spread: Spread::Own,
    asks: CycleShape::One,
    locks: None,
    hold: Duration::ZERO,
    think: Duration::ZERO,
    lease: LeaseOf::Plan,
    hands_off: false,
    paced: false,
    rhythm: Rhythm::Cycles,
};

/// All tasks meet at one lock, or one set of permits.
const MEETING: Workload = Workload {
    spread: Spread::One,
    // A hold of zero length cannot overlap another, and would show nothing about safety.
    hold: MS,
    // Without think time, the releaser mostly acquires the lock again itself.
    think: Duration::from_millis(2),
    hands_off: true,
    paced: true,
    ..CYCLES
};

/// All tasks choose among many locks.
const CHOOSING: Workload = Workload {
    spread: Spread::Uniform,
    locks: Some(1_000),
    hold: MS,
    hands_off: true,
    paced: true,
    ..CYCLES
};

/// Every workload, in the order of the docs.
pub static WORKLOADS: &[Workload] = rows! { Workload;
    // What acquire and release cost without contention.
    "uncontended": CYCLES { paced: true }
        "each task acquires and releases locks of its own, as fast as it can"
    // How fast, how fairly and at what price a contended lock is handed on.
    "contended": MEETING {}
        "all tasks want one lock, hold it for 1 ms and think for 2 ms"
    "chain": MEETING { think: Duration::ZERO, paced: false, rhythm: Rhythm::Chain }
        "all tasks want one lock and hold it for 1 ms; a releaser queues again only when the next one has it, so all but one always wait"
    // How long until the last of many was served, and at what price.
    "herd": CYCLES { spread: Spread::One, hands_off: true, rhythm: Rhythm::Herd }
        "all tasks ask for one lock at once and give it back at once; when the last was served, they do it again"
    // What a service with many resources sees.
    "uniform": CHOOSING {}
        "tasks take one of many locks (1,000 unless --locks says else), each as likely as the next, and hold it for 1 ms"
    // A few locks are hot: most calls find no waiter, some find a queue.
    "zipf": CHOOSING { spread: Spread::Zipf }
        "tasks take one of many locks (1,000 unless --locks says else), the n-th as often as 1/n^0.99, and hold it for 1 ms"
    // What a reader gains, and what a writer waits.
    "read-mostly": MEETING { asks: CycleShape::Sides { writes: 0.1 } }
        "all tasks want one read-write lock and hold it for 1 ms; one cycle in ten writes, the others read and may share it"
    // What a transaction over a few of many things costs, and whether two ever hold one thing at once.
    // A hand-off is that of one lock, and one lock does not delay a waiter for three: no such figure.
    "multi": CHOOSING { asks: CycleShape::Together(3), locks: None, hands_off: false }
        "tasks take 3 of several locks at once, as many as tasks unless --locks says else, and hold them for 1 ms"
    // How fast a released permit is acquired again, and whether more are ever held than exist.
    "semaphore": MEETING { asks: CycleShape::Permit { of: 4 } }
        "all tasks want one of 4 permits, hold it for 1 ms and think for 2 ms"
    // What keeping many locks costs, and how late renewals are.
    "renewal": CYCLES { locks: Some(10_000), lease: LeaseOf::Renewed, rhythm: Rhythm::Keep }
        "tasks take many locks (10,000 unless --locks says else) and keep them, renewed, through the window; a cycle is a renewal"
    // How long until the next waiter holds the lock of a dead holder, and how far that exceeds the lease.
    "crash": CYCLES { lease: LeaseOf::Fixed(Duration::from_millis(100)), rhythm: Rhythm::Crash }
        "a client takes a lock for 100 ms and vanishes; its task waits for the lock with another client; a cycle is one recovery"
    // What a short-lived process pays for one lock.
    "churn": CYCLES { rhythm: Rhythm::Churn }
        "each task connects a new client, acquires and releases a lock of its own, closes the client, over and over"
    // How long 10,000 pairs take, as people time a lock by hand.
    "pairs": CYCLES { locks: Some(10_000) }
        "each task acquires and releases one of 10,000 names after the other; the row says how long 10,000 pairs take one task"
};
