//! A call that its waiter reads late: nobody believes in what has ended at the server, and nobody loses its
//! turn for it.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lock_core::{Client, ClientOptions, Guard, Kind, LockError, Wait};
use lock_support::{
    Relay,
    lines::{MINUTE, MS, listen, lock, minute, wait_for, waits},
};
use support::{PATIENCE, Server};
use tokio::task::JoinHandle;

type Waiting = JoinHandle<Result<Guard, LockError>>;

/// For so long a call lasts that nobody claims.
const UNCLAIMED: Duration = Duration::from_secs(2);
const LINE: &str = "locklab_queue:{q}";

/// What another client's heartbeat does, which calls the first in the line of a free lock.
fn heartbeat_of_another(server: &Server) {
    let script =
        concat!(include_str!("../scripts/queue.lua"), include_str!("../scripts/heartbeat_queued.lua"));
    let keys = ["q", "redisson_lock_token:{q}", LINE, "locklab_queue_order:{q}"];
    let args = ["peer", "3000", "0", "PUBLISH", "2000", "peer:1", "0"];
    server.ok(&[&["EVAL", script, "4"], &keys[..], &args].concat());
}

/// A process that stands still while its waiter is called, before the server has said anything about its
/// clock: the first waiter of the client was called by a release and never asked for a place.
#[tokio::test]
async fn a_call_without_a_known_age_is_not_believed() {
    let server = Server::start(&[]);
    let ours = lock(&server, Kind::Queued).await;
    let guard = ours.acquire_with(minute()).await.expect("free");
    let mut first = Box::pin(ours.acquire_with(minute()));
    let mut second = Box::pin(ours.acquire_with(minute()));
    assert!((&mut first).now_or_never().is_none(), "nobody holds it");
    assert!((&mut second).now_or_never().is_none(), "nobody holds it");
    // From here on nobody polls the first, which has the lock, and the second has the place.
    guard.release().await.expect("held");
    let until = Instant::now() + PATIENCE;
    while server.ok(&["PUBSUB", "CHANNELS"]).is_empty() {
        assert!(Instant::now() < until, "it does not subscribe");
        tokio::task::yield_now().await;
    }
    let second_owner = server.ok(&["HVALS", LINE]);
    server.ok(&["DEL", "q"]);
    heartbeat_of_another(&server);
    let called = server.ok(&["HKEYS", "q"]);
    assert!(second_owner.ends_with(&called), "{called} was called");
    std::thread::sleep(UNCLAIMED + 200 * MS);
    assert_eq!(server.ok(&["EXISTS", "q"]), "0", "nobody has claimed it");
    server.ok(&["HSET", "q", "stranger:1", "1"]);
    let entered = tokio::time::timeout(UNCLAIMED / 2, &mut second).await;
    assert!(entered.is_err(), "a stranger holds it, and it entered");
    server.ok(&["DEL", "q"]);
    let guard = second.await.expect("its turn");
    assert_eq!(server.ok(&["HKEYS", "q"]), guard.owner());
    guard.release().await.expect("held");
}

/// A waiter is given up when the server has called it. The next of its client, whose task stands still, came
/// before the waiter of another client, and has the lock before that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_called_waiter_is_given_up_keeps_its_turn() {
    let server = Server::start(&[]);
    let holder = lock(&server, Kind::Queued).await;
    let ours = lock(&server, Kind::Queued).await;
    let guard = holder.acquire_with(minute()).await.expect("free");
    let mut first = Box::pin(ours.acquire_with(minute()));
    let mut second = Box::pin(ours.acquire_with(minute()));
    let until = Instant::now() + PATIENCE;
    let hears = || server.ok(&["HVALS", LINE]).split(' ').nth(1) == Some("1");
    while !hears() {
        assert!(Instant::now() < until, "it has no place");
        let early = tokio::time::timeout(MS, &mut first).await;
        assert!(early.is_err(), "nobody holds it");
        assert!((&mut second).now_or_never().is_none(), "nobody holds it");
    }
    let behind = wait_for(&lock(&server, Kind::Queued).await);
    waits(&server, Kind::Queued, 2);
    // From here on nobody polls the two.
    guard.release().await.expect("held");
    let called = server.ok(&["HKEYS", "q"]);
    drop(first);
    while server.ok(&["HKEYS", "q"]) == called {
        assert!(Instant::now() < until, "{called} keeps it");
        tokio::task::yield_now().await;
    }
    let guard = second.await.expect("its turn");
    assert!(!behind.is_finished(), "it was overtaken, or two are inside");
    assert_eq!(server.ok(&["HKEYS", "q"]), guard.owner());
    guard.release().await.expect("held");
    let guard = behind.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

/// A waiter that was called and does not hear it before the relay delivers again, and one that came after it.
async fn called_unheard(server: &Server, relay: &Relay) -> (Waiting, Waiting) {
    let holder = lock(server, Kind::Queued).await;
    let guard = holder.acquire_with(minute()).await.expect("free");
    let target = relay.url().parse().expect("a good URL");
    // Silence is not to be taken for the end of a connection.
    let options = ClientOptions::default().response_timeout(7 * UNCLAIMED / 2);
    let late = Client::connect(&target, options).await.expect("it answers");
    let first = wait_for(&late.lock(Kind::Queued, "q").expect("a good name"));
    let place = ["HGET", LINE, late.id()];
    server.wait_for(&place, |entry| entry.split(' ').nth(1) == Some("1"));
    let behind = wait_for(&lock(server, Kind::Queued).await);
    waits(server, Kind::Queued, 2);
    listen(server, Kind::Queued, 2);
    relay.black_hole();
    guard.release().await.expect("held");
    let called = server.ok(&["HKEYS", "q"]);
    assert!(called.starts_with(late.id()), "{called} was called");
    (first, behind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_nearly_over_is_claimed_before_it_is_believed() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let (first, behind) = called_unheard(&server, &relay).await;
    tokio::time::sleep(UNCLAIMED - 350 * MS).await;
    relay.heal();
    let guard = first.await.expect("no panic").expect("its turn");
    let left = guard.valid_until() - Instant::now();
    assert!(left > MINUTE / 2, "{left:?} is left");
    assert!(!behind.is_finished(), "two at once");
    tokio::time::sleep(UNCLAIMED / 2).await;
    assert!(!guard.is_lost());
    guard.release().await.expect("held");
    let guard = behind.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_over_costs_no_rank() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let (first, behind) = called_unheard(&server, &relay).await;
    let holder = behind.await.expect("no panic").expect("its turn");
    let last = wait_for(&lock(&server, Kind::Queued).await);
    waits(&server, Kind::Queued, 1);
    relay.heal();
    // The first has read its call, and has a place again.
    waits(&server, Kind::Queued, 2);
    assert!(!first.is_finished(), "two at once");
    holder.release().await.expect("held");
    let guard = first.await.expect("no panic").expect("its turn");
    assert!(!last.is_finished(), "overtaken");
    guard.release().await.expect("held");
    let guard = last.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

/// Waits that are shorter than a round trip: each acquire is undone, and so may be each of the two waiters
/// that an undo names. These name nobody, or they would double with each round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undos_of_waiters_that_have_left_do_not_multiply() {
    const TASKS: u64 = 3;
    const ACQUIRES: u64 = 40;
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let target = relay.url().parse().expect("a good URL");
    let late = Client::connect(&target, ClientOptions::default()).await;
    let late = late.expect("it answers");
    relay.delay(150 * MS);
    let tasks = (0..TASKS).map(|_| {
        let lock = late.lock(Kind::Queued, "q").expect("a good name");
        tokio::spawn(async move {
            for _ in 0..ACQUIRES {
                let short = minute().wait(Wait::AtMost(100 * MS));
                if let Ok(guard) = lock.acquire_with(short).await {
                    let _ = guard.release().await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let ended = tokio::time::timeout(2 * PATIENCE, task).await;
        ended.expect("it comes to an end").expect("no panic");
    }
    let run = server.ok(&["INFO", "commandstats"]);
    let run = run.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = run.filter_map(|line| line.split_once("calls=")?.1.split(',').next());
    let calls: u64 = calls.filter_map(|calls| calls.parse::<u64>().ok()).sum();
    assert!(calls < TASKS * ACQUIRES * 100, "{calls} scripts for {} acquires", TASKS * ACQUIRES);
}
