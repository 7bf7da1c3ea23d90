//! The short words for parts of a run that every format shows.

use std::cmp::Ordering;

use itertools::Itertools;

use crate::answer::small_print;
use crate::record::run::{BenchRow, FaultSpan, Outcome, Run, ScenarioResult};
use crate::record::verdict::{State, Verdict};
use crate::wording::units;

/// `✓ clean`, `? unknown`, `✗ 2×, worst 303 ms`.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let (glyph, count) = (verdict.state.glyph(), units::count(verdict.count));
    match (verdict.state, verdict.worst_ns) {
        (State::Violated, 0) => format!("{glyph} {count}×"),
        (State::Violated, ns) => format!("{glyph} {count}×, worst {}", units::duration(ns)),
        (state, _) => self::state(state),
    }
}

/// `5 times, worst 303 ms, median 20 ms, 12.1 per minute, 0.5 per fault`; `None` where nothing is violated.
pub fn rates(verdict: &Verdict) -> Option<String> {
    if verdict.state != State::Violated {
        return None;
    }
    let mut words = vec![units::times(verdict.count)];
    if verdict.worst_ns > 0 {
        words.push(format!("worst {}", units::duration(verdict.worst_ns)));
        words.push(format!("median {}", units::duration(verdict.median_ns)));
    }
    for (rate, of) in [(verdict.per_minute, "minute"), (verdict.per_fault, "fault")] {
        words.extend(rate.map(|rate| format!("{} per {of}", units::figure(rate))));
    }
    Some(words.join(", "))
}

/// `kill n1, delay n1 -> n2`, and which of them left no evidence of an effect.
pub(crate) fn faults(faults: &[FaultSpan]) -> String {
    if faults.is_empty() {
        return "no fault".to_owned();
    }
    let effect = |bit| if bit { "" } else { " (no evidence of effect)" };
    faults.iter().map(|fault| fault.label() + effect(fault.bit)).join(", ")
}

/// From the first fault to the first grant after it.
pub(crate) fn recovery(scenario: &ScenarioResult) -> String {
    match scenario.recovery.first_grant_after_fault_ns {
        Some(ns) => units::duration(ns),
        None if scenario.faults.is_empty() => "–".to_owned(),
        None => scenario.unrecovered(),
    }
}

/// `contract violated, liveness clean`; `nothing` where nothing is.
pub(crate) fn expected(scenario: &ScenarioResult) -> String {
    if scenario.expected.is_empty() {
        return "nothing".to_owned();
    }
    scenario.expected.iter().map(|(class, state)| format!("{class} {state}")).format(", ").to_string()
}

/// `✓ as expected`, `✗ not as expected`, `? unknown`, `· no expectation`.
pub(crate) fn outcome(outcome: Outcome) -> String {
    format!("{} {}", outcome.glyph(), outcome.words())
}

/// The outcome with the small print behind it, in one line.
pub(crate) fn small(run: &Run) -> String {
    let came_out = run.outcome();
    // What nobody expected anything of came out as it did.
    (came_out != Outcome::None).then(|| outcome(came_out)).into_iter().chain(small_print(run)).join("; ")
}

/// `✓ clean`, `✗ violated`.
pub(crate) fn safety(row: &BenchRow) -> String {
    state(row.safety.state)
}

fn state(state: State) -> String {
    format!("{} {}", state.glyph(), state.word())
}

/// Why a row's figures may not be quoted; `None` if they may.
pub(crate) fn why_invalid(row: &BenchRow) -> Option<String> {
    match (row.valid, row.why_invalid.as_slice()) {
        _ if row.is_void() => Some("void: the lock was not safe while it was measured".to_owned()),
        (true, _) => None,
        (false, []) => Some("invalid".to_owned()),
        (false, why) => Some(why.join("; ")),
    }
}

/// The ratio of a comparison with its interval: `3.91 (3.74–4.09)`.
pub(crate) fn ratio(ratio: &crate::record::run::Ratio) -> String {
    let point = units::figure(ratio.point);
    match ratio.low.zip(ratio.high) {
        Some((low, high)) => format!("{point} ({})", units::range(low, high)),
        None => point,
    }
}

/// Text from outside without control characters: what a server or a peer wrote must not drive a terminal.
pub(crate) fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        '\n' | '\t' => ' ',
        c => visible(c),
    });
    shown.collect()
}

/// Characters that control, are invisible, end a line or turn the direction of writing are replaced.
fn visible(c: char) -> char {
    let drives = c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    if drives { '\u{fffd}' } else { c }
}

const LINE_MAX: usize = 2_000;

/// Lines for a terminal, whatever is in them: printable, and words of more characters than `word_max` cut.
pub fn printable_lines(text: &str, word_max: usize) -> String {
    let (mut out, mut length) = (String::with_capacity(text.len()), 0);
    for c in text.chars() {
        length = if c.is_whitespace() { 0 } else { length + 1 };
        match (c, length.cmp(&word_max.saturating_add(1))) {
            ('\n' | '\t', _) => out.push(c),
            (_, Ordering::Less) => out.push(visible(c)),
            (_, Ordering::Equal) => out.push('…'),
            (_, Ordering::Greater) => {}
        }
    }
    out
}

/// The same of a message, whose lines are cut, too.
pub fn printable_message(text: &str, word_max: usize) -> String {
    let text = printable_lines(text, word_max);
    let cut = |line: &str| match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(cut).collect();
    lines.join("\n")
}

/// JSON in which what a terminal would obey is written by its number; it reads back as the same.
pub fn printable_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c == '\n' || visible(c) == c {
            true => out.push(c),
            false => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                out.extend(units.map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    out
}
