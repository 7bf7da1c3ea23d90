//! A fair lock's line that is shared with peers: shares, deadlines, and who is gone. The peers are threads
//! that do what RFairLock does, by scripts that do what its scripts do.

mod lock_support;
mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, Lock, Owner, Wait};
use lock_support::Relay;
use support::{
    PATIENCE, Server,
    fared::{Fared, all_had_their_share},
};

const MS: Duration = Duration::from_millis(1);
const QUEUE: &str = "redisson_lock_queue:{q}";
const DEADLINES: &str = "redisson_lock_timeout:{q}";
const CHANNEL: &str = "redisson_lock__channel:{q}";
const LEASE_MS: &str = "30000";
/// How long a waiter of RFairLock asks for if it says nothing else.
const WAIT_MS: u64 = 300_000;

async fn client(url: &str) -> Client {
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    client.expect("it answers")
}

async fn lock(server: &Server) -> Lock {
    let client = client(&server.url()).await;
    client.lock(Kind::Fair, "q").expect("a good name")
}

fn patient() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(PATIENCE * 2))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("before the year 500 million")
}

/// A thread of a peer's client.
#[derive(Clone)]
struct Peer {
    server: Arc<Server>,
    owner: String,
    wait_ms: u64,
    /// Its clock is ahead by so much.
    ahead_ms: u64,
}

impl Peer {
    fn new(server: &Arc<Server>, thread: usize) -> Self {
        Peer {
            server: Arc::clone(server),
            owner: format!("5d5a0ab8-6d29-4a51-9a0e-1f3c7f0c8f11:{thread}"),
            wait_ms: WAIT_MS,
            ahead_ms: 0,
        }
    }

    fn clock(&self) -> String {
        (now_ms() + self.ahead_ms).to_string()
    }

    /// `None`: it has the lock; otherwise how long it may sleep.
    fn acquire(&self) -> Option<Duration> {
        const TEXT: &str = include_str!("redisson/fair_acquire.lua");
        let wait = self.wait_ms.to_string();
        let keys = ["EVAL", TEXT, "3", "q", QUEUE, DEADLINES];
        let args = [LEASE_MS, &self.owner, &wait, &self.clock()];
        let left = self.server.ok(&[&keys[..], &args].concat());
        // Below nothing it has no timer.
        let left: Option<i64> = (!left.is_empty()).then(|| left.parse().expect("a number"));
        left.map(|ms| u64::try_from(ms).map_or(PATIENCE, Duration::from_millis))
    }

    fn unlock(&self) {
        const TEXT: &str = include_str!("redisson/fair_unlock.lua");
        let keys = ["EVAL", TEXT, "4", "q", QUEUE, DEADLINES, CHANNEL];
        let args = [LEASE_MS, &self.owner, &self.clock()];
        assert_eq!(self.server.ok(&[&keys[..], &args].concat()), "1");
    }

    fn gives_up(&self) {
        const TEXT: &str = include_str!("redisson/fair_give_up.lua");
        // Whatever it has asked for.
        let wait = WAIT_MS.to_string();
        self.server.ok(&["EVAL", TEXT, "2", QUEUE, DEADLINES, &self.owner, &wait]);
    }

    /// As a thread in lock(): asks, subscribes, asks again, and then whenever it is told to or has slept for
    /// long enough.
    fn lock(&self, until: Instant) -> bool {
        if self.acquire().is_none() {
            return true;
        }
        let mut ears = TcpStream::connect(self.server.address()).expect("it listens");
        let channel = format!("SUBSCRIBE {CHANNEL}:{}\r\n", self.owner);
        ears.write_all(channel.as_bytes()).expect("written");
        let mut heard = [0; 1024];
        let subscribed = ears.read(&mut heard).expect("an answer");
        assert!(subscribed > 0, "the server is gone");
        while let Some(left) = self.acquire() {
            if Instant::now() > until {
                return false;
            }
            let sleep = left.clamp(MS, PATIENCE / 4);
            ears.set_read_timeout(Some(sleep)).expect("a socket");
            let _ = ears.read(&mut heard);
        }
        true
    }

    /// Takes the lock again and again until a moment; how it fared.
    fn works(&self, hold: Duration, until: Instant) -> Fared {
        let mut fared = Fared::default();
        while Instant::now() < until {
            let asked = Instant::now();
            let locked = self.lock(until + PATIENCE);
            fared.waited(asked.elapsed());
            if !locked {
                break;
            }
            if Instant::now() < until {
                fared.grants += 1;
                std::thread::sleep(hold);
            }
            self.unlock();
        }
        fared
    }
}

fn line(server: &Server) -> Vec<String> {
    let line = server.ok(&["LRANGE", QUEUE, "0", "-1"]);
    line.lines().map(str::to_owned).collect()
}

fn waits(server: &Server, places: usize) {
    server.wait_for(&["LLEN", QUEUE], |length| length == places.to_string());
}

fn deadline_ms(server: &Server, owner: &str) -> u64 {
    let score = server.ok(&["ZSCORE", DEADLINES, owner]);
    score.parse().unwrap_or_else(|_| panic!("{owner}: {score}"))
}

async fn works(lock: &Lock, hold: Duration, until: Instant) -> Fared {
    let mut fared = Fared::default();
    while Instant::now() < until {
        let asked = Instant::now();
        let guard = lock.acquire_with(patient()).await;
        fared.waited(asked.elapsed());
        // Nobody is to wait for so long; the verdict says who did.
        let Ok(guard) = guard else { continue };
        fared.grants += u32::from(Instant::now() < until);
        tokio::time::sleep(hold).await;
        guard.release().await.expect("held");
    }
    fared
}

/// Four peers with waits of their own and so many of ours.
async fn shares(wait_ms: u64, ours: usize) {
    const HOLD: Duration = Duration::from_millis(20);
    const RUN: Duration = Duration::from_secs(4);
    let server = Arc::new(Server::start(&[]));
    let mut locks = Vec::new();
    for _ in 0..ours {
        locks.push(lock(&server).await);
    }
    let until = Instant::now() + RUN;
    let peers: Vec<_> = (0..4)
        .map(|thread| {
            let mut peer = Peer::new(&server, thread);
            peer.wait_ms = wait_ms;
            tokio::task::spawn_blocking(move || peer.works(HOLD, until))
        })
        .collect();
    let ours = locks.iter().map(|lock| works(lock, HOLD, until));
    let mut all = futures_util::future::join_all(ours).await;
    for peer in peers {
        all.push(peer.await.expect("no panic"));
    }
    all_had_their_share(&all, RUN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_and_one_of_ours_share_a_fair_lock_evenly() {
    shares(WAIT_MS, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_and_several_clients_of_ours_share_a_fair_lock_evenly() {
    shares(WAIT_MS, 3).await;
}

/// Whatever their callers wait for, each that enters takes so much from the deadlines of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_ask_for_longer_than_usual_and_ours_share_a_fair_lock_evenly() {
    shares(12 * WAIT_MS, 1).await;
}

/// Ours that dies leaves a free lock to peers no later than a place lasts, however many are ahead of it; and
/// a peer that came behind it keeps a whole wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_of_ours_leave_a_line_to_peers_when_a_place_ends_and_take_nobody_along() {
    const PLACE_MS: u64 = 30_000;
    let server = Arc::new(Server::start(&[]));
    let relay = Relay::start(server.address()).await;
    let dying = client(&relay.url()).await;
    let dying = dying.lock(Kind::Fair, "q").expect("a good name");
    let mut peers: Vec<_> = (0..3).map(|thread| Peer::new(&server, thread)).collect();
    assert_eq!(peers[0].acquire(), None);
    // Two of ours, a peer, two of ours, a peer.
    let mut ours = Vec::new();
    for places in [1, 4] {
        for place in [places, places + 1] {
            let lock = dying.clone();
            ours.push(tokio::spawn(async move { lock.acquire_with(patient()).await }));
            waits(&server, place);
        }
        assert!(peers[places.div_ceil(2)].acquire().is_some());
        waits(&server, places + 2);
    }
    let owners = line(&server);
    // A beat that counts who is ahead.
    let behind = deadline_ms(&server, &owners[4]);
    let until = Instant::now() + PATIENCE;
    while deadline_ms(&server, &owners[4]) == behind {
        assert!(Instant::now() < until, "no beat");
        tokio::time::sleep(10 * MS).await;
    }
    relay.black_hole();
    let gone_ms = now_ms();
    for (at, peers_ahead) in [(0, 0), (1, 0), (3, 1), (4, 1)] {
        let most = gone_ms + PLACE_MS + peers_ahead * WAIT_MS;
        let deadline = deadline_ms(&server, &owners[at]);
        assert!(deadline <= most, "{at} in {owners:?}: {deadline} of {most}");
    }
    // Half a minute later only the peers are left, and they take turns.
    for peer in &mut peers {
        peer.ahead_ms = PLACE_MS + 1;
    }
    peers[0].unlock();
    assert_eq!(peers[1].acquire(), None);
    assert_eq!(line(&server).last(), Some(&peers[2].owner));
    peers[1].unlock();
    assert_eq!(line(&server), [peers[2].owner.clone()]);
    let left = deadline_ms(&server, &peers[2].owner) - gone_ms;
    assert!(left >= WAIT_MS / 2, "{left} ms");
    assert_eq!(peers[2].acquire(), None);
    for waiter in ours {
        waiter.abort();
    }
}

/// A dead one of ours that is called for a free lock and does not come loses its place long before that ends,
/// also where nobody stands behind it: by those who only try, and by those who wait for less than it has to
/// come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stays_for_a_moment_passes_over_the_dead_of_ours() {
    for wait in [Wait::Try, Wait::AtMost(30 * MS)] {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let dying = client(&relay.url()).await;
        let dying = dying.lock(Kind::Fair, "q").expect("a good name");
        let ours = lock(&server).await;
        let guard = ours.acquire_with(patient()).await.expect("free");
        let waiter = tokio::spawn(async move { dying.acquire_with(patient()).await });
        waits(&server, 1);
        relay.black_hole();
        guard.release().await.expect("held");
        let dead = line(&server).remove(0);
        let ends_ms = deadline_ms(&server, &dead);
        let moment = patient().wait(wait);
        let guard = loop {
            assert!(now_ms() < ends_ms, "{wait:?}: its place had to end first");
            match ours.acquire_with(moment.clone()).await {
                Ok(guard) => break guard,
                Err(error) => assert!(error.kind() == ErrorKind::Busy, "{error}"),
            }
        };
        assert!(!line(&server).contains(&dead));
        guard.release().await.expect("held");
        waiter.abort();
    }
}

/// An owner that asks again queues again: its old place is given up for as long as that lasts, beyond the
/// lease that was asked for, and an acquire that comes after its own undo takes none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gave_up_leaves_no_place_to_its_next_acquire() {
    let server = Server::start(&[]);
    let relay = Relay::start(server.address()).await;
    let options = ClientOptions::default().response_timeout(200 * MS);
    let target = relay.url().parse().expect("a good URL");
    let leaving = Client::connect(&target, options).await.expect("it answers");
    let leaving = leaving.lock(Kind::Fair, "q").expect("a good name");
    let short = patient().owner(Owner::numbered(7)).lease(Lease::Fixed(100 * MS));
    let ours = lock(&server).await;
    let guard = ours.acquire_with(patient()).await.expect("free");
    let waiter = tokio::spawn({
        let (lock, short) = (leaving.clone(), short.clone());
        async move { lock.acquire_with(short).await }
    });
    waits(&server, 1);
    relay.black_hole();
    waiter.abort();
    let ends_ms = deadline_ms(&server, &line(&server)[0]);
    let behind = tokio::spawn(async move { ours.acquire_with(patient()).await });
    waits(&server, 2);
    // Lease, answer and drift are over by then; and what was under way is lost.
    tokio::time::sleep(500 * MS).await;
    server.ok(&["CLIENT", "KILL", "TYPE", "normal"]);
    relay.heal();
    let again = tokio::spawn(async move { leaving.acquire_with(short).await });
    guard.release().await.expect("held");
    let guard = behind.await.expect("no panic").expect("its turn");
    assert!(now_ms() < ends_ms, "the old place had to end first");
    assert!(!again.is_finished(), "it had the old place");
    guard.release().await.expect("held");
    let guard = again.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

/// A peer takes its place before it subscribes, and one that has just started is slow to do so: it keeps its
/// turn that long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_subscribes_late_keeps_its_turn() {
    let server = Arc::new(Server::start(&[]));
    let (first, last) = (lock(&server).await, lock(&server).await);
    let guard = first.acquire_with(patient()).await.expect("free");
    let peer = Peer::new(&server, 1);
    assert!(peer.acquire().is_some());
    let behind = tokio::spawn(async move { last.acquire_with(patient()).await });
    waits(&server, 2);
    guard.release().await.expect("held");
    // Half of the half second that it has, and more than the tenth that one of ours would have.
    tokio::time::sleep(250 * MS).await;
    assert_eq!(peer.acquire(), None, "its turn has passed");
    assert!(!behind.is_finished(), "two at once");
    peer.unlock();
    let guard = behind.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
}

/// A peer that gives up takes as much from those behind it as one that enters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_give_up_throw_none_of_ours_out() {
    let server = Arc::new(Server::start(&[]));
    let ours = lock(&server).await;
    let guard = ours.acquire_with(patient()).await.expect("free");
    let peers: Vec<_> = (0..3)
        .map(|thread| {
            let mut peer = Peer::new(&server, thread);
            peer.wait_ms = 1000;
            peer
        })
        .collect();
    for peer in &peers {
        assert!(peer.acquire().is_some());
    }
    let waiter = tokio::spawn(async move { ours.acquire_with(patient()).await });
    waits(&server, 4);
    let owner = line(&server).pop().expect("somebody");
    let before = deadline_ms(&server, &owner);
    let until = Instant::now() + PATIENCE;
    while deadline_ms(&server, &owner) == before {
        assert!(Instant::now() < until, "no beat");
        tokio::time::sleep(10 * MS).await;
    }
    for peer in &peers {
        peer.gives_up();
    }
    // What any script of a peer does to a head whose time is over.
    let late = Peer::new(&server, 9);
    assert!(late.acquire().is_some());
    assert_eq!(line(&server), [owner, late.owner.clone()]);
    guard.release().await.expect("held");
    let guard = waiter.await.expect("no panic").expect("its turn");
    guard.release().await.expect("held");
    assert_eq!(late.acquire(), None);
}

/// A server that is full may throw one key of the line away and keep the other. RFairLock's own waiters go by
/// the deadlines alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_take_a_place_again_when_the_server_has_lost_one_key_of_the_line() {
    for evicted in [QUEUE, DEADLINES] {
        let server = Arc::new(Server::start(&[]));
        let (holder, waiter) = (lock(&server).await, lock(&server).await);
        let guard = holder.acquire_with(patient()).await.expect("free");
        let waiting: Vec<_> = (1..=3)
            .map(|places| {
                let lock = waiter.clone();
                // Their order may be another afterwards.
                let waiting = tokio::spawn(async move {
                    let guard = lock.acquire_with(patient()).await.expect("its turn");
                    guard.release().await.expect("held");
                });
                waits(&server, places);
                waiting
            })
            .collect();
        let peer = Peer::new(&server, 1);
        assert!(peer.acquire().is_some());
        waits(&server, 4);
        server.ok(&["DEL", evicted]);
        server.wait_for(&["EXISTS", evicted], |there| there == "1");
        if evicted == QUEUE {
            waits(&server, 3);
            assert!(peer.acquire().is_some());
            waits(&server, 4);
        }
        guard.release().await.expect("held");
        for waiting in waiting {
            waiting.await.expect("no panic");
        }
        if evicted == QUEUE {
            assert_eq!(peer.acquire(), None, "it is the last one left");
        }
    }
}

/// Ten times as many waiters cost a beat ten times as much, not a hundred times.
#[test]
fn the_beat_of_a_thousand_waiters_reads_the_line_once() {
    let server = Server::start(&[]);
    let text = [include_str!("../scripts/fair.lua"), include_str!("../scripts/heartbeat_fair.lua")].concat();
    let took_us = |waiters: usize| {
        server.ok(&["FLUSHALL"]);
        server.ok(&["HSET", "q", "holder", "1"]);
        let owners: Vec<_> =
            (0..waiters).map(|number| format!("00000000-0000-8000-8000-000000000000:{number}")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        server.ok(&[&["RPUSH", QUEUE][..], &owners].concat());
        let keys = ["EVAL", &text, "5", "q", QUEUE, DEADLINES, "latch", CHANNEL];
        let args = ["PUBLISH", "30000"];
        let beat = [&keys[..], &args, &owners].concat();
        server.ok(&beat);
        let beats = (0..5).map(|_| {
            server.ok(&["CONFIG", "RESETSTAT"]);
            let answer = server.ok(&beat);
            assert_eq!(answer.lines().count(), 4, "all have a place");
            let stats = server.ok(&["INFO", "commandstats"]);
            let stats = stats.split_once("cmdstat_eval:calls=1,usec=").expect("it");
            let (us, _) = stats.1.split_once(',').expect("more follows");
            us.parse::<u64>().expect("a number")
        });
        beats.min().expect("some")
    };
    let (hundred, thousand) = (took_us(100), took_us(1000));
    assert!(thousand < 25 * hundred, "{thousand} us, and {hundred} us");
}
