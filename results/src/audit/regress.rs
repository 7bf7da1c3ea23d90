//! Sets an audit beside an earlier one: what was kept then and is broken now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Audit, AuditOutcome, AuditedSubject};

/// A scenario that an earlier audit saw kept and this one saw broken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Regression {
    /// The lock.
    pub subject: String,
    /// The scenario.
    pub scenario: String,
    /// Why it is broken now.
    pub why: String,
}

/// The locks of an audit's document: `audit.json`, what `--json` printed, or `run.json`.
///
/// # Errors
/// Text that is none of them.
pub fn subjects_of(text: &str) -> Result<Vec<AuditedSubject>, String> {
    let mut document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let inside = document.get_mut("audit").map(Value::take);
    let mut audit = inside.unwrap_or(document);
    let subjects = audit.get_mut("subjects").map(Value::take);
    let subjects = subjects.ok_or("it has no `subjects`, so it is no document of an audit")?;
    serde_json::from_value(subjects).map_err(|error| error.to_string())
}

/// What `base` saw kept and `now` saw broken, by the names of lock and scenario.
pub fn regressions(base: &[AuditedSubject], now: &Audit) -> Vec<Regression> {
    let was_kept = |subject: &str, scenario: &str| {
        let of_subject = base.iter().filter(|one| one.name == subject);
        let mut all = of_subject.flat_map(|one| one.of(AuditOutcome::Kept));
        all.any(|one| one.name == scenario)
    };
    let broken = now.subjects.iter().flat_map(|subject| {
        let broken = subject.of(AuditOutcome::Broken);
        broken.map(move |scenario| (subject, scenario))
    });
    broken
        .filter(|(subject, scenario)| was_kept(&subject.name, &scenario.name))
        .map(|(subject, scenario)| Regression {
            subject: subject.name.clone(),
            scenario: scenario.name.clone(),
            why: scenario.why.clone(),
        })
        .collect()
}
