//! The promises of a hold: exclusion, re-entry, leases, renewal, loss.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, GuardEvent, Kind, Lease, Lock, LostReason, Owner, Released,
    Wait,
};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);

async fn client(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

async fn lock(server: &Server) -> Lock {
    lock_named(server, "n").await
}

async fn lock_named(server: &Server, name: &str) -> Lock {
    let client = client(server, ClientOptions::default()).await;
    client.lock(Kind::Reentrant, name).expect("a good name")
}

fn once() -> Acquire {
    Acquire::default().wait(Wait::Try)
}

fn fixed(lease: Duration) -> Acquire {
    once().lease(Lease::Fixed(lease))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_waiters_are_all_served_one_at_a_time() {
    let server = Server::start(&[]);
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    // Two clients, so that both the line within a client and the channel between clients take part.
    for number in 0..2 {
        let lock = lock(&server).await;
        for _ in 0..50 {
            let (lock, inside) = (lock.clone(), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                let guard = lock.acquire_with(Acquire::default()).await.expect("its turn comes");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "client {number}");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("released");
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(PATIENCE, task).await.expect("served").expect("no panic");
    }
    assert_eq!(server.ok(&["DBSIZE"]), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_contenders_one_wins() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    let mut tasks = Vec::new();
    for _ in 0..1000 {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move { lock.acquire_with(once()).await }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        match task.await.expect("no panic") {
            Ok(guard) => winners.push(guard),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
    }
    assert_eq!(winners.len(), 1);
}

#[tokio::test]
async fn an_equal_owner_enters_again_and_releases_as_often() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    let mine = fixed(60_000 * MS).owner(Owner::numbered(7));
    let outer = lock.acquire_with(mine.clone()).await.expect("free");
    let inner = lock.acquire_with(mine.lease(Lease::Fixed(1000 * MS))).await.expect("mine already");
    assert_eq!(server.ok(&["HVALS", "n"]), "2");
    let left: u64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
    assert!(left > 30_000, "re-entry shortened the lease to {left} ms");
    let busy = lock.acquire_with(fixed(1000 * MS)).await.expect_err("a fresh owner is another");
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert_eq!(inner.release().await.expect("held"), Released::StillHeld);
    assert_eq!(outer.release().await.expect("held"), Released::Freed);
    let keys = server.ok(&["KEYS", "*"]);
    for key in keys.lines() {
        assert!(key.contains("latch"), "{key} stays");
        assert_ne!(server.call(&["PTTL", key]), "-1", "{key} stays for ever");
    }
}

#[tokio::test]
async fn a_lock_that_is_anothers_is_not_held_and_not_harmed() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    let guard = lock.acquire_with(fixed(60_000 * MS)).await.expect("free");
    server.ok(&["DEL", "n"]);
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let error = guard.release().await.expect_err("it is another's");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert_eq!(server.ok(&["HGETALL", "n"]), "stranger:1\n1");
}

#[tokio::test]
async fn a_renewed_lock_outlives_its_lease_and_dies_with_its_client() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default().watchdog_lease(300 * MS)).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire_with(once()).await.expect("free");
    let mut events = guard.events();
    let began = Instant::now();
    while began.elapsed() < 1000 * MS {
        match events.next().await.expect("renewals go on") {
            GuardEvent::Extended { lease, sent_at } => {
                assert_eq!(lease, 300 * MS);
                assert!(guard.valid_until() >= sent_at + 290 * MS);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.ok(&["EXISTS", "n"]), "1");
    }
    client.close().await;
    server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
    assert_eq!(guard.lost().await, LostReason::NotRenewed);
}

#[tokio::test]
async fn renewals_of_one_hold_end_with_it_and_leave_the_others_alone() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default().watchdog_lease(300 * MS)).await;
    let first = client.lock(Kind::Reentrant, "a").expect("a good name");
    let second = client.lock(Kind::Reentrant, "b").expect("a good name");
    let kept = second.acquire_with(once()).await.expect("free");
    for _ in 0..200 {
        let guard = first.acquire_with(once()).await.expect("free");
        guard.release().await.expect("held");
    }
    let mut events = kept.events();
    events.next().await.expect("a renewal");
    let before = client.stats().commands;
    for _ in 0..5 {
        assert!(matches!(events.next().await, Some(GuardEvent::Extended { .. })));
    }
    // One command for each renewal, and perhaps a health check: nothing is left of the two hundred.
    let sent = client.stats().commands - before;
    assert!((5..20).contains(&sent), "{sent} commands for five renewals");
}

#[tokio::test]
async fn a_holder_is_told_when_its_lock_is_gone() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default().watchdog_lease(600 * MS)).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire_with(once()).await.expect("free");
    let mut events = guard.events();
    server.ok(&["DEL", "n"]);
    assert_eq!(guard.lost().await, LostReason::Missing);
    assert!(guard.is_lost());
    assert!(matches!(events.next().await, Some(GuardEvent::Lost { reason: LostReason::Missing, .. })));
    assert!(events.next().await.is_none(), "the signal comes once and last");
    assert_eq!(server.ok(&["EXISTS", "n"]), "0", "a renewal made the lock anew");
    let extended = guard.extend(1000 * MS).await.expect_err("it is lost");
    assert_eq!(extended.kind(), ErrorKind::NotHeld);
    assert_eq!(guard.release().await.expect_err("it is lost").kind(), ErrorKind::NotHeld);
}

#[tokio::test]
async fn a_fixed_lease_is_lost_before_another_can_enter() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    let guard = lock.acquire_with(fixed(200 * MS)).await.expect("free");
    assert!(!guard.is_lost());
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { (lock.acquire_with(Acquire::default()).await, Instant::now()) }
    });
    let mut events = guard.events();
    let Some(GuardEvent::Lost { reason: LostReason::Expired, at }) = events.next().await else {
        panic!("an expired lease is lost");
    };
    let (next, entered_at) = next.await.expect("no panic");
    drop(next.expect("the lease is over"));
    assert!(at <= entered_at, "told {:?} too late", at - entered_at);
    // Who begins to listen after the loss hears of it all the same.
    let heard = guard.events().next().await;
    assert!(matches!(heard, Some(GuardEvent::Lost { .. })), "{heard:?}");
}

#[tokio::test]
async fn an_extension_extends_and_never_shortens_or_revives() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    let guard = lock.acquire_with(fixed(300 * MS)).await.expect("free");
    guard.extend(60_000 * MS).await.expect("held");
    guard.extend(MS).await.expect("held");
    let left: u64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
    assert!(left > 30_000, "shortened to {left} ms");
    assert!(guard.valid_until() > Instant::now() + 30_000 * MS);

    let other = lock_named(&server, "brief").await;
    let brief = other.acquire_with(fixed(50 * MS)).await.expect("free");
    tokio::time::sleep_until(brief.valid_until().into()).await;
    let error = brief.extend(1000 * MS).await.expect_err("it lapsed");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
}

#[tokio::test]
async fn flushed_scripts_are_not_noticed() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    for _ in 0..3 {
        server.ok(&["SCRIPT", "FLUSH"]);
        let guard = lock.acquire_with(once()).await.expect("free");
        server.ok(&["SCRIPT", "FLUSH"]);
        guard.extend(60_000 * MS).await.expect("held");
        server.ok(&["SCRIPT", "FLUSH"]);
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_guard_is_released() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    drop(lock.acquire_with(once()).await.expect("free"));
    server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
    drop(lock.acquire_with(once()).await.expect("free").release());
    server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
}

#[tokio::test]
async fn a_forced_release_lets_the_next_one_in() {
    let server = Server::start(&[]);
    let lock = lock(&server).await;
    assert!(!lock.force_release().await.expect("answered"));
    let guard = lock.acquire_with(once()).await.expect("free");
    assert!(lock.is_locked().await.expect("answered"));
    assert!(lock.force_release().await.expect("answered"));
    assert!(!lock.is_locked().await.expect("answered"));
    lock.acquire_with(once()).await.expect("free again").release().await.expect("held");
    assert_eq!(guard.release().await.expect_err("taken away").kind(), ErrorKind::NotHeld);
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_the_reason() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default()).await;
    assert_eq!(client.lock(Kind::Reentrant, "").expect_err("no name").kind(), ErrorKind::Invalid);
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let error = lock.acquire_with(fixed(Duration::ZERO)).await.expect_err("no lease");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Drift takes it all, so it could only be granted too late, again and again.
    let all_drift = fixed(Duration::from_millis(2));
    let error = lock.acquire_with(all_drift).await.expect_err("no lease");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let guard = lock.acquire_with(once()).await.expect("free");
    for lease in [Duration::ZERO, Duration::MAX] {
        let error = guard.extend(lease).await.expect_err("no lease");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{lease:?}");
    }
    guard.release().await.expect("held");
    server.ok(&["SET", "n", "a string"]);
    let error = lock.acquire_with(once()).await.expect_err("another type");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert!(error.to_string().starts_with("could not acquire n at 127.0.0.1:"), "{error}");
}
