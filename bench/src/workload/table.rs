//! Every workload, in the order of the docs: a row each, which says how it differs from the plain closed
//! loop.

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
pub static WORKLOADS: &[Workload] = &[
    // What acquire and release cost without contention.
    Workload {
        name: "uncontended",
        about: "each task acquires and releases locks of its own, as fast as it can",
        paced: true,
        ..CYCLES
    },
    // How fast, how fairly and at what price a contended lock is handed on.
    Workload {
        name: "contended",
        about: "all tasks want one lock, hold it for 1 ms and think for 2 ms",
        ..MEETING
    },
    Workload {
        name: "chain",
        about: "all tasks want one lock and hold it for 1 ms; a releaser queues again only when the next one has it, so all but one always wait",
        think: Duration::ZERO,
        paced: false,
        rhythm: Rhythm::Chain,
        ..MEETING
    },
    // How long until the last of many was served, and at what price.
    Workload {
        name: "herd",
        about: "all tasks ask for one lock at once and give it back at once; when the last was served, they do it again",
        spread: Spread::One,
        hands_off: true,
        rhythm: Rhythm::Herd,
        ..CYCLES
    },
    // What a service with many resources sees.
    Workload {
        name: "uniform",
        about: "tasks take one of many locks (1,000 unless --locks says else), each as likely as the next, and hold it for 1 ms",
        ..CHOOSING
    },
    // A few locks are hot: most calls find no waiter, some find a queue.
    Workload {
        name: "zipf",
        about: "tasks take one of many locks (1,000 unless --locks says else), the n-th as often as 1/n^0.99, and hold it for 1 ms",
        spread: Spread::Zipf,
        ..CHOOSING
    },
    // What a reader gains, and what a writer waits.
    Workload {
        name: "read-mostly",
        about: "all tasks want one read-write lock and hold it for 1 ms; one cycle in ten writes, the others read and may share it",
        asks: CycleShape::Sides { writes: 0.1 },
        ..MEETING
    },
    // What a transaction over a few of many things costs, and whether two ever hold one thing at once.
    Workload {
        name: "multi",
        about: "tasks take 3 of several locks at once, as many as tasks unless --locks says else, and hold them for 1 ms",
        asks: CycleShape::Together(3),
        locks: None,
        // A hand-off is that of one lock, and one lock does not delay a waiter for three: no such figure.
        hands_off: false,
        ..CHOOSING
    },
    // How fast a released permit is acquired again, and whether more are ever held than exist.
    Workload {
        name: "semaphore",
        about: "all tasks want one of 4 permits, hold it for 1 ms and think for 2 ms",
        asks: CycleShape::Permit { of: 4 },
        ..MEETING
    },
    // What keeping many locks costs, and how late renewals are.
    Workload {
        name: "renewal",
        about: "tasks take many locks (10,000 unless --locks says else) and keep them, renewed, through the window; a cycle is a renewal",
        locks: Some(10_000),
        lease: LeaseOf::Renewed,
        rhythm: Rhythm::Keep,
        ..CYCLES
    },
    // How long until the next waiter holds the lock of a dead holder, and how far that exceeds the lease.
    Workload {
        name: "crash",
        about: "a client takes a lock for 100 ms and vanishes; its task waits for the lock with another client; a cycle is one recovery",
        lease: LeaseOf::Fixed(Duration::from_millis(100)),
        rhythm: Rhythm::Crash,
        ..CYCLES
    },
    // What a short-lived process pays for one lock.
    Workload {
        name: "churn",
        about: "each task connects a new client, acquires and releases a lock of its own, closes the client, over and over",
        rhythm: Rhythm::Churn,
        ..CYCLES
    },
    // How long 10,000 pairs take, as people time a lock by hand.
    Workload {
        name: "pairs",
        about: "each task acquires and releases one of 10,000 names after the other; the row says how long 10,000 pairs take one task",
        locks: Some(10_000),
        ..CYCLES
    },
];
