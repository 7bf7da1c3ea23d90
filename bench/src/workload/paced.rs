//! Turns due ticks into cycles: the open loop. A tick that finds every task busy waits and is late; none is ever left out.

use std::sync::atomic::Ordering::Relaxed;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::round::Task;

/// Takes the next tick that is due, until the end of the window.
pub(super) fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        let ticks = shared.ticks.as_ref().expect("an open loop has a schedule");
        let mut cycle = 0;
        while let Ok(tick) = ticks.due.acquire().await {
            tick.forget();
            let due_ns = {
                let mut schedule = ticks.schedule.lock().expect("no panic");
                schedule
                    .next()
                    .map(|after_ns| ticks.began_ns.load(Relaxed) + after_ns)
            };
            let lock = shared.keys.next(task.number, cycle, &mut task.random);
            cycle += 1;
            if let Some(held) = task.acquire(lock, due_ns).await {
                task.pause(shared.load.hold).await;
                task.release(held).await;
            }
        }
    }
    .boxed()
}
