//! Every answer lost in turn: nothing is done twice, nothing is misreported, nothing stays.

mod lock_support;
mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, GuardEvent, Kind, Lease, Lock, Owner, Released, Wait,
};
use lock_support::{Loss, Relay};
use support::{PATIENCE, Server};

const MS: Duration = Duration::from_millis(1);
const BOTH: [Loss; 2] = [Loss::Silence, Loss::Reset];

/// A lock behind a relay, its scripts known to the server so that each operation is one EVALSHA.
async fn behind_a_relay(server: &Server) -> (Relay, Lock) {
    let relay = Relay::start(server.address()).await;
    let target = relay.url().parse().expect("a good URL");
    let options = ClientOptions::default().response_timeout(200 * MS).watchdog_lease(900 * MS);
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
    for owner in [None, Some(Owner::numbered(99))] {
        let mut how = minute();
        how.owner = owner;
        let guard = lock.acquire_with(how).await.expect("free");
        guard.extend(60_000 * MS).await.expect("held");
        guard.release().await.expect("held");
    }
    (relay, lock)
}

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

fn only_latches_stay(server: &Server) {
    for key in server.ok(&["KEYS", "*"]).lines() {
        assert!(key.contains("latch"), "{key} stays");
        assert_ne!(server.call(&["PTTL", key]), "-1", "{key} stays for ever");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_answer_is_lost_counts_once() {
    for loss in BOTH {
        for owner in [None, Some(Owner::numbered(1))] {
            let server = Server::start(&[]);
            let (relay, lock) = behind_a_relay(&server).await;
            let mut how = minute();
            how.owner = owner;
            relay.lose("EVALSHA", loss);
            let guard = lock.acquire_with(how.clone()).await.expect("asked again");
            assert_eq!(relay.lost(), 1);
            assert_eq!(server.ok(&["HVALS", "n"]), "1", "{loss:?} {owner:?}");
            if owner.is_some() {
                relay.lose("EVALSHA", loss);
                let inner = lock.acquire_with(how).await.expect("asked again");
                assert_eq!(server.ok(&["HVALS", "n"]), "2", "{loss:?} {owner:?}");
                assert_eq!(inner.release().await.expect("held"), Released::StillHeld);
            }
            assert_eq!(guard.release().await.expect("held"), Released::Freed);
            only_latches_stay(&server);
        }
    }
}

/// One silent connection costs two answers. With a lease that ends between them each repetition keeps the
/// lock, and so it must keep what is remembered of the acquire: else the third question is taken for another
/// acquire of the same owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_outlives_its_lease_by_repetitions_counts_once() {
    let mut kinds = Vec::new();
    for &kind in Kind::ALL {
        kinds.push(tokio::spawn(async move {
            let server = Server::start(&[]);
            let relay = Relay::start(server.address()).await;
            let target = relay.url().parse().expect("a good URL");
            let options = ClientOptions::default().response_timeout(1_000 * MS);
            let client = Client::connect(&target, options).await.expect("it answers");
            let lock = client.lock(kind, "n").expect("a good name");
            let mut how = minute().lease(Lease::Fixed(1_500 * MS));
            how.owner = Some(Owner::numbered(1));
            let warm = lock.acquire_with(how.clone()).await.expect("free");
            warm.release().await.expect("held");
            let word = match kind {
                Kind::Plain => "SET",
                _ => "EVALSHA",
            };
            relay.lose(word, Loss::Silence);
            let guard = lock.acquire_with(how).await.expect("asked again and again");
            assert_eq!(relay.lost(), 1, "{kind}");
            let released = guard.release().await.expect("held");
            assert_eq!(released, Released::Freed, "{kind}: counted twice");
            server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
        }));
    }
    for kind in kinds {
        kind.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answer_is_lost_is_a_release() {
    for loss in BOTH {
        let server = Server::start(&[]);
        let (relay, lock) = behind_a_relay(&server).await;
        let guard = lock.acquire_with(minute()).await.expect("free");
        relay.lose("EVALSHA", loss);
        assert_eq!(guard.release().await.expect("not reported as another's"), Released::Freed);

        let mine = minute().owner(Owner::numbered(1));
        let outer = lock.acquire_with(mine.clone()).await.expect("free");
        let inner = lock.acquire_with(mine).await.expect("mine");
        relay.lose("EVALSHA", loss);
        assert_eq!(inner.release().await.expect("held"), Released::StillHeld);
        assert_eq!(server.ok(&["HVALS", "n"]), "1", "released twice");
        relay.lose("EVALSHA", loss);
        assert_eq!(outer.release().await.expect("held"), Released::Freed);
        assert_eq!(relay.lost(), 3);
        only_latches_stay(&server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_try_that_is_lost_is_unknown_and_given_back() {
    for loss in BOTH {
        for owner in [None, Some(Owner::numbered(1))] {
            let server = Server::start(&[]);
            let (relay, lock) = behind_a_relay(&server).await;
            let mut how = minute().wait(Wait::Try);
            how.owner = owner;
            relay.lose("EVALSHA", loss);
            let error = lock.acquire_with(how).await.expect_err("lost");
            assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
            assert!(error.to_string().contains("127.0.0.1:"), "{error}");
            server.wait_for(&["EXISTS", "n"], |answer| answer == "0");
        }
    }
}

/// The undo of a re-entry that is unknown must not take the outer hold with it, whether the re-entry ran or
/// not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_re_entry_is_undone_alone() {
    let server = Server::start(&[]);
    let (relay, lock) = behind_a_relay(&server).await;
    let mine = minute().owner(Owner::numbered(1));
    let outer = lock.acquire_with(mine.clone()).await.expect("free");
    relay.lose("EVALSHA", Loss::Silence);
    let error = lock.acquire_with(mine.wait(Wait::Try)).await.expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    server.wait_for(&["HVALS", "n"], |answer| answer == "1");
    assert_eq!(outer.release().await.expect("held"), Released::Freed);
    only_latches_stay(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_whose_answer_is_lost_is_asked_for_again() {
    for loss in BOTH {
        let server = Server::start(&[]);
        let (relay, lock) = behind_a_relay(&server).await;
        let guard = lock.acquire_with(minute()).await.expect("free");
        relay.lose("EVALSHA", loss);
        guard.extend(120_000 * MS).await.expect("held");
        assert_eq!(relay.lost(), 1);
        assert!(guard.valid_until() > guard.sent_at() + 110_000 * MS);
        guard.release().await.expect("held");
    }
}

/// What may have been done is not believed: only an acknowledged extension counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_that_is_never_answered_changes_no_belief() {
    let server = Server::start(&[]);
    let (_relay, lock) = behind_a_relay(&server).await;
    let guard = lock.acquire_with(minute()).await.expect("free");
    let valid_until = guard.valid_until();
    server.ok(&["CLIENT", "PAUSE", "60000", "ALL"]);
    let error = guard.extend(120_000 * MS).await.expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(guard.valid_until(), valid_until);
    assert!(!guard.is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_whose_answer_is_lost_is_tried_again_in_time() {
    for loss in BOTH {
        let server = Server::start(&[]);
        let (relay, lock) = behind_a_relay(&server).await;
        let guard = lock.acquire_with(Acquire::default()).await.expect("free");
        let mut events = guard.events();
        for _ in 0..2 {
            relay.lose("EVALSHA", loss);
            let event = events.next().await;
            assert!(matches!(event, Some(GuardEvent::Extended { .. })), "{event:?}");
        }
        assert_eq!(relay.lost(), 2);
        guard.release().await.expect("held");
    }
}
