//! Random operations on semaphores and permits, by two clients of which one loses answers, compared with a
//! small model; and shows that the comparison convicts models that are wrong in the way of known faults.

mod lock_support;
mod support;

use std::{collections::BTreeMap, time::Duration};

use lock_core::{
    Acquire, Client, ClientOptions, ErrorKind, Lease, PermitGuard, PermitId, Permits, Semaphore, Wait,
};
use lock_support::{Loss, Relay};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestError, TestRng, TestRunner},
};
use support::{PATIENCE, Server};

/// How a model is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    /// Not at all.
    None,
    /// A permit that expires is gone.
    LosesExpired,
    /// An acquire whose answer is lost takes twice.
    TakesTwice,
    /// A release whose answer is lost gives twice.
    GivesTwice,
    /// A release of what is not held gives.
    GivesUnknown,
    /// Extending a lapsed permit makes it a held one.
    RevivesLapsed,
    /// A number that is set anew does not reckon with what is held.
    SetsFree,
}

/// Both clients, and the way of the first.
struct World {
    server: Server,
    relay: Relay,
    clients: [Client; 2],
}

impl World {
    async fn start() -> Self {
        let server = Server::start(&[]);
        let relay = Relay::start(server.address()).await;
        let client = async |url: String| {
            let options = ClientOptions::default().response_timeout(Duration::from_millis(500));
            let target = url.parse().expect("a good URL");
            Client::connect(&target, options).await.expect("it answers")
        };
        World { clients: [client(relay.url()).await, client(server.url()).await], server, relay }
    }

    /// The next answer to the first client is lost, if so wished.
    fn lose(&self, who: usize, lost: bool) -> bool {
        let lost = lost && who == 0;
        if lost {
            self.relay.lose("EVALSHA", Loss::Reset);
        }
        lost
    }
}

fn agrees(right: bool, what: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    match right {
        true => Ok(()),
        false => Err(TestCaseError::fail(what())),
    }
}

/// Something that is done to permits. Leases are 150, 250 or 350 s and time passes by 200 s, so that the time
/// a test takes changes nothing.
#[derive(Debug, Clone)]
enum Step {
    Take {
        who: usize,
        count: u32,
        lease_s: u64,
        lost: bool,
    },
    /// By the guard.
    Give {
        guard: usize,
        lost: bool,
    },
    /// By the first id, and one that nobody has.
    GiveById {
        who: usize,
        guard: usize,
        lost: bool,
    },
    Extend {
        guard: usize,
        lease_s: u64,
    },
    Lease {
        who: usize,
        guard: usize,
        lease_s: u64,
    },
    Set {
        who: usize,
        count: u32,
        lost: bool,
    },
    Add {
        who: usize,
        count: i32,
        lost: bool,
    },
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let (who, lost) = (0..2usize, any::<bool>);
    let lease = || prop::sample::select(vec![150, 250, 350]);
    let guard = || 0..8usize;
    prop_oneof![
        6 => (who.clone(), 1..4u32, lease(), lost())
            .prop_map(|(who, count, lease_s, lost)| Step::Take { who, count, lease_s, lost }),
        3 => (guard(), lost()).prop_map(|(guard, lost)| Step::Give { guard, lost }),
        2 => (who.clone(), guard(), lost())
            .prop_map(|(who, guard, lost)| Step::GiveById { who, guard, lost }),
        4 => (guard(), lease()).prop_map(|(guard, lease_s)| Step::Extend { guard, lease_s }),
        1 => (who.clone(), guard(), lease())
            .prop_map(|(who, guard, lease_s)| Step::Lease { who, guard, lease_s }),
        1 => (who.clone(), 0..7u32, lost()).prop_map(|(who, count, lost)| Step::Set { who, count, lost }),
        1 => (who, -2..3i32, lost()).prop_map(|(who, count, lost)| Step::Add { who, count, lost }),
        3 => Just(Step::Pass),
    ]
}

/// What there should be.
#[derive(Debug)]
struct Model {
    twin: Twin,
    free: i64,
    total: i64,
    /// What is left of each lease, in seconds.
    held: BTreeMap<PermitId, i64>,
}

impl Model {
    fn give(&mut self, ids: &[PermitId], lost: bool) -> Vec<PermitId> {
        let mut unknown = Vec::new();
        let twice = lost && self.twin == Twin::GivesTwice;
        for id in ids {
            if self.held.remove(id).is_some() {
                self.free += if twice { 2 } else { 1 };
            } else {
                self.free += i64::from(self.twin == Twin::GivesUnknown);
                unknown.push(*id);
            }
        }
        unknown
    }

    fn pass(&mut self, time_s: i64) {
        for left in self.held.values_mut() {
            *left -= time_s;
        }
        let before = self.held.len();
        self.held.retain(|_, left| *left > 0);
        if self.twin != Twin::LosesExpired {
            self.free += i64::try_from(before - self.held.len()).expect("few");
        }
    }
}

/// A guard, and whether it knows that one of its permits is gone.
struct Held {
    who: usize,
    guard: PermitGuard,
    is_lost: bool,
}

/// Does the steps to a server and to the model, and compares what both say after each.
async fn permits_agree(world: &World, name: &str, steps: &[Step], twin: Twin) -> Result<(), TestCaseError> {
    let permits: Vec<Permits> =
        (world.clients.iter()).map(|client| client.permits(name).expect("a good name")).collect();
    permits[0].try_set_permits(5).await.expect("answered");
    let mut model = Model { twin, free: 5, total: 5, held: BTreeMap::new() };
    let mut guards: Vec<Held> = Vec::new();
    for step in steps {
        permits_step(world, &permits, &mut model, &mut guards, name, step).await?;
        let available = permits[1].available().await.expect("answered");
        let acquired = permits[1].acquired().await.expect("answered");
        let total = permits[1].total().await.expect("answered");
        let held = u64::try_from(model.held.len()).expect("few");
        let said = (available, acquired, total);
        agrees(said == (model.free, held, model.total), || {
            format!("(free, held, total) is {said:?} after {step:?}; {model:?}")
        })?;
        for permit in permits[1].list().await.expect("answered") {
            let left = model.held.get(&permit.id);
            let found = permit.remaining.map(|left| left.as_millis());
            // Within the 50 s that the test may take.
            let fits = left.zip(found).is_some_and(|(left, found_ms)| {
                let left_ms = u128::try_from(left * 1000).expect("held");
                found_ms <= left_ms && found_ms > left_ms.saturating_sub(50_000)
            });
            agrees(fits, || format!("{permit:?} after {step:?}; {model:?}"))?;
        }
    }
    for held in guards {
        held.guard.leave();
    }
    world.server.ok(&["DEL", name, &format!("{{{name}}}:timeout")]);
    Ok(())
}

async fn permits_step(
    world: &World,
    permits: &[Permits],
    model: &mut Model,
    guards: &mut Vec<Held>,
    name: &str,
    step: &Step,
) -> Result<(), TestCaseError> {
    let how = |lease_s| Acquire::default().lease(Lease::Fixed(Duration::from_secs(lease_s)));
    match *step {
        Step::Take { who, count, lease_s, lost } => {
            let granted = model.free >= i64::from(count);
            // A try whose answer is lost is unknown: only what can be granted is asked for with patience.
            let lost = granted && world.lose(who, lost);
            let wait = if lost { Wait::AtMost(PATIENCE) } else { Wait::Try };
            let asked = permits[who].acquire_many_with(count, how(lease_s).wait(wait)).await;
            agrees(asked.is_ok() == granted, || format!("{step:?}: {asked:?}; {model:?}"))?;
            let Ok(guard) = asked else {
                return Ok(());
            };
            let twice = lost && model.twin == Twin::TakesTwice;
            model.free -= i64::from(count) * if twice { 2 } else { 1 };
            let lease_s = i64::try_from(lease_s).expect("short");
            model.held.extend(guard.ids().iter().map(|id| (*id, lease_s)));
            guards.push(Held { who, guard, is_lost: false });
        }
        Step::Give { guard, lost } => {
            if guard >= guards.len() {
                return Ok(());
            }
            let held = guards.remove(guard);
            let lost = world.lose(held.who, lost);
            let ids = held.guard.ids().to_vec();
            let given = held.guard.release().await.map_err(|error| error.kind());
            let unknown = model.give(&ids, lost);
            let expected = match unknown.is_empty() {
                true => Ok(()),
                false => Err(ErrorKind::NotHeld),
            };
            // Time was moved on behind the guard's back: after a lost answer it may take its permits for
            // given by the first.
            agrees(given == expected || lost && given.is_ok(), || format!("{step:?}: {given:?}; {model:?}"))?;
        }
        Step::GiveById { who, guard, lost } => {
            let Some(held) = guards.get(guard) else {
                return Ok(());
            };
            let nobodys: PermitId = "0".repeat(32).parse().expect("an id");
            let ids = [nobodys, held.guard.id()];
            let lost = world.lose(who, lost);
            let unknown = permits[who].release_held(&ids).await.expect("answered");
            let expected = model.give(&ids, lost);
            agrees(unknown == expected, || format!("{step:?}: {unknown:?}; {model:?}"))?;
        }
        Step::Extend { guard, lease_s } => {
            let Some(held) = guards.get_mut(guard) else {
                return Ok(());
            };
            let extended = held.guard.extend(Duration::from_secs(lease_s)).await;
            let lease_s = i64::try_from(lease_s).expect("short");
            let mut all = !held.is_lost;
            for id in held.guard.ids() {
                match model.held.get_mut(id) {
                    Some(left) if !held.is_lost => *left = lease_s.max(*left),
                    None if model.twin == Twin::RevivesLapsed => {
                        model.held.insert(*id, lease_s);
                        model.free -= 1;
                    }
                    _ => all = false,
                }
            }
            held.is_lost |= !all;
            agrees(extended.is_ok() == all, || format!("{step:?}: {extended:?}; {model:?}"))?;
        }
        Step::Lease { who, guard, lease_s } => {
            let Some(held) = guards.get(guard) else {
                return Ok(());
            };
            let id = held.guard.id();
            let lease = Duration::from_secs(lease_s);
            let done = permits[who].update_lease(id, lease).await.expect("answered");
            let left = model.held.get_mut(&id);
            let expected = left.is_some();
            if let Some(left) = left {
                *left = i64::try_from(lease_s).expect("short");
            }
            agrees(done == expected, || format!("{step:?}: {done}; {model:?}"))?;
        }
        Step::Set { who, count, lost } => {
            world.lose(who, lost);
            permits[who].set_permits(count).await.expect("answered");
            let held = i64::try_from(model.held.len()).expect("few");
            model.total = count.into();
            model.free = model.total - if model.twin == Twin::SetsFree { 0 } else { held };
        }
        Step::Add { who, count, lost } => {
            world.lose(who, lost);
            permits[who].add_permits(count).await.expect("answered");
            model.total += i64::from(count);
            model.free += i64::from(count);
        }
        Step::Pass => {
            // The ends come nearer instead.
            let script = "for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do\n\
                redis.call('zincrby', KEYS[1], ARGV[1], id) end";
            let held = format!("{{{name}}}:timeout");
            world.server.ok(&["EVAL", script, "1", &held, "-200000"]);
            model.pass(200);
        }
    }
    Ok(())
}

/// Something that is done to a semaphore.
#[derive(Debug, Clone)]
enum Count {
    Begin { count: u32 },
    Take { count: u32 },
    Give { count: u32 },
    Add { count: i32 },
    Drain,
    Delete,
}

fn count() -> impl Strategy<Value = (usize, bool, Count)> {
    let count = prop_oneof![
        2 => (0..6u32).prop_map(|count| Count::Begin { count }),
        5 => (1..4u32).prop_map(|count| Count::Take { count }),
        4 => (1..4u32).prop_map(|count| Count::Give { count }),
        1 => (-3..4i32).prop_map(|count| Count::Add { count }),
        1 => Just(Count::Drain),
        1 => Just(Count::Delete),
    ];
    (0..2usize, any::<bool>(), count)
}

async fn semaphores_agree(
    world: &World,
    name: &str,
    steps: &[(usize, bool, Count)],
    twin: Twin,
) -> Result<(), TestCaseError> {
    let semaphores: Vec<Semaphore> =
        (world.clients.iter()).map(|client| client.semaphore(name).expect("a good name")).collect();
    let mut model: Option<i64> = None;
    for (who, lost, step) in steps {
        let semaphore = &semaphores[*who];
        let free = model.unwrap_or(0);
        match *step {
            Count::Begin { count } => {
                world.lose(*who, *lost);
                let begun = semaphore.try_set_permits(count, None).await.expect("answered");
                agrees(begun == model.is_none(), || format!("{step:?}: {begun}; {model:?}"))?;
                model = model.or(Some(count.into()));
            }
            Count::Take { count } => {
                let granted = free >= i64::from(count);
                let lost = granted && world.lose(*who, *lost);
                let wait = if lost { Wait::AtMost(PATIENCE) } else { Wait::Try };
                let asked = semaphore.take_with(count, wait).await;
                agrees(asked.is_ok() == granted, || format!("{step:?}: {asked:?}; {model:?}"))?;
                if granted {
                    let twice = lost && twin == Twin::TakesTwice;
                    model = Some(free - i64::from(count) * if twice { 2 } else { 1 });
                }
            }
            Count::Give { count } => {
                let lost = world.lose(*who, *lost);
                semaphore.release(count).await.expect("answered");
                let twice = lost && twin == Twin::GivesTwice;
                model = Some(free + i64::from(count) * if twice { 2 } else { 1 });
            }
            Count::Add { count } => {
                world.lose(*who, *lost);
                let now = semaphore.add_permits(count).await.expect("answered");
                agrees(now == free + i64::from(count), || format!("{step:?}: {now}; {model:?}"))?;
                model = Some(now);
            }
            Count::Drain => {
                world.lose(*who, *lost);
                let drained = semaphore.drain().await.expect("answered");
                let expected = u64::try_from(free).unwrap_or(0);
                agrees(drained == expected, || format!("{step:?}: {drained}; {model:?}"))?;
                model = model.map(|free| free.min(0));
            }
            Count::Delete => {
                let deleted = semaphore.delete().await.expect("answered");
                agrees(deleted == model.is_some(), || format!("{step:?}: {deleted}; {model:?}"))?;
                model = None;
            }
        }
        let available = semaphores[1].available().await.expect("answered");
        agrees(available == model.unwrap_or(0), || {
            format!("{available} are free after {step:?}; {model:?}")
        })?;
        let there = world.server.ok(&["EXISTS", name]) == "1";
        agrees(there == model.is_some(), || format!("there: {there} after {step:?}; {model:?}"))?;
    }
    world.server.ok(&["DEL", name]);
    Ok(())
}

/// The same cases in every run.
fn runner(cases: u32) -> TestRunner {
    let mut config = ProptestConfig::with_cases(cases);
    config.failure_persistence = None;
    config.max_shrink_iters = 30;
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Runs a comparison with the true model, which must agree, and with its twins, which must not.
fn convicts<S: Strategy>(
    steps: impl Fn() -> S,
    twins: &[Twin],
    agree: impl AsyncFn(&World, &str, &S::Value, Twin) -> Result<(), TestCaseError>,
) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::start());
    for twin in [&[Twin::None], twins].concat() {
        let round = std::cell::Cell::new(0);
        let run = runner(40).run(&steps(), |steps| {
            round.set(round.get() + 1);
            let name = format!("{twin:?}{}", round.get());
            runtime.block_on(agree(&world, &name, &steps, twin))
        });
        match (twin, run) {
            (Twin::None, Err(TestError::Fail(why, steps))) => panic!("{why}\n{steps:#?}"),
            (Twin::None, run) => run.expect("steps"),
            (_, run) => assert!(run.is_err(), "{twin:?} is not convicted: the comparison proves nothing"),
        }
    }
}

#[test]
fn permits_do_what_a_small_model_does_and_their_sum_is_constant() {
    let twins = [
        Twin::LosesExpired,
        Twin::TakesTwice,
        Twin::GivesTwice,
        Twin::GivesUnknown,
        Twin::RevivesLapsed,
        Twin::SetsFree,
    ];
    convicts(
        || prop::collection::vec(step(), 1..30),
        &twins,
        async |world, name, steps, twin| permits_agree(world, name, steps, twin).await,
    );
}

#[test]
fn semaphores_do_what_a_small_model_does() {
    convicts(
        || prop::collection::vec(count(), 1..30),
        &[Twin::TakesTwice, Twin::GivesTwice],
        async |world, name, steps, twin| semaphores_agree(world, name, steps, twin).await,
    );
}
