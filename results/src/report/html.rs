//! The page for a browser: no file beside it, no network, readable without JavaScript and on paper.
//!
//! The page's layout is `templates/report.html`; here is only what it shows, as finished strings.

mod bench;
mod overview;
mod scenario;

use askama::Template;

use self::bench::{BenchView, NamedChart, SweepView, named};
use self::overview::{Configuration, Grid};
use self::scenario::ScenarioView;
use super::cells;
use super::charts;
use super::open_loop;
use super::table::{self, Head, Table};
use crate::answer::{answer, small_print};
use crate::run::{NotApplicable, Outcome, Run};
use crate::svg;
use crate::units;
use crate::verdict::{CLASSES, meaning};

/// The document.
pub(super) fn render(run: &Run) -> Result<String, String> {
    let raw = serde_json::to_string(run).map_err(|error| error.to_string())?;
    let page = Page::new(run, &raw).render();
    Ok(page.map_err(|error| error.to_string())? + "\n")
}

type Fact = (&'static str, String);

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    css: &'static str,
    chart_css: &'static str,
    js: &'static str,
    title: String,
    version: &'a str,
    command: &'a str,
    outcome: String,
    outcome_class: &'static str,
    answer: String,
    small_print: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    not_applicable: &'a [NotApplicable],
    classes: Vec<(&'static str, &'static str)>,
    grid: Option<Grid>,
    scenarios: Vec<ScenarioView<'a>>,
    recovery: Option<NamedChart>,
    fairness: Option<NamedChart>,
    open_loop_heads: [&'static str; 7],
    open_loop_note: &'static str,
    open_loops: Vec<[String; 7]>,
    price: Option<String>,
    price_why: String,
    unplaced: String,
    bench_heads: Vec<Head>,
    rows: Vec<BenchView>,
    bench_charts: Vec<NamedChart>,
    bench_tables: Vec<Table>,
    sweeps: Vec<SweepView>,
    configuration: Configuration,
    differences: Vec<[String; 4]>,
    comparisons: Vec<[String; 5]>,
    reproduce: String,
    machine: Vec<Fact>,
    servers: Vec<(String, String)>,
    download_name: String,
    raw: String,
}

impl<'a> Page<'a> {
    fn new(run: &'a Run, raw: &str) -> Self {
        let outcome = run.outcome();
        let name = run.name();
        let title = if name.is_empty() {
            run.command.clone()
        } else {
            name.to_owned()
        };
        Self {
            css: include_str!("../../templates/report.css"),
            chart_css: svg::STYLE,
            js: include_str!("../../templates/report.js"),
            download_name: format!("{title}.run.json"),
            title,
            version: &run.meta.version,
            command: &run.command,
            outcome: cells::outcome(outcome),
            outcome_class: outcome_class(outcome),
            answer: answer(run),
            small_print: small_print(run).join("; "),
            facts: facts(run),
            warnings: warnings(run),
            not_applicable: &run.not_applicable,
            classes: CLASSES
                .iter()
                .map(|class| (*class, meaning(class)))
                .collect(),
            scenarios: run
                .scenarios
                .iter()
                .enumerate()
                .map(|(index, result)| ScenarioView::new(index, result))
                .collect(),
            grid: overview::grid(run),
            recovery: charts::recovery(run).map(|chart| named(&chart, "recovery")),
            fairness: charts::fairness(run).map(|chart| named(&chart, "fairness")),
            open_loop_heads: open_loop::HEADS,
            open_loop_note: open_loop::NOTE,
            open_loops: open_loop::rows(run),
            price: charts::price(run).map(|chart| chart.inline("price")),
            price_why: charts::unlike(run).unwrap_or_default(),
            unplaced: charts::unplaced(run).join(", "),
            bench_heads: table::bench_heads(),
            rows: run.rows.iter().map(BenchView::new).collect(),
            bench_charts: bench::charts(run),
            bench_tables: table::costs(run)
                .into_iter()
                .chain(table::groups(run))
                .collect(),
            sweeps: bench::sweeps(run),
            configuration: overview::configuration(run),
            differences: run
                .differences
                .iter()
                .map(|difference| {
                    [
                        difference.field.clone(),
                        difference.a.clone(),
                        difference.b.clone(),
                        difference.run.clone(),
                    ]
                })
                .collect(),
            comparisons: run
                .comparisons
                .iter()
                .map(|comparison| {
                    [
                        format!("{} against {}", comparison.b, comparison.a),
                        comparison.r#where.clone(),
                        comparison.metric.clone(),
                        cells::ratio(&comparison.ratio),
                        comparison.verdict.clone(),
                    ]
                })
                .collect(),
            reproduce: cells::again(run),
            machine: machine(run),
            servers: run
                .meta
                .environment
                .servers
                .iter()
                .map(|(name, server)| {
                    (
                        format!("{name} {}", server.version),
                        server.config.join("\n"),
                    )
                })
                .collect(),
            raw: inert(raw),
        }
    }
}

/// JSON that no HTML parser can take for markup: `<` only ever stands inside strings, where its escape means the same.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn outcome_class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::None => "none",
        Outcome::AsExpected => "ok",
        Outcome::Unknown => "unk",
        Outcome::NotAsExpected => "bad",
    }
}

fn facts(run: &Run) -> Vec<Fact> {
    present(vec![
        ("Started", run.meta.started_at.clone()),
        (
            "Took",
            if run.meta.elapsed_ns == 0 {
                String::new()
            } else {
                units::duration(run.meta.elapsed_ns)
            },
        ),
        ("Seed", run.meta.seed.to_string()),
        ("Machine", cells::machine(&run.meta.environment)),
        ("Servers", run.meta.environment.server_versions()),
        (
            "locklab",
            format!("{} {}", run.meta.version, run.meta.commit)
                .trim()
                .to_owned(),
        ),
    ])
}

fn machine(run: &Run) -> Vec<Fact> {
    let environment = &run.meta.environment;
    let [first, last] = environment.load_average;
    present(vec![
        ("Host", environment.host.clone()),
        ("CPU", environment.cpu.clone()),
        ("Cores", environment.cores.to_string()),
        ("Memory", units::bytes(environment.memory_bytes)),
        ("Kernel", environment.kernel.clone()),
        ("Compiler", environment.rustc.clone()),
        (
            "Load average, start and end",
            format!("{first:.2}, {last:.2}"),
        ),
        ("Stolen CPU", format!("{:.1} %", environment.steal * 100.0)),
    ])
}

fn present(facts: Vec<Fact>) -> Vec<Fact> {
    facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// Everything that limits trust, of the run and of its parts, on top and never folded away.
fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.partial {
        warnings.push(
            "The run was cut short: what is here is what was measured until then.".to_owned(),
        );
    }
    warnings.extend(run.warnings.iter().cloned());
    for row in &run.rows {
        warnings.extend(cells::why_invalid(row).map(|why| format!("{}: {why}", row.title())));
    }
    for result in &run.scenarios {
        let faults = result.without_effect();
        warnings.extend(faults.map(|fault| format!("{}: {fault}", result.name)));
    }
    warnings
}
