//! How long callers of open loops waited around faults.

use results::open_loop::{Length, OpenLoop, OpenLoopCall, OpenLoopWaits};
use results::report::text::{TextOptions, summary};
use results::run::{FaultSpan, Meta, Run, ScenarioResult};

use crate::{render, table};

const MS: u64 = 1_000_000;

/// A caller each 10 ms from 0 on, which waits so many milliseconds; a negative one gets no grant.
fn callers(waits: &[i64]) -> Vec<OpenLoopCall> {
    let callers = waits.iter().zip(0..);
    let caller = |(ms, number): (&i64, u64)| OpenLoopCall {
        due_ns: number * 10 * MS,
        waited_ns: ms.unsigned_abs() * MS,
        granted: *ms >= 0,
    };
    callers.map(caller).collect()
}

fn fault(injected_ms: u64, done_ms: u64, healed_ms: Option<u64>) -> FaultSpan {
    FaultSpan {
        injected_ns: injected_ms * MS,
        done_ns: Some(done_ms * MS),
        healed_ns: healed_ms.map(|ms| ms * MS),
        ..FaultSpan::default()
    }
}

fn of(waits: &[i64], faults: &[FaultSpan]) -> OpenLoop {
    OpenLoop::of(100.0, 1_000 * MS, &callers(waits), faults).expect("callers")
}

fn exactly(ms: u64) -> Length {
    let (ns, more) = (ms * MS, false);
    Length { ns, more }
}

fn more_than(ms: u64) -> Length {
    let (ns, more) = (ms * MS, true);
    Length { ns, more }
}

#[test]
fn without_a_fault_all_were_due_before_one() {
    let waits: Vec<i64> = (1..=200).collect();
    let open = of(&waits, &[]);
    let all = open.before.expect("callers");
    assert_eq!((all.calls, all.without_grant), (200, 0));
    assert_eq!((all.p99, all.longest), (Some(exactly(198)), exactly(200)));
    assert_eq!(open.granted_per_s, 200.0);
    assert_eq!((open.during, open.after), (None, None));
    assert_eq!((open.fault_ns, open.recovered_ns), (None, None));
}

#[test]
fn callers_without_a_grant_push_the_p99_up() {
    // One in a hundred may be left out; two in two hundred were not granted, after a short wait.
    let mut waits: Vec<i64> = (1..=198).collect();
    waits.extend([-1, -1]);
    let all = of(&waits, &[]).before.expect("callers");
    assert_eq!(all.p99, Some(exactly(198)));
    assert_eq!((all.without_grant, all.longest), (2, exactly(198)));
    assert_eq!(of(&waits, &[]).granted_per_s, 198.0);
}

#[test]
fn a_p99_among_those_without_a_grant_is_a_bound() {
    let mut waits = vec![5; 195];
    waits.extend([-500; 5]);
    let all = of(&waits, &[]).before.expect("callers");
    assert_eq!((all.p99, all.longest), (Some(more_than(500)), more_than(500)));
    // Refused at once: what is known is only that it is above the grants that were seen at that place.
    let mut waits = vec![5; 195];
    waits.extend([-1; 5]);
    let all = of(&waits, &[]).before.expect("callers");
    assert_eq!((all.p99, all.longest), (Some(more_than(5)), exactly(5)));
    let none = of(&[-7; 100], &[]);
    assert_eq!(none.before.expect("callers").p99, Some(more_than(7)));
    assert_eq!(none.granted_per_s, 0.0);
}

#[test]
fn too_few_callers_have_no_p99_but_a_longest_wait() {
    let few = of(&[3; 99], &[]).before.expect("callers");
    assert_eq!((few.p99, few.longest), (None, exactly(3)));
    assert_eq!(of(&[3; 100], &[]).before.expect("callers").p99, Some(exactly(3)));
    assert_eq!(OpenLoop::of(1.0, MS, &[], &[]), None);
    assert_eq!(OpenLoop::of(1.0, 0, &callers(&[1]), &[]), None);
}

#[test]
fn callers_are_cut_by_when_they_were_due_exactly() {
    // Due at 0, 10, … 40 ms; the fault at 20 ms is healed at 35 ms; the first grant came at 38 ms.
    let open = of(&[1, 90, 18, 14, 5], &[fault(20, 20, Some(35))]);
    let longest = |part: Option<OpenLoopWaits>| part.expect("callers").longest;
    assert_eq!(longest(open.before), exactly(90), "granted after the fault");
    assert_eq!(open.during.expect("callers").calls, 2);
    assert_eq!(longest(open.after), exactly(5));
    assert_eq!(open.recovered_ns, Some(38 * MS));
    // A grant before the heal does not end it.
    let open = of(&[1, 90, 3, 4, 5], &[fault(20, 20, Some(41))]);
    assert_eq!((open.during.expect("callers").calls, open.after), (3, None));
    assert_eq!(open.recovered_ns, Some(41 * MS));
    // Nor does one to a caller that was due before the fault was in place.
    let open = of(&[1, 15, 2, 90, 5], &[fault(20, 21, None)]);
    assert_eq!(open.recovered_ns, Some(45 * MS));
    assert_eq!(open.during.expect("callers").calls, 3);
}

#[test]
fn a_fault_without_recovery_lasts_to_the_end() {
    let open = of(&[1, 2, 3, -4], &[fault(10, 10, Some(15)), fault(20, 25, Some(28))]);
    assert_eq!(open.before.expect("callers").calls, 1);
    assert_eq!(open.during.expect("callers").calls, 3);
    assert_eq!((open.after, open.recovered_ns), (None, None));
}

/// Ten seconds of 100 callers each; those of the fifth second, a master dead, get nothing for 700 ms.
fn run(granted: bool) -> Run {
    let caller = |number: u64| {
        let stalled = (500..600).contains(&number);
        OpenLoopCall {
            due_ns: number * 10 * MS,
            waited_ns: if stalled { 700 * MS } else { 2 * MS },
            granted: granted || !stalled,
        }
    };
    let waits: Vec<OpenLoopCall> = (0..1_000).map(caller).collect();
    let faults = vec![FaultSpan {
        fault: "kill".to_owned(),
        injected_ns: 5_000 * MS,
        healed_ns: Some(6_000 * MS),
        first_grant_after_ns: Some(700 * MS),
        ..FaultSpan::default()
    }];
    let mut run = Run::new("runs/x", "chaos", Meta::default());
    run.scenarios = vec![ScenarioResult {
        name: "open".to_owned(),
        topology: "sentinel".to_owned(),
        subject: "lock-core:plain".to_owned(),
        durability: "wait:all".to_owned(),
        open_loop: OpenLoop::of(100.0, 10_000 * MS, &waits, &faults),
        faults,
        ..ScenarioResult::default()
    }];
    run
}

/// The first line of each cell of the scenario's row.
fn cells(run: &Run) -> Vec<String> {
    let rows = table(run, "How long callers waited");
    let first = |cell: &String| cell.split("; ").next().unwrap_or_default().to_owned();
    rows[0].iter().map(first).collect()
}

#[test]
fn a_row_says_what_the_callers_of_each_part_waited_in_every_form() {
    let granted = ["open", "100/s asked", "2 ms", "700 ms", "2 ms", "700 ms", "0 of 1000"];
    assert_eq!(cells(&run(true)), granted);
    let mut run = run(false);
    let stalled = cells(&run);
    assert_eq!(stalled[3..], ["more than 700 ms", "2 ms", "more than 700 ms", "100 of 1000"]);
    let shown = |run: &Run| {
        let text = summary(run, TextOptions { width: 240, color: false });
        [render("html", run), render("markdown", run), text]
    };
    for shown in shown(&run) {
        assert!(stalled.iter().all(|cell| shown.contains(cell.as_str())), "{shown}");
        assert!(shown.contains("90/s granted") && shown.contains("durability wait:all"));
    }
    let open = run.scenarios[0].open_loop.as_mut().expect("one");
    (open.recovered_ns, open.before) = (None, None);
    assert_eq!(cells(&run)[2..5], ["–", "more than 700 ms", "no recovery"]);
    let during = run.scenarios[0].open_loop.as_mut().expect("one").during.as_mut().expect("callers");
    (during.p99, during.calls) = (None, 42);
    assert_eq!(cells(&run)[2..5], ["–", "– (42 calls)", "no recovery"]);
    run.scenarios[0].open_loop = None;
    assert!(shown(&run).iter().all(|shown| !shown.contains("fault to recovery")));
}
