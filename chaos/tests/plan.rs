//! A plan is drawn once: the same seed gives the same bytes, and what was written is what is read.

mod support;

use chaos::plan::Plan;
use chaos::planner::Planner;
use chaos::scenario::Scenario;
use chaos::scenario_source::ScenarioSource;
use support::plan;

const TEXT: &str = r#"
name = "drawn"
[topology]
kind = "masters"
[lock]
subject = "lock-core:redlock"
[load]
clients = 4
tasks = 3
[[faults]]
at = "2s"
fault = "pause"
on = "majority"
[[faults]]
at = "1s"
fault = "kill"
on = "minority"
[[faults]]
at = "3s"
fault = "kill"
on = "any"
"#;

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(plan(TEXT, 7).to_json(), plan(TEXT, 7).to_json());
    assert_ne!(plan(TEXT, 7).to_json(), plan(TEXT, 8).to_json());
}

#[test]
fn a_plan_is_read_back_as_it_was_written() {
    let written = plan(TEXT, 7);
    let read = Plan::from_json(&written.to_json()).expect("it was just written");
    assert_eq!(read, written);
    assert_eq!(read.to_json(), written.to_json());
}

#[test]
fn drawn_parties_are_nodes_and_faults_are_in_order_of_time() {
    let json = plan(TEXT, 7).to_json();
    for word in ["minority", "majority", "\"any\""] {
        assert!(!json.contains(word), "{word} is still in\n{json}");
    }
    let text = plan(TEXT, 7).to_text();
    let kill = text.find("at 1s: kill").expect("the kill is shown");
    let pause = text.find("at 2s: pause").expect("the pause is shown");
    assert!(kill < pause, "{text}");
}

#[test]
fn in_a_cluster_every_lock_is_on_the_first_master() {
    let plan = plan("name = \"x\"\n[topology]\nkind = \"cluster\"\n[load]\nlocks = 20\n", 1);
    assert_eq!(plan.load.locks.len(), 20);
    let (_, high) = cluster_config::layout::slot_range(0, 3);
    assert!(plan.load.locks.iter().all(|lock| cluster_config::slot_of(lock) <= high));
}

#[test]
fn a_plan_with_a_foreign_fault_or_form_is_refused() {
    let json = plan(TEXT, 7).to_json();
    let foreign = json.replace("\"kill\"", "\"flood\"");
    assert!(Plan::from_json(&foreign).is_err_and(|error| error.to_string().contains("`flood`")));
    let later = json.replacen("\"schema\": 1", "\"schema\": 9", 1);
    assert!(Plan::from_json(&later).is_err_and(|error| error.to_string().contains("form 9")));
}

#[test]
fn operations_are_drawn_and_the_same_seed_draws_the_same() {
    let text = "name = \"x\"\n[topology]\nkind = \"single\"\n[random]\n\
                operations = [\"kind\", \"lease\", \"reenter\", \"extend\", \"cancel\", \"owner_moves\"]\n";
    let scenario = Scenario::parse("x.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    let plan = |seed| Plan::new(&scenario, seed);
    let plans: Vec<_> = (0..40).map(plan).collect();
    let some = |has: &dyn Fn(&Plan) -> bool| {
        let those = plans.iter().filter(|plan| has(plan)).count();
        assert!((1..40).contains(&those), "{those}");
    };
    some(&|plan| plan.lock.kind == "fair" && plan.load.does.mix.contains_key("fair"));
    some(&|plan| plan.lock.lease == scenario.lock.lease);
    some(&|plan| plan.load.does.reenter > 0.0);
    some(&|plan| plan.load.does.extend.is_some());
    some(&|plan| plan.load.does.cancel > 0.0);
    some(&|plan| plan.load.does.owner_moves > 0.0);
    assert!(plans.iter().all(|plan| plan.faults.is_empty()));
    assert_eq!(plan(7), plan(7));
    let kinds = |plan: &Plan| plan.lock.kind == "plain" && plan.load.does.reenter > 0.0;
    assert!(!plans.iter().any(kinds), "a plain lock is not entered again");
}

#[tokio::test]
async fn a_driver_that_refuses_servers_of_one_shape_is_left_out_there_if_it_works_elsewhere() {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/drivers/driver.py");
    let subject = format!("exec:python3 {driver} cluster-terse");
    let planner = Planner {
        subject: Some(&subject),
        all: true,
        dry_run: false,
        target: None,
        seeds: vec![7],
        matrix: vec![None],
        fit: &|_, scenario| Ok(scenario),
    };
    // Where it works nowhere, its runs say what is wrong.
    for (other, planned, left_out) in [("takeover-cluster", 1, 1), ("failover-async", 2, 0)] {
        let all = ["never-released", other].map(ScenarioSource::find);
        let all = all.map(|found| found.expect("a built-in scenario"));
        let found = planner.plan(&all).await.expect("a plan");
        assert_eq!((found.runs.len(), found.not_applicable.len()), (planned, left_out), "{other}");
        assert!(found.not_applicable.iter().all(|one| one.topology == "single"));
    }
}
