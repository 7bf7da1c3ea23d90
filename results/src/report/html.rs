//! The page for a browser: no file beside it, no network, readable without JavaScript and on paper.
//!
//! The page's layout is `templates/report.html`; here is only what it shows, as finished strings.

mod audit;
mod bench;
mod fit;
mod overview;
mod scenario;

use askama::Template;
use itertools::Itertools;

use self::bench::named;
use self::scenario::ScenarioView;
use super::cells;
use super::charts;
use super::measures;
use super::open_loop;
use super::recovery;
use super::servers;
use super::table;
use crate::answer;
use crate::run::{Outcome, Run};
use crate::svg;
use crate::units;
use crate::verdict::CLASSES;

/// The document.
pub(super) fn render(run: &Run) -> Result<String, String> {
    if let Some(audit) = &run.audit {
        return audit::render(run, audit);
    }
    let raw = serde_json::to_string(run).map_err(|error| error.to_string())?;
    let whole = super::rendered(&Page::new(run, &raw))?;
    Ok(fit::fit(&whole, ELSEWHERE))
}

/// Where what a page leaves out is to be found.
const ELSEWHERE: &str = "<code>locklab report RUN --scenario NAME</code> makes the page of one scenario, with its charts and proofs; \
                         the run’s own <code>run.json</code> and <code>--format json</code> have everything.";

const CSS: &str = include_str!("../../templates/report.css");
const JS: &str = include_str!("../../templates/report.js");

type Fact = (&'static str, String);

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    run: &'a Run,
    title: &'a str,
    warnings: Vec<String>,
    scenarios: Vec<ScenarioView<'a>>,
    raw: String,
}

impl<'a> Page<'a> {
    fn new(run: &'a Run, raw: &str) -> Self {
        let scenarios = run.scenarios.iter().enumerate();
        Self {
            run,
            title: match run.name() {
                "" => &run.command,
                name => name,
            },
            warnings: warnings(run),
            scenarios: scenarios
                .map(|(index, result)| ScenarioView::new(index, result))
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
    let locklab = format!("{} {}", run.meta.version, run.meta.commit);
    present(vec![
        ("Started", run.meta.started_at.clone()),
        ("Took", length(run.meta.elapsed_ns)),
        ("Seed", run.meta.seed.to_string()),
        ("Machine", cells::machine(&run.meta.environment)),
        ("Parts", run.parts.iter().join("; ")),
        ("Servers", run.meta.environment.server_versions()),
        ("locklab", locklab.trim().to_owned()),
    ])
}

fn machine(run: &Run) -> Vec<Fact> {
    let environment = &run.meta.environment;
    let [first, last] = environment.load_average;
    let load = format!("{first:.2}, {last:.2}");
    present(vec![
        ("Host", environment.host.clone()),
        ("CPU", environment.cpu.clone()),
        ("Cores", environment.cores.to_string()),
        ("Memory", units::bytes(environment.memory_bytes)),
        ("Kernel", environment.kernel.clone()),
        ("Compiler", environment.rustc.clone()),
        ("Load average, start and end", load),
        ("Stolen CPU", format!("{:.1} %", environment.steal * 100.0)),
    ])
}

/// A length of time; nothing where it is not known.
fn length(ns: u64) -> String {
    match ns {
        0 => String::new(),
        ns => units::duration(ns),
    }
}

fn present(mut facts: Vec<Fact>) -> Vec<Fact> {
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Everything that limits trust, of the run and of its parts, on top and never folded away.
fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.partial {
        let cut = "The run was cut short: what is here is what was measured until then.";
        warnings.push(cut.to_owned());
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
