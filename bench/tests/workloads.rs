//! Every workload on a real server: its row is safe, valid, and says what the workload is for.

mod support;

use std::time::Duration;

use bench::{
    driver::{BenchPlan, Hooks, Leasing, run},
    subject::SubjectError,
    workload::{self, CycleShape, Pace, Spread, WORKLOADS},
};
use cluster_config::TopologyKind;
use results::{run::BenchRow, verdict::State};
use support::{Lab, lab_of};

#[test]
fn a_misspelt_workload_is_told_the_nearest() {
    let error = workload::find("contendet").unwrap_err();
    assert!(error.to_string().contains("did you mean `contended`"), "{error}");
}

#[test]
fn every_task_has_a_lock_of_its_own_where_locks_are_own() {
    for workload in WORKLOADS {
        let locks = workload.locks(16, Some(4));
        let needed = match workload.spread {
            Spread::Own => 16,
            Spread::One => 1,
            _ => 4,
        };
        assert_eq!(locks, needed, "{}", workload.name);
    }
}

#[test]
fn a_lock_of_another_kind_is_told_what_is_needed() {
    let offered = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>();
    let asks = CycleShape::Permit { of: 4 };
    let error = asks.kind("", &offered(&["fair", "semaphore"])).unwrap_err();
    assert!(error.contains("lock-core:semaphore"), "{error}");
    assert_eq!(asks.kind("", &offered(&["permits"])).unwrap(), "permits");
    assert_eq!(asks.kind("", &[]).unwrap(), "semaphore");
    assert_eq!(CycleShape::One.kind("", &offered(&["fair"])).unwrap(), "");
}

fn plan(lab: &Lab, workload: &str) -> BenchPlan {
    let mut plan = BenchPlan::new(lab.url());
    plan.topology = "single".into();
    let of_its_own = workload::find(workload).unwrap().asks.subjects();
    plan.subjects = vec![match of_its_own {
        [] => "lock-core:reentrant".into(),
        [first, ..] => (*first).into(),
    }];
    plan.workloads = vec![workload.into()];
    plan.tasks = vec![8];
    plan.rounds = 1;
    plan.warmup = Duration::from_millis(100);
    plan.duration = Duration::from_millis(600);
    plan
}

async fn judged(plan: &BenchPlan, state: State) -> BenchRow {
    let outcome = run(plan, &Hooks::default()).await.unwrap();
    assert_eq!(outcome.cut_short, None);
    assert_eq!(outcome.rows.len(), 1);
    let row = outcome.rows.into_iter().next().unwrap();
    assert_eq!(row.safety.state, state, "{row:?}");
    row
}

async fn row(plan: &BenchPlan) -> BenchRow {
    judged(plan, State::Clean).await
}

/// The row of a lock that is wrong in what the workload is about.
async fn void(plan: &mut BenchPlan, subject: &str) -> BenchRow {
    plan.subjects = vec![subject.into()];
    let row = judged(plan, State::Violated).await;
    assert!(!row.valid, "{row:?}");
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_workload_measures_something_and_is_safe() {
    let lab = lab_of(TopologyKind::Single).await;
    for workload in WORKLOADS.iter().filter(|w| w.name != "renewal") {
        let row = row(&plan(&lab, workload.name)).await;
        assert!(row.acquire_ns.n > 0, "{row:?}");
        assert_eq!(row.handoff_ns.is_some(), workload.hands_off, "{row:?}");
        assert_eq!(row.measures.passing.is_some(), workload.hands_off, "{row:?}");
        assert!(row.measures.littles_law.is_some());
        // A grant is at least one request and one answer; the smallest command is 14 bytes.
        assert!(row.measures.bytes_per_cycle.unwrap() > 28.0, "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_chain_nobody_meets_itself() {
    let lab = lab_of(TopologyKind::Single).await;
    let row = row(&plan(&lab, "chain")).await;
    let passing = row.measures.passing.unwrap();
    assert_eq!(passing.to_itself, 0, "{passing:?}");
    assert!(passing.to_another > 0);
    assert!(passing.notified_ns.unwrap().n > 0, "all but one wait, so somebody is told");
    assert!((0.0..=1.0).contains(&passing.idle), "{passing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_is_timed_from_its_arrival_to_its_last_member() {
    let lab = lab_of(TopologyKind::Single).await;
    let row = row(&plan(&lab, "herd")).await;
    let wave = row.measures.wave_ns.unwrap();
    assert!(wave.n > 0);
    assert!(
        wave.max.unwrap() >= row.acquire_ns.p50.unwrap(),
        "the last one waits no less than one in the middle: {row:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_locks_are_all_held_before_the_window_and_none_is_lost() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(&lab, "renewal");
    plan.locks = Some(200);
    plan.lease = Leasing::Fixed(Duration::from_millis(600));
    plan.duration = Duration::from_millis(900);
    let row = row(&plan).await;
    let renewal = row.measures.renewal.unwrap();
    assert_eq!((renewal.held, renewal.lost), (200, 0));
    // The library renews each third of a lease; on a loaded machine later, but never after its end.
    assert!(renewal.renewals_per_s.unwrap() > 200.0, "{renewal:?}");
    assert!(renewal.least_margin_ns.unwrap() < 600_000_000);
    assert!(renewal.commands_per_s_per_1000.unwrap() > 0.0);
    assert!(renewal.server_bytes_per_lock.unwrap() > 50.0, "{renewal:?}");
    assert_eq!((renewal.lease_ns, renewal.window_ns), (Some(600_000_000), Some(900_000_000)));
    // A renewal is at least one request and one answer of some bytes each.
    assert!(renewal.bytes_per_s_per_1000 > renewal.commands_per_s_per_1000.map(|n| 28.0 * n), "{renewal:?}");
    let us = row.measures.certainty.server_cpu_us_per_s_per_1000;
    let spent = renewal.server_cpu_us_per_s_per_1000.unwrap();
    assert!(us.is_none_or(|us| (us.low..=us.high).contains(&spent)), "{renewal:?}");
    assert_eq!(row.measures.load.lease_ns, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_the_next_one_waits_for_the_lease_and_not_less() {
    let lab = lab_of(TopologyKind::Single).await;
    let row = row(&plan(&lab, "crash")).await;
    let recovery = row.measures.recovery_ns.unwrap();
    assert!(recovery.n > 0);
    // The lease is 100 ms from the sending; dying takes a moment of it. The server counts in whole
    // milliseconds.
    assert!(recovery.p50.unwrap() > 50_000_000, "{row:?}");
    assert!(row.measures.recovery_late_ns.unwrap().n == recovery.n);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_says_what_connecting_costs() {
    let lab = lab_of(TopologyKind::Single).await;
    let row = row(&plan(&lab, "churn")).await;
    assert!(row.measures.connect_ns.unwrap().n > 0);
    // What the connected clients sent: each says who it is, takes the lock and gives it back.
    assert!(row.commands_per_cycle.unwrap() >= 2.0, "{row:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_and_a_writer_beside_one_voids_the_row() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(&lab, "read-mostly");
    plan.hold = Some(Duration::from_millis(5));
    let good = row(&plan).await;
    let (reads, writes) = (good.measures.read_ns.unwrap(), good.measures.write_ns.unwrap());
    assert!(reads.n > writes.n && writes.n > 0, "{reads:?} {writes:?}");
    assert_eq!(reads.n + writes.n, good.acquire_ns.n);
    assert!(good.measures.most_at_once.unwrap() > 1, "readers share");
    assert_eq!(good.measures.load.asks.as_deref(), Some("10 % of the cycles write"));
    let bad = void(&mut plan, "broken:readers-unseen").await;
    assert!(bad.why_invalid[0].contains("overlapped"), "{bad:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_are_held_all_or_none_and_one_of_them_alone_voids_the_row() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(&lab, "multi");
    plan.locks = Some(4);
    plan.hold = Some(Duration::from_millis(3));
    let good = row(&plan).await;
    assert_eq!(good.locks, 4);
    assert_eq!(good.measures.most_at_once, Some(1), "two times three of four locks have one in common");
    assert_eq!(good.measures.load.asks.as_deref(), Some("3 locks at once"));
    void(&mut plan, "broken:multi-first-is-enough").await;
    plan.subjects = vec!["lock-core:multi".into()];
    plan.locks = Some(2);
    assert_eq!(row(&plan).await.locks, 3, "three at once need three names");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_all_used_and_one_too_many_voids_the_row() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(&lab, "semaphore");
    plan.hold = Some(Duration::from_millis(10));
    for subject in ["lock-core:semaphore", "lock-core:permits"] {
        plan.subjects = vec![subject.into()];
        let good = row(&plan).await;
        assert_eq!(good.measures.most_at_once, Some(4), "{good:?}");
        assert!(good.handoff_ns.unwrap().n > 0);
        let idle = good.measures.passing.unwrap().idle;
        assert!((0.0..=1.0).contains(&idle), "{idle}");
    }
    let bad = void(&mut plan, "broken:semaphore-looks-then-counts").await;
    assert!(bad.why_invalid[0].contains("more than 4 permits"), "{bad:?}");
}

#[tokio::test]
async fn a_lock_that_cannot_be_asked_so_is_wrong_usage() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = plan(&lab, "multi");
    plan.subjects = vec!["lock-core:fair".into()];
    let error = run(&plan, &Hooks::default()).await.unwrap_err();
    assert!(
        matches!(error, SubjectError::Usage(_)) && error.to_string().contains("lock-core:multi"),
        "{error}"
    );
}

fn paced(lab: &Lab, rate_per_s: f64) -> BenchPlan {
    let mut plan = plan(lab, "uncontended");
    plan.tasks = vec![64];
    plan.pace = Some(Pace { rate_per_s });
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_loop_offers_what_was_asked_and_times_from_the_due_time() {
    let lab = lab_of(TopologyKind::Single).await;
    let row = row(&paced(&lab, 200.0)).await;
    let pacing = row.measures.pacing.unwrap();
    let slack = 0.02;
    assert!((pacing.offered_per_s / 200.0 - 1.0).abs() < slack, "{pacing:?}");
    let response = row.measures.response_ns.unwrap();
    assert!(response.n > 0);
    assert!(
        response.p50.unwrap() as f64 >= 0.99 * row.acquire_ns.p50.unwrap() as f64,
        "a response contains its service"
    );
    assert!(pacing.lag_ns.n > 0 && pacing.start_lag_ns.n > 0);
    assert_eq!(row.measures.load.mode, "open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_cannot_be_kept_makes_the_row_invalid_and_says_why() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = paced(&lab, 2_000.0);
    // Two tasks that hold for 10 ms cannot do more than 200 a second.
    plan.tasks = vec![2];
    plan.hold = Some(Duration::from_millis(10));
    let row = row(&plan).await;
    assert!(!row.valid);
    assert!(
        row.why_invalid.iter().any(|why| why.contains("the schedule was not kept")),
        "{:?}",
        row.why_invalid
    );
    let pacing = row.measures.pacing.unwrap();
    assert!(pacing.late + pacing.not_begun > 500, "{pacing:?}");
    assert!(
        row.measures.response_ns.unwrap().max > row.acquire_ns.max,
        "waiting for a free task is part of the response"
    );
}

#[tokio::test]
async fn a_workload_with_its_own_rhythm_takes_no_rate() {
    let lab = lab_of(TopologyKind::Single).await;
    let mut plan = paced(&lab, 100.0);
    plan.workloads = vec!["herd".into()];
    let error = run(&plan, &Hooks::default()).await.unwrap_err();
    assert!(
        matches!(error, SubjectError::Usage(_)) && error.to_string().contains("rhythm of its own"),
        "{error}"
    );
}
