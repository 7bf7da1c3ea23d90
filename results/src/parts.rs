//! Whether runs are all parts of one plan, and what is missing where they are not.

use crate::merge::MergeError;
use crate::run::{Part, Run};

/// What is asked of a run that is a part.
struct Of<'a> {
    run: &'a Run,
    part: &'a Part,
}

/// How the whole came out that the parts make up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The exit codes of the parts that ended by themselves.
    pub exit_codes: Vec<u8>,
    /// What was not run, part by part, in words; empty where the whole plan was.
    pub missing: Vec<String>,
}

/// Looks at runs as parts of one plan. `None`: none of them is a part of anything.
///
/// # Errors
/// [`MergeError::OtherPlan`] where they are parts of different plans, seeds or versions, where one is given twice, and where only some are parts.
pub fn whole(runs: &[Run]) -> Result<Option<Whole>, MergeError> {
    let mut parts: Vec<Of<'_>> = Vec::new();
    for run in runs {
        if let Some(part) = &run.part {
            parts.push(Of { run, part });
        }
    }
    let Some(base) = parts.first() else {
        return Ok(None);
    };
    let refused = |other: &Run, reason: String| MergeError::OtherPlan {
        base: base.run.run.clone(),
        other: other.run.clone(),
        reasons: vec![reason],
    };
    if let Some(other) = runs.iter().find(|run| run.part.is_none()) {
        return Err(refused(other, "it is no part of a plan".to_owned()));
    }
    for (at, Of { run, part }) in parts.iter().enumerate() {
        if let Some(reason) = differs(base, run, part) {
            return Err(refused(run, reason));
        }
        if let Some(twin) = parts[..at]
            .iter()
            .find(|twin| twin.part.index == part.index)
        {
            let twice = format!(
                "part {} of {} is {} already",
                part.index, part.of, twin.run.run
            );
            return Err(refused(run, twice));
        }
    }
    let mut missing = Vec::new();
    for index in 0..base.part.of {
        let there = parts.iter().find(|of| of.part.index == index);
        let lacks: Vec<String> = base
            .part
            .plan
            .iter()
            .filter(|share| share.part == index)
            .filter(|share| !there.is_some_and(|of| tried(of, &share.name, share.seed)))
            .map(|share| format!("{} (seed {})", share.name, share.seed))
            .collect();
        let (what, lacks) = match there {
            None => ("is missing", lacks.join(", ")),
            Some(of) if of.part.exit_code.is_none() || of.run.partial => {
                ("did not end", lacks.join(", "))
            }
            Some(_) => continue,
        };
        let lacks = match lacks.as_str() {
            "" => "nothing that it had to run".to_owned(),
            some => some.to_owned(),
        };
        missing.push(format!(
            "part {index} of {} {what}: without {lacks}",
            base.part.of
        ));
    }
    let ended = parts.iter().filter(|of| !of.run.partial);
    Ok(Some(Whole {
        exit_codes: ended.filter_map(|of| of.part.exit_code).collect(),
        missing,
    }))
}

/// What two parts do not have in common, if anything.
fn differs(base: &Of<'_>, run: &Run, part: &Part) -> Option<String> {
    let (a, b) = (&base.run.meta, &run.meta);
    let pairs = [
        ("command", base.run.command.clone(), run.command.clone()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        (
            "version",
            format!("{} {}", a.version, a.commit),
            format!("{} {}", b.version, b.commit),
        ),
        (
            "number of parts",
            base.part.of.to_string(),
            part.of.to_string(),
        ),
    ];
    let differing = pairs.into_iter().find(|(_, one, two)| one != two);
    if let Some((what, one, two)) = differing {
        return Some(format!("{what}: {one} and {two}"));
    }
    let same = base.part.plan == part.plan;
    (!same).then(|| "their plans list other scenarios or seeds".to_owned())
}

/// Whether a part has a result of a scenario.
fn tried(of: &Of<'_>, name: &str, seed: u64) -> bool {
    let mut results = of.run.scenarios.iter();
    results.any(|result| result.name == name && result.seed == seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Meta, ScenarioResult, Share};

    /// Part `index` of two: `a` belongs to the first, `b` to the second.
    fn part(index: u32, exit_code: Option<u8>) -> Run {
        let share = |name: &str, part| Share {
            name: name.to_owned(),
            seed: 7,
            part,
        };
        let mut run = Run::new(format!("runs/{index}"), "chaos", Meta::default());
        run.part = Some(Part {
            index,
            of: 2,
            plan: vec![share("a", 0), share("b", 1)],
            exit_code,
        });
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
        let expected = Whole {
            exit_codes: vec![0, 1],
            missing: Vec::new(),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(whole(&[Run::default()]), Ok(None));
    }

    #[test]
    fn a_part_that_is_missing_or_did_not_end_is_named_with_what_it_had_to_run() {
        let found = whole(&[part(0, Some(0))])
            .expect("one plan")
            .expect("a part");
        assert_eq!(
            found.missing,
            ["part 1 of 2 is missing: without b (seed 7)"]
        );
        let mut killed = part(1, None);
        killed.scenarios.clear();
        let found = whole(&[part(0, Some(0)), killed])
            .expect("one plan")
            .expect("parts");
        assert_eq!(
            found.missing,
            ["part 1 of 2 did not end: without b (seed 7)"]
        );
        assert_eq!(found.exit_codes, [0]);
    }

    #[test]
    fn parts_of_different_plans_are_refused() {
        let refused = |change: &dyn Fn(&mut Run)| {
            let mut other = part(1, Some(0));
            change(&mut other);
            let error = whole(&[part(0, Some(0)), other]).expect_err("another plan");
            error.to_string()
        };
        let part_of = |run: &mut Run| run.part.clone().expect("a part");
        for (change, word) in [
            (
                &(|run: &mut Run| run.meta.seed = 8) as &dyn Fn(&mut Run),
                "seed: 0 and 8",
            ),
            (&|run| run.meta.version = "9".to_owned(), "version"),
            (
                &|run| {
                    run.part = Some(Part {
                        of: 3,
                        ..part_of(run)
                    })
                },
                "number of parts",
            ),
            (
                &|run| {
                    run.part = Some(Part {
                        plan: Vec::new(),
                        ..part_of(run)
                    })
                },
                "plans",
            ),
            (
                &|run| {
                    run.part = Some(Part {
                        index: 0,
                        ..part_of(run)
                    })
                },
                "already",
            ),
            (&|run| run.part = None, "no part"),
        ] {
            let why = refused(change);
            assert!(why.contains(word), "{word}: {why}");
        }
    }
}
