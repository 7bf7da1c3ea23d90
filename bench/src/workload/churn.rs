//! Every cycle begins with a new client and ends with its goodbye: what a short-lived process pays for one lock.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{Spread, Workload, record::add, round::Task};

pub(super) const WORKLOAD: Workload = Workload {
    name: "churn",
    about: "each task connects a new client, acquires and releases a lock of its own, closes the client, over and over",
    spread: Spread::Own,
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
            let began_ns = shared.now_ns();
            let client = match shared.load.subject.connect(&shared.load.connect).await {
                Ok(connected) => Arc::new(connected.client),
                Err(error) => {
                    task.error("connect", &error.to_string()).await;
                    continue;
                }
            };
            let connected_ns = shared.now_ns();
            if shared.within(connected_ns) {
                let mut samples = shared.samples(task.number);
                add(&mut samples.connect, connected_ns - began_ns);
            }
            if let Some(held) = task.acquire_by(&client, lock, None).await {
                task.pause(shared.load.hold).await;
                task.release_by(&client, held).await;
            }
            if let Some(client) = Arc::into_inner(client) {
                client.close().await;
            }
        }
    }
    .boxed()
}
