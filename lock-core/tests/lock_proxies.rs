//! Servers behind a proxy that answers some commands itself, or hangs up at them.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, AddressMap, Client, ClientOptions, Durability, ErrorKind, Kind, diagnostics::ConcernKind,
};
use support::{
    PATIENCE, Server,
    cluster::Cluster,
    proxy::{Passage, Proxy},
    sentinel::Group,
};

/// What is not ready yet and says so to `command`, until it is.
struct Unready {
    proxy: Proxy,
    refusals: Arc<AtomicUsize>,
    ready: Arc<AtomicBool>,
}

impl Unready {
    fn before(server: &Server, command: &'static str, error: &str) -> Self {
        let (refusals, ready, error) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default(), error.to_owned());
        let (counted, is_ready) = (Arc::clone(&refusals), Arc::clone(&ready));
        let proxy = Proxy::before(server.address(), move |words| {
            if words[0] != command || is_ready.load(Ordering::SeqCst) {
                return Passage::Forwarded;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            Passage::Refused(error.clone())
        });
        Unready { proxy, refusals, ready }
    }

    fn refusals(&self) -> usize {
        self.refusals.load(Ordering::SeqCst)
    }
}

/// Connects through what is not ready, which is asked again, and takes a lock once it is ready.
async fn waits_until_ready(shape: &str, url: &str, options: ClientOptions, unready: &Unready) {
    let (target, options) = (url.parse().expect("a good URL"), options.connect_timeout(PATIENCE));
    let connecting = tokio::spawn(async move { Client::connect(&target, options).await });
    while unready.refusals() < 3 && !connecting.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unready.ready.store(true, Ordering::SeqCst);
    let client = connecting.await.expect("no panic");
    let client = client.unwrap_or_else(|error| panic!("{shape}: {error}"));
    let kind = if url.starts_with("redlock") { Kind::Redlock } else { Kind::Reentrant };
    let lock = client.lock(kind, "n").expect("a good name");
    lock.acquire_timeout(PATIENCE).await.expect("free").release().await.expect("held");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_waits_while_a_server_is_not_ready_for_whatever_reason() {
    const PASSING: [&str; 6] = ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "TRYAGAIN", "UNBLOCKED"];
    let server = Server::start(&[]);
    let other = Server::start(&[]);
    let cluster = Cluster::start(1, false);
    let group = Group::start(1);
    let master = &group.data[0];
    for word in PASSING {
        let error = format!("{word} it is not ready");
        let unready = Unready::before(&server, "SELECT", &error);
        let url = format!("{}/1", unready.proxy.url());
        waits_until_ready(word, &url, ClientOptions::default(), &unready).await;
        let unready = Unready::before(&server, "PING", &error);
        let url = format!("redlock://{},{}", other.address(), unready.proxy.address());
        waits_until_ready(word, &url, ClientOptions::default(), &unready).await;
        let unready = Unready::before(&cluster.nodes[0], "CLUSTER", &error);
        let url = format!("redis-cluster://{}", unready.proxy.address());
        waits_until_ready(word, &url, ClientOptions::default(), &unready).await;
    }
    // A replica that is promoted, but has not been told yet, is one of the reasons there.
    for word in PASSING.into_iter().chain(["READONLY"]) {
        let unready = Unready::before(master, "ROLE", &format!("{word} it is not ready"));
        let map = AddressMap::from([(("127.0.0.1".to_owned(), master.port), unready.proxy.address())]);
        let options = ClientOptions::default().address_map(map);
        waits_until_ready(word, &group.url(), options, &unready).await;
    }
    // What does not pass is said at once, and asked once.
    let unready = Unready::before(&server, "SELECT", "ERR this is no proxy for databases");
    let url = format!("{}/1", unready.proxy.url()).parse().expect("a good URL");
    let refused = Client::connect(&url, ClientOptions::default().connect_timeout(PATIENCE)).await;
    let error = refused.expect_err("it is not allowed");
    assert_eq!((error.kind(), unready.refusals()), (ErrorKind::Failed, 1), "{error}");
}

/// A wait without a bound ends for what stays, and not for what a proxy says while it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_map_of_a_cluster_is_waited_for_unless_it_never_comes() {
    let cluster = Cluster::start(1, false);
    for (error, stays) in [
        ("ERR no upstream is ready", false),
        ("ERR unknown command 'CLUSTER'", true),
        ("ERR Unknown subcommand or wrong number of arguments for 'SLOTS'", true),
        ("NOPERM this user may not", true),
    ] {
        let unready = Unready::before(&cluster.nodes[0], "CLUSTER", error);
        let url = format!("redis-cluster://{}?pubsub=plain", unready.proxy.address());
        let client = Client::new(&url.parse().expect("a good URL"), ClientOptions::default());
        let client = client.expect("nothing is dialled");
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        while unready.refusals() < 6 && !waiting.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        unready.ready.store(true, Ordering::SeqCst);
        let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
        match ended {
            Ok(guard) => assert!(!stays && guard.release().await.is_ok(), "{error}"),
            Err(said) => assert!(stays && said.to_string().contains(error), "{error}: {said}"),
        }
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_in_the_middle_of_a_failover_waits_for_its_end() {
    let mut group = Group::start(3);
    group.data[0].kill();
    let options = ClientOptions::default().connect_timeout(PATIENCE);
    let client = Client::connect(&group.url().parse().expect("a good URL"), options).await;
    let client = client.expect("the replica is promoted");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    lock.acquire_timeout(PATIENCE).await.expect("free").release().await.expect("held");
    client.close().await;
}

/// A lock is taken, a waiter is woken by a message and no poll, and what is missing is named.
async fn locks_through(what: &str, proxy: &Proxy, concern: Option<ConcernKind>) {
    let options = ClientOptions::default().poll_bound(Duration::from_secs(60)).client_name("tests");
    let target = proxy.url().parse().expect("a good URL");
    let connected = Client::connect(&target, options).await;
    let client = connected.unwrap_or_else(|error| panic!("{what}: {error}"));
    for kind in [Kind::Plain, Kind::Reentrant, Kind::Fair, Kind::Queued] {
        let lock = client.lock(kind, kind.name()).expect("a good name");
        let taken = lock.acquire_timeout(PATIENCE).await;
        let held = taken.unwrap_or_else(|error| panic!("{what}, {kind}: {error}"));
        let waits = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire_timeout(PATIENCE).await }
        });
        held.release().await.unwrap_or_else(|error| panic!("{what}, {kind}: {error}"));
        let woken = waits.await.expect("no panic");
        let woken = woken.unwrap_or_else(|error| panic!("{what}, {kind}: {error}"));
        woken.release().await.unwrap_or_else(|error| panic!("{what}, {kind}: {error}"));
    }
    let other = Client::connect(&target, client.options().clone()).await.expect("it answers");
    let (ours, theirs) = [&client, &other].map(|client| client.lock(Kind::Reentrant, "shared")).into();
    let held = theirs.expect("a good name").acquire_timeout(PATIENCE).await.expect("free");
    let waits = tokio::spawn(async move { ours.expect("a good name").acquire_timeout(PATIENCE).await });
    let concerns = || [client.concerns(), other.concerns()].concat();
    let until = Instant::now() + PATIENCE;
    while concern.is_some() && !concerns().iter().any(|one| Some(one.kind) == concern) {
        assert!(Instant::now() < until, "{what}: {:?}", concerns());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.release().await.expect("held");
    let woken = waits.await.expect("no panic");
    woken.unwrap_or_else(|error| panic!("{what}: {error}")).release().await.expect("held");
    client.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_answers_otherwise_is_locked_through() {
    type Answer = fn() -> Passage;
    let tracking = Some(ConcernKind::Tracking);
    let messages = Some(ConcernKind::Messages);
    let cases: [(&[&str], Answer, Option<ConcernKind>); 16] = [
        (&["HELLO"], || Passage::Said("{ok='OK'}"), tracking),
        (&["CLIENT"], || Passage::Said("7"), tracking),
        (&["SUBSCRIBE"], || Passage::Said("{ok='OK'}"), messages),
        (&["SUBSCRIBE"], || Passage::Said("{1, 2}"), messages),
        (&["CONFIG"], || Passage::HungUp, Some(ConcernKind::Unread)),
        (&["HELLO"], || Passage::Refused("ERR unsupported command 'HELLO'".to_owned()), tracking),
        (&["HELLO"], || Passage::Refused("NOPROTO unsupported protocol version".to_owned()), tracking),
        (&["HELLO"], || Passage::HungUp, tracking),
        (&["CLIENT"], || Passage::Refused("ERR unknown command 'CLIENT'".to_owned()), tracking),
        (&["EVALSHA"], || Passage::Refused("ERR unknown command 'EVALSHA'".to_owned()), None),
        // Redis before 7.0, a proxy that names nothing, and one whose errors have no code.
        (&["EVALSHA"], || Passage::Refused("ERR unknown command `EVALSHA`".to_owned()), None),
        (&["EVALSHA"], || Passage::Refused("ERR unsupported".to_owned()), None),
        (&["EVALSHA"], || Passage::Refused("unsupported command 'evalsha'".to_owned()), None),
        (&["EVALSHA"], || Passage::HungUp, None),
        (&["SCRIPT"], || Passage::HungUp, None),
        (&["EVALSHA", "SCRIPT", "HELLO"], || Passage::HungUp, tracking),
    ];
    for (commands, answer, concern) in cases {
        let server = Server::start(&[]);
        let proxy = Proxy::before(server.address(), move |words| match commands.contains(&&*words[0]) {
            true => answer(),
            false => Passage::Forwarded,
        });
        locks_through(&format!("{commands:?}"), &proxy, concern).await;
    }
}

/// What is said of a target that cannot be connected to.
async fn unreached(url: &str, options: ClientOptions) -> String {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, options).await.expect_err("it cannot serve").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_connection_begins_with_is_named_when_it_is_answered_otherwise() {
    let server = Server::start(&[]);
    let cluster = Cluster::start(1, false);
    let refused: fn() -> Passage = || Passage::Refused("ERR no such thing here".to_owned());
    let nothing: fn() -> Passage = || Passage::Said("false");
    for (word, passage, says) in [
        ("SELECT", nothing, "SELECT: an answer that cannot be read: nil"),
        ("SELECT", refused, "SELECT: "),
        ("AUTH", || Passage::Said("7"), "AUTH: an answer that cannot be read: int(7)"),
        ("PING", refused, "PING: "),
    ] as [(&'static str, fn() -> Passage, &str); 4]
    {
        let proxy = Proxy::before(server.address(), move |said| match said[0] == word {
            true => passage(),
            false => Passage::Forwarded,
        });
        let password = if word == "AUTH" { ":secret@" } else { "" };
        let url = format!("redis://{password}{}/1", proxy.address());
        let error = unreached(&url, ClientOptions::default()).await;
        assert!(error.contains(says), "{word}: {error}");
    }
    for (question, passage, says) in
        [("INFO", refused, "no such thing here"), ("SLOTS", nothing, "cannot be read: array([nil")]
    {
        let proxy = Proxy::before(cluster.nodes[0].address(), move |said| match said.get(1) {
            Some(word) if said[0] == "CLUSTER" && word == question => passage(),
            _ => Passage::Forwarded,
        });
        let url = format!("redis-cluster://{}", proxy.address());
        let error = unreached(&url, ClientOptions::default()).await;
        assert!(error.contains(says) && error.len() < 500, "{question}: {error}");
    }
    let rule = "user default on nopass ~* &* +@all -sentinel|master";
    let monitored = |_| format!("sentinel monitor m 127.0.0.1 {} 1\n{rule}\n", server.port);
    let sentinel = Server::start_with_file(monitored, &["--sentinel"]);
    let url = format!("redis-sentinel://{}/m", sentinel.address());
    let error = unreached(&url, ClientOptions::default()).await;
    assert!(error.contains("sentinel|master") && !error.contains("array"), "{error}");
}

/// Who waits without a bound is told of what does not pass, and nothing stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_does_not_pass_ends_every_wait() {
    let refused: fn() -> Passage = || Passage::Refused("NOPERM this user may not".to_owned());
    for (word, passage, kind, says) in [
        ("EVALSHA", || Passage::Said("{ok='OK'}"), ErrorKind::Unknown, "cannot be read: ok"),
        ("WAIT", refused, ErrorKind::Failed, "WAIT: "),
        ("WAIT", || Passage::Said("{ok='OK'}"), ErrorKind::Failed, "WAIT: an answer that cannot be read: ok"),
    ] as [(&'static str, fn() -> Passage, ErrorKind, &str); 3]
    {
        let server = Server::start(&[]);
        let proxy = Proxy::before(server.address(), move |said| match said[0] == word {
            true => passage(),
            false => Passage::Forwarded,
        });
        let target = proxy.url().parse().expect("a good URL");
        let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
        let durability = if word == "WAIT" { Durability::Wait(1) } else { Durability::None };
        for of in [Kind::Plain, Kind::Reentrant, Kind::Queued] {
            if (of, word) == (Kind::Plain, "EVALSHA") {
                continue;
            }
            let lock = client.lock(of, of.name()).expect("a good name");
            let how = Acquire::default().durability(durability);
            let ended = tokio::time::timeout(PATIENCE, lock.acquire_with(how)).await;
            let error = ended.unwrap_or_else(|_| panic!("{of}, {word}: it waits on")).expect_err("no lock");
            assert_eq!(error.kind(), kind, "{of}, {word}: {error}");
            assert!(error.to_string().contains(says), "{of}, {word}: {error}");
            server.wait_for(&["EXISTS", of.name()], |there| there == "0");
        }
        client.close().await;
    }
}

/// A proxy that hangs up at digests may refuse the texts, too, which is said once and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_texts_where_digests_end_the_connection_is_final() {
    let server = Server::start(&[]);
    let texts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&texts);
    let proxy = Proxy::before(server.address(), move |words| match &*words[0] {
        "EVALSHA" => Passage::HungUp,
        "EVAL" if words[1].contains("PEXPIRE") && words[3] == "N" => {
            counted.fetch_add(1, Ordering::SeqCst);
            Passage::Refused("ERR this proxy runs no scripts".to_owned())
        }
        _ => Passage::Forwarded,
    });
    let target = proxy.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let error = lock.acquire_timeout(PATIENCE).await.expect_err("no script runs");
    assert_eq!((error.kind(), error.server_code()), (ErrorKind::Unknown, Some("ERR")), "{error}");
    assert_eq!(texts.load(Ordering::SeqCst), 1, "{error}");
    client.close().await;
}

/// Each answer behind one that never comes would be taken for that to the request before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_taken_for_another_behind_a_proxy_that_swallows_one() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(server.address(), |words| match &*words[0] {
        "INFO" => Passage::Swallowed,
        _ => Passage::Forwarded,
    });
    let target = proxy.url().parse().expect("a good URL");
    let options = ClientOptions::default().response_timeout(Duration::from_millis(300));
    let client = Client::connect(&target, options).await.expect("it answers");
    for round in 0..3 {
        for kind in [Kind::Reentrant, Kind::Queued] {
            let lock = client.lock(kind, &format!("{kind}{round}")).expect("a good name");
            let guard =
                lock.acquire_timeout(PATIENCE).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
            let holder = lock.holder().await.expect("it answers").expect("it is held");
            assert!(guard.owner().starts_with(&holder.owner), "{kind}: {holder:?}");
            guard.release().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
    }
    client.close().await;
}
