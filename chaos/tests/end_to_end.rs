//! One quick scenario of each class comes out as expected, and a run that is cut short keeps what it
//! recorded.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bench::subjects::Mixed;
use chaos::plan::Plan;
use chaos::run::{RunOptions, ScenarioRun, run_scenario};
use cluster_config::Process;
use support::{plan, run, run_by, subject, told};

async fn as_expected(name: &str) {
    let builtin = chaos::builtin::find(name).expect("it is in the suite");
    text_as_expected(builtin.text).await;
}

async fn text_as_expected(text: &str) -> ScenarioRun {
    let (run, dir) = run(text, 7).await;
    assert_eq!(run.result.exit_code, 0, "{}", told(&run));
    assert!(run.result.as_expected && !run.partial);
    assert!(run.result.faults.iter().all(|fault| fault.bit), "{}", told(&run));
    let kept = std::fs::read_to_string(dir.path().join("run/plan.json")).expect("the plan is kept");
    let kept = Plan::from_json(&kept).expect("it is a plan");
    assert_eq!(kept, plan(text, 7));
    assert_eq!(run.result.faults.len(), kept.faults.len());
    assert!(dir.path().join("run/history.jsonl").exists());
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_grant_is_found() {
    as_expected("crash-single-no-persistence").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_holder_is_told_from_a_broken_lock() {
    as_expected("client-pause").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_becomes_a_reader() {
    as_expected("read-write-downgrade").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_has_one_leader_of_a_term() {
    as_expected("election-leader-killed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_of_passwords_is_asked_again() {
    as_expected("credentials-told").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_with_a_password_of_their_own_fail_over() {
    as_expected("failover-sentinel-passwords").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_of_a_clusters_masters_is_slow() {
    as_expected("cluster-slow-third").await;
}

/// On a busy machine within a part of the time to the next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_of_each_way_to_lose_its_key() {
    let builtin = chaos::builtin::find("lost-key-told-at-once").expect("it is in the suite");
    let text = builtin.text.replace("told_ms = \"< 50\"", "told_ms = \"< 1000\"");
    assert_ne!(text, builtin.text);
    let run = text_as_expected(&text).await;
    assert_eq!(
        run.result.verdicts.get("belief").map(|one| one.state),
        Some(results::verdict::State::Clean),
        "{}",
        told(&run)
    );
    // Each found the key.
    let proofs = run.result.faults.iter().map(|fault| &fault.proof[..]).collect::<Vec<_>>();
    assert!(proofs[0].starts_with("n1 forgot "), "{proofs:?}");
    assert_eq!(proofs[1..], ["n1 answered \"1\""; 2]);
}

/// The quick controls, by the verdicts that their files name; `locklab chaos --all` runs the others too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controls_are_convicted() {
    for name in ["steal", "get-compare-del", "ignores-expiry", "quorum-half", "setnx-expire-baseline"] {
        as_expected(name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_ends_early_when_it_has_seen_enough() {
    let text = "name = \"enough\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"5m\"\nenough = 5\n[[faults]]\nat = \"300ms\"\n\
                for = \"200ms\"\nfault = \"pause\"\non = \"master\"\n[expect]\ncontract = \"clean\"\n";
    let (run, _dir) = run(text, 7).await;
    assert_eq!(run.result.exit_code, 0, "{}", told(&run));
    let healed_ns = run.result.faults[0].healed_ns.expect("it is healed");
    assert!(run.result.load_ns > healed_ns && !run.partial);
    assert!(run.result.load_ns < 60_000_000_000, "{}", told(&run));
}

/// A scenario on one server whose master is paused for half a second.
fn paused(load: &str) -> String {
    format!(
        "name = \"workload\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"2s\"\n{load}[[faults]]\nat = \"700ms\"\n\
         for = \"500ms\"\nfault = \"pause\"\non = \"master\"\n[expect]\ncontract = \"clean\"\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_workload_runs_in_a_scenario() {
    for load in [
        "workload = \"chain\"\n",
        "workload = \"herd\"\ntasks = 3\nhold = \"1ms\"\n",
        "workload = \"zipf\"\nlocks = 20\ntasks = 3\n",
        "workload = \"uncontended\"\nlocks = 3\nhold = \"0s\"\n",
        "workload = \"read-mostly\"\ntasks = 3\n",
    ] {
        let (run, _dir) = run(&paused(load), 7).await;
        assert_eq!(run.result.exit_code, 0, "{load}{}", told(&run));
    }
}

/// What clients take is measured while the load goes on, and held against its bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_take_has_bounds() {
    let bounded = |expect: &str| {
        format!(
            "name = \"sizes\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"30s\"\nenough = 3\n[expect]\n{expect}\n"
        )
    };
    let kept = "connections = \"< 20\"\nsubscriptions = \"< 100\"\nmemory_mb = \"< 500\"";
    for (expect, as_expected) in [(kept, true), ("connections = \"< 1\"", false)] {
        let (run, _dir) = run(&bounded(expect), 7).await;
        assert_eq!(run.result.as_expected, as_expected, "{}", told(&run));
        assert_eq!(run.result.exit_code, u8::from(!as_expected), "{}", told(&run));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_counts_from_when_a_call_was_due() {
    let load = "workload = \"contended\"\nrate = \"40/s\"\nhold = \"1ms\"\n";
    let (run, _dir) = run(&paused(load), 7).await;
    assert_eq!(run.result.exit_code, 0, "{}", told(&run));
    let over = run.result.over_time.expect("grants");
    let acquire = over.acquire.expect("responses");
    let times = acquire.histograms.iter().flatten();
    // Of the 20 calls that were due in the pause at most one per task was made; all the others waited to be
    // made.
    let waited: u64 = times.filter(|(ns, _)| *ns > 100_000_000).map(|(_, times)| *times).sum();
    assert!(waited >= 10, "{waited} of {:?}", acquire.histograms);
    let open = run.result.open_loop.expect("callers");
    let calls: u64 = open.parts().map(|waits| waits.calls).sum();
    let due = open.asked_per_s * run.result.load_ns as f64 / 1e9;
    assert!((calls as f64 - due).abs() < 4.0, "{calls} of {due}");
    let ms =
        |waits: Option<results::open_loop::OpenLoopWaits>| waits.expect("callers").longest.ns / 1_000_000;
    assert!(ms(open.during) >= 300, "{open:?}");
    assert!(open.recovered_ns > open.fault_ns, "{open:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_an_open_loop_that_get_nothing_count() {
    let text = "name = \"gone\"\n[topology]\nkind = \"single\"\n[lock]\nwait = \"500ms\"\n[load]\nrate = \"75/s\"\nhold = \"1ms\"\n\
                duration = \"3s\"\n[[faults]]\nat = \"1s\"\nfault = \"kill\"\n[expect]\nrecovery = \"< 1.5s\"\n";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let plan = plan(text, 7);
    let options = RunOptions::new(dir.path(), subject(&plan.lock.subject), Arc::new(Process));
    let run = run_scenario(&plan, &options).await.expect("a run");
    let open = run.result.open_loop.expect("callers");
    let (before, during) = (open.before.expect("callers"), open.during.expect("callers"));
    // A busy machine lets some of the first wait for longer than 500 ms, too.
    assert!(4 * before.without_grant <= before.calls, "{before:?}");
    assert!(during.calls > 110 && during.without_grant + 5 >= during.calls, "{during:?}");
    assert!(during.p99.is_some_and(|p99| p99.more), "{during:?}");
    assert!(2.0 * open.granted_per_s < open.asked_per_s, "{open:?}");
    // Nobody is granted after the kill: it is not recovered from.
    assert_eq!(run.result.exit_code, chaos::outcome::NOT_AS_EXPECTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_can_be_a_share_of_what_the_clients_complete() {
    let text = "name = \"share\"\n[topology]\nkind = \"single\"\n[load]\ntasks = 2\nrate = \"25% of knee\"\nhold = \"5ms\"\nthink = \"1s\"\n\
                duration = \"2s\"\n";
    let plan = plan(text, 7);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = RunOptions::new(dir.path(), subject(&plan.lock.subject), Arc::new(Process));
    let run = run_scenario(&plan, &options).await.expect("a run");
    let open = run.result.open_loop.expect("callers");
    // One lock that is held for 5 ms carries fewer than 200 cycles a second, however the tasks pause; a
    // quarter of it is easily granted. On a busy machine the knee is lower.
    assert!((0.5..50.0).contains(&open.asked_per_s), "{open:?}");
    let all = open.before.expect("callers");
    assert!(all.without_grant <= 1, "{all:?}");
    let mut notes = run.result.notes.iter();
    assert!(
        notes.any(|note| note.starts_with("25% of knee: ") && note.contains("closed loop")),
        "{:?}",
        run.result.notes
    );
    let history = std::fs::read_to_string(dir.path().join("history.jsonl")).expect("a history");
    assert!(!history.contains(":knee"), "the trial is not judged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_two_libraries_hand_a_lock_to_each_other() {
    // The baseline announces no release: lock-core looks again when the lease that it has seen ends, here
    // several times in a second.
    let text = "name = \"two\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"lock-core:plain + baseline:set-nx-px\"\nwait = \"2s\"\n\
                lease = \"250ms\"\n[load]\nclients = 4\nhold = \"10ms\"\nthink = \"20ms..60ms\"\nduration = \"3s\"\n[expect]\ncontract = \"clean\"\n";
    let plan = plan(text, 7);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let parts = ["lock-core:plain", "baseline:set-nx-px"].map(|name| subject(name) as _);
    let mixed = Mixed::new(parts.to_vec()).expect("both are plain");
    let options = RunOptions::new(dir.path(), Arc::new(mixed), Arc::new(Process));
    let run = run_scenario(&plan, &options).await.expect("a run");
    assert!(run.result.as_expected, "{:?}", run.result.verdicts);
    let notes = &run.result.notes;
    for way in [
        "hand-offs from lock-core:plain to baseline:set-nx-px: ",
        "hand-offs from baseline:set-nx-px to lock-core:plain: ",
    ] {
        let count = notes.iter().find_map(|note| note.strip_prefix(way));
        let count = count.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| count > 0), "{way}{notes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_keeps_its_record_and_is_unknown() {
    let text = "name = \"long\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"5m\"\n[[faults]]\nat = \"100ms\"\nfault = \"pause\"\n\
                on = \"client 1\"\n[expect]\ncontract = \"clean\"\n";
    let plan = plan(text, 7);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (cancel, cancelled) = tokio::sync::watch::channel(false);
    let mut options = RunOptions::new(dir.path(), subject(&plan.lock.subject), Arc::new(Process));
    options.cancel = cancelled;
    // Cancelled as soon as the fault is in, so that there is something to heal.
    let history = dir.path().join("history.jsonl");
    let ended = tokio::spawn(async move {
        let injected = || std::fs::read_to_string(&history).unwrap_or_default();
        while !injected().contains(r#""phase":"inject""#) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.send_replace(true);
        cancel
    });
    let run = tokio::time::timeout(Duration::from_secs(60), run_scenario(&plan, &options))
        .await
        .expect("a cancelled run ends")
        .unwrap_or_else(|error| panic!("{error}"));
    drop(ended);
    assert!(run.partial);
    assert_eq!(run.result.exit_code, chaos::outcome::UNKNOWN, "{}", told(&run));
    assert!(run.result.operations["acquire"].values().sum::<u64>() > 0, "{}", told(&run));
    assert!(run.result.faults[0].healed_ns.is_some(), "{}", told(&run));
}

/// What a driver would have done after its end is not on record, so that nothing is clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_ends_by_itself_leaves_an_incomplete_history() {
    let text = "name = \"ends\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"baseline:set-nx-px\"\n[load]\nclients = 2\nduration = \"2s\"\n[expect]\ncontract = \"clean\"\n";
    let (run, _dir) = run_by("sed -u 60q | DRIVER baseline:set-nx-px", text, 7).await;
    assert_eq!(run.result.exit_code, chaos::outcome::UNKNOWN, "{}", told(&run));
    assert!(!run.result.as_expected);
    let state = run.result.verdicts.contract.state;
    assert_eq!(state, results::verdict::State::Unknown, "{}", told(&run));
    for why in [&run.warnings, &run.result.incomplete] {
        let named = |why: &&String| why.contains("sed -u 60q") && why.contains("exited with code");
        assert_eq!(why.iter().filter(named).count(), 2, "{}", told(&run));
    }
}
