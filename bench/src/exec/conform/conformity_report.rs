//! Renders what `conform` found of a driver as text, JSON and JUnit.

use std::time::Duration;

use results::report::ReportError;
use results::report::junit::{Case, document};
use serde_json::{Value, json};

use super::{Conformity, Outcome, Step};

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Kept => "kept",
            Outcome::Broken => "broken",
            Outcome::Skipped => "skipped",
        }
    }
}

impl Step {
    fn advice(&self) -> [(&'static str, String); 4] {
        [
            ("rule", self.rule.to_owned()),
            ("found", self.found.clone()),
            ("remedy", self.remedy.to_owned()),
            ("see", self.protocol_reference()),
        ]
    }
}

impl Conformity {
    fn of(&self, outcome: Outcome) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.outcome == outcome)
    }

    /// The result as text for a terminal.
    pub fn text(&self, driver: &str) -> String {
        let mut out = format!("{driver}\n");
        for step in &self.steps {
            let found = match step.found.as_str() {
                "" => String::new(),
                found => format!(": {found}"),
            };
            out += &format!("  {:<8} {}{found}\n", step.outcome.word(), step.name);
        }
        for step in self.of(Outcome::Broken) {
            out += &format!("\n{}\n", step.name);
            for (word, said) in step.advice() {
                out += &format!("  {word:<6}  {said}\n");
            }
        }
        let not = if self.conforms() { "conforms" } else { "does not conform" };
        let [kept, broken, skipped] =
            [Outcome::Kept, Outcome::Broken, Outcome::Skipped].map(|outcome| self.of(outcome).count());
        out + &format!("\n{not}: {kept} steps kept, {broken} broken, {skipped} skipped\n")
    }

    /// The result as `--json` prints it.
    pub fn to_json(&self, driver: &str) -> Value {
        let ns = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let steps = self.steps.iter().map(|step| {
            json!({
                "name": step.name, "rule": step.rule, "outcome": step.outcome.word(), "found": step.found,
                "remedy": step.remedy, "paragraph": step.protocol_reference(),
            })
        });
        json!({
            "schema": 1, "driver": driver, "library": self.library, "conforms": self.conforms(),
            "steps": steps.collect::<Vec<_>>(),
            "pipe_ns": self.pipe.map(|pipe| json!({"p50": ns(pipe.median), "p99": ns(pipe.p99)})),
        })
    }

    /// The result as JUnit, a test case for each step.
    pub fn junit(&self, driver: &str) -> Result<String, ReportError> {
        let cases = self.steps.iter().map(|step| Case {
            name: step.name.to_owned(),
            failure: (step.outcome == Outcome::Broken)
                .then(|| step.advice().map(|(word, said)| format!("{word}: {said}")).join("\n")),
            skipped: (step.outcome == Outcome::Skipped).then(|| step.found.clone()),
        });
        document("conform", driver, cases)
    }
}
