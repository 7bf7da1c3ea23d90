//! Several names of one slot, all or none in one call; to everybody else each name is an RLock.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, LostReason, Owner, Released, Wait,
};
use lock_support::{Loss, Relay, all_is_over, shapes::only_latches_and_tokens_stay};
use support::{PATIENCE, Server, cluster::Cluster};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_millis(600);
const NAMES: [&str; 3] = ["{o}:a", "{o}:b", "{o}:c"];

async fn client(url: &str) -> Client {
    let options =
        ClientOptions::default().response_timeout(300 * MS).watchdog_lease(LEASE).poll_bound(10 * PATIENCE);
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn all(client: &Client) -> Lock {
    client.all_of(&NAMES).expect("one slot")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(Duration::from_secs(60)))
}

fn once() -> Acquire {
    minute().wait(Wait::Try)
}

/// How many of them are there.
fn there(server: &Server) -> String {
    server.ok(&["EXISTS", NAMES[0], NAMES[1], NAMES[2]])
}

/// A name is any text, also the names of others with a line between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_line_breaks_stand_in_lines_of_their_own() {
    let server = Server::start(&[]);
    let (client, others) = (client(&server.url()).await, client(&server.url()).await);
    let held = all(&others).acquire_with(minute()).await.expect("free");
    let waits = tokio::spawn({
        let lock = all(&client);
        async move { lock.acquire_with(minute()).await }
    });
    let channel = format!("redisson_lock__channel:{}", NAMES[0]);
    server.wait_for(&["PUBSUB", "NUMSUB", &channel], |answer| answer.ends_with('1'));
    let free = client.all_of(&[&NAMES.join("\n")]).expect("one name");
    let guard = free.acquire_timeout(Duration::from_secs(5)).await.expect("free, and nobody waits for it");
    guard.release().await.expect("held");
    held.release().await.expect("held");
    waits.await.expect("no panic").expect("free").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_taken_kept_and_given_back_in_one_call_each() {
    let server = Server::start(&[]);
    let (client, others) = (client(&server.url()).await, client(&server.url()).await);
    let lock = all(&client);
    // Teaches the server the scripts.
    let warm = lock.acquire_with(once()).await.expect("free");
    warm.extend(60_000 * MS).await.expect("held");
    warm.release().await.expect("held");
    let before = client.stats().commands;
    let guard = lock.acquire_with(once()).await.expect("free");
    assert_eq!(there(&server), "3");
    guard.extend(90_000 * MS).await.expect("held");
    for name in NAMES {
        assert_eq!(server.ok(&["HGET", name, guard.owner()]), "1");
        let left: u64 = server.ok(&["PTTL", name]).parse().expect("ms");
        assert!(left > 60_000, "{name}: {left} ms");
        // Each is an RLock to others.
        let single = others.lock(Kind::Reentrant, name).expect("a good name");
        let error = single.acquire_with(once()).await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    assert_eq!(guard.release().await.expect("held"), Released::Freed);
    assert_eq!(there(&server), "0");
    assert_eq!(client.stats().commands - before, 3);
    assert!(!lock.is_locked().await.expect("answered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_anothers_keeps_all_out_until_it_is_free() {
    let server = Server::start(&[]);
    let (ours, theirs) = (client(&server.url()).await, client(&server.url()).await);
    let lock = all(&ours);
    for name in NAMES {
        let single = theirs.lock(Kind::Reentrant, name).expect("a good name");
        let held = single.acquire_with(minute()).await.expect("free");
        let error = lock.acquire_with(once()).await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(there(&server), "1", "{name}: half of it was taken");
        assert!(lock.is_locked().await.expect("answered"));
        let holder = lock.holder().await.expect("answered").expect("held");
        assert_eq!(holder.owner, held.owner());
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_with(minute()).await }
        });
        let channel = format!("redisson_lock__channel:{name}");
        server.wait_for(&["PUBSUB", "NUMSUB", &channel], |answer| answer == format!("{channel}\n1"));
        // Whichever of them it is, its release wakes: no poll comes in time.
        held.release().await.expect("held");
        let guard = tokio::time::timeout(PATIENCE, waiting).await;
        let guard = guard.expect("woken").expect("no panic").expect("free");
        assert_eq!(there(&server), "3");
        guard.release().await.expect("held");
        server.wait_for(&["PUBSUB", "NUMSUB", &channel], |answer| answer == format!("{channel}\n0"));
    }
}

/// Sets that overlap exclude each other, and in whatever order the names are given no two wait for each
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_exclude_each_other() {
    let server = Server::start(&[]);
    let sets = [["{o}:a", "{o}:b"], ["{o}:b", "{o}:a"], ["{o}:c", "{o}:b"]];
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for set in sets {
        let client = client(&server.url()).await;
        let lock = client.all_of(&set).expect("one slot");
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..30 {
                let guard = lock.acquire_with(minute()).await.expect("its turn");
                let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                assert_eq!(others, 0, "two have b");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(server.ok(&["KEYS", "*"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_is_renewed_and_lost_with_one() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let guard = all(&client).acquire_with(Acquire::default()).await.expect("free");
    let until = Instant::now() + LEASE * 2;
    while Instant::now() < until {
        assert!(!guard.is_lost());
        assert_eq!(there(&server), "3");
        tokio::time::sleep(20 * MS).await;
    }
    server.ok(&["DEL", NAMES[1]]);
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("told"), LostReason::Missing);
    let error = guard.release().await.expect_err("not all were held");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert_eq!(there(&server), "0", "the rest is given back");
    all_is_over(&server, LEASE).await;
}

/// Answers get lost on acquire, re-entry and both releases: each is counted once, on every name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_do_nothing_twice() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let client = client(&relay.url()).await;
    let lock = all(&client);
    let counts = |count: &str| {
        for name in NAMES {
            assert_eq!(server.ok(&["HVALS", name]), count, "{name}");
        }
    };
    for loss in [Loss::Reset, Loss::Silence] {
        let mine = minute().owner(Owner::numbered(1));
        let warm = lock.acquire_with(mine.clone()).await.expect("free");
        warm.release().await.expect("held");
        relay.lose("EVALSHA", loss);
        let outer = lock.acquire_with(mine.clone()).await.expect("asked again");
        counts("1");
        relay.lose("EVALSHA", loss);
        let inner = lock.acquire_with(mine).await.expect("asked again");
        counts("2");
        relay.lose("EVALSHA", loss);
        assert_eq!(inner.release().await.expect("held"), Released::StillHeld);
        counts("1");
        relay.lose("EVALSHA", loss);
        assert_eq!(outer.release().await.expect("held"), Released::Freed);
        // A fresh owner brings no latch.
        relay.lose("EVALSHA", loss);
        let guard = lock.acquire_with(minute()).await.expect("asked again");
        counts("1");
        relay.lose("EVALSHA", loss);
        assert_eq!(guard.release().await.expect("held"), Released::Freed);
    }
    assert_eq!(relay.lost(), 12);
    server.wait_for(&["EXISTS", NAMES[0], NAMES[1], NAMES[2]], |answer| answer == "0");
    only_latches_and_tokens_stay(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_at_any_moment_leaves_nothing() {
    let server = Server::start(&[]);
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let mut tasks = Vec::new();
    for task in 0..4u64 {
        let lock = all(&clients[task as usize / 2]);
        tasks.push(tokio::spawn(async move {
            for round in 0..30 {
                let mut how = Acquire::default();
                how.owner = (round % 2 == 0).then(|| Owner::numbered(task));
                let cycle = async {
                    let guard = lock.acquire_with(how).await.expect("in the end");
                    guard.release().await.expect("held")
                };
                let moment = Duration::from_micros(rand::random_range(0..3_000));
                let _ = tokio::time::timeout(moment, cycle).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let guard = all(&clients[0]).acquire_with(minute()).await.expect("free");
    guard.release().await.expect("held");
    all_is_over(&server, LEASE).await;
}

/// What cannot be reached in one call is refused with the reason, also on a server that would not mind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_cannot_go_together_are_refused() {
    let cluster = Cluster::start(2, false);
    let server = Server::start(&[]);
    for url in [cluster.url(), server.url()] {
        let client = client(&url).await;
        for (names, why) in [
            (&[][..], "no lock"),
            (&["a", "a"][..], "twice"),
            (&["a", "b"][..], "slot"),
            (&["{o}:a", "{p}:a"][..], "same tag"),
            (&["{o}:a", ""][..], "name"),
        ] {
            let error = client.all_of(names).expect_err(why);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
        let guard = all(&client).acquire_with(once()).await.expect("free");
        assert_eq!(guard.release().await.expect("held"), Released::Freed);
    }
}
