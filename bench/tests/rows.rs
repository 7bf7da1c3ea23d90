//! Rows of real servers: sane figures for a good lock, a void row for a bad one.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bench::driver::{BenchPlan, Hooks, run, run_subjects};
use bench::exec::ExecSubject;
use bench::subject::{ConnectTo, Connected, Subject, SubjectError};
use cluster_config::{Data, TopologyKind};
use results::verdict::State;
use support::{PATIENCE, driver_program, lab_of};
use tokio::sync::Barrier;

fn plan(target: String, subjects: &[&str], workload: &str) -> BenchPlan {
    let mut plan = BenchPlan::new(target);
    plan.topology = "single".into();
    plan.subjects = subjects.iter().map(|s| (*s).to_owned()).collect();
    plan.workloads = vec![workload.into()];
    plan.tasks = vec![4];
    plan.rounds = 2;
    plan.warmup = Duration::from_millis(200);
    plan.duration = Duration::from_millis(800);
    plan
}

/// Rounds go on until the interval is as narrow as was asked for, or there have been enough of them, which is
/// said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_precision_decides_how_many_rounds_there_are() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(lab.url(), &["lock-core:plain"], "uncontended");
    (plan.warmup, plan.duration) = (Duration::from_millis(10), Duration::from_millis(60));
    // Six rounds have an interval, and any is narrow enough for the first; none is for the second.
    for (precision, most, enough) in [(1e6, 20, true), (1e-9, 8, false)] {
        (plan.rounds, plan.precision) = (most, Some(precision));
        let outcome = run(&plan, &Hooks::default()).await.unwrap();
        let row = &outcome.rows[0];
        let rounds = row.rounds + row.measures.noise.dropped_rounds;
        assert!(row.rounds >= 6 || !enough, "{rounds}");
        assert_eq!(rounds < most, enough, "{rounds} of {most}");
        let said = outcome.warnings.iter().any(|w| w.contains("precision"));
        assert_eq!(said, !enough, "{:?}", outcome.warnings);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_row_adds_up() {
    let lab = lab_of(TopologyKind::Single).await;
    let subjects = ["baseline:set-nx-px", "lock-core:reentrant"];
    let outcome = run(&plan(lab.url(), &subjects, "uncontended"), &Hooks::default()).await.unwrap();
    assert_eq!(outcome.cut_short, None);
    assert_eq!(outcome.rows.len(), 2);
    for row in &outcome.rows {
        assert_eq!(row.safety.state, State::Clean, "{row:?}");
        assert!(row.valid, "{row:?}");
        // A round in which the machine was taken away is dropped, and counted.
        let rounds = row.rounds + row.measures.noise.dropped_rounds;
        assert_eq!((row.tasks, row.locks, rounds), (4, 4, 2));
        assert!(row.cycles_per_s.low.unwrap() <= row.cycles_per_s.median);
        let (p50, p90) = (row.acquire_ns.p50.unwrap(), row.acquire_ns.p90.unwrap());
        // A round trip through two sockets takes more than a microsecond on any machine.
        assert!(1_000 < p50 && p50 <= p90 && p90 <= row.acquire_ns.max.unwrap(), "{row:?}");
        assert!(row.release_ns.n > 0 && row.handoff_ns.is_none());
        // One command to acquire and one to release; connecting is over when counting starts.
        let commands = row.commands_per_cycle.unwrap();
        assert!((1.8..2.4).contains(&commands), "{row:?}");
        assert!(row.server_calls_per_cycle.unwrap() >= commands - 0.2, "{row:?}");
        assert!(row.server_cpu_us_per_cycle.unwrap() > 0.0 && row.client_cpu_us_per_cycle.unwrap() > 0.0);
        let us = row.measures.certainty.server_cpu_us_per_cycle;
        assert_eq!(us.is_some(), row.rounds > 1, "{row:?}");
        let spent = row.server_cpu_us_per_cycle.unwrap();
        assert!(us.is_none_or(|us| us.low > 0.0 && (us.low..=us.high).contains(&spent)), "{row:?}");
        assert!(row.jain > 0.5 && row.jain <= 1.0 + 1e-9);
        assert_eq!(row.censored, 0);
    }
    let [comparison] = outcome.comparisons.as_slice() else {
        panic!("{:?}", outcome.comparisons);
    };
    assert_eq!(comparison.r#where, "single/uncontended/4");
    assert_eq!(comparison.verdict, "not-shown", "two rounds show nothing");
    let ratio = outcome.rows[1].cycles_per_s.median / outcome.rows[0].cycles_per_s.median;
    assert!(comparison.ratio.point / ratio < 3.0 && ratio / comparison.ratio.point < 3.0);
    assert!(outcome.server_versions.values().all(|v| v == lab.server_version()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_row_counts_hand_offs_to_others() {
    let lab = lab_of(TopologyKind::Single).await;
    let subjects = ["baseline:set-nx-px", "lock-core:reentrant"];
    let outcome = run(&plan(lab.url(), &subjects, "contended"), &Hooks::default()).await.unwrap();
    assert_eq!(outcome.rows.len(), 2);
    for row in &outcome.rows {
        assert_eq!(row.safety.state, State::Clean, "{row:?}");
        assert_eq!(row.locks, 1);
        let handoffs = row.handoff_ns.expect("somebody waited");
        assert!(handoffs.n > 0 && handoffs.n <= row.acquire_ns.n, "{row:?}");
        assert!(handoffs.p50.unwrap() > 1_000, "{row:?}");
    }
    let metrics: Vec<&str> = outcome.comparisons.iter().map(|c| c.metric.as_str()).collect();
    assert_eq!(metrics, ["cycles_per_s", "handoff_ns"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_hands_off_to_nobody() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(lab.url(), &["baseline:set-nx-px"], "contended");
    plan.tasks = vec![1];
    let outcome = run(&plan, &Hooks::default()).await.unwrap();
    assert_eq!(outcome.rows[0].handoff_ns, None);
    assert!(outcome.rows[0].acquire_ns.n > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_steals_is_violated_and_compared_with_nothing() {
    let lab = lab_of(TopologyKind::Single).await;
    let subjects = ["baseline:set-nx-px", "broken:steal"];
    let outcome = run(&plan(lab.url(), &subjects, "contended"), &Hooks::default()).await.unwrap();
    let row = &outcome.rows[1];
    assert_eq!(row.safety.state, State::Violated);
    assert!(!row.valid && row.why_invalid[0].contains("overlapped"), "{row:?}");
    assert!(outcome.comparisons.is_empty());
    assert!(outcome.warnings.iter().any(|w| w.contains("broken:steal")), "{:?}", outcome.warnings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_in_a_process_is_measured_too() {
    let lab = lab_of(TopologyKind::Single).await;
    let exec = format!("exec:{} serve baseline:set-nx-px", driver_program());
    let mut plan = plan(lab.url(), &[&exec, "baseline:set-nx-px"], "uncontended");
    plan.clients = 2;
    let outcome = run(&plan, &Hooks::default()).await.unwrap();
    // What is in this process has no pipe, and a ratio would measure it.
    assert!(outcome.comparisons.is_empty());
    let apart = |warning: &String| warning.contains("only one of them is measured through");
    assert!(outcome.warnings.iter().any(apart), "{:?}", outcome.warnings);
    let row = &outcome.rows[0];
    assert!(row.valid && row.safety.state == State::Clean, "{row:?}");
    assert_eq!(row.commands_per_cycle, None, "a driver's commands cannot be counted");
    assert!(row.server_calls_per_cycle.unwrap() > 1.8);
    let said = |warning: &&String| warning.contains("the pipe to the driver costs");
    assert_eq!(outcome.warnings.iter().filter(said).count(), 1);
    let inside = |warning: &String| warning.contains("its own loop, without the pipe");
    assert!(outcome.warnings.iter().any(inside), "{:?}", outcome.warnings);
}

/// The second needs a longer window than the first, and both are measured in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_grows_until_every_lock_of_a_comparison_has_enough_cycles() {
    let lab = lab_of(TopologyKind::Single).await;
    let slow = format!("exec:{} slow", driver_program());
    let mut plan = plan(lab.url(), &["baseline:set-nx-px", &slow], "uncontended");
    plan.tasks = vec![1];
    (plan.warmup, plan.duration) = (Duration::ZERO, Duration::from_millis(200));
    let outcome = run(&plan, &Hooks::default()).await.unwrap();
    let measured_s = |at: usize| {
        let row = &outcome.rows[at];
        row.acquire_ns.n as f64 / row.cycles_per_s.median
    };
    let (fast, slow) = (measured_s(0), measured_s(1));
    assert!(outcome.rows[1].valid, "{:?}", outcome.rows[1].why_invalid);
    assert!(slow > 1.0, "two rounds of 200 ms have too few: {slow}");
    assert!((0.75..1.33).contains(&(fast / slow)), "{fast} and {slow}");
}

/// A driver that says hello only once another one is being started too.
struct Company(Arc<Barrier>);

#[async_trait::async_trait]
impl Subject for Company {
    fn name(&self) -> &'static str {
        "company"
    }

    fn about(&self) -> &'static str {
        "waits for another one of its kind"
    }

    fn kinds(&self) -> Vec<String> {
        vec!["plain".to_owned()]
    }

    async fn connect(&self, _to: &ConnectTo) -> Result<Connected, SubjectError> {
        self.0.wait().await;
        Err(SubjectError::unreachable("both have come"))
    }
}

#[tokio::test]
async fn drivers_with_loops_of_their_own_are_started_together() {
    let mut plan = plan("redis://127.0.0.1:1".into(), &[], "contended");
    plan.own_loop = true;
    let both = Arc::new(Barrier::new(2));
    let company = || Arc::new(Company(both.clone())) as Arc<dyn Subject>;
    let hooks = Hooks::default();
    let started = run_subjects(&plan, vec![company(), company()], &hooks);
    let ended = tokio::time::timeout(PATIENCE, started).await;
    let error = ended.expect("they met").expect_err("no loop to run");
    assert!(error.to_string().contains("both have come"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_counted_over_several_processes_of_ours() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(lab.url(), &["baseline:set-nx-px"], "uncontended");
    plan.clients = 2;
    plan.client_processes = true;
    let ours = bench::subjects::find("baseline:set-nx-px").unwrap();
    let command = [driver_program(), "serve", "baseline:set-nx-px"].map(str::to_owned);
    let served = ExecSubject::for_subject(&*ours, command.to_vec());
    let outcome = run_subjects(&plan, vec![Arc::new(served)], &Hooks::default()).await.unwrap();
    let row = &outcome.rows[0];
    // An acquire and a release; what was under way at the window's ends is more or less.
    let commands = row.commands_per_cycle.unwrap();
    assert!((1.8..2.2).contains(&commands), "{row:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_that_give_up_are_counted() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(lab.url(), &["baseline:set-nx-px"], "contended");
    plan.hold = Some(Duration::from_millis(40));
    plan.wait = Duration::from_millis(5);
    let outcome = run(&plan, &Hooks::default()).await.unwrap();
    assert!(outcome.rows[0].censored > 0, "{:?}", outcome.rows[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_dies_leaves_what_was_measured_before() {
    let lab = Arc::new(lab_of(TopologyKind::Single).await);
    let mut plan = plan(lab.url(), &["baseline:set-nx-px"], "uncontended");
    plan.rounds = 3;
    let (kill, mut killed) = tokio::sync::mpsc::unbounded_channel();
    let hooks = Hooks {
        progress: Some(Box::new(move |progress| {
            // Of three rounds one may be dropped because the machine was taken away in it: after two there is
            // a row.
            if progress.done == 2 {
                let _ = kill.send(());
            }
        })),
        ..Hooks::default()
    };
    let deadly = async {
        killed.recv().await.unwrap();
        lab.kill("n1").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(run(&plan, &hooks), deadly);
    let outcome = outcome.unwrap();
    assert!(outcome.cut_short.is_some());
    let row = &outcome.rows[0];
    assert_eq!(row.rounds + row.measures.noise.dropped_rounds, 2);
    lab.start("n1", Data::Lose).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_ends_soon_and_says_so() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(lab.url(), &["baseline:set-nx-px"], "uncontended");
    plan.duration = Duration::from_secs(600);
    let (cancel, cancelled) = tokio::sync::watch::channel(false);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hooks = Hooks {
        cancel: Some(cancelled),
        progress: Some(Box::new({
            let seen = seen.clone();
            move |progress| seen.lock().unwrap().push(progress.now.clone())
        })),
        ..Hooks::default()
    };
    let soon = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.send(true).unwrap();
    };
    let (outcome, ()) = tokio::join!(run(&plan, &hooks), soon);
    assert!(outcome.unwrap().cut_short.unwrap().contains("interrupted"));
    assert!(seen.lock().unwrap()[0].contains("baseline:set-nx-px, uncontended, 4 tasks"));
}

#[tokio::test]
async fn a_target_that_is_not_there_is_an_error() {
    let error =
        run(&plan("redis://127.0.0.1:1".into(), &["baseline:set-nx-px"], "uncontended"), &Hooks::default())
            .await
            .unwrap_err();
    assert!(matches!(error, SubjectError::Unreachable(_)), "{error}");
}
