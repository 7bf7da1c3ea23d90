//! A plan is drawn once: the same seed gives the same bytes, and what was written is what is read.

mod support;

use std::collections::BTreeSet;

use chaos::audit::drawn_scenario;
use chaos::faults::find;
use chaos::plan::Plan;
use chaos::planner::Planner;
use chaos::scenario::{Scenario, scenario_text};
use chaos::scenario_source::ScenarioSource;
use cluster_config::TopologyKind;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
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
fn a_prefix_stands_before_the_names_of_locks_in_faults_too() {
    let builtin = chaos::builtin::find("lost-key-told-at-once").expect("it is in the suite");
    let mut plan = plan(builtin.text, 7);
    plan.prefix_locks("a:");
    assert_eq!(plan.load.locks, ["a:orders-1"]);
    let json = plan.to_json();
    assert_eq!(json.matches("\"a:orders-1\"").count(), 3, "{json}");
    assert!(!json.contains("\"orders-1\""), "{json}");
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

/// Which links a partition cuts.
mod partitions {
    use chaos::faults::Target;
    use chaos::partition::cut;
    use cluster_config::Party;

    fn shown(groups: &str) -> Vec<String> {
        let party = |word: &str| match word.strip_prefix('c') {
            Some(number) => Party::Client(number.parse().expect("a number")),
            None => Party::Node(word.to_owned()),
        };
        let groups: Vec<Vec<Party>> =
            groups.split(" | ").map(|group| group.split(", ").map(party).collect()).collect();
        // One of the two directions is enough to read; that both are there is asserted once.
        let links = cut(&groups);
        for link in &links {
            let Target::Link(from, to) = link else {
                panic!("only links are cut");
            };
            assert!(links.contains(&Target::Link(to.clone(), from.clone())));
        }
        let mut words: Vec<String> = links
            .iter()
            .filter_map(|link| match link {
                Target::Link(from, to) if from < to => Some(link.to_string()),
                _ => None,
            })
            .collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn two_halves_share_no_link() {
        assert_eq!(shown("n1, n2 | n3, c1"), ["n1 -> c1", "n1 -> n3", "n2 -> c1", "n2 -> n3"]);
    }

    #[test]
    fn a_bridge_reaches_both_sides() {
        assert_eq!(shown("n1, n2, n3 | n3, n4, n5"), ["n1 -> n4", "n1 -> n5", "n2 -> n4", "n2 -> n5"]);
    }

    #[test]
    fn in_a_ring_everybody_sees_its_neighbours() {
        assert_eq!(
            shown("n1, n2, n3 | n2, n3, n4 | n3, n4, n5 | n4, n5, n1 | n5, n1, n2"),
            [] as [&str; 0],
            "in five groups of three, every two stand together somewhere"
        );
        assert_eq!(shown("n1, n2 | n2, n3 | n3, n4 | n4, n1"), ["n1 -> n3", "n2 -> n4"]);
    }

    #[test]
    fn clients_alone_have_nothing_to_cut() {
        assert_eq!(shown("c1 | c2"), [] as [&str; 0]);
    }
}

/// Which seeds of a soak are left, and the file of those that are done.
mod soaked_seeds {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use chaos::run::RunError;
    use chaos::soak::{SoakedSeed, open, plans, read};

    fn done(seed: u64) -> SoakedSeed {
        SoakedSeed {
            seed,
            scenario: "soak-single".to_owned(),
            exit_code: 0,
            verdicts: BTreeMap::new(),
            finding: None,
        }
    }

    #[test]
    fn a_line_that_is_torn_in_the_middle_of_a_letter_is_cut_off_alone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("state.jsonl");
        std::fs::write(&path, b"{\"seed\":1}\n{\"scenario\":\"\xc3").expect("a file");
        drop(open(&path).expect("it can be written"));
        let kept = std::fs::read_to_string(&path).expect("text again");
        assert_eq!(kept, "{\"seed\":1}\n");
    }

    #[test]
    fn seeds_that_are_done_are_not_planned_again_and_topologies_take_turns() {
        let planned = plans(1..9, &[done(2), done(7)], |_, _| true).expect("the files are good");
        let seeds: Vec<u64> = planned.iter().map(|planned| planned.plan.seed).collect();
        assert_eq!(seeds, [1, 3, 4, 5, 6, 8]);
        let kinds: std::collections::BTreeSet<&str> =
            planned.iter().map(|planned| planned.plan.topology.kind.name()).collect();
        assert_eq!(kinds.len(), 4);
        assert!(planned.iter().all(|planned| !planned.plan.faults.is_empty()));
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_a_bad_one_elsewhere_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state.jsonl");
        let line = serde_json::to_string(&done(1)).expect("plain JSON");
        std::fs::write(&path, format!("{line}\n{{\"seed\":2")).expect("written");
        assert_eq!(read(&path).expect("readable"), [done(1)]);
        let mut file = open(&path).expect("writable");
        writeln!(file, "{}", serde_json::to_string(&done(3)).expect("plain JSON")).expect("written");
        assert_eq!(read(&path).expect("readable"), [done(1), done(3)]);
        for (text, place) in [
            (format!("nonsense\n{line}\n"), "state.jsonl:1: "),
            (format!("{line}\nnonsense\n"), "state.jsonl:2: "),
        ] {
            std::fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("a whole line that says nothing");
            assert!(matches!(error, RunError::Input(_)), "{error}");
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}

/// The search for the smallest plan that convicts.
mod shrinking {
    use chaos::scenario::{FaultParty, FaultSpec};
    use chaos::shrink::Shrinker;

    use super::{Plan, Scenario};

    const TEXT: &str = r#"
name = "much"
[topology]
kind = "single"
[load]
clients = 6
tasks = 4
locks = 3
duration = "20s"
[[faults]]
at = "1s"
for = "1s"
fault = "pause"
on = "client 2"
[[faults]]
at = "2s"
fault = "flushall"
[[faults]]
at = "3s"
fault = "script-flush"
[[faults]]
at = "4s"
for = "500ms"
fault = "pause"
on = "master"
"#;

    fn plan() -> Plan {
        Plan::new(&Scenario::parse("much.toml", TEXT).expect("a scenario"), 7)
    }

    /// Runs the search against a made-up truth.
    fn shrunk(tries: u32, convicts: impl Fn(&Plan) -> bool) -> Shrinker {
        let mut shrinker = Shrinker::new(plan(), tries);
        while let Some(reduction) = shrinker.next() {
            shrinker.tell(convicts(&reduction.plan));
        }
        shrinker
    }

    #[test]
    fn what_does_not_matter_goes_and_what_does_stays() {
        let convicts = |plan: &Plan| {
            plan.faults.iter().any(|fault| fault.fault == "flushall") && plan.load.clients.len() >= 2
        };
        let shrinker = shrunk(200, convicts);
        let smallest = shrinker.smallest();
        assert!(shrinker.is_done());
        assert!(convicts(smallest), "it still convicts");
        let faults: Vec<&str> = smallest.faults.iter().map(|fault| fault.fault.as_str()).collect();
        assert_eq!((faults, smallest.faults[0].span), (vec!["flushall"], 1));
        assert_eq!(smallest.load.clients.len(), 2);
        assert_eq!(smallest.load.clients[0].task_seeds.len(), 1);
        assert_eq!(smallest.load.locks.len(), 1);
        // Until a second after the fault at 2 s.
        assert_eq!(smallest.load.does.duration.ns(), 3_000_000_000);
        assert!(shrinker.tries() < 40, "{}", shrinker.tries());
        assert_eq!(smallest.load.clients[0].seed, plan().load.clients[0].seed, "seeds stay");
    }

    #[test]
    fn a_client_that_a_fault_names_stays() {
        let shrinker =
            shrunk(200, |plan| plan.faults.iter().any(|fault| fault.span == 1 && fault.fault == "pause"));
        let smallest = shrinker.smallest();
        let clients = |fault: &FaultSpec| -> Vec<u32> {
            let number = |who: &FaultParty| match who {
                FaultParty::Client(number) => Some(*number),
                _ => None,
            };
            fault.on.everybody().filter_map(number).collect()
        };
        let named = smallest.faults.iter().flat_map(clients).max();
        assert!(named.is_none_or(|named| smallest.load.clients.len() >= named as usize));
    }

    #[test]
    fn tries_are_bounded_and_the_plan_stays_if_nothing_smaller_convicts() {
        let shrinker = shrunk(5, |_| false);
        assert_eq!((shrinker.tries(), shrinker.smallest() == &plan()), (5, true));
        assert!(!shrinker.is_done());
        assert!(shrunk(1_000, |_| false).is_done());
    }
}

mod drawn_faults {
    use chaos::scenario::{FaultParty, FaultSite, FaultSpec, FaultTrigger};

    use super::*;

    fn drawn(at_once: u32, seed: u64) -> Vec<FaultSpec> {
        let text = format!(
            "name = \"x\"\n[topology]\nkind = \"sentinel\"\n[load]\nduration = \"60s\"\n[random]\nfaults = {{ pause = 3, kill = 1, delay = 2 }}\n\
             on = [\"any\", \"any client\", \"clients <-> master\"]\nevery = \"200ms..400ms\"\nfor = \"500ms..1s\"\nat-once = {at_once}\n\
             with = {{ delay = {{ latency = \"20ms\" }} }}\n"
        );
        plan(&text, seed).faults
    }

    /// From when to when a fault lasts.
    fn span(fault: &FaultSpec) -> (u64, u64) {
        match fault.when {
            FaultTrigger::AtNs(at_ns) => (at_ns, at_ns + fault.lasts_ns.expect("none is one-shot")),
            _ => panic!("a time was drawn"),
        }
    }

    fn groups(topology: &str, on: &str, seed: u64) -> Vec<Vec<FaultParty>> {
        let text = format!(
            "name = \"x\"\n[topology]\n{topology}\n[[faults]]\nfault = \"partition\"\non = \"{on}\"\n"
        );
        match plan(&text, seed).faults.remove(0).on {
            FaultSite::Groups(groups) => groups,
            other => panic!("groups stay groups: {other}"),
        }
    }

    #[test]
    fn never_more_than_allowed_at_a_time_and_never_two_on_one_process() {
        for seed in 0..20 {
            for at_once in 1..=3 {
                let faults = drawn(at_once, seed);
                assert!(faults.len() > 30, "{}", faults.len());
                for fault in &faults {
                    let (at_ns, _) = span(fault);
                    let others: Vec<&FaultSpec> = faults
                        .iter()
                        .filter(|other| (span(other).0..span(other).1).contains(&at_ns))
                        .collect();
                    assert!(others.len() <= at_once as usize);
                    let is_process = matches!(fault.on, FaultSite::Parties(_));
                    let meeting = others.iter().filter(|other| is_process && other.on == fault.on);
                    assert!(meeting.count() <= 1);
                }
            }
        }
    }

    #[test]
    fn after_a_fault_from_which_servers_recover_there_is_room() {
        let faults: Vec<Vec<FaultSpec>> = (0..20).map(|seed| drawn(1, seed)).collect();
        let pairs = faults.iter().flat_map(|faults| faults.windows(2));
        let after_kills: Vec<u64> = pairs
            .filter(|pair| pair[0].fault == "kill")
            .map(|pair| span(&pair[1]).0 - span(&pair[0]).1)
            .collect();
        assert!(after_kills.len() > 20);
        assert!(after_kills.iter().all(|room_ns| *room_ns >= 1_000_000_000));
    }

    #[test]
    fn weights_decide_how_often_a_fault_is_drawn() {
        let faults: Vec<FaultSpec> = (0..20).flat_map(|seed| drawn(1, seed)).collect();
        let count = |name: &str| faults.iter().filter(|fault| fault.fault == name).count();
        assert!(count("pause") > count("delay") && count("delay") > count("kill"));
        assert!(count("kill") > 0);
    }

    #[test]
    fn shares_of_one_expression_have_nobody_in_common() {
        let mut halves = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let on = "50% of masters, client 1 | 50% of masters | 10% of replicas";
            let groups = groups("kind = \"cluster\"\nshards = 24", on, seed);
            assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [13, 12, 2]);
            assert!(groups[1].iter().all(|who| !groups[0].contains(who)));
            halves.insert(format!("{:?}", groups[1]));
        }
        assert!(halves.len() > 10, "{halves:?}");
    }

    #[test]
    fn a_minority_and_a_majority_of_one_expression_share_nobody() {
        for seed in 0..20 {
            let groups = groups("kind = \"masters\"", "minority | majority", seed);
            assert_eq!((groups[0].len(), groups[1].len()), (2, 3));
            assert!(groups[0].iter().all(|who| !groups[1].contains(who)));
        }
    }
}

#[test]
fn every_drawn_point_is_a_scenario_on_either_shape_whatever_is_drawn() {
    let kinds = ["plain", "reentrant", "read", "write"].map(str::to_owned);
    let mut names = BTreeSet::new();
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for shape in [TopologyKind::Single, TopologyKind::Masters] {
            for at in 0..50 {
                let scenario = drawn_scenario(at, shape, &kinds, &mut rng);
                assert!(scenario.name.starts_with("drawn-"), "{}", scenario.name);
                let plan = Plan::new(&scenario, seed);
                assert_eq!(Plan::new(&scenario, seed).to_json(), plan.to_json());
                assert!(
                    !plan.faults.is_empty() && plan.faults.iter().all(|fault| find(&fault.fault).is_some())
                );
                names.insert(scenario.name);
            }
        }
    }
    assert_eq!(names.len(), 50);
}

#[test]
fn a_scenarios_text_has_whole_durations() {
    for (word, whole) in [("0s", "0s"), ("90000ms", "90s"), ("1.5s", "1500ms"), ("1.001us", "1001ns")] {
        let text = format!("name = \"x\"\n[topology]\nkind = \"single\"\n[lock]\nwait = \"{word}\"\n");
        let text = scenario_text(&plan(&text, 7));
        assert!(text.contains(&format!("wait = \"{whole}\"\n")), "{word}: {text}");
    }
}
