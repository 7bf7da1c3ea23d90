//! `--part K/N`: which part of a plan this machine runs.

use bench::parts::GeneratorShare;
use clap::Args;

use crate::args::{Common, invalid};
use crate::exit;

/// An Indexed Job of Kubernetes tells each of its pods its number by this variable; another one says how many there are.
const ENVIRONMENT: [&str; 2] = ["JOB_COMPLETION_INDEX", "LOCKLAB_PARTS"];

/// Where parts have no seed of their own, they still have to draw the same.
const SEED: u64 = 1;

pub(super) const PARTS: &str = "Parts of a plan on several machines";

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PartArgs {
    /// Only part K (from 0) of N: the scenarios that a hash of name and seed gives it, or of one load the clients and tasks K modulo N;
    /// `merge` joins all N. JOB_COMPLETION_INDEX and LOCKLAB_PARTS say the same [default seed then: 1]
    #[arg(hide_short_help = true, help_heading = PARTS, long, value_name = "K/N", value_parser = parse)]
    part: Option<GeneratorShare>,
}

impl PartArgs {
    /// The part that was asked for, by flag or environment; `None`: the whole plan.
    pub(crate) fn slice(&self) -> anyhow::Result<Option<GeneratorShare>> {
        if self.part.is_some() {
            return Ok(self.part);
        }
        let [index, of] = ENVIRONMENT.map(|name| std::env::var(name).ok());
        match (index, of) {
            // Every Indexed Job has a number, also one that does not share a plan.
            (_, None) => Ok(None),
            (None, Some(_)) => Err(exit::usage(format!(
                "{} is set without {}",
                ENVIRONMENT[1], ENVIRONMENT[0]
            ))),
            (Some(index), Some(of)) => {
                let slice = parse(&format!("{index}/{of}"));
                let [name, count] = ENVIRONMENT;
                slice
                    .map(Some)
                    .map_err(|why| exit::usage(format!("{name} and {count}: {why}")))
            }
        }
    }

    /// The seed of the plan: a part never draws one by itself.
    pub(crate) fn seed(&self, common: &Common) -> anyhow::Result<u64> {
        Ok(match self.slice()? {
            Some(_) => common.seed.unwrap_or(SEED),
            None => super::run::seed(common),
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
