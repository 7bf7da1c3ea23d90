//! Holds that one owner has within each other: each hold ends by its own lease, and the lock with the
//! last of them.

mod support;

use std::time::{Duration, Instant};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Lock, Owner, Released, Wait};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);

async fn client(server: &Server) -> Client {
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    client.expect("it answers")
}

fn of_owner(lease: Lease) -> Acquire {
    let how = Acquire::default().wait(Wait::AtMost(PATIENCE));
    how.lease(lease).owner(Owner::numbered(1))
}

fn fixed(lease: Duration) -> Acquire {
    of_owner(Lease::Fixed(lease))
}

/// Everything that an owner may enter again.
fn locks(client: &Client) -> Vec<Lock> {
    let reenters = |kind: &&Kind| !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued);
    let kinds = Kind::ALL.iter().filter(reenters);
    let mut locks: Vec<_> = kinds.map(|kind| client.lock(*kind, kind.name()).expect("a good name")).collect();
    let several = client.all_of(&["{several}:1", "{several}:2"]);
    locks.push(several.expect("one slot"));
    locks
}

fn left_ms(server: &Server, lock: &Lock) -> i64 {
    server.ok(&["PTTL", lock.name()]).parse().expect("ms")
}

/// Until the server has surely ended a hold of so long.
async fn past(guard: &Guard, lease: Duration) {
    tokio::time::sleep_until((guard.sent_at() + lease + 50 * MS).into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outer_hold_that_has_ended_counts_no_more() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    for told in [true, false] {
        let lease = 700 * MS;
        let mut holds = Vec::new();
        for lock in locks(&client) {
            let outer = lock.acquire_with(fixed(lease)).await.expect("free");
            let inner = of_owner(Lease::Renewed);
            let inner = lock.acquire_with(inner).await.expect("its own");
            holds.push((lock, outer, inner));
        }
        for (lock, outer, inner) in holds {
            let name = lock.name();
            past(&outer, lease).await;
            assert!(outer.is_lost(), "{name}");
            if told {
                let error = outer.release().await.expect_err("it has ended");
                assert_eq!(error.kind(), ErrorKind::NotHeld, "{name}: {error}");
            }
            assert!(!inner.is_lost(), "{name}");
            let owner = Owner::numbered(1);
            if told && !name.contains("several") {
                assert_eq!(lock.holds_of(owner).await.expect("answered"), 1, "{name}");
            }
            let released = inner.release().await.expect("held");
            assert_eq!(released, Released::Freed, "{name}");
            server.wait_for(&["EXISTS", name], |answer| answer == "0");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lasts_no_longer_than_what_is_left_of_its_holds() {
    let server = Server::start(&[]);
    let ours = client(&server).await;
    let other = client(&server).await;
    let lease = 1_500 * MS;
    let mut waiters = Vec::new();
    for (lock, theirs) in locks(&ours).into_iter().zip(locks(&other)) {
        let name = lock.name().to_owned();
        let outer = lock.acquire_with(fixed(lease)).await.expect("free");
        let inner = lock.acquire_with(fixed(120_000 * MS)).await;
        let inner = inner.expect("its own");
        inner.extend(180_000 * MS).await.expect("held");
        assert!(left_ms(&server, &lock) > 120_000, "{name}");
        let released = inner.release().await.expect("held");
        assert_eq!(released, Released::StillHeld, "{name}");
        // Of a redlock a majority has answered.
        server.wait_for(&["PTTL", &name], |left| left.parse::<i64>().expect("ms") <= 1_500);
        let theirs = match theirs.kind() {
            Kind::Read => other.lock(Kind::Write, &name).expect("a good name"),
            _ => theirs,
        };
        waiters.push(tokio::spawn(async move {
            let how = Acquire::default().wait(Wait::AtMost(PATIENCE));
            let next = theirs.acquire_with(how).await;
            let next = next.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(Instant::now() >= outer.valid_until(), "{name}: two inside");
            next.release().await.expect("held");
            drop(outer);
        }));
    }
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
}

/// The order in which they are given back is the caller's, and what each was extended to is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_three_holds_is_extended_and_given_back_by_itself() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    for lock in locks(&client) {
        let name = lock.name();
        let first = lock.acquire_with(fixed(20_000 * MS)).await.expect("free");
        let second = lock.acquire_with(fixed(40_000 * MS)).await.expect("its own");
        let third = lock.acquire_with(fixed(30_000 * MS)).await.expect("its own");
        first.extend(90_000 * MS).await.expect("held");
        assert!(left_ms(&server, &lock) > 60_000, "{name}");
        for (guard, most_ms) in [(first, 40_000), (second, 30_000)] {
            let released = guard.release().await.expect("held");
            assert_eq!(released, Released::StillHeld, "{name}");
            let left = left_ms(&server, &lock);
            assert!(left <= most_ms && left > most_ms - 10_000, "{name}: {left} ms");
        }
        assert_eq!(third.release().await.expect("held"), Released::Freed);
        assert_eq!(server.ok(&["EXISTS", name]), "0", "{name}");
    }
}

/// Who writes may read: each side's holds end by themselves, and the key with the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_writer_reads_has_its_own_leases() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let lock = client.read_write("n").expect("a good name");
    let (read, write) = (lock.read(), lock.write());
    let writes = write.acquire_with(fixed(20_000 * MS)).await.expect("free");
    let writes_longer = write.acquire_with(fixed(90_000 * MS)).await.expect("mine");
    let reads = read.acquire_with(fixed(40_000 * MS)).await.expect("mine");
    let reads_longer = read.acquire_with(fixed(60_000 * MS)).await.expect("mine");
    let within = |most_ms: i64| {
        let left = left_ms(&server, write);
        assert!(left <= most_ms && left > most_ms - 10_000, "{left} ms");
    };
    within(90_000);
    assert_eq!(writes_longer.release().await.expect("held"), Released::StillHeld);
    within(60_000);
    assert_eq!(reads_longer.release().await.expect("held"), Released::StillHeld);
    within(40_000);
    let holder = write.holder().await.expect("answered").expect("held");
    let left = holder.remaining.expect("a lease");
    assert!(left <= 20_000 * MS && left > 10_000 * MS, "{left:?}");
    assert_eq!(writes.release().await.expect("held"), Released::Freed);
    within(40_000);
    assert_eq!(reads.release().await.expect("held"), Released::Freed);
    assert_eq!(server.ok(&["EXISTS", "n"]), "0");
}

/// What was taken away by force is over: a guard from before is none of its owner's holds since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_from_before_a_force_release_is_none_of_the_owners_next_holds() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    for lock in locks(&client) {
        let name = lock.name();
        let old = lock.acquire_with(fixed(60_000 * MS)).await.expect("free");
        assert!(lock.force_release().await.expect("answered"), "{name}");
        let next = lock.acquire_with(fixed(60_000 * MS)).await.expect("free");
        let error = old.release().await.expect_err("taken away");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{name}: {error}");
        assert_eq!(next.release().await.expect("held"), Released::Freed, "{name}");
    }
}
