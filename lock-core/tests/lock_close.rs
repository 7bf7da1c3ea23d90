//! Tests what the end of a client leaves: waiters are notified, their places in lines are given back, and
//! nothing of the client stays.

mod lock_support;
mod support;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, LockError, LostReason, MultiLock, Released, Wait,
    diagnostics::Tracer,
};
use lock_support::{Relay, rival};
use support::{PATIENCE, Server};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// The longest that a client takes.
const LONGEST_ANSWER: Duration = Duration::from_millis(7_500);

async fn client(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

/// No bound of a client comes before the test is over.
fn slow() -> ClientOptions {
    ClientOptions::default().poll_bound(HOUR).response_timeout(LONGEST_ANSWER)
}

fn hour() -> Acquire {
    Acquire::default().lease(Lease::Fixed(HOUR))
}

fn waits(
    what: impl Into<String>,
    wait: impl Future<Output = Option<LockError>> + Send + 'static,
) -> (String, JoinHandle<Option<LockError>>) {
    (what.into(), tokio::spawn(wait))
}

/// Waits until a client has asked all that it has to ask at once.
async fn quiet(client: &Client) {
    let until = Instant::now() + PATIENCE;
    loop {
        let before = client.stats().commands;
        tokio::time::sleep(300 * MS).await;
        if client.stats().commands <= before + 5 {
            return;
        }
        assert!(Instant::now() < until, "it asks on and on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_ends_with_its_client_and_gives_its_place_back() {
    let server = Server::start(&[]);
    let (others, ours) = (client(&server, slow()).await, client(&server, slow()).await);
    let mut held = Vec::new();
    let mut waiters = Vec::new();
    for &kind in Kind::ALL {
        let name = format!("{kind}");
        let stranger = others.lock(rival(kind), &name).expect("a good name");
        held.push(stranger.acquire_with(hour()).await.expect("free"));
        let lock = ours.lock(kind, &name).expect("a good name");
        // One at the head of its client, one behind it.
        for _ in 0..2 {
            let lock = lock.clone();
            waiters.push(waits(name.clone(), async move { lock.acquire_with(hour()).await.err() }));
        }
    }
    let free = ours.lock(Kind::Reentrant, "free").expect("a good name");
    let taken = ours.lock(Kind::Reentrant, "reentrant").expect("a good name");
    let several = MultiLock::new([free, taken]).expect("two names");
    waiters.push(waits("several", async move { several.acquire_with(hour()).await.err() }));
    let together = ours.all_of(&["{reentrant}", "{reentrant}2"]);
    let together = together.expect("one slot");
    let first = others.all_of(&["{reentrant}"]).expect("a name");
    held.push(first.acquire_with(hour()).await.expect("free"));
    waiters.push(waits("together", async move { together.acquire_with(hour()).await.err() }));
    let semaphore = ours.semaphore("counted").expect("a good name");
    waiters.push(waits("semaphore", async move { semaphore.take_with(1, Wait::Forever).await.err() }));
    let permits = ours.permits("permits").expect("a good name");
    waiters.push(waits("permits", async move { permits.acquire_with(hour()).await.err() }));
    let latch = ours.latch("latch").expect("a good name");
    latch.try_set_count(1).await.expect("open");
    for _ in 0..2 {
        let latch = latch.clone();
        waiters.push(waits("latch", async move { latch.wait_with(Wait::Forever).await.err() }));
    }
    server.wait_for(&["LLEN", "redisson_lock_queue:{fair}"], |places| places == "2");
    server.wait_for(&["HLEN", "locklab_queue:{queued}"], |places| places == "1");
    quiet(&ours).await;
    for (what, waiter) in &waiters {
        assert!(!waiter.is_finished(), "{what} does not wait");
    }
    let after = ours.clone();
    let kept = ours.lock(Kind::Reentrant, "kept").expect("a good name");
    let kept = kept.acquire_with(hour()).await.expect("free");
    let closed = tokio::time::timeout(LONGEST_ANSWER, ours.close());
    closed.await.expect("everybody leaves");
    assert_eq!(server.ok(&["EXISTS", "redisson_lock_queue:{fair}"]), "0");
    assert_eq!(server.ok(&["EXISTS", "locklab_queue:{queued}"]), "0");
    for (what, waiter) in waiters {
        let ended = tokio::time::timeout(PATIENCE, waiter).await;
        let error = ended.unwrap_or_else(|_| panic!("{what} waits for ever"));
        let error = error.expect("no panic").expect("it is another's");
        assert!(error.to_string().contains("closed"), "{what}: {error}");
        // Those who ask again and again may have done so at this very moment.
        // So may one in a server's line: on a machine under load, its sign of
        // life comes late, its place is gone and it asks for another.
        let asks = [Kind::Spin, Kind::Fair, Kind::Queued].map(Kind::name);
        let asks = asks.contains(&what.as_str()) || what == "several";
        assert!(error.is_definite() || asks, "{what}: {error}");
    }
    // A caller that comes later hears the same, and one that releases too.
    let released = tokio::time::timeout(PATIENCE, kept.release()).await;
    let error = released.expect("nobody waits").expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    for wait in [Wait::Try, Wait::AtMost(HOUR), Wait::Forever] {
        let late = Kind::ALL.iter().map(|&kind| {
            let lock = after.lock(kind, "late").expect("a good name");
            async move { lock.acquire_with(hour().wait(wait)).await }
        });
        let late = tokio::time::timeout(PATIENCE, join_all(late)).await;
        for error in late.expect("nobody waits") {
            let error = error.expect_err("it is closed");
            assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
            assert!(error.to_string().contains("closed"), "{error}");
        }
    }
}

/// No lease ends what a semaphore has given: an acquire that is under way is waited for, and what it comes to
/// is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_takes_no_permits_along() {
    let server = Server::start(&[]);
    let others = client(&server, slow()).await;
    let free = others.semaphore("n").expect("a good name");
    free.try_set_permits(5, None).await.expect("answered");
    // The server knows the scripts from now on.
    let taken = free.acquire(1).await.expect("free");
    taken.release().await.expect("held");
    for release in [false, true] {
        let relay = Relay::start(server.address()).await;
        let target = relay.url().parse().expect("a good URL");
        let ours = Client::connect(&target, slow()).await.expect("it answers");
        let semaphore = ours.semaphore("n").expect("a good name");
        relay.delay(500 * MS);
        let tries = [Wait::Try, Wait::AtMost(HOUR)].map(|wait| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire_with(1, wait).await.is_err() })
        });
        server.wait_for(&["GET", "n"], |left| left == "3");
        match release {
            false => ours.close().await,
            true => ours.close_and_release().await,
        }
        for tried in tries {
            assert!(tried.await.expect("no panic"), "it closes");
        }
        let left = free.available().await.expect("answered");
        assert_eq!(left, 5, "given back too: {release}");
    }
}

/// A client that only its own tasks know is nobody's any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_is_forgotten_whatever_waited_last() {
    for &kind in Kind::ALL {
        for waits_still in [false, true] {
            let server = Server::start(&[]);
            let others = client(&server, ClientOptions::default()).await;
            let stranger = others.lock(rival(kind), "n").expect("a good name");
            let _held = stranger.acquire_with(hour()).await.expect("free");
            // Its options are there as long as the client is.
            let known = Arc::new(());
            let tracer = Tracer::new({
                let known = Arc::clone(&known);
                move |_| drop(Arc::clone(&known))
            });
            let ours = client(&server, ClientOptions::default().tracer(tracer)).await;
            let lock = ours.lock(kind, "n").expect("a good name");
            let soon = hour().wait(Wait::AtMost(50 * MS));
            lock.acquire_with(soon).await.expect_err("it is another's");
            let waiter = waits_still.then(|| {
                let lock = lock.clone();
                tokio::spawn(async move { lock.acquire_with(hour()).await })
            });
            if waits_still {
                tokio::time::sleep(50 * MS).await;
            }
            drop(lock);
            ours.close().await;
            if let Some(waiter) = waiter {
                waiter.await.expect("no panic").expect_err("it is closed");
            }
            let until = Instant::now() + PATIENCE;
            while Arc::strong_count(&known) > 1 {
                assert!(Instant::now() < until, "{kind}, {waits_still}: it stays");
                tokio::time::sleep(10 * MS).await;
            }
        }
    }
}

/// A client in a static, say, of which each test or each start makes a runtime of its own.
#[test]
fn a_client_that_outlives_its_runtime_refuses_and_its_renewed_holds_are_lost() {
    let server = Server::start(&[]);
    let runtime = || tokio::runtime::Runtime::new().expect("threads");
    let (first, second) = (runtime(), runtime());
    let (client, [renewed, fixed, dropped]) = first.block_on(async {
        let client = client(&server, ClientOptions::default()).await;
        let held = async |name: &str, how: Acquire| {
            let lock = client.lock(Kind::Reentrant, name).expect("a good name");
            lock.acquire_with(how).await.expect("free")
        };
        let guards = [
            held("renewed", Acquire::default()).await,
            held("fixed", hour()).await,
            held("dropped", hour()).await,
        ];
        (client, guards)
    });
    let mut waiting = Vec::new();
    for kind in [Kind::Reentrant, Kind::Spin, Kind::Fair, Kind::Queued] {
        let lock = client.lock(kind, "fixed").expect("a good name");
        let wait = async move { lock.acquire().await.expect_err("no runtime") };
        waiting.push((kind, second.spawn(wait)));
    }
    let listening = second.spawn(async move { (renewed.lost().await, renewed) });
    let until = Instant::now() + PATIENCE;
    while client.stats().commands < 15 {
        assert!(Instant::now() < until, "nobody waits");
        std::thread::sleep(5 * MS);
    }
    drop(first);
    second.block_on(async {
        // Long before the lease of half a minute ends.
        let lost = tokio::time::timeout(PATIENCE, listening).await;
        let (lost, renewed) = lost.expect("told at once").expect("no panic");
        assert_eq!(lost, LostReason::RuntimeEnded);
        for (kind, wait) in waiting {
            let error = tokio::time::timeout(PATIENCE, wait).await.expect("cut off");
            let error = error.expect("no panic");
            assert!(error.to_string().contains("runtime"), "{kind}: {error}");
        }
        for &kind in Kind::ALL {
            let lock = client.lock(kind, "free").expect("a good name");
            let error = lock.acquire().await.expect_err("no runtime");
            assert_eq!(error.kind(), ErrorKind::Failed, "{kind}: {error}");
            assert!(error.to_string().contains("runtime"), "{kind}: {error}");
            assert_eq!(server.ok(&["EXISTS", "free"]), "0", "{kind}: nothing is sent");
        }
        assert!(!fixed.is_lost(), "nobody has to renew it");
        assert_eq!(fixed.release().await.expect("held"), Released::Freed);
        assert_eq!(renewed.release().await.expect("held"), Released::Freed);
        drop(dropped);
        let until = Instant::now() + PATIENCE;
        while server.ok(&["EXISTS", "dropped"]) != "0" {
            assert!(Instant::now() < until, "it stays for its lease");
            tokio::time::sleep(5 * MS).await;
        }
    });
}
