//! Which runs of a plan are a part's, the same on every machine, and what parts must have in common.

use std::collections::BTreeMap;

use bench::parts::GeneratorShare;
use results::run::{PlanPart, ScenarioShare};
use serde_json::Value;

use crate::planning::plan::Plan;

/// What decides what a share of a plan runs, by word: the same on every machine.
pub type Digest = BTreeMap<String, String>;

/// What of a plan decides nothing, or is compared by itself.
const NOT_DIGESTED: [&str; 5] = ["schema", "name", "about", "claim", "seed"];

/// What is longer, or has keys, is told by its hash: commands may hold what is nobody's business.
const TOLD_CHARS: usize = 60;

/// Each value of an object by its key.
pub fn digest(of: &Value) -> Digest {
    let told = of.as_object().into_iter().flatten().map(|(key, value)| {
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
pub fn digest_of_plan(plan: &Plan, subject: &str) -> Result<Digest, serde_json::Error> {
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

/// The part that makes a run of this scenario and seed.
fn part_of(of: u32, name: &str, seed: u64) -> u32 {
    crc32fast::hash(format!("{name} {seed}").as_bytes()) % of
}

/// Whether this part makes the run of this scenario and seed.
pub fn has(part: GeneratorShare, name: &str, seed: u64) -> bool {
    part_of(part.of, name, seed) == part.index
}

/// What a run keeps of being a part of a plan of these scenarios and seeds.
pub fn record(part: GeneratorShare, plan: impl IntoIterator<Item = (String, u64, Digest)>) -> PlanPart {
    let share = |(name, seed, digest): (String, u64, Digest)| ScenarioShare {
        part: part_of(part.of, &name, seed),
        name,
        seed,
        digest,
    };
    plan_part(part, plan.into_iter().map(share))
}

/// What a run keeps of being a part of one load, of which `clients` says what each part has.
pub fn record_load(
    part: GeneratorShare,
    seed: u64,
    digest: &Digest,
    clients: impl Fn(GeneratorShare) -> String,
) -> PlanPart {
    let of = part.of;
    let share = |index| ScenarioShare {
        name: clients(GeneratorShare { index, of }),
        seed,
        part: index,
        digest: digest.clone(),
    };
    plan_part(part, (0..of).map(share))
}

fn plan_part(part: GeneratorShare, plan: impl Iterator<Item = ScenarioShare>) -> PlanPart {
    PlanPart { index: part.index, of: part.of, plan: plan.collect(), exit_code: None }
}
