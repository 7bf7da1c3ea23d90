//! What a swarm of seeds led to, as text and as JSON.

use std::fmt::Write as _;

use results::report::text::columns;
use serde_json::json;

use crate::swarm::{PHASES, Report, SeedReport};

/// Convictions that are told one by one.
const TOLD: usize = 10;

impl SeedReport {
    /// What was violated and should not have been, or why nobody can say.
    pub fn verdict(&self) -> String {
        if let Some(failed) = &self.failed {
            return failed.clone();
        }
        let classes = self.convicted.iter().map(|class| {
            let anomaly = self.verdicts.get(class).and_then(|verdict| verdict.anomalies.first());
            anomaly.map_or(class.clone(), |anomaly| format!("{class}: {}", anomaly.proof))
        });
        classes.collect::<Vec<_>>().join("; ")
    }
}

impl Report {
    /// As `--json` has it.
    pub fn to_json(&self, elapsed_s: f64) -> serde_json::Value {
        let convicted: Vec<_> = (self.convicted.iter())
            .map(|one| json!({"seed": one.seed, "verdict": one.verdict(), "classes": one.convicted}))
            .collect();
        let mut coverage = serde_json::Map::new();
        for (met, count) in &self.coverage {
            let fault = coverage.entry(&met.fault).or_insert_with(|| json!({}));
            fault[&met.phase][&met.kind] = json!(count);
        }
        json!({
            "schema": 1,
            "seeds": self.seeds,
            "simulated_s": self.simulated.as_secs_f64(),
            "elapsed_s": elapsed_s,
            "processor_s": self.processor.as_secs_f64(),
            "grants": self.grants,
            "unknown": self.unknown.len(),
            "convicted": convicted,
            "missed": self.missed,
            "coverage": coverage,
        })
    }

    /// For a person; `by_kind`: what faults met is told of each kind of lock.
    pub fn text(&self, elapsed_s: f64, by_kind: bool) -> String {
        let (simulated_s, processor_s) = (self.simulated.as_secs_f64(), self.processor.as_secs_f64());
        let mut text = format!(
            "{} seeds, {} grants: {:.1} h of lock time in {elapsed_s:.1} s, {:.0} times as fast as time\n\
         {processor_s:.1} s of processor time, {:.1} ms for a seed: {:.0} times as fast as time on one core\n",
            self.seeds,
            self.grants,
            simulated_s / 3600.0,
            simulated_s / elapsed_s.max(1e-9),
            processor_s * 1e3 / self.seeds.max(1) as f64,
            simulated_s / processor_s.max(1e-9),
        );
        if !self.unknown.is_empty() {
            let _ = writeln!(
                text,
                "of {} too little is known: a fault met nobody, or too little happened",
                self.unknown.len()
            );
        }
        for one in self.convicted.iter().take(TOLD) {
            let _ = writeln!(text, "seed {} is convicted: {}", one.seed, one.verdict());
        }
        let more = self.convicted.len().saturating_sub(TOLD);
        if more > 0 {
            let _ = writeln!(text, "and {more} more");
        }
        for (class, missed) in &self.missed {
            let violated = self.seeds - missed;
            let _ = writeln!(text, "{class} was to be violated: it is in {violated} of {} seeds", self.seeds);
        }
        if self.convicted.is_empty() && self.missed.is_empty() {
            text.push_str("nothing was convicted that was to be clean\n");
        }
        text.push_str(&self.coverage_text(by_kind));
        text
    }

    /// How often each fault met an operation in each phase, of all kinds together or of each.
    fn coverage_text(&self, by_kind: bool) -> String {
        let mut rows: Vec<(String, [u64; PHASES.len()])> = Vec::new();
        for (met, count) in &self.coverage {
            let name = if by_kind { format!("{} × {}", met.fault, met.kind) } else { met.fault.clone() };
            let Some(phase) = PHASES.iter().position(|phase| *phase == met.phase) else { continue };
            match rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, counts)) => counts[phase] += count,
                None => {
                    let mut counts = [0; PHASES.len()];
                    counts[phase] = *count;
                    rows.push((name, counts));
                }
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let heads = std::iter::once("a fault met …").chain(PHASES);
        let mut lines: Vec<Vec<String>> = vec![heads.map(str::to_owned).collect()];
        lines.extend(rows.into_iter().map(|(name, counts)| {
            std::iter::once(name).chain(counts.map(|count| count.to_string())).collect()
        }));
        format!("\n{}", columns(&lines, 1..5).into_iter().map(|line| line + "\n").collect::<String>())
    }
}
