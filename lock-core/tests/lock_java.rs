//! Redisson itself as the peer of this library's locks: skipped, and said loudly, where there is no JVM or no
//! way to the jars.

mod support;

use std::time::{Duration, Instant};

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Lock, Wait};
use support::{
    PATIENCE, Server,
    fared::{Fared, all_had_their_share},
    java::{Peers, Wants},
};

const MS: Duration = Duration::from_millis(1);
const NAME: &str = "q";

async fn lock(server: &Server, kind: Kind) -> Lock {
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("it answers");
    client.lock(kind, NAME).expect("a good name")
}

fn patient() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(PATIENCE))
}

/// Waits for the end of a run without keeping a worker from the tasks of the test.
async fn end(peers: Peers) -> Vec<Fared> {
    let end = tokio::task::spawn_blocking(|| peers.end());
    end.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_of_redisson_wait_for_our_hold_and_enter_after_it() {
    for (word, kind) in [("reentrant", Kind::Reentrant), ("fenced", Kind::Fenced), ("fair", Kind::Fair)] {
        let server = Server::start(&[]);
        let Some(mut peers) = Peers::start(Wants {
            url: &server.url(),
            kind: word,
            name: NAME,
            threads: 2,
            hold: MS,
            run: 500 * MS,
        }) else {
            return;
        };
        let guard = lock(&server, kind).await.acquire_with(patient()).await;
        let guard = guard.expect("free");
        let began = Instant::now();
        peers.begin();
        // Nobody enters while their run lasts.
        tokio::time::sleep(700 * MS).await;
        let held = began.elapsed();
        guard.release().await.expect("held");
        for thread in end(peers).await {
            assert_eq!(thread.grants, 0, "{word}: inside beside us");
            // It came a moment later than it was told to.
            assert!(thread.longest > held / 2, "{word}: {thread:?}");
            assert!(thread.longest < held + PATIENCE / 2, "{word}: {thread:?}");
        }
    }
}

/// Beside a waiter of ours, and it beside them: deadlines that one side gives and the other takes from are
/// enough for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_lock_is_shared_evenly_with_threads_of_redisson() {
    const HOLD: Duration = Duration::from_millis(20);
    const RUN: Duration = Duration::from_secs(8);
    let server = Server::start(&[]);
    let Some(mut peers) = Peers::start(Wants {
        url: &server.url(),
        kind: "fair",
        name: NAME,
        threads: 4,
        hold: HOLD,
        run: RUN,
    }) else {
        return;
    };
    let lock = lock(&server, Kind::Fair).await;
    let began = Instant::now();
    peers.begin();
    let mut ours = Fared::default();
    while began.elapsed() < RUN {
        let asked = Instant::now();
        let guard = lock.acquire_with(patient()).await;
        ours.waited(asked.elapsed());
        // Nobody is to wait for so long; the verdict says who did.
        let Ok(guard) = guard else { continue };
        ours.grants += 1;
        tokio::time::sleep(HOLD).await;
        guard.release().await.expect("held");
    }
    let mut all = end(peers).await;
    all.push(ours);
    all_had_their_share(&all, RUN);
}
