//! The page for a browser: no file beside it, no network, readable without JavaScript and on paper.
//!
//! The page's layout is `templates/report.html`; here is only what it shows, as finished strings.

mod audit;
mod bench;
mod configuration;
mod fit;
mod outcomes;
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
use crate::answer::{self, Tone};
use crate::run::Run;
use crate::svg;
use crate::units;
use crate::verdict::State;

/// The document.
pub(super) fn render(run: &Run) -> Result<String, String> {
    if let Some(audit) = &run.audit {
        return audit::render(run, audit);
    }
    let whole = super::rendered(&Page::new(run))?;
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
}

impl<'a> Page<'a> {
    fn new(run: &'a Run) -> Self {
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
        }
    }
}

/// How a part of the answer is coloured.
fn tone_class(tone: &Tone) -> &'static str {
    match tone {
        Tone::Lost => "lost",
        Tone::Kept => "kept",
        Tone::Doubt => "doubt",
        Tone::Detail | Tone::Plain => "plain",
    }
}

fn facts(run: &Run) -> Vec<Fact> {
    let locklab = format!("{} {}", run.meta.version, run.meta.commit);
    present(vec![
        ("Run", run.run.clone()),
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
