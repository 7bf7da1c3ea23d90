//! Random operations of several owners: compares the server with a model of a few lines.

mod support;

use std::time::Duration;

use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Lock, Owner, Released, Wait};
use proptest::prelude::*;
use support::Server;

/// Leases that are asked for; no test takes so long that one of them ends by itself.
const LEASES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(150)];
/// What a lease may have lost by itself when it is looked at.
const SLACK: Duration = Duration::from_secs(30);
const OWNERS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Acquire(usize, Duration),
    /// One of the holds of an owner, whichever.
    Release(usize, usize),
    Extend(usize, usize, Duration),
    /// So much of the holders' leases passes, perhaps all of it.
    Pass(Duration),
}

fn lease() -> impl Strategy<Value = Duration> {
    prop::sample::select(LEASES.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..OWNERS, lease()).prop_map(|(owner, lease)| Step::Acquire(owner, lease)),
        3 => (0..OWNERS, 0..9usize).prop_map(|(owner, which)| Step::Release(owner, which)),
        2 => (0..OWNERS, 0..9usize, lease())
            .prop_map(|(owner, which, lease)| Step::Extend(owner, which, lease)),
        1 => lease().prop_map(Step::Pass),
    ]
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// All keys of the lock have `tag` in their names.
async fn agree(server: &Server, lock: &Lock, tag: &str, steps: &[Step]) {
    let (kind, name) = (lock.kind(), lock.name());
    // The model: of each owner what it holds, and what is left of each. All that a lock is.
    let mut held: Vec<Vec<(Guard, Duration)>> = (0..OWNERS).map(|_| Vec::new()).collect();
    let mut token = 0;
    for step in steps {
        let holder = held.iter().position(|holds| !holds.is_empty());
        match *step {
            Step::Acquire(owner, lease) => {
                let mine = Owner::numbered(u64::try_from(owner).expect("small"));
                let how = Acquire::default().wait(Wait::Try).owner(mine);
                let asked = lock.acquire_with(how.lease(Lease::Fixed(lease))).await;
                let granted = holder.is_none_or(|holder| holder == owner && reenters(kind));
                assert_eq!(asked.is_ok(), granted, "{kind} {step:?} {held:?}");
                if let Ok(guard) = asked {
                    if kind == Kind::Fenced {
                        let next = guard.token().expect("a fenced lock has one");
                        assert!(next > token, "{next} after {token}");
                        token = next;
                    }
                    held[owner].push((guard, lease));
                }
            }
            Step::Release(owner, which) => {
                if held[owner].is_empty() {
                    continue;
                }
                let which = which % held[owner].len();
                let (guard, _) = held[owner].remove(which);
                let released = guard.release().await.expect("held");
                let expected = match held[owner].is_empty() {
                    true => Released::Freed,
                    false => Released::StillHeld,
                };
                assert_eq!(released, expected, "{kind}");
            }
            Step::Extend(owner, which, lease) => {
                if held[owner].is_empty() {
                    continue;
                }
                let which = which % held[owner].len();
                let (guard, left) = &mut held[owner][which];
                guard.extend(lease).await.expect("held");
                *left = lease.max(*left);
            }
            Step::Pass(time) => {
                server.pass(tag, time);
                let holds = std::mem::take(&mut held[holder.unwrap_or_default()]);
                for (guard, left) in holds {
                    if left > time {
                        held[holder.unwrap_or_default()].push((guard, left - time));
                        continue;
                    }
                    // The holder releases what is not there any more; that touches nobody.
                    let error = guard.release().await.expect_err("it ran out");
                    assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
                }
            }
        }
        let holds = held.iter().find(|holds| !holds.is_empty());
        let there = match holds {
            None => String::new(),
            Some(holds) if kind != Kind::Plain => holds.len().to_string(),
            Some(_) => "1".to_owned(),
        };
        let found = match kind {
            Kind::Plain => server.ok(&["EXISTS", name]).replace('0', ""),
            // Its mode, and what the owner of the model's only hold has.
            Kind::Write => server.ok(&["HVALS", name]).replace("write\n", ""),
            _ => server.ok(&["HVALS", name]),
        };
        assert_eq!(found, there, "{kind} after {step:?}");
        if let Some(left) = holds.and_then(|holds| holds.iter().map(|(_, left)| *left).max()) {
            let found = server.ok(&["PTTL", name]).parse().expect("ms");
            let found = Duration::from_millis(found);
            assert!(
                found <= left && found > left.saturating_sub(SLACK),
                "{kind}: {found:?} left, not {left:?}, after {step:?}"
            );
        }
    }
    for (guard, _) in held.into_iter().flatten() {
        let _ = guard.release().await;
    }
}

#[test]
fn every_kind_does_what_a_small_model_does() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let target = server.url().parse().expect("a good URL");
    let client = runtime.block_on(Client::connect(&target, ClientOptions::default())).expect("it answers");
    let mut config = ProptestConfig::with_cases(30);
    config.failure_persistence = None;
    let round = std::cell::Cell::new(0);
    proptest!(config, |(steps in prop::collection::vec(step(), 1..25))| {
        // Readers share: `lock_read_write_model` is about them.
        for kind in Kind::ALL.iter().copied().filter(|kind| !kind.is_shared()) {
            round.set(round.get() + 1);
            let name = format!("{kind}:{}:", round.get());
            let lock = client.lock(kind, &name).expect("a good name");
            runtime.block_on(agree(&server, &lock, &name, &steps));
        }
        let tag = format!("{{all:{}:}}", round.get());
        let names = ["a", "b"].map(|name| format!("{tag}:{name}"));
        let several = client.all_of(&names.each_ref().map(String::as_str));
        let several = several.expect("one slot");
        runtime.block_on(agree(&server, &several, &tag, &steps));
    });
}
