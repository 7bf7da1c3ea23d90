//! Turns random operations of several owners into a comparison of the server with a model of a few lines.

mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Owner, Released, Wait,
};
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
    Release(usize),
    Extend(usize, Duration),
    /// So much of the lease of whoever holds passes, perhaps all of it.
    Pass(Duration),
}

fn lease() -> impl Strategy<Value = Duration> {
    prop::sample::select(LEASES.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..OWNERS, lease()).prop_map(|(owner, lease)| Step::Acquire(owner, lease)),
        3 => (0..OWNERS).prop_map(Step::Release),
        1 => (0..OWNERS, lease()).prop_map(|(owner, lease)| Step::Extend(owner, lease)),
        1 => lease().prop_map(Step::Pass),
    ]
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// Who holds, how often, and what is left of the lease: all that a lock is.
type Model = Option<(usize, usize, Duration)>;

async fn agree(server: &Server, client: &Client, kind: Kind, name: &str, steps: &[Step]) {
    let lock = client.lock(kind, name).expect("a good name");
    let mut model: Model = None;
    let mut guards: Vec<Vec<Guard>> = (0..OWNERS).map(|_| Vec::new()).collect();
    let mut token = 0;
    for step in steps {
        match *step {
            Step::Acquire(owner, lease) => {
                let mine = Owner::numbered(u64::try_from(owner).expect("small"));
                let how = Acquire::default().wait(Wait::Try).owner(mine);
                let asked = lock.acquire_with(how.lease(Lease::Fixed(lease))).await;
                let granted = match model {
                    None => Some((1, lease)),
                    Some((holder, count, left)) if holder == owner && reenters(kind) => {
                        Some((count + 1, left.max(lease)))
                    }
                    Some(_) => None,
                };
                assert_eq!(
                    asked.is_ok(),
                    granted.is_some(),
                    "{kind} {step:?} {model:?}"
                );
                if let (Ok(guard), Some((count, left))) = (asked, granted) {
                    if kind == Kind::Fenced {
                        let next = guard.token().expect("a fenced lock has one");
                        assert!(next > token, "{next} after {token}");
                        token = next;
                    }
                    model = Some((owner, count, left));
                    guards[owner].push(guard);
                }
            }
            Step::Release(owner) => {
                let Some(guard) = guards[owner].pop() else {
                    continue;
                };
                let released = guard.release().await;
                match model {
                    // A guard from before an expiry speaks for its owner, and a counted lock counts it.
                    Some((holder, count, left)) if holder == owner => {
                        let expected = if count > 1 {
                            Released::StillHeld
                        } else {
                            Released::Freed
                        };
                        assert_eq!(released.expect("held"), expected, "{kind}");
                        model = (count > 1).then_some((owner, count - 1, left));
                    }
                    _ => {
                        let error = released.expect_err("not held");
                        assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
                    }
                }
            }
            Step::Extend(owner, lease) => {
                let Some(guard) = guards[owner].last() else {
                    continue;
                };
                let extended = guard.extend(lease).await;
                let holds = model.is_some_and(|(holder, ..)| holder == owner);
                assert_eq!(extended.is_ok(), holds, "{kind} {extended:?} {model:?}");
                if let Some((_, _, left)) = model.as_mut().filter(|_| holds) {
                    *left = lease.max(*left);
                }
            }
            Step::Pass(time) => {
                let left = model.map_or(Duration::ZERO, |(.., left)| left.saturating_sub(time));
                let left_ms = left.as_millis().to_string();
                server.ok(&["PEXPIRE", name, &left_ms]);
                if let Some(model) = model.as_mut().filter(|_| !left.is_zero()) {
                    model.2 = left;
                    continue;
                }
                model = None;
                // Whoever held releases what is not there any more; that touches nobody.
                for guard in guards.iter_mut().flat_map(|guards| guards.drain(..)) {
                    let error = guard.release().await.expect_err("it ran out");
                    assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
                }
            }
        }
        let there = match model {
            None => String::new(),
            Some((_, count, _)) if kind != Kind::Plain => count.to_string(),
            Some(_) => "1".to_owned(),
        };
        let found = match (kind, &model) {
            (Kind::Plain, _) => server.ok(&["EXISTS", name]).replace('0', ""),
            // Its mode, and what the owner of the model's only hold has.
            (Kind::Write, _) => server.ok(&["HVALS", name]).replace("write\n", ""),
            _ => server.ok(&["HVALS", name]),
        };
        assert_eq!(found, there, "{kind} after {step:?}");
        if let Some((.., left)) = model {
            let found = server.ok(&["PTTL", name]).parse().expect("ms");
            let found = Duration::from_millis(found);
            assert!(
                found <= left && found > left.saturating_sub(SLACK),
                "{kind}: {found:?} left, not {left:?}, after {step:?}"
            );
        }
    }
    for guard in guards.into_iter().flatten() {
        let _ = guard.release().await;
    }
}

#[test]
fn every_kind_does_what_a_small_model_does() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let target = server.url().parse().expect("a good URL");
    let client = runtime
        .block_on(Client::connect(&target, ClientOptions::default()))
        .expect("it answers");
    let mut config = ProptestConfig::with_cases(30);
    config.failure_persistence = None;
    let round = std::cell::Cell::new(0);
    proptest!(config, |(steps in prop::collection::vec(step(), 1..25))| {
        // Readers share: `lock_read_write_model` is about them.
        for kind in Kind::ALL.iter().copied().filter(|kind| !kind.is_shared()) {
            round.set(round.get() + 1);
            let name = format!("{kind}:{}", round.get());
            runtime.block_on(agree(&server, &client, kind, &name, &steps));
        }
    });
}
