//! Markdown, as for the summary of a CI job or a comment on a change. The layout is `templates/report.md`; here is what its tables hold.

use std::fmt::{self, Write};

use askama::Template;
use askama::filters::Escaper;
use itertools::Itertools;

use super::cells::{self, printable};
use super::table::{self as tables, bench as bench_cells};
use super::{measures, open_loop, servers};
use crate::answer;
use crate::audit::{Audit, AuditOutcome, AuditedScenario};
use crate::figure::BENCH;
use crate::run::{Outcome, Run};
use crate::sequence::Sequence;
use crate::units;
use crate::verdict::CLASSES;

#[derive(Template)]
#[template(path = "report.md")]
struct Page<'a> {
    run: &'a Run,
}

/// The document.
pub(super) fn render(run: &Run) -> Result<String, String> {
    super::rendered(&Page { run })
}

/// Headings and lines.
type Rows = (Vec<String>, Vec<Vec<String>>);

/// A column per lock; of a single one also why.
fn scorecard(audit: &Audit) -> Rows {
    let alone = audit.subjects.len() == 1;
    let mut heads = vec!["scenario"];
    heads.extend(audit.subjects.iter().map(|subject| subject.name.as_str()));
    heads.extend(alone.then_some("why"));
    let rows = audit.rows().into_iter().map(|row| {
        let first = row.iter().flatten().next();
        let mut words = vec![first.map_or(String::new(), |one| one.name.clone())];
        let marks = row.iter();
        words.extend(marks.map(|one| one.map_or(String::new(), |one| one.outcome.mark())));
        words.extend(first.filter(|_| alone).map(|one| one.why.clone()));
        words
    });
    (owned(heads), rows.collect())
}

fn owned(heads: Vec<&str>) -> Vec<String> {
    heads.into_iter().map(str::to_owned).collect()
}

/// So many convictions are drawn; of the others the lines that show them are given.
const DRAWN_MAX: usize = 20;

/// What a lock broke, or what is unknown of it.
struct Conviction<'a> {
    subject: &'a str,
    scenario: &'a AuditedScenario,
    diagram: Option<String>,
}

fn convictions<'a>(run: &Run, audit: &'a Audit) -> Vec<Conviction<'a>> {
    let mut left = DRAWN_MAX;
    let mut all = Vec::new();
    for subject in &audit.subjects {
        let broken = subject.of(AuditOutcome::Broken);
        for scenario in broken.chain(subject.of(AuditOutcome::Unknown)) {
            let draws = left > 0 && scenario.outcome == AuditOutcome::Broken;
            let decisive = run.decisive(scenario).filter(|_| draws);
            let drawn = decisive.and_then(Sequence::of);
            left -= usize::from(drawn.is_some());
            all.push(Conviction {
                subject: &subject.name,
                scenario,
                diagram: drawn.map(|sequence| sequence.mermaid()),
            });
        }
    }
    all
}

fn verdicts(run: &Run) -> Rows {
    let mut heads = vec!["scenario", "topology", "subject", "faults"];
    heads.extend(CLASSES);
    heads.extend(["recovery", "expected", ""]);
    let rows = run.scenarios.iter().map(|result| {
        let mut row = vec![
            result.name.clone(),
            result.topology.clone(),
            result.subject.clone(),
            cells::faults(&result.faults),
        ];
        let verdicts = result.verdicts.iter();
        row.extend(verdicts.map(|(_, verdict)| cells::verdict(verdict)));
        let outcome = result.outcome().glyph().to_string();
        row.extend([cells::recovery(result), cells::expected(result), outcome]);
        row
    });
    (owned(heads), rows.collect())
}

fn rows(run: &Run) -> Rows {
    let mut heads = vec!["subject", "topology", "workload", "tasks"];
    heads.extend(BENCH.iter().map(|figure| figure.head));
    heads.insert(5, "range");
    heads.extend(["safety", "validity"]);
    let rows = run.rows.iter().map(|row| {
        let mut cells = bench_cells(row);
        let range = std::mem::take(&mut cells[0].small);
        let mut words = vec![
            row.lock(),
            row.site(),
            row.workload.clone(),
            row.tasks.to_string(),
        ];
        words.extend(cells.into_iter().map(|cell| cell.words));
        words.insert(5, range);
        words.push(cells::safety(row));
        words.push(match (row.valid, row.why_invalid.as_slice()) {
            (true, _) => "✓ valid".to_owned(),
            (false, []) => "✗ invalid".to_owned(),
            (false, why) => format!("✗ {}", why.join("; ")),
        });
        words
    });
    (owned(heads), rows.collect())
}

fn made(run: &Run) -> String {
    let (meta, environment) = (&run.meta, &run.meta.environment);
    let parts = [
        format!("seed {}", meta.seed),
        format!("locklab {} {}", meta.version, meta.commit),
        environment.server_versions(),
        cells::machine(environment),
        units::enclosed("started ", &meta.started_at, ""),
        format!("took {}", units::duration(meta.elapsed_ns)),
    ];
    let known = parts.iter().map(|part| part.trim());
    known.filter(|part| !part.is_empty()).join(", ")
}

/// Lines to be copied.
fn code(text: String, language: &str) -> String {
    let lines = text.lines();
    let lines = lines.map(|line| printable(line).replace("```", "` ` `"));
    format!("```{language}\n{}\n```\n", lines.format("\n"))
}

/// Makes text neither markup nor the end of a cell.
#[derive(Clone, Copy)]
pub(crate) struct Escape;

impl Escaper for Escape {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for c in printable(text).chars() {
            match c {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => write!(out, "\\{c}")?,
                c => out.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_end_a_cell_or_begin_markup() {
        let mut out = String::new();
        let text = "a|b <script> [x](y) `c`\nd";
        Escape.write_escaped_str(&mut out, text).expect("memory");
        assert_eq!(out, "a\\|b &lt;script&gt; \\[x\\](y) \\`c\\` d");
    }
}
