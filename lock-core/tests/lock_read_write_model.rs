//! Random operations of readers and writers: compares the server with a model of a few lines, and with models
//! that have the faults of other libraries, which the comparison must notice.

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
const LEASES: [Duration; 3] = [Duration::from_secs(200), Duration::from_secs(500), Duration::from_secs(1100)];
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
    /// One of the holds of an owner, whichever.
    Release(Side, usize, usize),
    Extend(Side, usize, usize, Duration),
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
        4 => (side(), 0..OWNERS, 0..9usize).prop_map(|(side, owner, which)| Step::Release(side, owner, which)),
        2 => (side(), 0..OWNERS, 0..9usize, lease())
            .prop_map(|(side, owner, which, lease)| Step::Extend(side, owner, which, lease)),
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
    /// Each hold of an owner lasts as long as the longest that it ever had.
    LongestForAll,
}

/// What is left of each hold that an owner has of a side, in the order of its guards.
type Holds = Vec<Duration>;

/// All that a read-write lock is.
#[derive(Debug, Clone)]
struct Model {
    fault: Fault,
    read: BTreeMap<usize, Holds>,
    write: Option<(usize, Holds)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Granted,
    Busy,
    Refused,
}

impl Model {
    fn side(&self, side: Side, owner: usize) -> Option<&Holds> {
        match side {
            Side::Read => self.read.get(&owner),
            Side::Write => {
                (self.write.as_ref()).and_then(|(writer, holds)| (*writer == owner).then_some(holds))
            }
        }
    }

    fn set(&mut self, side: Side, owner: usize, mut holds: Holds) {
        let longest = holds.iter().max().copied();
        if self.fault == Fault::LongestForAll {
            holds.fill(longest.unwrap_or_default());
        }
        match (side, longest) {
            (Side::Read, Some(_)) => {
                self.read.insert(owner, holds);
            }
            (Side::Read, None) => {
                self.read.remove(&owner);
            }
            (Side::Write, longest) => self.write = longest.map(|_| (owner, holds)),
        }
    }

    fn acquire(&mut self, side: Side, owner: usize, lease: Duration) -> Asked {
        let again = self.side(side, owner).cloned();
        if again.is_none() {
            if self.write.as_ref().is_some_and(|(writer, _)| *writer != owner) {
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
        let mut holds = again.unwrap_or_default();
        match (holds.iter().max().copied(), self.fault) {
            (Some(longest), Fault::LeasesAdd) if side == Side::Write => holds.push(longest + lease),
            (Some(_), Fault::CountsOnce) if side == Side::Write => holds[0] = holds[0].max(lease),
            _ => holds.push(lease),
        }
        self.set(side, owner, holds);
        Asked::Granted
    }

    fn release(&mut self, side: Side, owner: usize, which: usize) -> Option<Released> {
        let mut holds = self.side(side, owner)?.clone();
        holds.remove(which.min(holds.len() - 1));
        let released = match holds.is_empty() {
            true => Released::Freed,
            false => Released::StillHeld,
        };
        self.set(side, owner, holds);
        let both = self.fault == Fault::OneEndForBothSides && side == Side::Read;
        if both && released == Released::Freed {
            self.write.take_if(|(writer, _)| *writer == owner);
        }
        Some(released)
    }

    fn extend(&mut self, side: Side, owner: usize, which: usize, lease: Duration) -> bool {
        let Some(mut holds) = self.side(side, owner).cloned() else {
            return false;
        };
        let which = which.min(holds.len() - 1);
        holds[which] = holds[which].max(lease);
        self.set(side, owner, holds);
        if self.fault == Fault::RenewalShortens && side == Side::Read {
            for left in self.read.values_mut().flatten() {
                *left = lease;
            }
        }
        true
    }

    /// So much of every lease passes; the numbers of the holds that have ended by it, last first, of each
    /// side and owner.
    fn pass(&mut self, time: Duration) -> Vec<(Side, usize, usize)> {
        let longest = self.read.values().flatten().max().copied();
        if self.fault == Fault::HoldsLiveTogether {
            let all = self.read.values_mut().flatten();
            all.for_each(|left| *left = longest.unwrap_or_default());
        }
        let mut ended = Vec::new();
        for side in [Side::Read, Side::Write] {
            for owner in 0..OWNERS {
                let Some(holds) = self.side(side, owner).cloned() else {
                    continue;
                };
                let all = holds.iter().enumerate().rev();
                let over = all.filter(|(_, left)| **left <= time);
                ended.extend(over.map(|(which, _)| (side, owner, which)));
                let rest = holds.iter().filter(|left| **left > time);
                self.set(side, owner, rest.map(|left| *left - time).collect());
            }
        }
        ended
    }
}

/// One lock on the server, and those who have guards of it.
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
            Step::Release(side, owner, which) => {
                let guards = self.guards(side, owner);
                if guards.is_empty() {
                    return Ok(());
                }
                let which = which % guards.len();
                let released = guards.remove(which).release().await;
                let expected = model.release(side, owner, which);
                prop_assert_eq!(released.ok(), expected);
            }
            Step::Extend(side, owner, which, lease) => {
                let guards = self.guards(side, owner);
                if guards.is_empty() {
                    return Ok(());
                }
                let which = which % guards.len();
                let extended = guards[which].extend(lease).await;
                prop_assert_eq!(extended.is_ok(), model.extend(side, owner, which, lease));
            }
            Step::Pass(time) => {
                self.server.pass(self.lock.name(), time);
                for (side, owner, which) in model.pass(time) {
                    let guards = self.guards(side, owner);
                    prop_assert!(which < guards.len());
                    // The holder gives back what is there no more; that touches nobody.
                    let error = guards.remove(which).release().await.err();
                    let kind = error.map(|error| error.kind());
                    prop_assert_eq!(kind, Some(ErrorKind::NotHeld));
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
                let owner = (0..OWNERS).find(|owner| holder.owner == format!("{}:{owner}", self.client.id()));
                let holds = model.side(side, owner.expect("one of ours"));
                let holds = holds.cloned().unwrap_or_default();
                let left = holds.iter().max().copied().unwrap_or_default();
                prop_assert_eq!(holder.holds, holds.len() as u64, "{:?} of {:?}", side, holder);
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
        let read = model.read.values().flatten();
        let write = model.write.iter().flat_map(|(_, holds)| holds);
        let longest = read.chain(write).max().copied();
        let found_ms: i64 = self.server.call(&["PTTL", self.lock.name()]).parse().expect("ms");
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
    let client = runtime.block_on(Client::connect(&target, ClientOptions::default())).expect("it answers");
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
        let mut model = Model { fault, read: BTreeMap::new(), write: None };
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
        Fault::LongestForAll,
    ] {
        let difference = compare(fault, 300);
        assert!(difference.is_err(), "{fault:?} was not noticed");
    }
}
