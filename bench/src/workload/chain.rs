//! All tasks want one lock, and whoever gave it back queues again only when the next one has it: all but one always wait.
//!
//! Without this rule a releaser mostly meets itself again, and the figure says little about waking somebody else.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{Spread, Workload, round::Task};

pub(super) const WORKLOAD: Workload = Workload {
    name: "chain",
    about: "all tasks want one lock and hold it for 1 ms; a releaser queues again only when the next one has it, so all but one always wait",
    spread: Spread::One,
    hold: Duration::from_millis(1),
    hands_off: true,
    counts_grants: true,
    steps: run,
    ..Workload::CYCLES
};

fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        let alone = shared.load.tasks == 1;
        while task.running() {
            let Some(held) = task.acquire(0, None).await else {
                continue;
            };
            let mut grants = shared.grants.subscribe();
            let mine = *grants.borrow_and_update();
            task.pause(shared.load.hold).await;
            task.release(held).await;
            if !alone {
                tokio::select! {
                    _ = grants.wait_for(|grants| *grants > mine) => {}
                    () = shared.ended() => return,
                }
            }
        }
    }
    .boxed()
}
