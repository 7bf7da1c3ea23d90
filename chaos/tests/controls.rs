//! Each scenario convicts the broken lock that its file names as its control: the table of
//! `docs/src/scenarios.md` is true.

mod support;

use std::time::Duration;

use chaos::audit::{OpenQuestion, doubt, fitted};
use chaos::builtin::{BUILTINS, Builtin};
use chaos::plan::Plan;
use chaos::run::{RunError, missing_server};
use chaos::scenario::{FaultTrigger, Scenario, Suite};
use futures_util::StreamExt as _;
use results::verdict::{CLASSES, State};

/// No broken lock has both these kinds and a grant that waits for replicas.
const WITHOUT: [&str; 2] = ["read-write-downgrade-failover-wait-all", "read-write-failover-wait-all"];

/// A lock that every caller gets is convicted anywhere, and is a control only where no other is known: a good
/// failover, a slot that moves, slow nodes and a slow disk break no lock that asks its server at all.
const BY_A_LOCK_OF_EVERYBODY: [&str; 6] = [
    "cluster-slow-third",
    "failover-manual-cluster",
    "slot-migration-atomic",
    "slot-migration-atomic-failover",
    "slot-migration-failover-valkey",
    "slow-disk",
];

/// A control that chance let go has two more seeds.
const SEEDS: std::ops::Range<u64> = 7..10;

fn scenario(builtin: &Builtin) -> Scenario {
    Scenario::parse(builtin.path, builtin.text).expect("a scenario")
}

/// What goes wrong, if anything does: the control violates nothing that a sound lock keeps in the scenario,
/// and keeps each of its bounds.
async fn acquitted(builtin: &Builtin) -> Option<String> {
    let scenario = scenario(builtin);
    let control = &scenario.audit.control;
    if control.is_empty() || missing_server(&scenario.topology, &scenario.faults).is_some() {
        return None;
    }
    let subject = support::subject(control);
    let kinds = bench::subjects::find(control).expect("a lock").kinds();
    let mut has = bench::abilities::Abilities::assumed(kinds);
    // What it says when it is asked; holds are scaled to that.
    let claims = control == "broken:never-renews";
    has.watchdog = claims.then_some(Duration::from_secs(3));
    has.features.get_or_insert_default().push("redlock".to_owned());
    let fitting = match fitted(&scenario, control, &has) {
        Ok(fitting) => fitting,
        Err(why) => return Some(format!("{}: {why}", builtin.name)),
    };
    let mut said = String::new();
    for seed in SEEDS {
        let plan = Plan::new(&fitting, seed);
        let run = match support::run_plan(subject.clone(), &plan).await {
            Ok((run, _)) => run,
            // The servers of this machine are too old for it.
            Err(RunError::NotApplicable(_) | RunError::Missing(_)) => return None,
            Err(error) => return Some(format!("{}: {error}", builtin.name)),
        };
        let state = |class: &str| run.result.verdicts.get(class).map(|verdict| verdict.state);
        let is_broken = |(class, word): (&String, &String)| match word.as_str() {
            "clean" => state(class) == Some(State::Violated),
            bound => run.result.meets(class, bound) == Some(false),
        };
        let is_suspect = doubt(&fitting, &run.result) == OpenQuestion::Violated;
        if is_suspect || plan.expect.iter().any(is_broken) {
            return None;
        }
        said = support::told(&run);
    }
    Some(format!("{} acquits {control}: {said}", builtin.name))
}

async fn each_convicts(of: impl Fn(&Scenario) -> bool) {
    let all = BUILTINS.iter().filter(|one| !one.control && of(&scenario(one)));
    let tried: Vec<_> = all.map(acquitted).collect();
    let acquitted = futures_util::stream::iter(tried)
        .buffer_unordered(4)
        .filter_map(async |wrong| wrong)
        .collect::<Vec<_>>()
        .await;
    assert!(acquitted.is_empty(), "{}", acquitted.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_scenarios_convict_their_controls() {
    each_convicts(|one| one.audit.suite == Suite::Quick).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it takes ten minutes"]
async fn the_other_scenarios_convict_their_controls() {
    each_convicts(|one| one.audit.suite != Suite::Quick).await;
}

#[test]
fn a_scenario_that_expects_nothing_but_clean_has_a_control() {
    for builtin in BUILTINS.iter().filter(|one| !one.control) {
        let scenario = scenario(builtin);
        let mut classes = scenario.expect.iter();
        // One that expects a violation convicts its own lock.
        let harm = classes.any(|(class, word)| CLASSES.contains(&class.as_str()) && word != "clean");
        let has = !scenario.audit.control.is_empty();
        let by_everybody = scenario.audit.control == "broken:steal";
        assert_eq!(by_everybody, BY_A_LOCK_OF_EVERYBODY.contains(&builtin.name), "{}", builtin.name);
        assert!(has || harm || WITHOUT.contains(&builtin.name), "{}", builtin.name);
    }
}

/// Whoever dies with a lock keeps it for its lease; a load that ends before that cannot show that it came
/// back.
#[test]
fn a_load_that_must_see_a_recovery_outlasts_the_last_fault_and_the_lease() {
    for builtin in BUILTINS {
        let scenario = scenario(builtin);
        let lease = scenario.lock.lease.or(scenario.lock.watchdog);
        let over = scenario.faults.iter().map(|fault| match fault.when {
            FaultTrigger::AtNs(at_ns) => at_ns + fault.lasts_ns.unwrap_or(0),
            _ => 0,
        });
        let (over_ns, lease_ns) = (over.max().unwrap_or(0), lease.map_or(0, |lease| lease.ns()));
        if scenario.expect.contains_key("recovery") {
            let load_ns = scenario.load.duration.ns();
            assert!(load_ns > over_ns + lease_ns, "{}", builtin.name);
        }
    }
}
