//! The promises of semaphores, permits and latches, asked of a single server, a sentinel group and
//! a cluster.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, GuardEvent, Latch, Lease, LockError, Permits,
    Semaphore, Wait,
};
use lock_support::{Loss, shapes::Deployed};
use support::{PATIENCE, sentinel::Group};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

fn options() -> ClientOptions {
    ClientOptions::default().response_timeout(500 * MS).poll_bound(MINUTE)
}

fn long() -> Wait {
    Wait::AtMost(PATIENCE)
}

fn minute() -> Acquire {
    Acquire::default().wait(long()).lease(Lease::Fixed(MINUTE))
}

/// One of each, under names of their own.
struct Three {
    semaphore: Semaphore,
    permits: Permits,
    latch: Latch,
}

impl Three {
    fn of(client: &Client) -> Self {
        Three {
            semaphore: client.semaphore("s").expect("a good name"),
            permits: client.permits("p").expect("a good name"),
            latch: client.latch("l").expect("a good name"),
        }
    }

    /// Nothing is free, and the latch is closed.
    async fn begin(&self) -> Result<(), LockError> {
        assert!(self.semaphore.try_set_permits(0, None).await?);
        assert!(self.permits.try_set_permits(0).await?);
        assert!(self.latch.try_set_count(1).await?);
        Ok(())
    }

    /// Two of each may go in.
    async fn open(&self) -> Result<(), LockError> {
        self.semaphore.release(2).await?;
        self.permits.add_permits(2).await?;
        assert_eq!(self.latch.count_down().await?, 0);
        Ok(())
    }

    async fn wait(&self) -> Result<(), LockError> {
        self.semaphore.take_with(1, long()).await?;
        self.permits.acquire_with(minute()).await?.leave();
        assert!(self.latch.wait_with(long()).await?);
        Ok(())
    }
}

/// Waiters of two clients are let in by a release of one of them; nothing is counted twice.
async fn waiters_are_let_in(shape: &Deployed) {
    let (ours, theirs) =
        (Three::of(&shape.client(options()).await), Three::of(&shape.client(options()).await));
    ours.begin().await.expect("answered");
    let opens = async {
        tokio::time::sleep(100 * MS).await;
        ours.open().await
    };
    let (ours_in, theirs_in, opened) = tokio::join!(ours.wait(), theirs.wait(), opens);
    ours_in.expect("let in");
    theirs_in.expect("let in");
    opened.expect("answered");
    assert_eq!(ours.semaphore.available().await.expect("answered"), 0);
    assert_eq!(ours.permits.available().await.expect("answered"), 0);
    assert_eq!(ours.permits.acquired().await.expect("answered"), 2);
    let ids = ours.permits.list().await.expect("answered");
    let ids: Vec<_> = ids.into_iter().map(|permit| permit.id).collect();
    let unknown = theirs.permits.release_held(&ids).await.expect("answered");
    assert_eq!(unknown, []);
    ours.permits.delete().await.expect("answered");
    ours.semaphore.delete().await.expect("answered");
}

/// The answer to each question is lost once, wherever it lives.
async fn lost_answers_do_nothing_twice(shape: &Deployed) {
    let three = Three::of(&shape.client(options()).await);
    let lose = |name| {
        for index in shape.deciders(name) {
            shape.relays[index].lose("EVALSHA", Loss::Reset);
        }
    };
    lose("s");
    let begun = three.semaphore.try_set_permits(3, None).await;
    assert!(begun.expect("asked again"));
    lose("s");
    three.semaphore.take_with(2, long()).await.expect("asked again");
    lose("s");
    three.semaphore.release(1).await.expect("asked again");
    let available = three.semaphore.available().await;
    assert_eq!(available.expect("answered"), 2);
    lose("p");
    let begun = three.permits.try_set_permits(3).await;
    assert!(begun.expect("asked again"));
    lose("p");
    let guard = three.permits.acquire_many_with(2, minute()).await;
    let guard = guard.expect("asked again");
    lose("p");
    assert_eq!(three.permits.acquired().await.expect("asked again"), 2);
    lose("p");
    guard.release().await.expect("asked again");
    assert_eq!(three.permits.available().await.expect("answered"), 3);
    lose("l");
    assert!(three.latch.try_set_count(2).await.expect("asked again"));
    lose("l");
    assert_eq!(three.latch.count_down().await.expect("asked again"), 1);
    assert_eq!(three.latch.count().await.expect("answered"), 1);
    three.latch.delete().await.expect("answered");
    three.permits.delete().await.expect("answered");
    three.semaphore.delete().await.expect("answered");
}

/// Whatever is silent, the caller has an answer in time, and it is not called a no.
async fn bounds_are_kept(shape: &Deployed) {
    let three = Three::of(&shape.client(options()).await);
    three.semaphore.try_set_permits(1, None).await.expect("answered");
    three.permits.try_set_permits(1).await.expect("answered");
    three.latch.try_set_count(1).await.expect("answered");
    for relay in &shape.relays {
        relay.black_hole();
    }
    let began = Instant::now();
    let wait = Wait::AtMost(300 * MS);
    let (semaphore, permit, latch) = tokio::join!(
        three.semaphore.take_with(1, wait),
        three.permits.acquire_with(minute().wait(wait)),
        three.latch.wait_with(wait),
    );
    assert_eq!(semaphore.expect_err("silence").kind(), ErrorKind::Unknown);
    assert_eq!(permit.expect_err("silence").kind(), ErrorKind::Unknown);
    assert_eq!(latch.expect_err("silence").kind(), ErrorKind::Failed);
    assert!(began.elapsed() < PATIENCE / 4, "{:?}", began.elapsed());
    for relay in &shape.relays {
        relay.heal();
    }
    // What may have been taken comes back.
    let until = Instant::now() + PATIENCE;
    loop {
        let free = (three.semaphore.available().await, three.permits.available().await);
        if matches!(free, (Ok(1), Ok(1))) {
            break;
        }
        assert!(Instant::now() < until, "{free:?}");
        tokio::time::sleep(20 * MS).await;
    }
}

async fn all(shape: Deployed) {
    waiters_are_let_in(&shape).await;
    lost_answers_do_nothing_twice(&shape).await;
    bounds_are_kept(&shape).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_single_server() {
    all(Deployed::single().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels() {
    all(Deployed::sentinel().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster() {
    all(Deployed::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn independent_masters_have_none() {
    let shape = Deployed::masters(3).await;
    let client = shape.client(options()).await;
    let errors =
        [client.semaphore("s").map(|_| ()), client.permits("p").map(|_| ()), client.latch("l").map(|_| ())];
    for error in errors {
        let error = error.expect_err("several server sets");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("one server set"), "{error}");
    }
}

/// The master dies: everybody who waits looks at the new one, and what is held is renewed there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_moves_holders_and_waiters() {
    let mut group = Group::start(1);
    let target = group.url().parse().expect("a good URL");
    let options = options().watchdog_lease(6000 * MS);
    let client = Client::connect(&target, options).await.expect("it answers");
    let three = Three::of(&client);
    three.begin().await.expect("answered");
    let held = client.permits("held").expect("a good name");
    held.try_set_permits(2).await.expect("answered");
    let guard = held.acquire_many_with(2, Acquire::default()).await.expect("free");
    let mut events = guard.events();
    let (semaphore, permits, latch) = (three.semaphore.clone(), three.permits.clone(), three.latch.clone());
    let semaphore = tokio::spawn(async move { semaphore.take_with(1, Wait::Forever).await });
    let how = minute().wait(Wait::Forever);
    let permit = tokio::spawn(async move { permits.acquire_with(how).await });
    let latch = tokio::spawn(async move { latch.wait_with(Wait::Forever).await });
    for channel in ["redisson_sc:{s}", "redisson_sc:{p}", "redisson_countdownlatch__channel__{l}"] {
        group.data[0].wait_for(&["PUBSUB", "NUMSUB", channel], |answer| answer.ends_with('1'));
    }
    // The look that follows the subscription is to find nothing.
    tokio::time::sleep(100 * MS).await;
    group.data[0].ok(&["SET", "s", "1"]);
    group.data[0].ok(&["SET", "p", "1"]);
    group.data[0].ok(&["DEL", "l"]);
    let replica = &group.data[1];
    replica.wait_for(&["EXISTS", "l"], |there| there == "0");
    replica.wait_for(&["ZCARD", "{held}:timeout"], |held| held == "2");
    group.data[0].kill();
    group.data[1].wait_for(&["ROLE"], |role| role.starts_with("master"));
    let moved_at = Instant::now();
    semaphore.await.expect("no panic").expect("let in");
    let permit = permit.await.expect("no panic").expect("let in");
    assert!(latch.await.expect("no panic").expect("open"));
    loop {
        let event = tokio::time::timeout(PATIENCE, events.next()).await;
        match event.expect("an event") {
            Some(GuardEvent::Extended { sent_at, .. }) if sent_at > moved_at => break,
            Some(GuardEvent::Extended { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    permit.release().await.expect("held");
    guard.release().await.expect("held");
    assert_eq!(held.available().await.expect("answered"), 2);
}

/// Permits that too few replicas have are given back, and that is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_too_few_replicas_have_are_none() {
    let shape = Deployed::single().await;
    let options = options().durability(Durability::Wait(1)).durability_timeout(100 * MS);
    let client = shape.client(options).await;
    let three = Three::of(&client);
    three.semaphore.try_set_permits(2, None).await.expect("answered");
    three.permits.try_set_permits(2).await.expect("answered");
    let error = three.semaphore.take_with(1, long()).await;
    let error = error.expect_err("no replica");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    let error = three.permits.acquire_with(minute()).await.expect_err("no replica");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert_eq!(three.semaphore.available().await.expect("answered"), 2);
    assert_eq!(three.permits.available().await.expect("answered"), 2);
    // Of giving back nobody asks the replicas.
    three.semaphore.release(1).await.expect("answered");
}
