//! The promises of the kinds with a line at the server: order, few commands, and waiters that are gone.

mod lock_support;
mod support;

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lock_core::{
    Client, ClientOptions, ErrorKind, Guard, GuardEvent, Kind, Lease, Lock, LockError, Owner, Wait,
    diagnostics::Tracer,
};
use lock_support::{
    Loss, Relay,
    lines::{MINUTE, MS, client, listen, lock, minute, wait_for, wait_with, waits},
    shapes::only_latches_and_tokens_stay,
};
use support::{PATIENCE, Server};
use tokio::task::JoinHandle;

const KINDS: [Kind; 2] = [Kind::Queued, Kind::Fair];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_several_clients_get_it_in_the_order_of_their_arrival() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let mut locks = Vec::new();
        for _ in 0..3 {
            locks.push(lock(&server, kind).await);
        }
        let first = locks[0].acquire_with(minute()).await.expect("free");
        let order = Arc::new(Mutex::new(Vec::new()));
        // When a client says who came, it takes so long at most until the server hears it.
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let mut waiters = Vec::new();
        let mut came = Vec::new();
        for i in 0..12 {
            let (order, slowest) = (Arc::clone(&order), Arc::clone(&longest));
            came.push(Instant::now());
            let acquire = wait_for(&locks[i % 3]);
            waiters.push(tokio::spawn(async move {
                let guard = acquire.await.expect("no panic").expect("its turn comes");
                order.lock().expect("unpoisoned").push((i, guard.token()));
                let asked = Instant::now();
                guard.release().await.expect("held");
                let mut slowest = slowest.lock().expect("unpoisoned");
                *slowest = (*slowest).max(asked.elapsed());
            }));
            let places = match kind {
                Kind::Fair => i + 1,
                _ => (i + 1).min(3),
            };
            waits(&server, kind, places);
            let took = {
                let mut longest = longest.lock().expect("unpoisoned");
                *longest = (*longest).max(came[i].elapsed());
                *longest
            };
            // The next one comes later by more than what the clients can be mistaken by.
            tokio::time::sleep(took * 2).await;
        }
        first.release().await.expect("held");
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        let order = order.lock().expect("unpoisoned").clone();
        assert!(order.is_sorted_by_key(|(_, token)| *token), "{kind}: {order:?}");
        let longest = *longest.lock().expect("unpoisoned");
        for (at, (i, _)) in order.iter().enumerate() {
            for (later, _) in &order[at + 1..] {
                let overtaken = came[*later] + longest < came[*i];
                assert!(!overtaken, "{kind}: {i} before {later} in {order:?}");
                assert!(i % 3 != later % 3 || i < later, "{kind}: {order:?}");
            }
        }
        only_latches_and_tokens_stay(&server);
    }
}

/// Every newcomer speaks for itself. If that stood for the beat of those who wait, there would be none while
/// others keep coming, and who waits for longer than a place lasts would lose its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newcomers_do_not_put_off_the_beat_of_those_who_wait() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let beats = Arc::new(AtomicU32::new(0));
        let tracer = Tracer::new({
            let beats = Arc::clone(&beats);
            move |event| {
                let is_beat = event.script.is_some_and(|name| name.starts_with("heartbeat"));
                beats.fetch_add(u32::from(is_beat), Ordering::SeqCst);
            }
        });
        let target = server.url().parse().expect("a good URL");
        let options = ClientOptions::default().tracer(tracer);
        let ours = Client::connect(&target, options).await.expect("it answers");
        let ours = ours.lock(kind, "q").expect("a good name");
        let held = lock(&server, kind).await.acquire_with(minute()).await;
        let first = wait_for(&ours);
        waits(&server, kind, 1);
        let until = Instant::now() + PATIENCE;
        // One comes with the subscription, the others with time.
        while beats.load(Ordering::SeqCst) < 3 {
            assert!(Instant::now() < until, "{kind}: no beat");
            let how = minute().wait(Wait::AtMost(50 * MS));
            ours.acquire_with(how).await.expect_err("others are first");
        }
        held.expect("free").release().await.expect("held");
        let guard = first.await.expect("no panic").expect("its turn comes");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_in_a_line_costs_one_command_and_where_the_called_one_asks_three() {
    const CYCLES: u64 = 200;
    for (kind, each) in [(Kind::Queued, 1), (Kind::Fair, 3)] {
        let server = Server::start(&[]);
        let client = client(&server.url()).await;
        let lock = client.lock(kind, "q").expect("a good name");
        let work = || async {
            for _ in 0..CYCLES / 20 {
                let guard = lock.acquire_with(minute()).await.expect("its turn comes");
                tokio::time::sleep(MS).await;
                guard.release().await.expect("held");
            }
        };
        // Loads the scripts and subscribes.
        futures_util::future::join_all((0..2).map(|_| work())).await;
        let started = Instant::now();
        let before = client.stats().commands;
        futures_util::future::join_all((0..20).map(|_| work())).await;
        let commands = client.stats().commands - before;
        // The beats that time brings, and the PINGs of quiet connections; and on a machine that stands still
        // for half a second a lease is claimed by a command of its own, or a place asked for again.
        let apart = 4 + 4 * started.elapsed().as_secs() + CYCLES / 5;
        let most = each * CYCLES + apart;
        assert!(commands <= most, "{kind}: {commands} commands for {CYCLES} cycles");
    }
}

/// Until when the only waiter of a client counts as waiting, in ms of the server's clock, if it has a place.
fn place_until(server: &Server, kind: Kind, client: &str) -> Option<u64> {
    let entry = match kind {
        Kind::Fair => {
            let deadlines = "redisson_lock_timeout:{q}";
            let places = server.ok(&["ZRANGE", deadlines, "0", "-1", "WITHSCORES"]);
            let mut words = places.lines();
            words.find(|word| word.starts_with(client))?;
            words.next()?.to_owned()
        }
        _ => server.ok(&["HGET", "locklab_queue:{q}", client]),
    };
    entry.split(' ').next()?.parse().ok()
}

/// Waits until a client that waits has said so once more, and says until when it counts.
fn beaten(server: &Server, kind: Kind, client: &str, before: Option<u64>) -> Option<u64> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = place_until(server, kind, client);
        if now.is_some() && now != before {
            return now;
        }
        assert!(Instant::now() < until, "{kind}: no beat");
        std::thread::sleep(10 * MS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connections_are_gone_is_passed_over() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let holder = lock(&server, kind).await;
        let dead = client(&relay.url()).await;
        let cut_off = dead.lock(kind, "q").expect("a good name");
        let next = lock(&server, kind).await;
        let guard = holder.acquire_with(minute()).await.expect("free");
        let silent = wait_for(&cut_off);
        waits(&server, kind, 1);
        listen(&server, kind, 1);
        if kind == Kind::Queued {
            // From now on the server expects it to hear.
            let place = ["HGET", "locklab_queue:{q}", dead.id()];
            server.wait_for(&place, |entry| entry.split(' ').nth(1) == Some("1"));
        }
        let waiter = wait_for(&next);
        waits(&server, kind, 2);
        listen(&server, kind, 2);
        // Nothing gets through any more, and the server loses the connections, as when a machine dies.
        relay.black_hole();
        server.ok(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
        listen(&server, kind, 1);
        let dead_until = place_until(&server, kind, dead.id()).expect("it has its place still");
        let released_at = Peer(&server).now_ms();
        guard.release().await.expect("held");
        if kind == Kind::Queued {
            assert_eq!(server.ok(&["HLEN", "q"]), "1", "not at once");
        }
        let guard = waiter.await.expect("no panic").expect("its turn");
        let took = Peer(&server).now_ms() - released_at;
        if kind == Kind::Fair {
            let by_deadline = dead_until - released_at;
            assert!(took < by_deadline / 4, "{took} ms of {by_deadline}");
        } else {
            let holder = server.ok(&["HKEYS", "q"]);
            assert!(guard.owner().starts_with(&holder[..36]), "{holder}");
        }
        let before = place_until(&server, kind, dead.id());
        relay.heal();
        // The next beat is not before the last one's answer: what was said before the second of these it has
        // heard.
        let mut last = before;
        for _ in 0..3 {
            last = beaten(&server, kind, dead.id(), last);
        }
        listen(&server, kind, 2);
        assert!(!silent.is_finished(), "{kind}: two at once");
        let holder = server.ok(&["HKEYS", "q"]);
        assert!(guard.owner().starts_with(&holder[..36]), "{kind}: {holder}");
        guard.release().await.expect("held");
        let guard = silent.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_heard_is_made_up_for() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, kind).await, lock(&server, kind).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, kind, 1);
        listen(&server, kind, 1);
        server.ok(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
}

/// A user who may not ask how many listen: everybody who lives counts as one who does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_lock_whose_user_may_not_count_listeners_is_handed_on_in_order() {
    let server = Server::start(&[]);
    let app = ["app", "on", ">secret", "~*", "&*", "+@all", "-pubsub"];
    server.ok(&[&["ACL", "SETUSER"][..], &app].concat());
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port);
    let lock = async || {
        let client = client(&url).await;
        client.lock(Kind::Queued, "q").expect("a good name")
    };
    let mut guard = lock().await.acquire_with(minute()).await.expect("free");
    let mut waiting = Vec::new();
    for places in 1..=3 {
        waiting.push(wait_for(&lock().await));
        waits(&server, Kind::Queued, places);
    }
    listen(&server, Kind::Queued, 3);
    for next in waiting {
        let token = guard.token();
        guard.release().await.expect("held");
        guard = next.await.expect("no panic").expect("its turn");
        assert_eq!(guard.token(), token.map(|token| token + 1));
    }
    guard.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

/// However many tasks of a client wait, they hear by the connections and the subscription that one of them
/// needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_of_one_client_need_no_connection_more_than_one() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, kind).await, lock(&server, kind).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        let mut waiting = vec![wait_for(&waiter)];
        waits(&server, kind, 1);
        listen(&server, kind, 1);
        let connections = || server.ok(&["CLIENT", "LIST"]).lines().count();
        let of_one = connections();
        waiting.extend((1..1000).map(|_| wait_for(&waiter)));
        // Of a queued lock a client has one place for all.
        waits(&server, kind, if kind == Kind::Fair { 1000 } else { 1 });
        listen(&server, kind, 1);
        assert_eq!(connections(), of_one, "{kind}");
        for waiting in &waiting {
            waiting.abort();
        }
        waits(&server, kind, 0);
        guard.release().await.expect("held");
    }
}

/// Who lives and is cut off at the moment is passed over, and keeps its rank, also where nobody is left
/// besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_waiter_that_does_not_hear_for_a_moment_keeps_its_rank() {
    const RANKS: &str = "locklab_queue_order:{q}";
    for somebody_else in [true, false] {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, Kind::Queued).await, lock(&server, Kind::Queued).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        let now_us = Peer(&server).now_ms() * 1000;
        // Alive for ever, and nobody listens on their channels; more than Lua hands to one call.
        const DEAF: &str = "
            for i = 1, 5000 do
                redis.call('hset', KEYS[1], 'deaf' .. i, '9999999999999 1 60000 deaf' .. i .. ':1')
                redis.call('zadd', KEYS[2], ARGV[1] - i, 'deaf' .. i)
            end";
        let came = now_us.to_string();
        server.ok(&["EVAL", DEAF, "2", "locklab_queue:{q}", RANKS, &came]);
        let before = server.ok(&["ZRANGE", RANKS, "0", "-1", "WITHSCORES"]);
        let waiting = somebody_else.then(|| wait_for(&waiter));
        if somebody_else {
            waits(&server, Kind::Queued, 5001);
            listen(&server, Kind::Queued, 1);
        }
        guard.release().await.expect("held");
        if let Some(waiting) = waiting {
            let guard = waiting.await.expect("no panic").expect("its turn");
            guard.release().await.expect("held");
        }
        assert_eq!(server.ok(&["EXISTS", "q"]), "0");
        let after = server.ok(&["ZRANGE", RANKS, "0", "-1", "WITHSCORES"]);
        assert_eq!(after, before);
        for key in [RANKS, "locklab_queue:{q}"] {
            let left: i64 = server.ok(&["PTTL", key]).parse().expect("a number");
            assert!(left > 0, "{key} stays for ever: {left}");
        }
    }
}

/// A server that is full may throw one key of a queued line away and keep the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_place_or_rank_is_evicted_asks_again() {
    for evicted in ["locklab_queue_order:{q}", "locklab_queue:{q}"] {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, Kind::Queued).await, lock(&server, Kind::Queued).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, Kind::Queued, 1);
        listen(&server, Kind::Queued, 1);
        server.ok(&["DEL", evicted]);
        server.wait_for(&["EXISTS", evicted], |there| there == "1");
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
        only_latches_and_tokens_stay(&server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_blocks_nobody_and_leaves_nothing() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let lock = lock(&server, kind).await;
        let guard = lock.acquire_with(minute()).await.expect("free");
        let gone = lock.acquire_with(minute().wait(Wait::AtMost(50 * MS))).await;
        assert_eq!(gone.expect_err("held").kind(), ErrorKind::Busy);
        waits(&server, kind, 0);
        let waiter = wait_for(&lock);
        waits(&server, kind, 1);
        waiter.abort();
        waits(&server, kind, 0);
        guard.release().await.expect("held");
        let again = lock.acquire_with(minute().wait(Wait::Try)).await.expect("free");
        again.release().await.expect("held");
        only_latches_and_tokens_stay(&server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_does_not_overtake() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, waiter) = (lock(&server, kind).await, lock(&server, kind).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, kind, 1);
        let tries = tokio::spawn(async move {
            let mut got = 0;
            while got == 0 {
                match holder.acquire_with(minute().wait(Wait::Try)).await {
                    Ok(guard) => {
                        got += 1;
                        guard.release().await.expect("held");
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
                }
            }
        });
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        assert!(!tries.is_finished(), "{kind}: overtaken");
        guard.release().await.expect("held");
        tries.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_hold_that_was_called_claims_its_whole_lease() {
    let server = Server::start(&[]);
    let (holder, waiter) = (lock(&server, Kind::Queued).await, lock(&server, Kind::Queued).await);
    let guard = holder.acquire_with(minute()).await.expect("free");
    assert_eq!(guard.granted_lease(), MINUTE);
    let waiting = wait_for(&waiter);
    waits(&server, Kind::Queued, 1);
    guard.release().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    assert!(guard.granted_lease() < MINUTE);
    let mut events = guard.events();
    server.wait_for(&["PTTL", "q"], |left| left.parse::<i64>().is_ok_and(|left| left > 30_000));
    assert!(matches!(events.next().await, Some(GuardEvent::Extended { .. })));
    assert!(guard.valid_until() > Instant::now() + MINUTE / 2);
    guard.release().await.expect("held");
}

/// It was given for 2 s: what is asked again because one answer is late must be asked before those are over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_is_late_is_made_again_in_time() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let holder = lock(&server, Kind::Queued).await;
    let target = relay.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let waiter = client.expect("it answers").lock(Kind::Queued, "q");
    let waiter = waiter.expect("a good name");
    for _ in 0..3 {
        let guard = holder.acquire().await.expect("free");
        let waiting = wait_for(&waiter);
        waits(&server, Kind::Queued, 1);
        guard.release().await.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        let granted = guard.granted_lease();
        assert!(granted < MINUTE);
        // The claim comes after a quarter of that, and its answer is lost to who waits for it no longer than
        // 1 s.
        relay.lose("EVALSHA", Loss::Late(Duration::from_millis(1_080)));
        tokio::time::sleep(granted + Duration::from_millis(200)).await;
        assert!(!guard.is_lost());
        guard.release().await.expect("held");
    }
}

/// Between tasks of one client a queued lock goes by the release alone, for the whole lease, and all of them
/// have one place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_client_hand_a_queued_lock_on_by_the_release_alone() {
    let server = Server::start(&[]);
    let asked = Arc::new(AtomicU32::new(0));
    let tracer = Tracer::new({
        let asked = Arc::clone(&asked);
        move |event| {
            let takes = event.script == Some("acquire_queued");
            asked.fetch_add(u32::from(takes), Ordering::SeqCst);
        }
    });
    let target = server.url().parse().expect("a good URL");
    let options = ClientOptions::default().tracer(tracer);
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Queued, "q").expect("a good name");
    let mut guard = lock.acquire_with(minute()).await.expect("free");
    let free = asked.load(Ordering::SeqCst);
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(wait_for(&lock));
    }
    // The first of them asks for the place of all; the client hears of it later than the server.
    let before = free + 1;
    let until = Instant::now() + PATIENCE;
    while asked.load(Ordering::SeqCst) < before {
        assert!(Instant::now() < until, "nobody asks");
        tokio::time::sleep(MS).await;
    }
    for next in waiting {
        let token = guard.token();
        guard.release().await.expect("held");
        guard = next.await.expect("no panic").expect("its turn");
        // A beat that comes before the answer to the release says what is left of it.
        assert!(guard.granted_lease() > MINUTE / 2);
        assert_eq!(guard.token(), token.map(|token| token + 1));
    }
    assert_eq!(asked.load(Ordering::SeqCst), before, "nobody had to ask");
    guard.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

/// However many tasks of a client wait, a waiter of another client that came before them is served before
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_client_starve_nobody_of_another() {
    let server = Server::start(&[]);
    let (busy, other) = (lock(&server, Kind::Queued).await, lock(&server, Kind::Queued).await);
    let guard = busy.acquire_with(minute()).await.expect("free");
    let stop = Arc::new(AtomicU32::new(0));
    let works = |lock: Lock| {
        let stop = Arc::clone(&stop);
        tokio::spawn(async move {
            let mut turns = 0;
            while stop.load(Ordering::SeqCst) == 0 {
                let guard = lock.acquire_with(minute()).await.expect("its turn");
                turns += 1;
                guard.release().await.expect("held");
            }
            turns
        })
    };
    let tasks: Vec<_> = (0..8).map(|_| works(busy.clone())).collect();
    waits(&server, Kind::Queued, 1);
    guard.release().await.expect("held");
    for _ in 0..20 {
        let guard = other.acquire_with(minute()).await.expect("its turn");
        guard.release().await.expect("held");
    }
    stop.store(1, Ordering::SeqCst);
    for task in tasks {
        assert!(task.await.expect("no panic") > 0);
    }
    only_latches_and_tokens_stay(&server);
}

/// A waiter that is named by a release and leaves at any moment keeps nothing, and blocks nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_heir_that_leaves_at_any_moment_keeps_nothing() {
    let server = Server::start(&[]);
    let lock = lock(&server, Kind::Queued).await;
    for delay_us in (0..2000).step_by(40) {
        let guard = lock.acquire_with(minute()).await.expect("free");
        let (leaves, stays) = (wait_for(&lock), wait_for(&lock));
        waits(&server, Kind::Queued, 1);
        let release = tokio::spawn(guard.release());
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
        leaves.abort();
        // One that has it already gives it back.
        drop(leaves.await);
        let stays = stays.await.expect("no panic").expect("its turn");
        release.await.expect("no panic").expect("held");
        stays.release().await.expect("held");
    }
    only_latches_and_tokens_stay(&server);
}

/// The answer to a release that named an successor is lost, or the release itself comes late: it asks, and
/// has it; and if it has left meanwhile, the next one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_heir_of_a_release_whose_answer_is_lost_has_the_lock() {
    for loss in [Loss::Silence, Loss::Reset, Loss::Stranded] {
        for leaves in [false, true] {
            let server = Server::start(&[]);
            let relay = Relay::start(server.address()).await;
            let target = relay.url().parse().expect("a good URL");
            let options = ClientOptions::default().response_timeout(200 * MS);
            let client = Client::connect(&target, options).await.expect("it answers");
            let lock = client.lock(Kind::Queued, "q").expect("a good name");
            let warm = lock.acquire_with(minute()).await.expect("free");
            warm.release().await.expect("held");
            let guard = lock.acquire_with(minute()).await.expect("free");
            let (first, second) = (wait_for(&lock), wait_for(&lock));
            waits(&server, Kind::Queued, 1);
            listen(&server, Kind::Queued, 1);
            // Nobody else says whose hold it is.
            relay.lose(guard.owner().to_owned().leak(), loss);
            let release = tokio::spawn(guard.release());
            let until = Instant::now() + PATIENCE;
            while relay.lost() == 0 {
                assert!(Instant::now() < until, "no release");
                tokio::task::yield_now().await;
            }
            if leaves {
                first.abort();
            }
            release.await.expect("no panic").expect("held");
            relay.heal();
            if !leaves {
                let guard = first.await.expect("no panic").expect("its turn");
                guard.release().await.expect("held");
            }
            let guard = second.await.expect("no panic").expect("its turn");
            guard.release().await.expect("held");
            only_latches_and_tokens_stay(&server);
        }
    }
}

/// The release of a hold whose acquire was answered late is repeated, since that acquire may still come. It
/// names waiters once: by the next time they may have had the lock, or have left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_repeated_names_its_successors_once() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let releases = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&releases);
    let tracer = Tracer::new(move |event| {
        if event.script == Some("release_queued") {
            told.lock().expect("unpoisoned").push(event.args);
        }
    });
    let options = ClientOptions::default().response_timeout(200 * MS).tracer(tracer);
    let client = Client::connect(&relay.url().parse().expect("a good URL"), options).await;
    let lock = client.expect("it answers").lock(Kind::Queued, "q").expect("a good name");
    lock.acquire_with(minute()).await.expect("free").release().await.expect("held");
    relay.lose("EVALSHA", Loss::Reset);
    let guard = lock.acquire_with(minute()).await.expect("its own repetition");
    assert_eq!(relay.lost(), 1);
    let (first, second) = (wait_for(&lock), wait_for(&lock));
    waits(&server, Kind::Queued, 1);
    listen(&server, Kind::Queued, 1);
    let owner = guard.owner().to_owned();
    drop(guard);
    for waiter in [first, second] {
        let guard = waiter.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
    let own = || {
        let all = releases.lock().expect("unpoisoned").clone();
        all.into_iter().filter(|args| args[0] == owner).map(|args| args.len()).collect::<Vec<_>>()
    };
    let until = Instant::now() + PATIENCE;
    while own().len() < 3 {
        assert!(Instant::now() < until, "it is not repeated: {:?}", own());
        tokio::time::sleep(MS).await;
    }
    let longest = own()[0];
    assert!(own()[1..].iter().all(|words| *words < longest), "{:?}", own());
}

/// A release of what has run out is refused, also if the successor that it names has the lock meanwhile and
/// does not know it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_after_its_lease_is_not_held_also_if_a_successor_has_the_lock() {
    let server = Server::start(&[]);
    let lock = lock(&server, Kind::Queued).await;
    let short = minute().lease(Lease::Fixed(300 * MS));
    let guard = lock.acquire_with(short).await.expect("free");
    let mut successor = Box::pin(lock.acquire_with(minute()));
    let until = Instant::now() + PATIENCE;
    while server.ok(&["HLEN", "locklab_queue:{q}"]) != "1" {
        assert!(Instant::now() < until, "no place");
        let asked = tokio::time::timeout(10 * MS, &mut successor).await;
        assert!(asked.is_err(), "another's");
    }
    // From here on nobody polls it; its client's beat gets it the lock.
    let late = guard.owner().to_owned();
    server.wait_for(&["HKEYS", "q"], |owner| !owner.is_empty() && owner != late);
    let error = guard.release().await.expect_err("its lease is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    let guard = successor.await.expect("its turn");
    guard.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

/// How the second of two waiters with the same owner stops to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Granted,
    TimedOut,
    Dropped,
}

/// Waiters of one client may have the same owner. The one that goes leaves the other its turn, and where both
/// have one place at the server, the place and its rank.
async fn the_namesake_of_one_who_goes_has_its_turn(ends: Ends) {
    for kind in KINDS {
        let server = Server::start(&[]);
        let (holder, ours) = (lock(&server, kind).await, lock(&server, kind).await);
        let third = lock(&server, kind).await;
        let seven = || minute().owner(Owner::numbered(7));
        let guard = holder.acquire_with(minute()).await.expect("free");
        let first = wait_with(&ours, seven());
        waits(&server, kind, 1);
        listen(&server, kind, 1);
        let wait = match ends {
            Ends::TimedOut => Wait::AtMost(100 * MS),
            _ => Wait::AtMost(PATIENCE),
        };
        let second = wait_with(&ours, seven().wait(wait));
        let came = Instant::now();
        // Answers of one connection come in the order of its questions.
        assert!(ours.is_locked().await.expect("it answers"));
        if ends == Ends::Granted {
            // How long the second has waited is said by a release, and true but for the time that the release
            // itself takes.
            tokio::time::sleep(100 * MS).await;
        }
        let between = came.elapsed();
        let behind = wait_for(&third);
        waits(&server, kind, 2);
        let mut ours = vec![first];
        match ends {
            Ends::Granted => ours.push(second),
            Ends::TimedOut => {
                let error = second.await.expect("no panic").expect_err("held");
                assert_eq!(error.kind(), ErrorKind::Busy);
            }
            Ends::Dropped => {
                second.abort();
                let _ = second.await;
            }
        }
        guard.release().await.expect("held");
        let granted = async |waiter: JoinHandle<Result<Guard, LockError>>| {
            let guard = waiter.await.expect("no panic");
            guard.unwrap_or_else(|error| panic!("{kind} {ends:?}: {error}"))
        };
        let released = async |guard: Guard| guard.release().await.map(drop).expect("held");
        if kind == Kind::Fair {
            // It is re-entrant: both of ours hold it at once.
            for guard in join_all(ours.into_iter().map(granted)).await {
                released(guard).await;
            }
            released(granted(behind).await).await;
        } else {
            let guard = granted(ours.remove(0)).await;
            let asked = Instant::now();
            released(guard).await;
            let took = asked.elapsed();
            let rest = ours.into_iter().chain([behind]);
            let rest = rest.map(async |waiter| released(granted(waiter).await).await);
            if took < between {
                for waiter in rest {
                    waiter.await;
                }
            } else {
                join_all(rest).await;
            }
        }
        only_latches_and_tokens_stay(&server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_namesake_was_granted_has_its_turn() {
    the_namesake_of_one_who_goes_has_its_turn(Ends::Granted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_namesake_gave_up_has_its_turn() {
    the_namesake_of_one_who_goes_has_its_turn(Ends::TimedOut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_namesake_was_dropped_has_its_turn() {
    the_namesake_of_one_who_goes_has_its_turn(Ends::Dropped).await;
}

/// RFairLock's keys as a peer may leave them.
struct Peer<'a>(&'a Server);

impl Peer<'_> {
    fn waits(&self, owner: &str, deadline_ms: Option<u64>) {
        self.0.ok(&["RPUSH", "redisson_lock_queue:{q}", owner]);
        if let Some(deadline_ms) = deadline_ms {
            let deadline_ms = deadline_ms.to_string();
            self.0.ok(&["ZADD", "redisson_lock_timeout:{q}", &deadline_ms, owner]);
        }
    }

    /// The first in the line takes the lock, by one script as RFairLock does: ours may ask at any moment.
    fn takes(&self, owner: &str) {
        let script = "if redis.call('EXISTS', 'q') == 1 then return 'it is taken' end \
            local owner = redis.call('LPOP', 'redisson_lock_queue:{q}') \
            redis.call('ZREM', 'redisson_lock_timeout:{q}', owner) \
            for _, other in ipairs(redis.call('LRANGE', 'redisson_lock_queue:{q}', 0, -1)) do \
                redis.call('ZINCRBY', 'redisson_lock_timeout:{q}', -300000, other) \
            end \
            redis.call('HSET', 'q', owner, 1) \
            redis.call('PEXPIRE', 'q', 60000) \
            return owner";
        assert_eq!(self.0.ok(&["EVAL", script, "0"]), owner);
    }

    fn line(&self) -> String {
        self.0.ok(&["LRANGE", "redisson_lock_queue:{q}", "0", "-1"])
    }

    fn now_ms(&self) -> u64 {
        let time = self.0.ok(&["TIME"]);
        let mut parts = time.lines().map(|part| part.parse::<u64>().expect("a number"));
        parts.next().expect("seconds") * 1000 + parts.next().expect("microseconds") / 1000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_head_a_scoreless_one_and_one_of_long_ago_stall_nobody() {
    let server = Server::start(&[]);
    let peer = Peer(&server);
    let lock = lock(&server, Kind::Fair).await;
    peer.waits("dead:1", Some(peer.now_ms() + 300_000));
    peer.waits("scoreless:1", None);
    peer.waits("late:1", Some(1));
    // A peer would have left the free lock to the first of them for five minutes.
    let guard = lock.acquire_with(minute()).await.expect("nobody comes");
    guard.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

/// A peer that was called takes the lock, gives it back and waits again, all by its own scripts, and we see
/// nothing of it. The call of then is no reason to pass it over now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_came_when_it_was_called_and_waits_again_is_not_passed_over() {
    for wait in [Wait::Try, Wait::AtMost(PATIENCE)] {
        let server = Server::start(&[]);
        let peer = Peer(&server);
        let lock = lock(&server, Kind::Fair).await;
        // A waiter that is heard has a second to come.
        let mut ears = std::net::TcpStream::connect(server.address()).expect("it listens");
        ears.write_all(b"SUBSCRIBE redisson_lock__channel:{q}:peer:1\r\n").expect("written");
        server.wait_for(&["PUBSUB", "CHANNELS"], |channels| !channels.is_empty());
        let guard = lock.acquire_with(minute()).await.expect("free");
        peer.waits("peer:1", Some(peer.now_ms() + 300_000));
        guard.release().await.expect("held");
        peer.takes("peer:1");
        peer.waits("peer:2", Some(peer.now_ms() + 300_000));
        server.ok(&["DEL", "q"]);
        peer.takes("peer:2");
        peer.waits("peer:1", Some(peer.now_ms() + 300_000));
        tokio::time::sleep(1200 * MS).await;
        server.ok(&["DEL", "q"]);
        if wait == Wait::Try {
            let error = lock.acquire_with(minute().wait(wait)).await;
            assert_eq!(error.expect_err("it is its turn").kind(), ErrorKind::Busy);
            assert_eq!(peer.line(), "peer:1");
            continue;
        }
        let newcomer = wait_for(&lock);
        waits(&server, Kind::Fair, 2);
        assert!(peer.line().starts_with("peer:1"));
        peer.takes("peer:1");
        server.ok(&["DEL", "q"]);
        let guard = newcomer.await.expect("no panic").expect("its turn");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_a_foreign_clock_evicts_comes_back() {
    let server = Server::start(&[]);
    let (holder, waiter) = (lock(&server, Kind::Fair).await, lock(&server, Kind::Fair).await);
    let guard = holder.acquire_with(minute()).await.expect("free");
    let waiting = wait_for(&waiter);
    waits(&server, Kind::Fair, 1);
    listen(&server, Kind::Fair, 1);
    // What every script of RFairLock does to a head whose deadline is behind its caller's clock.
    server.ok(&["DEL", "redisson_lock_queue:{q}", "redisson_lock_timeout:{q}"]);
    waits(&server, Kind::Fair, 1);
    guard.release().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

/// RFairLock's line stays for ever when all in it have died. Ours ends, but not before anybody's deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_nobody_comes_to_any_more_ends_and_outlasts_every_deadline() {
    const DAY_MS: u64 = 86_400_000;
    const TEN_YEARS_MS: u64 = 3650 * DAY_MS;
    // One that a peer gets by its own wait, and ours lasts so much longer behind it; a far one, and one
    // beyond what a server takes for an end.
    for (rest_ms, longest_ms) in [
        (0, 30_000),
        (300_000, 330_000),
        (30 * DAY_MS, 30 * DAY_MS),
        (9_000_000_000_000_000_000, TEN_YEARS_MS),
    ] {
        let server = Server::start(&[]);
        let peer = Peer(&server);
        let (holder, ours) = (lock(&server, Kind::Fair).await, lock(&server, Kind::Fair).await);
        let guard = holder.acquire_with(minute()).await.expect("free");
        if rest_ms > 0 {
            peer.waits("peer:1", Some(peer.now_ms() + rest_ms));
        }
        let waiter = wait_for(&ours);
        waits(&server, Kind::Fair, 1 + usize::from(rest_ms > 0));
        for key in ["redisson_lock_queue:{q}", "redisson_lock_timeout:{q}"] {
            let left = server.ok(&["PTTL", key]);
            let left: u64 = left.parse().unwrap_or_else(|_| panic!("{key}: {left}"));
            let least = longest_ms + DAY_MS - 20_000;
            assert!((least..=least + 20_000).contains(&left), "{key}: {left}");
        }
        waiter.abort();
        waits(&server, Kind::Fair, usize::from(rest_ms > 0));
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_moves_nobody_elses_deadline() {
    let server = Server::start(&[]);
    let peer = Peer(&server);
    let lock = lock(&server, Kind::Fair).await;
    let guard = lock.acquire_with(minute()).await.expect("free");
    let deadline = peer.now_ms() + 20_000;
    let waiting = wait_for(&lock);
    waits(&server, Kind::Fair, 1);
    peer.waits("behind:1", Some(deadline));
    waiting.abort();
    waits(&server, Kind::Fair, 1);
    let score = server.ok(&["ZSCORE", "redisson_lock_timeout:{q}", "behind:1"]);
    assert_eq!(score, deadline.to_string());
    guard.release().await.expect("held");
}
