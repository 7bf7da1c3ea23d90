//! Clients of a subject, and the closed loop whose pace is measured.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bench::{
    subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient, ReleaseEnd},
    subjects,
};

/// A client of its own.
pub(crate) async fn connect(subject: &str, target: &str) -> Arc<dyn LockClient> {
    let to = ConnectTo::new(target, "c1", 1, "none");
    let found = subjects::find(subject).expect("a known subject");
    let connected = found.connect(&to).await;
    let connected = connected.unwrap_or_else(|why| panic!("{subject} at {target}: {why}"));
    Arc::from(connected.client)
}

/// Acquires, and says why not.
pub(crate) async fn take(client: &dyn LockClient, lock: &str) -> Result<String, String> {
    let request = AcquireRequest {
        lock,
        others: &[],
        kind: "",
        owner: "t0",
        reenters: false,
        wait: Some(Duration::from_secs(10)),
        lease: Some(Duration::from_secs(30)),
        permits: None,
        cancel: None,
    };
    match client.acquire(request).await {
        AcquireEnd::Ok { grant, .. } => Ok(grant),
        other => Err(format!("{other:?}")),
    }
}

/// How long `times` cycles take that `tasks` tasks make, each with a lock of its own.
///
/// Counted from the first cycles' ends on, one for each task, so that at both ends of what is timed all tasks
/// are at work.
pub(crate) async fn cycles(client: &Arc<dyn LockClient>, tasks: u32, times: u64) -> Duration {
    let (first, last) = (u64::from(tasks), u64::from(tasks) + times);
    let done = Arc::new(AtomicU64::new(0));
    let stamps = Arc::new([OnceLock::new(), OnceLock::new()]);
    let running = (0..tasks).map(|task| {
        let (client, done, stamps) = (client.clone(), done.clone(), stamps.clone());
        tokio::spawn(async move {
            let lock = format!("bench:{task}");
            while done.load(Relaxed) < last {
                let grant = take(client.as_ref(), &lock).await.expect("nobody else's");
                assert_eq!(client.release(&grant).await, ReleaseEnd::Ok);
                let ended = done.fetch_add(1, Relaxed) + 1;
                for (stamp, at) in stamps.iter().zip([first, last]) {
                    if ended == at {
                        stamp.set(Instant::now()).expect("counted once");
                    }
                }
            }
        })
    });
    for task in running.collect::<Vec<_>>() {
        task.await.expect("a cycle that succeeds");
    }
    let [began, ended] = stamps.as_ref();
    let at = |stamp: &OnceLock<Instant>| *stamp.get().expect("all were counted");
    at(ended).saturating_duration_since(at(began))
}
