//! Waiters whose subscription is lost, by any cause, look at once: with a poll bound and a lease of a
//! minute nothing else explains an early entry.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Wait, slot};
use support::{PATIENCE, Server, cluster::Cluster, sentinel::Group};
use tokio::task::JoinHandle;

const MINUTE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "redisson_lock__channel:{n}";

/// A waiter of each kind that listens, behind a stranger's lock; ready when both have subscribed at `server`.
async fn waiters(url: &str, server: &Server, numsub: &str) -> Vec<JoinHandle<()>> {
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let mut waiters = Vec::new();
    for kind in [Kind::Reentrant, Kind::NonReentrant, Kind::Fenced] {
        let options =
            ClientOptions::default().poll_bound(MINUTE).response_timeout(Duration::from_millis(500));
        let target = url.parse().expect("a good URL");
        let client = Client::connect(&target, options).await.expect("it answers");
        let lock = client.lock(kind, "n").expect("a good name");
        waiters.push(tokio::spawn(async move {
            let how = Acquire::default().wait(Wait::Forever).lease(Lease::Fixed(MINUTE));
            let guard = lock.acquire_with(how).await.expect("entered");
            guard.release().await.expect("held");
        }));
    }
    let all = waiters.len().to_string();
    server.wait_for(&["PUBSUB", numsub, CHANNEL], |answer| answer.ends_with(&all));
    // The look that follows the subscription is to find the stranger.
    tokio::time::sleep(Duration::from_millis(100)).await;
    waiters
}

async fn all_enter(waiters: Vec<JoinHandle<()>>) {
    for waiter in waiters {
        let entered = tokio::time::timeout(PATIENCE, waiter).await;
        entered.expect("it looks at once").expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_pub_sub_connection_makes_every_waiter_look() {
    let server = Server::start(&[]);
    let waiters = waiters(&server.url(), &server, "NUMSUB").await;
    // Nobody says that it is free.
    server.ok(&["DEL", "n"]);
    server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    all_enter(waiters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_slot_makes_every_waiter_look_at_the_new_owner() {
    let cluster = Cluster::start(2, false);
    let slot = slot(b"n");
    let (from, to) = if slot < 8192 { (0, 1) } else { (1, 0) };
    let waiters = waiters(&cluster.url(), &cluster.nodes[from], "SHARDNUMSUB").await;
    cluster.nodes[from].ok(&["DEL", "n"]);
    cluster.begin_migration(slot, from, to);
    cluster.finish_migration(slot, to);
    all_enter(waiters).await;
    assert_eq!(cluster.nodes[to].ok(&["EXISTS", "n"]), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_makes_every_waiter_look_at_the_new_master() {
    let mut group = Group::start(1);
    let waiters = waiters(&group.url(), &group.data[0], "NUMSUB").await;
    group.data[0].ok(&["DEL", "n"]);
    group.data[1].wait_for(&["EXISTS", "n"], |answer| answer == "0");
    // The promoted one knows no script: NOSCRIPT is met on the way.
    group.data[0].kill();
    all_enter(waiters).await;
    let stats = group.data[1].ok(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha"), "{stats}");
}
