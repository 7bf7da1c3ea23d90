//! Compares the table of inner calls (`scripts/README.md`) with what a real server counts.

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use lock_core::{Acquire, Client, ClientOptions, Guard, Kind, Lease, Lock, Owner, Permits, Wait};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const TABLE: &str = include_str!("../scripts/README.md");

/// A row: script, when, inner calls in alphabetical order.
fn rows() -> Vec<(String, String, Vec<String>)> {
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let rows = TABLE.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|row| {
        let mut calls: Vec<_> = row[3].split_whitespace().map(str::to_owned).collect();
        calls.sort();
        (row[1].replace('`', ""), row[2].to_owned(), calls)
    })
    .collect()
}

/// One client on one server, and another for those in the way.
struct Bench {
    server: Server,
    ours: Client,
    other: Client,
}

fn fixed(lease: Duration) -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(lease))
}

fn minute() -> Acquire {
    fixed(60_000 * MS)
}

fn again() -> Acquire {
    minute().owner(Owner::numbered(1))
}

async fn take(lock: &Lock, how: Acquire) -> Guard {
    lock.acquire_with(how).await.expect("granted")
}

impl Bench {
    async fn start() -> Self {
        let server = Server::start(&[]);
        let target = server.url().parse().expect("a good URL");
        // No beat and no poll comes in between.
        let options = ClientOptions::default().poll_bound(PATIENCE);
        let client = || async {
            let client = Client::connect(&target, options.clone()).await;
            client.expect("it answers")
        };
        let (ours, other) = (client().await, client().await);
        Bench { server, ours, other }
    }

    fn lock(&self, kind: Kind) -> Lock {
        self.ours.lock(kind, "n").expect("a good name")
    }

    /// What the server has called since the figures were last set back, without what is called from outside.
    fn calls(&self) -> Vec<String> {
        let stats = self.server.ok(&["INFO", "commandstats"]);
        let mut calls = Vec::new();
        for line in stats.lines() {
            let Some((name, figures)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let outer =
                ["eval", "script", "config", "info", "ping", "client", "subscribe", "hello", "unlink"];
            if outer.iter().any(|outer| name.starts_with(outer)) {
                continue;
            }
            let count = figures.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            let count: usize = count.and_then(|count| count.parse().ok()).expect("calls=");
            // Of PUBSUB NUMSUB the first word, since the table has no room for a bar.
            let name = name.split('|').next().unwrap_or(name);
            calls.extend(std::iter::repeat_n(name.to_owned(), count));
        }
        calls.sort();
        calls
    }

    /// A client that waits for a queued lock and listens, and whose beats do not come in between.
    fn forge_waiter(&self) -> TcpStream {
        let place = "9999999999999 1 60000 c:1";
        self.server.ok(&["HSET", "locklab_queue:{n}", "c", place]);
        self.server.ok(&["ZADD", "locklab_queue_order:{n}", "1", "c"]);
        let mut ears = TcpStream::connect(self.server.address()).expect("it listens");
        let subscribe = b"SUBSCRIBE locklab_queue:{n}:c\r\n";
        ears.write_all(subscribe).expect("written");
        ears.read_exact(&mut [0]).expect("an answer");
        ears
    }

    fn set_back(&self) {
        self.server.ok(&["CONFIG", "RESETSTAT"]);
    }

    /// The calls of what a row of the table is about. Scripts are known to the server before it is counted,
    /// since an unknown one is sent twice.
    async fn count(&self, script: &str, when: &str) -> Vec<String> {
        if script.contains("semaphore") || script.contains("permit") {
            return self.count_of_permits(script, when).await;
        }
        if script.contains("latch") || script == "count_down.lua" {
            return self.count_of_latch(script, when).await;
        }
        if script == "heartbeat_fair.lua" || when == "another's, a place" || when == "free, another waits" {
            return self.count_of_fair(script, when);
        }
        let other = |kind| self.other.lock(kind, "n").expect("a good name");
        let kind = match (script, when) {
            ("release.lua", "spin") => Kind::Spin,
            ("acquire_read.lua" | "release_read.lua", _) => Kind::Read,
            (_, "a reader's, longer") => Kind::Read,
            ("acquire_write.lua" | "release_write.lua", _) => Kind::Write,
            (script, _) if script.contains("_rw") => Kind::Write,
            (script, _) if script.contains("plain") => Kind::Plain,
            (script, _) if script.contains("fenced") => Kind::Fenced,
            (script, _) if script.contains("queued") => Kind::Queued,
            (script, _) if script.contains("fair") => Kind::Fair,
            _ => Kind::Reentrant,
        };
        let lock = match when.ends_with(", two") {
            true => self.ours.all_of(&["n", "{n}2"]).expect("one slot"),
            false => self.lock(kind),
        };
        let named = when.contains("again") || script.contains("alone") || when == "inner hold";
        let owner = |how: Acquire| match named {
            true => how.owner(Owner::numbered(1)),
            false => how,
        };
        let counting_life = when.contains("life");
        match script {
            "acquire.lua" | "acquire_alone.lua" | "acquire_fenced.lua" | "acquire_queued.lua"
            | "acquire_read.lua" | "acquire_all.lua" | "acquire_write.lua" | "acquire_fair.lua"
                if when.starts_with("free") =>
            {
                let how = match counting_life {
                    true => owner(minute()).token_life(60_000 * MS),
                    false => owner(minute()),
                };
                take(&lock, how.clone()).await.release().await.expect("held");
                if counting_life {
                    self.server.ok(&["DEL", "redisson_lock_token:{n}"]);
                }
                self.set_back();
                let guard = take(&lock, how).await;
                let calls = self.calls();
                guard.release().await.expect("held");
                calls
            }
            "acquire.lua" | "acquire_fair.lua" if when.starts_with("another's") => {
                let held = take(&other(kind), minute()).await;
                let once = minute().wait(Wait::Try);
                lock.acquire_with(once.clone()).await.expect_err("another's");
                self.set_back();
                lock.acquire_with(once).await.expect_err("another's");
                let calls = self.calls();
                held.release().await.expect("held");
                calls
            }
            "acquire_all.lua" => {
                let outer = take(&lock, again()).await;
                let warm = take(&lock, again()).await;
                self.set_back();
                let inner = take(&lock, again().lease(Lease::Fixed(1000 * MS))).await;
                let calls = self.calls();
                for guard in [inner, warm, outer] {
                    guard.release().await.expect("held");
                }
                calls
            }
            "release.lua" if when == "not held" => {
                take(&lock, minute()).await.release().await.expect("held");
                let guard = take(&lock, minute()).await;
                self.server.ok(&["DEL", "n"]);
                self.set_back();
                guard.release().await.expect_err("not held");
                self.calls()
            }
            "release_all.lua" if when == "inner hold" => {
                let outer = take(&lock, again()).await;
                take(&lock, again()).await.release().await.expect("held");
                let inner = take(&lock, again()).await;
                self.set_back();
                inner.release().await.expect("held");
                let calls = self.calls();
                outer.release().await.expect("held");
                calls
            }
            "acquire_read.lua" | "acquire_write.lua" | "release_read.lua" if when.contains("other") => {
                let there = match when {
                    "another writes" => Kind::Write,
                    _ => Kind::Read,
                };
                // Its scripts, and its lease beyond what one more call may take off it.
                let held = take(&other(there), fixed(90_000 * MS)).await;
                let once = minute().wait(Wait::Try);
                let warm = lock.acquire_with(once.clone()).await;
                if let Ok(warm) = warm {
                    warm.release().await.expect("held");
                }
                self.set_back();
                let asked = lock.acquire_with(once).await;
                let mut calls = self.calls();
                if let Ok(ours) = asked {
                    if script == "release_read.lua" {
                        self.set_back();
                    }
                    ours.release().await.expect("held");
                    if script == "release_read.lua" {
                        calls = self.calls();
                    }
                }
                held.release().await.expect("held");
                calls
            }
            "release.lua" | "release_alone.lua" | "release_plain.lua" | "release_queued.lua"
            | "release_fair.lua" | "release_read.lua" | "release_write.lua" | "release_all.lua" => {
                let how = owner(minute());
                take(&lock, how.clone()).await.release().await.expect("held");
                let guard = take(&lock, how).await;
                let _waiter = (when == "another client's turn").then(|| self.forge_waiter());
                self.set_back();
                guard.release().await.expect("held");
                self.calls()
            }
            "extend.lua" | "extend_counted.lua" | "extend_plain.lua" | "extend_rw.lua" => {
                let guard = take(&lock, owner(minute())).await;
                guard.extend(60_000 * MS).await.expect("held");
                let lease = if when.starts_with("longer") || when.ends_with("longer") {
                    90_000 * MS
                } else {
                    1000 * MS
                };
                self.set_back();
                guard.extend(lease).await.expect("held");
                let calls = self.calls();
                guard.release().await.expect("held");
                calls
            }
            "look.lua" | "look_plain.lua" | "look_queued.lua" | "look_rw.lua" => {
                let guard = take(&lock, minute()).await;
                lock.holder().await.expect("answered");
                self.set_back();
                lock.holder().await.expect("answered");
                let calls = self.calls();
                guard.release().await.expect("held");
                calls
            }
            "force_release.lua"
            | "force_release_queued.lua"
            | "force_release_fair.lua"
            | "force_release_rw.lua"
            | "force_release_all.lua" => {
                lock.force_release().await.expect("answered");
                drop(take(&lock, minute()).await);
                self.server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
                let guard = take(&lock, minute()).await;
                self.set_back();
                assert!(lock.force_release().await.expect("answered"));
                let calls = self.calls();
                guard.release().await.expect_err("taken away");
                calls
            }
            "leave_write.lua" => {
                let own = include_str!("../scripts/leave_write.lua");
                let text = format!("{}{own}", include_str!("../scripts/speak.lua"));
                let waiting = "locklab_writers_latch:{n}";
                self.server.ok(&["ZADD", waiting, "1", "ours"]);
                self.set_back();
                self.server.ok(&["EVAL", &text, "1", waiting, "ours", "PUBLISH", "c"]);
                self.calls()
            }
            other => panic!("{other} is in the table, and nobody knows how to bring about: {when}"),
        }
    }
}

impl Bench {
    /// As `count`, of the scripts of a fair lock that beats run beside: said by hand.
    fn count_of_fair(&self, script: &str, when: &str) -> Vec<String> {
        let (own, args): (_, &[&str]) = match script {
            "heartbeat_fair.lua" => {
                (include_str!("../scripts/heartbeat_fair.lua"), &["PUBLISH", "30000", "ours:1"])
            }
            _ => (include_str!("../scripts/acquire_fair.lua"), &["60000", "ours:1", "PUBLISH", "30000"]),
        };
        let text = format!("{}{own}", include_str!("../scripts/fair.lua"));
        let first = if script == "heartbeat_fair.lua" { "ours:1" } else { "other:2" };
        if when.contains("waits") {
            let now = self.server.ok(&["TIME"]);
            let now: u64 = now.lines().next().and_then(|s| s.parse().ok()).expect("s");
            let deadline = ((now + 60) * 1000).to_string();
            self.server.ok(&["RPUSH", "redisson_lock_queue:{n}", first]);
            let deadlines = "redisson_lock_timeout:{n}";
            self.server.ok(&["ZADD", deadlines, &deadline, first]);
        }
        if when.starts_with("another") {
            self.server.ok(&["HSET", "n", "other:1", "1"]);
        }
        self.set_back();
        let keys = [
            "n",
            "redisson_lock_queue:{n}",
            "redisson_lock_timeout:{n}",
            "locklab_fair_latch:{n}",
            "redisson_lock__channel:{n}",
        ];
        let said = [&["EVAL", &text, "5"], &keys[..], args].concat();
        self.server.ok(&said);
        self.calls()
    }

    /// As `count`, of the scripts of semaphores.
    async fn count_of_permits(&self, script: &str, when: &str) -> Vec<String> {
        let semaphore = self.ours.semaphore("n").expect("a good name");
        let permits = self.ours.permits("p").expect("a good name");
        // Every script is known, and there are five permits of each sort.
        let warm = async || {
            self.server.ok(&["DEL", "n", "p", "{p}:timeout"]);
            semaphore.drain().await.expect("answered");
            semaphore.try_set_permits(5, None).await.expect("answered");
            semaphore.take_with(1, Wait::Try).await.expect("free");
            semaphore.release(1).await.expect("answered");
            permits.try_set_permits(4).await.expect("answered");
            permits.set_permits(5).await.expect("answered");
            let guard = permits.acquire_with(minute()).await.expect("free");
            guard.extend(60_000 * MS).await.expect("held");
            permits.list().await.expect("answered");
            permits.total().await.expect("answered");
            let again = permits.update_lease(guard.id(), 60_000 * MS).await;
            assert!(again.expect("answered"));
            guard.release().await.expect("held");
            permits.release_held(&["0".repeat(32).parse().expect("an id")]).await
        };
        for _ in 0..2 {
            warm().await.expect("answered");
        }
        match (script, when) {
            ("acquire_semaphore.lua", "free") => {
                self.set_back();
                semaphore.take_with(1, Wait::Try).await.expect("free");
            }
            ("acquire_semaphore.lua", _) => {
                self.set_back();
                assert!(!semaphore.try_take(9).await.expect("answered"));
            }
            ("add_semaphore.lua", _) => {
                self.set_back();
                semaphore.release(1).await.expect("answered");
            }
            ("set_semaphore.lua", _) => {
                self.server.ok(&["DEL", "n"]);
                self.set_back();
                semaphore.try_set_permits(5, None).await.expect("answered");
            }
            ("drain_semaphore.lua", _) => {
                self.set_back();
                semaphore.drain().await.expect("answered");
            }
            ("set_permits.lua", "none yet") => {
                self.server.ok(&["DEL", "p"]);
                self.set_back();
                permits.try_set_permits(5).await.expect("answered");
            }
            ("set_permits.lua", _) => {
                self.set_back();
                permits.set_permits(7).await.expect("answered");
            }
            ("acquire_permits.lua", _) => {
                self.set_back();
                let guard = permits.acquire_with(minute()).await.expect("free");
                guard.leave();
            }
            _ => return self.count_of_held(script, when, &permits).await,
        }
        self.calls()
    }

    /// As `count`, of what needs a permit that is held.
    async fn count_of_held(&self, script: &str, when: &str, permits: &Permits) -> Vec<String> {
        let guard = permits.acquire_with(minute()).await.expect("free");
        let id = guard.id();
        self.set_back();
        match (script, when) {
            ("release_permits.lua", "a guard's") => {
                guard.release().await.expect("held");
                return self.calls();
            }
            ("release_permits.lua", _) => {
                permits.release(&[id]).await.expect("answered");
            }
            ("extend_permits.lua", _) => guard.extend(90_000 * MS).await.expect("held"),
            ("lease_permit.lua", _) => {
                let done = permits.update_lease(id, 90_000 * MS).await;
                assert!(done.expect("answered"));
            }
            ("count_permits.lua", _) => {
                permits.available().await.expect("answered");
            }
            ("list_permits.lua", _) => {
                permits.list().await.expect("answered");
            }
            (other, _) => {
                panic!("{other} is in the table, and nobody knows how to bring about: {when}")
            }
        }
        let calls = self.calls();
        guard.leave();
        calls
    }

    /// As `count`, of the scripts of latches.
    async fn count_of_latch(&self, script: &str, when: &str) -> Vec<String> {
        let latch = self.ours.latch("n").expect("a good name");
        latch.try_set_count(1).await.expect("answered");
        latch.count_down().await.expect("answered");
        if script == "count_down.lua" {
            let count = if when == "the last" { 1 } else { 2 };
            latch.try_set_count(count).await.expect("answered");
        }
        self.set_back();
        match script {
            "count_down.lua" => assert!(latch.count_down().await.expect("answered") < 2),
            _ => assert!(latch.try_set_count(1).await.expect("answered")),
        }
        self.calls()
    }
}

/// What the table says of a script is what the server counts; a script without a row has not been thought
/// about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_inner_calls_is_what_the_server_counts() {
    let rows = rows();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts")).expect("scripts") {
        let name = file.expect("a file").file_name().into_string().expect("text");
        let known = !name.ends_with(".lua") || rows.iter().any(|(script, ..)| *script == name);
        assert!(known, "{name} has no row in scripts/README.md");
    }
    let bench = Bench::start().await;
    let mut wrong = Vec::new();
    for (script, when, calls) in rows {
        // Shared text, what only a lost answer or a clock brings about, and what the beats of waiters run
        // beside: their rows are for the reader.
        let unreached = ["queue.lua", "heartbeat_queued.lua", "acquire_plain.lua", "undo_semaphore.lua"];
        if calls.is_empty() || unreached.contains(&script.as_str()) || when.contains("client wait") {
            continue;
        }
        let counted = bench.count(&script, &when).await;
        if counted != calls {
            wrong.push(format!("{script}, {when}: counted {counted:?}, the table has {calls:?}"));
        }
        bench.server.ok(&["FLUSHALL"]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
