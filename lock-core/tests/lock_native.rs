//! The plain lock's release on servers that have a compare-and-delete of their own (Redis 8.4, Valkey 9.0):
//! what is said, who is woken, what a lost answer, a full server and a user without the command change.
//!
//! `scripts/servers.sh` gets such servers; without one every test here says that it was skipped.

mod lock_support;
mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Lock, PubSub, Released, Wait,
    diagnostics::{Traced, Tracer},
};
use lock_support::{Loss, Relay};
use support::{PATIENCE, Server, newer_servers};

const MS: Duration = Duration::from_millis(1);
const CHANNEL: &str = "redisson_lock__channel:{n}";

fn minute() -> Acquire {
    Acquire::default()
        .wait(Wait::AtMost(PATIENCE))
        .lease(Lease::Fixed(60_000 * MS))
}

async fn lock(url: &str, options: ClientOptions) -> Lock {
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, options).await;
    let client = client.expect("it answers");
    client.lock(Kind::Plain, "n").expect("a good name")
}

async fn take(lock: &Lock) -> Guard {
    lock.acquire_with(minute()).await.expect("free")
}

async fn freed(guard: Guard) {
    assert_eq!(guard.release().await.expect("held"), Released::Freed);
}

/// A server of each program here that has such a command, and the command's name.
fn servers() -> Vec<(Server, &'static str)> {
    let started = |command: &'static str| {
        move |program: String| (Server::start_program(&program, &[]), command)
    };
    // Valkey has had both since 9.2.
    let delex = newer_servers("DELEX", "Redis 8.4, Valkey 9.2");
    let mut delifeq = newer_servers("DELIFEQ", "Valkey 9.0");
    delifeq.retain(|program| !delex.contains(program));
    let all = delex.into_iter().map(started("DELEX"));
    all.chain(delifeq.into_iter().map(started("DELIFEQ")))
        .collect()
}

/// How often a server has run a command.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.ok(&["INFO", "commandstats"]);
    let line = format!("cmdstat_{}:calls=", command.to_lowercase());
    let calls = stats
        .split(&line)
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_cycle_is_native_commands_once_the_server_is_known() {
    for (server, command) in servers() {
        for (way, words) in [
            (PubSub::Plain, &["PUBLISH"][..]),
            (PubSub::Sharded, &["SPUBLISH"]),
            (PubSub::Both, &["PUBLISH", "SPUBLISH"]),
        ] {
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<Traced>();
            let tracer = Tracer::new(move |event| drop(tell.send(event)));
            let lock = lock(
                &server.url(),
                ClientOptions::default().pub_sub(way).tracer(tracer),
            )
            .await;
            // The first release asks for the command, and is a script.
            freed(take(&lock).await).await;
            while told.try_recv().is_ok() {}
            let scripts = calls(&server, "EVALSHA");
            let guard = take(&lock).await;
            let owner = guard.owner().to_owned();
            freed(guard).await;
            assert_eq!(calls(&server, "EVALSHA"), scripts, "{command}");
            let mut said = Vec::new();
            while let Ok(event) = told.try_recv() {
                let words = [
                    &[event.command.to_owned()],
                    &event.keys[..],
                    &event.args[..],
                ];
                said.push(words.concat().join(" "));
            }
            let condition = if command == "DELEX" { "IFEQ " } else { "" };
            let mut expected = vec![
                format!("SET n {owner} NX PX 60000"),
                format!("{command} n {condition}{owner}"),
            ];
            expected.extend(words.iter().map(|word| format!("{word} {CHANNEL} 0")));
            assert_eq!(said, expected);
        }
        assert_eq!(calls(&server, command), 3);
    }
}

/// With a poll bound and a lease of a minute only the message explains an early entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_release_wakes_a_waiter() {
    for (server, command) in servers() {
        let options = ClientOptions::default().poll_bound(3 * PATIENCE);
        let ours = lock(&server.url(), options.clone()).await;
        let theirs = lock(&server.url(), options).await;
        freed(take(&ours).await).await;
        let guard = take(&ours).await;
        let waiting = tokio::spawn(async move { theirs.acquire_with(minute()).await });
        server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| {
            answer.ends_with('1')
        });
        freed(guard).await;
        let next = waiting.await.expect("no panic").expect("woken");
        assert!(calls(&server, command) > 0);
        freed(next).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_lost_answer_is_a_release_and_a_strangers_lock_is_not_harmed() {
    for (server, command) in servers() {
        for how in [Loss::Reset, Loss::Silence] {
            let relay = Relay::start(server.address()).await;
            let options = ClientOptions::default().response_timeout(300 * MS);
            let lock = lock(&relay.url(), options).await;
            freed(take(&lock).await).await;
            let guard = take(&lock).await;
            relay.lose(command, how);
            freed(guard).await;
            assert_eq!(relay.lost(), 1, "{command} {how:?}");
            assert_eq!(server.ok(&["EXISTS", "n"]), "0");

            freed(take(&lock).await).await;
            let guard = take(&lock).await;
            server.ok(&["SET", "n", "stranger"]);
            let before = calls(&server, command);
            let error = guard.release().await.expect_err("another's");
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
            assert_eq!(calls(&server, command), before + 1);
            assert_eq!(server.ok(&["GET", "n"]), "stranger");
            server.ok(&["DEL", "n"]);
        }
    }
}

#[tokio::test]
async fn a_full_server_takes_it() {
    for (server, command) in servers() {
        let lock = lock(&server.url(), ClientOptions::default()).await;
        freed(take(&lock).await).await;
        let guard = take(&lock).await;
        server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        freed(guard).await;
        assert_eq!(calls(&server, command), 1);
    }
}

/// Who may not have the command has the script, and who may not ask for it too.
#[tokio::test]
async fn a_user_without_the_command_releases_by_the_script() {
    for (server, command) in servers() {
        let without = format!("-{}", command.to_lowercase());
        for denied in [without.as_str(), "-command"] {
            server.ok(&[
                "ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", denied,
            ]);
            let url = format!("redis://app:secret@127.0.0.1:{}", server.port);
            let lock = lock(&url, ClientOptions::default()).await;
            let scripts = calls(&server, "EVALSHA");
            for _ in 0..3 {
                freed(take(&lock).await).await;
            }
            assert_eq!(calls(&server, command), 0, "{denied}");
            assert!(calls(&server, "EVALSHA") >= scripts + 3, "{denied}");
        }
    }
}

/// The address may belong to another server after a reconnect: what was known of the first is forgotten.
#[tokio::test]
async fn an_older_server_in_its_place_gets_the_script() {
    for (mut server, command) in servers() {
        let lock = lock(&server.url(), ClientOptions::default()).await;
        for _ in 0..2 {
            freed(take(&lock).await).await;
        }
        assert_eq!(calls(&server, command), 1);
        server.restart_as("redis-server");
        for _ in 0..2 {
            freed(take(&lock).await).await;
        }
        assert!(calls(&server, "EVALSHA") >= 2);
    }
}
