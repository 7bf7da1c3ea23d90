//! All tasks arrive at one lock at the same moment, wave after wave: how long until the last of them was served, and at what price.

use std::sync::atomic::Ordering::SeqCst;

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{Spread, Workload, record::add, round::Task};

pub(super) const WORKLOAD: Workload = Workload {
    name: "herd",
    about: "all tasks ask for one lock at once and give it back at once; when the last was served, they do it again",
    spread: Spread::One,
    hands_off: true,
    steps: run,
    ..Workload::CYCLES
};

fn run(mut task: Task) -> BoxFuture<'static, ()> {
    async move {
        let shared = task.shared.clone();
        loop {
            // The last one to arrive decides for all whether there is another wave: nobody must wait for one who has gone.
            if shared.gate.wait().await.is_leader() {
                shared.herd_goes_on.store(task.running(), SeqCst);
            }
            shared.gate.wait().await;
            if !shared.herd_goes_on.load(SeqCst) {
                return;
            }
            let arrived_ns = shared.now_ns();
            if let Some(held) = task.acquire(0, None).await {
                task.pause(shared.load.hold).await;
                task.release(held).await;
            }
            if shared.gate.wait().await.is_leader() && shared.within(arrived_ns) {
                let gone_ns = shared.now_ns();
                add(&mut shared.samples(task.number).wave, gone_ns - arrived_ns);
            }
        }
    }
    .boxed()
}
