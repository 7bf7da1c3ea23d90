//! Turns what only the queued kind promises into tests: order, one command for a hand-off, and waiters who are gone.

mod lock_support;
mod support;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Wait};
use lock_support::{Relay, shapes::only_latches_and_tokens_stay};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn client(url: &str) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, ClientOptions::default())
        .await
        .expect("it answers")
}

fn minute() -> Acquire {
    Acquire::default()
        .wait(Wait::AtMost(PATIENCE))
        .lease(Lease::Fixed(MINUTE))
}

/// Waits until so many stand in the line.
fn waits(server: &Server, name: &str, owners: usize) {
    server.wait_for(&["HKEYS", &format!("locklab_queue:{{{name}}}")], |fields| {
        fields
            .lines()
            .filter(|field| field.starts_with("o:"))
            .count()
            == owners
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_several_clients_get_it_in_the_order_of_their_arrival() {
    let server = Server::start(&[]);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server.url()).await);
    }
    let lock = |i: usize| clients[i % 3].lock(Kind::Queued, "q").expect("a good name");
    let first = lock(0).acquire(minute()).await.expect("free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for i in 0..12 {
        let (lock, order) = (lock(i), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire(minute()).await.expect("its turn comes");
            order.lock().expect("unpoisoned").push((i, guard.token()));
            guard.release().await.expect("held");
        }));
        waits(&server, "q", i + 1);
    }
    first.release().await.expect("held");
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    let order = order.lock().expect("unpoisoned").clone();
    assert_eq!(
        order.iter().map(|(i, _)| *i).collect::<Vec<_>>(),
        Vec::from_iter(0..12)
    );
    assert!(order.is_sorted_by_key(|(_, token)| *token), "{order:?}");
    only_latches_and_tokens_stay(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_in_a_line_costs_two_commands() {
    const CYCLES: u64 = 200;
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let lock = client.lock(Kind::Queued, "q").expect("a good name");
    let work = || async {
        for _ in 0..CYCLES / 20 {
            let guard = lock.acquire(minute()).await.expect("its turn comes");
            tokio::time::sleep(MS).await;
            guard.release().await.expect("held");
        }
    };
    // Loads the scripts and subscribes.
    futures_util::future::join_all((0..2).map(|_| work())).await;
    let started = Instant::now();
    let before = client.stats().commands;
    futures_util::future::join_all((0..20).map(|_| work())).await;
    let commands = client.stats().commands - before;
    // Subscribing, the beats that time brings, and the PINGs of quiet connections.
    let apart = 4 + 4 * started.elapsed().as_secs();
    assert!(
        commands <= 2 * CYCLES + apart,
        "{commands} commands for {CYCLES} cycles"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_process_died_is_passed_over_at_once() {
    let server = Server::start(&[]);
    let (holder, dead, next) = (
        client(&server.url()).await,
        client(&server.url()).await,
        client(&server.url()).await,
    );
    let guard = holder
        .lock(Kind::Queued, "q")
        .expect("good")
        .acquire(minute())
        .await;
    let guard = guard.expect("free");
    let dead_lock = dead.lock(Kind::Queued, "q").expect("good");
    let waiting = tokio::spawn(async move { dead_lock.acquire(minute()).await.map(drop) });
    waits(&server, "q", 1);
    let next_lock = next.lock(Kind::Queued, "q").expect("good");
    let waiter = tokio::spawn(async move { next_lock.acquire(minute()).await });
    waits(&server, "q", 2);
    // Its connections are closed, and its place is not given back.
    server.wait_for(&["PUBSUB", "CHANNELS"], |channels| {
        channels.lines().count() == 2
    });
    waiting.abort();
    dead.close().await;
    guard.release().await.expect("held");
    let guard = waiter.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_not_heard_is_known_by_the_next_beat() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let (holder, waiter) = (
        client(&server.url()).await,
        client(&format!("redis://{}", relay.address)).await,
    );
    let guard = holder
        .lock(Kind::Queued, "q")
        .expect("good")
        .acquire(minute())
        .await;
    let guard = guard.expect("free");
    let lock = waiter.lock(Kind::Queued, "q").expect("good");
    let waiting = tokio::spawn(async move { lock.acquire(minute()).await });
    waits(&server, "q", 1);
    server.wait_for(&["PUBSUB", "CHANNELS"], |channels| {
        channels.lines().count() == 1
    });
    // The server publishes into a connection that is about to die.
    guard.release().await.expect("held");
    server.ok(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
    let guard = waiting.await.expect("no panic").expect("its turn");
    assert!(guard.token() > Some(1));
    guard.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_blocks_nobody_and_leaves_nothing() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let lock = client.lock(Kind::Queued, "q").expect("good");
    let guard = lock.acquire(minute()).await.expect("free");
    let gone = lock.acquire(minute().wait(Wait::AtMost(50 * MS))).await;
    assert_eq!(gone.expect_err("held").kind(), ErrorKind::Busy);
    waits(&server, "q", 0);
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire(minute()).await }
    });
    waits(&server, "q", 1);
    waiter.abort();
    waits(&server, "q", 0);
    guard.release().await.expect("held");
    let again = lock.acquire(minute().wait(Wait::Try)).await.expect("free");
    again.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_was_called_claims_its_whole_lease() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let lock = client.lock(Kind::Queued, "q").expect("good");
    let guard = lock.acquire(minute()).await.expect("free");
    assert_eq!(guard.granted_lease(), MINUTE);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire(minute()).await }
    });
    waits(&server, "q", 1);
    guard.release().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    assert!(guard.granted_lease() < MINUTE);
    let mut events = guard.events();
    server.wait_for(&["PTTL", "q"], |left| {
        left.parse::<i64>().is_ok_and(|left| left > 30_000)
    });
    assert!(matches!(
        events.next().await,
        Some(lock_core::GuardEvent::Extended { .. })
    ));
    assert!(guard.valid_until() > Instant::now() + MINUTE / 2);
    guard.release().await.expect("held");
}
