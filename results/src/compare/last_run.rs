//! What changed between a run and the last one of the same command, in a few lines.

use crate::audit::{AuditOutcome, regressions};
use crate::record::run::Run;
use crate::wording::units;

const NAMED: usize = 3;

/// What changed against `base`, the line for its name first.
pub fn against_last(base: &Run, run: &Run) -> Vec<String> {
    let mut changes = Vec::new();
    if let (Some(was), Some(audit)) = (&base.audit, &run.audit) {
        let lost = regressions(&was.subjects, audit);
        changes.extend(lost.iter().map(|one| format!("{} by {}: kept -> broken", one.scenario, one.subject)));
        let kept = |subject: &str, scenario: &str| {
            let mut now = audit.subjects.iter().filter(|one| one.name == subject);
            now.any(|one| one.of(AuditOutcome::Kept).any(|one| one.name == scenario))
        };
        for subject in &was.subjects {
            let repaired = subject.of(AuditOutcome::Broken).filter(|one| kept(&subject.name, &one.name));
            changes.extend(repaired.map(|one| format!("{} by {}: broken -> kept", one.name, subject.name)));
        }
    } else if let Ok(compared) = super::compare(&[base.clone(), run.clone()], false) {
        let verdicts = compared.scenarios.iter().filter(|change| change.class != "outcome");
        changes.extend(verdicts.map(|change| {
            let (class, a, b) = (&change.class, &change.a, &change.b);
            format!("{} on {}, {class}: {a} -> {b}", change.scenario, change.topology)
        }));
        let shown = compared.comparisons.iter().map(|against| &against.comparison);
        let shown = shown.filter(|one| ["better", "worse"].contains(&one.verdict.as_str()));
        changes.extend(shown.map(|one| {
            let (ratio, metric, verdict) = (units::figure(one.ratio.point), &one.metric, &one.verdict);
            format!("{}, {metric} ({}): {ratio} times, {verdict}", one.b, one.r#where)
        }));
    } else {
        return Vec::new();
    }
    let what = match changes.len() {
        0 => "nothing that is shown changed".to_owned(),
        n => format!("{} changed", units::several(n, "thing")),
    };
    let first = format!("against {}: {what} (locklab compare {} {})", base.run, base.run, run.run);
    let further = changes.len().saturating_sub(NAMED);
    let further = (further > 0).then(|| format!("  and {further} more"));
    let named = changes.into_iter().take(NAMED).map(|change| format!("  {change}"));
    std::iter::once(first).chain(named).chain(further).collect()
}
