//! Parts of a plan on several machines: `--part K/N` says which this one runs, and a barrier holds those of
//! one load in step.

use std::sync::Arc;
use std::time::Duration;

use bench::parts::{Barrier, BarrierError, GeneratorShare};
use chaos::target_servers::TargetServers;
use clap::Args;

use crate::args::{Common, invalid};
use crate::exit;
use crate::run::Keeper;
use crate::target::remove_keys;
use crate::terminal::Terminal;

/// An Indexed Job of Kubernetes tells each of its pods its number by this variable; another one says how many
/// there are.
const ENVIRONMENT: [&str; 2] = ["JOB_COMPLETION_INDEX", "LOCKLAB_PARTS"];

/// All parts must draw the same, also without `--seed`.
const SEED: u64 = 1;

pub(super) const PARTS_HEADING: &str = "Parts of a plan on several machines";

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PartArgs {
    /// Only part K (from 0) of N: the scenarios that a hash of name and seed gives it, or of one load the
    /// clients and tasks K modulo N; `merge` joins all N. JOB_COMPLETION_INDEX and LOCKLAB_PARTS say the same
    /// [default seed then: 1]
    #[arg(hide_short_help = true, help_heading = PARTS_HEADING, long, value_name = "K/N", value_parser = parse)]
    part: Option<GeneratorShare>,
}

impl PartArgs {
    /// The part that was asked for, by flag or environment; `None`: the whole plan.
    pub(crate) fn share(&self) -> anyhow::Result<Option<GeneratorShare>> {
        if self.part.is_some() {
            return Ok(self.part);
        }
        let [name, count] = ENVIRONMENT;
        match ENVIRONMENT.map(|name| std::env::var(name).ok()) {
            // Every Indexed Job has a number, also one that does not share a plan.
            [_, None] => Ok(None),
            [None, Some(_)] => Err(exit::usage(format!("{count} is set without {name}"))),
            [Some(index), Some(of)] => {
                let share = parse(&format!("{index}/{of}"));
                share.map(Some).map_err(|why| exit::usage(format!("{name} and {count}: {why}")))
            }
        }
    }

    /// The seed of the plan: a part never draws one by itself.
    pub(crate) fn seed(&self, common: &Common) -> anyhow::Result<u64> {
        Ok(match self.share()? {
            Some(_) => common.seed.unwrap_or(SEED),
            None => crate::run::seed(common),
        })
    }
}

fn parse(text: &str) -> Result<GeneratorShare, String> {
    let numbers = text.split_once('/').and_then(|(index, of)| {
        let (index, of) = (index.trim().parse().ok()?, of.trim().parse().ok()?);
        (index < of).then_some(GeneratorShare { index, of })
    });
    numbers.ok_or_else(|| invalid("part", text, "K/N with K from 0 to N-1, e.g. 0/4"))
}

/// Joins the parts of the same plan and version at their barrier, and records the barrier's id in the run:
/// runs with another id are of another load.
pub(crate) async fn join(
    url: &str,
    prefix: &str,
    share: GeneratorShare,
    mut common: serde_json::Value,
    within: Duration,
    keeper: &mut Keeper,
) -> anyhow::Result<Arc<Barrier>> {
    common["version"] = keeper.run.meta.version.as_str().into();
    common["commit"] = keeper.run.meta.commit.as_str().into();
    let joined = Barrier::join(url, prefix, share, &common.to_string(), within).await;
    let barrier = joined.map_err(|error| match error {
        BarrierError::OtherPlan(_) => exit::input(error),
        _ => exit::missing(error),
    })?;
    let mut part = keeper.run.part.take();
    for share in part.iter_mut().flat_map(|part| &mut part.plan) {
        share.digest.insert("meeting".to_owned(), barrier.meeting().to_owned());
    }
    keeper.set_part(part)?;
    Ok(Arc::new(barrier))
}

/// Leaves the barrier. The last part that came to the end removes the keys.
pub(crate) async fn leave(
    barrier: &Barrier,
    ended: bool,
    servers: &mut TargetServers,
    prefix: &str,
    terminal: &Terminal,
) {
    if !ended {
        return barrier.leave().await;
    }
    match barrier.end().await {
        Ok(true) => remove_keys(servers, prefix, terminal).await,
        Ok(false) => {}
        Err(error) => terminal.warn(&format!("at the end: {error}")),
    }
}
