//! What callers may do to a client without harm to others: leave a future unpolled, compute without a pause,
//! end with `main`, come from an executor that is not Tokio.

mod support;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, LockError, LostReason, MultiLock, Owner,
};
use support::{PATIENCE, Server, cluster::Cluster, sentinel::Group, tls::Authority};
use tokio::runtime::{Builder, Runtime};

const MS: Duration = Duration::from_millis(1);

async fn client(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(workers).enable_all().build();
    built.expect("threads")
}

/// Polls what must not be done yet until it waits for something that lies outside, and leaves it alive.
async fn left_alone<T>(waits: impl Future<Output = T>) {
    let done = tokio::time::timeout(200 * MS, waits).await;
    assert!(done.is_err(), "it does not wait");
}

/// As an acquire that lost a `select!` and is still in scope.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_not_polled_keeps_nobody_out() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().poll_bound(300 * MS);
    let client = client(&server, options).await;
    for kind in Kind::ALL.iter().copied() {
        // A queued lock is given to a waiter, and stays so for its lease.
        if kind == Kind::Queued {
            continue;
        }
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let rival = if kind == Kind::Read { Kind::Write } else { kind };
        let rival = client.lock(rival, kind.name()).expect("a good name");
        let holder = rival.acquire().await.expect("free");
        let mut waits = pin!(lock.acquire());
        left_alone(waits.as_mut()).await;
        holder.release().await.expect("held");
        for _ in 0..2 {
            let lock = lock.clone();
            let task = tokio::spawn(async move { lock.acquire_timeout(PATIENCE).await });
            let acquired = task.await.expect("no panic");
            let guard = acquired.unwrap_or_else(|error| panic!("{kind}: {error}"));
            guard.release().await.expect("held");
        }
        drop(waits.await.expect("free"));
    }
    let semaphore = client.semaphore("semaphore").expect("a good name");
    let begun = semaphore.try_set_permits(1, None).await;
    assert!(begun.expect("answered"));
    let held = semaphore.acquire(1).await.expect("free");
    let mut waits = pin!(semaphore.acquire(1));
    left_alone(waits.as_mut()).await;
    held.release().await.expect("held");
    let other = semaphore.clone();
    let task = tokio::spawn(async move { other.acquire_timeout(1, PATIENCE).await.map(drop) });
    task.await.expect("no panic").expect("one is free");

    let seats = client.permits("seats").expect("a good name");
    assert!(seats.try_set_permits(1).await.expect("answered"));
    let held = seats.acquire().await.expect("free");
    let mut waits = pin!(seats.acquire());
    left_alone(waits.as_mut()).await;
    held.release().await.expect("held");
    let other = seats.clone();
    let task = tokio::spawn(async move { other.acquire_timeout(PATIENCE).await.map(drop) });
    task.await.expect("no panic").expect("one is free");

    let both = client.all_of(&["{g}1", "{g}2"]).expect("one slot");
    let held = both.acquire().await.expect("free");
    let mut waits = pin!(both.acquire());
    left_alone(waits.as_mut()).await;
    held.release().await.expect("held");
    let other = both.clone();
    let task = tokio::spawn(async move { other.acquire_timeout(PATIENCE).await.map(drop) });
    task.await.expect("no panic").expect("both are free");

    // One that waits for its first member; while it waits for another, it holds those before.
    let member = |name| client.lock(Kind::Reentrant, name).expect("a good name");
    let several = MultiLock::new(["first", "second"].map(member)).expect("two");
    let held = member("first").acquire().await.expect("free");
    let mut waits = pin!(several.acquire());
    left_alone(waits.as_mut()).await;
    held.release().await.expect("held");
    let other = several.clone();
    let task = tokio::spawn(async move { other.acquire_timeout(PATIENCE).await.map(drop) });
    task.await.expect("no panic").expect("all are free");

    let latch = client.latch("latch").expect("a good name");
    assert!(latch.try_set_count(1).await.expect("answered"));
    let mut waits = pin!(latch.wait());
    left_alone(waits.as_mut()).await;
    latch.count_down().await.expect("answered");
    // Also one whose time is over sooner.
    for wait in [400 * MS, PATIENCE] {
        let latch = latch.clone();
        let task = tokio::spawn(async move { latch.wait_timeout(wait).await });
        assert!(task.await.expect("no panic").expect("answered"), "{wait:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_behind_a_waiter_that_is_not_polled_has_looked_or_says_so() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().poll_bound(Duration::from_secs(60));
    let patient = client(&server, options).await;
    let lock = patient.lock(Kind::Reentrant, "n").expect("a good name");
    let holder = lock.acquire().await.expect("free");
    let mut waits = pin!(lock.acquire());
    left_alone(waits.as_mut()).await;
    let error = lock.acquire_timeout(100 * MS).await.expect_err("held");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("behind other waiters"), "{error}");
    holder.release().await.expect("held");
    drop(waits.await.expect("free"));

    let options = ClientOptions::default().poll_bound(100 * MS);
    let client = client(&server, options).await;
    let lock = client.lock(Kind::Reentrant, "m").expect("a good name");
    let holder = lock.acquire().await.expect("free");
    let mut waits = pin!(lock.acquire());
    left_alone(waits.as_mut()).await;
    holder.release().await.expect("held");
    // Less than two poll bounds: it looks when its time is over.
    let guard = lock.acquire_timeout(150 * MS).await;
    guard.expect("free").release().await.expect("held");
}

/// How a guard ends in a `main` that ends.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Dropped,
    WithItsScope,
    WithAnError,
    Several,
    Permits,
}

async fn main_of(url: &str, ends: Ends) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(&url.parse()?, ClientOptions::default()).await?;
    let kind = if url.starts_with("redlock") { Kind::Redlock } else { Kind::Reentrant };
    // The first that this client, and this server, ever give back.
    let guard = client.lock(kind, "job")?.acquire().await?;
    match ends {
        Ends::Dropped => drop(guard),
        Ends::WithItsScope => {
            let _guard = guard;
        }
        Ends::WithAnError => {
            let _guard = guard;
            Err("the work failed")?;
        }
        Ends::Several => {
            let mut guards = vec![guard];
            for number in 0..20 {
                let lock = client.lock(Kind::Reentrant, &format!("n{number}"))?;
                guards.push(lock.acquire().await?);
            }
            for kind in [Kind::Plain, Kind::Fenced, Kind::Fair, Kind::Queued, Kind::Write] {
                guards.push(client.lock(kind, kind.name())?.acquire().await?);
            }
        }
        Ends::Permits => {
            drop(guard);
            let slots = client.semaphore("slots")?;
            slots.try_set_permits(3, None).await?;
            let _slots = slots.acquire(3).await?;
            let seats = client.permits("seats")?;
            seats.try_set_permits(3).await?;
            let _seats = seats.acquire().await?;
        }
    }
    Ok(())
}

#[test]
fn a_guard_that_is_dropped_at_the_end_of_main_is_given_back() {
    for ends in [Ends::Dropped, Ends::WithItsScope, Ends::WithAnError, Ends::Several, Ends::Permits] {
        for workers in [0, 2] {
            let server = Server::start(&[]);
            let runtime = match workers {
                0 => Builder::new_current_thread().enable_all().build().expect("a runtime"),
                workers => runtime(workers),
            };
            let _ = runtime.block_on(main_of(&server.url(), ends));
            drop(runtime);
            server.wait_for(&["KEYS", "*"], |keys| {
                let mut keys = keys.lines();
                keys.all(|key| {
                    ["slots", "seats"].contains(&key) || key.contains("latch") || key.contains("token")
                })
            });
            if matches!(ends, Ends::Permits) {
                server.wait_for(&["GET", "slots"], |free| free == "3");
                server.wait_for(&["GET", "seats"], |free| free == "3");
            }
        }
    }
}

#[test]
fn a_guard_that_is_dropped_at_the_end_of_main_is_given_back_on_every_topology() {
    let authority = Authority::new();
    let (secure, port) = authority.server(&[]);
    let masters: Vec<_> = (0..3).map(|_| Server::start(&[])).collect();
    let addresses: Vec<_> = masters.iter().map(|master| master.address().to_string()).collect();
    let cluster = Cluster::start(2, false);
    for (url, servers) in [
        (format!("rediss://127.0.0.1:{port}{}", authority.query()), &[secure][..]),
        (format!("redlock://{}", addresses.join(",")), &masters),
        (cluster.url(), &cluster.nodes),
    ] {
        for ends in [Ends::Dropped, Ends::WithItsScope, Ends::WithAnError] {
            let runtime = runtime(2);
            let ended = runtime.block_on(main_of(&url, ends));
            assert_eq!(ended.is_err(), matches!(ends, Ends::WithAnError), "{url}: {ended:?}");
            drop(runtime);
            for server in servers {
                server.wait_for(&["KEYS", "job"], |keys| keys.is_empty());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_can_give_all_back_and_its_guards_learn() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default()).await;
    let mut guards: Vec<Guard> = Vec::new();
    for kind in Kind::ALL.iter().copied() {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        guards.push(lock.acquire().await.expect("free"));
    }
    let slots = client.semaphore("slots").expect("a good name");
    assert!(slots.try_set_permits(3, None).await.expect("answered"));
    let held = slots.acquire(2).await.expect("free");
    let left = slots.acquire(1).await.expect("free");
    left.leave();
    client.close_and_release().await;
    for guard in &guards {
        assert_eq!(server.ok(&["EXISTS", guard.name()]), "0", "{}", guard.name());
        assert_eq!(guard.lost().await, LostReason::Closed);
        assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::NotHeld);
    }
    assert_eq!(server.ok(&["GET", "slots"]), "2");
    let error = held.release().await.expect_err("given back");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(server.ok(&["GET", "slots"]), "2");
}

/// Whether timers of the same runtime were punctual meanwhile; where they were not, it is the machine that
/// stood still.
async fn punctual<T>(work: impl Future<Output = T>) -> Option<T> {
    let pulse = tokio::spawn(async {
        let mut worst = Duration::ZERO;
        loop {
            let asleep = Instant::now();
            tokio::time::sleep(20 * MS).await;
            worst = worst.max(asleep.elapsed());
            if worst > 120 * MS {
                return;
            }
        }
    });
    let done = work.await;
    let was_late = pulse.is_finished();
    pulse.abort();
    (!was_late).then_some(done)
}

/// Tries until the machine has done its part; `None` says that it did not.
fn tried<T>(mut once: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + 3 * PATIENCE;
    loop {
        if let Some(done) = once() {
            return done;
        }
        assert!(Instant::now() < until, "this machine is never punctual");
    }
}

#[test]
fn a_holder_that_computes_keeps_its_lock() {
    let server = Server::start(&[]);
    let mut round = 0;
    let is_lost = tried(|| {
        round += 1;
        runtime(4).block_on(async {
            let options = ClientOptions::default().watchdog_lease(1000 * MS);
            let lock = client(&server, options).await;
            let lock = lock.lock(Kind::Reentrant, &format!("n{round}"));
            let lock = lock.expect("a good name");
            punctual(async {
                let work = tokio::spawn(async move {
                    let guard = lock.acquire().await.expect("free");
                    thread::sleep(1800 * MS);
                    guard.is_lost()
                });
                work.await.expect("no panic")
            })
            .await
        })
    });
    assert!(!is_lost, "not renewed while its holder computed");
}

#[test]
fn a_guard_that_is_dropped_before_a_computation_is_given_back_at_once() {
    let server = Server::start(&[]);
    let held_for = tried(|| {
        runtime(4).block_on(async {
            let lock = client(&server, ClientOptions::default()).await;
            let lock = lock.lock(Kind::Reentrant, "n").expect("a good name");
            punctual(async {
                let (tell, told) = tokio::sync::oneshot::channel();
                let work = tokio::spawn(async move {
                    let guard = lock.acquire().await.expect("free");
                    let _ = tell.send(Instant::now());
                    drop(guard);
                    thread::sleep(1500 * MS);
                });
                let since = told.await.expect("acquired");
                let server = &server;
                tokio::task::block_in_place(|| {
                    server.wait_for(&["EXISTS", "n"], |there| there == "0");
                });
                let held_for = since.elapsed();
                work.await.expect("no panic");
                held_for
            })
            .await
        })
    });
    assert!(held_for < 1000 * MS, "held for {held_for:?}");
}

#[test]
fn a_bound_is_kept_while_another_task_computes_that_has_asked() {
    let server = Server::start(&[]);
    for round in 0..4 {
        let took = tried(|| {
            runtime(4).block_on(async {
                let client = client(&server, ClientOptions::default()).await;
                let name = |name: &str| format!("{name}{round}");
                let lock = client.lock(Kind::Reentrant, &name("n")).expect("a good name");
                drop(lock.acquire().await.expect("free"));
                let other = client.lock(Kind::Reentrant, &name("m")).expect("a good name");
                punctual(async {
                    let blocker = tokio::spawn(async move {
                        let computes = async { thread::sleep(1500 * MS) };
                        let (tried, ()) = tokio::join!(other.try_acquire(), computes);
                        drop(tried);
                    });
                    tokio::time::sleep(50 * MS).await;
                    let asks = tokio::spawn(async move {
                        let began = Instant::now();
                        let _ = lock.acquire_timeout(300 * MS).await;
                        began.elapsed()
                    });
                    let took = asks.await.expect("no panic");
                    blocker.await.expect("no panic");
                    took
                })
                .await
            })
        });
        assert!(took < 600 * MS, "300 ms took {took:?}");
    }
}

#[tokio::test]
async fn work_under_a_guard_ends_with_the_hold() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().watchdog_lease(300 * MS);
    let client = client(&server, options).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    assert_eq!(guard.run(async { 7 }).await.expect("held"), 7);
    guard.check().expect("held");
    assert!(lock.force_release().await.expect("answered"));
    let ended = guard.run(std::future::pending::<()>()).await;
    assert_eq!(ended.expect_err("lost").kind(), ErrorKind::NotHeld);
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::NotHeld);
}

#[tokio::test]
async fn work_that_is_held_for_gives_back_or_says_that_it_was_lost() {
    let server = Server::start(&[]);
    let prefixed = ClientOptions::default().name_prefix("app:");
    let client = client(&server, prefixed.watchdog_lease(300 * MS)).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire().await.expect("free");
    assert_eq!(server.ok(&["EXISTS", "app:n", "n"]), "1");
    assert_eq!(guard.hold_while(async { 7 }).await.expect("held"), 7);
    assert_eq!(server.ok(&["EXISTS", "app:n"]), "0");
    let guard = lock.acquire().await.expect("free");
    assert!(lock.force_release().await.expect("answered"));
    let ended = guard.hold_while(std::future::pending::<()>()).await;
    assert_eq!(ended.expect_err("lost").kind(), ErrorKind::NotHeld);
}

#[tokio::test]
async fn a_prefix_stands_before_every_name() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default().name_prefix("app:")).await;
    let slots = client.semaphore("slots").expect("a good name");
    let seats = client.permits("seats").expect("a good name");
    let latch = client.latch("latch").expect("a good name");
    assert!(slots.try_set_permits(2, None).await.expect("answered"));
    assert!(seats.try_set_permits(2).await.expect("answered"));
    assert!(latch.try_set_count(2).await.expect("answered"));
    let _held = (
        client.all_of(&["{g}1", "{g}2"]).expect("one slot").acquire().await.expect("free"),
        client.election("jobs").expect("a good name").campaign().await.expect("nobody leads"),
        client.fenced("fenced").expect("a good name").acquire().await.expect("free"),
        client.read_write("shared").expect("a good name").read().acquire().await.expect("free"),
        slots.acquire(1).await.expect("free"),
        seats.acquire().await.expect("free"),
    );
    for key in server.ok(&["KEYS", "*"]).lines() {
        assert!(key.starts_with("app:") || key.contains("{app:"), "{key}");
    }
}

/// A service may start before its Redis, which an acquire waits for as it does for the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_there_before_its_servers() {
    let mut server = Server::start(&[]);
    server.kill();
    let made = |url: &str| {
        let target = url.parse().expect("a good URL");
        Client::new(&target, ClientOptions::default())
    };
    let client = made(&server.url()).expect("nobody is asked");
    assert_eq!(client.stats().commands, 0);
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let error = lock.try_acquire().await.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    let waits = tokio::spawn(async move { lock.acquire_timeout(PATIENCE).await });
    assert!(server.restart());
    let guard = waits.await.expect("no panic").expect("it is there now");
    guard.release().await.expect("held");
    let group = Group::start(1);
    let cluster = Cluster::start(1, false);
    let unsaid = made(&cluster.url()).expect_err("nobody can be asked");
    assert!(unsaid.to_string().contains("pubsub=sharded"), "{unsaid}");
    for url in [group.url(), format!("{}?pubsub=sharded", cluster.url())] {
        let client = made(&url).expect("nobody is asked");
        let lock = client.lock(Kind::Fair, "n").expect("a good name");
        let holder = lock.acquire_timeout(PATIENCE).await.expect("free");
        let mut waits = pin!(lock.acquire_timeout(PATIENCE));
        left_alone(waits.as_mut()).await;
        holder.release().await.expect("held");
        waits.await.expect("handed over").release().await.expect("held");
    }
}

/// It is given the lock while nobody polls it: by the time that somebody does, it has been told to ask, and
/// its wait is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_told_to_ask_asks_once_more_at_its_end() {
    let server = Server::start(&[]);
    let [held, waiting] =
        [client(&server, ClientOptions::default()).await, client(&server, ClientOptions::default()).await];
    let [held, waiting] = [&held, &waiting].map(|of| of.lock(Kind::Fair, "n").expect("a name"));
    let holder = held.acquire().await.expect("free");
    let mut waits = pin!(waiting.acquire_timeout(Duration::from_secs(1)));
    left_alone(waits.as_mut()).await;
    holder.release().await.expect("held");
    // The message is read by the client's own tasks, and the waiter by nobody until its bound is over.
    thread::sleep(Duration::from_millis(1_200));
    waits.await.expect("it was told that the lock is free").release().await.expect("held");
}

#[tokio::test]
async fn a_hold_is_lost_when_it_lasts_longer_than_it_may() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().watchdog_lease(600 * MS);
    let client = client(&server, options).await;
    let both = client.all_of(&["{g}1", "{g}2"]).expect("one slot");
    let locks =
        [Kind::Plain, Kind::Reentrant, Kind::Fenced, Kind::Fair, Kind::Queued, Kind::Write, Kind::Redlock]
            .map(|kind| client.lock(kind, kind.name()).expect("a good name"));
    for lock in locks.iter().chain([&both]) {
        let how = Acquire::default().max_hold(1_000 * MS);
        let guard = lock.acquire_with(how).await.expect("free");
        let ends = guard.sent_at() + 1_000 * MS;
        // Renewed until then, and extended no further.
        assert!(guard.valid_until() < ends);
        guard.extend(PATIENCE).await.expect("held");
        assert!(guard.valid_until() <= ends + MS);
        assert_eq!(guard.lost().await, LostReason::MaxHold);
        // Not before, and in time: within the lease that the last renewal gave.
        let late = Instant::now().duration_since(guard.valid_until());
        assert!(Instant::now() >= guard.valid_until() && late < 600 * MS, "{late:?}");
        drop(guard);
        server.wait_for(&["EXISTS", lock.name()], |there| there == "0");
    }
    let seats = client.permits("seats").expect("a good name");
    assert!(seats.try_set_permits(1).await.expect("answered"));
    let seat = seats.acquire_with(Acquire::default().max_hold(300 * MS)).await.expect("free");
    assert_eq!(seat.lost().await, LostReason::MaxHold);
    drop(seats.acquire_timeout(PATIENCE).await.expect("its lease ends"));
    // Nothing renews it then, also if it is kept: it ends with its lease.
    let lock = client.lock(Kind::Reentrant, "kept").expect("a good name");
    let how = Acquire::default().max_hold(300 * MS);
    let guard = lock.acquire_with(how).await.expect("free");
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    server.wait_for(&["EXISTS", "kept"], |there| there == "0");
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that is not Tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker: Waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(50 * MS),
        }
    }
}

/// What a call answers to an executor that is not Tokio, on a thread that Tokio does not know.
macro_rules! elsewhere {
    ($call:expr) => {
        thread::scope(|scope| scope.spawn(|| block_on($call)).join()).expect("no panic")
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outside_of_tokio_each_call_is_refused_and_harms_nobody() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().poll_bound(Duration::from_secs(60));
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, options.clone()).await.expect("it answers");
    fn refused<T>(call: &str, asked: Result<T, LockError>) {
        let error = asked.err().unwrap_or_else(|| panic!("{call}: no runtime"));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{call}: {error}");
        assert!(error.to_string().contains("Tokio"), "{call}: {error}");
    }
    macro_rules! refused {
        ($($call:expr),* $(,)?) => { $( refused(stringify!($call), elsewhere!($call)); )* };
    }
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let free = client.lock(Kind::Reentrant, "free").expect("a good name");
    let fenced = client.fenced("fenced").expect("a good name");
    let several = MultiLock::new([free.clone(), lock.clone()]).expect("two");
    let semaphore = client.semaphore("semaphore").expect("a good name");
    let permits = client.permits("permits").expect("a good name");
    let latch = client.latch("latch").expect("a good name");
    let election = client.election("jobs").expect("a good name");
    assert!(semaphore.try_set_permits(3, None).await.expect("it answers"));
    assert!(permits.try_set_permits(3).await.expect("it answers"));
    assert!(latch.try_set_count(1).await.expect("it answers"));
    let permit = permits.acquire().await.expect("free");
    let ids = [permit.id()];
    let (one, second) = (Acquire::default(), Duration::from_secs(1));
    let owner = Owner::numbered(1);
    refused!(
        Client::connect(&target, options.clone()),
        async { Client::new(&target, options.clone()) },
        lock.acquire(),
        lock.try_acquire(),
        lock.acquire_timeout(second),
        lock.acquire_with(one.clone()),
        lock.is_locked(),
        lock.holder(),
        lock.holders(),
        lock.holds_of(owner),
        lock.force_release(),
        fenced.acquire(),
        several.acquire(),
        several.try_acquire(),
        semaphore.try_set_permits(1, None),
        semaphore.acquire(1),
        semaphore.try_acquire(1),
        semaphore.take(1),
        semaphore.try_take(1),
        semaphore.release(1),
        semaphore.add_permits(1),
        semaphore.drain(),
        semaphore.available(),
        semaphore.delete(),
        permits.try_set_permits(1),
        permits.set_permits(1),
        permits.add_permits(1),
        permits.acquire(),
        permits.try_acquire_many(2),
        permits.release(&ids),
        permits.release_held(&ids),
        permits.update_lease(ids[0], second),
        permits.available(),
        permits.acquired(),
        permits.total(),
        permits.list(),
        permits.delete(),
        permit.extend(second),
        latch.try_set_count(1),
        latch.count_down(),
        latch.count(),
        latch.delete(),
        latch.wait(),
        latch.wait_timeout(second),
        election.campaign(),
        election.leader(),
        async { election.observe().next().await.expect("an error") },
    );
    assert_eq!(permits.acquired().await.expect("it answers"), 1);
    assert_eq!(latch.count().await.expect("it answers"), 1);
    // What has no error to answer with does its work.
    let report = elsewhere!(client.survey()).pop().expect("a server");
    assert_eq!(report.silence, None);
    let short = free.acquire_with(one.lease(Lease::Fixed(300 * MS))).await.expect("free");
    assert_eq!(elsewhere!(short.lost()), LostReason::Expired);
    assert!(elsewhere!(short.run(async {})).is_err());
    // What is given back is given back in the background.
    let unasked = |released: Result<(), LockError>| {
        let error = released.expect_err("in the background");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    };
    let guard = semaphore.acquire(2).await.expect("free");
    unasked(elsewhere!(guard.release()));
    unasked(elsewhere!(permit.release()));
    let held = lock.acquire().await.expect("free");
    refused("acquire", elsewhere!(lock.acquire()));
    // By a message alone, since nobody polls.
    let waiter = tokio::spawn(async move { lock.acquire_timeout(PATIENCE).await });
    let channel = ["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"];
    server.wait_for(&channel, |answer| answer.ends_with('1'));
    unasked(elsewhere!(held.release()).map(drop));
    drop(waiter.await.expect("no panic").expect("given back"));
    server.wait_for(&["GET", "semaphore"], |answer| answer == "3");
    let left = semaphore.acquire(1).await.expect("free");
    elsewhere!(client.close_and_release());
    assert_eq!(server.ok(&["GET", "semaphore"]), "3");
    left.leave();
}
