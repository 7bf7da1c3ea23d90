//! Turns what the kinds with a line at the server promise into tests: order, few commands, and waiters who are gone.

mod lock_support;
mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, GuardEvent, Kind, Lease, Lock, Tracer, Wait,
};
use lock_support::{Relay, shapes::only_latches_and_tokens_stay};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const KINDS: [Kind; 2] = [Kind::Queued, Kind::Fair];

async fn client(url: &str) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, ClientOptions::default())
        .await
        .expect("it answers")
}

async fn lock(server: &Server, kind: Kind) -> Lock {
    let client = client(&server.url()).await;
    client.lock(kind, "q").expect("a good name")
}

fn minute() -> Acquire {
    Acquire::default()
        .wait(Wait::AtMost(PATIENCE))
        .lease(Lease::Fixed(MINUTE))
}

/// Waits until so many stand in the line.
fn waits(server: &Server, kind: Kind, owners: usize) {
    if kind == Kind::Fair {
        server.wait_for(&["LLEN", "redisson_lock_queue:{q}"], |length| {
            length == owners.to_string()
        });
    } else {
        server.wait_for(&["HKEYS", "locklab_queue:{q}"], |fields| {
            fields
                .lines()
                .filter(|field| field.starts_with("o:"))
                .count()
                == owners
        });
    }
}

/// Waits until so many clients can be told something.
fn listen(server: &Server, kind: Kind, clients: usize) {
    if kind == Kind::Fair {
        server.wait_for(&["PUBSUB", "NUMPAT"], |count| count == clients.to_string());
    } else {
        server.wait_for(&["PUBSUB", "CHANNELS"], |channels| {
            channels.lines().count() == clients
        });
    }
}

fn wait_for(
    lock: &Lock,
) -> tokio::task::JoinHandle<Result<lock_core::Guard, lock_core::LockError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire(minute()).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_several_clients_get_it_in_the_order_of_their_arrival() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let mut locks = Vec::new();
        for _ in 0..3 {
            locks.push(lock(&server, kind).await);
        }
        let first = locks[0].acquire(minute()).await.expect("free");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = Vec::new();
        for i in 0..12 {
            let (lock, order) = (locks[i % 3].clone(), Arc::clone(&order));
            waiters.push(tokio::spawn(async move {
                let guard = lock.acquire(minute()).await.expect("its turn comes");
                order.lock().expect("unpoisoned").push((i, guard.token()));
                guard.release().await.expect("held");
            }));
            waits(&server, kind, i + 1);
        }
        first.release().await.expect("held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        let order = order.lock().expect("unpoisoned").clone();
        let came: Vec<_> = order.iter().map(|(i, _)| *i).collect();
        assert_eq!(came, Vec::from_iter(0..12), "{kind}");
        assert!(
            order.is_sorted_by_key(|(_, token)| *token),
            "{kind}: {order:?}"
        );
        only_latches_and_tokens_stay(&server);
    }
}

/// Every newcomer speaks for himself. If that stood for the beat of those who wait, there would be none while others keep coming, and
/// who waits for longer than a place lasts would lose his.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newcomers_do_not_put_off_the_beat_of_those_who_wait() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let beats = Arc::new(AtomicU32::new(0));
        let tracer = Tracer::new({
            let beats = Arc::clone(&beats);
            move |event| {
                let is_beat = event.script.is_some_and(|name| name.starts_with("beat"));
                beats.fetch_add(u32::from(is_beat), Ordering::SeqCst);
            }
        });
        let target = server.url().parse().expect("a good URL");
        let options = ClientOptions::default().tracer(tracer);
        let ours = Client::connect(&target, options).await.expect("it answers");
        let ours = ours.lock(kind, "q").expect("a good name");
        let held = lock(&server, kind).await.acquire(minute()).await;
        let first = wait_for(&ours);
        waits(&server, kind, 1);
        let until = Instant::now() + PATIENCE;
        // One comes with the subscription, the others with time.
        while beats.load(Ordering::SeqCst) < 3 {
            assert!(Instant::now() < until, "{kind}: no beat");
            let how = minute().wait(Wait::AtMost(50 * MS));
            ours.acquire(how).await.expect_err("others are first");
        }
        held.expect("free").release().await.expect("held");
        let guard = first.await.expect("no panic").expect("its turn comes");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_in_a_line_costs_two_commands_and_where_the_called_one_asks_three() {
    const CYCLES: u64 = 200;
    for (kind, each) in [(Kind::Queued, 2), (Kind::Fair, 3)] {
        let server = Server::start(&[]);
        let client = client(&server.url()).await;
        let lock = client.lock(kind, "q").expect("a good name");
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
        // The beats that time brings, and the PINGs of quiet connections; and whoever is called on a machine that stands still for half a
        // second claims its lease by a command of its own.
        let apart = 4 + 4 * started.elapsed().as_secs() + CYCLES / 5;
        let most = each * CYCLES + apart;
        assert!(
            commands <= most,
            "{kind}: {commands} commands for {CYCLES} cycles"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connections_are_gone_is_passed_over() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let holder = lock(&server, kind).await;
        let cut_off = client(&relay.url()).await;
        let cut_off = cut_off.lock(kind, "q").expect("a good name");
        let next = lock(&server, kind).await;
        let guard = holder.acquire(minute()).await.expect("free");
        let silent = wait_for(&cut_off);
        waits(&server, kind, 1);
        let waiter = wait_for(&next);
        waits(&server, kind, 2);
        listen(&server, kind, 2);
        // Nothing gets through any more, and the server loses the connections, as when a machine dies.
        relay.black_hole();
        server.ok(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
        listen(&server, kind, 1);
        guard.release().await.expect("held");
        let guard = waiter.await.expect("no panic").expect("its turn");
        relay.mend();
        assert!(!silent.is_finished(), "{kind}: two at once");
        guard.release().await.expect("held");
        let guard = silent.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_heard_is_made_up_for() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, kind).await, lock(&server, kind).await);
        let guard = holder.acquire(minute()).await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, kind, 1);
        listen(&server, kind, 1);
        server.ok(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_blocks_nobody_and_leaves_nothing() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let lock = lock(&server, kind).await;
        let guard = lock.acquire(minute()).await.expect("free");
        let gone = lock.acquire(minute().wait(Wait::AtMost(50 * MS))).await;
        assert_eq!(gone.expect_err("held").kind(), ErrorKind::Busy);
        waits(&server, kind, 0);
        let waiter = wait_for(&lock);
        waits(&server, kind, 1);
        waiter.abort();
        waits(&server, kind, 0);
        guard.release().await.expect("held");
        let again = lock.acquire(minute().wait(Wait::Try)).await.expect("free");
        again.release().await.expect("held");
        only_latches_and_tokens_stay(&server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_does_not_overtake() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, kind).await, lock(&server, kind).await);
        let guard = holder.acquire(minute()).await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, kind, 1);
        let tries = tokio::spawn(async move {
            let mut got = 0;
            while got == 0 {
                match holder.acquire(minute().wait(Wait::Try)).await {
                    Ok(guard) => {
                        got += 1;
                        guard.release().await.expect("held");
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
                }
            }
        });
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        assert!(!tries.is_finished(), "{kind}: overtaken");
        guard.release().await.expect("held");
        tries.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_hold_that_was_called_claims_its_whole_lease() {
    let server = Server::start(&[]);
    let lock = lock(&server, Kind::Queued).await;
    let guard = lock.acquire(minute()).await.expect("free");
    assert_eq!(guard.granted_lease(), MINUTE);
    let waiting = wait_for(&lock);
    waits(&server, Kind::Queued, 1);
    guard.release().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    assert!(guard.granted_lease() < MINUTE);
    let mut events = guard.events();
    server.wait_for(&["PTTL", "q"], |left| {
        left.parse::<i64>().is_ok_and(|left| left > 30_000)
    });
    assert!(matches!(
        events.next().await,
        Some(GuardEvent::Extended { .. })
    ));
    assert!(guard.valid_until() > Instant::now() + MINUTE / 2);
    guard.release().await.expect("held");
}

/// RFairLock's keys as a peer may leave them.
struct Peer<'a>(&'a Server);

impl Peer<'_> {
    fn waits(&self, owner: &str, deadline_ms: Option<u64>) {
        self.0.ok(&["RPUSH", "redisson_lock_queue:{q}", owner]);
        if let Some(deadline_ms) = deadline_ms {
            let deadline_ms = deadline_ms.to_string();
            self.0
                .ok(&["ZADD", "redisson_lock_timeout:{q}", &deadline_ms, owner]);
        }
    }

    fn now_ms(&self) -> u64 {
        let time = self.0.ok(&["TIME"]);
        let mut parts = time
            .lines()
            .map(|part| part.parse::<u64>().expect("a number"));
        parts.next().expect("seconds") * 1000 + parts.next().expect("microseconds") / 1000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_head_a_scoreless_one_and_one_of_long_ago_stall_nobody() {
    let server = Server::start(&[]);
    let peer = Peer(&server);
    let lock = lock(&server, Kind::Fair).await;
    peer.waits("dead:1", Some(peer.now_ms() + 300_000));
    peer.waits("scoreless:1", None);
    peer.waits("late:1", Some(1));
    // A peer would have left the free lock to the first of them for five minutes.
    let guard = lock.acquire(minute()).await.expect("nobody comes");
    guard.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_a_foreign_clock_evicts_comes_back() {
    let server = Server::start(&[]);
    let (holder, waiter) = (
        lock(&server, Kind::Fair).await,
        lock(&server, Kind::Fair).await,
    );
    let guard = holder.acquire(minute()).await.expect("free");
    let waiting = wait_for(&waiter);
    waits(&server, Kind::Fair, 1);
    listen(&server, Kind::Fair, 1);
    // What every script of RFairLock does to a head whose deadline is behind its caller's clock.
    server.ok(&[
        "DEL",
        "redisson_lock_queue:{q}",
        "redisson_lock_timeout:{q}",
    ]);
    waits(&server, Kind::Fair, 1);
    guard.release().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_moves_nobody_elses_deadline() {
    let server = Server::start(&[]);
    let peer = Peer(&server);
    let lock = lock(&server, Kind::Fair).await;
    let guard = lock.acquire(minute()).await.expect("free");
    let deadline = peer.now_ms() + 20_000;
    let waiting = wait_for(&lock);
    waits(&server, Kind::Fair, 1);
    peer.waits("behind:1", Some(deadline));
    waiting.abort();
    waits(&server, Kind::Fair, 1);
    let score = server.ok(&["ZSCORE", "redisson_lock_timeout:{q}", "behind:1"]);
    assert_eq!(score, deadline.to_string());
    guard.release().await.expect("held");
}
