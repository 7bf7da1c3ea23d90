//! Records the down-time of the servers, which is theirs and not the lock's, by writes of our own.

use std::sync::Arc;
use std::time::Duration;

use bench::sink::Sink;
use cluster_config::Deployment;
use results::history::{Entry, Event};
use tokio::sync::watch;

use crate::polling::is_so;

const EVERY: Duration = Duration::from_millis(100);

const WITHIN: Duration = Duration::from_millis(250);

/// Asks until `stop`, and records each change of the answer for every lock: they all live on the same master.
pub(crate) async fn watch(
    deployment: Arc<Deployment>,
    sink: Arc<dyn Sink>,
    locks: Vec<String>,
    mut stop: watch::Receiver<bool>,
) {
    let Some(first) = locks.first() else { return };
    let mut last = None;
    loop {
        let ok = deployment.probe(first, WITHIN).await;
        if last != Some(ok) {
            last = Some(ok);
            for lock in &locks {
                sink.record(Entry::Event(Event::Probe { lock: lock.clone(), ok }));
            }
        }
        if tokio::time::timeout(EVERY, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Waits until the servers take a write again, for `within` at most.
pub(crate) async fn settled(deployment: &Deployment, lock: &str, within: Duration) -> bool {
    is_so(within, EVERY / 2, || deployment.probe(lock, WITHIN)).await
}
