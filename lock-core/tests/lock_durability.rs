//! The promises of a durable lock, on a master with a replica that comes and goes.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, Durability, ErrorKind, Kind, Lease, Lock, LostReason, Wait};
use support::{Server, sentinel::Group};

const MS: Duration = Duration::from_millis(1);

/// A master and a replica in step.
fn pair() -> (Server, Server) {
    let master = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    master.acknowledged();
    (master, replica)
}

async fn lock(master: &Server, durability: Durability) -> Lock {
    lock_at(&master.url(), durability).await
}

/// Of a client that is told of one replica.
async fn lock_at(url: &str, durability: Durability) -> Lock {
    let options = ClientOptions::default().durability(durability).replicas(1);
    let options = options.durability_timeout(400 * MS).watchdog_lease(900 * MS);
    let target = url.parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    client.lock(Kind::Reentrant, "n").expect("a good name")
}

/// All that depend on how many replicas there are.
const UNNUMBERED: [Durability; 2] = [Durability::WaitAll, Durability::WaitMajority];

/// Locks that were each granted once, with the replica's acknowledgement.
async fn granted_once(url: &str) -> Vec<Lock> {
    let mut locks = Vec::new();
    for durability in UNNUMBERED {
        let lock = lock_at(url, durability).await;
        let patient = minute().wait(Wait::AtMost(support::PATIENCE));
        let guard = lock.acquire_with(patient).await.expect("acknowledged");
        guard.release().await.expect("held");
        locks.push(lock);
    }
    locks
}

/// Each grant lacks the acknowledgement of the one replica.
async fn lacks_one_replica(locks: &[Lock], master: &Server) {
    for lock in locks {
        let error = lock.acquire_with(minute()).await.expect_err("no replica");
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    }
    assert_eq!(master.ok(&["EXISTS", "n"]), "0");
}

/// Waits until a master has forgotten its replica, which is after its `repl-timeout`.
fn forgotten_by(master: &Server) {
    master.wait_for(&["INFO", "replication"], |info| info.contains("connected_slaves:0"));
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::Try).lease(Lease::Fixed(60_000 * MS))
}

#[tokio::test]
async fn a_durable_grant_is_on_the_replica() {
    let (master, replica) = pair();
    for durability in [Durability::Wait(1), Durability::WaitAll, Durability::WaitMajority] {
        let lock = lock(&master, durability).await;
        let guard = lock.acquire_with(minute()).await.expect("acknowledged");
        assert_eq!(replica.ok(&["HGET", "n", guard.owner()]), "1");
        guard.extend(120_000 * MS).await.expect("acknowledged");
        guard.release().await.expect("held");
    }
}

/// Each WAIT keeps its connection from others. Those who come before there is a connection do not all take
/// the first one either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_replicas_from_the_start_do_so_side_by_side() {
    let alone = Server::start(&[]);
    let options = ClientOptions::default().durability(Durability::Wait(1)).durability_timeout(2_000 * MS);
    let target = alone.url().parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    let asked: Vec<_> = (0..4)
        .map(|number| {
            let lock = client.lock(Kind::Reentrant, &format!("n:{number}"));
            let lock = lock.expect("a good name");
            tokio::spawn(async move { lock.acquire_with(minute()).await })
        })
        .collect();
    alone.wait_for(&["INFO", "clients"], |info| info.contains("blocked_clients:4"));
    for asked in asked {
        let error = asked.await.expect("no panic").expect_err("no replica");
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    }
}

#[tokio::test]
async fn a_grant_that_too_few_have_is_given_back() {
    let (master, _replica) = pair();
    let lock = lock(&master, Durability::Wait(2)).await;
    let error = lock.acquire_with(minute()).await.expect_err("one replica of two");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
    assert_eq!(master.ok(&["EXISTS", "n"]), "0");
    // A client that asks for less gets it.
    let guard = lock.acquire_with(minute().durability(Durability::Wait(1))).await;
    guard.expect("acknowledged").release().await.expect("held");
}

/// A renewal that no replica has does not keep a durable lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_hold_without_its_replica_is_lost_in_time() {
    let (master, mut replica) = pair();
    let lock = lock(&master, Durability::Wait(1)).await;
    let fixed = lock.acquire_with(Acquire::default().wait(Wait::Try)).await.expect("acknowledged");
    replica.kill();
    let error = fixed.extend(60_000 * MS).await.expect_err("no replica");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert_eq!(fixed.lost().await, LostReason::NotRenewed);
}

/// A waiter that a release gives a queued lock asks for the replicas itself, perhaps in the same millisecond,
/// and that question has to write: with nothing to wait for WAIT answers at once, whatever the replicas have.
#[test]
fn an_heirs_question_writes_also_in_the_millisecond_of_its_grant() {
    let take = concat!(include_str!("../scripts/queue.lua"), include_str!("../scripts/acquire_queued.lua"));
    // Within a script the server's clock stands still.
    let twice = format!(
        "local function take()\n{take}\nend\n\
         local function changes()\n\
             return tonumber(string.match(redis.call('info', 'persistence'), 'rdb_changes_since_last_save:(%d+)'))\n\
         end\n\
         take()\n\
         local before = changes()\n\
         local again = take()\n\
         return {{again[1], redis.call('pttl', KEYS[1]), changes() - before}}"
    );
    let server = Server::start(&[]);
    let keys = ["n", "token:{n}", "line:{n}", "order:{n}"];
    let call = |lease: &str| {
        let eval = ["EVAL", &twice, "4"];
        server.ok(&[&eval[..], &keys, &[lease, "c:1", "PUBLISH", "2000"]].concat())
    };
    assert_eq!(call("60000"), "1\n60000\n1");
    // Nor does a shorter lease shorten it.
    let again = call("1000");
    let words: Vec<&str> = again.lines().collect();
    assert!(words[1].parse::<u32>().is_ok_and(|left| left > 50_000));
    assert_eq!((words[0], words[2]), ("1", "1"));
}

/// The replica is there and says nothing: too few have it, and nobody is left with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_replica_makes_a_grant_none() {
    let (master, replica) = pair();
    let frozen = replica.freeze();
    for durability in [Durability::Wait(1), Durability::WaitAll, Durability::WaitMajority] {
        let lock = lock(&master, durability).await;
        let error = lock.acquire_with(minute()).await.expect_err("no acknowledgement");
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
        assert_eq!(master.ok(&["DBSIZE"]), "0", "something is left");
    }
    drop(frozen);
    let lock = lock(&master, Durability::Wait(1)).await;
    let patient = minute().wait(Wait::AtMost(support::PATIENCE));
    let guard = lock.acquire_with(patient).await.expect("acknowledged");
    guard.release().await.expect("held");
}

/// A master that has forgotten its replica, which may be promoted meanwhile, grants nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_its_master_has_forgotten_is_asked_for_still() {
    let (master, replica) = pair();
    let locks = granted_once(&master.url()).await;
    master.ok(&["CONFIG", "SET", "repl-timeout", "1"]);
    let _frozen = replica.freeze();
    forgotten_by(&master);
    lacks_one_replica(&locks, &master).await;
}

/// Without the number of replicas nobody knows what all of them are: it is refused with the remedy, and
/// nothing is sent.
#[tokio::test]
async fn all_replicas_are_a_number_that_is_given() {
    let server = Server::start(&[]);
    let target = server.url().parse().expect("a good URL");
    for durability in UNNUMBERED {
        let options = ClientOptions::default().durability(durability);
        let refused = Client::connect(&target, options).await;
        let error = refused.expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("?replicas=N"), "{error}");
        let client = Client::connect(&target, ClientOptions::default()).await;
        let client = client.expect("it answers");
        let commands = client.stats().commands;
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        let refused = lock.acquire_with(minute().durability(durability)).await;
        let error = refused.expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("?replicas=N"), "{error}");
        assert_eq!(client.stats().commands, commands);
    }
}

/// A set that is made smaller or larger is what its clients are told, by the options or by the URL.
#[tokio::test]
async fn the_number_that_is_given_is_in_force() {
    let (master, _replica) = pair();
    let lock = |replicas: u32| {
        let options = ClientOptions::default()
            .durability(Durability::WaitAll)
            .durability_timeout(400 * MS)
            .replicas(replicas);
        let target = master.url().parse().expect("a good URL");
        async move {
            let client = Client::connect(&target, options).await.expect("it answers");
            client.lock(Kind::Reentrant, "n").expect("a good name")
        }
    };
    let guard = lock(1).await.acquire_with(minute()).await;
    guard.expect("acknowledged").release().await.expect("held");
    let more = lock(3).await;
    let error = more.acquire_with(minute()).await.expect_err("one of three");
    assert!(error.to_string().contains("1 of 3 replicas"), "{error}");
    let most = minute().durability(Durability::WaitMajority);
    let error = more.acquire_with(most).await.expect_err("one of three");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
}

/// A promoted replica has none of its own; the master that it takes the place of is one of the servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_asks_for_the_master_it_replaces() {
    let group = Group::start(1);
    let [master, promoted] = [&group.data[0], &group.data[1]];
    let before = granted_once(&group.url()).await;
    let frozen = master.freeze();
    promoted.wait_for(&["ROLE"], |role| role.starts_with("master"));
    group.sentinels[0].wait_for(&["SENTINEL", "REPLICAS", "m"], |replicas| replicas.contains("s_down"));
    let mut locks = before;
    for durability in UNNUMBERED {
        locks.push(lock_at(&group.url(), durability).await);
    }
    for lock in &locks {
        let patient = minute().wait(Wait::AtMost(support::PATIENCE));
        let error = lock.acquire_with(patient).await.expect_err("nobody acknowledges");
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    }
    // It comes back as a replica, counts once, and is enough.
    drop(frozen);
    master.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    for lock in &locks {
        let until = std::time::Instant::now() + support::PATIENCE;
        loop {
            match lock.acquire_with(minute()).await {
                Ok(guard) => {
                    guard.release().await.expect("held");
                    break;
                }
                Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
            }
        }
    }
}

/// With the master they are more than half already when one of two replicas has it.
#[tokio::test]
async fn a_majority_of_three_is_the_master_and_one_replica() {
    let (master, _replica) = pair();
    let second = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    second.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    let _frozen = second.freeze();
    let options = ClientOptions::default().replicas(2).durability(Durability::WaitMajority);
    let options = options.durability_timeout(400 * MS);
    let target = master.url().parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    let majority = client.lock(Kind::Reentrant, "n").expect("a good name");
    let guard = majority.acquire_with(minute()).await.expect("two of three");
    guard.release().await.expect("held");
    let error = majority.acquire_with(minute().durability(Durability::WaitAll)).await;
    assert_eq!(error.expect_err("one is silent").kind(), ErrorKind::NotDurable);
}

/// Refused with the server's reason before anything is taken: a server before 7.2 does not know the command,
/// a newer one without an append-only file has nothing to wait for.
#[tokio::test]
async fn a_server_that_cannot_wait_for_its_disk_takes_no_such_lock() {
    let (master, _replica) = pair();
    let lock = lock(&master, Durability::WaitAof(0)).await;
    let error = lock.acquire_with(minute()).await.expect_err("no such file");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    let said = error.to_string();
    assert!(said.contains("WAITAOF"), "{said}");
    let too_old = said.contains("unknown command");
    assert_eq!(too_old, said.contains("needs Redis 7.2"), "{said}");
    assert_eq!(master.ok(&["EXISTS", "n"]), "0");
}

#[tokio::test]
async fn a_grant_waits_for_the_disks_where_the_server_can() {
    let Some(program) = support::newer_server("WAITAOF", "7.2") else {
        return;
    };
    let file = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let master = Server::start_program(&program, &file);
    let replica = Server::start_program(
        &program,
        &[&file[..], &["--replicaof", "127.0.0.1", &master.port.to_string()]].concat(),
    );
    replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
    // A file is rewritten first, and until then counts for nothing.
    master.ok(&["SET", "first", "write"]);
    for server in [&master, &replica] {
        server.wait_for(&["INFO", "persistence"], |info| {
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
    }
    let options = ClientOptions::default().durability_timeout(support::PATIENCE);
    let options = options.response_timeout(7_500 * MS);
    let target = master.url().parse().expect("a good URL");
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    for disks in [0, 1] {
        let how = minute().durability(Durability::WaitAof(disks));
        let guard = lock.acquire_with(how).await.expect("synced");
        guard.release().await.expect("held");
    }
    let impatient = ClientOptions::default().durability_timeout(300 * MS);
    let client = Client::connect(&target, impatient).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    let how = minute().durability(Durability::WaitAof(2));
    let error = lock.acquire_with(how).await.expect_err("one replica of two");
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("of 3 disks"), "{error}");
    assert_eq!(master.ok(&["EXISTS", "n"]), "0");
}

#[test]
fn what_is_shown_is_read_back() {
    for durability in [
        Durability::None,
        Durability::Wait(2),
        Durability::WaitAll,
        Durability::WaitMajority,
        Durability::WaitAof(0),
    ] {
        assert_eq!(durability.to_string().parse(), Ok(durability));
    }
    for wrong in ["", "wait", "wait:0", "wait:many", "all", "waitaof:", "waitaof"] {
        assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
    }
}
