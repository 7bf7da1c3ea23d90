//! Markdown, as for the summary of a CI job or a comment on a change.

mod audit;

use super::cells::{self, printable};
use super::measures;
use super::open_loop;
use super::table::{self as tables, Table, bench as bench_cells};
use crate::answer::answer;
use crate::figure::BENCH;
use crate::run::{Outcome, Run};
use crate::sequence::Sequence;
use crate::units;
use crate::verdict::CLASSES;

/// The document.
pub(super) fn render(run: &Run) -> Result<String, String> {
    let mut out = format!(
        "# {}\n\n**{}**\n\n<sub>{}</sub>\n",
        cell(&run.run),
        cell(&answer(run)),
        cell(&cells::small(run))
    );
    if run.partial {
        out.push_str("\n> The run was cut short: what follows was measured until then.\n");
    }
    for warning in &run.warnings {
        out.push_str(&format!("\n> {}\n", cell(warning)));
    }
    if !run.not_applicable.is_empty() {
        out.push('\n');
    }
    for skipped in &run.not_applicable {
        out.push_str(&format!("- {}\n", cell(&skipped.to_string())));
    }
    if let Some(audit) = &run.audit {
        audit::scorecard(&mut out, run, audit);
    } else {
        scenarios(&mut out, run);
        open_loops(&mut out, run);
    }
    rows(&mut out, run);
    for cost in tables::costs(run) {
        cost_table(&mut out, &cost);
    }
    more(&mut out, run);
    sweeps(&mut out, run);
    comparisons(&mut out, run);
    reproduce(&mut out, run);
    Ok(out)
}

fn scenarios(out: &mut String, run: &Run) {
    if run.scenarios.is_empty() {
        return;
    }
    out.push_str("\n## Verdicts\n\n");
    let mut head = vec!["scenario", "topology", "subject", "faults"];
    head.extend(CLASSES);
    head.extend(["recovery", "expected", ""]);
    table(
        out,
        &head,
        run.scenarios.iter().map(|result| {
            let mut row = vec![
                result.name.clone(),
                result.topology.clone(),
                result.subject.clone(),
                cells::faults(&result.faults),
            ];
            row.extend(
                result
                    .verdicts
                    .iter()
                    .map(|(_, verdict)| cells::verdict(verdict)),
            );
            row.extend([
                cells::recovery(result),
                cells::expected(result),
                result.outcome().glyph().to_string(),
            ]);
            row
        }),
    );
    for result in &run.scenarios {
        let proofs = result.reasons();
        if !proofs.is_empty() {
            // What is wrong is shown at once; what came as expected is one click away.
            let open = if result.outcome() >= Outcome::Unknown {
                " open"
            } else {
                ""
            };
            out.push_str(&format!(
                "\n<details{open}><summary>{} {}</summary>\n\n",
                result.outcome().glyph(),
                cell(&result.name)
            ));
            for proof in proofs {
                out.push_str(&format!("- {}\n", cell(&proof)));
            }
            if let Some(sequence) = Sequence::of(result) {
                out.push_str(&format!("\n```mermaid\n{}```\n", sequence.mermaid()));
            }
            out.push_str("\n</details>\n");
        }
    }
}

fn open_loops(out: &mut String, run: &Run) {
    let rows = open_loop::rows(run);
    if rows.is_empty() {
        return;
    }
    out.push_str("\n## How long callers waited\n\n");
    table(out, &open_loop::HEADS, rows.into_iter().map(Vec::from));
    out.push_str(&format!("\n{}\n", cell(open_loop::NOTE)));
}

fn rows(out: &mut String, run: &Run) {
    if run.rows.is_empty() {
        return;
    }
    out.push_str("\n## Benchmarks\n\n");
    let mut head = vec!["subject", "topology", "workload", "tasks"];
    head.extend(BENCH.iter().map(|figure| figure.head));
    head.insert(5, "range");
    head.extend(["safety", "validity"]);
    let rows = run.rows.iter().map(|row| {
        let mut cells = bench_cells(row);
        let range = std::mem::take(&mut cells[0].small);
        let mut words = vec![
            row.subject.clone(),
            row.topology.clone(),
            row.workload.clone(),
            row.tasks.to_string(),
        ];
        words.extend(cells.into_iter().map(|cell| cell.words));
        words.insert(5, range);
        words.push(cells::safety(row));
        words.push(if row.valid {
            "✓ valid".to_owned()
        } else if row.why_invalid.is_empty() {
            "✗ invalid".to_owned()
        } else {
            format!("✗ {}", row.why_invalid.join("; "))
        });
        words
    });
    table(out, &head, rows);
}

/// What one core of a server carries.
fn cost_table(out: &mut String, cost: &Table) {
    out.push_str(&format!("\n### {}\n\n{}\n\n", cost.title, cell(cost.note)));
    let mut head: Vec<&str> = cost.heads.iter().map(|head| head.name.as_str()).collect();
    head.insert(1, "where");
    let rows = cost.rows.iter().map(|line| {
        let invalid = if line.dim { " ✗ invalid" } else { "" };
        let mut words = vec![line.name.clone(), format!("{}{invalid}", line.small)];
        words.extend(line.cells.iter().map(|cell| match cell.small.as_str() {
            "" => cell.words.clone(),
            interval => format!("{} ({interval})", cell.words),
        }));
        words
    });
    table(out, &head, rows);
}

/// What each row says beyond the table, folded away.
fn more(out: &mut String, run: &Run) {
    // A sweep has many rows of one kind: its curve says what matters.
    if !run.sweeps.is_empty() {
        return;
    }
    for row in &run.rows {
        let lines = measures::lines(row);
        if lines.is_empty() {
            continue;
        }
        out.push_str(&format!(
            "\n<details><summary>{}</summary>\n\n",
            cell(&row.title())
        ));
        for line in lines {
            out.push_str(&format!("- {}\n", cell(&line)));
        }
        out.push_str("\n</details>\n");
    }
}

fn sweeps(out: &mut String, run: &Run) {
    for sweep in &run.sweeps {
        out.push_str(&format!(
            "\n## {} raised: {} on {}, {}\n\n",
            cell(&sweep.over),
            cell(&sweep.subject),
            cell(&sweep.topology),
            cell(&sweep.workload)
        ));
        let (heads, rows) = tables::sweep(sweep).plain();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        table(out, &heads, rows.into_iter());
        for line in measures::conclusions(sweep) {
            out.push_str(&format!("\n{}\n", cell(&line)));
        }
    }
}

fn comparisons(out: &mut String, run: &Run) {
    if run.comparisons.is_empty() {
        return;
    }
    out.push_str("\n## Comparisons\n\n");
    table(
        out,
        &["b", "against a", "where", "metric", "ratio", "verdict"],
        run.comparisons.iter().map(|comparison| {
            vec![
                comparison.b.clone(),
                comparison.a.clone(),
                comparison.r#where.clone(),
                comparison.metric.clone(),
                cells::ratio(&comparison.ratio),
                comparison.verdict.clone(),
            ]
        }),
    );
}

fn reproduce(out: &mut String, run: &Run) {
    let meta = &run.meta;
    let environment = &meta.environment;
    out.push_str("\n## How to make this again\n\n");
    out.push_str(&format!(
        "```sh\n{}\n```\n\n",
        printable(&cells::again(run)).replace("```", "` ` `")
    ));
    let facts = format!(
        "seed {}, locklab {} {}, {}, {}, started {}, took {}",
        meta.seed,
        meta.version,
        meta.commit,
        environment.server_versions(),
        cells::machine(environment),
        meta.started_at,
        units::duration(meta.elapsed_ns)
    );
    out.push_str(&cell(&facts));
    out.push('\n');
}

fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    out.push_str(&format!("| {} |\n", head.join(" | ")));
    out.push_str(&format!("|{}\n", " --- |".repeat(head.len())));
    for row in rows {
        let words: Vec<String> = row.iter().map(|word| cell(word)).collect();
        out.push_str(&format!("| {} |\n", words.join(" | ")));
    }
}

/// Text that is neither markup nor the end of a cell.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_end_a_cell_or_begin_markup() {
        assert_eq!(
            cell("a|b <script> [x](y) `c`\nd"),
            "a\\|b &lt;script&gt; \\[x\\](y) \\`c\\` d"
        );
    }
}
