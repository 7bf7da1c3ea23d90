//! Whether runs are all parts of one plan, and what is missing where they are not.

use itertools::Itertools;

use crate::merge::MergeError;
use crate::record::run::{Meta, PlanPart, Run, ScenarioShare};

type Of<'a> = (&'a Run, &'a PlanPart);

/// How the whole came out that the parts make up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeOutcome {
    /// The exit codes of the parts that ended by themselves.
    pub exit_codes: Vec<u8>,
    /// What was not run, part by part, in words; empty where the whole plan was.
    pub missing: Vec<String>,
}

/// Looks at runs as parts of one plan. `None`: none of them is a part of anything.
///
/// # Errors
/// [`MergeError::OtherPlan`] of other plans, seeds or versions, of one twice, and where only some are parts.
pub fn whole(runs: &[Run]) -> Result<Option<WholeOutcome>, MergeError> {
    let parts: Vec<Of<'_>> = runs.iter().filter_map(|run| Some((run, run.part.as_ref()?))).collect();
    let Some(base @ (base_run, base_part)) = parts.first() else {
        return Ok(None);
    };
    let refused = |other: &Run, reason: String| MergeError::OtherPlan {
        base: base_run.run.clone(),
        other: other.run.clone(),
        reasons: vec![reason],
    };
    if let Some(other) = runs.iter().find(|run| run.part.is_none()) {
        return Err(refused(other, "it is no part of a plan".to_owned()));
    }
    for (at, (run, part)) in parts.iter().enumerate() {
        if let Some(reason) = differs(base, run, part) {
            return Err(refused(run, reason));
        }
        if let Some((twin, _)) = parts[..at].iter().find(|(_, twin)| twin.index == part.index) {
            let (index, of, twin) = (part.index, part.of, &twin.run);
            return Err(refused(run, format!("part {index} of {of} is {twin} already")));
        }
    }
    let mut missing = Vec::new();
    for index in 0..base_part.of {
        let there = parts.iter().find(|(_, part)| part.index == index);
        let what = match there {
            None => "is missing",
            Some((run, part)) if part.exit_code.is_none() || run.partial => "did not end",
            Some(_) => continue,
        };
        let own = base_part.plan.iter().filter(|share| share.part == index);
        let lacks = own.filter(|share| !there.is_some_and(|(run, _)| tried(run, share)));
        let mut lacks = lacks.map(|share| format!("{} (seed {})", share.name, share.seed));
        let lacks = match lacks.join(", ").as_str() {
            "" => "nothing that it had to run".to_owned(),
            some => some.to_owned(),
        };
        let of = base_part.of;
        missing.push(format!("part {index} of {of} {what}: without {lacks}"));
    }
    let ended = parts.iter().filter(|(run, _)| !run.partial);
    Ok(Some(WholeOutcome { exit_codes: ended.filter_map(|(_, part)| part.exit_code).collect(), missing }))
}

fn differs((base, of): &Of<'_>, run: &Run, part: &PlanPart) -> Option<String> {
    let (a, b) = (&base.meta, &run.meta);
    let version = |meta: &Meta| format!("{} {}", meta.version, meta.commit);
    let [seeds, numbers] = [[a.seed, b.seed], [of.of, part.of].map(u64::from)];
    let pairs = [
        ("command", [&base.command, &run.command].map(String::clone)),
        ("seed", seeds.map(|seed| seed.to_string())),
        ("version", [version(a), version(b)]),
        ("number of parts", numbers.map(|number| number.to_string())),
    ];
    let differing = pairs.into_iter().find(|(_, [one, two])| one != two);
    if let Some((what, [one, two])) = differing {
        return Some(format!("{what}: {one} and {two}"));
    }
    let listed = |part: &PlanPart| -> Vec<(String, u64, u32)> {
        part.plan.iter().map(|share| (share.name.clone(), share.seed, share.part)).collect()
    };
    if listed(of) != listed(part) {
        return Some("their plans list other scenarios or seeds".to_owned());
    }
    of.plan.iter().zip(&part.plan).find_map(|(one, two)| differs_within(one, two))
}

/// By what a share of two parts differs that has one name in both. What only one says is no difference.
fn differs_within(one: &ScenarioShare, two: &ScenarioShare) -> Option<String> {
    let both = one.digest.iter().filter_map(|(word, a)| {
        let b = two.digest.get(word)?;
        (a != b).then(|| format!("{word} {a} and {b}"))
    });
    let differing = both.format(", ").to_string();
    let (name, seed) = (&one.name, one.seed);
    (!differing.is_empty()).then(|| format!("{name} (seed {seed}): {differing}"))
}

fn tried(run: &Run, ScenarioShare { name, seed, .. }: &ScenarioShare) -> bool {
    run.scenarios.iter().any(|result| result.name == *name && result.seed == *seed)
}
