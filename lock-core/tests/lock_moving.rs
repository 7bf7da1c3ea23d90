//! A slot that is being moved from one node to another: what can be done in the middle is done, the rest is
//! done as soon as the move is over.
//!
//! In such a slot the old node has the keys that were not moved yet and makes no new ones, and the new node
//! takes a request of several keys only when it has all of them. So what names only keys that are there is
//! done at either place.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, Owner, Released, Wait, slot};
use support::{PATIENCE, cluster::Cluster};

/// How far the move of a slot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Every key is at the old node still.
    Begun,
    /// Every key is at the new one, which does not own the slot yet.
    Moved,
}

/// A slot that moves.
struct Move<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl<'a> Move<'a> {
    fn begin(cluster: &'a Cluster, name: &str) -> Self {
        let slot = slot(name.as_bytes());
        let (from, to) = if slot < 8192 { (0, 1) } else { (1, 0) };
        cluster.begin_migration(slot, from, to);
        Move { cluster, slot, from, to }
    }

    fn keys(&self) {
        let node = &self.cluster.nodes[self.from];
        let keys = node.ok(&["CLUSTER", "GETKEYSINSLOT", &self.slot.to_string(), "100"]);
        if keys.is_empty() {
            return;
        }
        let port = self.cluster.nodes[self.to].port.to_string();
        let to = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        node.ok(&to.into_iter().chain(keys.lines()).collect::<Vec<_>>());
    }

    fn finish(self) {
        self.keys();
        self.cluster.finish_migration(self.slot, self.to);
    }
}

fn minute(owner: Option<Owner>) -> Acquire {
    let how = Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(Duration::from_secs(60)));
    match owner {
        Some(owner) => how.owner(owner),
        None => how,
    }
}

/// A lock by a name of its own, so that each case has a slot of its own.
fn lock(client: &Client, kind: Option<Kind>, name: &str) -> Lock {
    let lock = match kind {
        Some(kind) => client.lock(kind, name),
        None => client.all_of(&[name, &format!("{{{name}}}2")]),
    };
    lock.expect("a good name")
}

/// Whether all that a hold needs is there as long as it is held, and nothing else is named when it is given
/// back. A line's keys are there only while somebody waits.
fn is_given_back_on_the_way(kind: Option<Kind>) -> bool {
    !matches!(kind, Some(Kind::Fair | Kind::Queued))
}

/// Whether an owner may hold it twice, and gives one hold back on the way.
fn nests(kind: Option<Kind>) -> bool {
    is_given_back_on_the_way(kind) && !matches!(kind, Some(Kind::Plain | Kind::NonReentrant))
}

/// Whether a lock that nobody holds is taken by naming one key.
fn is_taken_on_the_way(kind: Option<Kind>, owner: Option<Owner>) -> bool {
    match kind {
        Some(Kind::Plain) => true,
        Some(Kind::Reentrant | Kind::NonReentrant | Kind::Spin) => owner.is_none(),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_middle_of_a_move_every_kind_is_extended_and_given_back() {
    let cluster = Cluster::start(2, false);
    let target = cluster.url().parse().expect("a good URL");
    // A release has four of them until it gives up.
    let options = ClientOptions::default().response_timeout(PATIENCE / 4);
    let client = Client::connect(&target, options).await.expect("it answers");
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Redlock);
    for kind in kinds.map(|kind| Some(*kind)).chain([None]) {
        for (owner, stage) in [
            (None, Stage::Begun),
            (None, Stage::Moved),
            (Some(Owner::numbered(1)), Stage::Begun),
            (Some(Owner::numbered(1)), Stage::Moved),
        ] {
            let case = format!("{kind:?} {owner:?} {stage:?}");
            let name = case.replace(['{', '}', '(', ')', ' '], "-");
            let lock = lock(&client, kind, &name);
            let guard = lock.acquire_with(minute(owner)).await.expect(&case);
            let inner = match owner.is_some() && nests(kind) {
                true => Some(lock.acquire_with(minute(owner)).await.expect(&case)),
                false => None,
            };
            let moves = Move::begin(&cluster, &name);
            if stage == Stage::Moved {
                moves.keys();
            }
            guard.extend(Duration::from_secs(90)).await.expect(&case);
            if let Some(inner) = inner {
                inner.extend(Duration::from_secs(90)).await.expect(&case);
                let released = inner.release().await.expect(&case);
                assert_eq!(released, Released::StillHeld, "{case}");
            }
            if is_given_back_on_the_way(kind) {
                let released = guard.release().await.expect(&case);
                assert_eq!(released, Released::Freed, "{case}");
                for node in &cluster.nodes {
                    let there = node.call(&["EXISTS", &name]);
                    assert!(there == "0" || there.starts_with('-'), "{case}: {there}");
                }
                if is_taken_on_the_way(kind, owner) {
                    let guard = lock.acquire_with(minute(owner)).await.expect(&case);
                    let other = lock.acquire_with(minute(None).wait(Wait::Try)).await;
                    assert_eq!(other.expect_err("held").kind(), ErrorKind::Busy, "{case}");
                    let released = guard.release().await.expect(&case);
                    assert_eq!(released, Released::Freed, "{case}");
                    // One that finds its lock gone says so, and does not wait for the end of the move.
                    let guard = lock.acquire_with(minute(owner)).await.expect(&case);
                    assert!(lock.force_release().await.expect(&case), "{case}");
                    let gone = guard.release().await.expect_err("taken away");
                    assert_eq!(gone.kind(), ErrorKind::NotHeld, "{case}: {gone}");
                }
                moves.finish();
            } else {
                let releasing = tokio::spawn(guard.release());
                moves.finish();
                let released = releasing.await.expect("no panic").expect(&case);
                assert_eq!(released, Released::Freed, "{case}");
            }
            let guard = lock.acquire_with(minute(owner)).await.expect(&case);
            guard.release().await.expect(&case);
        }
    }
}

/// Its script empties the lock's key for the next one and cannot make it again before the move is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_middle_of_a_move_a_lock_with_waiters_is_given_back() {
    let cluster = Cluster::start(2, false);
    let target = cluster.url().parse().expect("a good URL");
    let options = ClientOptions::default().response_timeout(PATIENCE / 4);
    let [client, other] =
        [Client::connect(&target, options.clone()).await, Client::connect(&target, options).await]
            .map(|client| client.expect("it answers"));
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Redlock);
    for kind in kinds.map(|kind| Some(*kind)).chain([None]) {
        let name = format!("waited-{kind:?}").replace(['(', ')'], "-");
        let guard = lock(&client, kind, &name).acquire_with(minute(None)).await.expect("free");
        let waiters = [&client, &other].map(|of| {
            let lock = lock(of, if kind == Some(Kind::Read) { Some(Kind::Write) } else { kind }, &name);
            tokio::spawn(async move { lock.acquire_with(minute(None)).await?.release().await })
        });
        let line = match kind {
            Some(Kind::Queued) => Some("locklab_queue"),
            Some(Kind::Fair) => Some("redisson_lock_queue"),
            _ => None,
        };
        if let Some(line) = line {
            let owner = &cluster.nodes[usize::from(slot(name.as_bytes()) >= 8192)];
            owner.wait_for(&["EXISTS", &format!("{line}:{{{name}}}")], |there| there == "1");
        }
        let moves = Move::begin(&cluster, &name);
        let releasing = tokio::spawn(guard.release());
        // It meets the slot on its way, or else there is nothing to see.
        tokio::time::sleep(Duration::from_millis(100)).await;
        moves.finish();
        let released = releasing.await.expect("no panic");
        assert_eq!(released.unwrap_or_else(|error| panic!("{kind:?}: {error}")), Released::Freed, "{kind:?}");
        for waiter in waiters {
            let cycle = waiter.await.expect("no panic");
            assert_eq!(
                cycle.unwrap_or_else(|error| panic!("{kind:?}: {error}")),
                Released::Freed,
                "{kind:?}"
            );
        }
    }
    client.close().await;
    other.close().await;
}
