//! `--part K/N`: which runs of a plan are this machine's, the same on every machine.

use std::collections::BTreeMap;

use chaos::plan::Plan;
use clap::Args;
use results::run::{PlanPart, ScenarioShare};
use serde_json::Value;

use crate::args::{Common, invalid};
use crate::exit;

/// An Indexed Job of Kubernetes tells each of its pods its number by this variable; another one says how many there are.
const ENVIRONMENT: [&str; 2] = ["JOB_COMPLETION_INDEX", "LOCKLAB_PARTS"];

/// Where parts have no seed of their own, they still have to draw the same.
const SEED: u64 = 1;

pub(super) const PARTS: &str = "Parts of a plan on several machines";

/// What decides what a share of a plan runs, by word: the same on every machine.
pub(super) type Digest = BTreeMap<String, String>;

/// What of a plan decides nothing, or is compared by itself.
const NOT_DIGESTED: [&str; 5] = ["schema", "name", "about", "claim", "seed"];

/// A word or a list that is longer than this is told by its hash, as is all that has keys: commands may hold what is nobody's business.
const TOLD_CHARS: usize = 60;

/// Each value of an object by its key.
pub(super) fn digest(of: &Value) -> Digest {
    let values = of.as_object().into_iter().flatten();
    let told = values.map(|(key, value)| {
        let text = value.to_string();
        let told = match value.is_object() || text.len() > TOLD_CHARS {
            true => format!("{:08x}", crc32fast::hash(text.as_bytes())),
            false => text,
        };
        (key.clone(), told)
    });
    told.collect()
}

/// The same of a plan as it was asked for, with this lock in its scenario's place.
pub(super) fn digest_of_plan(plan: &Plan, subject: &str) -> anyhow::Result<Digest> {
    let mut sections = serde_json::to_value(plan)?;
    if let Some(sections) = sections.as_object_mut() {
        sections.retain(|key, _| !NOT_DIGESTED.contains(&key.as_str()));
        sections.entry("hooks").or_insert(Value::Null);
        sections.insert("subject".to_owned(), subject.into());
        let server = plan.topology.server.as_str();
        sections.insert("server".to_owned(), server.into());
    }
    Ok(digest(&sections))
}

/// Flags of commands whose plan can be shared.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PartArgs {
    /// Only part K (from 0) of N: the scenarios that a hash of name and seed gives it, or of one load the clients and tasks K modulo N;
    /// `merge` joins all N. JOB_COMPLETION_INDEX and LOCKLAB_PARTS say the same [default seed then: 1]
    #[arg(hide_short_help = true, help_heading = PARTS, long, value_name = "K/N", value_parser = parse)]
    part: Option<PartNumber>,
}

/// Part `index` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartNumber {
    index: u32,
    of: u32,
}

impl PartArgs {
    /// The part that was asked for, by flag or environment; `None`: the whole plan.
    pub(crate) fn slice(&self) -> anyhow::Result<Option<PartNumber>> {
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

impl PartNumber {
    /// The part that makes this run.
    fn part_of(self, name: &str, seed: u64) -> u32 {
        crc32fast::hash(format!("{name} {seed}").as_bytes()) % self.of
    }

    /// Whether this part makes this run.
    pub(crate) fn has(self, name: &str, seed: u64) -> bool {
        self.part_of(name, seed) == self.index
    }

    /// The same as the share of a load.
    pub(crate) fn share(self) -> bench::parts::GeneratorShare {
        let PartNumber { index, of } = self;
        bench::parts::GeneratorShare { index, of }
    }

    /// What a run keeps of being a part of one load, of which `has` says what each part has.
    pub(crate) fn record_load(
        self,
        seed: u64,
        digest: Digest,
        has: impl Fn(bench::parts::GeneratorShare) -> String,
    ) -> PlanPart {
        let of = self.of;
        let share = |part| ScenarioShare {
            name: has(bench::parts::GeneratorShare { index: part, of }),
            seed,
            part,
            digest: digest.clone(),
        };
        self.part((0..of).map(share))
    }

    /// Whether this is the first part, which does what has to be done once.
    pub(crate) fn is_first(self) -> bool {
        self.index == 0
    }

    /// What a run keeps of being a part of a plan of these scenarios and seeds.
    pub(crate) fn record(self, plan: impl IntoIterator<Item = (String, u64, Digest)>) -> PlanPart {
        let share = |(name, seed, digest): (String, u64, Digest)| ScenarioShare {
            part: self.part_of(&name, seed),
            name,
            seed,
            digest,
        };
        self.part(plan.into_iter().map(share))
    }

    fn part(self, plan: impl Iterator<Item = ScenarioShare>) -> PlanPart {
        PlanPart {
            index: self.index,
            of: self.of,
            plan: plan.collect(),
            exit_code: None,
        }
    }
}

fn parse(text: &str) -> Result<PartNumber, String> {
    let numbers = text.split_once('/').and_then(|(index, of)| {
        let (index, of) = (index.trim().parse().ok()?, of.trim().parse().ok()?);
        (index < of).then_some(PartNumber { index, of })
    });
    numbers.ok_or_else(|| invalid("part", text, "K/N with K from 0 to N-1, e.g. 0/4"))
}
