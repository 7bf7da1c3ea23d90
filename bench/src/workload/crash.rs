//! The holder dies without a word: how long until the next one has the lock, and how much of that is more than the lease.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{LeaseOf, Spread, Workload, record::add, round::Task};

pub(super) const WORKLOAD: Workload = Workload {
    name: "crash",
    about: "a client takes a lock for 100 ms and vanishes; its task waits for the lock with another client; a cycle is one recovery",
    spread: Spread::Own,
    lease: LeaseOf::Fixed(Duration::from_millis(100)),
    steps: run,
    ..Workload::CYCLES
};

fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        let mut cycle = 0;
        while task.running() {
            let lock = shared.keys.next(task.number, cycle, &mut task.random);
            cycle += 1;
            let mortal = match shared.load.subject.connect(&shared.load.connect).await {
                Ok(connected) => Arc::new(connected.client),
                Err(error) => {
                    task.error("connect", &error.to_string()).await;
                    continue;
                }
            };
            let Some(held) = task.acquire_by(&mortal, lock, None).await else {
                continue;
            };
            let leased = shared.load.lease.unwrap_or_default();
            let lease_end = held.sent_at.unwrap_or_else(Instant::now) + leased;
            let died_ns = shared.now_ns();
            task.over(&held, died_ns, died_ns);
            if let Some(mortal) = Arc::into_inner(mortal) {
                // Closing gives nothing back: to the servers a client that closes is one that died.
                mortal.close().await;
            }
            let Some(next) = task.acquire(lock, None).await else {
                continue;
            };
            if shared.within(next.granted_ns) {
                let mut samples = shared.samples(task.number);
                add(
                    &mut samples.recovery,
                    next.granted_ns.saturating_sub(died_ns),
                );
                let end_ns = shared.ns_at(lease_end);
                add(
                    &mut samples.recovery_late,
                    next.granted_ns.saturating_sub(end_ns),
                );
            }
            task.release(next).await;
        }
    }
    .boxed()
}
