//! Each scenario convicts the broken lock that its file names as its control: the table of
//! `docs/src/scenarios.md` is true.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bench::exec::ExecSubject;
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

/// A control that chance let go has seven more seeds.
const SEEDS: std::ops::Range<u64> = 7..15;

fn scenario(builtin: &Builtin) -> Scenario {
    Scenario::parse(builtin.path, builtin.text).expect("a scenario")
}

/// What goes wrong, if anything does: the control violates nothing that a sound lock keeps in the scenario,
/// and keeps each of its bounds.
async fn acquitted(builtin: &Builtin) -> Option<String> {
    let control = scenario(builtin).audit.control;
    if control.is_empty() {
        return None;
    }
    acquits(builtin, &control, bench::subjects::find(&control).expect("a lock").kinds()).await
}

async fn acquits(builtin: &Builtin, control: &str, kinds: Vec<String>) -> Option<String> {
    let scenario = scenario(builtin);
    if missing_server(&scenario.topology, &scenario.faults).is_some() {
        return None;
    }
    let subject = match control.strip_prefix("exec:") {
        Some(command) => Arc::new(ExecSubject::from_command_line(command).expect("a command")),
        None => support::subject(control),
    };
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

/// Each scenario convicts the defect of a public report that it, or what it says, was made after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defects_of_reports_are_convicted_by_the_scenarios_that_were_made_after_them() {
    let tries = [
        ("renewed-reply-lost", "renews-what-was-given-up", "plain"),
        ("renewed-reply-lost", "failed-release-is-renewed", "plain"),
        ("lost-reply-release", "forgets-before-it-releases", "plain"),
        ("readers-short-leases", "readers-share-one-lease", "write read"),
        ("script-flush", "scripts-by-hash-only", "plain"),
        ("masters-halves", "quorum-of-the-reachable", "redlock"),
        ("masters-minority", "one-master-down-is-an-error", "redlock"),
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/controls/defects.py");
    let tried = tries.map(|(name, defect, kinds)| async move {
        let builtin = chaos::builtin::find(name).expect("a built-in scenario");
        let kinds = kinds.split(' ').map(str::to_owned).collect();
        acquits(builtin, &format!("exec:python3 {path} {defect}"), kinds).await
    });
    let acquitted: Vec<String> =
        futures_util::stream::iter(tried).buffer_unordered(3).filter_map(async |wrong| wrong).collect().await;
    assert!(acquitted.is_empty(), "{}", acquitted.join("\n\n"));
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

/// What an audit makes of a scenario, a lock and a result.
mod verdicts_of_an_audit {
    use bench::abilities::Abilities;
    use chaos::audit::{beside, judged, place};
    use chaos::builtin;
    use cluster_config::TopologyKind;
    use results::audit::AuditOutcome;
    use results::over_time::OverTime;
    use results::run::{FaultRecovery, FaultSpan, ScenarioResult};
    use results::verdict::{Anomaly, Verdicts};

    use super::{CLASSES, Duration, OpenQuestion, Scenario, State, doubt, fitted};

    fn scenario(name: &str) -> Scenario {
        let builtin = builtin::find(name).expect("a built-in scenario");
        Scenario::parse(builtin.path, builtin.text).expect("a scenario")
    }

    fn has(kinds: &[&str], features: &[&str]) -> Abilities {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Abilities { kinds: words(kinds), features: Some(words(features)), ..Abilities::default() }
    }

    #[test]
    fn a_lock_runs_on_servers_of_its_own_system_only() {
        let has = Abilities::default();
        for (name, redis, zookeeper) in [
            ("lock-core:reentrant", true, false),
            ("peer:redisson", true, false),
            ("peer:curator", false, true),
            ("zookeeper:ephemeral", false, true),
            ("etcd:lock", false, false),
            ("exec:driver", true, true),
        ] {
            let on = |kind| place(kind, name, &has).is_ok();
            assert_eq!(on(TopologyKind::Single), redis, "{name}");
            assert_eq!(on(TopologyKind::ZooKeeper3), zookeeper, "{name}");
        }
    }

    /// A result of the scenario in which these classes are violated and the rest is clean.
    fn result(scenario: &Scenario, violated: &[&str]) -> ScenarioResult {
        let mut verdicts = Verdicts::default();
        for class in CLASSES {
            let verdict = verdicts.get_mut(class).expect("a class");
            verdict.state = match violated.contains(&class) {
                true => State::Violated,
                false => State::Clean,
            };
            verdict.count = u64::from(violated.contains(&class));
        }
        ScenarioResult {
            verdicts,
            expected: scenario.expect.clone(),
            load_ns: 60_000_000_000,
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn two_owners_of_a_renewed_lock_are_inherent_until_the_next_renewal_could_tell() {
        let asked = scenario("renewed-key-lost");
        let outcome = |to_ns: u64| {
            let mut seen = result(&asked, &["belief", "contract"]);
            seen.verdicts.belief.anomalies = vec![Anomaly { to_ns, ..Anomaly::default() }];
            seen.faults = vec![FaultSpan { injected_ns: 2_000_000_000, ..FaultSpan::default() }];
            let sound = seen.clone();
            let alone = judged(&asked, &seen);
            // A sound lock that does the same acquits it.
            let beside_itself = beside(&asked, &seen, "sound", Ok(&sound), None);
            assert_ne!(beside_itself.outcome, AuditOutcome::Broken);
            let kept = result(&asked, &["belief", "contract"]);
            (beside(&asked, &seen, "sound", Ok(&kept), None).outcome, alone.defect)
        };
        assert_eq!(outcome(6_400_000_000), (AuditOutcome::Inherent, String::new()));
        let late = "its holder is told too late".to_owned();
        assert_eq!(outcome(6_600_000_000), (AuditOutcome::Broken, late));
    }

    #[test]
    fn a_lock_is_tried_by_the_kind_that_a_scenario_is_about() {
        let kind = |name: &str, kinds: &[&str]| {
            fitted(&scenario(name), "exec:x", &has(kinds, &["lost"])).map(|fit| fit.lock.kind)
        };
        assert_eq!(kind("never-released", &["fair", "plain"]), Ok("fair".to_owned()));
        assert_eq!(kind("late-writes-fenced", &["plain", "fenced"]), Ok("fenced".to_owned()));
        assert_eq!(kind("masters-minority", &["plain", "redlock"]), Ok("redlock".to_owned()));
        assert_eq!(kind("semaphore-counts", &["permits"]), Ok("permits".to_owned()));
        assert_eq!(kind("semaphore-counts", &["permits", "semaphore"]), Ok("semaphore".to_owned()));
        for (name, kinds, lacking) in [
            ("late-writes-fenced", &["plain"][..], "no kind `fenced`"),
            ("read-write", &["plain", "write"], "no kind `read`"),
            ("never-released", &["semaphore"], "no kind that one holder has alone"),
            ("masters-minority", &["plain"], "one deployment"),
            ("never-released", &["redlock"], "independent masters"),
        ] {
            let why = kind(name, kinds).expect_err(name);
            assert!(why.contains(lacking), "{why}");
        }
    }

    #[test]
    fn a_lock_without_the_kind_of_a_workload_is_not_tried_by_it() {
        let fit = |workload: &str, kinds: &[&str]| {
            let text = format!(
                "name = \"x\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"exec:x\"\n[load]\nworkload = \"{workload}\"\n"
            );
            let asked = Scenario::parse("x.toml", &text).expect("a scenario");
            fitted(&asked, "exec:x", &has(kinds, &["lost"]))
        };
        for workload in ["read-mostly", "multi", "semaphore"] {
            let why = fit(workload, &["plain"]).expect_err(workload);
            assert!(why.contains(&format!("workload `{workload}`")), "{why}");
        }
        assert!(fit("contended", &["plain"]).is_ok());
        assert!(fit("read-mostly", &["plain", "read", "write"]).is_ok());
    }

    #[test]
    fn what_a_lock_does_not_list_is_not_asked_of_it() {
        let why = |name: &str, has: &Abilities| fitted(&scenario(name), "exec:x", has).err();
        let bare = Abilities { renews: true, ..has(&["plain"], &["extend"]) };
        let lacks = |name: &str, word: &str| {
            let why = why(name, &bare).expect(name);
            assert!(why.contains(word), "{why}");
        };
        lacks("failover-wait-all", "wait:all");
        lacks("cancelled", "`cancel`");
        let all = has(&["plain"], &["durability"]);
        assert_eq!(why("short-lease", &bare), None);
        assert_eq!(why("failover-wait-all", &all), None);
        assert!(why("watchdog-keeps", &all).is_some());
        let renews = Abilities { renews: true, ..all };
        assert_eq!(why("watchdog-keeps", &renews), None);
    }

    #[test]
    fn what_tells_its_holder_nothing_is_tried_and_found_to() {
        let renews = Abilities { renews: true, ..has(&["plain"], &["extend"]) };
        let asked = scenario("watchdog-client-paused");
        let fitting = fitted(&asked, "exec:x", &renews).expect("nothing in it needs more");
        // Renewals that nobody reports: contract equals belief, which none can keep in a pause.
        assert_eq!(fitting.expect["contract"], "violated");
        let mut paused = result(&fitting, &["belief", "contract"]);
        paused.tells_holder = Some(false);
        assert_eq!(judged(&asked, &paused).outcome, AuditOutcome::Inherent);
        for name in ["short-lease", "after-outage", "watchdog-client-cut-off"] {
            let asked = scenario(name);
            let fitting = fitted(&asked, "exec:x", &renews).expect(name);
            let class = match fitting.expect.contains_key("belief") {
                true => "belief",
                false => "contract",
            };
            let mut lost = result(&fitting, &[class]);
            lost.tells_holder = Some(false);
            let found = judged(&asked, &lost);
            assert_eq!(found.outcome, AuditOutcome::Broken, "{name}");
            assert_eq!(found.defect, "its holder is not told", "{name}");
        }
    }

    #[test]
    fn holds_outlive_a_lease_that_follows_no_wish_unless_that_takes_too_long() {
        let renewing = |lease_s| Abilities {
            renews: true,
            watchdog: Some(Duration::from_secs(lease_s)),
            ..has(&["plain"], &[])
        };
        for name in ["watchdog-keeps", "renewed-through-an-outage"] {
            let asked = scenario(name);
            for lease_s in [1, 3, 30] {
                let fitting = fitted(&asked, "exec:x", &renewing(lease_s)).expect(name);
                let lease_ns = lease_s * 1_000_000_000;
                assert!(fitting.load.hold.min_ns > lease_ns, "{name}: {:?}", fitting.load.hold);
                assert!(fitting.load.duration.0 <= Duration::from_secs(90), "{name}");
            }
            let fitting = fitted(&asked, "exec:x", &renewing(600)).expect(name);
            assert_eq!(fitting.load, asked.load, "{name}: ten minutes are not waited for");
        }
        let fixed = scenario("never-released");
        let fitting = fitted(&fixed, "exec:x", &renewing(30)).expect("a fixed lease");
        assert_eq!(fitting.load, fixed.load);
    }

    #[test]
    fn only_what_the_scenario_says_is_inherent_is() {
        let pause = scenario("client-pause");
        let outcome = |violated: &[&str]| judged(&pause, &result(&pause, violated)).outcome;
        assert_eq!(outcome(&[]), AuditOutcome::Kept);
        assert_eq!(outcome(&["belief"]), AuditOutcome::Inherent);
        assert_eq!(outcome(&["belief", "contract"]), AuditOutcome::Broken);
        // Not judged there.
        assert_eq!(outcome(&["effect"]), AuditOutcome::Kept);
        let bounded = scenario("split-brain-min-replicas");
        let mut often = result(&bounded, &["contract"]);
        assert_eq!(judged(&bounded, &often).outcome, AuditOutcome::Inherent);
        often.verdicts.contract.count = 61;
        assert_eq!(judged(&bounded, &often).outcome, AuditOutcome::Broken);
    }

    #[test]
    fn a_lock_that_grants_nothing_keeps_what_none_can_and_says_so() {
        let asked = scenario("failover-async");
        let fault = |name: &str, injected_ns, last_grant_before_ns| FaultSpan {
            fault: name.to_owned(),
            injected_ns,
            recovery: Some(FaultRecovery { last_grant_before_ns, ..Default::default() }),
            ..Default::default()
        };
        let mut kept = result(&asked, &[]);
        let mut why = |before| {
            kept.faults = vec![fault("delay", 0, None), fault("kill", 500, before)];
            judged(&asked, &kept)
        };
        let nothing = why(None);
        assert_eq!(nothing.outcome, AuditOutcome::Kept);
        assert!(nothing.why.contains("none of them before kill"), "{}", nothing.why);
        let some = why(Some(30)).why;
        assert!(!some.contains("before"), "{some}");
        kept.over_time = Some(OverTime { share_min: Some(0.2), ..OverTime::default() });
        let starved = judged(&asked, &kept).why;
        assert!(starved.contains("0.2 of an even share"), "{starved}");
    }

    #[test]
    fn a_suspicion_needs_a_sound_lock_that_kept_the_same() {
        let asked = scenario("client-pause");
        let found = result(&asked, &["belief", "contract"]);
        let beside = |of_twin: Result<&ScenarioResult, &str>| {
            beside(&asked, &found, "lock-core:reentrant", of_twin, None)
        };
        // That the twin cannot keep what is inherent says nothing against it.
        let sound = result(&asked, &["belief"]);
        let broken = beside(Ok(&sound));
        assert_eq!(broken.outcome, AuditOutcome::Broken);
        assert!(broken.why.contains("lock-core:reentrant kept contract"), "{}", broken.why);
        for doubt in [Ok(&found), Err("could not be tried")] {
            let judged = beside(doubt);
            assert_eq!(judged.outcome, AuditOutcome::Unknown, "{}", judged.why);
        }
        let mut holed = sound.clone();
        holed.incomplete.push("a line is torn".to_owned());
        assert_eq!(beside(Ok(&holed)).outcome, AuditOutcome::Unknown);
    }

    #[test]
    fn liveness_alone_has_to_come_again() {
        let asked = scenario("never-released");
        let late = result(&asked, &["liveness"]);
        let sound = result(&asked, &[]);
        assert_eq!(doubt(&asked, &late), OpenQuestion::LivenessAlone);
        assert_eq!(doubt(&asked, &result(&asked, &["belief", "liveness"])), OpenQuestion::Violated);
        let outcome = |second| beside(&asked, &late, "x", Ok(&sound), Some(second)).outcome;
        assert_eq!(outcome(&late), AuditOutcome::Broken);
        assert_eq!(outcome(&sound), AuditOutcome::Unknown);
    }

    #[test]
    fn a_lock_that_grants_nothing_for_long_after_a_fault_is_broken_if_that_comes_again() {
        let asked = scenario("masters-minority");
        let after = |first_grant_after_ns| {
            let mut result = result(&asked, &[]);
            result.faults = vec![FaultSpan { first_grant_after_ns, bit: true, ..FaultSpan::default() }];
            result
        };
        let (never, late, soon) = (after(None), after(Some(1_600_000_000)), after(Some(20_000_000)));
        assert_eq!(judged(&asked, &soon).outcome, AuditOutcome::Kept);
        assert_eq!(doubt(&asked, &late), OpenQuestion::LivenessAlone);
        let found = judged(&asked, &never);
        assert_eq!(found.defect, "it does not grant again after a fault");
        assert!(found.verdicts.iter().all(|(_, state)| *state == State::Clean), "nothing is said of safety");
        let outcome = |of_twin, second| beside(&asked, &never, "x", Ok(of_twin), Some(second)).outcome;
        assert_eq!(outcome(&soon, &late), AuditOutcome::Broken);
        assert_eq!(outcome(&soon, &soon), AuditOutcome::Unknown);
        assert_eq!(outcome(&late, &late), AuditOutcome::Unknown);
        let mut doubtful = never.clone();
        doubtful.verdicts.belief.state = State::Unknown;
        assert_eq!(judged(&asked, &doubtful).outcome, AuditOutcome::Unknown);
    }

    #[test]
    fn a_fault_that_meets_nothing_is_not_applicable_if_it_takes_effect_on_another_lock() {
        let asked = scenario("script-flush");
        let with = |bit: bool| {
            let mut result = result(&asked, &[]);
            let fault = "script-flush".to_owned();
            let first_grant_after_ns = Some(1);
            result.faults = vec![FaultSpan { fault, bit, first_grant_after_ns, ..Default::default() }];
            if !bit {
                for class in CLASSES {
                    let verdict = result.verdicts.get_mut(class).expect("a class");
                    verdict.state = State::Unknown;
                    verdict.why = vec![format!("no evidence that the fault took effect: script-flush on n1")];
                }
            }
            result
        };
        let (without, took) = (with(false), with(true));
        assert_eq!(doubt(&asked, &took), OpenQuestion::None);
        let outcome = |of_twin| beside(&asked, &without, "x", Ok(of_twin), None).outcome;
        assert_eq!(outcome(&took), AuditOutcome::NotApplicable);
        assert_eq!(outcome(&without), AuditOutcome::Unknown);
        let mut little = without.clone();
        little.verdicts.belief.why.push("nothing was granted".to_owned());
        assert_eq!(doubt(&asked, &little), OpenQuestion::None);
    }

    #[test]
    fn a_history_with_a_hole_does_not_acquit() {
        let asked = scenario("never-released");
        let mut holed = result(&asked, &[]);
        holed.incomplete.push("a client died".to_owned());
        let judged = judged(&asked, &holed);
        assert_eq!((judged.outcome, judged.why.as_str()), (AuditOutcome::Unknown, "a client died"));
    }
}
