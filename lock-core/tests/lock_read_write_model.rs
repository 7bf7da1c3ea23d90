//! Turns random operations of readers and writers into a comparison of the server with a model of a few lines, and with models that
//! have the faults of other libraries, which the comparison must notice.

mod support;

use std::{collections::BTreeMap, time::Duration};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Guard, Lease, Lock, Owner, ReadWrite, Released, Wait,
};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use support::Server;

/// Leases that are asked for, and time that passes; no test takes so long that a lease ends by itself.
const LEASES: [Duration; 3] = [
    Duration::from_secs(200),
    Duration::from_secs(500),
    Duration::from_secs(1100),
];
/// What a lease may have lost by itself when it is looked at.
const SLACK: Duration = Duration::from_secs(80);
const OWNERS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

#[derive(Debug, Clone)]
enum Step {
    Acquire(Side, usize, Duration),
    Release(Side, usize),
    Extend(Side, usize, Duration),
    /// So much of every lease passes.
    Pass(Duration),
}

fn side() -> impl Strategy<Value = Side> {
    prop::sample::select(vec![Side::Read, Side::Read, Side::Write])
}

fn lease() -> impl Strategy<Value = Duration> {
    prop::sample::select(LEASES.to_vec())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (side(), 0..OWNERS, lease()).prop_map(|(side, owner, lease)| Step::Acquire(side, owner, lease)),
        4 => (side(), 0..OWNERS).prop_map(|(side, owner)| Step::Release(side, owner)),
        2 => (side(), 0..OWNERS, lease()).prop_map(|(side, owner, lease)| Step::Extend(side, owner, lease)),
        1 => prop::sample::select(vec![200, 300, 500]).prop_map(|secs| Step::Pass(Duration::from_secs(secs))),
    ];
    prop::collection::vec(step, 1..30)
}

/// What a model has wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A reader counts for as long as anybody reads.
    HoldsLiveTogether,
    /// What a writer asks for again is added to what it has.
    LeasesAdd,
    /// The end of a read hold ends its owner's write hold.
    OneEndForBothSides,
    /// A renewal of one reader sets the leases of all.
    RenewalShortens,
    /// A repeated acquire of a writer is not counted.
    CountsOnce,
    /// The only reader may go on as a writer.
    Upgrades,
}

/// How often an owner holds a side, and what is left of it.
type Hold = (u64, Duration);

/// All that a read-write lock is.
#[derive(Debug, Clone)]
struct Model {
    fault: Fault,
    read: BTreeMap<usize, Hold>,
    write: Option<(usize, Hold)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Granted,
    Busy,
    Refused,
}

impl Model {
    fn side(&self, side: Side, owner: usize) -> Option<Hold> {
        match side {
            Side::Read => self.read.get(&owner).copied(),
            Side::Write => self
                .write
                .and_then(|(writer, hold)| (writer == owner).then_some(hold)),
        }
    }

    fn set(&mut self, side: Side, owner: usize, hold: Option<Hold>) {
        match (side, hold) {
            (Side::Read, Some(hold)) => {
                self.read.insert(owner, hold);
            }
            (Side::Read, None) => {
                self.read.remove(&owner);
            }
            (Side::Write, hold) => self.write = hold.map(|hold| (owner, hold)),
        }
    }

    fn acquire(&mut self, side: Side, owner: usize, lease: Duration) -> Asked {
        let again = self.side(side, owner);
        if again.is_none() {
            if self.write.is_some_and(|(writer, _)| writer != owner) {
                return Asked::Busy;
            }
            if side == Side::Write && !self.read.is_empty() {
                let alone = self.read.len() == 1 && self.fault == Fault::Upgrades;
                match self.read.contains_key(&owner) {
                    true if alone => {}
                    true => return Asked::Refused,
                    false => return Asked::Busy,
                }
            }
        }
        let hold = match again {
            None => (1, lease),
            Some((count, left)) if side == Side::Write => match self.fault {
                Fault::LeasesAdd => (count + 1, left + lease),
                Fault::CountsOnce => (count, left.max(lease)),
                _ => (count + 1, left.max(lease)),
            },
            Some((count, left)) => (count + 1, left.max(lease)),
        };
        self.set(side, owner, Some(hold));
        Asked::Granted
    }

    fn release(&mut self, side: Side, owner: usize) -> Option<Released> {
        let (count, left) = self.side(side, owner)?;
        if count > 1 {
            self.set(side, owner, Some((count - 1, left)));
            return Some(Released::StillHeld);
        }
        self.set(side, owner, None);
        if self.fault == Fault::OneEndForBothSides && side == Side::Read {
            self.set(Side::Write, owner, None);
        }
        Some(Released::Freed)
    }

    fn extend(&mut self, side: Side, owner: usize, lease: Duration) -> bool {
        let Some((count, left)) = self.side(side, owner) else {
            return false;
        };
        self.set(side, owner, Some((count, left.max(lease))));
        if self.fault == Fault::RenewalShortens && side == Side::Read {
            for (_, left) in self.read.values_mut() {
                *left = lease;
            }
        }
        true
    }

    fn pass(&mut self, time: Duration) {
        let longest = self.read.values().map(|(_, left)| *left).max();
        let together = self.fault == Fault::HoldsLiveTogether;
        self.read.retain(|_, (_, left)| {
            let counts = if together {
                longest.unwrap_or(*left)
            } else {
                *left
            };
            *left = counts.saturating_sub(time);
            !left.is_zero()
        });
        if let Some((_, (_, left))) = &mut self.write {
            *left = left.saturating_sub(time);
            if left.is_zero() {
                self.write = None;
            }
        }
    }
}

/// One lock on the server, and whoever has guards of it.
struct Real<'a> {
    server: &'a Server,
    client: &'a Client,
    lock: ReadWrite,
    guards: BTreeMap<(bool, usize), Vec<Guard>>,
}

impl Real<'_> {
    fn lock(&self, side: Side) -> &Lock {
        match side {
            Side::Read => self.lock.read(),
            Side::Write => self.lock.write(),
        }
    }

    fn guards(&mut self, side: Side, owner: usize) -> &mut Vec<Guard> {
        let key = (side == Side::Write, owner);
        self.guards.entry(key).or_default()
    }

    /// Every key of the lock loses so much of its life; what a request has to remember does not.
    fn pass(&self, time: Duration) {
        let pattern = format!("*{}*", self.lock.name());
        let keys = self.server.ok(&["KEYS", &pattern]);
        for key in keys.lines().filter(|key| !key.contains("latch")) {
            let left_ms: i64 = self.server.call(&["PTTL", key]).parse().expect("ms");
            let left_ms = left_ms.saturating_sub(time.as_millis() as i64).max(0);
            self.server.ok(&["PEXPIRE", key, &left_ms.to_string()]);
        }
    }

    async fn step(&mut self, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Acquire(side, owner, lease) => {
                let how = Acquire::default()
                    .wait(Wait::Try)
                    .owner(Owner::numbered(owner as u64))
                    .lease(Lease::Fixed(lease));
                let asked = self.lock(side).acquire_with(how).await;
                let answer = match &asked {
                    Ok(_) => Asked::Granted,
                    Err(error) if error.kind() == ErrorKind::Busy => Asked::Busy,
                    Err(_) => Asked::Refused,
                };
                self.guards(side, owner).extend(asked);
                prop_assert_eq!(answer, model.acquire(side, owner, lease), "{:?}", step);
            }
            Step::Release(side, owner) => {
                let Some(guard) = self.guards(side, owner).pop() else {
                    return Ok(());
                };
                let released = guard.release().await;
                let not_held = (released.as_ref().err()).map(lock_core::LockError::kind);
                match model.release(side, owner) {
                    Some(expected) => prop_assert_eq!(released.ok(), Some(expected)),
                    None => prop_assert_eq!(not_held, Some(ErrorKind::NotHeld)),
                }
            }
            Step::Extend(side, owner, lease) => {
                let Some(guard) = self.guards(side, owner).last() else {
                    return Ok(());
                };
                let extended = guard.extend(lease).await;
                prop_assert_eq!(extended.is_ok(), model.extend(side, owner, lease));
            }
            Step::Pass(time) => {
                self.pass(time);
                model.pass(time);
                for side in [Side::Read, Side::Write] {
                    for owner in 0..OWNERS {
                        if model.side(side, owner).is_some() {
                            continue;
                        }
                        // Whoever held it gives back what is there no more; that touches nobody.
                        for guard in std::mem::take(self.guards(side, owner)) {
                            let error = guard.release().await.err();
                            let kind = error.map(|error| error.kind());
                            prop_assert_eq!(kind, Some(ErrorKind::NotHeld));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Who holds what for how long, by the server's word, is what the model says.
    async fn agrees(&self, model: &Model) -> Result<(), TestCaseError> {
        for side in [Side::Read, Side::Write] {
            let holders = self.lock(side).holders().await.expect("answered");
            let expected = (0..OWNERS).filter(|owner| model.side(side, *owner).is_some());
            prop_assert_eq!(holders.len(), expected.count(), "{:?}: {:?}", side, holders);
            for holder in holders {
                let owner = (0..OWNERS)
                    .find(|owner| holder.owner == format!("{}:{owner}", self.client.id()));
                let hold = model.side(side, owner.expect("one of ours"));
                let (count, left) = hold.unwrap_or_default();
                prop_assert_eq!(holder.holds, count, "{:?} of {:?}", side, holder);
                let found = holder.remaining.expect("a lease");
                prop_assert!(
                    found <= left && found + SLACK > left,
                    "{:?} of {:?}: {:?} left, not {:?}",
                    side,
                    owner,
                    found,
                    left
                );
            }
        }
        let left = model.read.values().map(|(_, left)| *left);
        let longest = left.chain(model.write.map(|(_, (_, left))| left)).max();
        let found_ms: i64 = self
            .server
            .call(&["PTTL", self.lock.name()])
            .parse()
            .expect("ms");
        let found = u64::try_from(found_ms).ok().map(Duration::from_millis);
        prop_assert_eq!(found.is_some(), longest.is_some(), "the hash");
        if let (Some(found), Some(longest)) = (found, longest) {
            prop_assert!(
                found <= longest && found + SLACK > longest,
                "the hash lives {:?}, its longest hold {:?}",
                found,
                longest
            );
        }
        Ok(())
    }
}

/// Runs a model of this fault beside the server until they differ, for so many cases at most.
fn compare(fault: Fault, cases: u32) -> Result<(), String> {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let target = server.url().parse().expect("a good URL");
    let client = runtime
        .block_on(Client::connect(&target, ClientOptions::default()))
        .expect("it answers");
    let mut config = ProptestConfig::with_cases(cases);
    config.failure_persistence = None;
    if fault != Fault::None {
        config.max_shrink_iters = 0;
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let round = std::cell::Cell::new(0);
    let outcome = runner.run(&steps(), |steps| {
        round.set(round.get() + 1);
        let lock = client.read_write(&format!("round:{}:", round.get()));
        let mut real = Real {
            server: &server,
            client: &client,
            lock: lock.expect("a good name"),
            guards: BTreeMap::new(),
        };
        let mut model = Model {
            fault,
            read: BTreeMap::new(),
            write: None,
        };
        runtime.block_on(async {
            for step in &steps {
                real.step(&mut model, step).await?;
                real.agrees(&model).await?;
            }
            for guard in std::mem::take(&mut real.guards).into_values().flatten() {
                let _ = guard.release().await;
            }
            let pattern = format!("*{}*", real.lock.name());
            let keys = server.ok(&["KEYS", &pattern]);
            let stays = keys.lines().find(|key| !key.contains("latch"));
            prop_assert_eq!(stays, None);
            Ok(())
        })
    });
    outcome.map_err(|error| error.to_string())
}

#[test]
fn readers_and_writers_do_what_a_small_model_does() {
    if let Err(difference) = compare(Fault::None, 60) {
        panic!("{difference}");
    }
}

/// A comparison that notices nothing proves nothing.
#[test]
fn a_model_with_a_fault_is_told_from_the_server() {
    for fault in [
        Fault::HoldsLiveTogether,
        Fault::LeasesAdd,
        Fault::OneEndForBothSides,
        Fault::RenewalShortens,
        Fault::CountsOnce,
        Fault::Upgrades,
    ] {
        let difference = compare(fault, 300);
        assert!(difference.is_err(), "{fault:?} was not noticed");
    }
}
