//! The promises to a waiter: hints, polling, bounds, and a clean end wherever it is dropped.

mod support;

use std::{
    future::Future,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, Owner, Wait};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn lock_with(server: &Server, options: ClientOptions) -> Lock {
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    client.lock(Kind::Reentrant, "n").expect("a good name")
}

fn for_a_minute() -> Acquire {
    Acquire::default().lease(Lease::Fixed(MINUTE))
}

/// With a poll bound and a lease of a minute only the message of the release can explain an early entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_a_waiter_of_another_client() {
    let server = Server::start(&[]);
    let holder = lock_with(&server, ClientOptions::default()).await;
    let guard = holder.acquire_with(for_a_minute()).await.expect("free");
    let waiter = lock_with(&server, ClientOptions::default().poll_bound(MINUTE)).await;
    let waiting = tokio::spawn(async move { waiter.acquire_with(for_a_minute()).await });
    server.wait_for(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"], |answer| answer.ends_with('1'));
    // The look that follows the subscription may still be under way; either finds the lock free.
    let released_at = Instant::now();
    guard.release().await.expect("held");
    let guard =
        tokio::time::timeout(PATIENCE, waiting).await.expect("woken").expect("no panic").expect("entered");
    assert!(guard.sent_at() >= released_at);
}

/// Redisson's unlock publishes `0` on the same channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_a_foreign_client_wakes_a_waiter() {
    let server = Server::start(&[]);
    server.ok(&["HSET", "n", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    let waiter = lock_with(&server, ClientOptions::default().poll_bound(MINUTE)).await;
    let waiting = tokio::spawn(async move { waiter.acquire_with(for_a_minute()).await });
    let channel = "redisson_lock__channel:{n}";
    server.wait_for(&["PUBSUB", "NUMSUB", channel], |answer| answer.ends_with('1'));
    server.ok(&["EVAL", "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0')", "2", "n", channel]);
    drop(tokio::time::timeout(PATIENCE, waiting).await.expect("woken").expect("no panic").expect("entered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_message_a_waiter_looks_at_the_poll_bound() {
    let server = Server::start(&[]);
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let waiter = lock_with(&server, ClientOptions::default().poll_bound(200 * MS)).await;
    let waiting = tokio::spawn(async move { waiter.acquire_with(for_a_minute()).await });
    server.wait_for(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"], |answer| answer.ends_with('1'));
    server.ok(&["DEL", "n"]);
    drop(
        tokio::time::timeout(PATIENCE, waiting).await.expect("it polls").expect("no panic").expect("entered"),
    );
}

#[tokio::test]
async fn a_waiter_enters_when_the_holders_lease_runs_out() {
    let server = Server::start(&[]);
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    server.ok(&["PEXPIRE", "n", "300"]);
    let waiter = lock_with(&server, ClientOptions::default().poll_bound(MINUTE)).await;
    let waiting = waiter.acquire_with(for_a_minute());
    drop(tokio::time::timeout(PATIENCE, waiting).await.expect("the lease ended").expect("entered"));
}

/// Of a plain lock too, whose native command does not say when the lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_a_plain_lock_enters_at_the_leases_end_as_others_do() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let options = ClientOptions::default().poll_bound(8_000 * MS);
    let client = Client::connect(&target, options).await.expect("it answers");
    server.ok(&["HSET", "reentrant", "stranger:1", "1"]);
    server.ok(&["PEXPIRE", "reentrant", "700"]);
    server.ok(&["SET", "plain", "stranger", "PX", "700"]);
    let began = Instant::now();
    let waits = async |kind: Kind| {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let guard = lock.acquire_with(for_a_minute()).await.expect("it ends");
        let waited = began.elapsed();
        guard.release().await.expect("held");
        waited
    };
    let (plain, reentrant) = tokio::join!(waits(Kind::Plain), waits(Kind::Reentrant));
    assert!(plain >= 600 * MS, "before the lease's end: {plain:?}");
    assert!(plain < reentrant * 4, "{plain:?} against {reentrant:?}");
}

#[tokio::test]
async fn the_callers_bound_ends_the_wait() {
    let server = Server::start(&[]);
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let lock = lock_with(&server, ClientOptions::default()).await;
    for wait in [Wait::Try, Wait::AtMost(Duration::ZERO), Wait::AtMost(100 * MS)] {
        let error = lock.acquire_with(for_a_minute().wait(wait)).await.expect_err("it is another's");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    // Behind another waiter of the same client the bound holds as well.
    let first = lock.acquire_with(for_a_minute().wait(Wait::AtMost(600 * MS)));
    let second = async {
        let began = Instant::now();
        let error = lock.acquire_with(for_a_minute().wait(Wait::AtMost(100 * MS))).await.expect_err("busy");
        (error.kind(), began.elapsed())
    };
    let (first, (kind, waited)) = tokio::join!(first, second);
    assert_eq!(first.expect_err("busy").kind(), ErrorKind::Busy);
    assert_eq!(kind, ErrorKind::Busy);
    assert!(waited < 600 * MS, "waited {waited:?} of 100 ms");
}

/// A stopped server holds nobody longer than asked for, and gets nothing that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_keeps_nobody_beyond_the_bound() {
    let server = Server::start(&[]);
    let lock = lock_with(&server, ClientOptions::default().response_timeout(300 * MS)).await;
    server.ok(&["CLIENT", "PAUSE", "2500", "ALL"]);
    let began = Instant::now();
    let error = lock.acquire_with(for_a_minute().wait(Wait::AtMost(100 * MS))).await.expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(!error.is_definite());
    let error = lock.acquire_with(for_a_minute().wait(Wait::Try)).await.expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(began.elapsed() < 2000 * MS, "held up for {:?}", began.elapsed());
    // What may have been taken is given back once the server goes on.
    server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
    drop(lock.acquire_with(for_a_minute()).await.expect("free"));
}

/// Every await point of an acquire, of a release and of a wait is a place where the caller may go away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_anywhere_leaves_nothing() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().watchdog_lease(300 * MS);
    for owner in [None, Some(Owner::numbered(1))] {
        for polls in 0..12 {
            let lock = lock_with(&server, options.clone()).await;
            let mut how = Acquire::default();
            how.owner = owner;
            // Other tests' server processes share the machine; a pause between polls lets answers come.
            let mut cycle = Box::pin(async { lock.acquire_with(how).await?.release().await });
            for _ in 0..polls {
                if cycle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
                tokio::time::sleep(2 * MS).await;
            }
            drop(cycle);
            server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
            // Nobody renews what is not held: the next one gets in.
            let next = lock.acquire_with(for_a_minute().wait(Wait::AtMost(PATIENCE))).await.expect("free");
            next.release().await.expect("held");
        }
    }
    tokio::time::sleep(300 * MS).await;
    for key in server.ok(&["KEYS", "*"]).lines() {
        assert!(key.contains("latch"), "{key} stays");
    }
}

/// Two wait in one client, and the first hears of the release. It goes before it has looked: the message is
/// the second one's then, which would else sleep for its poll bound.
#[tokio::test]
async fn a_waiter_that_goes_when_it_is_called_leaves_the_message_to_the_next() {
    const BOUND: Duration = Duration::from_millis(300);
    for kind in [Kind::Reentrant, Kind::Plain, Kind::Write, Kind::Redlock] {
        for gives_up in [true, false] {
            let server = Server::start(&[]);
            let target = server.url().parse().expect("a good URL");
            let lock = async |options| {
                let client = Client::connect(&target, options).await;
                client.expect("it answers").lock(kind, "n").expect("a good name")
            };
            let holder = lock(ClientOptions::default()).await;
            let waiter = lock(ClientOptions::default().poll_bound(MINUTE)).await;
            let guard = holder.acquire_with(for_a_minute()).await.expect("free");
            // Nobody polls it but this test.
            let mut first = Box::pin(waiter.acquire_with(match gives_up {
                true => for_a_minute().wait(Wait::AtMost(BOUND)),
                false => for_a_minute(),
            }));
            let mut poll = || first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let end = Instant::now() + BOUND;
            while Instant::now() < end {
                assert!(poll().is_pending(), "{kind}: another's");
                tokio::time::sleep(5 * MS).await;
                if server.ok(&["PUBSUB", "CHANNELS"]).lines().count() == 1 {
                    break;
                }
            }
            let mut second = Box::pin(waiter.acquire_with(for_a_minute()));
            let polled = second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            // The look after the subscription.
            for _ in 0..5 {
                tokio::time::sleep(5 * MS).await;
                assert!(poll().is_pending(), "{kind}: another's");
            }
            guard.release().await.expect("held");
            tokio::time::sleep_until((end + 50 * MS).into()).await;
            assert_eq!(poll().is_ready(), gives_up, "{kind}");
            drop(first);
            let second = tokio::time::timeout(PATIENCE, second).await;
            let second = second.unwrap_or_else(|_| panic!("{kind} {gives_up}: it sleeps"));
            second.expect("entered").release().await.expect("held");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_dropped_anywhere_leaves_nothing_and_hands_its_turn_on() {
    let server = Server::start(&[]);
    for polls in 0..12 {
        let lock = lock_with(&server, ClientOptions::default()).await;
        let guard = lock.acquire_with(for_a_minute()).await.expect("free");
        let mut first = Box::pin(lock.acquire_with(for_a_minute()));
        for _ in 0..polls {
            let polled = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            tokio::time::sleep(2 * MS).await;
        }
        let second = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_with(for_a_minute()).await }
        });
        drop(first);
        guard.release().await.expect("held");
        let second = tokio::time::timeout(PATIENCE, second).await.expect("its turn").expect("no panic");
        second.expect("entered").release().await.expect("held");
        server.wait_for(&["DBSIZE"], |answer| answer == "0");
    }
}
