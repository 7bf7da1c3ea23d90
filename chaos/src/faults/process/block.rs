//! What a client's library runs on stands still, and the rest of its process goes on: an event loop, or all
//! threads of a runtime.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster_config::process_state;
use tokio::task::JoinHandle;

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof, TargetKind};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "block",
    about: "the event loop or the threads that a client's library runs on do nothing else for `for` (1s without it), while the rest of the process goes on",
    hits: TargetKind::Client,
    ..FaultKind::of(&Block)
};

struct Block;

struct RunningBlock {
    done: JoinHandle<()>,
    shown: Arc<Mutex<Proof>>,
}

impl OnEach for Block {
    type Kept = RunningBlock;

    async fn harm(at: TargetContext<'_>) -> Result<RunningBlock, FaultError> {
        let number = at.target.client()?;
        let time = at.injection.lasts.unwrap_or(Duration::from_secs(1));
        let clients = at.world.clients.clone();
        let shown = Arc::new(Mutex::new(proof!(false, "c{number} has not said yet")));
        let proof = shown.clone();
        let done = tokio::spawn(async move {
            let blocked = clients.block(number, time).await;
            let state = clients.pid(number).and_then(process_state);
            *proof.lock().expect("no panic while held") = match blocked {
                // A little is lost before all threads are blocked.
                Ok(blocked) => proof!(
                    blocked >= time * 9 / 10 && state.is_some_and(|state| state != 'T'),
                    "c{number} ran nothing of its library for {blocked:?}, and was not stopped"
                ),
                Err(error) => proof!(false, "c{number}: {error}"),
            };
        });
        Ok(RunningBlock { done, shown })
    }

    async fn undo(_: TargetContext<'_>, kept: &mut RunningBlock) -> Result<(), FaultError> {
        // It ends by itself.
        let _ = (&mut kept.done).await;
        Ok(())
    }

    fn undo_now(_: TargetContext<'_>, kept: &RunningBlock) -> Result<(), FaultError> {
        kept.done.abort();
        Ok(())
    }
}

impl Evidence for RunningBlock {
    fn proof(&self, _: TargetContext<'_>) -> Proof {
        self.shown.lock().expect("no panic while held").clone()
    }
}
