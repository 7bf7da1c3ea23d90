//! The ways of announcing a release: with a poll bound and leases of a minute, only a message explains
//! that a waiter enters soon.

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_core::diagnostics::{Concern, ConcernKind, Tracer};
use lock_core::{
    Acquire, Client, ClientOptions, Durability, Kind, Lease, Lock, PubSub, Released, Wait, slot,
};
use support::{PATIENCE, Server, cluster::Cluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MINUTE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "redisson_lock__channel:{n}";

fn how() -> Acquire {
    Acquire::default().wait(Wait::AtMost(MINUTE)).lease(Lease::Fixed(MINUTE))
}

async fn lock(url: &str, way: PubSub, kind: Kind) -> Lock {
    let options =
        ClientOptions::default().poll_bound(MINUTE).response_timeout(Duration::from_secs(5)).pub_sub(way);
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    client.lock(kind, "n").expect("a good name")
}

/// Starts a waiter, ends the hold by `release` once the waiter listens at `server`, and waits until it has
/// entered.
async fn woken<F: Future<Output = ()>>(
    server: &Server,
    waiter: &Lock,
    listens: &[&str],
    release: impl FnOnce() -> F,
) {
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire_with(how()).await }
    });
    for numsub in listens {
        server.wait_for(&["PUBSUB", numsub, CHANNEL], |answer| answer.ends_with('1'));
    }
    // The look that follows the subscription is to find the lock taken.
    tokio::time::sleep(Duration::from_millis(100)).await;
    release().await;
    let entered = tokio::time::timeout(PATIENCE, waiting).await;
    let guard = entered.expect("a message").expect("no panic");
    let released = guard.expect("entered").release().await;
    assert_eq!(released.expect("held"), Released::Freed);
}

/// Servers before 6.0 and some proxies know no HELLO: subscriptions speak RESP2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hello_waiters_are_woken() {
    let server = Server::start(&["--rename-command", "HELLO", ""]);
    server.ok(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
    let url = format!("redis://app:secret@127.0.0.1:{}/3", server.port);
    let holder = lock(&url, PubSub::Auto, Kind::Reentrant).await;
    let waiter = lock(&url, PubSub::Auto, Kind::Reentrant).await;
    let guard = holder.acquire_with(how()).await.expect("free");
    let release = async || assert_eq!(guard.release().await.expect("held"), Released::Freed);
    woken(&server, &waiter, &["NUMSUB"], release).await;
}

fn listens(way: PubSub) -> &'static [&'static str] {
    match way {
        PubSub::Plain => &["NUMSUB"],
        PubSub::Both => &["NUMSUB", "SHARDNUMSUB"],
        _ => &["SHARDNUMSUB"],
    }
}

/// Every publisher with every listener who can hear it; each kind of script that gives back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_each_way_that_it_listens_to() {
    let cluster = Cluster::start(2, false);
    let owner = &cluster.nodes[usize::from(slot(b"n") >= 8192)];
    let url = cluster.url();
    for (from, to, kind) in [
        (PubSub::Auto, PubSub::Sharded, Kind::Reentrant),
        (PubSub::Plain, PubSub::Plain, Kind::Plain),
        (PubSub::Sharded, PubSub::Sharded, Kind::NonReentrant),
        (PubSub::Both, PubSub::Both, Kind::Reentrant),
        (PubSub::Plain, PubSub::Both, Kind::Plain),
        (PubSub::Sharded, PubSub::Both, Kind::Fenced),
        (PubSub::Both, PubSub::Plain, Kind::Fenced),
        (PubSub::Both, PubSub::Sharded, Kind::Plain),
    ] {
        let holder = lock(&url, from, kind).await;
        let waiter = lock(&url, to, kind).await;
        let guard = holder.acquire_with(how()).await.expect("free");
        woken(owner, &waiter, listens(to), || async {
            guard.release().await.expect("held");
        })
        .await;
        let guard = holder.acquire_with(how()).await.expect("free");
        woken(owner, &waiter, listens(to), || async {
            assert!(holder.force_release().await.expect("an answer"), "{kind}");
            drop(guard);
        })
        .await;
    }
}

/// What a Java peer publishes when it unlocks, in the mode that it was configured for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_peers_message_wakes() {
    let cluster = Cluster::start(2, false);
    let at = usize::from(slot(b"n") >= 8192);
    let (owner, other) = (&cluster.nodes[at], &cluster.nodes[1 - at]);
    let url = cluster.url();
    // A plain message may be published at any node of the cluster, a sharded one only at the owner of the
    // slot.
    for (way, publish, server) in [
        (PubSub::Auto, "SPUBLISH", owner),
        (PubSub::Plain, "PUBLISH", other),
        (PubSub::Both, "PUBLISH", other),
        (PubSub::Both, "SPUBLISH", owner),
    ] {
        owner.ok(&["HSET", "n", "java:1", "1"]);
        let waiter = lock(&url, way, Kind::Reentrant).await;
        woken(owner, &waiter, listens(way), || async {
            owner.ok(&["DEL", "n"]);
            server.ok(&[publish, CHANNEL, "0"]);
        })
        .await;
    }
}

/// Of a fleet whose clients listen in different ways, a release that announces in both passes over nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_whose_waiters_listen_in_different_ways_keeps_its_order() {
    let cluster = Cluster::start(2, false);
    let owner = &cluster.nodes[usize::from(slot(b"n") >= 8192)];
    let url = cluster.url();
    for kind in [Kind::Queued, Kind::Fair] {
        for ways in [
            [PubSub::Sharded, PubSub::Plain, PubSub::Both],
            [PubSub::Plain, PubSub::Both, PubSub::Sharded],
            [PubSub::Both, PubSub::Sharded, PubSub::Plain],
        ] {
            let guard = lock(&url, PubSub::Both, kind).await.acquire_with(how()).await;
            let guard = guard.expect("free");
            let (entered, mut entries) = tokio::sync::mpsc::unbounded_channel();
            let mut places = 0;
            for way in ways {
                let waiter = lock(&url, way, kind).await;
                let entered = entered.clone();
                tokio::spawn(async move {
                    let guard = waiter.acquire_with(how()).await.expect("its turn");
                    let _ = entered.send((way, guard));
                });
                places += 1;
                let place = places.to_string();
                let line = match kind {
                    Kind::Fair => ["LLEN", "redisson_lock_queue:{n}"],
                    _ => ["HLEN", "locklab_queue:{n}"],
                };
                owner.wait_for(&line, |length| length == place);
            }
            if kind == Kind::Queued {
                // A place says whether its client is subscribed.
                owner.wait_for(&["HVALS", "locklab_queue:{n}"], |line| {
                    line.lines().filter(|place| place.contains(" 1 ")).count() == 3
                });
            } else {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            guard.release().await.expect("held");
            for way in ways {
                let next = tokio::time::timeout(PATIENCE, entries.recv()).await;
                let (entered, guard) = next.expect("a message").expect("one more");
                assert_eq!(entered, way, "{kind}: not in the order {ways:?}");
                // Its own release would announce in its own way alone.
                let both = lock(&url, PubSub::Both, kind).await;
                assert!(both.force_release().await.expect("an answer"), "{kind}");
                drop(guard);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_chooses_the_way_and_options_come_first() {
    let server = Server::start(&[]);
    let both = format!("{}?pubsub=both", server.url());
    for (url, option, listens) in [
        (&both, PubSub::Auto, &["NUMSUB", "SHARDNUMSUB"][..]),
        (&both, PubSub::Sharded, &["SHARDNUMSUB"]),
        (&server.url(), PubSub::Auto, &["NUMSUB"]),
    ] {
        let holder = lock(url, option, Kind::Reentrant).await;
        let waiter = lock(url, option, Kind::Reentrant).await;
        let guard = holder.acquire_with(how()).await.expect("free");
        woken(&server, &waiter, listens, || async {
            guard.release().await.expect("held");
        })
        .await;
    }
}

/// A proxy that ends a connection at its first subscription, without a word.
async fn without_subscriptions(server: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await?;
                let (mut asked, mut answered) = ([0; 4096], [0; 4096]);
                loop {
                    tokio::select! {
                        read = client.read(&mut asked) => match read? {
                            0 => break,
                            read if asked[..read].windows(9).any(|word| word == b"SUBSCRIBE") => break,
                            read => server.write_all(&asked[..read]).await?,
                        },
                        read = server.read(&mut answered) => match read? {
                            0 => break,
                            read => client.write_all(&answered[..read]).await?,
                        },
                    }
                }
                std::io::Result::Ok(())
            });
        }
    });
    Ok(address)
}

/// What keeps messages from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deafness {
    NoChannels,
    NoCommand,
    ProxyThatHangsUp,
}

fn scripts(server: &Server) -> u32 {
    let stats = server.ok(&["INFO", "commandstats"]);
    let calls = (stats.lines()).find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = calls.and_then(|calls| calls.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_can_hear_nothing_says_so_and_looks_often_at_first() {
    for deafness in [Deafness::NoChannels, Deafness::NoCommand, Deafness::ProxyThatHangsUp] {
        let arguments: &[&str] = match deafness {
            Deafness::NoCommand => {
                &["--rename-command", "SUBSCRIBE", "", "--rename-command", "PSUBSCRIBE", ""]
            }
            _ => &[],
        };
        let server = Server::start(arguments);
        let rules = [
            "on",
            ">secret",
            "~*",
            "+@all",
            if deafness == Deafness::NoChannels { "resetchannels" } else { "&*" },
        ];
        server.ok(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
        let address = match deafness {
            Deafness::ProxyThatHangsUp => {
                let proxy = without_subscriptions(server.address()).await;
                proxy.expect("a port")
            }
            _ => server.address(),
        };
        let options = ClientOptions::default().poll_bound(MINUTE);
        let target = format!("redis://app:secret@{address}");
        let target = target.parse().expect("a good URL");
        let client = async || {
            let connected = Client::connect(&target, options.clone()).await;
            connected.expect("it answers")
        };
        // Of a server's refusals one is said: that of the latch by a client of its own.
        let (client, waits_for_latch) = (client().await, client().await);
        let says = |concerns: &[Concern]| {
            let of_kind = |concern: &&Concern| concern.kind == ConcernKind::Messages;
            let said = concerns.iter().find(of_kind);
            said.map(|concern| concern.found.clone())
        };
        assert_eq!(says(&client.concerns()), None, "{deafness:?}");
        for kind in [Kind::Plain, Kind::Reentrant, Kind::Fair, Kind::Queued] {
            let name = format!("{{n}}{kind}");
            let lock = client.lock(kind, &name).expect("a good name");
            let guard = lock.acquire_with(how()).await.expect("free");
            let waits = tokio::spawn(async move { lock.acquire_with(how()).await });
            // Until then it waits as somebody who is told.
            let until = Instant::now() + PATIENCE;
            while says(&client.concerns()).is_none() {
                assert!(Instant::now() < until, "{kind}, {deafness:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if (kind, deafness) == (Kind::Reentrant, Deafness::ProxyThatHangsUp) {
                // The connection is dialled, and ended, again and again; the waiter looks no oftener because
                // of it.
                tokio::time::sleep(Duration::from_secs(3)).await;
                let before = scripts(&server);
                tokio::time::sleep(Duration::from_secs(3)).await;
                let looks = scripts(&server) - before;
                assert!(looks <= 5, "{looks} looks from 3 to 6 s of waiting");
            }
            // By another client, since one tells its own waiters without a message.
            let released = server.call(&["DEL", &name]);
            assert_eq!(released, "1", "{kind}");
            let entered = tokio::time::timeout(PATIENCE, waits).await;
            let entered = entered.unwrap_or_else(|_| panic!("{kind} waits on, {deafness:?}"));
            let entered = entered.expect("no panic").expect("free");
            entered.release().await.expect("held");
            drop(guard);
        }
        let latch = waits_for_latch.latch("latch").expect("a good name");
        assert!(latch.try_set_count(1).await.expect("answered"));
        let waits = tokio::spawn({
            let latch = latch.clone();
            async move { latch.wait().await }
        });
        let until = Instant::now() + PATIENCE;
        let refused = |found: String| found.contains("SUBSCRIBE redisson_");
        while !says(&waits_for_latch.concerns()).is_some_and(refused) {
            assert!(Instant::now() < until, "latch, {deafness:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.ok(&["DEL", "latch"]);
        let open = tokio::time::timeout(PATIENCE, waits).await;
        open.expect("it looks").expect("no panic").expect("answered");
        let surveyed = client.survey().await;
        let surveyed = surveyed[0].concerns(Durability::None);
        assert!(says(&surveyed).is_some(), "{deafness:?}");
        client.close().await;
    }
}

/// Who hears nothing looks soon at first, then more and more seldom, and at each poll bound at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hears_nothing_looks_soon_at_first_and_later_within_the_poll_bound() {
    let server = Server::start(&[]);
    let rules = ["on", ">secret", "~*", "+@all", "resetchannels"];
    server.ok(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
    let url = format!("redis://app:secret@{}", server.address());
    let holder = lock(&server.url(), PubSub::Auto, Kind::Reentrant).await;
    let _held = holder.acquire_with(how()).await.expect("free");
    // Between so many looks each pause is a fifth longer than the one before, unless that is bounded.
    for (poll_bound, looks) in [(MINUTE, 20), (Duration::from_millis(100), 30)] {
        let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let tracer = Tracer::new(move |said| {
            if said.reply.is_some() && said.keys.first().is_some_and(|key| key == "n") {
                seen.lock().expect("no panic").push(said.at);
            }
        });
        let options = ClientOptions::default().poll_bound(poll_bound).tracer(tracer);
        let client = Client::connect(&url.parse().expect("a good URL"), options).await;
        let waiter = client.expect("it answers").lock(Kind::Reentrant, "n").expect("a good name");
        let waits = tokio::spawn(async move { waiter.acquire_with(how()).await });
        let until = Instant::now() + PATIENCE;
        let at = || asked.lock().expect("no panic").clone();
        while at().len() < looks {
            assert!(Instant::now() < until, "{} looks by a bound of {poll_bound:?}", at().len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waits.abort();
        // Before the second look it waits for the subscription.
        let pauses: Vec<_> = at().windows(2).skip(1).map(|two| two[1] - two[0]).collect();
        let (first, last) = (&pauses[..4], &pauses[pauses.len() - 4..]);
        let [first, last] = [first, last].map(|four| {
            let mut four = four.to_vec();
            four.sort_unstable();
            four[2]
        });
        assert!(first * 2 < last && last < poll_bound * 2, "{poll_bound:?}: {pauses:?}");
    }
}

/// A right that is given later is used, and its want no concern any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_channel_takes_no_other_along_and_is_heard_once_it_is_allowed() {
    let server = Server::start(&[]);
    let rules = ["on", ">secret", "~*", "+@all", "resetchannels", "&*{allowed*"];
    server.ok(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port);
    let target = url.parse().expect("a good URL");
    let options = ClientOptions::default().poll_bound(MINUTE);
    let client = Client::connect(&target, options).await.expect("it answers");
    let holder = lock(&server.url(), PubSub::Auto, Kind::Reentrant).await;
    let held = holder.acquire_with(how()).await.expect("free");
    let forbidden = client.lock(Kind::Reentrant, "n").expect("a good name");
    let forbidden = tokio::spawn(async move { forbidden.acquire_with(how()).await });
    let mut waiting = Vec::new();
    for number in 0..8 {
        let name = format!("allowed{number}");
        server.ok(&["HSET", &name, "somebody", "1"]);
        let lock = client.lock(Kind::Reentrant, &name).expect("a good name");
        waiting.push(tokio::spawn(async move { lock.acquire_with(how()).await }));
    }
    for (number, waits) in waiting.into_iter().enumerate() {
        let name = format!("allowed{number}");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        server.wait_for(&["PUBSUB", "NUMSUB", &channel], |answer| answer.ends_with('1'));
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.ok(&["DEL", &name]);
        server.ok(&["PUBLISH", &channel, "0"]);
        let entered = tokio::time::timeout(PATIENCE, waits).await;
        drop(entered.expect("a message").expect("no panic").expect("free"));
    }
    assert_eq!(client.concerns().last().map(|last| last.kind), Some(ConcernKind::Messages));
    server.ok(&["ACL", "SETUSER", "app", "&*"]);
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], |answer| answer.ends_with('1'));
    held.release().await.expect("held");
    let entered = tokio::time::timeout(PATIENCE, forbidden).await;
    drop(entered.expect("a message").expect("no panic").expect("free"));
    let of_kind = |concern: &Concern| concern.kind == ConcernKind::Messages;
    assert!(!client.concerns().iter().any(of_kind));
}
