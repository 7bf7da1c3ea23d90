//! What cannot be asked for is refused before anything is sent, with what is allowed.

mod lock_support;
mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, Durability, Endpoint, ErrorKind, Guard, Kind, Lease, LockError,
    MultiLock, Owner, Target, TopologyKind, Wait,
};
use lock_support::rival;
use support::Server;

const MS: Duration = Duration::from_millis(1);

fn once() -> Acquire {
    Acquire::default().wait(Wait::Try).lease(Lease::Fixed(60_000 * MS))
}

async fn client(server: &Server) -> Client {
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    client.expect("it answers")
}

/// The number under which a server knows the owner of a guard.
fn number(guard: &Guard) -> u64 {
    let number = guard.owner().rsplit(':').next();
    number.and_then(|number| number.parse().ok()).expect("a number")
}

fn refused<T: std::fmt::Debug>(asked: Result<T, LockError>, says: &str) {
    let error = asked.expect_err("it cannot be asked for");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

/// A number that a fresh owner has would enter its lock, and release it.
#[tokio::test]
async fn nobody_is_taken_for_a_fresh_owner() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let most = ((1_u64 << 63) - 1).to_string();
    for &kind in Kind::ALL {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let guard = lock.acquire_with(once()).await.expect("free");
        // A fresh owner by itself is an owner like any other.
        let fresh = Owner::fresh();
        assert_eq!(lock.holds_of(fresh).await.expect("asked"), 0);
        let same = match kind {
            Kind::Plain | Kind::Queued => 1 << 63,
            _ => number(&guard),
        };
        assert!(same >= 1 << 63, "{kind}: {same}");
        let before = client.stats().commands;
        for number in [same, 1 << 63, u64::MAX] {
            let owner = Owner::numbered(number);
            refused(lock.acquire_with(once().owner(owner)).await, &most);
            let waits = once().wait(Wait::AtMost(60_000 * MS));
            refused(lock.acquire_with(waits.owner(owner)).await, &most);
            refused(lock.holds_of(owner).await, &most);
        }
        assert_eq!(client.stats().commands, before, "{kind}: something was sent");
        guard.release().await.expect("held");
        let last = once().owner(Owner::numbered((1 << 63) - 1));
        let guard = lock.acquire_with(last).await.expect("free");
        guard.release().await.expect("held");
        let other = client.lock(rival(kind), "other").expect("a good name");
        let guard = other.acquire_with(once().owner(fresh)).await;
        guard.expect("free").release().await.expect("held");
    }
    let wrong = once().owner(Owner::numbered(1 << 63));
    let members = ["a", "b"].map(|name| client.lock(Kind::Reentrant, name).expect("a good name"));
    let several = MultiLock::new(members).expect("two names");
    let together = client.all_of(&["{a}1", "{a}2"]).expect("one slot");
    let lock = client.read_write("rw").expect("a good name");
    let writing = lock.write().acquire_with(once()).await.expect("free");
    let before = client.stats().commands;
    refused(several.acquire_with(wrong.clone()).await, &most);
    refused(together.acquire_with(wrong.clone()).await, &most);
    refused(lock.read().acquire_with(wrong.clone()).await, &most);
    assert_eq!(client.stats().commands, before, "something was sent");
    // Here the owner is that of the write hold, whatever was set.
    let reading = lock.read_under(&writing, wrong).await.expect("its own");
    reading.release().await.expect("held");
    writing.release().await.expect("held");
}

#[tokio::test]
async fn a_setting_that_cannot_work_is_refused_before_anybody_is_dialled() {
    // Nobody listens there: another error would say so.
    let target: Target = "redis://127.0.0.1:1".parse().expect("a good URL");
    let options = ClientOptions::default;
    for (wrong, says) in [
        (options().response_timeout(31_000 * MS), "response_timeout is 31s, and 1ms to 7.5s is allowed"),
        (options().response_timeout(Duration::MAX), "1ms to 7.5s"),
        (options().connect_timeout(Duration::MAX), "connect_timeout"),
        (options().watchdog_lease(2 * MS), "watchdog_lease is 2ms"),
        (options().watchdog_lease(Duration::MAX), "watchdog_lease"),
        (options().poll_bound(Duration::ZERO), "poll_bound is 0ns, and 1ms to 86400s is allowed"),
        (options().poll_bound(Duration::MAX), "poll_bound"),
        (options().link_timeout(Duration::ZERO), "link_timeout"),
        (options().durability_timeout(Duration::MAX), "durability_timeout"),
        (options().node_timeout(Duration::ZERO), "node_timeout"),
        (options().restart_delay(Duration::MAX), "restart_delay"),
        (options().durability(Durability::Wait(0)), "durability is wait:0"),
        (options().durability(Durability::WaitAof(u32::MAX)), "durability is waitaof:4294967295"),
        (options().replicas(0), "replicas is 0"),
        (options().durability(Durability::WaitAll), "?replicas=N"),
        (options().client_name("two words"), "client_name"),
    ] {
        refused(Client::connect(&target, wrong).await, says);
    }
    let socket = Endpoint::Unix("/nobody".into());
    let parts = |kind, endpoint: &Endpoint| Target::from_parts(kind, vec![endpoint.clone()]);
    let single = || parts(TopologyKind::Single, &target.endpoints()[0]).expect("good parts");
    let sentinel = parts(TopologyKind::Sentinel, &target.endpoints()[0]).expect("good parts");
    let socket = parts(TopologyKind::Single, &socket).expect("good parts");
    for (wrong, says) in [
        (sentinel.with_master_name(""), "by its name"),
        (single().with_password(None, ""), "not empty"),
        (single().with_password(Some(""), "x"), "not empty"),
        (single().with_master_name("m"), "of sentinels"),
        (single().with_sentinel_password(None, "x"), "of sentinels"),
        (socket.with_tls(), "no TLS"),
    ] {
        refused(Client::connect(&wrong, options()).await, says);
    }
    let reached = Client::connect(&target, options()).await;
    let error = reached.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
}

/// An error says which lock it is, and is a line all the same.
#[tokio::test]
async fn a_long_name_makes_no_long_error() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let name = "n".repeat(1 << 20);
    let member = client.lock(Kind::Reentrant, &name).expect("a good name");
    let error = MultiLock::new([member.clone(), member]).expect_err("twice");
    assert_eq!(error.lock(), name);
    assert!(error.to_string().len() < 500, "{} bytes", error.to_string().len());
}

#[tokio::test]
async fn a_longest_time_of_holding_has_bounds() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let seats = client.permits("seats").expect("a good name");
    let before = client.stats().commands;
    for longest in [Duration::ZERO, 2 * MS, Duration::MAX] {
        let how = once().max_hold(longest);
        refused(lock.acquire_with(how.clone()).await, "3 ms to a hundred years");
        refused(seats.acquire_with(how).await, "3 ms to a hundred years");
    }
    assert_eq!(client.stats().commands, before, "something was sent");
}

#[tokio::test]
async fn a_number_of_replicas_has_bounds() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    for wrong in [Durability::Wait(0), Durability::Wait(1 << 31), Durability::WaitAof(u32::MAX)] {
        refused(lock.acquire_with(once().durability(wrong)).await, "1 to 2147483647 replicas");
    }
}

/// A life that no server takes would be refused in the middle of a script, or be for ever.
#[tokio::test]
async fn a_token_life_has_bounds() {
    let server = Server::start(&[]);
    let client = client(&server).await;
    let before = client.stats().commands;
    for kind in [Kind::Fenced, Kind::Queued] {
        let lock = client.lock(kind, "n").expect("a good name");
        for life in [Duration::ZERO, Duration::from_secs(101 * 366 * 86_400), Duration::MAX] {
            let asked = lock.acquire_with(once().token_life(life)).await;
            refused(asked, "a token life is 1 ms to a hundred years");
        }
    }
    assert_eq!(client.stats().commands, before, "something was sent");
}
