//! Turns random operations of several owners into a comparison of the server with a model of a few lines.

mod support;

use std::time::Duration;

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Kind, Lease, Owner, Released, Wait,
};
use proptest::prelude::*;
use support::Server;

const LEASE: Duration = Duration::from_secs(60);
const OWNERS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Acquire(usize),
    Release(usize),
    Extend(usize),
    /// The lease of whoever holds runs out.
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..OWNERS).prop_map(Step::Acquire),
        3 => (0..OWNERS).prop_map(Step::Release),
        1 => (0..OWNERS).prop_map(Step::Extend),
        1 => Just(Step::Expire),
    ]
}

fn reenters(kind: Kind) -> bool {
    !matches!(kind, Kind::Plain | Kind::NonReentrant | Kind::Queued)
}

/// Who holds, and how often: all that a lock is.
type Model = Option<(usize, usize)>;

async fn agree(server: &Server, client: &Client, kind: Kind, name: &str, steps: &[Step]) {
    let lock = client.lock(kind, name).expect("a good name");
    let mut model: Model = None;
    let mut guards: Vec<Vec<Guard>> = (0..OWNERS).map(|_| Vec::new()).collect();
    let mut token = 0;
    for step in steps {
        match *step {
            Step::Acquire(owner) => {
                let mine = Owner::numbered(u64::try_from(owner).expect("small"));
                let how = Acquire::default().wait(Wait::Try).owner(mine);
                let asked = lock.acquire(how.lease(Lease::Fixed(LEASE))).await;
                let granted = match model {
                    None => Some(1),
                    Some((holder, count)) if holder == owner && reenters(kind) => Some(count + 1),
                    Some(_) => None,
                };
                assert_eq!(
                    asked.is_ok(),
                    granted.is_some(),
                    "{kind} {step:?} {model:?}"
                );
                if let (Ok(guard), Some(count)) = (asked, granted) {
                    if kind == Kind::Fenced {
                        let next = guard.token().expect("a fenced lock has one");
                        assert!(next > token, "{next} after {token}");
                        token = next;
                    }
                    model = Some((owner, count));
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
                    Some((holder, count)) if holder == owner => {
                        let expected = if count > 1 {
                            Released::StillHeld
                        } else {
                            Released::Freed
                        };
                        assert_eq!(released.expect("held"), expected, "{kind}");
                        model = (count > 1).then_some((owner, count - 1));
                    }
                    _ => {
                        let error = released.expect_err("not held");
                        assert_eq!(error.kind(), ErrorKind::NotHeld, "{kind}: {error}");
                    }
                }
            }
            Step::Extend(owner) => {
                let Some(guard) = guards[owner].last() else {
                    continue;
                };
                let holds = model.is_some_and(|(holder, _)| holder == owner);
                let extended = guard.extend(LEASE).await;
                assert_eq!(extended.is_ok(), holds, "{kind} {extended:?} {model:?}");
            }
            Step::Expire => {
                server.ok(&["PEXPIRE", name, "0"]);
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
            Some((_, count)) if kind != Kind::Plain => count.to_string(),
            Some(_) => "1".to_owned(),
        };
        let found = match (kind, &model) {
            (Kind::Plain, _) => server.ok(&["EXISTS", name]).replace('0', ""),
            _ => server.ok(&["HVALS", name]),
        };
        assert_eq!(found, there, "{kind} after {step:?}");
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
        for &kind in Kind::ALL {
            round.set(round.get() + 1);
            let name = format!("{kind}:{}", round.get());
            runtime.block_on(agree(&server, &client, kind, &name, &steps));
        }
    });
}
