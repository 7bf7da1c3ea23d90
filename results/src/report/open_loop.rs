//! How long the callers of open loops waited, a row per scenario.

use super::cells::printable;
use crate::open_loop::{Length, OpenLoop, OpenLoopWaits};
use crate::run::{Run, ScenarioResult};
use crate::units::{self, enclosed};

/// What the figures mean.
pub(super) const NOTE: &str = "Waits count from when each caller was due, and are sorted by that moment: before the first fault, from it until \
    recovery, after recovery. A caller without a grant counts as longer than every grant.";

/// The headings.
pub(super) const HEADS: [&str; 7] = [
    "SCENARIO",
    "rate",
    "p99 before",
    "p99 fault to recovery",
    "p99 after",
    "longest wait",
    "no grant",
];

/// A row per scenario with an open loop.
pub(super) fn rows(run: &Run) -> Vec<[String; 7]> {
    let rows = run.scenarios.iter();
    rows.filter_map(|result| Some(row(result, result.open_loop.as_ref()?)))
        .collect()
}

fn row(result: &ScenarioResult, open: &OpenLoop) -> [String; 7] {
    let (name, place) = (printable(&result.name), printable(&result.place()));
    let durability = enclosed(",\ndurability ", &printable(&result.durability), "");
    let after = match (open.fault_ns, open.recovered_ns) {
        (Some(_), None) => "no recovery".to_owned(),
        _ => p99(open.after.as_ref()),
    };
    let total = |of: fn(&OpenLoopWaits) -> u64| {
        let all = open.parts().map(of).fold(0, u64::saturating_add);
        units::count(all)
    };
    let longest = open.parts().map(|waits| waits.longest);
    let longest = longest.max_by_key(|length| (length.ns, length.more));
    let [asked, granted] = [open.asked_per_s, open.granted_per_s].map(units::figure);
    let [without, calls] = [
        total(|waits| waits.without_grant),
        total(|waits| waits.calls),
    ];
    [
        format!("{name},\n{place}{durability}"),
        format!("{asked}/s asked,\n{granted}/s granted"),
        p99(open.before.as_ref()),
        p99(open.during.as_ref()),
        after,
        longest.map_or("–".to_owned(), words),
        format!("{without} of {calls}"),
    ]
}

fn p99(waits: Option<&OpenLoopWaits>) -> String {
    match waits.map(|waits| (waits.p99, waits.calls)) {
        None => "–".to_owned(),
        Some((Some(length), _)) => words(length),
        Some((None, calls)) => format!("– ({} calls)", units::count(calls)),
    }
}

fn words(length: Length) -> String {
    let more = if length.more { "more than " } else { "" };
    format!("{more}{}", units::duration(length.ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_loop::OpenLoopCall;
    use crate::report::{FORMATS, text};
    use crate::run::{FaultSpan, Meta};

    /// Ten seconds of 100 callers each; those of the fifth second, when a master dies, get nothing for 700 ms.
    fn run(granted: bool) -> Run {
        let caller = |number: u64| {
            let stalled = (500..600).contains(&number);
            OpenLoopCall {
                due_ns: number * 10_000_000,
                waited_ns: if stalled { 700_000_000 } else { 2_000_000 },
                granted: granted || !stalled,
            }
        };
        let waits: Vec<OpenLoopCall> = (0..1_000).map(caller).collect();
        let faults = vec![FaultSpan {
            fault: "kill".to_owned(),
            injected_ns: 5_000_000_000,
            healed_ns: Some(6_000_000_000),
            first_grant_after_ns: Some(700_000_000),
            ..FaultSpan::default()
        }];
        let mut run = Run::new("runs/x", "chaos", Meta::default());
        run.scenarios = vec![ScenarioResult {
            name: "open".to_owned(),
            topology: "sentinel".to_owned(),
            subject: "lock-core:plain".to_owned(),
            durability: "wait:all".to_owned(),
            open_loop: OpenLoop::of(100.0, 10_000_000_000, &waits, &faults),
            faults,
            ..ScenarioResult::default()
        }];
        run
    }

    #[test]
    fn a_row_says_what_the_callers_of_each_part_waited() {
        let row = |run: &Run| rows(run).remove(0);
        assert_eq!(
            row(&run(true)),
            [
                "open,\nsentinel · lock-core:plain,\ndurability wait:all",
                "100/s asked,\n100/s granted",
                "2 ms",
                "700 ms",
                "2 ms",
                "700 ms",
                "0 of 1000"
            ]
        );
        let cells = row(&run(false));
        assert_eq!(cells[1], "100/s asked,\n90/s granted");
        assert_eq!(cells[3], "more than 700 ms");
        assert_eq!(cells[5], "more than 700 ms");
        assert_eq!(cells[6], "100 of 1000");
    }

    #[test]
    fn text_markdown_and_page_show_the_same_cells() {
        let mut run = run(false);
        let page = |run: &Run| {
            let formats = FORMATS.iter();
            let formats = formats.filter(|format| ["html", "markdown"].contains(&format.name));
            let mut shown: Vec<String> = formats
                .map(|format| format.render(run).expect("rendered"))
                .collect();
            shown.push(text::summary(
                run,
                text::TextOptions {
                    width: 240,
                    color: false,
                },
            ));
            assert_eq!(shown.len(), 3);
            shown
        };
        for shown in page(&run) {
            for cell in &rows(&run)[0][2..] {
                assert!(shown.contains(cell.as_str()), "{cell} in {shown}");
            }
        }
        run.scenarios[0].open_loop = None;
        for shown in page(&run) {
            assert!(!shown.contains("p99 fault to recovery"), "{shown}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_a_figure() {
        let mut run = run(true);
        let open = run.scenarios[0].open_loop.as_mut().expect("one");
        open.recovered_ns = None;
        open.before = None;
        let during = open.during.as_mut().expect("callers");
        (during.p99, during.calls) = (None, 42);
        let cells = rows(&run).remove(0);
        assert_eq!(cells[2..5], ["–", "– (42 calls)", "no recovery"]);
    }
}
