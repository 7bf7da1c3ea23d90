//! `locklab replay`: the same plans again, and how many of the repeats convict; or the smallest plan that
//! still does.

use chaos::batch::PlannedRun;
use chaos::kept_plan;
use clap::Args;

use super::replay_shrink::{self, ShrinkArgs};
use crate::exit;
use crate::plan_trust::TrustArgs;
use crate::run::{Keeper, store};
use crate::scenario_batch::{batch_options, run_all};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A run (a directory, its name under runs/, or `latest`) or a plan.json
    run: String,
    /// Run each plan this many times
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "K")]
    repeat: u32,
    /// Plans at a time
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "N")]
    jobs: u32,
    /// Find the smallest plan that still convicts instead, and write it as a scenario file
    #[arg(long, conflicts_with_all = ["repeat", "jobs"])]
    shrink: bool,
    #[command(flatten)]
    shrink_args: ShrinkArgs,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if terminal.common.seed.is_some() {
        return Err(exit::usage(
            "a replay keeps the seeds of its plans; `locklab chaos --seed N` draws others",
        ));
    }
    if options.shrink {
        return replay_shrink::run(&options.run, &options.shrink_args, options.trust, terminal).await;
    }
    let kept = kept_plan::of_run(&options.run, &store())?;
    options.trust.check(&kept, terminal)?;
    let mut planned = Vec::new();
    for kept in &kept {
        for _ in 0..options.repeat {
            planned.push(PlannedRun::of_plan(kept.plan.clone())?);
        }
    }
    let seed = kept.first().map_or(0, |kept| kept.plan.seed);
    let name = match kept.as_slice() {
        [one] => format!("replay-{}", one.plan.name),
        _ => "replay".to_owned(),
    };
    let mut keeper = Keeper::begin(terminal, "replay", &name, seed)?;
    let batch = batch_options(options.jobs as usize, None, &keeper);
    let code = run_all(planned, &batch, false, &mut keeper).await?;
    keeper.finish_scenarios(code, |_| Ok(()))
}
