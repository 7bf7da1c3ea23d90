//! Whole locks while somebody orders a change of masters, with replicas that every grant must reach.

mod lock_support;
mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, Guard, GuardEvent, Kind, Lease, Lock, PubSub,
    Released, Wait,
};
use lock_support::rival;
use support::{PATIENCE, Server, cluster::Cluster, sentinel::Group};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(6);

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn patient() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE))
}

/// An orderly failover loses nothing: holders are renewed at the new master, waiters find it, releases work
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordered_failover_moves_holders_and_waiters() {
    let group = Group::start(1);
    let options = || ClientOptions::default().response_timeout(500 * MS).watchdog_lease(LEASE);
    let (ours, others) = (client(&group.url(), options()).await, client(&group.url(), options()).await);
    let mut guards = Vec::new();
    let mut waiters = Vec::new();
    for &kind in Kind::ALL {
        let lock = ours.lock(kind, kind.name()).expect("a good name");
        guards.push(lock.acquire_with(patient()).await.expect("free"));
        let lock = others.lock(rival(kind), kind.name()).expect("a good name");
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire_with(patient()).await.expect("its turn comes");
            guard.release().await.expect("held")
        }));
    }
    for guard in &guards {
        group.data[1].wait_for(&["EXISTS", guard.name()], |answer| answer == "1");
    }
    let mut events: Vec<_> = guards.iter().map(|guard| guard.events()).collect();
    // Until the sentinel has heard from the replica lately, it finds none that is good enough.
    group.sentinels[0].wait_for(&["SENTINEL", "FAILOVER", "m"], |answer| answer == "OK");
    group.data[1].wait_for(&["ROLE"], |role| role.starts_with("master"));
    group.data[0].wait_for(&["ROLE"], |role| role.starts_with("slave"));
    let moved_at = Instant::now();
    for (guard, events) in guards.iter().zip(&mut events) {
        loop {
            let event = tokio::time::timeout(PATIENCE, events.next()).await;
            match event.expect("an event") {
                Some(GuardEvent::Extended { sent_at, .. }) if sent_at > moved_at => break,
                Some(GuardEvent::Extended { .. }) => {}
                other => panic!("{}: {other:?}", guard.name()),
            }
        }
    }
    for guard in guards {
        let name = guard.name().to_owned();
        let released = guard.release().await;
        assert_eq!(released.expect("held"), Released::Freed, "{name}");
    }
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    for kind in Kind::ALL {
        assert_eq!(group.data[1].ok(&["EXISTS", kind.name()]), "0", "{kind}");
    }
}

/// The subscriptions of those who wait stay at the node that was the master, and a message reaches them over
/// the cluster's bus: one release lets one of them in nevertheless, and they still find their turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_after_a_failover_lets_one_waiter_in() {
    const LINE: &str = "locklab_queue:{n}";
    // A shorter lease is never claimed, so nobody would be told later.
    for lease in [2, 60].map(Duration::from_secs) {
        let cluster = Cluster::start(1, true);
        let [old, new] = [&cluster.nodes[0], &cluster.nodes[1]];
        let options = ClientOptions::default().pub_sub(PubSub::Plain);
        let how = patient().lease(Lease::Fixed(lease));
        let lock = async || {
            let client = client(&cluster.url(), options.clone()).await;
            client.lock(Kind::Queued, "n").expect("a good name")
        };
        let held = patient().lease(Lease::Fixed(60_000 * MS));
        let guard = lock().await.acquire_with(held).await.expect("free");
        let inside = Arc::new(AtomicU32::new(0));
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let (lock, how) = (lock().await, how.clone());
            let inside = Arc::clone(&inside);
            waiters.push(tokio::spawn(async move {
                let guard = lock.acquire_with(how).await.expect("its turn comes");
                let others = inside.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(100 * MS).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("held");
                others
            }));
        }
        // "<until when it is alive> <1: it is subscribed> ..."
        old.wait_for(&["HVALS", LINE], |line| {
            line.lines().filter(|place| place.contains(" 1 ")).count() == 3
        });
        // At once, so that no client has asked between it and the release.
        assert_eq!(new.ok(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
        old.wait_for(&["ROLE"], |role| role.starts_with("slave"));
        guard.release().await.expect("held");
        for waiter in waiters {
            assert_eq!(waiter.await.expect("no panic"), 0, "two at once");
        }
    }
}

/// A durable grant. A replica's first acknowledgement takes up to a second, in which it counts as missing.
async fn durable(lock: &Lock) -> Guard {
    let until = Instant::now() + PATIENCE;
    loop {
        match lock.acquire_with(patient()).await {
            Ok(guard) => return guard,
            Err(error) => assert!(error.kind() == ErrorKind::NotDurable && Instant::now() < until, "{error}"),
        }
    }
}

/// With every replica asked for, a grant is on all of them or is none, for every kind.
async fn all_or_none(url: &str, master: &Server, replica: &Server) {
    let options =
        ClientOptions::default().durability(Durability::WaitAll).replicas(1).durability_timeout(300 * MS);
    let client = client(url, options).await;
    let once = || {
        let how = Acquire::default().wait(Wait::Try);
        how.lease(Lease::Fixed(60_000 * MS))
    };
    for &kind in Kind::ALL {
        let name = kind.name();
        let lock = client.lock(kind, name).expect("a good name");
        let guard = durable(&lock).await;
        // A replica of a cluster answers nothing about a key, and lists it all the same.
        replica.wait_for(&["KEYS", name], |keys| keys == name);
        guard.extend(60_000 * MS).await.expect("acknowledged");
        guard.release().await.expect("held");
        replica.wait_for(&["KEYS", name], str::is_empty);

        let frozen = replica.freeze();
        let error = lock.acquire_with(once()).await.expect_err("no replica has it");
        // Of a quorum the only member has refused it; or the replica is no longer counted on, and its absence
        // is known.
        assert!(matches!(error.kind(), ErrorKind::NotDurable | ErrorKind::Unknown), "{kind}: {error}");
        drop(frozen);
        master.wait_for(&["EXISTS", name], |answer| answer == "0");
        replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
        let guard = durable(&lock).await;
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_grant_is_on_every_replica_or_is_none() {
    let group = Group::start(1);
    all_or_none(&group.url(), &group.data[0], &group.data[1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_a_grant_is_on_every_replica_or_is_none() {
    let cluster = Cluster::start(1, true);
    all_or_none(&cluster.url(), &cluster.nodes[0], &cluster.nodes[1]).await;
}
