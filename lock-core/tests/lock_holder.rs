//! What a look at a lock says about holds of every kind.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Owner, Wait};
use support::Server;

async fn client(url: &str) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, ClientOptions::default()).await.expect("it answers")
}

fn for_a_minute() -> Acquire {
    Acquire::default().wait(Wait::Try).lease(Lease::Fixed(Duration::from_secs(60)))
}

#[tokio::test]
async fn a_look_names_the_holder_and_what_is_left() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    for kind in Kind::ALL {
        let lock = client.lock(*kind, kind.name()).expect("a good name");
        assert_eq!(lock.holder().await.expect("an answer"), None, "{kind}");
        for owner in [None, Some(Owner::numbered(7))] {
            let mut how = for_a_minute();
            how.owner = owner;
            let guard = lock.acquire_with(how).await.expect("free");
            let holder = lock.holder().await.expect("an answer").expect("held");
            assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1), "{kind}");
            let left = holder.remaining.expect("a lease");
            assert!(left <= Duration::from_secs(60), "{kind}: {left:?}");
            assert!(left > Duration::from_secs(30), "{kind}: {left:?}");
            guard.release().await.expect("held");
        }
        assert_eq!(lock.holder().await.expect("an answer"), None, "{kind}");
    }
}

#[tokio::test]
async fn holds_are_counted_for_their_owner_alone() {
    let server = Server::start(&[]);
    let (ours, theirs) = (client(&server.url()).await, client(&server.url()).await);
    let lock = ours.lock(Kind::Reentrant, "n").expect("a good name");
    let how = for_a_minute().owner(Owner::numbered(1));
    let first = lock.acquire_with(how.clone()).await.expect("free");
    let second = lock.acquire_with(how).await.expect("the same owner");
    assert_eq!(lock.holds_of(Owner::numbered(1)).await.expect("an answer"), 2);
    assert_eq!(lock.holds_of(Owner::numbered(2)).await.expect("an answer"), 0);
    // The same number in another client is another owner.
    let elsewhere = theirs.lock(Kind::Reentrant, "n").expect("a good name");
    let held = elsewhere.holds_of(Owner::numbered(1)).await;
    assert_eq!(held.expect("an answer"), 0);
    second.release().await.expect("held");
    assert_eq!(lock.holds_of(Owner::numbered(1)).await.expect("an answer"), 1);
    first.release().await.expect("held");
}

#[tokio::test]
async fn a_majority_names_the_holder() {
    let mut servers: Vec<_> = (0..3).map(|_| Server::start(&[])).collect();
    let places: Vec<_> = servers.iter().map(|s| s.address().to_string()).collect();
    let client = client(&format!("redlock://{}", places.join(","))).await;
    let lock = client.lock(Kind::Redlock, "n").expect("a good name");
    servers[0].ok(&["HSET", "n", "stranger:1", "1"]);
    assert_eq!(lock.holder().await.expect("an answer"), None);
    servers[1].ok(&["HSET", "n", "stranger:1", "1"]);
    let holder = lock.holder().await.expect("an answer").expect("a majority");
    assert_eq!((&*holder.owner, holder.remaining), ("stranger:1", None));
    // The other one has no lock there: whether a majority has it only the dead one knows.
    servers[0].kill();
    let error = lock.is_locked().await.expect_err("nobody can say");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    servers[1].ok(&["DEL", "n"]);
    assert!(!lock.is_locked().await.expect("two of three have none"));
}

// What a release left to the background goes on while this thread waits for the servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redlock_cycle_is_two_commands_for_each_master() {
    let servers: Vec<_> = (0..5).map(|_| Server::start(&[])).collect();
    let places: Vec<_> = servers.iter().map(|s| s.address().to_string()).collect();
    let client = client(&format!("redlock://{}", places.join(","))).await;
    let lock = client.lock(Kind::Redlock, "n").expect("a good name");
    let cycles = 20;
    let mut before = 0;
    for cycle in 0..=cycles {
        if cycle == 1 {
            // The first one connected and loaded scripts.
            tokio::time::sleep(Duration::from_millis(300)).await;
            before = client.stats().commands;
        }
        let guard = lock.acquire_with(for_a_minute()).await.expect("free");
        guard.release().await.expect("held");
        for server in &servers {
            server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
        }
    }
    assert_eq!(client.stats().commands - before, cycles * 10);
}
