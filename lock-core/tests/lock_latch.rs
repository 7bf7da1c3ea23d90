//! The promises of a latch: it counts each thing once, and opens for everybody, whatever is lost.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{Client, ClientOptions, ErrorKind, Latch, Wait};
use lock_support::{Loss, Relay};
use support::{
    PATIENCE, Server,
    cluster::Cluster,
    monitor::{Monitor, sent},
};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "redisson_countdownlatch__channel__{n}";

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

/// Waiters look for no other reason than a message or a new subscription, unless they are told otherwise.
fn patient() -> ClientOptions {
    ClientOptions::default().poll_bound(MINUTE).response_timeout(300 * MS)
}

async fn latch(url: &str) -> Latch {
    client(url, patient()).await.latch("n").expect("a good name")
}

fn waiters(latch: &Latch, count: usize) -> Vec<JoinHandle<bool>> {
    let waiter = |_| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait_with(Wait::AtMost(PATIENCE)).await.expect("answered") })
    };
    (0..count).map(waiter).collect()
}

async fn all_pass(waiters: Vec<JoinHandle<bool>>) {
    for waiter in waiters {
        assert!(waiter.await.expect("no panic"), "it is open");
    }
}

async fn listened_to(server: &Server, clients: usize) {
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with(&clients.to_string()));
    // The look that follows the subscription is to find it closed.
    tokio::time::sleep(100 * MS).await;
}

#[tokio::test]
async fn it_counts_down_to_nothing_and_is_closed_again() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    assert!(latch.wait_with(Wait::Forever).await.expect("answered"), "no count");
    assert_eq!(latch.count_down().await.expect("answered"), 0);
    assert_eq!(server.ok(&["EXISTS", "n"]), "0", "never below nothing");
    for round in 0..2 {
        assert!(latch.try_set_count(2).await.expect("answered"), "{round}");
        assert!(!latch.try_set_count(9).await.expect("answered"));
        assert_eq!(latch.count().await.expect("answered"), 2);
        assert!(!latch.wait_with(Wait::Try).await.expect("answered"));
        assert!(!latch.wait_with(Wait::AtMost(20 * MS)).await.expect("answered"));
        assert_eq!(latch.count_down().await.expect("answered"), 1);
        assert_eq!(latch.count_down().await.expect("answered"), 0);
        assert!(latch.wait_with(Wait::Try).await.expect("answered"));
        assert_eq!(server.ok(&["EXISTS", "n"]), "0");
    }
    assert!(latch.try_set_count(2).await.expect("answered"));
    assert!(latch.delete().await.expect("answered"));
    assert!(!latch.delete().await.expect("answered"));
    assert!(latch.wait_with(Wait::Forever).await.expect("answered"));
    let error = latch.try_set_count(0).await.expect_err("no count");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The key, channel and payloads of RCountDownLatch, and a latch for each answer beside them.
#[tokio::test]
async fn the_wire_is_that_of_rcountdownlatch() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    latch.try_set_count(1).await.expect("answered");
    latch.count_down().await.expect("answered");
    let mut monitor = Monitor::start(&server);
    latch.try_set_count(2).await.expect("answered");
    assert_eq!(server.ok(&["GET", "n"]), "2");
    latch.count_down().await.expect("answered");
    latch.count_down().await.expect("answered");
    let all = monitor.until_echo(&server);
    let scripts: Vec<_> = sent(&all).into_iter().filter(|words| words[0] == "EVALSHA").collect();
    assert_eq!(scripts.len(), 3, "{all:?}");
    for words in &scripts {
        assert_eq!(words[2..4], ["2", "n"]);
        assert!(words[4].starts_with("locklab_answer_latch:{n}:"), "{words:?}");
    }
    assert_eq!(scripts[0][5..], ["2", "PUBLISH", CHANNEL, "3600000"]);
    assert_eq!(scripts[1][5..], ["PUBLISH", CHANNEL, "3600000"]);
    let told: Vec<_> = all
        .iter()
        .filter(|(inner, words)| *inner && words[0].eq_ignore_ascii_case("publish"))
        .map(|(_, words)| words[1..].join(" "))
        .collect();
    assert_eq!(told, [format!("{CHANNEL} 1"), format!("{CHANNEL} 0")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lost_answer_counts_twice() {
    for loss in [Loss::Reset, Loss::Silence] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let latch = latch(&relay.url()).await;
        relay.lose("EVALSHA", loss);
        let closed = latch.try_set_count(3).await;
        assert!(closed.expect("asked again"), "{loss:?}: its own");
        for left in [2, 1, 0] {
            relay.lose("EVALSHA", loss);
            let counted = latch.count_down().await.expect("asked again");
            assert_eq!(counted, left, "{loss:?}");
        }
        assert_eq!(relay.lost(), 4);
    }
}

/// A caller that goes away in the middle has counted, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_nobody_waits_for_is_counted_once() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    relay.delay(2 * MS);
    let latch = latch(&relay.url()).await;
    latch.try_set_count(50).await.expect("answered");
    let mut left = 50;
    for polls in 1.. {
        let done = lock_support::polled(latch.count_down(), polls).await;
        left -= 1;
        server.wait_for(&["GET", "n"], |count| count == left.to_string());
        if done {
            break;
        }
    }
    // A silent server leaves it unknown to the caller, and it is counted when it speaks again.
    relay.delay(Duration::ZERO);
    let frozen = server.freeze();
    let error = latch.count_down().await.expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    drop(frozen);
    left -= 1;
    server.wait_for(&["GET", "n"], |count| count == left.to_string());
    tokio::time::sleep(100 * MS).await;
    assert_eq!(server.ok(&["GET", "n"]), left.to_string());
}

/// A hundred waiters of a client listen once, and each looks once for a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_waiters_of_a_client_listen_once() {
    let server = Server::start(&[]);
    let ours = client(&server.url(), patient()).await;
    let theirs = latch(&server.url()).await;
    let latch = ours.latch("n").expect("a good name");
    latch.try_set_count(1).await.expect("answered");
    let mut all = waiters(&latch, 100);
    all.extend(waiters(&theirs, 1));
    listened_to(&server, 2).await;
    let before = ours.stats().commands;
    theirs.count_down().await.expect("answered");
    all_pass(all).await;
    let looks = ours.stats().commands - before;
    assert!(looks <= 110, "{looks} commands for a hundred waiters");
}

/// The reference parks for ever when the message is lost with the subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_subscription_makes_the_waiters_look() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    latch.try_set_count(1).await.expect("answered");
    let waiters = waiters(&latch, 3);
    listened_to(&server, 1).await;
    server.ok(&["DEL", "n"]);
    server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    all_pass(waiters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peers_message_and_the_poll_bound_open_too() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    latch.try_set_count(1).await.expect("answered");
    let mut all = waiters(&latch, 2);
    listened_to(&server, 1).await;
    server.ok(&["DEL", "n"]);
    server.ok(&["PUBLISH", CHANNEL, "0"]);
    all_pass(std::mem::take(&mut all)).await;
    // Nobody says anything, and nothing breaks.
    let options = ClientOptions::default().poll_bound(200 * MS);
    let polling = client(&server.url(), options).await.latch("n");
    let polling = polling.expect("a good name");
    latch.try_set_count(1).await.expect("answered");
    let all = waiters(&polling, 2);
    listened_to(&server, 1).await;
    server.ok(&["DEL", "n"]);
    all_pass(all).await;
}

/// One that goes, by its bound or before, takes no other along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_goes_leaves_the_others_waiting() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    latch.try_set_count(1).await.expect("answered");
    let first = waiters(&latch, 1);
    listened_to(&server, 1).await;
    let bounded = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait_with(Wait::AtMost(300 * MS)).await }
    });
    tokio::task::yield_now().await;
    let rest = waiters(&latch, 3);
    first[0].abort();
    assert!(!bounded.await.expect("no panic").expect("answered"));
    latch.count_down().await.expect("answered");
    all_pass(rest).await;
    // Closed again: what the line saw before is of no account for those who come now.
    latch.try_set_count(1).await.expect("answered");
    let open = latch.wait_with(Wait::AtMost(50 * MS)).await;
    assert!(!open.expect("answered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_bound_is_kept_when_the_server_is_silent() {
    let server = Server::start(&[]);
    let latch = latch(&server.url()).await;
    latch.try_set_count(1).await.expect("answered");
    let frozen = server.freeze();
    for wait in [Wait::Try, Wait::AtMost(500 * MS)] {
        let began = Instant::now();
        let error = latch.wait_with(wait).await.expect_err("silence");
        assert_eq!(error.kind(), ErrorKind::Failed, "a look has no effect");
        assert!(error.to_string().contains("wait for n"), "{error}");
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    }
    drop(frozen);
}

/// The channel puts braces around the name also where it has some: such a latch would never hear anything on
/// a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_refuses_names_that_part_their_keys() {
    let cluster = Cluster::start(2, false);
    for retag in [false, true] {
        let options = patient().retag_names(retag);
        let client = client(&cluster.url(), options).await;
        for name in ["a{b}c", "{x}", "a{b"] {
            let error = client.latch(name).expect_err("two slots");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("slot"), "{error}");
        }
        for name in ["{x}", "a{b}c"] {
            let semaphore = client.semaphore(name).expect("one slot");
            semaphore.try_set_permits(1, None).await.expect("one slot");
            semaphore.take_with(1, Wait::Try).await.expect("one slot");
            semaphore.delete().await.expect("one slot");
            let permits = client.permits(name).expect("one slot");
            permits.try_set_permits(1).await.expect("one slot");
            permits.delete().await.expect("one slot");
        }
        assert_eq!(client.semaphore("a{b").is_ok(), retag);
        assert_eq!(client.permits("a}b").is_ok(), retag);
    }
}
