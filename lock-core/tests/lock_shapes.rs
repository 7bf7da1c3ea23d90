//! Lost and late answers on every topology: behind sentinels, on a cluster, on a quorum.

mod lock_support;
mod support;

use std::time::{Duration, Instant};

use lock_core::{Acquire, ClientOptions, ErrorKind, Kind, Lease, Owner, Released, Wait};
use lock_support::{Loss, shapes::Deployed};
use support::PATIENCE;

const MS: Duration = Duration::from_millis(1);

fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(60_000 * MS))
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// How often the owner holds the lock, on the servers that decide. Of several a minority whose answers were
/// lost may lag behind, or have been asked again before an earlier question was undone there, so that it has
/// no vote; but none may count more.
fn counts(deployed: &Deployed, name: &str, count: u32) {
    let deciders = deployed.deciders(name);
    let until = Instant::now() + PATIENCE;
    loop {
        let said: Vec<_> = (deciders.iter())
            .map(|&index| deployed.servers[index].ok(&["HVALS", name]))
            // A read-write lock says its mode beside the count.
            .map(|said| said.split_whitespace().filter_map(|value| value.parse::<u32>().ok()).sum::<u32>())
            .collect();
        let agree = said.iter().filter(|said| **said == count).count();
        if agree > deciders.len() / 2 && said.iter().all(|said| *said <= count) {
            return;
        }
        assert!(Instant::now() < until, "{name} is counted {said:?}");
        std::thread::sleep(10 * MS);
    }
}

/// Answers get lost on acquire, re-entry, inner and outer release; each is done once and reported as done.
async fn lost_answers_do_nothing_twice(deployed: &Deployed) {
    let options = ClientOptions::default().response_timeout(250 * MS);
    let client = deployed.client(options).await;
    for &kind in deployed.kinds() {
        for loss in [Loss::Reset, Loss::Silence] {
            // Silence takes its time; the kinds differ in their scripts, not in how silence is met.
            if loss == Loss::Silence && !matches!(kind, Kind::Reentrant | Kind::Redlock) {
                continue;
            }
            // A plain lock has no records: what its owner gives back is repeated, which the same owner's fair
            // lock of that name waits for.
            let name = deployed.name_of(kind.name(), 0);
            let lock = client.lock(kind, &name).expect("a good name");
            let first = if kind == Kind::Plain { "SET" } else { "EVALSHA" };
            let lose = |word| {
                // Of several masters a majority: the minority's answers decide nothing.
                let deciders = deployed.deciders(&name);
                for &index in deciders.iter().take(deciders.len() / 2 + 1) {
                    deployed.relays[index].lose(word, loss);
                }
            };
            let lost = || deployed.relays.iter().map(|relay| relay.lost()).sum::<usize>();
            for owner in [None, Some(Owner::numbered(4))] {
                let mut how = minute();
                how.owner = owner;
                // Teaches the servers the scripts, so that each step is one EVALSHA.
                let what = format!("{kind} {loss:?} {owner:?}");
                let acquired = lock.acquire_with(how.clone()).await;
                let guard = acquired.unwrap_or_else(|error| panic!("{what}: {error}"));
                if owner.is_some() && reenters(kind) {
                    let inner = lock.acquire_with(how.clone()).await.expect("mine");
                    inner.release().await.expect("held");
                }
                guard.release().await.expect("held");
                deployed.only_latches_and_tokens_stay(&name);

                let before = lost();
                lose(first);
                let outer = lock.acquire_with(how.clone()).await.expect("asked again");
                assert!(lost() > before, "{what}: no answer was lost");
                if kind != Kind::Plain {
                    counts(deployed, &name, 1);
                }
                if owner.is_some() && reenters(kind) {
                    lose(first);
                    let inner = lock.acquire_with(how).await.expect("asked again");
                    counts(deployed, &name, 2);
                    lose("EVALSHA");
                    let released = inner.release().await;
                    assert_eq!(released.expect("held"), Released::StillHeld, "{what}");
                    counts(deployed, &name, 1);
                }
                lose("EVALSHA");
                let released = outer.release().await;
                assert_eq!(released.expect("held"), Released::Freed, "{what}");
                deployed.only_latches_and_tokens_stay(&name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_lost_answer_does_nothing_twice() {
    lost_answers_do_nothing_twice(&Deployed::sentinel().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_a_lost_answer_does_nothing_twice() {
    lost_answers_do_nothing_twice(&Deployed::cluster().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_quorum_a_lost_answer_does_nothing_twice() {
    lost_answers_do_nothing_twice(&Deployed::masters(3).await).await;
}

/// The server granted, but when the client hears of it the lease is over: others may be inside already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_arrives_after_its_lease_is_none() {
    let deployed = Deployed::single().await;
    let options = ClientOptions::default().response_timeout(5000 * MS);
    let client = deployed.client(options).await;
    let how = minute().lease(Lease::Fixed(200 * MS));
    for &kind in Kind::ALL {
        let lock = client.lock(kind, "n").expect("a good name");
        let warm = lock.acquire_with(minute()).await.expect("free");
        warm.release().await.expect("held");
        let word = if kind == Kind::Plain { "SET" } else { "EVALSHA" };

        deployed.relays[0].lose(word, Loss::Late(300 * MS));
        let late = lock.acquire_with(how.clone().wait(Wait::Try)).await;
        let error = late.expect_err("its lease is over");
        // A quorum gives each master less time than the lease, so the answer counts as lost there.
        let expected = if kind == Kind::Redlock { ErrorKind::Unknown } else { ErrorKind::Busy };
        assert_eq!(error.kind(), expected, "{kind}: {error}");

        deployed.relays[0].lose(word, Loss::Late(300 * MS));
        let guard = lock.acquire_with(how.clone()).await.expect("asked anew");
        let (sent_at, valid_until) = (guard.sent_at(), guard.valid_until());
        assert!(valid_until <= sent_at + 200 * MS, "{kind}");
        assert_eq!(deployed.relays[0].lost() % 2, 0, "{kind}: the second was not late");
        drop(guard);
        deployed.only_latches_and_tokens_stay("n");
    }
}
