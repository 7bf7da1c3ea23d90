//! A run on one screen, text that must not drive a terminal, and an audit as a badge.

use results::audit::{Audit, AuditOutcome, AuditedScenario, AuditedSubject};
use results::report::text::{ScreenOptions, TextOptions, screen};
use results::report::{printable_json, printable_lines, printable_message};
use results::run::Run;
use results::svg::badge;
use results::verdict::State;

use crate::samples::{around, row, says, scenario};

/// How the line of a command begins, which no width breaks.
const COMMAND: &str = "        locklab ";

fn shown(run: &Run, width: u16) -> String {
    let options = TextOptions { width, color: false };
    let more = ScreenOptions { page: "file:///a/report.html".to_owned(), ..ScreenOptions::default() };
    screen(run, options, &more)
}

#[test]
fn a_row_names_what_its_grants_wait_for() {
    let mut waiting = row("lock-core:reentrant", "sentinel", around(4249.0, 0.05));
    waiting.measures.load.durability = "wait:all".to_owned();
    says(&shown(&crate::samples::run("runs/x", vec![waiting], Vec::new()), 140), &["sentinel, wait:all"]);
}

fn quickstart() -> Run {
    let mut kept = scenario("crash-aof", "single", State::Clean);
    kept.without_grant_ns = Some(3_600_000_000);
    let rows = (0..8).map(|_| row("lock-core:reentrant", "single", around(101_775.0, 0.05)));
    let lost = scenario("failover-async", "sentinel", State::Violated);
    crate::samples::run("runs/x", rows.collect(), vec![kept, lost])
}

#[test]
fn the_answer_is_first_and_last_and_a_loss_has_its_command() {
    let text = shown(&quickstart(), 100);
    says(
        &text,
        &[
            "LOST by 1 of 2 configurations; kept by 1 under every fault tried",
            "LOST  failover-async  sentinel, ",
            "two owners 3 times, for 3.5 s at worst",
            "locklab report runs/x --scenario failover-async",
            "kept  crash-aof ",
            "3.6 s without a grant",
            " 101775 ",
            "LOST: failover-async 3.5 s\n",
        ],
    );
    assert!(text.ends_with("page: file:///a/report.html\n"), "{text}");
}

#[test]
fn a_line_is_never_wider_than_the_terminal_and_no_word_is_cut() {
    let run = quickstart();
    for width in [60, 80, 100, 140] {
        let text = shown(&run, width);
        let wide = text.lines().filter(|line| !line.starts_with(COMMAND));
        for line in wide.filter(|line| !line.starts_with("page: ")) {
            assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
        }
        says(&text, &["failover-async", "crash-aof", "uncontended"]);
    }
}

#[test]
fn a_long_audit_fits_a_screen_and_counts_what_does_not_apply() {
    let of = |outcome, number: usize| AuditedScenario {
        name: format!("scenario-{number}"),
        topology: "single".to_owned(),
        outcome,
        why: match outcome {
            AuditOutcome::NotApplicable if number.is_multiple_of(2) => "theirs has no kind `fair`".to_owned(),
            AuditOutcome::NotApplicable => "theirs lacks the feature `extend`".to_owned(),
            _ => "contract violated".to_owned(),
        },
        verdicts: [("contract".to_owned(), State::Violated)].into(),
        ..AuditedScenario::default()
    };
    use AuditOutcome::{Broken, Kept, NotApplicable, Unknown};
    let outcomes = [(Broken, 20), (Kept, 30), (Unknown, 10), (NotApplicable, 79)];
    let scenarios = outcomes.into_iter().flat_map(|(outcome, count)| (0..count).map(move |n| (outcome, n)));
    let mut subject = AuditedSubject {
        name: "theirs".to_owned(),
        scenarios: scenarios.map(|(outcome, number)| of(outcome, number)).collect(),
        ..AuditedSubject::default()
    };
    subject.count();
    let mut run = crate::samples::run("runs/x", Vec::new(), Vec::new());
    run.audit = Some(Box::new(Audit { subjects: vec![subject], ..Audit::default() }));
    let text = shown(&run, 100);
    let lines = text.lines().count();
    assert!(lines <= 45, "{lines}: {text}");
    says(
        &text,
        &[
            "LOST by theirs in 20 of 50",
            "not applicable: 79: 40 has no kind `fair`; 39 lacks the feature `extend`",
        ],
    );
    let all = ScreenOptions { all_reasons: true, ..ScreenOptions::default() };
    let text = screen(&run, TextOptions::default(), &all);
    says(&text, &["not applicable: has no kind `fair`: scenario-0, "]);
}

#[test]
fn a_badge_says_the_worst_and_never_passes_what_is_unknown() {
    let of = |outcomes: &[AuditOutcome], class: &str| {
        let scenarios = outcomes.iter().map(|outcome| AuditedScenario {
            outcome: *outcome,
            verdicts: [(class.to_owned(), State::Violated)].into(),
            ..AuditedScenario::default()
        });
        let subject = AuditedSubject { scenarios: scenarios.collect(), ..AuditedSubject::default() };
        badge(&Audit { subjects: vec![subject], ..Audit::default() })
    };
    use AuditOutcome::{Broken, Inherent, Kept, Unknown};
    assert!(of(&[Kept, Inherent], "belief").contains("kept in all of 1"));
    assert!(of(&[Kept, Unknown], "belief").contains("1 kept, 1 unknown"));
    let lost = of(&[Kept, Unknown, Broken], "contract");
    assert!(lost.contains("LOST in 1 of 2") && lost.contains("#ad2418"));
    assert!(of(&[Kept, Broken], "liveness").contains("1 of 2 broken"));
    assert!(of(&[], "belief").contains("0 kept, 0 unknown"));
}

#[test]
fn text_from_outside_cannot_drive_a_terminal() {
    let driving = "\u{1b}]0;x\u{7}\r\u{9b}31m\u{202e}\u{2066}\u{61c}\u{2028}\u{7f}\n\tz";
    let shown = printable_lines(driving, usize::MAX);
    let marks = shown.chars().filter(|c| *c == '\u{fffd}');
    assert_eq!(marks.count(), 9, "{shown:?}");
    assert!(shown.ends_with("\n\tz"), "{shown:?}");
}

#[test]
fn a_flood_is_cut() {
    let flood = "A".repeat(100_000);
    let shown = printable_lines(&format!("{flood} b\n{flood}"), 200);
    let word = format!("{}…", "A".repeat(200));
    assert_eq!(shown, format!("{word} b\n{word}"));
    let shown = printable_message(&format!("a\n{}", "b ".repeat(100_000)), 200);
    assert!(shown.chars().count() < 2_010, "{}", shown.len());
}

#[test]
fn json_for_a_terminal_reads_back_as_the_same() {
    let text = "\u{9b}31m\u{202e}\u{7f}\u{e0041}é";
    let shown = printable_json(&serde_json::to_string(text).expect("a string"));
    assert!(shown.chars().all(|c| c == 'é' || c.is_ascii_graphic()), "{shown}");
    assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
}
