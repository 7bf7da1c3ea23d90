//! Readers and writers of one lock: who may be inside, what a downgrade does, and the end of each hold.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, LostReason, Owner, ReadWrite, Released,
    Wait,
};
use lock_support::{all_is_over, shapes::only_latches_and_tokens_stay};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// No poll comes in between: a waiter that enters was notified.
fn unpolled() -> ClientOptions {
    ClientOptions::default().poll_bound(10 * PATIENCE)
}

async fn client(server: &Server, options: ClientOptions) -> Client {
    let target = server.url().parse().expect("a good URL");
    Client::connect(&target, options).await.expect("it answers")
}

async fn lock(server: &Server, options: ClientOptions) -> ReadWrite {
    let client = client(server, options).await;
    client.read_write("n").expect("a good name")
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

fn once() -> Acquire {
    minute().wait(Wait::Try)
}

async fn refused(asked: impl Future<Output = Result<Guard, lock_core::LockError>>) {
    let error = asked.await.expect_err("another is inside");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

/// So many clients have subscribed to the lock's channel.
fn listening(server: &Server, clients: usize) {
    let channel = "redisson_rwlock:{n}";
    server.wait_for(&["PUBSUB", "NUMSUB", channel], |answer| answer == format!("{channel}\n{clients}"));
}

/// Redisson's scripts look for a mode only, and would take the lock beside its holder, who then loses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_kind_holds_is_not_free() {
    let server = Server::start(&[]);
    let client = client(&server, ClientOptions::default()).await;
    for (kind, command) in [(Kind::Reentrant, ["HLEN", "n"]), (Kind::Fenced, ["HLEN", "n"])] {
        let other = client.lock(kind, "n").expect("a good name");
        let guard = other.acquire_with(once()).await.expect("free");
        let sides = client.read_write("n").expect("a good name");
        refused(sides.read().acquire_with(once())).await;
        refused(sides.write().acquire_with(once())).await;
        assert_eq!(server.call(&command), "1", "{kind:?} is as it was");
        let waits = tokio::spawn(async move { sides.read().acquire_with(minute()).await });
        let released = guard.release().await.expect("answered");
        assert_eq!(released, Released::Freed, "{kind:?}");
        let reader = waits.await.expect("no panic").expect("free again");
        let _ = reader.release().await.expect("answered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_read_at_a_time_and_who_writes_is_alone() {
    let server = Server::start(&[]);
    let ours = lock(&server, ClientOptions::default()).await;
    let theirs = lock(&server, ClientOptions::default()).await;
    let readers = [
        ours.read().acquire_with(once()).await.expect("free"),
        ours.read().acquire_with(once()).await.expect("shared"),
        theirs.read().acquire_with(once()).await.expect("shared"),
    ];
    assert_eq!(theirs.read().holders().await.expect("answered").len(), 3);
    assert!(theirs.read().is_locked().await.expect("answered"));
    assert!(!theirs.write().is_locked().await.expect("answered"));
    for reader in readers {
        refused(theirs.write().acquire_with(once())).await;
        reader.release().await.expect("held");
    }
    let writer = theirs.write().acquire_with(once()).await.expect("free");
    assert!(ours.write().is_locked().await.expect("answered"));
    assert!(!ours.read().is_locked().await.expect("answered"));
    refused(ours.write().acquire_with(once())).await;
    refused(theirs.write().acquire_with(once())).await;
    refused(ours.read().acquire_with(once())).await;
    refused(theirs.read().acquire_with(once())).await;
    assert_eq!(writer.release().await.expect("held"), Released::Freed);
    assert_eq!(server.ok(&["KEYS", "*"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_lets_waiting_readers_in_at_once_and_writers_not() {
    let server = Server::start(&[]);
    let ours = lock(&server, unpolled()).await;
    let theirs = lock(&server, unpolled()).await;
    let writing = ours.write().acquire_with(minute()).await.expect("free");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let read = theirs.read().clone();
            tokio::spawn(async move { read.acquire_with(minute()).await })
        })
        .collect();
    listening(&server, 1);
    let reading = ours.read_under(&writing, minute()).await;
    let reading = reading.expect("it writes already");
    assert_eq!(reading.owner(), writing.owner());
    assert_eq!(writing.release().await.expect("held"), Released::Freed);
    let mut readers = vec![reading];
    for reader in waiting {
        // Nothing but a message can have told it: its writer's lease lasts longer than the test has patience.
        let reader = tokio::time::timeout(PATIENCE, reader).await;
        readers.push(reader.expect("woken").expect("no panic").expect("shared"));
    }
    refused(theirs.write().acquire_with(once())).await;
    refused(ours.write().acquire_with(once())).await;
    for reader in readers {
        assert_eq!(reader.release().await.expect("held"), Released::Freed);
    }
    assert_eq!(server.ok(&["EXISTS", "n"]), "0");
}

/// Whatever one side does, the other goes on being renewed: neither a release nor a renewal of one is about
/// both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_side_leaves_the_other_renewed() {
    let server = Server::start(&[]);
    let lease = 600 * MS;
    let lock = lock(&server, ClientOptions::default().watchdog_lease(lease)).await;
    let renewed = || Acquire::default().wait(Wait::Try);
    for read_first in [true, false] {
        let writing = lock.write().acquire_with(renewed()).await.expect("free");
        let reading = lock.read_under(&writing, renewed()).await.expect("ours");
        let (first, rest) = match read_first {
            true => (reading, writing),
            false => (writing, reading),
        };
        assert_eq!(first.release().await.expect("held"), Released::Freed);
        let until = Instant::now() + lease * 2;
        while Instant::now() < until {
            assert!(!rest.is_lost(), "read first: {read_first}");
            assert_eq!(server.ok(&["EXISTS", "n"]), "1");
            tokio::time::sleep(20 * MS).await;
        }
        assert_eq!(rest.release().await.expect("held"), Released::Freed);
    }
    all_is_over(&server, lease).await;
}

/// Each hold ends with its own lease, though the hash lives on for another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_lease_is_over_counts_no_more() {
    let server = Server::start(&[]);
    let ours = lock(&server, unpolled()).await;
    let theirs = lock(&server, unpolled()).await;
    let short = once().lease(Lease::Fixed(100 * MS));
    let late = ours.read().acquire_with(short).await.expect("free");
    let long = theirs.read().acquire_with(once()).await.expect("shared");
    assert_eq!(late.lost().await, LostReason::Expired);
    server.wait_for(&["EXISTS", &ending(&late)], |answer| answer == "0");
    let holders = theirs.read().holders().await.expect("answered");
    assert_eq!(holders.len(), 1, "{holders:?}");
    assert_eq!(holders[0].owner, long.owner());
    // Its field is there still, and in nobody's way: the one who counts goes, and a writer gets in.
    assert_eq!(server.ok(&["HEXISTS", "n", late.owner()]), "1");
    let writing = tokio::spawn(async move { theirs.write().acquire_with(minute()).await });
    listening(&server, 1);
    assert_eq!(long.release().await.expect("held"), Released::Freed);
    let writing = tokio::time::timeout(PATIENCE, writing).await;
    let writing = writing.expect("woken").expect("no panic").expect("free");
    let error = late.release().await.expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert_eq!(writing.release().await.expect("held"), Released::Freed);
    assert_eq!(server.ok(&["KEYS", "*"]), "");
}

fn ending(guard: &Guard) -> String {
    format!("{{n}}:{}:rwlock_timeout:1", guard.owner())
}

/// A writer who reads as well, for longer: when its write lease is over, others may read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_lease_ends_though_its_owner_reads_on() {
    let server = Server::start(&[]);
    let ours = lock(&server, unpolled()).await;
    let theirs = lock(&server, unpolled()).await;
    let short = once().lease(Lease::Fixed(300 * MS));
    let writing = ours.write().acquire_with(short).await.expect("free");
    let reading = ours.read_under(&writing, minute()).await.expect("ours");
    let reader = theirs.read().acquire_with(minute()).await.expect("it ends");
    assert!(writing.is_lost(), "somebody reads what is being written");
    refused(theirs.write().acquire_with(once())).await;
    let error = writing.release().await.expect_err("over");
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    reading.extend(2 * MINUTE).await.expect("it reads still");
    reading.release().await.expect("held");
    reader.release().await.expect("held");
    only_latches_and_tokens_stay(&server);
}

/// The read hold that comes under a write hold does not extend it, and its end does not shorten it.
#[tokio::test]
async fn a_write_lease_is_its_own() {
    let server = Server::start(&[]);
    let lock = lock(&server, ClientOptions::default()).await;
    let left = || server.ok(&["PTTL", "n"]).parse::<u64>().expect("ms");
    let writing = lock.write().acquire_with(once()).await.expect("free");
    for read_lease in [10 * MINUTE, 1000 * MS] {
        let how = once().lease(Lease::Fixed(read_lease));
        let reading = lock.read_under(&writing, how).await.expect("ours");
        let longest = read_lease.max(MINUTE).as_millis() as u64;
        assert!(left() <= longest && left() > longest - 30_000, "{}", left());
        assert_eq!(reading.release().await.expect("held"), Released::Freed);
        assert!(left() <= 60_000 && left() > 30_000, "{}", left());
    }
    // What RReadWriteLock makes of a re-entry is the rest and the lease together.
    let mine = once().owner(Owner::numbered(1));
    writing.release().await.expect("held");
    let outer = lock.write().acquire_with(mine.clone()).await.expect("free");
    let inner = lock.write().acquire_with(mine).await.expect("ours");
    assert!(left() <= 60_000, "{}", left());
    inner.release().await.expect("held");
    outer.release().await.expect("held");
}

/// The renewal of one reader shortens nobody's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_reader_leaves_longer_leases_alone() {
    let server = Server::start(&[]);
    let lease = 300 * MS;
    let lock = lock(&server, ClientOptions::default().watchdog_lease(lease)).await;
    let long = lock.read().acquire_with(minute()).await.expect("free");
    let renewed = lock.read().acquire_with(Acquire::default()).await;
    let renewed = renewed.expect("shared");
    let mut events = renewed.events();
    for _ in 0..3 {
        let event = tokio::time::timeout(PATIENCE, events.next()).await;
        assert!(matches!(event, Ok(Some(lock_core::GuardEvent::Extended { .. }))), "{event:?}");
        for key in ["n", &ending(&long)] {
            let left: u64 = server.ok(&["PTTL", key]).parse().expect("ms");
            assert!(left > 30_000, "{key}: {left} ms");
        }
    }
    renewed.release().await.expect("held");
    // The longest that is left decides, also when a shorter one goes.
    let left: u64 = server.ok(&["PTTL", "n"]).parse().expect("ms");
    assert!(left > 30_000, "{left} ms");
    long.release().await.expect("held");
}

/// One message lets every waiting reader of a client in, side by side: all of them are inside together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readers_of_one_client_enter_together() {
    const READERS: usize = 50;
    let server = Server::start(&[]);
    let ours = client(&server, unpolled()).await;
    let theirs = lock(&server, unpolled()).await;
    // Teaches the server the scripts.
    let warm = theirs.read().acquire_with(minute()).await.expect("free");
    warm.release().await.expect("held");
    let writing = theirs.write().acquire_with(minute()).await.expect("free");
    let inside = std::sync::Arc::new(tokio::sync::Barrier::new(READERS));
    let read = ours.read_write("n").expect("a good name").read().clone();
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (read, inside) = (read.clone(), inside.clone());
            tokio::spawn(async move {
                let guard = read.acquire_with(minute()).await.expect("shared");
                // Nobody leaves before all are in.
                inside.wait().await;
                guard.release().await.expect("held")
            })
        })
        .collect();
    listening(&server, 1);
    let before = ours.stats().commands;
    writing.release().await.expect("held");
    for reader in readers {
        let reader = tokio::time::timeout(PATIENCE, reader).await;
        assert_eq!(reader.expect("woken").expect("no panic"), Released::Freed);
    }
    // One look and one release each; and one look before they were in line, if that was still under way.
    let sent = ours.stats().commands - before;
    let most = 3 * READERS as u64 + 10;
    assert!(sent <= most, "{sent} commands for {READERS} readers");
    assert_eq!(server.ok(&["KEYS", "*"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_reader_wakes_a_writer_and_a_writer_wakes_the_next() {
    let server = Server::start(&[]);
    let ours = lock(&server, unpolled()).await;
    let theirs = lock(&server, unpolled()).await;
    let readers = [
        ours.read().acquire_with(once()).await.expect("free"),
        ours.read().acquire_with(once()).await.expect("shared"),
    ];
    let writers: Vec<_> = [&ours, &theirs]
        .into_iter()
        .map(|lock| {
            let write = lock.write().clone();
            tokio::spawn(async move {
                let guard = write.acquire_with(minute()).await.expect("its turn");
                guard.release().await.expect("held")
            })
        })
        .collect();
    listening(&server, 2);
    for reader in readers {
        reader.release().await.expect("held");
    }
    for writer in writers {
        let writer = tokio::time::timeout(PATIENCE, writer).await;
        assert_eq!(writer.expect("woken").expect("no panic"), Released::Freed);
    }
}

/// Two readers who each waited for the other to stop reading would wait for ever.
#[tokio::test]
async fn a_reader_who_wants_to_write_is_refused_at_once() {
    let server = Server::start(&[]);
    let lock = lock(&server, ClientOptions::default()).await;
    let mine = Acquire::default().owner(Owner::numbered(1));
    let reading = lock.read().acquire_with(mine.clone()).await.expect("free");
    let error = lock.write().acquire_with(mine.clone()).await;
    let error = error.expect_err("it reads");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(error.to_string().contains("release the read lock first"));
    reading.release().await.expect("held");
    let writing = lock.write().acquire_with(mine).await.expect("free");
    writing.release().await.expect("held");
}

#[tokio::test]
async fn only_who_writes_may_read_under_it() {
    let server = Server::start(&[]);
    let ours = lock(&server, ClientOptions::default()).await;
    let theirs = lock(&server, ClientOptions::default()).await;
    let writing = theirs.write().acquire_with(once()).await.expect("free");
    let error = ours.read_under(&writing, once()).await.expect_err("theirs");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let reading = theirs.read_under(&writing, once()).await.expect("theirs");
    let error = theirs.read_under(&reading, once()).await;
    assert_eq!(error.expect_err("it reads").kind(), ErrorKind::Invalid);
    writing.release().await.expect("held");
    reading.release().await.expect("held");
}

/// Writers that have given up keep readers out of a free lock for one and a half poll bounds, and not until
/// the poll after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_looks_when_it_has_stood_back_for_long_enough() {
    let server = Server::start(&[]);
    let poll = Duration::from_secs(2);
    let client = client(&server, ClientOptions::default().poll_bound(poll)).await;
    let names: Vec<_> = (0..12).map(|number| format!("n{number}")).collect();
    let reads = names.iter().map(|name| {
        // As of a stream of writers, each of which looks once.
        let writers = format!("locklab_writers_latch:{{{name}}}");
        server.ok(&["ZADD", &writers, "9999999999999", "c:1"]);
        let read = client.lock(Kind::Read, name).expect("a good name");
        tokio::spawn(async move {
            let began = Instant::now();
            let guard = read.acquire_with(minute()).await.expect("nobody writes");
            let waited = began.elapsed();
            guard.release().await.expect("held");
            waited
        })
    });
    let reads: Vec<_> = reads.collect();
    for waited in reads {
        let waited = waited.await.expect("no panic");
        let most = poll * 3 / 2 + poll / 4;
        assert!(waited < most, "{waited:?} with a poll bound of {poll:?}");
    }
}

/// Beside readers that know of no waiting writers, as Java's, a writer of ours waits in vain, and our readers
/// with it: no longer than it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_gives_up_keeps_no_reader_back() {
    let server = Server::start(&[]);
    let peer = lock(&server, unpolled().writer_preference(false)).await;
    let ours = lock(&server, unpolled()).await;
    let stands_back = lock(&server, unpolled()).await.read().clone();
    let reading = peer.read().acquire_with(once()).await.expect("free");
    let soon = once().wait(Wait::AtMost(100 * MS));
    for is_dropped in [false, true] {
        let write = ours.write().clone();
        let how = if is_dropped { minute() } else { soon.clone() };
        let writing = tokio::spawn(async move { write.acquire_with(how).await });
        let waiting = ["ZCARD", "locklab_writers_latch:{n}"];
        server.wait_for(&waiting, |writers| writers == "1");
        refused(ours.read().acquire_with(once())).await;
        let reader = stands_back.clone();
        let reader = tokio::spawn(async move { reader.acquire_with(minute()).await });
        listening(&server, 2);
        match is_dropped {
            true => writing.abort(),
            false => refused(async { writing.await.expect("no panic") }).await,
        }
        // Its time would be over long after this test.
        let entered = reader.await.expect("no panic").expect("told that it may");
        entered.release().await.expect("held");
        let shared = ours.read().acquire_with(once()).await.expect("shared");
        shared.release().await.expect("held");
    }
    reading.release().await.expect("held");
}

/// With the preference a writer gets in between readers that never let the lock go; without it they are
/// shared for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_come_first_unless_that_is_refused() {
    let server = Server::start(&[]);
    let options = || ClientOptions::default().poll_bound(200 * MS);
    let ours = lock(&server, options()).await;
    let theirs = lock(&server, options()).await;
    let indifferent = lock(&server, options().writer_preference(false)).await;
    let mine = minute().owner(Owner::numbered(1));
    let first = ours.read().acquire_with(mine.clone()).await.expect("free");
    let writing = tokio::spawn({
        let write = theirs.write().clone();
        async move { write.acquire_with(minute()).await }
    });
    server.wait_for(&["ZCARD", "locklab_writers_latch:{n}"], |answer| answer == "1");
    refused(ours.read().acquire_with(once())).await;
    // Who reads already may read again, or it would wait for the writer that waits for it; and a client that
    // did not ask for it, as a Java peer, shares.
    let again = ours.read().acquire_with(mine).await.expect("it reads already");
    let other = indifferent.read().acquire_with(once()).await.expect("shared");
    for reader in [other, again, first] {
        reader.release().await.expect("held");
    }
    let writing = writing.await.expect("no panic").expect("its turn");
    writing.release().await.expect("held");
    let writers = server.ok(&["EXISTS", "locklab_writers_latch:{n}"]);
    assert_eq!(writers, "0", "nobody waits any more");
    only_latches_and_tokens_stay(&server);
}

/// Two clients whose readers overlap, so that somebody reads at every moment: a writer gets in all the same.
/// And two whose writers take turns: so does a reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_side_is_starved_by_a_stream_of_the_other() {
    for stream in [Kind::Read, Kind::Write] {
        let server = Server::start(&[]);
        let options = || ClientOptions::default().poll_bound(300 * MS);
        let ours = lock(&server, options()).await;
        let side = |lock: &ReadWrite, kind| match kind {
            Kind::Read => lock.read().clone(),
            _ => lock.write().clone(),
        };
        let mut many = Vec::new();
        for client in 0..2 {
            let theirs = lock(&server, options()).await;
            for phase in 0..2 {
                let lock = side(&theirs, stream);
                many.push(tokio::spawn(async move {
                    tokio::time::sleep(20 * MS * (client * 2 + phase)).await;
                    loop {
                        let guard = lock.acquire_with(minute()).await.expect("its turn");
                        tokio::time::sleep(80 * MS).await;
                        guard.release().await.expect("held");
                    }
                }));
            }
        }
        server.wait_for(&["EXISTS", "n"], |answer| answer == "1");
        tokio::time::sleep(200 * MS).await;
        let other = match stream {
            Kind::Read => Kind::Write,
            _ => Kind::Read,
        };
        for _ in 0..3 {
            let waits = minute().wait(Wait::AtMost(10_000 * MS));
            let guard = side(&ours, other).acquire_with(waits).await;
            let guard = guard.unwrap_or_else(|error| panic!("a stream of {stream}: {error}"));
            guard.release().await.expect("held");
        }
        for one in many {
            one.abort();
        }
    }
}

/// Keys as a Java peer leaves them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_a_java_peer_count_as_it_means_them() {
    let server = Server::start(&[]);
    let lock = lock(&server, unpolled()).await;
    // Two read holds, one of them over.
    server.ok(&["HSET", "n", "mode", "read", "java:1", "2"]);
    server.ok(&["PEXPIRE", "n", "60000"]);
    server.ok(&["SET", "{n}:java:1:rwlock_timeout:1", "1", "PX", "60000"]);
    refused(lock.write().acquire_with(once())).await;
    let holder = lock.read().holder().await.expect("answered").expect("held");
    assert_eq!((&*holder.owner, holder.holds), ("java:1", 2));
    let reading = lock.read().acquire_with(once()).await.expect("shared");
    let writing = tokio::spawn({
        let write = lock.write().clone();
        async move { write.acquire_with(minute()).await }
    });
    listening(&server, 1);
    assert_eq!(reading.release().await.expect("held"), Released::Freed);
    assert_eq!(server.ok(&["HGET", "n", "java:1"]), "2");
    // The peer gives back and says so.
    server.ok(&["DEL", "n", "{n}:java:1:rwlock_timeout:1"]);
    server.ok(&["PUBLISH", "redisson_rwlock:{n}", "0"]);
    let writing = tokio::time::timeout(PATIENCE, writing).await;
    let writing = writing.expect("woken").expect("no panic").expect("free");
    writing.release().await.expect("held");

    // It writes and reads, and has no key for its write hold: that lasts as long as the hash.
    server.ok(&["HSET", "n", "mode", "write", "java:1:write", "1", "java:1", "1"]);
    server.ok(&["PEXPIRE", "n", "60000"]);
    server.ok(&["SET", "{n}:java:1:rwlock_timeout:1", "1", "PX", "60000"]);
    refused(lock.read().acquire_with(once())).await;
    let holder = lock.write().holder().await.expect("answered");
    assert_eq!(holder.expect("held").owner, "java:1");
    assert!(!lock.read().force_release().await.expect("answered"));
    assert!(lock.write().force_release().await.expect("answered"));
    assert_eq!(server.ok(&["KEYS", "*"]), "");
}

/// Both sides are taken away by the mode in which the lock is, and their holders learn it.
#[tokio::test]
async fn a_lock_that_is_taken_away_is_free() {
    let server = Server::start(&[]);
    let lock = lock(&server, ClientOptions::default()).await;
    assert!(!lock.read().force_release().await.expect("answered"));
    let readers = [
        lock.read().acquire_with(once()).await.expect("free"),
        lock.read().acquire_with(once()).await.expect("shared"),
    ];
    assert!(!lock.write().force_release().await.expect("answered"));
    assert!(lock.read().force_release().await.expect("answered"));
    assert_eq!(server.ok(&["KEYS", "*"]), "");
    for reader in readers {
        let error = reader.extend(MINUTE).await.expect_err("taken away");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
        reader.release().await.expect_err("taken away");
    }
    let writing = lock.write().acquire_with(once()).await.expect("free");
    assert!(lock.write().force_release().await.expect("answered"));
    writing.release().await.expect_err("taken away");
}
