//! Locks that are held together: all or nothing, their order, and what is given back.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, LostReason, MultiLock, Owner, Released,
    Wait,
};
use lock_support::{Loss, Relay, all_is_over, shapes::only_latches_and_tokens_stay};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_millis(600);

async fn client(url: &str) -> Client {
    let options = ClientOptions::default().response_timeout(300 * MS).watchdog_lease(LEASE);
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

fn lock(client: &Client, name: &str) -> Lock {
    client.lock(Kind::Reentrant, name).expect("a good name")
}

fn multi(client: &Client, names: &[&str]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| lock(client, name))).expect("good names")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(Duration::from_secs(60)))
}

/// Whatever order they are named in, members stand in one, and none stands twice.
#[tokio::test]
async fn members_have_one_order() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let names = |multi: &MultiLock| -> Vec<String> {
        let names = multi.members().iter().map(|lock| lock.name().to_owned());
        names.collect()
    };
    let one = multi(&client, &["b", "c", "a"]);
    assert_eq!(names(&one), ["a", "b", "c"]);
    assert_eq!(names(&one), names(&multi(&client, &["c", "a", "b"])));
    for (members, why) in [(vec![], "no lock"), (vec![lock(&client, "a"), lock(&client, "a")], "itself")] {
        let error = MultiLock::new(members).expect_err(why);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_held_or_none_on_several_servers() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let (here, there) = (client(&servers[0].url()).await, client(&servers[1].url()).await);
    let both = || {
        let members = [lock(&here, "n"), there.lock(Kind::Fenced, "n").expect("a good name")];
        MultiLock::new(members).expect("two servers")
    };
    let guard = both().acquire_with(minute()).await.expect("free");
    assert_eq!(guard.members().len(), 2);
    assert!(guard.valid_until() > Instant::now() + 30_000 * MS);
    let error = both().acquire_with(minute().wait(Wait::Try)).await;
    assert_eq!(error.expect_err("held").kind(), ErrorKind::Busy);
    guard.extend(Duration::from_secs(90)).await.expect("held");
    for server in &servers {
        let left: u64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
        assert!(left > 60_000, "{left}");
    }
    assert_eq!(guard.release().await.expect("held"), Released::Freed);

    // One of them is another's: the other is not kept, and the wait is the caller's.
    servers[1].ok(&["HSET", "n", "stranger:1", "1"]);
    for wait in [Wait::Try, Wait::AtMost(200 * MS)] {
        let began = Instant::now();
        let error = both().acquire_with(minute().wait(wait)).await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        assert_eq!(servers[0].ok(&["EXISTS", "n"]), "0");
    }
    let waiting = tokio::spawn({
        let both = both();
        async move { both.acquire_with(minute()).await }
    });
    let channel = "redisson_lock__channel:{n}";
    let heard = format!("{channel}\n1");
    servers[1].wait_for(&["PUBSUB", "NUMSUB", channel], |answer| answer == heard);
    servers[1].ok(&["DEL", "n"]);
    servers[1].ok(&["PUBLISH", channel, "0"]);
    let guard = waiting.await.expect("no panic").expect("its turn");
    drop(guard);
    for server in &servers {
        server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
    }
}

/// Many who want the same members in other orders, of two clients: no two wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_orders_do_not_wait_for_each_other() {
    let server = Server::start(&[]);
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for task in 0..6 {
        let names = match task % 3 {
            0 => ["a", "b", "c"],
            1 => ["c", "b", "a"],
            _ => ["b", "c", "a"],
        };
        let lock = multi(&clients[task % 2], &names);
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let guard = lock.acquire_with(minute()).await.expect("its turn");
                let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                assert_eq!(others, 0, "two inside");
                tokio::time::sleep(MS).await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    all_is_over(&server, LEASE).await;
}

/// A member is gone when all are to be given back: the others are given back nevertheless, and each says what
/// became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_tries_every_member_and_tells_of_each() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let lock = multi(&client, &["a", "b", "c"]);
    let guard = lock.acquire_with(Acquire::default()).await.expect("free");
    server.ok(&["DEL", "a"]);
    let released = guard.release_each().await;
    let members: Vec<_> = (released.members())
        .map(|(name, result)| (name, result.as_ref().map_err(|error| error.kind()).copied()))
        .collect();
    assert_eq!(
        members,
        [("a", Err(ErrorKind::NotHeld)), ("b", Ok(Released::Freed)), ("c", Ok(Released::Freed))]
    );
    let error = released.whole().expect_err("one was lost");
    assert_eq!((error.kind(), error.lock()), (ErrorKind::NotHeld, "a"));
    all_is_over(&server, LEASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_is_lost_with_its_first_member() {
    let server = Server::start(&[]);
    let client = client(&server.url()).await;
    let guard = multi(&client, &["a", "b"]).acquire_with(Acquire::default()).await;
    let guard = guard.expect("free");
    // They are renewed, each by itself.
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(!guard.is_lost() && guard.valid_until() > Instant::now());
    server.ok(&["DEL", "b"]);
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    let lost = lost.expect("told");
    assert_eq!((&*lost.name, lost.reason), ("b", LostReason::Missing));
    assert!(guard.is_lost());
    drop(guard);
    all_is_over(&server, LEASE).await;
}

/// One member's server is silent: within the caller's wait it is said so, and nothing stays held or renewed
/// elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_member_keeps_nobody_beyond_the_wait_and_holds_nothing() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let relay = Relay::start(servers[1].address()).await;
    let (here, there) = (client(&servers[0].url()).await, client(&relay.url()).await);
    let both = MultiLock::new([lock(&here, "n"), lock(&there, "n")]).expect("two servers");
    let warm = both.acquire_with(minute()).await.expect("free");
    warm.release().await.expect("held");
    relay.black_hole();
    let began = Instant::now();
    let how = Acquire::default().wait(Wait::AtMost(500 * MS));
    let error = both.acquire_with(how).await.expect_err("no answer");
    assert!(!error.is_definite(), "{error}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    servers[0].wait_for(&["EXISTS", "n"], |answer| answer == "0");
    relay.heal();
    all_is_over(&servers[0], LEASE).await;
    all_is_over(&servers[1], LEASE).await;
}

/// Answers get lost on the way to one member: all are held once, and given back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_do_nothing_twice() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let relay = Relay::start(servers[1].address()).await;
    let (here, there) = (client(&servers[0].url()).await, client(&relay.url()).await);
    let both = MultiLock::new([lock(&here, "n"), lock(&there, "n")]).expect("two servers");
    for loss in [Loss::Reset, Loss::Silence] {
        let how = minute().owner(Owner::numbered(1));
        let warm = both.acquire_with(how.clone()).await.expect("free");
        warm.release().await.expect("held");
        relay.lose("EVALSHA", loss);
        let guard = both.acquire_with(how).await.expect("asked again");
        for server in &servers {
            assert_eq!(server.ok(&["HVALS", "n"]), "1");
        }
        relay.lose("EVALSHA", loss);
        let released = guard.release().await;
        assert_eq!(released.expect("asked again"), Released::Freed);
    }
    assert_eq!(relay.lost(), 4);
    for server in &servers {
        only_latches_and_tokens_stay(server);
    }
}

/// Wherever the caller goes away, in the middle of trying, waiting or giving back, nothing stays held or
/// renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_at_any_moment_leaves_nothing() {
    let server = Server::start(&[]);
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let mut tasks = Vec::new();
    for task in 0..4 {
        let names: [&str; 2] = if task % 2 == 0 { ["a", "b"] } else { ["b", "c"] };
        let lock = multi(&clients[task / 2], &names);
        tasks.push(tokio::spawn(async move {
            for round in 0..40 {
                let mut how = Acquire::default();
                if round % 2 == 0 {
                    how.owner = Some(Owner::numbered(u64::try_from(task).expect("small")));
                }
                let cycle = async {
                    let guard = lock.acquire_with(how).await.expect("in the end");
                    tokio::time::sleep(MS).await;
                    guard.release().await.expect("held")
                };
                let moment = Duration::from_micros(rand::random_range(0..8_000));
                tokio::select! {
                    () = tokio::time::sleep(moment) => {}
                    _ = cycle => {}
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let guard = multi(&clients[0], &["a", "b", "c"]).acquire_with(minute()).await;
    guard.expect("free in the end").release().await.expect("held");
    all_is_over(&server, LEASE).await;
}

/// A client that sees another order, as one who names the same server otherwise, does not lock itself and
/// others up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_see_another_order_get_in_too() {
    let servers = [Server::start(&[]), Server::start(&[])];
    // The relays' addresses stand in one order, those of the servers in the other, unless chance has it that
    // they agree.
    let relays = [Relay::start(servers[0].address()).await, Relay::start(servers[1].address()).await];
    let urls = [
        [servers[0].url(), servers[1].url()],
        [relays[0].url(), relays[1].url()],
        [servers[0].url(), relays[1].url()],
        [relays[0].url(), servers[1].url()],
    ];
    let mut tasks = Vec::new();
    for [one, other] in urls {
        let (one, other) = (client(&one).await, client(&other).await);
        tasks.push(tokio::spawn(async move {
            let both = MultiLock::new([lock(&one, "n"), lock(&other, "n")]).expect("two servers");
            for _ in 0..5 {
                let guard = both.acquire_with(minute()).await.expect("its turn");
                guard.release().await.expect("held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    for server in &servers {
        all_is_over(server, LEASE).await;
    }
}
