//! Many locks held for long and renewed by their library: what keeping them costs, and how late renewals are.

use std::sync::atomic::Ordering::SeqCst;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{LeaseOf, Spread, Workload, round::Task};

pub(super) const WORKLOAD: Workload = Workload {
    name: "renewal",
    about: "tasks take many locks (10,000 unless --locks says else) and keep them, renewed, through the window; a cycle is a renewal",
    spread: Spread::Own,
    locks: Some(10_000),
    lease: LeaseOf::Renewed,
    prepares: true,
    listens: true,
    steps: run,
    ..Workload::CYCLES
};

fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        let mut held = Vec::new();
        for nth in 0..shared.keys.own(task.number) {
            let lock = shared
                .keys
                .next(task.number, u64::from(nth), &mut task.random);
            // A lock that cannot be taken now is asked for again: all of them are to be held.
            let hold = loop {
                if !task.running() {
                    break None;
                }
                if let Some(hold) = task.acquire(lock, None).await {
                    break Some(hold);
                }
            };
            let Some(hold) = hold else { break };
            let client = task.number % shared.clients;
            shared.renewals.granted(client, &hold.grant, hold.sent_at);
            held.push(hold);
        }
        shared.preparing.fetch_sub(1, SeqCst);
        shared.ended().await;
        let now_ns = shared.now_ns();
        for hold in held {
            // Given back with its client, which closes after the round; a hold ends at the latest here.
            task.over(&hold, now_ns, now_ns);
        }
    }
    .boxed()
}
