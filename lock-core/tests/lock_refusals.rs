//! What a server answers instead of doing it: what may pass is asked again, the rest is said at once.

mod lock_support;
mod support;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, Kind, Lease, Lock, PubSub, Released, Wait,
    diagnostics::{ConcernKind, Tracer},
};
use lock_support::{Loss, Relay, rival};
use support::{PATIENCE, Server, cluster::Cluster, sentinel::Group};

const MS: Duration = Duration::from_millis(1);

async fn lock(url: &str, kind: Kind) -> Lock {
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("it answers");
    client.lock(kind, "n").expect("a good name")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

/// Refused within the bound and said so with the code; acquired as soon as the server is ready.
async fn passes(lock: &Lock, code: &str, ready: impl FnOnce() + Send + 'static) {
    let began = Instant::now();
    let error = lock.acquire_with(minute().wait(Wait::AtMost(150 * MS))).await;
    let error = error.expect_err(code);
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    // The connection to a server that is no master is given up, and making the next one may be the last thing
    // tried; or the bound ends just before a server is asked once more.
    let said = error.to_string();
    assert!([code, "not connected", "was not asked"].iter().any(|word| said.contains(word)), "{error}");
    assert!(began.elapsed() >= 140 * MS, "{code} was not asked again");
    let ready = tokio::task::spawn_blocking(|| {
        std::thread::sleep(100 * MS);
        ready();
    });
    let guard = lock.acquire_with(minute()).await.expect("ready in time");
    ready.await.expect("no panic");
    assert_eq!(guard.release().await.expect("held"), Released::Freed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_is_asked_again_within_the_bound() {
    let server = Server::start(&["--busy-reply-threshold", "20"]);
    let call = |parts: &'static [&'static str]| {
        let stream = server.address();
        move || {
            let mut connection = redis_call(stream);
            connection(parts);
        }
    };
    for kind in [Kind::Plain, Kind::Reentrant, Kind::Redlock] {
        let lock = lock(&server.url(), kind).await;
        let warm = lock.acquire_with(minute()).await.expect("free");
        warm.release().await.expect("held");

        let long = std::thread::spawn(call(&["EVAL", "while true do end", "0"]));
        server.wait_for(&["PING"], |answer| answer.starts_with("-BUSY"));
        passes(&lock, "BUSY", call(&["SCRIPT", "KILL"])).await;
        long.join().expect("no panic");

        server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        passes(&lock, "READONLY", call(&["REPLICAOF", "NO", "ONE"])).await;
    }
    // A replica that has lost its master and may not show old data refuses scripts before their writes.
    let lock = lock(&server.url(), Kind::Reentrant).await;
    server.ok(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
    passes(&lock, "MASTERDOWN", call(&["REPLICAOF", "NO", "ONE"])).await;
}

/// Every key takes 9 ms to load, and the server answers after each.
const SLOW_TO_LOAD: [&str; 8] = [
    "--enable-debug-command",
    "yes",
    "--loading-process-events-interval-bytes",
    "1024",
    "--rdbcompression",
    "no",
    "--key-load-delay",
    "9000",
];

/// Makes the server load so many keys.
fn reload(server: &Server, keys: &str) -> std::thread::JoinHandle<()> {
    server.ok(&["DEBUG", "POPULATE", keys, "key", "2000"]);
    let address = server.address();
    let reload = std::thread::spawn(move || redis_call(address)(&["DEBUG", "RELOAD"]));
    server.wait_for(&["PING"], |answer| answer.starts_with("-LOADING"));
    reload
}

/// A question that is cut off right after it was sent makes "unknown" of what the server has refused a dozen
/// times. Bounds are tried one after the other, since some of them end just behind an attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_begins_without_time_for_its_answer() {
    let server = Server::start(&SLOW_TO_LOAD);
    let cut: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let tracer = Tracer::new({
        let cut = Arc::clone(&cut);
        move |event| {
            let reply = event.reply.unwrap_or_default();
            if reply.starts_with("lost") {
                cut.lock().expect("no panic").push(event.took);
            }
        }
    });
    let target = server.url().parse().expect("a good URL");
    let options = ClientOptions::default().tracer(tracer);
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let warm = lock.acquire_with(minute()).await.expect("free");
    warm.release().await.expect("held");
    let reload = reload(&server, "500");
    for bound in 40..80 {
        let error = lock.acquire_with(minute().wait(Wait::AtMost(bound * MS))).await;
        error.expect_err("it is loading");
    }
    reload.join().expect("no panic");
    // A busy machine may need longer than any attempt has; but each has had its time.
    let cut = cut.lock().expect("no panic");
    let shortest = cut.iter().min().copied().unwrap_or(PATIENCE);
    assert!(shortest >= 5 * MS, "{cut:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loading_server_is_waited_for() {
    let server = Server::start(&SLOW_TO_LOAD);
    let lock = lock(&server.url(), Kind::Reentrant).await;
    let reload = reload(&server, "170");
    passes(&lock, "LOADING", || {}).await;
    reload.join().expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_or_moves_is_waited_for() {
    let cluster = Cluster::start(2, false);
    let lock = lock(&cluster.url(), Kind::Reentrant).await;
    let slot = lock_core::slot(b"n");
    let (from, to) = if slot < 8192 { (0, 1) } else { (1, 0) };
    let guard = lock.acquire_with(minute()).await.expect("free");
    guard.release().await.expect("held");

    // One slot that nobody serves takes the whole cluster down.
    let missing = if slot < 8192 { "0" } else { "16383" };
    cluster.nodes[from].ok(&["CLUSTER", "DELSLOTS", missing]);
    cluster.nodes[from].wait_for(&["CLUSTER", "INFO"], |info| info.contains("cluster_state:fail"));
    let address = cluster.nodes[from].address();
    let heal = move || redis_call(address)(&["CLUSTER", "ADDSLOTS", missing]);
    passes(&lock, "CLUSTERDOWN", heal).await;

    // A held lock moves with its slot: ASK for who comes new and for the release, MOVED afterwards.
    let guard = lock.acquire_with(minute()).await.expect("free");
    cluster.begin_migration(slot, from, to);
    let port = cluster.nodes[to].port.to_string();
    cluster.nodes[from].ok(&["MIGRATE", "127.0.0.1", &port, "n", "0", "5000"]);
    guard.extend(90_000 * MS).await.expect("it is there, by ASK");
    let error = lock.acquire_with(minute().wait(Wait::Try)).await;
    assert_eq!(error.expect_err("held").kind(), ErrorKind::Busy);
    let releasing = tokio::spawn(guard.release());
    tokio::time::sleep(100 * MS).await;
    cluster.finish_migration(slot, to);
    let released = releasing.await.expect("no panic");
    assert_eq!(released.expect("held"), Released::Freed);
    let guard = lock.acquire_with(minute()).await.expect("free");
    assert_eq!(cluster.nodes[to].ok(&["EXISTS", "n"]), "1");
    guard.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_pass_is_said_at_once() {
    let server = Server::start(&[]);
    for &kind in Kind::ALL {
        let lock = lock(&server.url(), kind).await;
        let warm = lock.acquire_with(minute()).await.expect("free");
        warm.release().await.expect("held");
        for (setting, harm, cure, code) in
            [("maxmemory", "1", "0", "OOM"), ("min-replicas-to-write", "1", "0", "NOREPLICAS")]
        {
            server.ok(&["CONFIG", "SET", setting, harm]);
            let began = Instant::now();
            let error = lock.acquire_with(minute()).await.expect_err(code);
            server.ok(&["CONFIG", "SET", setting, cure]);
            assert_eq!(error.kind(), ErrorKind::Failed, "{kind}: {error}");
            assert!(error.to_string().contains(code), "{kind}: {error}");
            assert!(began.elapsed() < PATIENCE / 2, "{kind}: {code} was waited out");
            assert_eq!(server.ok(&["EXISTS", "n"]), "0", "{kind}: {code}");
        }
    }
}

/// A client that was made without dialling learns it with its first lock, however long that may wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_a_topology_from_being_found_is_said_at_once() {
    let single = Server::start(&["--requirepass", "secret"]);
    let group = Group::start(3);
    let address = single.address();
    for (url, says) in [
        (format!("redis-cluster://:secret@{address}"), "cluster support disabled"),
        (format!("redis-cluster://:wrong@{address}"), "WRONGPASS"),
        (group.url().replace("://", "://:wrong@"), "without any password"),
    ] {
        let options = ClientOptions::default().pub_sub(PubSub::Plain);
        let client = Client::new(&url.parse().expect("a good URL"), options).expect("nothing is dialled");
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        let ended = tokio::time::timeout(PATIENCE, lock.acquire()).await.expect("a wait without an end");
        let error = ended.expect_err("no master is found");
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        client.close().await;
    }
}

/// Why nobody connects to the servers of this URL.
async fn refused(url: &str) -> String {
    let error = lock_core::connect(url).await.expect_err("no server to serve");
    assert!(error.is_definite(), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_cluster_is_refused() {
    let server = Server::start(&[]);
    let error = refused(&format!("redis-cluster://{}", server.address())).await;
    assert!(error.contains("CLUSTER SLOTS") && error.contains("cluster support disabled"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_name_and_a_silent_sentinel_are_told_apart() {
    let server = Server::start(&[]);
    let monitor = format!("sentinel monitor m 127.0.0.1 {} 1\n", server.port);
    let text = |_| format!("{monitor}sentinel down-after-milliseconds m 500\n");
    let mut sentinel = Server::start_with_file(text, &["--sentinel"]);
    let url = |name: &str| format!("redis-sentinel://{}/{name}", sentinel.address());
    let error = refused(&url("other")).await;
    assert!(error.contains("knows no master `other`"), "{error}");
    // One of two sentinels is enough to find the master.
    let half = format!("redis-sentinel://127.0.0.1:1,{}/m", sentinel.address());
    let guard = lock(&half, Kind::Plain).await.acquire_with(minute()).await.expect("free");
    guard.release().await.expect("held");
    let url = url("m");
    sentinel.kill();
    let error = refused(&url).await;
    assert!(error.contains("could not connect"), "{error}");
}

/// What a server can be told to refuse writes by: a code, what brings it about and what ends it.
const WRITES_REFUSED: [(&str, [&str; 4], [&str; 4]); 2] = [
    (
        "NOREPLICAS",
        ["CONFIG", "SET", "min-replicas-to-write", "1"],
        ["CONFIG", "SET", "min-replicas-to-write", "0"],
    ),
    (
        "MISCONF",
        ["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"],
        ["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"],
    ),
];

/// A server whose last attempt to write its data to disk failed.
fn server_without_a_disk() -> Server {
    let server = Server::start(&["--stop-writes-on-bgsave-error", "no"]);
    // Nothing can be renamed to a directory with something in it.
    let directory = server.ok(&["CONFIG", "GET", "dir"]);
    let directory = directory.lines().nth(1).expect("a path");
    let in_the_way = std::path::Path::new(directory).join("dump.rdb/file");
    std::fs::create_dir_all(in_the_way).expect("a directory of ours");
    server.ok(&["CONFIG", "SET", "save", "3600 1000000"]);
    server.ok(&["BGSAVE"]);
    server.wait_for(&["INFO", "persistence"], |info| info.contains("rdb_last_bgsave_status:err"));
    server
}

/// What is given back is free soon after the refusal ends, long before the lease does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_is_given_again_until_the_server_takes_it() {
    let mut kinds = Vec::new();
    for &kind in Kind::ALL {
        kinds.push(tokio::spawn(async move {
            let server = server_without_a_disk();
            let relay = Relay::start(server.address()).await;
            let target = relay.url().parse().expect("a good URL");
            let options = ClientOptions::default().response_timeout(PATIENCE / 4);
            let client = Client::connect(&target, options).await.expect("it answers");
            let lock = client.lock(kind, "n").expect("a good name");
            let warm = lock.acquire_with(minute()).await.expect("free");
            warm.release().await.expect("held");
            // A spawned task waits for the thread that spawned it, unless that is given away.
            let exists = |wanted: &str| {
                tokio::task::block_in_place(|| {
                    server.wait_for(&["EXISTS", "n"], |answer| answer == wanted);
                });
            };
            for (code, harm, cure) in WRITES_REFUSED {
                let refused = || {
                    let counted = format!("errorstat_{code}:");
                    tokio::task::block_in_place(|| {
                        server.wait_for(&["INFO", "errorstats"], |stats| stats.contains(&counted));
                    });
                    server.ok(&cure);
                    server.ok(&["CONFIG", "RESETSTAT"]);
                };
                server.ok(&["CONFIG", "RESETSTAT"]);
                let guard = lock.acquire_with(minute()).await.expect("free");
                server.ok(&harm);
                let releasing = tokio::spawn(guard.release());
                refused();
                let released = releasing.await.expect("no panic");
                assert_eq!(released.expect("held"), Released::Freed, "{kind}: {code}");
                exists("0");

                let guard = lock.acquire_with(minute()).await.expect("free");
                server.ok(&harm);
                drop(guard);
                refused();
                exists("0");

                let word = match kind {
                    Kind::Plain => "SET",
                    _ => "EVALSHA",
                };
                relay.lose(word, Loss::Held);
                let asking = lock.clone();
                let asking = tokio::spawn(async move { asking.acquire_with(minute()).await });
                exists("1");
                server.ok(&harm);
                asking.abort();
                asking.await.expect_err("no answer yet");
                relay.heal();
                refused();
                exists("0");
            }
        }));
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
}

/// A release that needs a new connection where the server takes none, for longer than one answer may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_waits_for_a_connection_to_a_server_that_takes_no_more() {
    let server = Server::start(&[]);
    let mut calls = std::net::TcpStream::connect(server.address()).expect("a server");
    let mut admin = move |words: &str| {
        use std::io::{Read, Write};
        calls.write_all(format!("{words}\r\n").as_bytes()).expect("written");
        let mut answer = [0; 65_536];
        let read = calls.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..read]).into_owned()
    };
    let one_answer = PATIENCE / 20;
    for dropped in [false, true] {
        let target = server.url().parse().expect("a good URL");
        let options = ClientOptions::default().response_timeout(one_answer);
        let client = Client::connect(&target, options).await.expect("it answers");
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        let guard = lock.acquire_with(minute()).await.expect("free");
        admin("CONFIG SET maxclients 1");
        admin("CLIENT KILL TYPE normal SKIPME yes");
        let releasing = tokio::spawn(async move {
            match dropped {
                true => drop(guard),
                false => assert_eq!(guard.release().await.expect("held"), Released::Freed),
            }
        });
        tokio::time::sleep(one_answer * 3 / 2).await;
        assert_eq!(admin("EXISTS n"), ":1\r\n");
        admin("CONFIG SET maxclients 1000");
        releasing.await.expect("no panic");
        let until = Instant::now() + PATIENCE;
        while admin("EXISTS n") != ":0\r\n" {
            assert!(Instant::now() < until, "dropped: {dropped}: it stays");
            tokio::time::sleep(5 * MS).await;
        }
    }
}

/// A refusal in the middle of a script would be half a deed: what is said to have failed has left no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_token_counter_leaves_no_lock_behind() {
    let server = Server::start(&[]);
    let lock = lock(&server.url(), Kind::Fenced).await;
    for broken in ["no number", "9223372036854775807"] {
        server.ok(&["SET", "redisson_lock_token:{n}", broken]);
        let error = lock.acquire_with(minute()).await.expect_err("no token");
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert_eq!(server.ok(&["EXISTS", "n"]), "0", "held by nobody");
    }
}

/// A user of Redis 7 has no channels unless they are given: the lock works, and its waiters live by polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_channels_can_lock_and_release() {
    let server = Server::start(&[]);
    server.ok(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "resetchannels"]);
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port);
    for &kind in Kind::ALL {
        passes_on(&url, kind).await;
    }
}

/// A lock goes from its holder to one that waits.
async fn passes_on(url: &str, kind: Kind) {
    let others = lock(url, rival(kind)).await;
    let lock = lock(url, kind).await;
    let guard = lock.acquire_with(minute()).await.expect("free");
    let waiting = tokio::spawn(async move { others.acquire_with(minute()).await });
    tokio::time::sleep(50 * MS).await;
    let released = guard.release().await;
    assert_eq!(released.expect("held"), Released::Freed, "{kind}");
    let next = waiting.await.expect("no panic").expect("it waits");
    next.release().await.expect("held");
}

/// A proxy without CLIENT or EVALSHA, or a user without them: names are for people, and a script goes by its
/// text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_names_and_digests_is_locked_all_the_same() {
    let renamed = ["--rename-command", "CLIENT", "", "--rename-command", "EVALSHA", ""];
    let unknown = Server::start(&renamed);
    let loads_nothing = Server::start(&["--rename-command", "SCRIPT", ""]);
    let refusing = Server::start(&[]);
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-client", "-evalsha"];
    refusing.ok(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
    for url in [unknown.url(), loads_nothing.url(), format!("redis://app:secret@127.0.0.1:{}", refusing.port)]
    {
        for &kind in Kind::ALL {
            passes_on(&url, kind).await;
        }
    }
    // A refusal repeats its words up to some length, and may end within a character.
    for name in ["a".repeat(100), "ä".repeat(50), format!("x{}", "ä".repeat(50)), "日本".repeat(20)] {
        let client = lock_core::connect(&unknown.url()).await.expect("it answers");
        let lock = client.lock(Kind::Reentrant, &name).expect("a good name");
        let guard = lock.acquire_with(minute()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        guard.release().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// The rule that the book has, line by line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_the_books_rule_may_all_that_locks_need() {
    let book = include_str!("../../docs/src/lock-connections.md");
    let server = Server::start(&[]);
    let mut rules = 0;
    for line in book.lines().filter(|line| line.starts_with("ACL SETUSER")) {
        let rule = line.split('#').next().expect("a first part");
        server.ok(&rule.split_whitespace().collect::<Vec<_>>());
        rules += 1;
        if rules > 1 {
            continue;
        }
        let url = format!("redis://locks:SECRET@127.0.0.1:{}", server.port);
        for &kind in Kind::ALL {
            passes_on(&url, kind).await;
        }
        let client = lock_core::connect(&url).await.expect("it answers");
        let permits = client.permits("permits").expect("a good name");
        permits.set_permits(2).await.expect("allowed");
        let permit = permits.acquire().await.expect("allowed");
        assert_eq!(permits.list().await.expect("allowed").len(), 1);
        permit.release().await.expect("allowed");
        let semaphore = client.semaphore("semaphore").expect("a good name");
        semaphore.add_permits(1).await.expect("allowed");
        drop(semaphore.acquire(1).await.expect("allowed"));
        let latch = client.latch("latch").expect("a good name");
        assert!(latch.try_set_count(1).await.expect("allowed"));
        latch.count_down().await.expect("allowed");
        latch.wait().await.expect("allowed");
        let concerns = client.concerns();
        assert!((concerns.iter()).all(|concern| concern.kind == ConcernKind::Unread), "{concerns:?}");
        client.close().await;
    }
    assert_eq!(rules, 4);
    let url = format!("redis://locks:SECRET@127.0.0.1:{}", server.port);
    let client = lock_core::connect(&url).await.expect("it answers");
    let concerns = client.concerns();
    assert!((concerns.iter()).all(|concern| concern.kind != ConcernKind::Unread));
}

/// The book's rule for certain names: enough for every kind, and no concern.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_certain_names_may_all_that_their_locks_need() {
    let book = include_str!("../../docs/src/lock-connections.md");
    let codes = book.split('`').filter(|code| code.contains("redisson_*orders*"));
    let names: Vec<_> = codes.flat_map(str::split_whitespace).collect();
    assert_eq!(names.len(), 6);
    let server = Server::start(&[]);
    server.ok(&[&["ACL", "SETUSER", "locks", "on", ">SECRET", "+@all"], &names[..]].concat());
    let url = format!("redis://locks:SECRET@127.0.0.1:{}", server.port);
    let options = ClientOptions::default().name_prefix("orders");
    let connect = async || Client::connect(&url.parse().expect("a good URL"), options.clone()).await;
    let [ours, theirs] = [connect().await, connect().await].map(|client| client.expect("it answers"));
    for &kind in Kind::ALL {
        let [one, other] =
            [&ours, &theirs].map(|client| client.lock(kind, kind.name()).expect("a good name"));
        let guard = one.acquire_with(minute()).await.expect("allowed");
        let waiting = tokio::spawn(async move { other.acquire_with(minute()).await });
        tokio::time::sleep(50 * MS).await;
        guard.release().await.expect("held");
        waiting.await.expect("no panic").expect("told").release().await.expect("held");
    }
    let permits = ours.permits("permits").expect("a good name");
    permits.set_permits(1).await.expect("allowed");
    permits.acquire().await.expect("allowed").release().await.expect("held");
    let semaphore = ours.semaphore("semaphore").expect("a good name");
    semaphore.add_permits(1).await.expect("allowed");
    semaphore.acquire(1).await.expect("allowed").release().await.expect("held");
    let latch = ours.latch("latch").expect("a good name");
    assert!(latch.try_set_count(1).await.expect("allowed"));
    latch.count_down().await.expect("allowed");
    let surveyed = theirs.survey().await[0].concerns(Durability::None);
    for concern in [ours.concerns(), theirs.concerns(), surveyed].concat() {
        // A pattern, as waiters of a fair lock need it, is allowed to who may all.
        match concern.found.starts_with("PSUBSCRIBE ") {
            true => assert!(concern.remedy.contains("&* for fair locks"), "{concern}"),
            false => assert_eq!(concern.kind, ConcernKind::Forgets, "{concern}"),
        }
    }
}

/// A script that runs at the server refuses everything else, also the first words of a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_while_a_client_connects_is_waited_for() {
    let server = Server::start(&["--lua-time-limit", "20"]);
    waits_while_busy(&server, format!("{}/1", server.url())).await;
    let cluster = Cluster::start(1, false);
    let server = &cluster.nodes[0];
    server.ok(&["CONFIG", "SET", "lua-time-limit", "20"]);
    waits_while_busy(server, cluster.url()).await;
}

async fn waits_while_busy(server: &Server, url: String) {
    let address = server.address();
    let script = std::thread::spawn(move || {
        redis_call(address)(&["EVAL", "while true do end", "0"]);
    });
    server.wait_for(&["PING"], |answer| answer.starts_with("-BUSY"));
    let connecting = tokio::spawn(async move {
        let options = ClientOptions::default().connect_timeout(PATIENCE);
        Client::connect(&url.parse().expect("a good URL"), options).await
    });
    // It has asked, and was refused.
    server.wait_for(&["PING"], |answer| answer.starts_with("-BUSY"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!connecting.is_finished(), "it does not wait");
    server.ok(&["SCRIPT", "KILL"]);
    let client = connecting.await.expect("no panic").expect("it answers");
    let lock = client.lock(Kind::Plain, "n").expect("a good name");
    lock.acquire().await.expect("free").release().await.expect("held");
    script.join().expect("no panic");
}

/// Sends one command over a connection of its own and waits for the first byte of the answer.
fn redis_call(address: std::net::SocketAddr) -> impl FnMut(&[&str]) {
    use std::io::{Read, Write};
    move |parts| {
        let mut stream = std::net::TcpStream::connect(address).expect("a server");
        let mut request = format!("*{}\r\n", parts.len());
        for part in parts {
            request.push_str(&format!("${}\r\n{part}\r\n", part.len()));
        }
        stream.write_all(request.as_bytes()).expect("written");
        stream.read_exact(&mut [0]).expect("an answer");
    }
}
