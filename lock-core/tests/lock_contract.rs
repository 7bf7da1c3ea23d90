//! The promises that do not depend on the kind, for every kind.

mod lock_support;
mod support;

use std::{
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, LostReason, Owner, Released, Wait,
};
use lock_support::{Loss, Relay, all_is_over, rival, scripts_run, shapes::Deployed};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// The bound is the caller's, whatever keeps silent: with a reply timeout of 7.5 s nothing else can explain
/// 100 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_bound_is_kept_whatever_is_silent() {
    let deployed = Deployed::single().await;
    let options = || ClientOptions::default().response_timeout(7_500 * MS).connect_timeout(10_000 * MS);
    let (server, relay) = (&deployed.servers[0], &deployed.relays[0]);
    for &kind in Kind::ALL {
        let client = deployed.client(options()).await;
        let fresh = deployed.client(options()).await;
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let ask = async |lock: &Lock, what: &str| {
            let began = Instant::now();
            let how = minute().wait(Wait::AtMost(100 * MS));
            let error = lock.acquire_with(how).await.expect_err(what);
            let waited = began.elapsed();
            assert!(waited >= 95 * MS, "{kind}, {what}: gave up after {waited:?}");
            assert!(waited < 1500 * MS, "{kind}, {what}: waited {waited:?}");
            error
        };
        let others = client.lock(rival(kind), kind.name()).expect("a good name");
        let guard = others.acquire_with(minute()).await.expect("free");
        let error = ask(&lock, "another holds it").await;
        assert_eq!(error.kind(), ErrorKind::Busy, "{kind}: {error}");
        guard.release().await.expect("held");

        relay.black_hole();
        let error = ask(&lock, "a black hole").await;
        assert_eq!(error.kind(), ErrorKind::Unknown, "{kind}: {error}");
        relay.heal();
        server.wait_for(&["EXISTS", kind.name()], |answer| answer == "0");

        let frozen = server.freeze();
        let lock = fresh.lock(kind, kind.name()).expect("a good name");
        let error = ask(&lock, "a stopped server").await;
        assert_eq!(error.kind(), ErrorKind::Unknown, "{kind}: {error}");
        drop(frozen);
        server.wait_for(&["EXISTS", kind.name()], |answer| answer == "0");

        // A connection that is yet to be made holds nobody up either.
        relay.stall();
        server.ok(&["CLIENT", "KILL", "TYPE", "normal"]);
        relay.black_hole();
        ask(&lock, "nobody to connect to").await;
        relay.heal();
        server.wait_for(&["EXISTS", kind.name()], |answer| answer == "0");
    }
}

/// The network delivers an acquire after its caller has gone, and after the release that was to undo it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_arrives_after_its_undo_is_undone_too() {
    let deployed = Deployed::single().await;
    let (server, relay) = (&deployed.servers[0], &deployed.relays[0]);
    let options = ClientOptions::default().response_timeout(150 * MS);
    for &kind in Kind::ALL {
        for owner in [None, Some(Owner::numbered(1))] {
            let name = format!("{kind}:{}", owner.is_some());
            let client = deployed.client(options.clone()).await;
            let lock = client.lock(kind, &name).expect("a good name");
            let mut how = minute();
            how.owner = owner;
            let warm = lock.acquire_with(how.clone()).await.expect("free");
            warm.release().await.expect("held");
            server.wait_for(&["EXISTS", &name], |answer| answer == "0");

            // By the lock's name: an undo of an earlier round may still be under way.
            relay.lose(name.clone().leak(), Loss::Stranded);
            let before = scripts_run(server);
            let error = lock.acquire_with(how.wait(Wait::Try)).await;
            let error = error.expect_err("held up");
            assert_eq!(error.kind(), ErrorKind::Unknown, "{name}: {error}");
            // The undo goes over a new connection; when it has run, the acquire arrives.
            let until = Instant::now() + PATIENCE;
            while scripts_run(server) == before {
                assert!(Instant::now() < until, "{name}: nothing is undone");
                tokio::time::sleep(5 * MS).await;
            }
            relay.heal();
            // It may take a moment to arrive, so the lock must be free for a while.
            let mut free_since = Instant::now();
            let until = Instant::now() + PATIENCE;
            while free_since.elapsed() < 100 * MS {
                if server.ok(&["EXISTS", &name]) == "1" {
                    free_since = Instant::now();
                }
                assert!(Instant::now() < until, "{name}: held by nobody");
                tokio::time::sleep(5 * MS).await;
            }
        }
    }
}

/// A release that the network keeps for long is no release of what the same owner has been given since,
/// whether the hold was extended before or not. Of a plain lock each hold has a value of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_arrives_after_its_lease_leaves_the_owners_next_hold_alone() {
    let mut kinds = Vec::new();
    for &kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Plain) {
        kinds.push(tokio::spawn(async move {
            let deployed = Deployed::single().await;
            for extended in [false, true] {
                a_late_release_leaves_the_next_hold_alone(&deployed, kind, extended).await;
            }
        }));
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
}

async fn a_late_release_leaves_the_next_hold_alone(deployed: &Deployed, kind: Kind, extended: bool) {
    let (server, relay) = (&deployed.servers[0], &deployed.relays[0]);
    let options = ClientOptions::default().response_timeout(300 * MS);
    let client = deployed.client(options).await;
    let name = format!("{kind}:{extended}");
    let lock = client.lock(kind, &name).expect("a good name");
    let mine = minute().owner(Owner::numbered(1));
    let short = mine.clone().lease(Lease::Fixed(900 * MS));
    let guard = lock.acquire_with(short).await.expect("free");
    if extended {
        guard.extend(1_000 * MS).await.expect("held");
    }
    // What is asked now is kept; what is asked again goes over new connections, perhaps only in the
    // background.
    relay.stall();
    let _ = guard.release().await;
    server.wait_for(&["EXISTS", &name], |answer| answer == "0");
    let latches = format!("*latch:{{{name}}}*");
    server.wait_for(&["KEYS", &latches], str::is_empty);
    let next = lock.acquire_with(mine).await.expect("free");
    let before = scripts_run(server);
    relay.heal();
    let until = Instant::now() + PATIENCE;
    while scripts_run(server) == before {
        assert!(Instant::now() < until, "{name}: it never arrived");
        tokio::time::sleep(5 * MS).await;
    }
    assert_eq!(server.ok(&["EXISTS", &name]), "1", "{name}: given back");
    next.release().await.expect("held");
}

/// A hold is as long as the longest that its owner asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entering_again_and_extending_never_shorten() {
    let server = Server::start(&[]);
    let client = client(&server.url(), ClientOptions::default()).await;
    let short = Lease::Fixed(1000 * MS);
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let long_enough = |what: &str| {
            let left: u64 = server.ok(&["PTTL", kind.name()]).parse().expect("ms");
            assert!(left > 30_000, "{kind}: {left} ms left after {what}");
        };
        let mine = minute().owner(Owner::numbered(1));
        let outer = lock.acquire_with(mine.clone()).await.expect("free");
        outer.extend(1000 * MS).await.expect("held");
        long_enough("a shorter extension");
        assert!(outer.valid_until() > Instant::now() + 30_000 * MS, "{kind}");
        if reenters(kind) {
            let inner = lock.acquire_with(mine.lease(short)).await.expect("mine");
            long_enough("a shorter re-entry");
            inner.extend(1000 * MS).await.expect("held");
            long_enough("a shorter extension of a re-entry");
            assert_eq!(inner.release().await.expect("held"), Released::StillHeld);
            long_enough("the release of a re-entry");
        }
        assert_eq!(outer.release().await.expect("held"), Released::Freed);
    }
}

/// The renewal of the outer hold is its own: neither the end of an inner one nor that of a stranger's touches
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hold_loses_its_renewal_because_another_ended() {
    let server = Server::start(&[]);
    let lease = 600 * MS;
    let client = client(&server.url(), ClientOptions::default().watchdog_lease(lease)).await;
    let mut outers = Vec::new();
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let mine = Acquire::default().wait(Wait::AtMost(PATIENCE)).owner(Owner::numbered(1));
        outers.push(lock.acquire_with(mine.clone()).await.expect("free"));
        if reenters(kind) {
            let inner = lock.acquire_with(mine).await.expect("mine");
            inner.release().await.expect("held");
        }
        let other = client.lock(kind, &format!("{kind}:other"));
        let other = other.expect("a good name").acquire_with(Acquire::default()).await;
        other.expect("free").release().await.expect("held");
    }
    let acquired_at = Instant::now();
    while acquired_at.elapsed() < lease * 2 {
        for outer in &outers {
            assert!(!outer.is_lost(), "{}", outer.name());
        }
        tokio::time::sleep(20 * MS).await;
    }
    for outer in outers {
        assert_eq!(server.ok(&["EXISTS", outer.name()]), "1");
        assert_eq!(outer.release().await.expect("held"), Released::Freed);
    }
    all_is_over(&server, lease).await;
}

/// A holder that can renew no more is told so before anybody else gets in, and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_cannot_renew_is_told_before_another_enters() {
    let server = Server::start(&[]);
    let other = client(&server.url(), ClientOptions::default()).await;
    for &kind in Kind::ALL {
        let relay = Relay::start(server.address()).await;
        let options = ClientOptions::default().watchdog_lease(500 * MS).response_timeout(100 * MS);
        let holder = client(&relay.url(), options).await;
        let lock = holder.lock(kind, kind.name()).expect("a good name");
        let guard = lock.acquire_with(Acquire::default()).await.expect("free");
        let mut events = guard.events();
        relay.black_hole();
        let next = other.lock(rival(kind), kind.name()).expect("a good name");
        let next = next.acquire_with(minute()).await.expect("the lease ends");
        assert!(guard.is_lost(), "{kind}: two inside");
        assert!(guard.valid_until() < Instant::now(), "{kind}");
        assert_eq!(guard.lost().await, LostReason::NotRenewed, "{kind}");
        let mut told = 0;
        while let Some(event) = events.next().await {
            told += usize::from(matches!(event, lock_core::GuardEvent::Lost { .. }));
        }
        assert_eq!(told, 1, "{kind}");
        next.release().await.expect("held");
        relay.heal();
        drop(guard);
        server.wait_for(&["EXISTS", kind.name()], |answer| answer == "0");
    }
}

const HELPER: &str = "holds_every_kind_until_it_is_killed";

/// The program of the process that the test below kills.
#[tokio::test]
#[ignore = "runs in a process of its own, started by another test"]
async fn holds_every_kind_until_it_is_killed() {
    let url = std::env::var("HOLD_AT").expect("the server's URL");
    let client = client(&url, ClientOptions::default().watchdog_lease(600 * MS)).await;
    let mut guards = Vec::new();
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        guards.push(lock.acquire_with(Acquire::default()).await.expect("free"));
    }
    // Standard input ends with the parent, if the parent does not kill this process before.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
        .await
        .expect("no panic")
        .expect("a pipe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_locks_of_a_killed_process_are_free_within_the_lease() {
    let server = Server::start(&[]);
    let mut holder = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", HELPER])
        .env("HOLD_AT", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program again");
    let all = Kind::ALL.len().to_string();
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let exists: Vec<_> = std::iter::once("EXISTS").chain(names).collect();
    server.wait_for(&exists, |answer| answer == all);
    // It renews: the locks are there for longer than a lease.
    tokio::time::sleep(700 * MS).await;
    assert_eq!(server.ok(&exists), all);
    holder.kill().expect("SIGKILL");
    holder.wait().expect("it is dead");
    for kind in Kind::ALL {
        let left: i64 = server.ok(&["PTTL", kind.name()]).parse().expect("ms");
        assert!(left <= 600, "{kind} stays for {left} ms");
    }
    let client = client(&server.url(), ClientOptions::default()).await;
    for &kind in Kind::ALL {
        let lock = client.lock(rival(kind), kind.name()).expect("a good name");
        let guard = lock.acquire_with(minute()).await.expect("the lease ended");
        guard.release().await.expect("held");
    }
}
