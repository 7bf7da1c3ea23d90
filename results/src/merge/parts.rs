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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::run::ScenarioResult;
    use crate::samples::says;

    /// Part `index` of two: `a` belongs to the first, `b` to the second.
    fn part(index: u32, exit_code: Option<u8>) -> Run {
        let share = |name: &str, part| ScenarioShare {
            name: name.to_owned(),
            seed: 7,
            part,
            digest: BTreeMap::from([("subject".to_owned(), "\"a:lock\"".to_owned())]),
        };
        let mut run = Run::new(format!("runs/{index}"), "chaos", Meta::default());
        run.part = Some(PlanPart { index, of: 2, plan: vec![share("a", 0), share("b", 1)], exit_code });
        run.scenarios.push(ScenarioResult {
            name: ["a", "b"][index as usize].to_owned(),
            seed: 7,
            ..ScenarioResult::default()
        });
        run
    }

    #[test]
    fn all_parts_of_a_plan_are_whole() {
        let found = whole(&[part(1, Some(0)), part(0, Some(1))]).expect("one plan");
        assert_eq!(found, Some(WholeOutcome { exit_codes: vec![0, 1], missing: Vec::new() }));
        assert_eq!(whole(&[Run::default()]), Ok(None));
    }

    #[test]
    fn a_part_that_is_missing_or_did_not_end_is_named_with_what_it_had_to_run() {
        let parts = |runs: &[Run]| whole(runs).expect("one plan").expect("parts");
        assert_eq!(parts(&[part(0, Some(0))]).missing, ["part 1 of 2 is missing: without b (seed 7)"]);
        let mut killed = part(1, None);
        killed.scenarios.clear();
        let found = parts(&[part(0, Some(0)), killed]);
        assert_eq!(found.missing, ["part 1 of 2 did not end: without b (seed 7)"]);
        assert_eq!(found.exit_codes, [0]);
    }

    #[test]
    fn parts_of_different_plans_are_refused() {
        fn part_of(run: &mut Run) -> &mut PlanPart {
            run.part.as_mut().expect("a part")
        }
        type Change = (fn(&mut Run), &'static str);
        fn subject_of_b(run: &mut Run) -> &mut String {
            let digest = &mut part_of(run).plan[1].digest;
            digest.get_mut("subject").expect("a subject")
        }
        let changes: [Change; 7] = [
            (|run| run.meta.seed = 8, "seed: 0 and 8"),
            (|run| run.meta.version = "9".to_owned(), "version"),
            (|run| part_of(run).of = 3, "number of parts"),
            (|run| part_of(run).plan.clear(), "plans"),
            (
                |run| *subject_of_b(run) = "\"b:lock\"".to_owned(),
                "b (seed 7): subject \"a:lock\" and \"b:lock\"",
            ),
            (|run| part_of(run).index = 0, "already"),
            (|run| run.part = None, "no part"),
        ];
        for (change, word) in changes {
            let mut other = part(1, Some(0));
            change(&mut other);
            let error = whole(&[part(0, Some(0)), other]).expect_err("another plan");
            says(&error.to_string(), &[word]);
        }
        let mut older = part(1, Some(0));
        for share in &mut part_of(&mut older).plan {
            share.digest.clear();
        }
        whole(&[part(0, Some(0)), older]).expect("a build that said less");
    }
}
