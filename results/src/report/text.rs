//! Turns a run into the summary for a terminal, and for `summary.txt`.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table};

use super::cells::{self, printable};
use super::{Exporter, ReportError, measures, recovery};
use crate::compare::RunComparison;
use crate::proof::Proof;
use crate::run::{Outcome, Run, ScenarioResult};
use crate::units;
use crate::verdict::{CLASSES, State, Verdict};

/// How the summary is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal; tables wrap their cells to stay within it. Below 60 they need 60.
    pub width: u16,
    /// Whether to colour what is as expected, what is not, and what is unknown.
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            width: 120,
            color: false,
        }
    }
}

/// `--format text`: the summary, 120 columns wide, without colour.
#[derive(Debug)]
pub struct Text;

impl Exporter for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn extension(&self) -> &'static str {
        "txt"
    }

    fn about(&self) -> &'static str {
        "the summary, as on the terminal"
    }

    fn render(&self, run: &Run) -> Result<String, ReportError> {
        Ok(summary(run, TextOptions::default()))
    }
}

/// The summary: warnings, the verdict of every scenario with the proofs that matter, benchmark rows and comparisons.
pub fn summary(run: &Run, options: TextOptions) -> String {
    let mut out = String::new();
    for warning in &run.warnings {
        out.push_str(&paint(YELLOW, &format!("! {}", printable(warning))));
        out.push('\n');
    }
    if run.partial {
        out.push_str(&paint(
            YELLOW,
            "! the run was cut short: what follows was measured until then",
        ));
        out.push('\n');
    }
    if !run.scenarios.is_empty() {
        section(&mut out, &verdict_table(run, options.width));
        section(&mut out, &reasons(run));
        section(&mut out, &recovery_table(run, options.width));
        section(&mut out, &repeats(run));
    }
    if !run.rows.is_empty() {
        section(&mut out, &bench_table(run, options.width));
        section(&mut out, &invalid(run));
        // A sweep has many rows of one kind: its curve says what matters.
        if run.sweeps.is_empty() {
            section(&mut out, &more(run, options.width));
        }
    }
    for sweep in &run.sweeps {
        section(&mut out, &measures::sweep(sweep));
    }
    if !run.comparisons.is_empty() {
        section(&mut out, &comparison_table(run, options.width));
    }
    let outcome = run.outcome();
    if outcome != Outcome::None {
        section(
            &mut out,
            &paint(outcome_color(outcome), &cells::outcome(outcome)),
        );
    }
    finish(&out, options.color)
}

fn section(out: &mut String, body: &str) {
    if body.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(body.trim_end());
    out.push('\n');
}

fn table(width: u16, header: &[&str], right_from: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(
            NOTHING
                .header_separator(LineStyle::none().fill('─'))
                .row_separator(LineStyle::none().fill(' ')),
        )
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(60))
        .set_header(header.iter().copied());
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= right_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn verdict_table(run: &Run, width: u16) -> String {
    let header: Vec<&str> = ["SCENARIO"]
        .into_iter()
        .chain(CLASSES)
        .chain(["recovery", "expected"])
        .collect();
    let mut table = table(width, &header, usize::MAX);
    for scenario in &run.scenarios {
        let mut row = vec![format!(
            "{}\n{}\n{}",
            printable(&scenario.name),
            printable(&format!("{} · {}", scenario.topology, scenario.subject)),
            printable(&cells::faults(&scenario.faults)),
        )];
        row.extend(
            scenario
                .verdicts
                .iter()
                .map(|(_, verdict)| verdict_cell(verdict)),
        );
        row.push(cells::recovery(scenario));
        row.push(expected_cell(scenario));
        table.add_row(row);
    }
    table.to_string()
}

/// Of scenarios that ran several times: how many of the repeats convict, and by which verdicts.
fn repeats(run: &Run) -> String {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&ScenarioResult>> = BTreeMap::new();
    for result in &run.scenarios {
        let key = (
            result.name.as_str(),
            result.topology.as_str(),
            result.subject.as_str(),
        );
        groups.entry(key).or_default().push(result);
    }
    let mut out = String::new();
    for ((name, topology, subject), results) in groups.into_iter().filter(|(_, all)| all.len() > 1)
    {
        let violated = |class: &str| {
            let of_class = results
                .iter()
                .filter_map(|result| result.verdicts.get(class));
            of_class
                .filter(|verdict| verdict.state == State::Violated)
                .count()
        };
        let convict = results.iter().filter(|result| {
            result
                .verdicts
                .iter()
                .any(|(_, verdict)| verdict.state == State::Violated)
        });
        let by: Vec<String> = CLASSES
            .into_iter()
            .filter(|class| violated(class) > 0)
            .map(|class| format!("{class} {}", violated(class)))
            .collect();
        let expected = results.iter().filter(|result| result.as_expected).count();
        out.push_str(&format!(
            "{}: {} of {} repeats convict{}; {expected} as expected\n",
            printable(&format!("{name} on {topology} with {subject}")),
            convict.count(),
            results.len(),
            if by.is_empty() {
                String::new()
            } else {
                format!(" ({})", by.join(", "))
            }
        ));
    }
    out
}

/// How the lock came through each fault; left out of the summary of a long suite, where `show --faults` has it.
fn recovery_table(run: &Run, width: u16) -> String {
    const SCENARIOS_MAX: usize = 8;
    if run.scenarios.len() > SCENARIOS_MAX {
        return String::new();
    }
    faults(run, width)
}

/// How the lock came through each fault of each scenario; empty where there was none.
pub fn faults(run: &Run, width: u16) -> String {
    let rows = recovery::rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let mut table = table(width, &recovery::HEADER, 1);
    for row in rows {
        table.add_row(row);
    }
    format!(
        "{table}\n\nbefore, after: from the fault; errors, hangs: share of the operations between the fault and its heal or the next grant; herd: \
         acquires in the second after the heal\n"
    )
}

/// State and count on one line, the worst below it: so the five columns stay narrow.
fn verdict_cell(verdict: &Verdict) -> String {
    match verdict.state {
        State::Violated => {
            let count = format!("{} {}×", verdict.state.glyph(), units::count(verdict.count));
            if verdict.worst_ns == 0 {
                return count;
            }
            format!(
                "{count}\n  {}",
                units::duration(verdict.worst_ns).replace(' ', "\u{a0}")
            )
        }
        State::Clean | State::Unknown => {
            format!("{}\u{a0}{}", verdict.state.glyph(), verdict.state.word())
        }
    }
}

fn expected_cell(scenario: &ScenarioResult) -> String {
    let outcome = scenario.outcome();
    let glyph = paint(outcome_color(outcome), &outcome.glyph().to_string());
    format!("{glyph} {}", printable(&cells::expected(scenario)))
}

/// The proof of every violated verdict of every scenario, each drawn, with the lines that convict.
pub fn proofs(run: &Run) -> String {
    let mut out = String::new();
    for scenario in &run.scenarios {
        for (class, verdict) in scenario.verdicts.iter() {
            if let Some(proof) = &verdict.proof {
                let title = format!("{} (seed {}): {class}", scenario.name, scenario.seed);
                out.push_str(&format!("\n{}\n", printable(&title)));
                if let Some(rates) = cells::rates(verdict) {
                    out.push_str(&format!("  {rates}\n"));
                }
                for line in proof.text().lines() {
                    out.push_str(&printable(line));
                    out.push('\n');
                }
            }
        }
    }
    if out.is_empty() {
        out.push_str("nothing is violated, so there is nothing to prove\n");
    }
    out
}

/// Why anything is unknown or not as expected; what came out as expected needs no words here, the report has them.
fn reasons(run: &Run) -> String {
    let mut out = String::new();
    for scenario in &run.scenarios {
        if !matches!(
            scenario.outcome(),
            Outcome::Unknown | Outcome::NotAsExpected
        ) {
            continue;
        }
        let color = outcome_color(scenario.outcome());
        out.push_str(&paint(
            color,
            &format!(
                "{} {}",
                scenario.outcome().glyph(),
                printable(&scenario.name)
            ),
        ));
        out.push('\n');
        for (class, verdict) in scenario.verdicts.iter() {
            for why in &verdict.why {
                out.push_str(&format!("    {class}: {}\n", printable(why)));
            }
            if let Some(anomaly) = verdict.anomalies.first() {
                out.push_str(&format!("    {class}: {}\n", printable(&anomaly.proof)));
            }
        }
        if let Some(proof) = gravest(scenario) {
            for line in proof.text().lines() {
                out.push_str(&format!("    {}\n", printable(line)));
            }
        }
        for fault in scenario.faults.iter().filter(|fault| !fault.bit) {
            out.push_str(&format!(
                "    fault {}: {}\n",
                printable(&fault.fault),
                printable(if fault.proof.is_empty() {
                    "no proof that it bit"
                } else {
                    &fault.proof
                })
            ));
        }
    }
    out
}

/// The proof of the gravest verdict that was not to be violated.
fn gravest(scenario: &ScenarioResult) -> Option<&Proof> {
    ["contract", "confirmed", "effect", "belief", "liveness"]
        .into_iter()
        .filter(|class| scenario.expected.contains_key(*class))
        .filter_map(|class| Some((scenario.expected.get(class)?, scenario.verdicts.get(class)?)))
        .filter(|(expected, verdict)| verdict.meets(expected, scenario.load_ns) == Some(false))
        .find_map(|(_, verdict)| verdict.proof.as_ref())
}

fn bench_table(run: &Run, width: u16) -> String {
    let header = [
        "SUBJECT",
        "cycles/s",
        "acquire p50",
        "p99",
        "hand-off p50",
        "commands",
        "server µs",
        "Jain",
        "safety",
    ];
    let mut table = table(width, &header, 1);
    for row in &run.rows {
        let cells = cells::bench(row);
        let cycles = if cells.interval.is_empty() {
            cells.cycles
        } else {
            format!("{}\n{}", cells.cycles, cells.interval)
        };
        table.add_row([
            format!(
                "{}\n{}",
                printable(&row.subject),
                printable(&format!(
                    "{} · {} ·\u{a0}{}\u{a0}tasks",
                    row.topology, row.workload, row.tasks
                ))
            ),
            cycles,
            cells.acquire_p50.replace(' ', "\u{a0}"),
            cells.acquire_p99.replace(' ', "\u{a0}"),
            cells.handoff_p50.replace(' ', "\u{a0}"),
            cells.commands,
            cells.server_cpu,
            cells.jain,
            format!(
                "{}{}",
                cells.safety.replace(' ', "\u{a0}"),
                if row.valid { "" } else { "\n✗ invalid" }
            ),
        ]);
    }
    format!(
        "{table}\n\ncycles/s: median and range over rounds; commands: sent by clients per cycle; server µs: CPU of all servers per cycle"
    )
}

/// What each row says beyond the table, in lines that fit.
fn more(run: &Run, width: u16) -> String {
    let mut out = String::new();
    for row in &run.rows {
        let lines = measures::lines(row);
        if lines.is_empty() {
            continue;
        }
        out.push_str(&printable(&format!(
            "{} on {}, {}, {} tasks",
            row.subject, row.topology, row.workload, row.tasks
        )));
        out.push('\n');
        for line in lines {
            out.push_str(&wrapped(&line, usize::from(width.max(60))));
        }
    }
    out
}

/// A line, indented and broken at spaces.
fn wrapped(line: &str, width: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in line.split(' ') {
        let letters = word.chars().count();
        if length == 0 {
            out.push_str("    ");
            length = 4 + letters;
        } else if length + 1 + letters > width {
            out.push_str("\n      ");
            length = 6 + letters;
        } else {
            out.push(' ');
            length += 1 + letters;
        }
        out.push_str(word);
    }
    out.push('\n');
    out
}

fn invalid(run: &Run) -> String {
    let mut out = String::new();
    for row in run
        .rows
        .iter()
        .filter(|row| !row.valid || cells::is_void(row))
    {
        let why = if cells::is_void(row) {
            "void: the lock was not safe while it was measured".to_owned()
        } else if row.why_invalid.is_empty() {
            "invalid".to_owned()
        } else {
            row.why_invalid.join("; ")
        };
        let place = format!(
            "{} on {}, {}, {} tasks",
            row.subject, row.topology, row.workload, row.tasks
        );
        out.push_str(&paint(
            YELLOW,
            &format!("! {}: {}", printable(&place), printable(&why)),
        ));
        out.push('\n');
    }
    out
}

fn comparison_table(run: &Run, width: u16) -> String {
    let mut table = table(
        width,
        &[
            "B AGAINST A",
            "where",
            "metric",
            "ratio",
            "A again",
            "shown from",
            "verdict",
        ],
        usize::MAX,
    );
    for comparison in &run.comparisons {
        table.add_row([
            printable(&format!("{} against {}", comparison.b, comparison.a)),
            printable(&comparison.r#where),
            printable(&comparison.metric),
            cells::ratio(&comparison.ratio),
            comparison
                .same_again
                .as_ref()
                .map_or("–".to_owned(), cells::ratio),
            comparison.detectable.map_or("–".to_owned(), |ratio| {
                format!("×{}", units::figure(ratio))
            }),
            printable(&comparison.verdict),
        ]);
    }
    format!(
        "{table}\n\nratio: B over A with its 95 % interval; A again: A over itself, measured beside it; shown from: the smallest ratio that four \
         of five such runs would show"
    )
}

/// The comparison of runs, for a terminal: figures, changed verdicts, and the settings that may explain them.
pub fn comparison(result: &RunComparison, options: TextOptions) -> String {
    let mut out = String::new();
    if !result.comparisons.is_empty() {
        let mut table = table(
            options.width,
            &["SUBJECT", "where", "metric", "ratio", "verdict", "run"],
            usize::MAX,
        );
        for against in &result.comparisons {
            let comparison = &against.comparison;
            let color = match comparison.verdict.as_str() {
                "better" => GREEN,
                "worse" => RED,
                _ => PLAIN,
            };
            table.add_row([
                printable(&comparison.b),
                printable(&comparison.r#where),
                printable(&comparison.metric),
                cells::ratio(&comparison.ratio),
                paint(color, &printable(&comparison.verdict)),
                printable(&against.run),
            ]);
        }
        section(&mut out, &table.to_string());
    }
    if result.scenarios_in_common > 0 {
        let mut body = format!(
            "{} scenarios in common, {} changes of verdict\n",
            result.scenarios_in_common,
            result.scenarios.len()
        );
        for change in &result.scenarios {
            let place = format!(
                "{} on {} with {}, {}",
                change.scenario, change.topology, change.subject, change.class
            );
            body.push_str(&format!(
                "  {}: {} -> {} ({})\n",
                printable(&place),
                change.a,
                change.b,
                printable(&change.run)
            ));
        }
        section(&mut out, &body);
    }
    for line in &result.left_out {
        out.push_str(&paint(YELLOW, &format!("! {}", printable(line))));
        out.push('\n');
    }
    if !result.differences.is_empty() {
        let mut body = String::from("settings that differ\n");
        for difference in &result.differences {
            let words = format!(
                "  {}: '{}' -> '{}'",
                difference.field, difference.a, difference.b
            );
            body.push_str(&printable(&words));
            body.push('\n');
        }
        section(&mut out, &body);
    }
    section(
        &mut out,
        &format!(
            "ratios are against {}; above 1 is more",
            printable(&result.base)
        ),
    );
    finish(&out, options.color)
}

// Colours travel through the table as invisible characters of no width, so that it measures its cells right; text from
// outside has none of them (`printable`). They become escape sequences, or nothing, at the end.
const RED: char = '\u{2061}';
const GREEN: char = '\u{2062}';
const YELLOW: char = '\u{2063}';
const PLAIN: char = '\u{2064}';

fn outcome_color(outcome: Outcome) -> char {
    match outcome {
        Outcome::NotAsExpected => RED,
        Outcome::AsExpected => GREEN,
        Outcome::Unknown => YELLOW,
        Outcome::None => PLAIN,
    }
}

fn paint(color: char, text: &str) -> String {
    format!("{color}{text}{PLAIN}")
}

fn finish(text: &str, color: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        for c in line.trim_end().chars() {
            let sequence = match c {
                RED => "\u{1b}[31m",
                GREEN => "\u{1b}[32m",
                YELLOW => "\u{1b}[33m",
                PLAIN => "\u{1b}[0m",
                '\u{a0}' => " ",
                c => {
                    out.push(c);
                    continue;
                }
            };
            if color || c == '\u{a0}' {
                out.push_str(sequence);
            }
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    out
}
