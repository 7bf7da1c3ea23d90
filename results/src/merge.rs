//! Turns several runs into one that holds all of their parts, for `merge` and for a report over many.

use crate::run::Run;

/// Why runs cannot be joined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// None was given.
    #[error("there is no run to merge")]
    Nothing,
}

/// Joins runs in their order, under the name `run`. One run stays as it is, but for the name.
///
/// Rows, comparisons, scenarios and warnings are put one after another; a scenario's directory gets its run's name in front.
/// The configuration is that of the first; a warning names every other run whose machine or version is another. The whole is as
/// expected if every part that expected anything is, and partial if any part is.
pub fn merge(runs: Vec<Run>, run: &str) -> Result<Run, MergeError> {
    let several = runs.len() > 1;
    let mut runs = runs.into_iter();
    let mut whole = runs.next().ok_or(MergeError::Nothing)?;
    if several {
        let own = whole.run.clone();
        name_parts(&mut whole, &own);
    }
    whole.run = run.to_owned();
    for mut part in runs {
        let name = part.run.clone();
        name_parts(&mut part, &name);
        let (one, two) = (&whole.meta, &part.meta);
        let alike = (&one.version, &one.commit) == (&two.version, &two.commit)
            && (
                &one.environment.host,
                &one.environment.cpu,
                one.environment.cores,
            ) == (
                &two.environment.host,
                &two.environment.cpu,
                two.environment.cores,
            )
            && one.environment.servers == two.environment.servers;
        if !alike {
            whole.warnings.push(format!(
                "{name} was made on another machine, with other servers or another version: do not compare its figures with the others"
            ));
        }
        if part.command != whole.command {
            whole.command = "merge".to_owned();
        }
        whole.meta.elapsed_ns = whole.meta.elapsed_ns.saturating_add(part.meta.elapsed_ns);
        whole.rows.append(&mut part.rows);
        whole.comparisons.append(&mut part.comparisons);
        whole.scenarios.append(&mut part.scenarios);
        whole.warnings.append(&mut part.warnings);
        whole.partial |= part.partial;
        whole.as_expected = match (whole.as_expected, part.as_expected) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
    }
    Ok(whole)
}

/// What says where it is from only by its place gets the run's name.
fn name_parts(run: &mut Run, name: &str) {
    for result in &mut run.scenarios {
        if !result.dir.is_empty() {
            result.dir = format!("{name}/{}", result.dir);
        }
    }
    for warning in &mut run.warnings {
        *warning = format!("{name}: {warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{BenchRow, Meta, ScenarioResult};

    fn part(name: &str, as_expected: Option<bool>) -> Run {
        let mut run = Run::new(name, "chaos", Meta::default());
        run.rows.push(BenchRow::default());
        run.scenarios.push(ScenarioResult {
            dir: "s".to_owned(),
            ..ScenarioResult::default()
        });
        run.warnings.push("w".to_owned());
        run.as_expected = as_expected;
        run
    }

    #[test]
    fn parts_keep_their_order_and_say_where_they_are_from() {
        let whole = merge(vec![part("a", Some(true)), part("b", None)], "both").expect("two runs");
        assert_eq!(whole.run, "both");
        assert_eq!(whole.rows.len(), 2);
        let dirs: Vec<&str> = whole
            .scenarios
            .iter()
            .map(|result| result.dir.as_str())
            .collect();
        assert_eq!(dirs, ["a/s", "b/s"]);
        assert_eq!(whole.warnings, ["a: w", "b: w"]);
        assert_eq!(whole.as_expected, Some(true));
    }

    #[test]
    fn one_failed_or_partial_part_makes_the_whole_so() {
        let mut broken = part("b", Some(false));
        broken.partial = true;
        let whole = merge(vec![part("a", Some(true)), broken], "both").expect("two runs");
        assert_eq!(whole.as_expected, Some(false));
        assert!(whole.partial);
    }

    #[test]
    fn another_machine_is_named() {
        let mut other = part("b", None);
        other.meta.environment.cores = 64;
        let whole = merge(vec![part("a", None), other], "both").expect("two runs");
        assert!(
            whole
                .warnings
                .iter()
                .any(|warning| warning.starts_with("b was made on another machine"))
        );
    }

    #[test]
    fn one_run_alone_stays_as_it_is() {
        let alone = part("a", None);
        assert_eq!(merge(vec![alone.clone()], "a"), Ok(alone));
        assert_eq!(merge(vec![], "a"), Err(MergeError::Nothing));
    }
}
