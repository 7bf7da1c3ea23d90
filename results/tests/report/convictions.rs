//! What shows a conviction: steps, holds as text, and the bars around an anomaly.

use results::proof::Proof;
use results::run::{FaultSpan, ScenarioResult};
use results::sequence::{Sequence, StepKind};
use results::timeline::{FaultBar, HoldBar, MAX_BARS, OperationBar, Span, TimelineData};
use results::verdict::{Anomaly, State};

use crate::samples::says;

fn convicted() -> ScenarioResult {
    let mut result = ScenarioResult {
        topology: "sentinel".to_owned(),
        faults: vec![FaultSpan {
            fault: "delay".to_owned(),
            targets: vec!["n1 -> n2".to_owned()],
            injected_ns: 150_000_000,
            proof: "5 bytes; <harmed>".to_owned(),
            ..FaultSpan::default()
        }],
        ..ScenarioResult::default()
    };
    let contract = &mut result.verdicts.contract;
    contract.state = State::Violated;
    contract.anomalies = vec![Anomaly {
        what: "overlap".to_owned(),
        lock: "orders".to_owned(),
        from_ns: 300_000_000,
        to_ns: 400_000_000,
        grants: vec!["c1/g1".to_owned(), "c2/g1".to_owned()],
        ..Anomaly::default()
    }];
    contract.proof = Some(Proof {
        slice: [
            r#"{"t_ns":100000000,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"plain","lease_ms":30000,"wait_ms":500}"#,
            r#"{"t_ns":110000000,"id":1,"end":"ok","grant":"c1/g1"}"#,
            r#"{"t_ns":290000000,"id":2,"client":"c2","owner":"t0","op":"acquire","lock":"orders","kind":"plain","lease_ms":30000,"wait_ms":500}"#,
            r#"{"t_ns":300000000,"id":2,"end":"ok","grant":"c2/g1"}"#,
            r#"{"t_ns":400000000,"id":3,"op":"release","grant":"c1/g1"}"#,
        ]
        .map(str::to_owned)
        .to_vec(),
        ..Proof::default()
    });
    result
}

#[test]
fn what_convicts_is_shown_in_order_and_nothing_else() {
    let sequence = Sequence::of(&convicted()).expect("a conviction");
    assert_eq!(sequence.columns, ["c1/t0", "c2/t0", "servers (sentinel)", "n1", "n2"]);
    let shown: Vec<_> = sequence.steps.iter().map(|s| (s.kind, s.between)).collect();
    use StepKind::{Answer, Command, Note, Violation};
    assert_eq!(
        shown,
        [
            (Command, (0, 2)),
            (Answer, (2, 0)),
            (Note, (3, 4)),
            (Command, (1, 2)),
            (Answer, (2, 1)),
            (Violation, (0, 1)),
            (Command, (0, 2)),
        ]
    );
    assert_eq!(sequence.steps[1].words, "granted: c1/g1, lease to 30.110 s");
    assert_eq!(sequence.steps[5].words, "c1/t0 and c2/t0 both hold orders for 100 ms");
}

#[test]
fn mermaid_gets_no_markup_from_outside() {
    let text = Sequence::of(&convicted()).expect("a conviction").mermaid();
    let head = "sequenceDiagram\n    participant p0 as c1/t0\n";
    let fault = "Note over p3,p4: 0.150 s delay n1 -> n2 begins: 5 bytes#59; #60;harmed>\n";
    says(&text, &[head, fault, "    p2-->>p1: 0.300 s granted: c2/g1, lease to 30.300 s\n"]);
}

#[test]
fn what_is_not_convicted_has_no_diagram_and_later_faults_are_no_part_of_it() {
    let mut result = convicted();
    result.faults[0].injected_ns = 500_000_000;
    let sequence = Sequence::of(&result).expect("a conviction");
    assert_eq!(sequence.columns.len(), 3, "{sequence:?}");
    result.verdicts.contract.state = State::Clean;
    assert_eq!(Sequence::of(&result), None);
    let mut bare = convicted();
    bare.verdicts.contract.proof = Some(Proof::default());
    assert_eq!(Sequence::of(&bare), None);
}

fn hold(client: &str, from_ns: u64, to_ns: u64) -> HoldBar {
    HoldBar {
        client: client.to_owned(),
        owner: "t0".to_owned(),
        grant: format!("{client}/g1"),
        from_ns,
        to_ns: Some(to_ns),
        ended_by: "release".to_owned(),
    }
}

#[test]
fn two_holds_at_once_are_seen_at_once() {
    let ms = 1_000_000;
    let overlap = Span { from_ns: 200 * ms, to_ns: 300 * ms };
    let holds = [hold("c1", 100 * ms, 300 * ms), hold("c2", 200 * ms, 400 * ms)];
    let fault = FaultBar { label: "pause c1".to_owned(), from_ns: 150 * ms, to_ns: Some(290 * ms) };
    let timeline = TimelineData::around("orders", "belief", overlap, &holds, &[overlap], &[fault])
        .with_operations(vec![OperationBar {
            client: "c1".to_owned(),
            owner: "t0".to_owned(),
            op: "release".to_owned(),
            grant: "c1/g1".to_owned(),
            from_ns: 300 * ms,
            to_ns: None,
            end: String::new(),
        }]);
    let proof = Proof {
        timeline,
        slice: vec![r#"{"t_ns":200000000,"id":4,"end":"ok","grant":"c2/g1"}"#.to_owned()],
        of_lines: 1_234,
        shortest: true,
    };
    let text = proof.text();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 7, "{text}");
    let marks = |row: &str, mark: char| row.chars().filter(|c| *c == mark).count();
    // The window is 100 to 400 ms wide: a third of its columns each.
    assert_eq!(marks(rows[1], '█') + marks(rows[1], '▾'), 48, "{text}");
    assert_eq!(marks(rows[2], '█'), 49, "{text}");
    assert_eq!(marks(rows[3], '*'), 25, "{text}");
    says(rows[4], &["pause c1", "healed 0.290 s"]);
    says(rows[5], &["1 of 1234 lines, none"]);
    says(rows[6], &["0.200000 s  answered ok: c2/g1  [4]"]);
    assert!(rows.iter().all(|row| row.chars().count() <= 130), "{text}");
}

#[test]
fn a_window_that_ends_before_it_begins_is_no_panic() {
    let proof = Proof {
        timeline: TimelineData {
            from_ns: 2,
            to_ns: 1,
            holds: vec![hold("c1", 0, 3)],
            ..TimelineData::default()
        },
        ..Proof::default()
    };
    assert!(proof.text().contains("c1/t0"), "{}", proof.text());
}

fn span(from_ns: u64, to_ns: u64) -> Span {
    Span { from_ns, to_ns }
}

fn bar(n: u64) -> HoldBar {
    HoldBar {
        grant: format!("g{n}"),
        from_ns: n * 1_000_000,
        to_ns: Some(n * 1_000_000 + 500_000),
        ..HoldBar::default()
    }
}

#[test]
fn far_holds_go_and_near_holds_stay() {
    let holds: Vec<HoldBar> = (0..1_000).map(bar).collect();
    let anomaly = span(500_000_000, 501_000_000);
    let data = TimelineData::around("orders", "belief", anomaly, &holds, &[anomaly], &[]);
    assert_eq!(data.holds.len(), 102, "50 ms on either side, and one bar per millisecond");
    assert_eq!(data.omitted, 0);
    assert_eq!(data.overlaps, vec![anomaly]);
    assert!(data.holds.is_sorted_by_key(|hold| hold.from_ns));
}

#[test]
fn never_more_than_the_cap_and_the_rest_is_counted() {
    let holds: Vec<HoldBar> = (0..1_000).map(bar).collect();
    let data = TimelineData::around("orders", "belief", span(0, 900_000_000), &holds, &[], &[]);
    assert_eq!(data.holds.len(), MAX_BARS);
    assert_eq!(data.omitted, 800);
    assert!(
        data.holds.iter().any(|hold| hold.grant == "g450"),
        "the middle of the anomaly is what is looked at"
    );
}

#[test]
fn a_hold_without_end_reaches_into_every_later_window() {
    let endless = HoldBar { to_ns: None, ..bar(1) };
    let anomaly = span(900_000_000_000, 900_000_000_001);
    let data = TimelineData::around("orders", "belief", anomaly, &[endless], &[], &[]);
    assert_eq!(data.holds.len(), 1);
}
