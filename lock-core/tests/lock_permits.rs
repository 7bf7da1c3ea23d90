//! The promises of permits with ids and leases: counts, ids, expiry, renewal, lost answers and
//! lost callers.

mod lock_support;
mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, GuardEvent, Kind, Lease, LostReason, Owner, PermitId, Permits,
    Wait,
};
use lock_support::{Loss, Relay, polled};
use support::{
    PATIENCE, Server,
    monitor::{Monitor, sent},
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "redisson_sc:{n}";
const HELD: &str = "{n}:timeout";

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

async fn permits(url: &str) -> Permits {
    let options = ClientOptions::default().response_timeout(300 * MS);
    let client = client(url, options).await;
    client.permits("n").expect("a good name")
}

/// So many, none of them held.
async fn with(url: &str, count: u32) -> Permits {
    let permits = permits(url).await;
    let begun = permits.try_set_permits(count).await;
    assert!(begun.expect("answered"));
    permits
}

/// Waiters look for no other reason than a message, a new subscription or an expiry.
async fn patient(server: &Server) -> Permits {
    let options = ClientOptions::default().poll_bound(MINUTE);
    let client = client(&server.url(), options).await;
    client.permits("n").expect("a good name")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

fn once() -> Acquire {
    minute().wait(Wait::Try)
}

/// Free and held, as the server has them.
fn counts(server: &Server) -> (String, String) {
    (server.ok(&["GET", "n"]), server.ok(&["ZCARD", HELD]))
}

fn are(free: &str, held: &str) -> (String, String) {
    (free.to_owned(), held.to_owned())
}

async fn listened_to(server: &Server) {
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with('1'));
    tokio::time::sleep(100 * MS).await;
}

#[tokio::test]
async fn permits_are_counted_named_and_listed() {
    let server = Server::start(&[]);
    let permits = permits(&server.url()).await;
    assert_eq!(permits.total().await.expect("answered"), 0);
    let error = permits.acquire_with(once()).await.expect_err("none yet");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(permits.try_set_permits(3).await.expect("answered"));
    assert!(!permits.try_set_permits(9).await.expect("answered"));
    let two = permits.acquire_many_with(2, once()).await.expect("free");
    assert_eq!(two.ids().len(), 2);
    let error = permits.acquire_many_with(2, once()).await;
    let error = error.expect_err("one is left").to_string();
    assert!(error.contains("too few permits"), "{error}");
    let short = once().lease(Lease::Fixed(30_000 * MS));
    let one = permits.acquire_with(short).await.expect("free");
    assert_eq!(permits.available().await.expect("answered"), 0);
    assert_eq!(permits.acquired().await.expect("answered"), 3);
    assert_eq!(permits.total().await.expect("answered"), 3);
    let listed = permits.list().await.expect("answered");
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[0].id, one.id(), "the first to end");
    for permit in &listed[1..] {
        assert!(two.ids().contains(&permit.id));
        let left = permit.remaining.expect("a lease");
        assert!(left > 30_000 * MS && left <= MINUTE, "{left:?}");
    }
    // By id, by anybody; what is not held is named.
    let other = support_client(&server).await;
    let unknown: PermitId = "0".repeat(32).parse().expect("an id");
    let ids = [two.ids()[0], unknown, one.id()];
    let left_over = other.release_held(&ids).await.expect("answered");
    assert_eq!(left_over, [unknown]);
    assert_eq!(counts(&server), are("2", "1"));
    // Of many the first are named, and how many more there are.
    let error = other.release(&[unknown; 10_000]).await.expect_err("unknown").to_string();
    assert!(error.contains(&unknown.to_string()) && error.ends_with(" and 9992 more"), "{error}");
    assert!(error.len() < 500, "{error}");
    // Of the two one is gone: that is said, and the other is given back.
    let error = two.release().await.expect_err("one is gone");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(counts(&server), are("3", "0"));
    assert!(permits.delete().await.expect("answered"));
    assert!(!permits.delete().await.expect("answered"));
}

/// A list that comes in hundreds of pieces is read as it comes: read again from its beginning with each it
/// would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_150_000_is_read() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().response_timeout(5000 * MS);
    let client = client(&server.url(), options).await;
    let permits = client.permits("n").expect("a good name");
    permits.try_set_permits(1).await.expect("answered");
    let held = "for id = 1, 150000 do redis.call('ZADD', KEYS[1], 9e12, string.format('%016x', id)) end";
    server.ok(&["EVAL", held, "1", HELD]);
    // Who asks beside it has an answer within its own bound too.
    let beside = client.lock(Kind::Plain, "beside").expect("a good name");
    let (listed, tried) = tokio::join!(permits.list(), beside.try_acquire());
    assert_eq!(listed.expect("answered").len(), 150_000);
    tried.expect("answered").expect("free").release().await.expect("held");
}

async fn support_client(server: &Server) -> Permits {
    permits(&server.url()).await
}

#[tokio::test]
async fn what_cannot_work_is_said_before_anything_is_sent() {
    let server = Server::start(&[]);
    let client = client(&server.url(), ClientOptions::default()).await;
    let permits = client.permits("n").expect("a good name");
    let before = client.stats().commands;
    let too_long = once().lease(Lease::Fixed(Duration::MAX));
    for (count, how) in [
        (0, once()),
        (4097, once()),
        (1, once().owner(Owner::numbered(1))),
        (1, once().token_life(MINUTE)),
        (1, once().lease(Lease::Fixed(Duration::ZERO))),
        (1, too_long),
    ] {
        let error = permits.acquire_many_with(count, how).await;
        assert_eq!(error.expect_err("refused").kind(), ErrorKind::Invalid);
    }
    let id = "0".repeat(32).parse().expect("an id");
    let error = permits.update_lease(id, Duration::ZERO).await;
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::Invalid);
    assert!(client.permits("").is_err());
    assert_eq!(client.stats().commands, before);
}

/// What is held stays held when there are to be fewer, and the number of free ones makes up for it.
#[tokio::test]
async fn the_number_changes_around_what_is_held() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 3).await;
    let held = permits.acquire_many_with(3, once()).await.expect("free");
    permits.set_permits(1).await.expect("answered");
    assert_eq!(permits.available().await.expect("answered"), -2);
    assert_eq!(permits.total().await.expect("answered"), 1);
    permits.add_permits(4).await.expect("answered");
    assert_eq!(permits.available().await.expect("answered"), 2);
    permits.add_permits(-2).await.expect("answered");
    held.release().await.expect("held");
    assert_eq!(counts(&server), are("3", "0"));
    // What was held of one that is gone is of no count for the next.
    let held = permits.acquire_many_with(2, once()).await.expect("free");
    server.ok(&["DEL", "n"]);
    assert!(permits.try_set_permits(5).await.expect("answered"));
    let error = held.release().await.expect_err("of another one");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(counts(&server), are("5", "0"));
}

/// The keys, ids, ends and messages of RPermitExpirableSemaphore; the server's clock instead of the client's.
#[tokio::test]
async fn the_wire_is_that_of_rpermitexpirablesemaphore() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 2).await;
    permits.acquire_with(once()).await.expect("free").release().await.expect("held");
    let mut monitor = Monitor::start(&server);
    let guard = permits.acquire_with(once()).await.expect("free");
    let all = monitor.until_echo(&server);
    let sent_now = sent(&all);
    assert_eq!(sent_now.len(), 1, "{all:?}");
    assert_eq!(sent_now[0][2..7], ["2", "n", HELD, "60000", "PUBLISH"]);
    assert_eq!(sent_now[0].last().expect("words"), CHANNEL);
    // Sixteen bytes there, their 32 hex digits here.
    let shown = server.ok(&[
        "EVAL",
        "local id = redis.call('zrange', KEYS[1], 0, 0)[1]\n\
         return (string.gsub(id, '.', function(c) return string.format('%02x', string.byte(c)) end))",
        "1",
        HELD,
    ]);
    assert_eq!(shown, guard.id().to_string());
    let ends = server.ok(&["ZRANGE", HELD, "0", "0", "WITHSCORES"]);
    let ends: i64 = ends.lines().last().expect("a score").parse().expect("ms");
    let now = server.ok(&["TIME"]);
    let now: i64 = now.lines().next().expect("seconds").parse().expect("s");
    let left = ends - now * 1000;
    assert!(left > 30_000 && left <= 61_000, "{left}");
    guard.release().await.expect("held");
    let all = monitor.until_echo(&server);
    let gives = sent(&all).into_iter().find(|words| words[0] == "EVALSHA");
    let gives = gives.expect("sent");
    assert_eq!(gives[2..6], ["2", "n", HELD, "PUBLISH"]);
    assert_eq!(gives.last().expect("words"), CHANNEL);
    let told = all.iter().any(|(inner, words)| {
        *inner && words[0].eq_ignore_ascii_case("publish") && words[1..] == [CHANNEL, "2"]
    });
    assert!(told, "{all:?}");
    // A semaphore that has an end gives it to its permits.
    server.ok(&["PEXPIRE", "n", "60000"]);
    let guard = permits.acquire_with(once()).await.expect("free");
    let left: i64 = server.ok(&["PTTL", HELD]).parse().expect("ms");
    assert!(left > 0);
    guard.release().await.expect("held");
    let left: i64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
    assert!(left > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lost_answer_takes_or_gives_twice() {
    for loss in [Loss::Reset, Loss::Silence] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let permits = permits(&relay.url()).await;
        let lose = || relay.lose("EVALSHA", loss);
        lose();
        let begun = permits.try_set_permits(5).await;
        assert!(begun.expect("asked again"), "{loss:?}: its own");
        lose();
        let two = permits.acquire_many_with(2, minute()).await;
        let two = two.expect("asked again");
        assert_eq!(counts(&server), are("3", "2"), "{loss:?}");
        // The repetition finds too few: those that the first time took.
        lose();
        let three = permits.acquire_many_with(3, minute()).await;
        let three = three.expect("asked again");
        assert_eq!(counts(&server), are("0", "5"), "{loss:?}");
        lose();
        three.extend(2 * MINUTE).await.expect("asked again");
        lose();
        two.release().await.expect("asked again");
        assert_eq!(counts(&server), are("2", "3"), "{loss:?}");
        let ids = three.leave();
        lose();
        let unknown = permits.release_held(&ids).await.expect("asked again");
        assert_eq!(unknown, [], "{loss:?}: its own");
        assert_eq!(counts(&server), are("5", "0"), "{loss:?}");
        lose();
        permits.add_permits(2).await.expect("asked again");
        lose();
        permits.set_permits(6).await.expect("asked again");
        assert_eq!(counts(&server), are("6", "0"), "{loss:?}");
        assert_eq!(relay.lost(), 8);
    }
}

/// A new id for each attempt would leave the first attempt's permit to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_try_that_is_lost_is_unknown_and_given_back() {
    for loss in [Loss::Reset, Loss::Silence, Loss::Stranded] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let permits = with(&relay.url(), 2).await;
        permits.acquire_with(once()).await.expect("free").leave();
        relay.lose("EVALSHA", loss);
        let error = permits.acquire_with(once()).await.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        if loss == Loss::Stranded {
            // It comes after its undo, which therefore is repeated.
            tokio::time::sleep(100 * MS).await;
            relay.heal();
            server.wait_for(&["INFO", "commandstats"], |stats| stats.contains("cmdstat_zadd:calls=2"));
        }
        server.wait_for(&["GET", "n"], |free| free == "1");
        assert_eq!(counts(&server), are("1", "1"), "{loss:?}");
    }
}

/// The permits of a holder that is gone come back with their lease, and those who wait are there at that
/// moment: no message tells them, and their poll bound is a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_permits_come_back_and_waiters_are_there() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 2).await;
    let short = once().lease(Lease::Fixed(300 * MS));
    permits.acquire_many_with(2, short).await.expect("free").leave();
    let waiting = patient(&server).await;
    let guard = waiting.acquire_many_with(2, minute()).await.expect("expired");
    assert_eq!(counts(&server), are("0", "2"));
    guard.release().await.expect("held");
    // Every call counts back what has expired.
    let short = once().lease(Lease::Fixed(50 * MS));
    permits.acquire_with(short).await.expect("free").leave();
    tokio::time::sleep(60 * MS).await;
    assert_eq!(permits.available().await.expect("answered"), 2);
    assert_eq!(counts(&server), are("2", "0"));
}

/// A permit whose lease is over is over, also before anybody has counted it back.
#[tokio::test]
async fn what_has_lapsed_is_not_revived() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 2).await;
    let guard = permits.acquire_with(once()).await.expect("free");
    // Its end is put into the past behind everybody's back.
    let id = guard.id();
    server.ok(&[
        "EVAL",
        "local id = redis.call('zrange', KEYS[1], 0, 0)[1]\nreturn redis.call('zadd', KEYS[1], 1, id)",
        "1",
        HELD,
    ]);
    let error = guard.extend(MINUTE).await.expect_err("lapsed");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert!(guard.is_lost());
    assert_eq!(counts(&server), are("1", "1"), "nobody has looked yet");
    assert!(!permits.update_lease(id, MINUTE).await.expect("answered"));
    assert_eq!(permits.release_held(&[id]).await.expect("answered"), [id]);
    let error = guard.release().await.expect_err("lapsed");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(counts(&server), are("2", "0"), "counted back once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_permits_outlive_their_lease_and_die_with_their_client() {
    let server = Server::start(&[]);
    let lease = 600 * MS;
    let options = ClientOptions::default().watchdog_lease(lease);
    let client = client(&server.url(), options).await;
    let permits = client.permits("n").expect("a good name");
    permits.try_set_permits(5).await.expect("answered");
    let renewed = || Acquire::default().wait(Wait::Try);
    // Several holds are renewed by one request, of one permit and of several.
    let one = permits.acquire_with(renewed()).await.expect("free");
    let three = permits.acquire_many_with(3, renewed()).await.expect("free");
    for guard in [&one, &three] {
        let mut events = guard.events();
        for _ in 0..3 {
            let event = tokio::time::timeout(PATIENCE, events.next()).await;
            let event = event.expect("an event");
            assert!(matches!(event, Some(GuardEvent::Extended { .. })), "{event:?}");
        }
    }
    assert_eq!(counts(&server), are("1", "4"));
    // Permits that were left are not renewed; the others are.
    let left = one.leave();
    server.wait_for(&["ZCARD", HELD], |_| {
        // A look counts back what has expired.
        server.ok(&["ZCOUNT", HELD, "-inf", &now_ms(&server)]) == "1"
    });
    assert_eq!(permits.release_held(&left).await.expect("answered"), left);
    assert!(!three.is_lost());
    client.close().await;
    let waiting = patient(&server).await;
    drop(waiting.acquire_many_with(5, minute()).await.expect("all expired"));
    let reason = tokio::time::timeout(PATIENCE, three.lost()).await;
    assert_eq!(reason.expect("told"), LostReason::NotRenewed);
}

fn now_ms(server: &Server) -> String {
    let now = server.ok(&["TIME"]);
    let mut parts = now.lines().map(|part| part.parse::<u64>().expect("a number"));
    let (s, us) = (parts.next().expect("s"), parts.next().expect("us"));
    (s * 1000 + us / 1000).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_when_its_permit_is_gone() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().watchdog_lease(600 * MS);
    let client = client(&server.url(), options).await;
    let permits = client.permits("n").expect("a good name");
    permits.try_set_permits(2).await.expect("answered");
    let how = || Acquire::default().wait(Wait::Try);
    let (one, other) =
        (permits.acquire_with(how()).await.expect("free"), permits.acquire_with(how()).await.expect("free"));
    permits.release(&[one.id()]).await.expect("answered");
    let reason = tokio::time::timeout(PATIENCE, one.lost()).await;
    assert_eq!(reason.expect("told"), LostReason::Missing);
    assert!(!other.is_lost());
    permits.delete().await.expect("answered");
    let reason = tokio::time::timeout(PATIENCE, other.lost()).await;
    assert_eq!(reason.expect("told"), LostReason::Missing);
}

/// A release by id wakes; so does what a Java peer does; so does a new subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_wake() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 1).await;
    for way in ["release", "peer", "subscription"] {
        let id = permits.acquire_with(once()).await.expect("free").leave()[0];
        let waiting = patient(&server).await;
        let waiter = tokio::spawn(async move { waiting.acquire_with(minute()).await });
        listened_to(&server).await;
        match way {
            "release" => {
                let unknown = permits.release_held(&[id]).await;
                assert_eq!(unknown.expect("answered"), []);
            }
            _ => {
                server.ok(&["DEL", HELD]);
                server.ok(&["INCR", "n"]);
                match way {
                    "peer" => server.ok(&["PUBLISH", CHANNEL, "1"]),
                    _ => server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]),
                };
            }
        }
        let guard = waiter.await.expect("no panic").expect("woken");
        guard.release().await.expect("held");
        server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with('0'));
    }
}

/// Every await of acquire, extend and release is a place where the caller may go away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_after_any_number_of_polls_keeps_the_count() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    relay.delay(2 * MS);
    let ours = with(&relay.url(), 3).await;
    let theirs = permits(&server.url()).await;
    for free_at_first in [true, false] {
        for polls in 0.. {
            let held = match free_at_first {
                true => None,
                false => Some(theirs.acquire_many_with(3, once()).await.expect("free")),
            };
            let gives = async {
                if let Some(held) = held {
                    tokio::time::sleep(8 * MS).await;
                    held.release().await.expect("held");
                }
            };
            let cycle = async {
                let how = Acquire::default().wait(Wait::AtMost(PATIENCE));
                let guard = ours.acquire_many_with(2, how).await.expect("its turn comes");
                guard.extend(MINUTE).await.expect("held");
                guard.release().await.expect("held");
            };
            let (done, ()) = tokio::join!(polled(cycle, polls), gives);
            // An acquire that was dropped may be on its way still, with its undo behind it.
            let until = Instant::now() + PATIENCE;
            while counts(&server) != are("3", "0") {
                assert!(Instant::now() < until, "{:?}", counts(&server));
                tokio::task::yield_now().await;
            }
            if done {
                assert!(polls > 2, "there was nothing to wait for");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_inside_than_permits() {
    const PERMITS: i64 = 4;
    let server = Server::start(&[]);
    let clients = [with(&server.url(), 4).await, permits(&server.url()).await];
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for task in 0..12 {
        let permits = clients[task % 2].clone();
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for round in 0..20 {
                let wanted = u32::try_from(1 + (task + round) % 3).expect("small");
                let guard = permits.acquire_many_with(wanted, minute()).await;
                let guard = guard.expect("its turn comes");
                let now = inside.fetch_add(wanted.into(), Ordering::SeqCst) + i64::from(wanted);
                assert!(now <= PERMITS, "{now} inside");
                tokio::time::sleep(MS).await;
                inside.fetch_sub(wanted.into(), Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(counts(&server), are("4", "0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_releases() {
    let server = Server::start(&[]);
    let permits = with(&server.url(), 4).await;
    let guard = permits.acquire_many_with(2, once()).await.expect("free");
    let ids = permits.acquire_with(once()).await.expect("free").leave();
    server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    guard.release().await.expect("taken all the same");
    assert_eq!(permits.release_held(&ids).await.expect("taken all the same"), []);
    assert_eq!(counts(&server), are("4", "0"));
}
