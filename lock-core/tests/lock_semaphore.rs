//! The promises of a semaphore: counts, ends, order, lost answers, lost messages, lost callers.

mod lock_support;
mod support;

use std::{
    io::Read,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{Client, ClientOptions, ErrorKind, LockError, Semaphore, Wait};
use lock_support::{Loss, Relay, polled, scripts_run};
use support::{
    PATIENCE, Server,
    monitor::{Monitor, sent},
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "redisson_sc:{n}";

async fn client(url: &str, options: ClientOptions) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

async fn semaphore(url: &str) -> Semaphore {
    let options = ClientOptions::default().response_timeout(300 * MS);
    let client = client(url, options).await;
    client.semaphore("n").expect("a good name")
}

/// One whose waiters look for no other reason than a message or a new subscription.
async fn patient(server: &Server) -> Semaphore {
    let options = ClientOptions::default().poll_bound(MINUTE);
    let client = client(&server.url(), options).await;
    client.semaphore("n").expect("a good name")
}

fn long() -> Wait {
    Wait::AtMost(PATIENCE)
}

/// Waits until so many clients listen, and the look that follows a subscription is through.
async fn listened_to(server: &Server, clients: usize) {
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with(&clients.to_string()));
    let looks = || scripts_run(server);
    let mut before = looks();
    loop {
        tokio::time::sleep(100 * MS).await;
        let now = looks();
        if now == before {
            return;
        }
        before = now;
    }
}

#[tokio::test]
async fn permits_are_counted_all_or_none() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    assert_eq!(semaphore.available().await.expect("answered"), 0);
    assert!(!semaphore.try_take(1).await.expect("answered"), "none yet");
    assert!(semaphore.try_set_permits(3, None).await.expect("answered"));
    assert!(!semaphore.try_set_permits(9, None).await.expect("answered"));
    assert!(!semaphore.try_take(4).await.expect("answered"));
    assert_eq!(semaphore.available().await.expect("answered"), 3);
    assert!(semaphore.try_take(2).await.expect("answered"));
    let error = semaphore.take_with(2, Wait::AtMost(30 * MS)).await;
    let error = error.expect_err("one is left");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("too few permits"), "{error}");
    semaphore.release(2).await.expect("answered");
    // A client may give more than was taken.
    semaphore.release(1).await.expect("answered");
    assert_eq!(semaphore.available().await.expect("answered"), 4);
    assert_eq!(semaphore.add_permits(-6).await.expect("answered"), -2);
    assert_eq!(semaphore.drain().await.expect("answered"), 0);
    assert_eq!(semaphore.add_permits(5).await.expect("answered"), 3);
    assert_eq!(semaphore.drain().await.expect("answered"), 3);
    assert_eq!(semaphore.available().await.expect("answered"), 0);
    assert!(semaphore.delete().await.expect("answered"));
    assert!(!semaphore.delete().await.expect("answered"));
}

#[tokio::test]
async fn none_at_all_is_no_question() {
    let server = Server::start(&[]);
    let client = client(&server.url(), ClientOptions::default()).await;
    let semaphore = client.semaphore("n").expect("a good name");
    let before = client.stats().commands;
    semaphore.take_with(0, Wait::Forever).await.expect("nothing");
    assert!(semaphore.try_take(0).await.expect("nothing"));
    semaphore.release(0).await.expect("nothing");
    assert_eq!(client.stats().commands, before);
    drop(semaphore.acquire(0).await.expect("nothing"));
    let none = semaphore.acquire_with(0, Wait::Try).await.expect("nothing");
    none.release().await.expect("nothing");
    assert_eq!(client.stats().commands, before);
}

/// Taking, giving, adding and draining leave the end of a semaphore where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_kept() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    let begun = semaphore.try_set_permits(5, Some(MINUTE)).await;
    assert!(begun.expect("answered"));
    semaphore.take_with(2, Wait::Try).await.expect("free");
    semaphore.release(1).await.expect("answered");
    semaphore.add_permits(3).await.expect("answered");
    semaphore.drain().await.expect("answered");
    semaphore.release(2).await.expect("answered");
    let left: i64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
    assert!(left > 30_000 && left <= 60_000, "{left}");
    let error = semaphore.try_set_permits(5, Some(Duration::ZERO)).await;
    assert_eq!(error.expect_err("no life").kind(), ErrorKind::Invalid);

    // Who gives back what was taken of one that has ended begins none.
    let guards = [semaphore.acquire_with(1, Wait::Try).await, semaphore.acquire_with(1, Wait::Try).await];
    let [released, dropped] = guards.map(|guard| guard.expect("free"));
    server.ok(&["DEL", "n"]);
    let said = scripts_run(&server);
    released.release().await.expect("answered");
    drop(dropped);
    server.wait_for(&["INFO", "commandstats"], |_| scripts_run(&server) >= said + 2);
    assert_eq!(server.ok(&["EXISTS", "n"]), "0", "begun without an end");
    let begun = semaphore.try_set_permits(5, Some(MINUTE)).await;
    assert!(begun.expect("answered"));
}

/// Replicas are asked for what the question itself has written: a repetition that wrote nothing would be
/// acknowledged by nobody.
#[tokio::test]
async fn a_repetition_is_a_write_too() {
    let server = Server::start(&[]);
    server.ok(&["SET", "n", "5"]);
    let take = include_str!("../scripts/acquire_semaphore.lua");
    let written = || {
        let info = server.ok(&["INFO", "persistence"]);
        let rest = info.split("rdb_changes_since_last_save:").nth(1);
        let number = rest.and_then(|rest| rest.lines().next());
        number.map(|number| number.trim().parse::<u64>().expect("a number"))
    };
    for _ in 0..2 {
        let before = written();
        server.ok(&["EVAL", take, "2", "n", "latch", "2", "60000", "9999999999999"]);
        assert!(written() > before);
        assert_eq!(server.ok(&["GET", "n"]), "3", "taken once");
    }
}

/// The keys, arguments and messages of RSemaphore, and a latch for each request beside them.
#[tokio::test]
async fn the_wire_is_that_of_rsemaphore() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    // The first cycle loads the scripts.
    semaphore.try_set_permits(1, None).await.expect("answered");
    semaphore.take_with(1, Wait::Try).await.expect("free");
    semaphore.release(1).await.expect("answered");
    server.ok(&["FLUSHALL"]);
    let mut monitor = Monitor::start(&server);
    semaphore.try_set_permits(7, None).await.expect("answered");
    semaphore.take_with(2, Wait::Try).await.expect("free");
    semaphore.release(2).await.expect("answered");
    let all = monitor.until_echo(&server);
    let mut sent = sent(&all);
    // Records of what was answered go with what follows.
    sent.retain(|words| words[0] != "UNLINK");
    assert_eq!(sent.len(), 3, "{all:?}");
    let latch = |word: &String, prefix: &str| {
        let id = word.strip_prefix(prefix).unwrap_or_default();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{word}");
    };
    assert_eq!(sent[0][2..4], ["2", "n"]);
    latch(&sent[0][4], "locklab_answer_latch:{n}:");
    assert_eq!(sent[0][5..], ["7", "PUBLISH", CHANNEL, "3600000"]);
    assert_eq!(sent[1][2..4], ["2", "n"]);
    latch(&sent[1][4], "redisson_acquire_latch:{n}:");
    assert_eq!(sent[1][5..7], ["2", "3600000"]);
    // By the server's clock: soon after the caller gives up.
    let not_after: u64 = sent[1][7].parse().expect("ms");
    let now = server.ok(&["TIME"]);
    let now: u64 = now.lines().next().and_then(|s| s.parse().ok()).expect("s");
    let left = (not_after / 1000).saturating_sub(now);
    assert!((1..20).contains(&left), "{left}");
    assert_eq!(sent[2][2..4], ["2", "n"]);
    latch(&sent[2][4], "locklab_answer_latch:{n}:");
    assert_eq!(sent[2][5..], ["2", "PUBLISH", CHANNEL, "3600000"]);
    let told: Vec<_> = all
        .iter()
        .filter(|(inner, words)| *inner && words[0].eq_ignore_ascii_case("publish"))
        .map(|(_, words)| words[1..].join(" "))
        .collect();
    assert_eq!(told, [format!("{CHANNEL} 7"), format!("{CHANNEL} 7")]);
    assert_eq!(server.ok(&["GET", "n"]), "7");
}

/// Of a request whose answer is lost, whatever it is, the server does not do more than was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lost_answer_takes_or_gives_twice() {
    for loss in [Loss::Reset, Loss::Silence] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let semaphore = semaphore(&relay.url()).await;
        relay.lose("EVALSHA", loss);
        let begun = semaphore.try_set_permits(5, None).await;
        assert!(begun.expect("asked again"), "{loss:?}: its own");
        let free = || server.ok(&["GET", "n"]);
        relay.lose("EVALSHA", loss);
        semaphore.take_with(2, long()).await.expect("asked again");
        assert_eq!(free(), "3", "{loss:?}");
        // The repetition finds too few: those that the first time took.
        relay.lose("EVALSHA", loss);
        semaphore.take_with(3, long()).await.expect("asked again");
        assert_eq!(free(), "0", "{loss:?}");
        relay.lose("EVALSHA", loss);
        semaphore.release(4).await.expect("asked again");
        assert_eq!(free(), "4", "{loss:?}");
        relay.lose("EVALSHA", loss);
        assert_eq!(semaphore.add_permits(2).await.expect("asked again"), 6);
        relay.lose("EVALSHA", loss);
        assert_eq!(semaphore.drain().await.expect("asked again"), 6);
        assert_eq!(free(), "0", "{loss:?}");
        assert_eq!(relay.lost(), 6);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_try_that_is_lost_is_unknown_and_given_back() {
    for loss in [Loss::Reset, Loss::Silence, Loss::Stranded] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let semaphore = semaphore(&relay.url()).await;
        semaphore.try_set_permits(5, None).await.expect("answered");
        assert!(semaphore.try_take(1).await.expect("answered"));
        relay.lose("EVALSHA", loss);
        let error = semaphore.try_take(2).await.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        if loss == Loss::Stranded {
            // Undone before it came: then it must not take anything when it comes.
            server.wait_for(&["KEYS", "redisson_acquire_latch*"], |latches| latches.lines().count() == 2);
            relay.heal();
            tokio::time::sleep(100 * MS).await;
        }
        server.wait_for(&["GET", "n"], |free| free == "4");
    }
}

/// Five wait for one each; one message lets all five in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_several_wakes_as_many() {
    let server = Server::start(&[]);
    let ours = patient(&server).await;
    let theirs = patient(&server).await;
    ours.try_set_permits(0, None).await.expect("answered");
    let mut waiters = Vec::new();
    for number in 0..5 {
        let semaphore = if number % 2 == 0 { &ours } else { &theirs }.clone();
        waiters.push(tokio::spawn(async move {
            semaphore.take_with(1, long()).await.expect("its turn comes");
        }));
    }
    listened_to(&server, 2).await;
    // As a Java peer gives them: nobody knows who listens.
    server.ok(&["INCRBY", "n", "5"]);
    server.ok(&["PUBLISH", CHANNEL, "5"]);
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    assert_eq!(server.ok(&["GET", "n"]), "0");
}

/// The reference parks for ever when the message is lost with the subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_subscription_makes_the_waiters_look() {
    let server = Server::start(&[]);
    let semaphore = patient(&server).await;
    semaphore.try_set_permits(0, None).await.expect("answered");
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let semaphore = semaphore.clone();
        waiters.push(tokio::spawn(async move {
            semaphore.take_with(1, long()).await.expect("it looks");
        }));
    }
    listened_to(&server, 1).await;
    server.ok(&["INCRBY", "n", "3"]);
    server.ok(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
}

/// Without any message and any loss, the poll bound is what a waiter waits at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_message_a_waiter_looks_at_the_poll_bound() {
    let server = Server::start(&[]);
    let options = ClientOptions::default().poll_bound(200 * MS);
    let client = client(&server.url(), options).await;
    let semaphore = client.semaphore("n").expect("a good name");
    let waiter = tokio::spawn(async move { semaphore.take_with(1, long()).await });
    listened_to_once(&server).await;
    server.ok(&["SET", "n", "1"]);
    waiter.await.expect("no panic").expect("it looks");
}

async fn listened_to_once(server: &Server) {
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with('1'));
}

/// One who wants three stands before many who want one: those do not overtake, and when it gives up they are
/// let in at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_at_once_are_not_starved_by_ones() {
    let server = Server::start(&[]);
    let semaphore = patient(&server).await;
    semaphore.try_set_permits(2, None).await.expect("answered");
    let many = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.take_with(3, long()).await.expect("its turn comes") }
    });
    listened_to(&server, 1).await;
    let entered = Arc::new(AtomicI64::new(0));
    let mut ones = Vec::new();
    for _ in 0..4 {
        let (semaphore, entered) = (semaphore.clone(), Arc::clone(&entered));
        ones.push(tokio::spawn(async move {
            semaphore.take_with(1, long()).await.expect("its turn comes");
            entered.fetch_add(1, Ordering::SeqCst);
        }));
    }
    tokio::time::sleep(50 * MS).await;
    assert_eq!(entered.load(Ordering::SeqCst), 0, "overtaken");
    assert_eq!(server.ok(&["GET", "n"]), "2");
    // A try does not stand in the line, so it takes what is free.
    assert!(semaphore.try_take(1).await.expect("answered"));
    semaphore.release(2).await.expect("answered");
    many.await.expect("no panic");
    semaphore.release(4).await.expect("answered");
    for one in ones {
        one.await.expect("no panic");
    }
    // And the other way round: the first gives up, and nobody says a word.
    let semaphore = patient(&server).await;
    server.ok(&["SET", "n", "2"]);
    let gives_up = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.take_with(3, Wait::AtMost(300 * MS)).await }
    });
    listened_to_once(&server).await;
    semaphore.take_with(2, long()).await.expect("let in at once");
    let error = gives_up.await.expect("no panic").expect_err("too few");
    assert_eq!(error.kind(), ErrorKind::Busy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_gives_back_once_and_only_where_it_was_asked_for() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    semaphore.try_set_permits(4, None).await.expect("answered");
    let free = |count: &'static str| server.wait_for(&["GET", "n"], |free| free == count);
    semaphore.take_with(1, Wait::Try).await.expect("free");
    free("3");
    let guard = semaphore.acquire_with(2, Wait::Try).await;
    let guard = guard.expect("free");
    assert_eq!(guard.permits(), 2);
    free("1");
    drop(guard);
    free("3");
    let guard = semaphore.acquire_with(2, Wait::Try).await;
    guard.expect("free").release().await.expect("answered");
    free("3");
    let guard = semaphore.acquire_with(2, Wait::Try).await;
    guard.expect("free").leave();
    tokio::time::sleep(50 * MS).await;
    free("1");
}

/// Every await of acquire and release is a place where the caller may go away: no permit goes with it and
/// none is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_after_any_number_of_polls_keeps_the_count() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    relay.delay(2 * MS);
    let ours = semaphore(&relay.url()).await;
    let theirs = semaphore(&server.url()).await;
    ours.try_set_permits(3, None).await.expect("answered");
    for free_at_first in [true, false] {
        for polls in 0.. {
            if !free_at_first {
                theirs.take_with(3, Wait::Try).await.expect("free");
            }
            let gives = async {
                if !free_at_first {
                    tokio::time::sleep(8 * MS).await;
                    theirs.release(3).await.expect("answered");
                }
            };
            let takes = polled(ours.acquire_with(2, long()), polls);
            let (done, ()) = tokio::join!(takes, gives);
            server.wait_for(&["GET", "n"], |free| free == "3");
            if done {
                assert!(polls > 2, "there was nothing to wait for");
                break;
            }
        }
    }
    // A release that nobody waits for is done in the background, once, if it was begun.
    let mut there = 3;
    for polls in 1.. {
        let done = polled(ours.release(1), polls).await;
        there += 1;
        server.wait_for(&["GET", "n"], |free| free == there.to_string());
        if done {
            break;
        }
    }
    tokio::time::sleep(50 * MS).await;
    assert_eq!(server.ok(&["GET", "n"]), there.to_string());
}

/// Many tasks of several clients take and give; never are more inside than there are permits, and all come
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_inside_than_permits() {
    const PERMITS: i64 = 4;
    let server = Server::start(&[]);
    let clients = [semaphore(&server.url()).await, semaphore(&server.url()).await];
    let begun = clients[0].try_set_permits(4, None).await;
    assert!(begun.expect("answered"));
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for task in 0..12 {
        let semaphore = clients[task % 2].clone();
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for round in 0..20 {
                let wanted = 1 + (task + round) % 3;
                let wanted = u32::try_from(wanted).expect("small");
                let guard = semaphore.acquire_with(wanted, long()).await;
                let guard = guard.expect("its turn comes");
                let now = inside.fetch_add(wanted.into(), Ordering::SeqCst) + i64::from(wanted);
                assert!(now <= PERMITS, "{now} inside");
                tokio::time::sleep(MS).await;
                inside.fetch_sub(wanted.into(), Ordering::SeqCst);
                guard.release().await.expect("answered");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(server.ok(&["GET", "n"]), "4");
}

/// A server without memory takes releases, and says at once that it grants nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_takes_releases() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    semaphore.try_set_permits(5, None).await.expect("answered");
    semaphore.take_with(3, Wait::Try).await.expect("free");
    server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    semaphore.release(2).await.expect("taken all the same");
    assert_eq!(server.ok(&["GET", "n"]), "4");
    let error = semaphore.take_with(1, long()).await.expect_err("no memory");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
    assert_eq!(server.ok(&["GET", "n"]), "4");
}

/// A busy semaphore does not keep a latch for each request of the last minute, also in a minute without lost
/// answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latches_do_not_pile_up() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    semaphore.try_set_permits(1, None).await.expect("answered");
    for _ in 0..200 {
        semaphore.take_with(1, Wait::Try).await.expect("free");
        semaphore.release(1).await.expect("answered");
    }
    // Of 401 those of the last requests, and of what was deleted meanwhile in the background.
    server.wait_for(&["KEYS", "*latch*"], |latches| latches.lines().count() < 64);
    for latch in server.ok(&["KEYS", "*latch*"]).lines() {
        assert_ne!(server.ok(&["PTTL", latch]), "-1", "{latch} stays for ever");
    }
    assert_eq!(server.ok(&["GET", "n"]), "1");
}

/// A semaphore of five behind a relay, the scripts known to the server.
async fn five_behind_a_relay(server: &Server) -> (Relay, Semaphore) {
    let relay = Relay::start(server.address()).await;
    let target = relay.url().parse().expect("a good URL");
    let options = ClientOptions::default().response_timeout(200 * MS);
    let client = Client::connect(&target, options).await.expect("it answers");
    let semaphore = client.semaphore("n").expect("a good name");
    let begun = semaphore.try_set_permits(5, None).await;
    assert!(begun.expect("answered"));
    let warm = semaphore.acquire_with(1, Wait::Try).await.expect("free");
    warm.release().await.expect("answered");
    (relay, semaphore)
}

/// A take that the network keeps until nobody remembers that it was undone. Deleting what remembers it stands
/// for the end of its life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_comes_when_its_undo_is_forgotten_takes_nothing() {
    let server = Server::start(&[]);
    let (relay, semaphore) = five_behind_a_relay(&server).await;
    for latch in server.ok(&["KEYS", "*latch*"]).lines() {
        server.ok(&["DEL", latch]);
    }
    relay.lose("EVALSHA", Loss::Stranded);
    let asking = tokio::spawn(async move { semaphore.take_with(2, Wait::Try).await });
    let error = asking.await.expect("no panic").expect_err("kept");
    assert!(!error.is_definite(), "{error}");
    let undone = server.wait_for(&["KEYS", "redisson_acquire_latch*"], |keys| !keys.is_empty());
    assert_eq!(server.ok(&["GET", &undone]), "0", "it is kept out for a while");
    server.ok(&["DEL", &undone]);
    let given_up = server.ok(&["TIME"]);
    let s = |time: &str| time.lines().next().and_then(|s| s.parse::<u64>().ok()).expect("s");
    let late = s(&given_up) + 7;
    while s(&server.ok(&["TIME"])) < late {
        tokio::time::sleep(100 * MS).await;
    }
    let before = scripts_run(&server);
    relay.heal();
    let until = Instant::now() + PATIENCE;
    while scripts_run(&server) == before {
        assert!(Instant::now() < until, "it never comes");
        tokio::time::sleep(5 * MS).await;
    }
    assert_eq!(server.ok(&["GET", "n"]), "5", "taken for ever");
}

/// Nobody can be reached for longer than a minute, and then what was taken is given back. Shortening what
/// remembers it by a minute stands for the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_behind_a_long_partition_is_given_back() {
    let server = Server::start(&[]);
    let (relay, semaphore) = five_behind_a_relay(&server).await;
    for latch in server.ok(&["KEYS", "*latch*"]).lines() {
        server.ok(&["DEL", latch]);
    }
    relay.lose("EVALSHA", Loss::Late(PATIENCE));
    let asking = tokio::spawn(async move { semaphore.take_with(2, Wait::Try).await });
    server.wait_for(&["GET", "n"], |free| free == "3");
    relay.black_hole();
    let error = asking.await.expect("no panic").expect_err("no answer");
    assert!(!error.is_definite(), "{error}");
    let taken = server.ok(&["KEYS", "redisson_acquire_latch*"]);
    let left: i64 = server.ok(&["PTTL", &taken]).parse().expect("ms");
    server.ok(&["PEXPIRE", &taken, &(left - 61_000).to_string()]);
    relay.heal();
    server.wait_for(&["GET", "n"], |free| free == "5");
}

/// Each acquire whose answer is lost leaves an undo. In a long outage they do not pile up: from a thousand on
/// nothing more is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undos_do_not_pile_up_in_an_outage() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    assert!(semaphore.try_set_permits(5, None).await.expect("answered"));
    let frozen = server.freeze();
    let many = || async {
        let tries = (0..1_100).map(|_| semaphore.try_take(1));
        let mut kinds = Vec::new();
        for tried in futures_util::future::join_all(tries).await {
            kinds.push(tried.expect_err("nobody answers"));
        }
        kinds
    };
    let unknown = |error: &LockError| error.kind() == ErrorKind::Unknown;
    assert!(many().await.iter().all(unknown));
    for error in many().await {
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert!(error.to_string().contains("still to be given back"), "{error}");
    }
    drop(frozen);
    server.wait_for(&["GET", "n"], |free| free == "5");
    assert!(semaphore.acquire_timeout(1, PATIENCE).await.is_ok());
}

/// What was answered needs no record: nothing stays for an hour, whether a guard was dropped or released, and
/// though nothing more is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_answered_requests_end_while_the_client_is_idle() {
    let server = Server::start(&[]);
    let semaphore = semaphore(&server.url()).await;
    semaphore.try_set_permits(1, None).await.expect("answered");
    for round in 0..10 {
        let guard = semaphore.acquire(1).await.expect("free");
        match round % 2 {
            0 => drop(guard),
            _ => guard.release().await.expect("held"),
        }
    }
    server.wait_for(&["KEYS", "*"], |keys| keys == "n");
    assert_eq!(server.ok(&["GET", "n"]), "1");
}

const HELPER: &str = "cycles_until_it_is_killed";

/// The tasks of the process below.
const TASKS: usize = 4;

/// The program of the process that the test below kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by another test"]
async fn cycles_until_it_is_killed() {
    let client =
        client(&std::env::var("CYCLE_AT").expect("the server's URL"), ClientOptions::default()).await;
    let semaphore = client.semaphore("n").expect("a good name");
    for _ in 0..TASKS {
        let (semaphore, latch) = (semaphore.clone(), client.latch("latch").expect("a good name"));
        tokio::spawn(async move {
            loop {
                let guard = semaphore.acquire(1).await.expect("free");
                latch.count_down().await.expect("answered");
                guard.release().await.expect("held");
            }
        });
    }
    // Standard input ends with the parent, if the parent does not kill this process before.
    let ends = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    ends.await.expect("no panic").expect("a pipe");
}

/// What was answered is gone with the next request: a busy client that is killed leaves the records of each
/// task's last request, of which nobody can know whether the answer came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_killed_leaves_the_records_of_its_last_requests() {
    let server = Server::start(&[]);
    server.ok(&["SET", "n", "4"]);
    server.ok(&["SET", "latch", "1000000"]);
    let mut cycling = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", HELPER])
        .env("CYCLE_AT", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program again");
    server.wait_for(&["GET", "latch"], |left| left.parse::<u32>().is_ok_and(|left| left < 999_500));
    cycling.kill().expect("SIGKILL");
    cycling.wait().expect("it is dead");
    // What had left may be running yet.
    server.wait_for(&["CLIENT", "LIST"], |clients| clients.lines().count() == 1);
    let records = server.ok(&["KEYS", "*latch:*"]);
    let long = records.split_whitespace().filter(|record| {
        let left: i64 = server.ok(&["PTTL", record]).parse().expect("ms");
        assert!(left <= 3_600_000 && left != -1, "{record} stays for {left} ms");
        left > 60_000
    });
    let long: Vec<_> = long.collect();
    assert!(long.len() <= TASKS, "{long:?}");
}
