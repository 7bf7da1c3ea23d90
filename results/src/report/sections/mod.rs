//! The sections of a run, each described once for every form, a kind per file; here is their order.
//!
//! | file | what it describes |
//! |---|---|
//! | `outcomes.rs` | what became of the lock: set-ups side by side, and the verdicts of every scenario |
//! | `scenario.rs` | one scenario: its conviction, its time axis, its proofs |
//! | `faults.rs` | recovery from faults, waits of open loops, repeats |
//! | `side_by_side.rs` | configurations, with what became of the lock, speed and cost |
//! | `bench.rs` | benchmark rows, sweeps, comparisons and settings |
//! | `audit.rs` | the scorecard of an audit and its convictions |
//! | `watch.rs` | what was seen of locks in traffic: patterns, findings, holders |

mod audit;
mod bench;
mod faults;
mod outcomes;
mod scenario;
mod side_by_side;
pub(super) mod watch;

use itertools::Itertools;

pub(super) use self::bench::sweep;
use super::cells;
use super::charts;
use super::document::{ALL, Block, Fact, Form, PAGE, PLAIN};
use crate::record::run::Run;
use crate::wording::units;

pub(super) fn of(run: &Run) -> Vec<Block> {
    let mut blocks = vec![Block::only(PLAIN, vec![warnings(run)])];
    blocks.push(Block::only(PLAIN, vec![Block::list(run.parts.iter().map(ToString::to_string))]));
    if let Some(watch) = &run.watch {
        blocks.extend(watch::sections(watch));
        blocks.push(again(run));
        return blocks;
    }
    match &run.audit {
        Some(audit) => blocks.extend(audit::sections(run, audit)),
        None => {
            blocks.extend(outcomes::sections(run));
            blocks.push(side_by_side::table(run));
            blocks.extend(outcomes::risk(run));
            blocks.extend(price(run));
            blocks.extend(faults::sections(run));
            blocks.extend(scenario::sections(run));
        }
    }
    blocks.push(bench::section(run));
    blocks.extend(run.sweeps.iter().enumerate().map(bench::sweep));
    blocks.push(bench::comparisons(run));
    blocks.push(bench::differences(run));
    blocks.push(again(run));
    blocks
}

fn warnings(run: &Run) -> Block {
    let mut warnings = Vec::new();
    if run.partial {
        let cut = "The run was cut short: what is here is what was measured until then.";
        warnings.push(cut.to_owned());
    }
    warnings.extend(run.warnings.iter().cloned());
    for row in &run.rows {
        warnings.extend(cells::why_invalid(row).map(|why| format!("{}: {why}", row.title())));
    }
    // What the scenarios of an audit found is in its scorecard.
    for result in run.scenarios.iter().filter(|_| run.audit.is_none()) {
        let faults = result.without_effect();
        warnings.extend(faults.map(|fault| format!("{}: {fault}", result.name)));
    }
    Block::Warnings("Read this before quoting a figure", warnings)
}

fn not_applicable(run: &Run) -> Block {
    let lines = run.not_applicable.iter().map(ToString::to_string);
    Block::section("na", "Not applicable", vec![Block::list(lines)])
}

/// The price of safety as a chart, or why it is not drawn.
fn price(run: &Run) -> Option<Block> {
    let unplaced = charts::unplaced(run).join(", ");
    let body = match (charts::price(run), charts::unlike(run)) {
        (Some(chart), _) => vec![
            Block::note(format!(
                "How much each configuration gets done, and how often it stopped being a lock. Up is faster; left is safer.{}",
                units::enclosed(" Not placed, since its contract verdict is unknown: ", &unplaced, ".")
            )),
            Block::chart(chart, "price"),
        ],
        (None, Some(why)) if run.scenarios.len() > 1 => {
            vec![Block::note(format!("Not drawn: {why}, so their throughputs cannot be compared."))]
        }
        _ => return None,
    };
    Some(Block::only(PAGE, vec![Block::section("price-h", "What safety costs", body)]))
}

fn again(run: &Run) -> Block {
    let servers = run.meta.environment.servers.iter().map(|(name, server)| {
        Block::fold(format!("{name} {}", server.version), vec![Block::Code("", server.config.join("\n"))])
    });
    let mut body =
        vec![Block::Code("sh", crate::wording::command_line::again(run)), Block::Facts(facts(run))];
    body.push(Block::only(PAGE, servers.collect()));
    Block::only(&[Form::Html, Form::Markdown], vec![Block::section("how-h", "How to make this again", body)])
}

fn facts(run: &Run) -> Vec<Fact> {
    let (meta, environment) = (&run.meta, &run.meta.environment);
    let [first, last] = environment.load_average;
    vec![
        ("Run", run.run.clone()),
        ("Started", meta.started_at.clone()),
        ("Took", units::known_duration(meta.elapsed_ns)),
        ("Seed", meta.seed.to_string()),
        ("Machine", environment.machine()),
        ("Parts", run.parts.iter().join("; ")),
        ("Servers", environment.server_versions()),
        ("locklab", format!("{} {}", meta.version, meta.commit).trim().to_owned()),
        ("Compiler", environment.rustc.clone()),
        ("Load average, start and end", format!("{first:.2}, {last:.2}")),
        ("Stolen CPU", format!("{:.1} %", environment.steal * 100.0)),
    ]
}
