//! What a run answers in its first line, and in small print.

use results::answer::{answer, lost, small_print};
use results::report::by_name;
use results::run::{BenchRow, FailoverRisk, Run, ScenarioResult};
use results::verdict::State;

use crate::samples::{around, says, scenario};

fn row(subject: &str, topology: &str, median: f64) -> BenchRow {
    crate::samples::row(subject, topology, around(median, 0.05))
}

fn run(scenarios: &[ScenarioResult], rows: &[BenchRow]) -> Run {
    crate::samples::run("runs/x", rows.to_vec(), scenarios.to_vec())
}

fn said(scenarios: &[ScenarioResult], rows: &[BenchRow]) -> String {
    answer(&run(scenarios, rows))
}

#[test]
fn who_kept_and_who_lost_is_counted_by_configuration() {
    let a = scenario("failover-async", "sentinel", State::Violated);
    let b = scenario("kill", "single", State::Clean);
    assert_eq!(
        said(&[a.clone(), b.clone()], &[]),
        "LOST by 1 of 2 configurations; failover-async lost it 3 times, worst 3.5 s; kept by 1 under every fault tried."
    );
    // The same server with and without persistence are two.
    let mut aof = b.clone();
    let config = &mut aof.server_config;
    config.insert("appendonly".to_owned(), "yes".to_owned());
    says(&said(&[a.clone(), b.clone(), aof], &[]), &["LOST by 1 of 3 ", "kept by 2 "]);
    assert_eq!(
        said(&[a], &[]),
        "LOST by the one configuration tried; failover-async lost it 3 times, worst 3.5 s."
    );
    assert_eq!(said(&[b], &[]), "kept by the one configuration tried under every fault tried.");
}

#[test]
fn a_loss_under_one_fault_outweighs_all_others_and_no_fault_is_said() {
    let mut clean = scenario("kill", "single", State::Clean);
    let lost = scenario("flushall", "single", State::Violated);
    says(&said(&[clean.clone(), lost], &[]), &["LOST by the one configuration tried; flushall"]);
    clean.faults.clear();
    says(&said(&[clean], &[]), &["while no fault was tried."]);
}

#[test]
fn what_is_not_known_is_never_kept() {
    let known = scenario("kill", "single", State::Clean);
    let mut without_effect = scenario("delay", "cluster", State::Clean);
    without_effect.faults[0].bit = false;
    let mut hole = scenario("pause", "sentinel", State::Clean);
    hole.incomplete.push("a client died".to_owned());
    for doubt in [scenario("drop", "masters", State::Unknown), without_effect, hole] {
        let why = format!("of 1 too little is known ({})", doubt.name);
        says(&said(&[known.clone(), doubt], &[]), &["kept by 1 of 2 configurations", &why]);
    }
}

#[test]
fn acting_after_the_lease_and_standing_still_are_said() {
    let mut late = scenario("short-lease", "single", State::Clean);
    late.verdicts.belief.state = State::Violated;
    late.verdicts.liveness.state = State::Violated;
    let outlived = "acted at once or wrote late there (short-lease)";
    let stuck = "a free lock was not granted in short-lease";
    let words = said(&[late], &[]);
    says(&words, &[outlived, stuck]);
    assert!(!words.contains("kept by"), "{words}");
}

#[test]
fn a_lock_that_tells_its_holder_nothing_is_lost_where_two_act_at_once() {
    let mut untold = scenario("away", "single", State::Clean);
    untold.verdicts.belief.state = State::Violated;
    assert!(!untold.is_lost(), "its holder was told");
    untold.tells_holder = Some(false);
    untold.expected = [("belief".to_owned(), "violated".to_owned())].into();
    assert!(!untold.is_lost(), "as with any lock that has a lease");
    untold.expected = [("belief".to_owned(), "clean".to_owned())].into();
    assert!(untold.is_lost());
    untold.as_expected = false;
    assert_eq!(untold.said(), "LOST (belief)");
    says(&said(&[untold], &[]), &["LOST by the one configuration tried; away lost it"]);
}

#[test]
fn controls_are_no_configurations() {
    let mut control = scenario("steal", "single", State::Violated);
    control.subject = "broken:steal".to_owned();
    let mut missed = control.clone();
    missed.verdicts.contract.state = State::Clean;
    let controls = [control.clone(), missed];
    assert_eq!(said(&controls, &[]), "Only controls ran: 1 of 2 locks known to be broken were convicted.");
    let measured = said(&controls, &[row("lock-core:plain", "single", 400.0)]);
    says(&measured, &["Fastest: lock-core:plain", "; only controls ran: 1 of 2"]);
    let beside = run(&[scenario("kill", "single", State::Clean), control], &[]);
    says(&answer(&beside), &["kept by the one configuration tried"]);
    assert_eq!((lost(&beside), lost(&run(&controls, &[]))), (0, 0));
    says(&small_print(&beside).join("; "), &["controls: 1 of 1 lock known to be broken was convicted"]);
}

#[test]
fn the_fastest_safe_lost_nothing_and_its_rival_is_named() {
    let scenarios = [
        scenario("failover-async", "sentinel", State::Violated),
        scenario("kill", "single", State::Clean),
        scenario("reshard", "cluster", State::Clean),
    ];
    let rows = [
        row("lock-core:reentrant", "sentinel", 9_000.0),
        row("lock-core:reentrant", "single", 500.0),
        row("lock-core:reentrant", "cluster", 490.0),
        row("lock-core:plain", "single", 8_000.0),
    ];
    let fastest = "fastest safe: lock-core:reentrant on single, 500 cycles/s (475–525) (uncontended, 16 tasks, not shown to be faster than \
                   lock-core:reentrant on cluster).";
    says(&said(&scenarios, &rows), &[fastest]);
    let words = said(&scenarios, &rows[..1]);
    assert!(!words.contains("fastest"), "{words}");
}

#[test]
fn a_range_of_two_rounds_does_not_show_who_is_fastest() {
    let mut rows = [row("a", "single", 500.0), row("b", "single", 100.0)];
    let words = said(&[], &rows);
    assert!(!words.contains("not shown"), "{words}");
    (rows[1].rounds, rows[1].measures.load.added_rtt_ns) = (2, Some(200_000));
    rows[1].measures.load.kind = Some("fair".to_owned());
    let rival = "not shown to be faster than b (fair) on single +200 µs)";
    says(&said(&[], &rows), &["Fastest: a on single", rival]);
}

#[test]
fn benchmarks_alone_say_which_is_fastest_and_what_is_void() {
    let mut void = row("broken:fast", "single", 90_000.0);
    void.safety.state = State::Violated;
    let slow = row("lock-core:plain", "single", 400.0);
    assert_eq!(
        said(&[], &[void.clone(), slow]),
        "Fastest: lock-core:plain on single, 400 cycles/s (380–420) (uncontended, 16 tasks); 1 void, since the lock was not safe while it was measured."
    );
    let mut own_loop = row("peer:theirs", "single", 400.0);
    own_loop.safety.state = State::Unknown;
    says(&said(&[], &[own_loop]), &["Nobody judged"]);
    says(&said(&[], &[void]), &["No benchmark row may be quoted; 1 void"]);
    assert_eq!(said(&[], &[]), "Nothing was measured.");
}

/// The longest outage of a configuration counts.
#[test]
fn a_report_says_what_a_failover_a_month_means() {
    let of = |outage_ns: u64, double_grants_per_year: f64| {
        let risk = FailoverRisk {
            configuration: "sentinel, asynchronous".to_owned(),
            outage_ns,
            double_grants_per_year,
            service: "50 grants/s".to_owned(),
        };
        ScenarioResult { risk: Some(risk), ..scenario("failover", "sentinel", State::Clean) }
    };
    for form in ["markdown", "html"] {
        let report = |run: &Run| by_name(form).expect("a format").render(run).expect("it is made");
        says(
            &report(&run(&[of(2_200_000_000, 7.5), of(3_000_000_000, 6.5)], &[])),
            &[
                "At one failover a month a usual service (50 grants/s) would have 6.5",
                "for sentinel, asynchronous (3",
                "runs/x",
            ],
        );
        let without = report(&run(&[scenario("kill", "single", State::Clean)], &[]));
        assert!(!without.contains("At one failover a month"), "no master was replaced");
    }
}
