//! The closed loop that a driver runs by itself: what it is asked for, and what it says of it.
//!
//! Times that are measured through a driver's pipe contain the pipe. A driver may offer to run the loop on
//! its own side of it; what it then says is its own word, since no history of it is seen here, so it stands
//! beside a row and never in its place.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A closed loop.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// `uncontended`, `contended` or `chain`: the names of our own workloads.
    pub workload: String,
    /// The kind of lock; empty: the driver's first.
    pub kind: String,
    /// Each an owner of its own.
    pub tasks: u32,
    /// Lock names, spread over the tasks.
    pub locks: u32,
    /// How long it runs before it counts.
    pub warmup: Duration,
    /// How long it counts.
    pub measure: Duration,
    /// `None`: renewed by the library.
    pub lease: Option<Duration>,
    /// Between grant and release.
    pub hold: Duration,
    /// Between release and the next acquire.
    pub think: Duration,
    /// What lock names begin with, where the driver lets them be chosen.
    pub prefix: String,
}

/// Values and how often each was seen, in rising order. On the wire an HdrHistogram, compressed, base64.
pub type Counts = Vec<(u64, u64)>;

/// What a driver says of its loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Whole cycles in the window.
    pub cycles: u64,
    /// Calls that failed for certain.
    pub failed: u64,
    /// Calls whose ending nobody knows.
    pub unknown: u64,
    /// The window.
    pub elapsed_ns: u64,
    /// CPU time of the driver's process in it, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpu_ns: Option<u64>,
    /// Cycles of each task.
    pub per_task: Vec<u64>,
    /// From the sending of an acquire to its grant, in nanoseconds.
    #[serde(rename = "acquire_hist", with = "encoded")]
    pub acquire: Counts,
    /// From the sending of a release to its answer.
    #[serde(rename = "release_hist", with = "encoded")]
    pub release: Counts,
    /// From the sending of a release to the next grant of that lock; empty where nothing is handed on.
    #[serde(rename = "handoff_hist", default, with = "encoded")]
    pub handoff: Counts,
    /// The same to another task only.
    #[serde(rename = "handoff_other_hist", default, with = "encoded")]
    pub handoff_other: Counts,
    /// What the driver saw of two holds at once, in its own words; ours say it, and no other need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
}

mod encoded {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::Counts;

    pub(super) fn serialize<S: Serializer>(counts: &Counts, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&results::hdr::encode_compressed(counts))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Counts, D::Error> {
        match Option::<String>::deserialize(from)? {
            None => Ok(Counts::new()),
            Some(text) => results::hdr::decode_any(&text).map_err(D::Error::custom),
        }
    }
}

impl LoadReport {
    /// Of the body of an `ok` to a load of `tasks` tasks. An error says which field is wrong, and how.
    pub(crate) fn of_body(body: &Value, tasks: u32) -> Result<Self, String> {
        let report: LoadReport = serde_path_to_error::deserialize(body).map_err(|wrong| wrong.to_string())?;
        if report.per_task.len() != tasks as usize {
            return Err("`per_task` is no list of one figure per task".to_owned());
        }
        Ok(report)
    }

    /// Cycles per second of the window.
    #[must_use]
    pub fn cycles_per_s(&self) -> f64 {
        self.cycles as f64 / (self.elapsed_ns as f64 / 1e9).max(1e-9)
    }
}

impl std::fmt::Display for LoadReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |pairs: &[(u64, u64)], q| {
            quantile(pairs, q).map_or("unknown".into(), |ns| format!("{:.0} us", ns as f64 / 1e3))
        };
        write!(
            f,
            "{:.0} cycles/s, acquire p50 {}, p99 {}",
            self.cycles_per_s(),
            us(&self.acquire, 0.5),
            us(&self.acquire, 0.99)
        )?;
        if !self.handoff_other.is_empty() {
            let gap = us(&self.handoff_other, 0.5);
            write!(f, ", hand-off to another p50 {gap}")?;
        }
        match (self.failed, self.unknown) {
            (0, 0) => Ok(()),
            (failed, unknown) => write!(f, ", {failed} calls failed, {unknown} unknown"),
        }
    }
}

/// The smallest value that at least this share of the counts does not exceed.
pub(crate) fn quantile(pairs: &[(u64, u64)], share: f64) -> Option<u64> {
    let total: u64 = pairs.iter().map(|(_, count)| count).sum();
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    pairs
        .iter()
        .find(|(_, count)| {
            seen += count;
            seen >= wanted
        })
        .map(|(ns, _)| *ns)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> LoadReport {
        LoadReport {
            cycles: 7,
            failed: 1,
            unknown: 2,
            elapsed_ns: 2_000_000_000,
            client_cpu_ns: Some(3_000_000),
            per_task: vec![3, 4],
            acquire: vec![(1_000, 3), (2_000, 4)],
            release: vec![(500, 7)],
            handoff: vec![(1_500, 6)],
            handoff_other: vec![(1_600, 2)],
            overlap: None,
        }
    }

    #[test]
    fn a_report_comes_back_as_it_was_said() {
        assert_eq!(LoadReport::of_body(&json!(report()), 2), Ok(report()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        for field in ["cycles", "failed", "unknown", "elapsed_ns", "per_task", "acquire_hist", "release_hist"]
        {
            let mut body = json!(report());
            body[field] = json!({"a": 1});
            let error = LoadReport::of_body(&body, 2).unwrap_err();
            assert!(error.contains(field), "{field}: {error}");
        }
        let error = LoadReport::of_body(&json!(report()), 3).unwrap_err();
        assert!(error.contains("per_task"), "{error}");
    }
}
