//! The closed loop that most workloads are: acquire, hold, release, think, over and over.

use futures_util::{FutureExt as _, future::BoxFuture};

use super::round::Task;

/// Goes round until the end of the window.
pub(super) fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        let mut cycle = 0;
        while task.running() {
            let lock = shared.keys.next(task.number, cycle, &mut task.random);
            cycle += 1;
            let Some(held) = task.acquire(lock, None).await else {
                continue;
            };
            task.pause(shared.load.hold).await;
            task.release(held).await;
            task.pause(shared.load.think).await;
        }
    }
    .boxed()
}
