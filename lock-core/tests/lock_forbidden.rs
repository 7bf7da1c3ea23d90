//! Each command that a script runs, forbidden to its user: what breaks off leaves nothing without an end, and
//! what is said to have failed for certain has left nothing.

mod lock_support;
mod support;

use std::{collections::BTreeSet, time::Duration};

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Lock, LockError, Owner, Released, Wait};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
/// What every script asks of the server.
const TABLE: &str = include_str!("../scripts/README.md");

/// Every command that a script asks for.
fn commands() -> BTreeSet<&'static str> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| `"));
    let calls = rows.filter_map(|row| row.split('|').nth(3));
    let commands: BTreeSet<_> = calls.flat_map(str::split_whitespace).collect();
    assert!(commands.contains("pexpire") && commands.len() > 30);
    commands
}

/// A server with a user who may do anything but some commands.
struct Gate {
    server: Server,
    client: Client,
    /// Who may do everything.
    other: Client,
}

impl Gate {
    async fn start() -> Self {
        let server = Server::start(&[]);
        server.ok(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
        let connect = async |user: &str| {
            let url = format!("redis://{user}127.0.0.1:{}", server.port);
            let target = url.parse().expect("a good URL");
            let client = Client::connect(&target, ClientOptions::default()).await;
            client.expect("it answers")
        };
        let (client, other) = (connect("app:secret@").await, connect("").await);
        Gate { server, client, other }
    }

    fn forbid(&self, commands: &[&str]) {
        for command in commands {
            let rule = format!("-{command}");
            self.server.ok(&["ACL", "SETUSER", "app", &rule]);
        }
    }

    /// Everything is allowed again; what is given back in the background goes on until it is done.
    fn open(&self) {
        self.server.ok(&["ACL", "SETUSER", "app", "+@all"]);
    }

    /// Keys without an end, but for those that have none by design.
    fn endless(&self, by_design: &[&str]) -> Vec<String> {
        let keys = self.server.ok(&["KEYS", "*"]);
        let keys = keys.lines().filter(|key| !by_design.iter().any(|part| key.contains(part)));
        let endless = keys.filter(|key| self.server.call(&["PTTL", key]) == "-1");
        endless.map(str::to_owned).collect()
    }
}

fn minute() -> Acquire {
    Acquire::default().lease(Lease::Fixed(60_000 * MS)).wait(Wait::Try)
}

fn locks(client: &Client) -> Vec<(String, Lock)> {
    let lock = |kind: &Kind| client.lock(*kind, "n").expect("a good name");
    let mut locks: Vec<_> = Kind::ALL.iter().map(|kind| (kind.to_string(), lock(kind))).collect();
    let all = client.all_of(&["n", "{n}2"]).expect("one slot");
    locks.push(("all-of".to_owned(), all));
    locks
}

/// A token's counter has no end.
const TOKENS: [&str; 1] = ["redisson_lock_token"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_whose_script_breaks_off_stays_not_without_an_end() {
    let gate = Gate::start().await;
    let first = ClientOptions::default().writer_preference(true);
    let target = format!("redis://app:secret@127.0.0.1:{}", gate.server.port);
    let target = target.parse().expect("a good URL");
    let polite = Client::connect(&target, first).await.expect("it answers");
    let mut refused = 0;
    for (kind, lock) in locks(&gate.client).into_iter().chain(locks(&polite)) {
        for (how, by_design) in [
            (minute(), &TOKENS[..]),
            (minute().owner(Owner::numbered(1)), &TOKENS),
            (minute().token_life(60_000 * MS), &[]),
        ] {
            // Teaches the server the scripts, the undo's too.
            gate.server.ok(&["FLUSHALL"]);
            let warm = lock.acquire_with(how.clone()).await.expect("free");
            warm.release().await.expect("held");
            for command in commands() {
                gate.server.ok(&["FLUSHALL"]);
                gate.forbid(&[command]);
                let tried = lock.acquire_with(how.clone()).await;
                let case = format!("{kind} without {command}: {tried:?}");
                assert_eq!(gate.endless(by_design), [""; 0], "{case}");
                if let Err(error) = &tried {
                    refused += 1;
                    if error.is_definite() {
                        assert_eq!(gate.server.ok(&["EXISTS", "n", "{n}2"]), "0", "{case}");
                    }
                }
                gate.open();
                if let Ok(guard) = tried {
                    guard.release().await.expect("held");
                }
                gate.server.wait_for(&["EXISTS", "n", "{n}2"], |answer| answer == "0");
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// What an owner had before stays its own: neither the lock nor the list of its holds is left without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inner_hold_whose_script_breaks_off_leaves_nothing_without_an_end() {
    let gate = Gate::start().await;
    let mut refused = 0;
    for (kind, lock) in locks(&gate.client) {
        if ["plain", "non-reentrant", "queued"].contains(&kind.as_str()) {
            continue;
        }
        let minute = minute().owner(Owner::numbered(1));
        let longer = minute.clone().lease(Lease::Fixed(90_000 * MS));
        for command in [None].into_iter().chain(commands().into_iter().map(Some)) {
            gate.server.ok(&["FLUSHALL"]);
            let outer = lock.acquire_with(minute.clone()).await.expect("free");
            // The first time teaches the server the scripts.
            gate.forbid(command.as_slice());
            let tried = lock.acquire_with(longer.clone()).await;
            let case = format!("{kind} without {command:?}: {tried:?}");
            assert_eq!(gate.endless(&TOKENS), [""; 0], "{case}");
            refused += usize::from(tried.is_err());
            gate.open();
            if let Ok(inner) = tried {
                let released = inner.release().await.expect("held");
                assert_eq!(released, Released::StillHeld, "{case}");
            }
            outer.release().await.expect(&case);
            // What was counted is undone in the background.
            gate.server.wait_for(&["EXISTS", "n", "{n}2"], |answer| answer == "0");
        }
    }
    assert!(refused > 20, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_whose_script_breaks_off_stays_not_without_an_end() {
    let gate = Gate::start().await;
    let held = gate.other.lock(Kind::Reentrant, "n").expect("a good name");
    for kind in [Kind::Fair, Kind::Queued] {
        let lock = gate.client.lock(kind, "n").expect("a good name");
        let wait = async || {
            let how = minute().wait(Wait::AtMost(30 * MS));
            lock.acquire_with(how).await.expect_err("another's")
        };
        let guard = held.acquire_with(minute()).await.expect("free");
        wait().await;
        guard.release().await.expect("held");
        for command in commands() {
            gate.server.ok(&["FLUSHALL"]);
            let guard = held.acquire_with(minute()).await.expect("free");
            gate.forbid(&[command]);
            let error = wait().await;
            assert_eq!(gate.endless(&[]), [""; 0], "{kind} without {command}: {error}");
            gate.open();
            guard.release().await.expect("held");
        }
    }
}

/// Who may neither set an end nor take anything away can leave a key without one, and is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_undone_is_unknown_and_named() {
    let gate = Gate::start().await;
    for (kind, lock) in locks(&gate.client) {
        if kind == "plain" {
            // One command, which sets the end too.
            continue;
        }
        gate.server.ok(&["FLUSHALL"]);
        lock.acquire_with(minute()).await.expect("free").release().await.expect("held");
        gate.forbid(&["pexpire", "hdel", "del"]);
        let error: LockError = lock.acquire_with(minute()).await.expect_err(&kind);
        assert!(!error.is_definite(), "{kind}: {error}");
        let said = error.to_string();
        let named = kind == "redlock" || said.contains("n or a key beside it may stay without an end");
        assert!(named, "{kind}: {said}");
        gate.open();
        // It is given back in the background as soon as that may be done.
        gate.server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_whose_script_breaks_off_are_given_back() {
    let gate = Gate::start().await;
    let (counted, named) =
        (gate.client.semaphore("s").expect("a good name"), gate.client.permits("p").expect("a good name"));
    for command in commands() {
        gate.server.ok(&["FLUSHALL"]);
        assert!(counted.try_set_permits(5, None).await.expect("answered"));
        assert!(named.try_set_permits(5).await.expect("answered"));
        gate.forbid(&[command]);
        let tried = counted.take_with(2, Wait::Try).await;
        let held = named.acquire_many_with(2, minute()).await;
        gate.open();
        let free = if tried.is_ok() { "3" } else { "5" };
        gate.server.wait_for(&["GET", "s"], |answer| answer == free);
        if let Err(error) = &held {
            let all = || async { named.available().await.expect("answered") };
            let until = tokio::time::Instant::now() + PATIENCE;
            while all().await != 5 {
                assert!(tokio::time::Instant::now() < until, "{command}: {error}");
                tokio::time::sleep(5 * MS).await;
            }
        }
        if let Ok(held) = held {
            held.release().await.expect("held");
        }
    }
}
