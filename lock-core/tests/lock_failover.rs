//! Turns a change of masters that somebody ordered, and replicas that every grant must reach, into tests of whole locks.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, Guard, GuardEvent, Kind, Lease, Lock,
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

/// An orderly failover loses nothing: holders are renewed at the new master, waiters find it, releases work there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordered_failover_moves_holders_and_waiters() {
    let group = Group::start(1);
    let options = || {
        ClientOptions::default()
            .response_timeout(500 * MS)
            .watchdog_lease(LEASE)
    };
    let (ours, others) = (
        client(&group.url(), options()).await,
        client(&group.url(), options()).await,
    );
    let mut guards = Vec::new();
    let mut waiters = Vec::new();
    for &kind in Kind::ALL {
        let lock = ours.lock(kind, kind.name()).expect("a good name");
        guards.push(lock.acquire(patient()).await.expect("free"));
        let lock = others.lock(rival(kind), kind.name()).expect("a good name");
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire(patient()).await.expect("its turn comes");
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

/// A durable grant. A replica's first acknowledgement takes up to a second, in which it counts as missing.
async fn durable(lock: &Lock) -> Guard {
    let until = Instant::now() + PATIENCE;
    loop {
        match lock.acquire(patient()).await {
            Ok(guard) => return guard,
            Err(error) => assert!(
                error.kind() == ErrorKind::NotDurable && Instant::now() < until,
                "{error}"
            ),
        }
    }
}

/// With every replica asked for, a grant is on all of them or is none, for every kind.
async fn all_or_none(url: &str, master: &Server, replica: &Server) {
    let options = ClientOptions::default()
        .durability(Durability::WaitAll)
        .durability_timeout(300 * MS);
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
        let error = lock.acquire(once()).await.expect_err("no replica has it");
        // Of a quorum the only member has refused it; or the replica is no longer counted on, and its absence is known.
        assert!(
            matches!(error.kind(), ErrorKind::NotDurable | ErrorKind::Unknown),
            "{kind}: {error}"
        );
        drop(frozen);
        master.wait_for(&["EXISTS", name], |answer| answer == "0");
        replica.wait_for(&["INFO", "replication"], |info| {
            info.contains("master_link_status:up")
        });
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
