//! A server shares one processor with threads that never rest: it waits for its turns, as beside a busy
//! neighbour.
//!
//! The threads are the harness's own. They end with it, however it ends, and need neither a right nor a
//! program such as stress-ng. All else of the run keeps off that processor meanwhile: a harness that waits
//! for its turns would stamp the record late.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster_config::{ProcessId, ProvisionerKind, Topology, ran_and_waited_ns, threads};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof, SettingKind, SettingSpec, settings};
use crate::planning::plan::Plan;
use crate::scenario::Settings;

const NAME: &str = "stress";

pub(crate) const KIND: FaultKind = FaultKind {
    name: NAME,
    about: "the server shares one processor with threads that never rest, until `for` ends",
    settings: &[SettingSpec::optional("workers", SettingKind::Count(1, 64)).about(
        "how many threads; a server that is always busy gets 1/(workers + 1) of the processor; default 4",
    )],
    any_system: true,
    allowed: |topology, _, _| of_this_machine(topology),
    ..FaultKind::of(&Stress)
};

/// How many threads are asked for.
pub fn count(with: &Settings) -> u32 {
    settings::count(with, "workers").unwrap_or(4)
}

fn of_this_machine(topology: &Topology) -> Result<(), String> {
    match topology.provisioner {
        ProvisionerKind::Process => Ok(()),
        ProvisionerKind::Container => Err(
            "`stress` needs servers that are processes of this machine: the processors of a container are its engine's to give".to_owned(),
        ),
    }
}

pub(crate) fn missing(plan: &Plan) -> Option<String> {
    let asked = plan.faults.iter().any(|fault| fault.fault == NAME);
    // Another scenario's fault may have this program on one of its processors.
    let entered = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let one = !entered && thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    (one && asked && !plan.hooks.contains_key(NAME)).then(|| {
        "`stress` needs two processors: on one it would starve the clients and the record as well".to_owned()
    })
}

struct Stress;

/// Who uses which processors while a server is under stress.
#[derive(Clone, Copy)]
struct Processors {
    /// Where servers under stress are.
    one: CpuSet,
    rest: CpuSet,
    /// Where everybody is without the fault.
    all: CpuSet,
}

/// Of this process, and how many servers are under stress.
static PROCESSORS: Mutex<Option<(Processors, u32)>> = Mutex::new(None);

/// Everybody leaves the processor that is for servers under stress; then the server goes there.
fn enter(process: ProcessId) -> Result<Processors, FaultError> {
    let mut entered = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let (processors, count) = match *entered {
        Some(entered) => entered,
        None => (split().map_err(|error| failed!("processors: {error}"))?, 0),
    };
    let usual = [processors.all, processors.rest][usize::from(count > 0)];
    let mut own = threads(process.pid).into_iter().map(id);
    if own.any(|one| sched_getaffinity(one).is_ok_and(|mask| mask != usual)) {
        return Err(failed!("it has processors of its own, by its configuration or by another `stress`"));
    }
    *entered = Some((processors, count + 1));
    move_all(std::process::id(), processors.all, processors.rest);
    move_all(process.pid, processors.rest, processors.one);
    Ok(processors)
}

fn split() -> Result<Processors, Errno> {
    let all = sched_getaffinity(id(std::process::id()))?;
    let usable = (0..CpuSet::count()).filter(|one| all.is_set(*one) == Ok(true));
    // The first one serves the interrupts of many machines.
    let last = usable.skip(1).last().ok_or(Errno::ENODEV)?;
    let (mut one, mut rest) = (CpuSet::new(), all);
    one.set(last)?;
    rest.unset(last)?;
    Ok(Processors { one, rest, all })
}

/// The server goes back to the others; with the last one under stress everybody may use all processors again.
fn leave(process: ProcessId) {
    let mut entered = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((processors, count)) = entered.take() else { return };
    if process.is_alive() {
        move_all(process.pid, processors.one, processors.rest);
    }
    match count {
        1 => move_all(std::process::id(), processors.rest, processors.all),
        _ => *entered = Some((processors, count - 1)),
    }
}

fn move_all(pid: u32, from: CpuSet, to: CpuSet) {
    for thread in threads(pid).into_iter().map(id) {
        if sched_getaffinity(thread) == Ok(from) {
            // One that has ended meanwhile needs no processor; one that stays shows in the evidence.
            let _ = sched_setaffinity(thread, &to);
        }
    }
}

struct StarvedServer {
    /// What its threads had run and waited before, in nanoseconds.
    before: (u64, u64),
    workers: Vec<JoinHandle<()>>,
    /// What showed, when the fault has ended.
    place: Result<Stressed, Proof>,
}

/// A server beside threads that never rest, until this is dropped.
struct Stressed(ProcessId, Arc<AtomicBool>);

impl Drop for Stressed {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        leave(self.0);
    }
}

impl OnEach for Stress {
    type Kept = StarvedServer;

    async fn harm(at: TargetContext<'_>) -> Result<StarvedServer, FaultError> {
        let node = at.node()?;
        of_this_machine(at.deployment().topology()).map_err(FaultError)?;
        let process = at.deployment().pid(node).and_then(ProcessId::of);
        let process = process.ok_or_else(|| failed!("{node} has no process"))?;
        let before = times(process);
        let one = enter(process)?.one;
        let place = Stressed(process, Arc::default());
        let mut workers = Vec::new();
        for _ in 0..count(&at.injection.with) {
            let end = place.1.clone();
            let worker = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
                // One that could run elsewhere would starve others.
                let bound = sched_setaffinity(Pid::from_raw(0), &one).is_ok();
                while bound && !end.load(Ordering::Relaxed) {
                    black_box(());
                }
            });
            workers.push(worker.map_err(|error| failed!("no thread could be started: {error}"))?);
        }
        Ok(StarvedServer { before, workers, place: Ok(place) })
    }

    async fn undo(at: TargetContext<'_>, kept: &mut StarvedServer) -> Result<(), FaultError> {
        kept.place = Err(kept.proof(at));
        while !kept.workers.iter().all(JoinHandle::is_finished) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Evidence for StarvedServer {
    /// A busy server waits `workers` times as long as it runs; one that rests between commands, longer.
    fn proof(&self, at: TargetContext<'_>) -> Proof {
        let process = match &self.place {
            Ok(Stressed(process, _)) => process,
            Err(seen) => return seen.clone(),
        };
        let after = times(*process);
        let (ran_ns, waited_ns) =
            (after.0.saturating_sub(self.before.0), after.1.saturating_sub(self.before.1));
        let workers = self.workers.len() as u64;
        proof!(
            ran_ns > 0 && waited_ns >= ran_ns * workers / 2,
            "{}: beside {workers} busy threads it ran for {:.1?} and waited {:.1?} for a processor",
            at.target,
            Duration::from_nanos(ran_ns),
            Duration::from_nanos(waited_ns)
        )
    }

    fn comes_late(&self) -> bool {
        true
    }
}

fn times(process: ProcessId) -> (u64, u64) {
    let all = threads(process.pid).into_iter().filter_map(ran_and_waited_ns);
    all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn id(thread: u32) -> Pid {
    Pid::from_raw(thread.cast_signed())
}
