//! The form of what is said on the wire, as the server's MONITOR shows it.

mod lock_support;
mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Owner, Wait};
use support::{
    PATIENCE, Server,
    monitor::{Monitor, sent},
};

#[tokio::test]
async fn a_cycle_is_two_commands_in_the_form_of_rlock() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let how = Acquire::default().wait(Wait::Try).lease(Lease::Fixed(Duration::from_secs(30)));
    // The first cycle loads the scripts.
    lock.acquire_with(how.clone()).await.expect("free").release().await.expect("held");

    let mut monitor = Monitor::start(&server);
    let before = client.stats().commands;
    let guard = lock.acquire_with(how).await.expect("free");
    let owner = guard.owner().to_owned();
    guard.release().await.expect("held");
    assert_eq!(client.stats().commands - before, 2);
    let all = monitor.until_echo(&server);
    let sent = sent(&all);
    assert_eq!(sent.len(), 2, "{all:?}");
    assert_eq!(sent[0][0], "EVALSHA");
    assert_eq!(sent[0][2..], ["1", "n", "30000", &owner]);
    assert_eq!(sent[1][0], "EVALSHA");
    assert_eq!(sent[1][2..], ["1", "n", &owner]);
    let inner: Vec<_> =
        all.iter().filter(|(inner, _)| *inner).map(|(_, words)| words.join(" ").to_lowercase()).collect();
    let owner = owner.to_lowercase();
    assert_eq!(
        inner,
        [
            "pttl n".to_owned(),
            format!("hset n {owner} 1"),
            "pexpire n 30000".to_owned(),
            format!("hdel n {owner}"),
            "publish redisson_lock__channel:{n} 0".to_owned(),
        ]
    );
    let (uuid, number) = owner.split_once(':').expect("two parts");
    assert_eq!(uuid, client.id());
    assert!(number.parse::<u64>().is_ok(), "{number}");
}

#[tokio::test]
async fn an_owner_that_may_come_again_brings_latches() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let how = Acquire::default().owner(Owner::numbered(5));
    let how = how.wait(Wait::Try).lease(Lease::Fixed(Duration::from_secs(10)));
    lock.acquire_with(how.clone()).await.expect("free").release().await.expect("held");

    let mut monitor = Monitor::start(&server);
    lock.acquire_with(how).await.expect("free").release().await.expect("held");
    let all = monitor.until_echo(&server);
    let sent = sent(&all);
    assert_eq!(sent.len(), 2, "{all:?}");
    let owner = format!("{}:5", client.id());
    let list = format!("locklab_holds_latch:{{n}}:{owner}");
    let latch = sent[0][5].clone();
    let id = latch.strip_prefix("redisson_acquire_latch:{n}:");
    let id = id.expect("an acquire latch");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(sent[0][2..], ["3", "n", &list, &latch, "10000", &owner, "1"]);
    assert_eq!(
        sent[1][2..],
        ["3", "n", &list, &latch, &owner, "PUBLISH", "1", "redisson_lock__channel:{n}", "10000"]
    );
}

#[tokio::test]
async fn a_waiter_tries_subscribes_and_tries_again() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    lock.acquire_with(Acquire::default()).await.expect("free").release().await.expect("held");
    server.ok(&["HSET", "n", "stranger:1", "1"]);
    let mut monitor = Monitor::start(&server);
    let how = Acquire::default().wait(Wait::AtMost(Duration::from_millis(300)));
    lock.acquire_with(how).await.expect_err("it is another's");
    let all = monitor.until_echo(&server);
    let names: Vec<_> = sent(&all).iter().map(|words| words[0].to_uppercase()).collect();
    let names: Vec<_> =
        names.iter().map(String::as_str).filter(|name| !["HELLO", "CLIENT"].contains(name)).collect();
    assert_eq!(names[..3], ["EVALSHA", "SUBSCRIBE", "EVALSHA"], "{all:?}");
    let subscribe = sent(&all).into_iter().find(|words| words[0].eq_ignore_ascii_case("SUBSCRIBE"));
    assert_eq!(subscribe.expect("found above")[1..], ["redisson_lock__channel:{n}"]);
}

/// A name whose braces part the keys could be taken and never released on a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_refuses_names_that_part_their_keys_and_speaks_within_the_slot() {
    let cluster = support::cluster::Cluster::start(2, false);
    let target = cluster.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    for name in ["a}b", "a{b", "{}ab", "a{}b{c}"] {
        let error = client.lock(Kind::Reentrant, name).expect_err("two slots");
        assert_eq!(error.kind(), lock_core::ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("slot"), "{error}");
    }
    for name in ["orders", "users", "{orders}:1", "x{y}z"] {
        let lock = client.lock(Kind::Reentrant, name).expect("a good name");
        let guard = lock.acquire_with(Acquire::default()).await.expect("free");
        guard.release().await.expect("held");
    }
}

/// What a kind sends for one cycle of a fresh owner: command by command, keys and all.
#[tokio::test]
async fn every_kind_says_no_more_than_it_must() {
    for &kind in Kind::ALL {
        let server = Server::start(&[]);
        let target = server.url().parse().expect("a good URL");
        let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
        let lock = client.lock(kind, "n").expect("a good name");
        let how = Acquire::default().wait(Wait::Try).lease(Lease::Fixed(Duration::from_secs(30)));
        let guard = lock.acquire_with(how.clone()).await.expect("free");
        guard.release().await.expect("held");

        let mut monitor = Monitor::start(&server);
        let guard = lock.acquire_with(how).await.expect("free");
        let owner = guard.owner().to_owned();
        guard.release().await.expect("held");
        let all = monitor.until_echo(&server);
        let sent: Vec<_> = sent(&all)
            .iter()
            .map(|words| {
                // The digest of a script says nothing.
                let from = if words[0] == "EVALSHA" { 2 } else { 1 };
                format!("{} {}", words[0], words[from..].join(" "))
            })
            .collect();
        let (channel, word) = match kind {
            Kind::Read => ("redisson_rwlock:{n}", "0"),
            Kind::Write => ("redisson_rwlock:{n}", "1"),
            _ => ("redisson_lock__channel:{n}", "0"),
        };
        let line = "redisson_lock_token:{n} locklab_queue:{n} locklab_queue_order:{n}";
        let fair = "redisson_lock_queue:{n} redisson_lock_timeout:{n} locklab_fair_latch:{n}";
        let acquire = match kind {
            Kind::Plain => format!("SET n {owner} NX PX 30000"),
            Kind::Fenced => format!("EVALSHA 2 n redisson_lock_token:{{n}} 30000 {owner} 0"),
            Kind::Queued => format!("EVALSHA 4 n {line} 30000 {owner} PUBLISH 2000"),
            Kind::Fair => format!("EVALSHA 5 n {fair} {channel} 30000 {owner} PUBLISH 0"),
            Kind::Read | Kind::Write => {
                let stands_back = u8::from(kind == Kind::Read);
                format!("EVALSHA 2 n locklab_writers_latch:{{n}} 30000 {owner} {stands_back}")
            }
            _ => format!("EVALSHA 1 n 30000 {owner}"),
        };
        let release = match kind {
            // Nobody listens.
            Kind::Spin => format!("EVALSHA 1 n {owner} QUIET"),
            Kind::Queued => format!("EVALSHA 4 n {line} {owner} PUBLISH 2000"),
            Kind::Fair => format!("EVALSHA 5 n {fair} {channel} {owner} PUBLISH 0"),
            Kind::Read | Kind::Write => format!("EVALSHA 1 n {owner} PUBLISH {channel}"),
            // The channel is the script's own business.
            _ => format!("EVALSHA 1 n {owner}"),
        };
        assert_eq!(sent, [acquire, release], "{kind}");
        let told = all.iter().any(|(inner, words)| {
            *inner && words[0].eq_ignore_ascii_case("publish") && words[1..] == [channel, word]
        });
        // A lock with a line speaks to the next in it alone, and there is nobody.
        let speaks = !matches!(kind, Kind::Spin | Kind::Fair | Kind::Queued);
        assert_eq!(told, speaks, "{kind}: {all:?}");
    }
}

/// Every short name with braces in it: what is taken in works with all its companions, which the cluster
/// itself judges; what is refused would not have, and works too once it is put in braces as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_takes_exactly_the_names_whose_keys_share_a_slot() {
    let cluster = support::cluster::Cluster::start(2, false);
    let target = cluster.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let options = ClientOptions::default().retag_names(true);
    let retagging = Client::connect(&target, options).await.expect("it answers");
    let mut names = vec![String::new()];
    for _ in 0..4 {
        let longer = names.iter().flat_map(|name| ["a", "{", "}"].map(|c| format!("{name}{c}")));
        let mut longer: Vec<_> = longer.filter(|name| !names.contains(name)).collect();
        names.append(&mut longer);
    }
    names.retain(|name| !name.is_empty());
    let mut refused = 0;
    for name in &names {
        // An owner with a number brings the latches: lock, token, channel and latches in one script each.
        let how = Acquire::default().owner(Owner::numbered(1));
        let how = how.wait(Wait::AtMost(PATIENCE));
        let retagged = retagging.lock(Kind::Fenced, name).expect("any name");
        let guard = retagged.acquire_with(how.clone()).await.expect("one slot");
        guard.release().await.expect("one slot");
        let Ok(lock) = client.lock(Kind::Fenced, name) else {
            refused += 1;
            assert!(retagged.name().contains(name.as_str()) && retagged.name() != name);
            let channel = if name.contains('{') {
                format!("redisson_lock__channel:{name}")
            } else {
                format!("redisson_lock__channel:{{{name}}}")
            };
            let slot = |key: &str| cluster.nodes[0].ok(&["CLUSTER", "KEYSLOT", key]);
            assert_ne!(slot(name), slot(&channel), "{name} could work");
            continue;
        };
        assert_eq!(retagged.name(), name);
        let guard = lock.acquire_with(how).await.expect("one slot");
        guard.release().await.expect("one slot");
    }
    assert!(refused > 0 && refused < names.len(), "{refused} of {}", names.len());
}

/// The keys that RReadWriteLock leaves when a writer reads and then writes no more, and its channel and
/// payloads. One word more: who waits to read is told of the downgrade.
#[tokio::test]
async fn a_downgrade_goes_by_the_keys_and_the_channel_of_rreadwritelock() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let lock = client.read_write("n").expect("a good name");
    let how = Acquire::default()
        .wait(Wait::Try)
        .lease(Lease::Fixed(Duration::from_secs(30)))
        .owner(Owner::numbered(5));
    let owner = format!("{}:5", client.id());
    let ending = format!("{{n}}:{owner}:rwlock_timeout:1");
    // Teaches the server the scripts.
    for side in [lock.read(), lock.write()] {
        let warm = side.acquire_with(how.clone()).await.expect("free");
        warm.release().await.expect("held");
    }
    let fields = |expected: &[&str]| {
        let all = server.ok(&["HGETALL", "n"]);
        let all: Vec<_> = all.lines().collect();
        let pairs = |words: &[&str]| -> std::collections::BTreeSet<String> {
            words.chunks(2).map(|pair| pair.join(" ")).collect()
        };
        assert_eq!(pairs(&all), pairs(expected));
    };

    let mut monitor = Monitor::start(&server);
    let writing = lock.write().acquire_with(how.clone()).await.expect("free");
    let write_field = format!("{owner}:write");
    fields(&["mode", "write", &write_field, "1"]);
    let reading = lock.read().acquire_with(how.clone()).await.expect("ours");
    fields(&["mode", "write", &write_field, "1", &owner, "1"]);
    let left: u64 = server.ok(&["PTTL", &ending]).parse().expect("ms");
    assert!(left <= 30_000 && left > 15_000, "{left}");
    writing.release().await.expect("held");
    fields(&["mode", "read", &owner, "1"]);
    let again = lock.read().acquire_with(how).await.expect("ours");
    fields(&["mode", "read", &owner, "2"]);
    let second = format!("{{n}}:{owner}:rwlock_timeout:2");
    assert_eq!(server.ok(&["EXISTS", &ending, &second]), "2");
    again.release().await.expect("held");
    assert_eq!(server.ok(&["EXISTS", &ending, &second]), "1");
    reading.release().await.expect("held");
    let all = monitor.until_echo(&server);
    let scripts: Vec<_> = sent(&all)
        .into_iter()
        .filter(|words| words[0] == "EVALSHA")
        .map(|words| words[2..].to_vec())
        .collect();
    assert_eq!(scripts.len(), 6, "{all:?}");
    for (words, (keys, args)) in scripts.iter().zip([
        ("n locklab_writers_latch:{n}", "30000 OWNER 0"),
        ("n locklab_writers_latch:{n}", "30000 OWNER 1"),
        ("n", "OWNER PUBLISH redisson_rwlock:{n} 30000"),
        ("n locklab_writers_latch:{n}", "30000 OWNER 1"),
        ("n", "OWNER PUBLISH redisson_rwlock:{n} 30000"),
        ("n", "OWNER PUBLISH redisson_rwlock:{n} 30000"),
    ]) {
        let named = 1 + keys.split(' ').count();
        assert_eq!(words[1..named].join(" "), keys);
        let arguments = 1 + words[0].parse::<usize>().expect("a number of keys");
        let latches = &words[named..arguments];
        let each = latches.iter().all(|latch| latch.contains("latch:{n}:"));
        assert!(each && !latches.is_empty(), "{words:?}");
        assert_eq!(words[arguments..].join(" "), args.replace("OWNER", &owner));
    }
    let told: Vec<_> = (all.iter())
        .filter(|(inner, words)| *inner && words[0].eq_ignore_ascii_case("publish"))
        .map(|(_, words)| words[1..].join(" "))
        .collect();
    assert_eq!(told, ["redisson_rwlock:{n} 1", "redisson_rwlock:{n} 0"]);
    lock_support::shapes::only_latches_and_tokens_stay(&server);
}

/// A multi-lock says to each member what the member alone would say, and nothing more; RMultiLock sets the
/// leases a second time, and does not ask whose they are.
#[tokio::test]
async fn a_multi_lock_is_one_acquire_and_one_release_for_each_member() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    let client = Client::connect(&target, ClientOptions::default()).await.expect("it answers");
    let members = ["a", "b"].map(|name| client.lock(Kind::Reentrant, name).expect("a good name"));
    let both = lock_core::MultiLock::new(members).expect("two names");
    let how = Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(Duration::from_secs(10)));
    let warm = both.acquire_with(how.clone()).await.expect("free");
    warm.release().await.expect("held");
    let mut monitor = Monitor::start(&server);
    let guard = both.acquire_with(how).await.expect("free");
    let owners: Vec<_> = guard.members().iter().map(|one| one.owner().to_owned()).collect();
    guard.release().await.expect("held");
    let all = monitor.until_echo(&server);
    let mut said: Vec<_> = sent(&all).iter().map(|words| words[2..].join(" ")).collect();
    // Side by side, so in any order; but no release before all are held.
    said[..2].sort();
    said[2..].sort();
    assert_eq!(
        said,
        [
            format!("1 a 10000 {}", owners[0]),
            format!("1 b 10000 {}", owners[1]),
            format!("1 a {}", owners[0]),
            format!("1 b {}", owners[1]),
        ]
    );
}
