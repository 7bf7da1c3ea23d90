//! A holder whose key somebody else deletes or overwrites is told by its server, and by nothing that it does
//! itself.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Client, ClientOptions, Durability, GuardEvent, KeyTracking, Kind, LostReason, Owner,
    diagnostics::ConcernKind,
};
use lock_support::shapes::Deployed;
use support::{PATIENCE, Server};
use tokio::time::timeout;

const MS: Duration = Duration::from_millis(1);

/// Kinds that one owner has at a time, in one server set.
const KINDS: [Kind; 7] =
    [Kind::Reentrant, Kind::NonReentrant, Kind::Plain, Kind::Fenced, Kind::Fair, Kind::Queued, Kind::Write];

fn tracking(how: KeyTracking) -> ClientOptions {
    ClientOptions::default().key_tracking(how)
}

async fn client(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

/// Waits until the server would tell of so many keys.
fn tracked(server: &Server, keys: usize) {
    let line = format!("tracking_total_keys:{keys}\r\n");
    server.wait_for(&["INFO", "stats"], |info| {
        format!("{info}\r\n").replace("\r\r", "\r").contains(line.trim_end())
    });
}

/// How often a command was called since the figures were set back.
fn calls(server: &Server, command: &str) -> u32 {
    let stats = server.ok(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.contains(command));
    let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// With a lease of 5 min neither learns it by a renewal before the test is over: the client that follows its
/// keys is told, far sooner than by its next renewal, its twin is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_at_once_and_its_twin_that_follows_no_keys_is_not() {
    for foreign in ["DEL", "SET", "PEXPIRE", "FLUSHALL"] {
        let server = Server::start(&[]);
        let lease = 300_000 * MS;
        let told = client(&server, tracking(KeyTracking::Auto).watchdog_lease(lease)).await;
        let twin = client(&server, tracking(KeyTracking::Off).watchdog_lease(lease)).await;
        let (mut told_guards, mut twin_guards) = (Vec::new(), Vec::new());
        for kind in KINDS {
            for (client, of, guards) in [(&told, "told", &mut told_guards), (&twin, "twin", &mut twin_guards)]
            {
                let lock = client.lock(kind, &format!("{of}-{kind}")).expect("a good name");
                guards.push((kind, lock.acquire().await.expect("it is free")));
            }
        }
        tracked(&server, KINDS.len());
        let done = Instant::now();
        for name in KINDS.iter().flat_map(|kind| [format!("told-{kind}"), format!("twin-{kind}")]) {
            match foreign {
                "DEL" => server.ok(&["DEL", &name]),
                "SET" => server.ok(&["SET", &name, "somebody's"]),
                "PEXPIRE" => server.ok(&["PEXPIRE", &name, "50"]),
                _ => continue,
            };
        }
        if foreign == "FLUSHALL" {
            server.ok(&["FLUSHALL"]);
        }
        for (kind, guard) in &told_guards {
            let lost = timeout(PATIENCE, guard.lost()).await;
            assert_eq!(lost, Ok(LostReason::Missing), "{kind} after {foreign}");
        }
        let (told_after, renewal_after) = (done.elapsed(), lease / 3);
        assert!(told_after < renewal_after / 50, "{foreign}: told after {told_after:?}");
        for (kind, guard) in &twin_guards {
            assert!(guard.check().is_ok(), "{kind} after {foreign}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_renewals_re_entries_and_releases_lose_nothing() {
    let server = Server::start(&[]);
    let options = tracking(KeyTracking::On).watchdog_lease(300 * MS);
    let client = client(&server, options).await;
    let owner = Owner::fresh();
    for kind in [Kind::Reentrant, Kind::Plain, Kind::Queued] {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let how = lock_core::Acquire::default().owner(owner);
        let guard = lock.acquire_with(how.clone()).await.expect("it is free");
        let mut events = guard.events();
        server.ok(&["CONFIG", "RESETSTAT"]);
        for count in 0..10 {
            let event = timeout(PATIENCE, events.next()).await.expect("renewed");
            assert!(matches!(event, Some(GuardEvent::Extended { .. })), "{kind}: {event:?}");
            if kind == Kind::Reentrant && count % 3 == 0 {
                let inner = lock.acquire_with(how.clone()).await.expect("its own");
                inner.release().await.expect("given back");
            }
        }
        // A change of its own leads to a question and not to a renewal, which would be a change again.
        let scripts = calls(&server, "cmdstat_evalsha:");
        assert!(scripts <= 30, "{kind}: {scripts} scripts for 10 renewals");
        assert!(guard.check().is_ok());
        guard.release().await.expect("given back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_tell_is_a_concern() {
    for refused in [
        &["--rename-command", "HELLO", ""][..],
        &["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-client|tracking"],
    ] {
        let server = Server::start(refused);
        let (on, auto) = (
            client(&server, tracking(KeyTracking::On)).await,
            client(&server, tracking(KeyTracking::Auto)).await,
        );
        let is_said =
            |client: &Client| (client.concerns().iter()).any(|concern| concern.kind == ConcernKind::Tracking);
        let mut guards = Vec::new();
        for client in [&on, &auto] {
            let name = format!("of {}", client.id());
            let lock = client.lock(Kind::Reentrant, &name).expect("a good name");
            guards.push(lock.acquire().await.expect("it is free"));
        }
        let said = timeout(PATIENCE, async {
            while !is_said(&on) || !is_said(&auto) {
                tokio::time::sleep(10 * MS).await;
            }
        });
        said.await.expect("it is said");
        let off = client(&server, tracking(KeyTracking::Off)).await;
        for (client, expected) in [(&auto, true), (&off, false)] {
            let surveyed = client.survey().await;
            let concerns = surveyed[0].concerns(Durability::None);
            let is_said = concerns.iter().any(|concern| concern.kind == ConcernKind::Tracking);
            assert_eq!(is_said, expected, "{concerns:?}");
        }
        off.close().await;
        // Who has been told so seldom asks again: at first after 1 s, and then after twice as long each time.
        let connections = || {
            let stats = server.ok(&["INFO", "stats"]);
            let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
            line.expect("it counts").trim().parse::<u32>().expect("a number")
        };
        // Asked by the two that are left.
        let before = connections();
        tokio::time::sleep(2_500 * MS).await;
        let more = connections() - before;
        assert!(more <= 6, "{more} connections of two clients in 2.5 s");
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
    }
}

/// A server may remember fewer keys than are followed, and says of each that it forgets that it has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_remembers_too_few_keys_is_not_asked_without_end() {
    let server = Server::start(&["--tracking-table-max-keys", "2"]);
    let client = client(&server, tracking(KeyTracking::On)).await;
    let mut guards = Vec::new();
    for number in 0..10 {
        let lock = client.lock(Kind::Reentrant, &format!("n{number}"));
        let guard = lock.expect("a good name").acquire().await;
        guards.push(guard.expect("it is free"));
    }
    tracked(&server, 2);
    server.ok(&["CONFIG", "RESETSTAT"]);
    tokio::time::sleep(1_000 * MS).await;
    let questions = calls(&server, "cmdstat_hexists:");
    assert!(questions <= 300, "{questions} questions about 10 keys in a second");
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    server.ok(&["DEL", "n3"]);
    let lost = timeout(PATIENCE, guards[3].lost()).await;
    assert_eq!(lost, Ok(LostReason::Missing));
}

/// Behind sentinels, on a cluster and on a quorum.
async fn a_deleted_key_is_told(deployed: &Deployed) {
    let lease = 300_000 * MS;
    let client = deployed.client(ClientOptions::default().watchdog_lease(lease)).await;
    let &kind = deployed.kinds().first().expect("a kind");
    let name = deployed.name_of("told", 0);
    let guard = client.lock(kind, &name).expect("a good name").acquire().await.expect("free");
    let deciders = deployed.deciders(&name);
    for &index in &deciders {
        tracked(&deployed.servers[index], 1);
    }
    for &index in &deciders {
        deployed.servers[index].ok(&["DEL", &name]);
    }
    let lost = timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost, Ok(LostReason::Missing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_deleted_key_is_told() {
    a_deleted_key_is_told(&Deployed::sentinel().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_a_deleted_key_is_told() {
    a_deleted_key_is_told(&Deployed::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_quorum_a_deleted_key_is_told() {
    a_deleted_key_is_told(&Deployed::masters(3).await).await;
}
