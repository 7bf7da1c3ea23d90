//! A server under `stress` really gets less of its processor; when the fault ends it has all processors
//! again, and nothing burns any more. Alone in its file: it counts the threads of its process.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chaos::faults::{ClientControl, FaultError, FaultGuard, FaultWorld, Injection, Target, find};
use chaos::scenario::{Setting, Settings};
use cluster_config::{
    Deployment, Process, Provisioner, Topology, UpOptions, process_state, ran_and_waited_ns, threads,
};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// No clients: the fault is about a server alone.
struct Nobody;

#[async_trait]
impl ClientControl for Nobody {
    fn members(&self, _: u32) -> Vec<bench::exec::Member> {
        Vec::new()
    }
    fn pid(&self, _: u32) -> Option<u32> {
        None
    }
    fn pause(&self, _: u32) -> Result<(), FaultError> {
        Ok(())
    }
    fn resume(&self, _: u32) {}
    async fn kill(&self, _: u32) -> Result<(), FaultError> {
        Ok(())
    }
    async fn restart(&self, _: u32) -> Result<(), FaultError> {
        Ok(())
    }
    async fn block(&self, _: u32, time: Duration) -> Result<Duration, FaultError> {
        Ok(time)
    }
    fn holder(&self) -> Option<u32> {
        None
    }
    fn delay_writes(&self, _: u32, _: Duration) -> Result<(), FaultError> {
        Ok(())
    }
    fn late_writes(&self, _: u32) -> u64 {
        0
    }
    fn unclear(&self) -> u64 {
        0
    }
    fn count(&self) -> u32 {
        0
    }
}

const WORKERS: usize = 16;

async fn world(dir: &tempfile::TempDir) -> (Arc<FaultWorld>, u32) {
    let topology = Topology::of(cluster_config::TopologyKind::Single);
    let deployment = Process.up(&topology, &UpOptions::new(dir.path())).await;
    let deployment = Arc::new(deployment.unwrap_or_else(|error| panic!("{error}")));
    let pid = deployment.pid("n1").expect("it runs");
    let world =
        FaultWorld { deployment, clients: Arc::new(Nobody), locks: Vec::new(), shims: None, names: None };
    (Arc::new(world), pid)
}

async fn stressed(world: &Arc<FaultWorld>) -> Result<Box<dyn FaultGuard>, FaultError> {
    let injection = Injection {
        targets: vec![Target::Node("n1".to_owned())],
        with: Settings::from([("workers".to_owned(), Setting::Number(WORKERS as i64))]),
        lasts: None,
    };
    let kind = find("stress").expect("a fault");
    kind.fault.inject(world, &injection).await
}

fn times(pid: u32) -> (u64, u64) {
    let all = threads(pid).into_iter().filter_map(ran_and_waited_ns);
    all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// The share of the time for which it could have run that a busy server does run.
async fn share(deployment: &Deployment, pid: u32) -> f64 {
    const BUSY: &str = "local n = 0 for i = 1, 2e6 do n = n + i end return tostring(n)";
    let before = times(pid);
    for _ in 0..4 {
        let done = deployment.command("n1", &["EVAL", BUSY, "0"]).await;
        done.unwrap_or_else(|error| panic!("{error}"));
    }
    let after = times(pid);
    let (ran, waited) = (after.0 - before.0, after.1 - before.1);
    ran as f64 / (ran + waited) as f64
}

fn masks(pid: u32) -> BTreeMap<u32, CpuSet> {
    let mask = |thread: u32| sched_getaffinity(Pid::from_raw(thread.cast_signed()));
    let all = threads(pid).into_iter();
    all.map(|thread| (thread, mask(thread).expect("it lives"))).collect()
}

fn burners() -> usize {
    let own = threads(std::process::id()).into_iter();
    let names = own.filter_map(|one| fs::read_to_string(format!("/proc/{one}/comm")).ok());
    names.filter(|name| name.trim() == "stress").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_gets_less_of_its_processor_and_then_all_of_them_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (world, pid) = world(&dir).await;
    let processors = |mask: &CpuSet| {
        let all = 0..CpuSet::count();
        all.filter(|one| mask.is_set(*one) == Ok(true)).count()
    };
    let (free, share_before) = (masks(pid), share(&world.deployment, pid).await);
    if free.values().any(|mask| processors(mask) < 2) {
        // The fault is refused there.
        return;
    }

    let guard = stressed(&world).await.unwrap_or_else(|why| panic!("{why}"));
    let share_under = share(&world.deployment, pid).await;
    let bound = masks(pid);
    assert!(bound.values().all(|mask| processors(mask) == 1));
    // The harness keeps off that processor: only those of the server and beside it are there.
    let own = masks(std::process::id()).into_values();
    let there = own.filter(|mask| *mask == bound[&pid]).count();
    assert_eq!(there, bound.len() + WORKERS);
    assert_eq!(burners(), WORKERS);
    // A second one at the same time would not know what to give back.
    let twice = stressed(&world).await.unwrap_or_else(|why| panic!("{why}"));
    let twice = twice.heal().await;
    assert!(!twice.proof.bit && twice.proof.words.contains("another `stress`"));
    assert_eq!(burners(), WORKERS);

    let healed = guard.heal().await;
    assert!(healed.proof.bit, "{healed:?}");
    assert_eq!(healed.failed, None);
    assert_eq!((masks(pid), burners()), (free.clone(), 0));
    let own = masks(std::process::id()).into_values();
    assert_eq!(own.filter(|mask| *mask != free[&pid]).count(), 0);
    let share_after = share(&world.deployment, pid).await;
    let said = format!("{share_before:.2}, {share_under:.2}, {share_after:.2}");
    assert!(2.0 * share_under < share_before.min(share_after), "{said}");

    // A guard that is dropped, as when a run is called off, leaves nothing behind either.
    drop(stressed(&world).await.unwrap_or_else(|why| panic!("{why}")));
    assert_eq!(masks(pid), free);
    while burners() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    // A server that does not run waits for nothing: that it could have is no evidence.
    world.deployment.pause("n1").expect("it runs");
    while !threads(pid).into_iter().all(|one| process_state(one) == Some('T')) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let guard = stressed(&world).await.unwrap_or_else(|why| panic!("{why}"));
    assert!(guard.awaits_evidence());
    let healed = guard.heal().await;
    assert!(!healed.proof.bit && healed.failed.is_none(), "{healed:?}");
    world.deployment.resume("n1").expect("it is there");
}
