//! What shows that somebody else's fault took effect: harm that is really done is seen, and the word of an
//! engine that does nothing is no evidence. The harness's own faults stand in for the engine's.

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chaos::faults::engine::Engine;
use chaos::faults::{FaultGuard, FaultWorld, HealReport, Injected, Injection, Proof, Target, find};
use chaos::run::{RunOptions, run_scenario};
use chaos::scenario::{FaultSpec, Scenario};
use cluster_config::{Party, Process};

/// The fault that is an engine's lasts so long.
const LASTS: Duration = Duration::from_secs(4);

/// Does one of the harness's faults in place of what it is asked for, or nothing.
#[derive(Debug)]
struct StandIn {
    /// A fault, and a scenario's words for what goes with it.
    does: Option<(&'static str, &'static str)>,
}

#[async_trait]
impl Engine for StandIn {
    fn takes(&self, fault: &FaultSpec) -> bool {
        fault.lasts_ns.map(Duration::from_nanos) == Some(LASTS)
    }

    async fn inject(&self, _: &str, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let Some((name, with)) = self.does else {
            return Ok(Box::new(Word));
        };
        let kind = find(name).expect("a fault");
        let text = format!(
            "name = \"x\"\n[topology]\nkind = \"single\"\n[[faults]]\nat = \"1s\"\nfault = \"{name}\"\non = \"{}\"\n{with}\n",
            if kind.hits.link() { "clients -> master" } else { "master" }
        );
        let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let node = |target: &Target| match target {
            Target::Link(Party::Node(name), _) | Target::Link(_, Party::Node(name)) => {
                Target::Node(name.clone())
            }
            other => other.clone(),
        };
        let mut targets = injection.targets.clone();
        if !kind.hits.link() {
            targets = targets.iter().map(node).collect();
            targets.dedup();
        }
        let own = Injection { targets, with: scenario.faults[0].with.clone(), lasts: injection.lasts };
        kind.fault.inject(world, &own).await
    }
}

/// An engine's word.
struct Word;

#[async_trait]
impl FaultGuard for Word {
    fn proof(&self) -> Proof {
        Proof { bit: true, words: "AllInjected".to_owned() }
    }

    async fn heal(self: Box<Self>) -> HealReport {
        HealReport { proof: self.proof(), failed: None }
    }
}

/// Whether the engine's fault took effect, and what was seen. The same fault later, which is the harness's,
/// makes it start servers with all that the stand-in needs; the load ends before it is due.
async fn seen(topology: &str, fault: &str, stand_in: StandIn) -> (bool, String) {
    let text = format!(
        "name = \"one\"\n[topology]\n{topology}\n[load]\nclients = 2\nduration = \"5s\"\n\
         [[faults]]\nat = \"300ms\"\nfor = \"4s\"\n{fault}\n[[faults]]\nat = \"4900ms\"\nfor = \"1s\"\n{fault}\n"
    );
    let plan = support::plan(&text, 7);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = support::subject(&plan.lock.subject);
    let mut options = RunOptions::new(dir.path().join("run"), subject, Arc::new(Process));
    options.engine = Some(Arc::new(stand_in));
    let run = run_scenario(&plan, &options).await;
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let first = &run.result.faults[0];
    (first.bit, first.proof.clone())
}

macro_rules! is_seen {
    ($($test:ident: $topology:literal, $fault:literal, $does:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let done = seen($topology, $fault, StandIn { does: Some($does) }).await;
            assert!(done.0, "harm was done: {}", done.1);
            let idle = seen($topology, $fault, StandIn { does: None }).await;
            assert!(!idle.0, "nothing was done: {}", idle.1);
            assert!(idle.1.contains("AllInjected"), "{}", idle.1);
        })*
    };
}

is_seen! {
    a_clock_that_is_wrong: "kind = \"single\"", "fault = \"clock\"\non = \"master\"\nwith = { jump = \"20s\" }",
        ("clock", "with = { jump = \"20s\" }");
    syncs_that_are_late: "kind = \"single\"\nconfig = { appendonly = \"yes\", appendfsync = \"always\" }",
        "fault = \"disk\"\non = \"master\"\nwith = { fsync = \"300ms\" }", ("disk", "with = { fsync = \"300ms\" }");
    a_server_that_waits_for_a_processor: "kind = \"single\"", "fault = \"stress\"\non = \"master\"", ("stress", "with = { workers = 64 }");
    a_replica_that_hears_late: "kind = \"sentinel\"", "fault = \"delay\"\non = \"master -> replicas\"\nwith = { latency = \"500ms\" }",
        ("delay", "with = { latency = \"500ms\" }");
    a_replica_whose_packets_are_sent_again: "kind = \"sentinel\"", "fault = \"loss\"\non = \"master -> replicas\"\nwith = { rate = 0.3 }",
        ("delay", "with = { latency = \"500ms\" }");
    a_server_that_is_silent_from_here: "kind = \"single\"", "fault = \"cut\"\non = \"clients <-> master\"", ("pause", "for = \"4s\"");
    a_server_that_answers_late_or_never_from_here: "kind = \"single\"", "fault = \"delay\"\non = \"clients -> master\"\nwith = { latency = \"300ms\" }",
        ("pause", "for = \"4s\"");
}
