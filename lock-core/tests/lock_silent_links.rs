//! Links that swallow everything, without a RST or a FIN: found out, dialled anew, nobody else's delay.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease, LostReason, Owner, Released, Wait};
use lock_support::{Loss, shapes::Deployed};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

/// The old connection stays silent for ever, a new one would work: only missed replies can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_dialled_anew() {
    let deployed = Deployed::single().await;
    let options = ClientOptions::default().response_timeout(150 * MS);
    let client = deployed.client(options).await;
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let relay = &deployed.relays[0];
    let guard = lock.acquire_with(minute()).await.expect("free");

    let before = relay.connections();
    relay.stall();
    // One call has four response timeouts for finding out, dialling and asking; a loaded machine may need
    // more.
    let until = Instant::now() + PATIENCE;
    while let Err(error) = guard.extend(60_000 * MS).await {
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert!(Instant::now() < until, "not over a new connection: {error}");
    }
    assert!(relay.connections() > before);
    assert_eq!(guard.release().await.expect("held"), Released::Freed);

    // And a waiter's as well: its subscription is on a silent connection, and nobody speaks to it.
    let holder = lock.acquire_with(minute()).await.expect("free");
    let waiting = tokio::spawn({
        let options = ClientOptions::default().response_timeout(150 * MS).poll_bound(60_000 * MS);
        let lock = deployed.client(options).await.lock(Kind::Reentrant, "n");
        async move { lock.expect("a good name").acquire_with(minute()).await }
    });
    let numsub = ["PUBSUB", "NUMSUB", "redisson_lock__channel:{n}"];
    deployed.servers[0].wait_for(&numsub, |answer| answer.ends_with('1'));
    relay.stall();
    // If its bound is over before the new connection stands, the release goes on in the background.
    if let Err(error) = holder.release().await {
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    }
    let guard = tokio::time::timeout(PATIENCE, waiting).await;
    let guard = guard.expect("found out").expect("no panic");
    guard.expect("entered").release().await.expect("held");
}

/// Two masters, the way to one of them swallows everything: locks and renewals on the other do not feel it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_shard_delays_no_lock_and_no_renewal_on_another() {
    let deployed = Deployed::cluster().await;
    let options = ClientOptions::default().watchdog_lease(900 * MS).response_timeout(5000 * MS);
    let client = deployed.client(options).await;
    let lock = |name: &str| client.lock(Kind::Reentrant, name).expect("a good name");
    let (bad, good) = (deployed.name_at(0), deployed.name_at(1));
    let mut held_on_bad = Vec::new();
    for number in 0..20 {
        let name = format!("{{{bad}}}:{number}");
        let guard = lock(&name).acquire_with(Acquire::default()).await;
        held_on_bad.push(guard.expect("free"));
    }
    let kept = lock(&good).acquire_with(Acquire::default()).await.expect("free");

    deployed.relays[0].black_hole();
    let silent_since = Instant::now();
    let mut cycles = Vec::new();
    while silent_since.elapsed() < 2000 * MS {
        let began = Instant::now();
        let name = format!("{{{good}}}:{}", cycles.len());
        let guard = lock(&name).acquire_with(minute()).await.expect("free");
        guard.release().await.expect("held");
        cycles.push(began.elapsed());
        assert!(!kept.is_lost(), "after {:?}", silent_since.elapsed());
        tokio::time::sleep(10 * MS).await;
    }
    cycles.sort_unstable();
    let worst = cycles[cycles.len() * 9 / 10];
    assert!(worst < 1000 * MS, "a tenth of the cycles took {worst:?}");
    for guard in &held_on_bad {
        assert_eq!(guard.lost().await, LostReason::NotRenewed);
    }
    deployed.relays[0].heal();
    assert_eq!(kept.release().await.expect("held"), Released::Freed);
    // The shard is served again, also for whom it had lost.
    let again = lock(&bad).acquire_with(minute()).await.expect("it is back");
    again.release().await.expect("held");
}

/// A quorum whose masters keep silent: within the bound it is known that nothing is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_masters_keep_nobody_beyond_the_bound() {
    let deployed = Deployed::masters(3).await;
    let options = || ClientOptions::default().response_timeout(5000 * MS).connect_timeout(5000 * MS);
    for silent in 2..=3 {
        let client = deployed.client(options()).await;
        let lock = client.lock(Kind::Redlock, "n").expect("a good name");
        lock.acquire_with(minute()).await.expect("free").release().await.expect("held");
        for relay in &deployed.relays[..silent] {
            relay.black_hole();
        }
        let began = Instant::now();
        let error = lock.acquire_with(minute().wait(Wait::AtMost(100 * MS))).await;
        let waited = began.elapsed();
        let error = error.expect_err("no majority");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        // Waiting for one of the silent would take the response timeout, 5 s.
        assert!(waited < 4000 * MS, "{silent} silent: waited {waited:?}");
        for relay in &deployed.relays {
            relay.heal();
        }
        deployed.only_latches_and_tokens_stay("n");
    }
}

/// What a master is sent may arrive when everything is over, as a network delivers what it had held: nobody's
/// lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_reaches_a_master_late_stays_on_none() {
    let deployed = Deployed::masters(3).await;
    let options = || ClientOptions::default().response_timeout(150 * MS).node_timeout(150 * MS);
    // A minority: the vote is won without it. A majority: it is lost, and given back.
    for stranded in [1, 2] {
        for owner in [None, Some(Owner::numbered(1))] {
            let client = deployed.client(options()).await;
            let lock = client.lock(Kind::Redlock, "n").expect("a good name");
            let mut how = minute().wait(Wait::Try);
            how.owner = owner;
            let warm = lock.acquire_with(how.clone()).await.expect("free");
            warm.release().await.expect("held");
            deployed.only_latches_and_tokens_stay("n");

            for relay in &deployed.relays[..stranded] {
                relay.lose("EVALSHA", Loss::Stranded);
            }
            match lock.acquire_with(how).await {
                Ok(guard) => {
                    assert_eq!(stranded, 1);
                    // The answer of the minority is lost meanwhile, and the release goes over a new
                    // connection.
                    tokio::time::sleep(50 * MS).await;
                    assert_eq!(guard.release().await.expect("held"), Released::Freed);
                }
                Err(error) => {
                    assert_eq!(stranded, 2);
                    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
                }
            }
            // Everything is given back before the late ones arrive.
            tokio::time::sleep(300 * MS).await;
            deployed.only_latches_and_tokens_stay("n");
            for relay in &deployed.relays {
                relay.heal();
            }
            let mut free_since = Instant::now();
            let until = Instant::now() + PATIENCE;
            while free_since.elapsed() < 200 * MS {
                for server in &deployed.servers {
                    if server.ok(&["EXISTS", "n"]) == "1" {
                        free_since = Instant::now();
                    }
                }
                assert!(Instant::now() < until, "{stranded} late, {owner:?}: held by nobody");
                tokio::time::sleep(5 * MS).await;
            }
        }
    }
}

/// The timers of established connections to a port of this machine.
#[cfg(target_os = "linux")]
fn timers(port: u16) -> Vec<String> {
    // The fields of proc_net_tcp(5): our end, the other end, the state (01 is established), the queues, the
    // timer (02 is keepalive, then what is left of it in hundredths of a second).
    let other_end = format!(":{port:04X}");
    let connections = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let fields = connections.lines().map(|line| line.split_whitespace());
    let ours = fields.filter_map(|fields| {
        let fields: Vec<&str> = fields.collect();
        (fields[2].ends_with(&other_end) && fields[3] == "01").then(|| fields[5].to_owned())
    });
    ours.collect()
}

/// What lies between a client and its server forgets the link while the client is idle, as NATs do. That is
/// found out after the link timeout, so that the first question afterwards goes over a new connection.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_was_forgotten_while_its_client_was_idle_is_dialled_anew() {
    let deployed = Deployed::single().await;
    let usual = deployed.client(ClientOptions::default()).await;
    let client = deployed.client(ClientOptions::default().link_timeout(300 * MS)).await;
    let relay = &deployed.relays[0];
    let connected = || timers(relay.address.port()).len();
    assert_eq!(connected(), 2);
    relay.stall();
    let until = Instant::now() + PATIENCE;
    while connected() > 1 {
        assert!(Instant::now() < until, "nobody has asked whether the link is there");
        tokio::time::sleep(5 * MS).await;
    }
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    let guard = lock.try_acquire().await.expect("definite").expect("free");
    assert_eq!(guard.release().await.expect("held"), Released::Freed);
    // The other still believes in its link: it has 15 s, and the new connection is the second.
    assert_eq!(connected(), 2);
    usual.close().await;
}

/// Every connection of a client has the system's keepalive timer running, also while nobody asks anything on
/// it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_probes_an_idle_link() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("reachable");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = lock.acquire_with(minute()).await.expect("free");

    // Within the 15 s after which PING is asked too.
    let link_timeout = ClientOptions::default().link_timeout;
    assert_eq!(link_timeout, Duration::from_secs(15));
    let probes = |timer: &str| {
        let left = timer.strip_prefix("02:").and_then(|left| u64::from_str_radix(left, 16).ok());
        left.is_some_and(|left| Duration::from_millis(left * 10) <= link_timeout)
    };
    // A request under way has the timer of a retransmission instead.
    let until = Instant::now() + PATIENCE;
    loop {
        let timers = timers(server.port);
        if !timers.is_empty() && timers.iter().all(|timer| probes(timer)) {
            break;
        }
        assert!(Instant::now() < until, "no keepalive: {timers:?}");
        tokio::time::sleep(5 * MS).await;
    }
    guard.release().await.expect("held");
}
