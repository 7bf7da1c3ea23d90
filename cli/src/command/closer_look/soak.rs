//! `locklab soak`: a short run with random faults for each seed, on configurations that must stay clean; it
//! remembers what is done.

use std::io::Write as _;
use std::path::PathBuf;

use chaos::batch::{BatchOptions, run_each};
use chaos::plan_parts;
use chaos::soak::{self, SoakedSeed};
use clap::Args;
use futures_util::StreamExt as _;

use crate::cancel::Cancel;
use crate::exit;
use crate::parts::PartArgs;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seeds to run: --seed (default 1) and those that follow it; each takes one of the topologies in turn
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    seeds: u64,
    #[command(flatten)]
    part: PartArgs,
    /// Runs at a time
    #[arg(long, default_value_t = 2, value_parser = crate::args::count, value_name = "N")]
    jobs: u32,
    /// The file of the seeds that are done, which are not run again
    #[arg(long, default_value = "runs/soak.jsonl", value_name = "FILE")]
    state: PathBuf,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let first = terminal.common.seed.unwrap_or(1);
    let seeds = first..first.saturating_add(options.seeds);
    let mut done = soak::read(&options.state)?;
    let share = options.part.share()?;
    let mine = |name: &str, seed| share.is_none_or(|share| plan_parts::has(share, name, seed));
    let planned = soak::plans(seeds.clone(), &done, mine)?;
    done.retain(|done| seeds.contains(&done.seed) && mine(&done.scenario, done.seed));
    let seeds = planned.len() + done.len();
    let mut state = soak::open(&options.state)?;
    let runs = std::path::absolute(options.state.with_extension(""))?;
    let cancel = Cancel::listen()?;
    let bar = terminal.bar(planned.len() as u64, "seeds");
    let planned = planned.into_iter().map(|planned| {
        let name = format!("{}-{}", planned.plan.name, planned.plan.seed);
        // What an interrupted run left there.
        let _ = std::fs::remove_dir_all(runs.join(&name));
        (name, planned)
    });
    let batch = BatchOptions::new(options.jobs as usize, cancel.flag());
    let mut running = run_each(planned.collect(), &batch, &runs)?;
    while let Some(ended) = running.next().await {
        if let Some(outcome) = soak::outcome(ended, &runs, exit::of_run) {
            if let Some(finding) = &outcome.finding {
                terminal.warn(&format!("seed {}: {finding}", outcome.seed));
            }
            writeln!(state, "{}", serde_json::to_string(&outcome)?)?;
            done.push(outcome);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(running);
    // Gone if nothing was found.
    let _ = std::fs::remove_dir(&runs);
    report(&options, seeds, &done, terminal)?;
    if cancel.is_wanted() {
        return Ok(exit::INTERRUPTED);
    }
    Ok(done.iter().fold(exit::AS_EXPECTED, |code, done| exit::worse(code, done.exit_code)))
}

fn report(options: &Options, seeds: usize, done: &[SoakedSeed], terminal: &Terminal) -> anyhow::Result<u8> {
    let findings: Vec<&SoakedSeed> = done.iter().filter(|done| done.finding.is_some()).collect();
    let document = serde_json::json!({
        "schema": 1,
        "seeds": seeds,
        "done": done.len(),
        "as_expected": findings.is_empty(),
        "findings": findings,
    });
    terminal.answer(&document, || {
        let mut text = soak::tally(done);
        text += &format!(
            "{} of {} seeds done, {} findings; state in {}",
            done.len(),
            seeds,
            findings.len(),
            options.state.display()
        );
        for done in &findings {
            let finding = done.finding.as_deref().unwrap_or_default();
            text += &format!("\n  seed {}: {finding}", done.seed);
        }
        text
    })
}
