//! Trouble that passes in the middle of a lease: a hold goes on, is told apart from its neighbours, and
//! can be given back when the server is in its worst state.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, GuardEvent, Kind, Lease, Lock, LostReason, Owner,
    Released, Wait,
};
use lock_support::{Loss, Relay, rival, scripts_run};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
/// Long enough for a loaded machine, short enough for a test.
const LEASE: Duration = Duration::from_secs(3);

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn options() -> ClientOptions {
    ClientOptions::default().response_timeout(200 * MS).watchdog_lease(LEASE)
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// A renewed hold of each kind, its scripts known to the server, and what is to be heard of it.
async fn one_of_each(client: &Client) -> Vec<Guard> {
    let mut guards = Vec::new();
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let how = Acquire::default().wait(Wait::AtMost(PATIENCE));
        guards.push(lock.acquire_with(how).await.expect("free"));
    }
    guards
}

/// Renewals fail until `heal`; then each hold is renewed again and none was lost.
async fn recovers(guards: &[Guard], heal: impl FnOnce()) {
    let mut events: Vec<_> = guards.iter().map(Guard::events).collect();
    let failing_since = Instant::now();
    // The first renewals, due after a third of the lease, fail.
    tokio::time::sleep(LEASE / 2).await;
    heal();
    for (guard, events) in guards.iter().zip(&mut events) {
        loop {
            let event = tokio::time::timeout(PATIENCE, events.next()).await;
            match event.expect("an event") {
                Some(GuardEvent::Extended { sent_at, .. }) if sent_at > failing_since + LEASE / 2 => {
                    break;
                }
                Some(GuardEvent::Extended { .. }) => {}
                other => panic!("{}: {other:?}", guard.name()),
            }
        }
        assert!(!guard.is_lost(), "{}", guard.name());
        assert!(guard.valid_until() > failing_since + LEASE, "{}", guard.name());
    }
}

async fn all_released(guards: Vec<Guard>) {
    for guard in guards {
        let name = guard.name().to_owned();
        let released = guard.release().await;
        assert_eq!(released.expect("held"), Released::Freed, "{name}");
    }
}

/// No answer for half a lease, on no connection, and then all is well again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_fails_in_mid_lease_recovers() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let client = client(&relay.url(), options()).await;
    let guards = one_of_each(&client).await;
    relay.black_hole();
    recovers(&guards, || relay.heal()).await;
    all_released(guards).await;
}

/// A definite refusal is no loss either: the key is there, and the server may change its mind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_refused_in_mid_lease_recovers() {
    for (harm, cure) in [
        (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
        (["REPLICAOF", "127.0.0.1", "1", ""], ["REPLICAOF", "NO", "ONE", ""]),
    ] {
        let server = Server::start(&[]);
        let client = client(&server.url(), options()).await;
        let guards = one_of_each(&client).await;
        let call = |parts: &[&str]| {
            let parts: Vec<_> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
            server.ok(&parts);
        };
        call(&harm);
        recovers(&guards, || call(&cure)).await;
        all_released(guards).await;
    }
}

/// One hold of many that are renewed together is refused: the others are asked for at once, and not one after
/// the other.
#[tokio::test]
async fn one_hold_that_is_refused_costs_those_renewed_with_it_no_time() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let client = client(&relay.url(), options()).await;
    let held = async |name: String| {
        let lock = client.lock(Kind::Reentrant, &name).expect("a good name");
        lock.acquire().await.expect("free")
    };
    let _refused = held("refused".to_owned()).await;
    let mut guards = Vec::new();
    for number in 0..40 {
        guards.push(held(format!("ok:{number}")).await);
    }
    let mut events: Vec<_> = guards.iter().map(Guard::events).collect();
    server.ok(&["ACL", "SETUSER", "default", "resetkeys", "~ok:*"]);
    relay.delay(80 * MS);
    // The one thread of this runtime stands still until all are due: they go in one request.
    std::thread::sleep(LEASE / 3 + 50 * MS);
    let renewed = events.iter_mut().map(|events| events.next());
    for event in join_all(renewed).await {
        assert!(matches!(event, Some(GuardEvent::Extended { .. })), "{event:?}");
    }
    let refusals = server.ok(&["INFO", "errorstats"]);
    let line = (refusals.lines()).find_map(|line| line.strip_prefix("errorstat_NOPERM:count="));
    let count = line.and_then(|count| count.parse::<u32>().ok());
    assert!(count >= Some(2), "together, and alone: {refusals}");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}

/// Every connection is cut again and again for longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_connections_that_keep_breaking() {
    let server = Server::start(&[]);
    let client = client(&server.url(), options()).await;
    let guards = one_of_each(&client).await;
    let began = Instant::now();
    while began.elapsed() < LEASE * 3 / 2 {
        server.ok(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        for guard in &guards {
            assert!(!guard.is_lost(), "{} after {:?}", guard.name(), began.elapsed());
        }
        tokio::time::sleep(150 * MS).await;
    }
    all_released(guards).await;
}

/// Redis refuses the first write of a script that needs memory when there is none. A release must not be that
/// script: a server that is full gets no better by locks that cannot be given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_releases_and_renewals() {
    for &kind in Kind::ALL {
        for owner in [None, Some(Owner::numbered(1))] {
            let server = Server::start(&[]);
            let client = client(&server.url(), options()).await;
            let lock = client.lock(kind, "n").expect("a good name");
            let mut how = minute();
            how.owner = owner;
            // Teaches the server the scripts: a full one does not learn.
            let twice = owner.is_some() && reenters(kind);
            for full in [false, true] {
                let outer = lock.acquire_with(how.clone()).await.expect("free");
                let inner = match twice {
                    true => Some(lock.acquire_with(how.clone()).await.expect("mine")),
                    false => None,
                };
                if full {
                    server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
                }
                let what = format!("{kind} {owner:?}, full: {full}");
                let extended = outer.extend(90_000 * MS).await;
                assert!(extended.is_ok(), "{what}: {extended:?}");
                if let Some(inner) = inner {
                    let released = inner.release().await;
                    assert_eq!(released.expect(&what), Released::StillHeld, "{what}");
                }
                let released = outer.release().await;
                assert_eq!(released.expect(&what), Released::Freed, "{what}");
                assert_eq!(server.ok(&["EXISTS", "n"]), "0", "{what}");
            }
        }
    }
}

/// A client that has locked and unlocked a thousand times before renews what it holds now, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_past_leaves_one_renewal_at_a_time() {
    let server = Server::start(&[]);
    // A busy machine keeps it, too.
    let lease = 1_500 * MS;
    let client = client(&server.url(), ClientOptions::default().watchdog_lease(lease)).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let busy_until = Instant::now() + lease * 3 / 2;
    let mut cycles = 0;
    while Instant::now() < busy_until || cycles < 1000 {
        let guard = lock.acquire_with(Acquire::default()).await.expect("free");
        guard.release().await.expect("held");
        cycles += 1;
    }
    let guard = lock.acquire_with(Acquire::default()).await.expect("free");
    let (before, began) = (scripts_run(&server), Instant::now());
    tokio::time::sleep(lease * 2).await;
    let renewals = scripts_run(&server) - before;
    // Each comes no sooner than nine tenths of a third of the lease after the one before.
    let most = began.elapsed().as_secs_f64() / (lease.as_secs_f64() * 0.3 * 0.99) + 1.0;
    assert!(renewals >= 2, "{renewals} renewals");
    assert!(renewals as f64 <= most, "{renewals} renewals, {most} are due");
    guard.release().await.expect("held");
}

/// The inner release had to be asked twice: the outer hold is counted right and goes on being renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_was_asked_twice_leaves_the_outer_hold_renewed() {
    let server = Server::start(&[]);
    let mut kinds = Vec::new();
    for kind in Kind::ALL.iter().copied().filter(|kind| reenters(*kind)) {
        let relay = Relay::start(server.address()).await;
        let lease = 900 * MS;
        let client = client(&relay.url(), options().watchdog_lease(lease)).await;
        kinds.push(tokio::spawn(async move {
            let lock = client.lock(kind, kind.name()).expect("a good name");
            let mine = Acquire::default().owner(Owner::numbered(1));
            // Teaches the server the scripts.
            let warm = lock.acquire_with(mine.clone()).await.expect("free");
            warm.release().await.expect("held");
            let outer = lock.acquire_with(mine.clone()).await.expect("free");
            let inner = lock.acquire_with(mine).await.expect("mine");
            relay.lose("PUBLISH", Loss::Silence);
            assert_eq!(inner.release().await.expect("asked again"), Released::StillHeld, "{kind}");
            assert_eq!(relay.lost(), 1, "{kind}");
            let until = Instant::now() + lease * 2;
            while Instant::now() < until {
                assert!(!outer.is_lost(), "{kind}");
                tokio::time::sleep(20 * MS).await;
            }
            assert_eq!(outer.release().await.expect("held"), Released::Freed, "{kind}");
        }));
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
}

/// Silence where an answer should be, for every kind and every step; elsewhere the connection is reset
/// instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_survives_silence() {
    let server = Server::start(&[]);
    let mut kinds = Vec::new();
    for &kind in Kind::ALL {
        for owner in [None, Some(Owner::numbered(1))] {
            let relay = Relay::start(server.address()).await;
            let client = client(&relay.url(), options()).await;
            let name = format!("{kind}:{}", owner.is_some());
            let lock = client.lock(kind, &name).expect("a good name");
            kinds.push(tokio::spawn(async move {
                let mut how = minute();
                how.owner = owner;
                silent_everywhere(&relay, &lock, how).await;
            }));
        }
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
    lock_support::shapes::only_latches_and_tokens_stay(&server);
}

async fn silent_everywhere(relay: &Relay, lock: &Lock, how: Acquire) {
    let name = lock.name();
    let first = if lock.kind() == Kind::Plain { "SET" } else { "EVALSHA" };
    let warm = lock.acquire_with(how.clone()).await.expect("free");
    warm.extend(60_000 * MS).await.expect("held");
    warm.release().await.expect("held");
    relay.lose(first, Loss::Silence);
    let guard = lock.acquire_with(how.clone()).await.expect("asked again");
    relay.lose("EVALSHA", Loss::Silence);
    guard.extend(120_000 * MS).await.expect("asked again");
    relay.lose("EVALSHA", Loss::Silence);
    let released = guard.release().await;
    assert_eq!(released.expect("asked again"), Released::Freed, "{name}");
    assert_eq!(relay.lost(), 3, "{name}");
    // One try has no time to ask again: what it may have taken is given back behind its back.
    relay.lose(first, Loss::Silence);
    let error = lock.acquire_with(how.clone().wait(Wait::Try)).await;
    assert_eq!(error.expect_err("no answer").kind(), ErrorKind::Unknown, "{name}");
    let next = lock.acquire_with(how).await.expect("free again");
    next.release().await.expect("held");
}

/// The work takes longer than its lease: the next one is let in, the late one is told and harms nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_outlasts_its_lease_is_told_and_harms_nobody() {
    let server = Server::start(&[]);
    let (first, second) = (client(&server.url(), options()).await, client(&server.url(), options()).await);
    for &kind in Kind::ALL {
        let lock = |client: &Client, kind: Kind, name: &str| client.lock(kind, name).expect("a good name");
        let short = minute().lease(Lease::Fixed(150 * MS));
        let late = lock(&first, kind, kind.name()).acquire_with(short).await.expect("free");
        let next =
            lock(&second, rival(kind), kind.name()).acquire_with(minute()).await.expect("the lease ended");
        assert!(late.is_lost(), "{kind}: two believe that they hold it");
        assert_eq!(late.lost().await, LostReason::Expired, "{kind}");
        if let (Some(old), Some(new)) = (late.token(), next.token()) {
            assert!(new > old, "{kind}: {new} after {old}");
        }
        let error = late.extend(1000 * MS).await.expect_err("it is over");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
        let error = late.release().await.expect_err("it is another's");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
        assert!(!next.is_lost(), "{kind}");
        assert_eq!(next.release().await.expect("held"), Released::Freed, "{kind}");
    }
}
