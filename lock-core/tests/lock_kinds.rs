//! What sets the kinds of lock apart.

mod lock_support;
mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Lock, LockError, Owner, Released, Wait,
};
use lock_support::{Loss, Relay, rival};
use support::{PATIENCE, Server};

const MINUTE: Duration = Duration::from_secs(60);

async fn lock(url: &str, kind: Kind) -> Lock {
    let options = ClientOptions::default().response_timeout(Duration::from_millis(300));
    let client = Client::connect(&url.parse().expect("a good URL"), options).await.expect("it answers");
    client.lock(kind, "n").expect("a good name")
}

fn wait() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

fn once() -> Acquire {
    wait().wait(Wait::Try)
}

#[test]
fn the_front_page_says_when_to_choose_each() {
    for kind in Kind::ALL {
        let row = format!("[`Kind::{kind:?}`]");
        let mut lines = include_str!("../src/lib.rs").lines();
        assert!(lines.any(|line| line.starts_with("//! |") && line.contains(&row)), "{row}");
    }
}

#[test]
fn the_name_of_every_kind_leads_back() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
    }
    let error = "mutex".parse::<Kind>().unwrap_err().to_string();
    assert!(error.contains("fenced, fair, queued, read, write, redlock"), "{error}");
}

/// What every kind promises, redlock of one master included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_excludes_wakes_extends_and_leaves_nothing() {
    for &kind in Kind::ALL {
        let server = Server::start(&[]);
        let others = lock(&server.url(), rival(kind)).await;
        let lock = lock(&server.url(), kind).await;
        let guard = lock.acquire_with(once()).await.expect("free");
        assert_eq!(others.acquire_with(once()).await.expect_err("held").kind(), ErrorKind::Busy, "{kind}");
        guard.extend(2 * MINUTE).await.expect("held");
        let left: u64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
        assert!(left > 60_000, "{kind}: {left} ms");
        let next = tokio::spawn({
            let others = others.clone();
            async move { others.acquire_with(wait()).await }
        });
        assert_eq!(guard.release().await.expect("held"), Released::Freed, "{kind}");
        let next: Guard = next.await.expect("no panic").expect("its turn");
        server.ok(&["DEL", "n"]);
        assert_eq!(next.extend(2 * MINUTE).await.expect_err("gone").kind(), ErrorKind::NotHeld, "{kind}");
        assert!(next.is_lost());
        assert_eq!(next.release().await.expect_err("gone").kind(), ErrorKind::NotHeld, "{kind}");
        assert_eq!(server.ok(&["EXISTS", "n"]), "0", "{kind}");
    }
}

/// A repetition of an acquire or release whose answer was lost is recognised by every kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_survives_lost_answers() {
    for &kind in Kind::ALL {
        for owner in [None, Some(Owner::numbered(1))] {
            let server = Server::start(&[]);
            let relay = Relay::start(server.address()).await;
            let lock = lock(&relay.url(), kind).await;
            let mut how = wait();
            how.owner = owner;
            // The first cycle teaches the server the scripts.
            lock.acquire_with(how.clone()).await.expect("free").release().await.expect("held");
            let word = if kind == Kind::Plain { "SET" } else { "EVALSHA" };
            relay.lose(word, Loss::Reset);
            let guard = lock.acquire_with(how).await.expect("asked again");
            relay.lose("EVALSHA", Loss::Reset);
            let released = guard.release().await;
            assert_eq!(released.expect("held"), Released::Freed, "{kind} {owner:?}");
            assert_eq!(relay.lost(), 2);
            // A late acquire is looked for in the background; it may be doing so for nothing.
            server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
        }
    }
}

#[tokio::test]
async fn a_plain_lock_is_one_native_command_in() {
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Plain).await;
    let guard = lock.acquire_with(once()).await.expect("free");
    assert_eq!(server.ok(&["GET", "n"]), guard.owner());
    let calls = server.ok(&["INFO", "commandstats"]);
    // A lock's script goes by its digest; what EVAL there is asks whether the server runs scripts.
    assert!(!calls.contains("cmdstat_evalsha"), "{calls}");
    assert_eq!(guard.release().await.expect("held"), Released::Freed);
}

#[tokio::test]
async fn a_kind_that_is_not_re_entrant_refuses_its_own_owner() {
    for (kind, refusal) in [(Kind::NonReentrant, ErrorKind::Failed), (Kind::Plain, ErrorKind::Busy)] {
        let server = Server::start(&[]);
        let lock = lock(&server.url(), kind).await;
        let mine = once().owner(Owner::numbered(1));
        let guard = lock.acquire_with(mine.clone()).await.expect("free");
        let error = lock.acquire_with(mine.clone()).await.expect_err("mine already");
        assert_eq!(error.kind(), refusal, "{error}");
        assert_eq!(guard.release().await.expect("held"), Released::Freed);
        lock.acquire_with(mine).await.expect("free").release().await.expect("held");
    }
}

#[tokio::test]
async fn tokens_count_from_one_as_those_of_a_java_peer_do() {
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Fenced).await;
    for round in 1..=3 {
        let guard = lock.acquire_with(once()).await.expect("free");
        assert_eq!(guard.token(), Some(round));
        guard.release().await.expect("held");
    }
    assert_eq!(server.ok(&["GET", "redisson_lock_token:{n}"]), "3");
    assert_eq!(server.call(&["PTTL", "redisson_lock_token:{n}"]), "-1");
    // A counter with an end beside one without would start over for a client that does not know of it.
    let how = once().token_life(Duration::from_secs(3600));
    let error = lock.acquire_with(how).await.expect_err("two sorts of client");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(error.is_definite());
    assert_eq!(server.call(&["EXISTS", "n"]), "0");
}

#[tokio::test]
async fn tokens_of_a_counter_with_an_end_rise_also_when_it_is_lost() {
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Fenced).await;
    let how = once().token_life(Duration::from_secs(3600));
    let mut last = 0;
    for round in 0..6 {
        let guard = lock.acquire_with(how.clone()).await.expect("free");
        let token = guard.token().expect("a fenced lock has one");
        assert!(token > last, "{token} after {last}");
        assert!(i64::try_from(token).is_ok());
        let kept = server.ok(&["GET", "redisson_lock_token:{n}"]);
        assert_eq!(kept, token.to_string());
        let ends = server.ok(&["PTTL", "redisson_lock_token:{n}"]);
        assert!(ends.parse::<i64>().is_ok_and(|ms| ms > 0), "{ends}");
        last = token;
        guard.release().await.expect("held");
        if round == 3 {
            server.ok(&["FLUSHALL"]);
        }
    }
}

/// One name, now as a fenced lock and now as a queued one, whose counter ends in between or not.
#[tokio::test]
async fn no_token_falls_between_fenced_and_queued() {
    const COUNTER: &str = "redisson_lock_token:{n}";
    let life = || once().token_life(Duration::from_secs(3600));
    for (ends, queued) in [(false, once as fn() -> Acquire), (true, once), (false, life), (true, life)] {
        let server = Server::start(&[]);
        let mut last = 0;
        for kind in [Kind::Fenced, Kind::Queued, Kind::Queued, Kind::Fenced] {
            let how = if kind == Kind::Queued { queued() } else { life() };
            let guard = match lock(&server.url(), kind).await.acquire_with(how).await {
                Ok(guard) => guard,
                // It would end the counter that those without a life have begun.
                Err(error) => {
                    let endless = server.call(&["PTTL", COUNTER]) == "-1";
                    assert!(endless && error.is_definite(), "{error}");
                    continue;
                }
            };
            let token = guard.token().expect("both have one");
            assert!(token > last, "{kind}: {token} after {last}");
            last = token;
            guard.release().await.expect("held");
            if ends {
                server.ok(&["DEL", COUNTER]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_of_a_queued_lock_has_the_life_that_is_asked_for() {
    const COUNTER: &str = "redisson_lock_token:{n}";
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Queued).await;
    let end = || {
        let end = server.call(&["PTTL", COUNTER]);
        end.parse::<i64>().expect("a number")
    };
    let hour = wait().token_life(Duration::from_secs(3600));
    let guard = lock.acquire_with(hour.clone()).await.expect("free");
    assert!(end() > 3_500_000);
    // A grant by a release, and one that asks for less, does not shorten it; nor does a lease end after it.
    server.ok(&["PEXPIRE", COUNTER, "1000"]);
    let next = tokio::spawn({
        let (lock, hour) = (lock.clone(), hour.clone());
        async move { lock.acquire_with(hour).await }
    });
    server.wait_for(&["HLEN", "locklab_queue:{n}"], |places| places == "1");
    guard.release().await.expect("held");
    let guard = next.await.expect("no panic").expect("its turn");
    assert!(end() > 3_500_000);
    guard.release().await.expect("held");
    let short = wait().token_life(Duration::from_millis(1));
    for lease in [1000, 7_200_000] {
        let how = short.clone();
        let how = how.lease(Lease::Fixed(Duration::from_millis(lease)));
        let guard = lock.acquire_with(how).await.expect("free");
        assert!(end() > 3_500_000.max(i64::try_from(lease).expect("small") - 100_000));
        guard.release().await.expect("held");
    }
    // That of a peer has no end and gets none.
    server.ok(&["SET", COUNTER, "7"]);
    let guard = lock.acquire_with(hour).await.expect("free");
    assert_eq!((guard.token(), end()), (Some(8), -1));
    guard.release().await.expect("held");
}

/// What ends a hold whose counter has ended before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Its holder is dead: a heartbeat of the waiter's client calls the waiter.
    Lease,
    /// The client that takes it away has asked for no life.
    Force,
    /// So has the client that gives it back.
    Release,
}

/// A waiter's counter has the life that the waiter asked for, from whichever client the call comes: one
/// without an end would refuse every later fenced acquire with a life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_of_a_queued_waiter_has_the_life_that_it_asked_for() {
    const COUNTER: &str = "redisson_lock_token:{n}";
    for ending in [Ending::Lease, Ending::Force, Ending::Release] {
        let server = Server::start(&[]);
        let holder = lock(&server.url(), Kind::Queued).await;
        let waiter = lock(&server.url(), Kind::Queued).await;
        let life = Duration::from_secs(3600);
        let how = match ending {
            Ending::Release => wait(),
            _ => wait().token_life(life),
        };
        let guard = holder.acquire_with(how).await.expect("free");
        let next = tokio::spawn(async move { waiter.acquire_with(wait().token_life(life)).await });
        server.wait_for(&["HLEN", "locklab_queue:{n}"], |places| places == "1");
        // The hold is renewed for longer than its counter's life.
        server.ok(&["DEL", COUNTER]);
        match ending {
            Ending::Lease => {
                server.ok(&["PEXPIRE", "n", "1"]);
            }
            Ending::Force => assert!(holder.force_release().await.expect("answered")),
            Ending::Release => {
                guard.release().await.expect("held");
            }
        }
        let next = next.await.expect("no panic").expect("its turn");
        let ends: i64 = server.ok(&["PTTL", COUNTER]).parse().expect("a number");
        assert!(ends > 3_500_000, "{ending:?}: the counter ends in {ends} ms");
        next.release().await.expect("held");
        let fenced = lock(&server.url(), Kind::Fenced).await;
        let fenced = fenced.acquire_with(once().token_life(life)).await;
        let fenced = fenced.unwrap_or_else(|error| panic!("{ending:?}: {error}"));
        fenced.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spinning_waiter_needs_no_message() {
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Spin).await;
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let waiting = tokio::spawn(async move { lock.acquire_with(wait()).await });
    // It looks again and again.
    server.wait_for(&["INFO", "commandstats"], |stats| {
        let calls = stats.split("cmdstat_hexists:calls=").nth(1).and_then(|rest| rest.split(',').next());
        calls.is_some_and(|calls| calls.parse::<u32>().is_ok_and(|calls| calls > 5))
    });
    assert_eq!(
        server.ok(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"]),
        "redisson_lock__channel:{n}\n0"
    );
    server.ok(&["DEL", "n"]);
    drop(waiting.await.expect("no panic").expect("entered"));
}

/// A name that a lock of another format has: whoever asks learns that, waits for nothing, and leaves the lock
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_another_kind_has_is_said_in_every_kind() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("it answers");
    let says = |what: &str, asked: Result<(), LockError>| {
        let error = asked.expect_err(what);
        assert_eq!(error.server_code(), Some("WRONGTYPE"), "{what}: {error}");
        assert!(error.is_definite(), "{what}: {error}");
        assert!(error.to_string().contains("the name is in use"), "{what}: {error}");
    };
    for (name, holder) in [("text", Kind::Plain), ("hash", Kind::Reentrant)] {
        let held = client.lock(holder, name).expect("a good name");
        let held = held.acquire_with(once()).await.expect("free");
        let waits = once().wait(Wait::AtMost(Duration::from_secs(2)));
        for kind in Kind::ALL.iter().copied() {
            // A hash is every other kind's, and keeps those out; and the first question of a plain lock
            // cannot tell.
            let of_this_format = if kind == Kind::Plain { "text" } else { "hash" };
            if name != of_this_format {
                let lock = client.lock(kind, name).expect("a good name");
                says(kind.name(), lock.acquire_with(waits.clone()).await.map(drop));
            }
        }
        let semaphore = client.semaphore(name).expect("a good name");
        says("set", semaphore.try_set_permits(2, None).await.map(drop));
        says("take", semaphore.try_take(1).await.map(drop));
        says("release", semaphore.release(1).await);
        says("drain", semaphore.drain().await.map(drop));
        says("available", semaphore.available().await.map(drop));
        let permits = client.permits(name).expect("a good name");
        says("set", permits.set_permits(2).await);
        says("begin", permits.try_set_permits(2).await.map(drop));
        says("acquire", permits.try_acquire().await.map(drop));
        says("counts", permits.available().await.map(drop));
        let latch = client.latch(name).expect("a good name");
        says("close", latch.try_set_count(1).await.map(drop));
        says("count", latch.count_down().await.map(drop));
        says("wait", latch.wait().await);
        held.release().await.expect("left alone");
    }
    // What is counted is a number under its name, and a queued lock's is a hash.
    let counted = |name| client.semaphore(name).expect("a good name");
    counted("semaphore").try_set_permits(2, None).await.expect("answered");
    client.permits("permits").expect("a good name").set_permits(2).await.expect("answered");
    client.latch("latch").expect("a good name").try_set_count(2).await.expect("answered");
    for name in ["semaphore", "permits", "latch"] {
        for kind in Kind::ALL.iter().copied().filter(|kind| *kind != Kind::Plain) {
            let lock = client.lock(kind, name).expect("a good name");
            says(&format!("{kind} of the {name}"), lock.acquire_with(once()).await.map(drop));
        }
        let both = client.all_of(&[name]).expect("one slot");
        says(&format!("all of the {name}"), both.acquire_with(once()).await.map(drop));
        assert_eq!(counted(name).available().await.expect("answered"), 2, "{name}");
    }
    let held = client.lock(Kind::Queued, "queued").expect("a good name");
    let held = held.acquire_with(once()).await.expect("free");
    says("a queued lock", counted("queued").try_take(1).await.map(drop));
    says("a queued lock", client.latch("queued").expect("a good name").wait().await);
    held.release().await.expect("left alone");
}
