//! Every place where a caller may go away: what it had asked for is given back, nothing is renewed
//! for it, and no connection is left over.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{Acquire, Client, ClientOptions, Durability, ErrorKind, Kind, Lease, Lock, Owner, Wait};
use lock_support::{Relay, all_is_over, polled, rival};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_millis(600);

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

/// What a caller may be in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Acquire, extend, release: one after the other on a free lock.
    Cycle,
    /// Acquire while another client holds it, which gives it back meanwhile.
    Wait,
    /// Acquire behind another waiter of the same client.
    WaitInLine,
}

async fn cycle(lock: &Lock, how: Acquire) {
    let guard = lock.acquire_with(how).await.expect("its turn comes");
    guard.extend(400 * MS).await.expect("held");
    guard.release().await.expect("held");
}

/// Drops the act after one poll, after two, and so on until it gets to its end; after each the lock is free.
/// Answers how many polls it had at most.
async fn dropped_everywhere(
    ours: &Client,
    others: &Client,
    kind: Kind,
    owner: Option<Owner>,
    act: Act,
) -> usize {
    for polls in 0.. {
        let name = format!("{kind}:{act:?}:{}:{polls}", owner.is_some());
        let lock = ours.lock(kind, &name).expect("a good name");
        let stranger = others.lock(rival(kind), &name).expect("a good name");
        let mut how = Acquire::default();
        how.owner = owner;
        let mut others_work = Vec::new();
        if act != Act::Cycle {
            let held = stranger.acquire_with(minute()).await.expect("free");
            if act == Act::WaitInLine {
                let first = lock.clone();
                others_work.push(tokio::spawn(async move {
                    let guard = first.acquire_with(minute()).await.expect("its turn comes");
                    guard.release().await.expect("held");
                }));
                tokio::task::yield_now().await;
            }
            others_work.push(tokio::spawn(async move {
                tokio::time::sleep(8 * MS).await;
                held.release().await.expect("held");
            }));
        }
        let done = polled(cycle(&lock, how), polls).await;
        for work in others_work {
            work.await.expect("no panic");
        }
        let next = stranger.acquire_with(minute()).await.expect("free again");
        next.release().await.expect("held");
        if done {
            return polls;
        }
        assert!(polls < 1000, "{name} has no end");
    }
    unreachable!("numbers do not end")
}

/// Every await point of acquire, extend and release of every kind is a place where the caller may go away.
/// The link takes its time, so that it goes while its request is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_after_any_number_of_polls_leaves_nothing() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let options = ClientOptions::default().watchdog_lease(LEASE);
    let ours = client(&relay.url(), options.clone()).await;
    let others = client(&server.url(), options).await;
    // The scripts are known and the subscriptions' connection is there before connections are counted.
    for &kind in Kind::ALL {
        dropped_everywhere(&ours, &others, kind, None, Act::Wait).await;
    }
    relay.delay(2 * MS);
    let connections = relay.connections();
    let mut kinds = Vec::new();
    for &kind in Kind::ALL {
        let (ours, others) = (ours.clone(), others.clone());
        kinds.push(tokio::spawn(async move {
            for owner in [None, Some(Owner::numbered(1))] {
                for act in [Act::Cycle, Act::Wait, Act::WaitInLine] {
                    let polls = dropped_everywhere(&ours, &others, kind, owner, act).await;
                    assert!(polls > 2, "{kind} {act:?}: there was nothing to wait for");
                }
            }
        }));
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
    all_is_over(&server, LEASE).await;
    assert_eq!(relay.connections(), connections, "more connections than before");
}

/// A durable acquire may wait on its connection behind others' WAIT, while the release that is to undo it
/// goes over another and finds nothing yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_acquire_that_was_dropped_in_the_queue_of_its_connection_leaves_nothing() {
    const AHEAD: usize = 8;
    // Without a replica each WAIT lasts for its whole time.
    let server = Server::start(&[]);
    let options = ClientOptions::default().durability(Durability::Wait(1)).durability_timeout(100 * MS);
    let client = client(&server.url(), options).await;
    let once = minute().wait(Wait::Try);
    let blocked = |kind, name: String| {
        let (lock, once) = (client.lock(kind, &name).expect("a good name"), once.clone());
        tokio::spawn(async move {
            lock.acquire_with(once).await.expect_err("no replica");
        })
    };
    // Every connection is there.
    let warm = (0..4).map(|number| blocked(Kind::Reentrant, format!("warm:{number}")));
    for warm in warm.collect::<Vec<_>>() {
        warm.await.expect("no panic");
    }
    for &kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Plain) {
        // And the server knows the script.
        let warm = blocked(kind, "warm".to_owned());
        warm.await.expect("no panic");
        let taken = || {
            let stats = server.ok(&["INFO", "commandstats"]);
            let calls = stats.split("cmdstat_hset:calls=").nth(1);
            let calls = calls.and_then(|rest| rest.split(',').next());
            calls.map_or(0, |calls| calls.parse::<usize>().expect("a number"))
        };
        let before = taken();
        let ahead: Vec<_> = (0..AHEAD).map(|number| blocked(kind, format!("ahead:{number}"))).collect();
        let until = Instant::now() + PATIENCE;
        while taken() == before {
            assert!(Instant::now() < until, "{kind}: nobody is ahead");
            tokio::time::sleep(MS).await;
        }
        let name = format!("dropped:{kind}");
        let lock = client.lock(kind, &name).expect("a good name");
        let dropped = tokio::time::timeout(20 * MS, lock.acquire_with(once.clone())).await;
        assert!(dropped.is_err(), "{kind}: it was to be dropped");
        // All are taken in the end, also the one that nobody wants any more.
        let until = Instant::now() + PATIENCE;
        while taken() < before + AHEAD + 1 {
            assert!(Instant::now() < until, "{kind}: it was never taken");
            tokio::time::sleep(MS).await;
        }
        server.wait_for(&["EXISTS", &name], |answer| answer == "0");
        for ahead in ahead {
            ahead.await.expect("no panic");
        }
    }
}

/// At moments that nobody has chosen, with contenders of the same and of another client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_at_any_moment_leaves_nothing() {
    let server = Server::start(&[]);
    let lease = 300 * MS;
    let options = ClientOptions::default().watchdog_lease(lease);
    let clients = [client(&server.url(), options.clone()).await, client(&server.url(), options).await];
    let mut tasks = Vec::new();
    for &kind in Kind::ALL {
        for task in 0..4 {
            let lock = clients[task % 2].lock(kind, kind.name()).expect("a good name");
            tasks.push(tokio::spawn(async move {
                for round in 0..25 {
                    let moment = Duration::from_micros(rand::random_range(0..8_000));
                    let mut how = Acquire::default();
                    if round % 2 == 0 {
                        how.owner = Some(Owner::numbered(u64::try_from(task).expect("small")));
                    }
                    let cycle = async {
                        let guard = lock.acquire_with(how).await.expect("in the end");
                        tokio::time::sleep(MS).await;
                        guard.release().await.expect("held")
                    };
                    tokio::select! {
                        () = tokio::time::sleep(moment) => {}
                        _ = cycle => {}
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    for kind in Kind::ALL {
        let lock = clients[0].lock(rival(*kind), kind.name()).expect("a good name");
        let guard = lock.acquire_with(minute()).await.expect("free in the end");
        guard.release().await.expect("held");
    }
    all_is_over(&server, lease).await;
}

/// An owner that dropped its guard may ask again under the same name at once: the release that is still on
/// its way is waited for, also by an acquire that waits for nobody else.
#[tokio::test]
async fn a_named_owner_may_ask_again_right_after_its_guard_was_dropped() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let client = client(&relay.url(), ClientOptions::default()).await;
    relay.delay(5 * MS);
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let mut how = minute().wait(Wait::Try);
        how.owner = Some(Owner::numbered(1));
        for _ in 0..3 {
            let guard = lock.acquire_with(how.clone()).await;
            drop(guard.unwrap_or_else(|why| panic!("{kind}: {why}")));
        }
        // Who still holds it is told so.
        let held = lock.acquire_with(how.clone()).await.expect("free");
        if kind == Kind::NonReentrant {
            let again = lock.acquire_with(how.clone()).await;
            let error = again.expect_err("it holds it already");
            assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        }
        held.release().await.expect("held");
    }
}
