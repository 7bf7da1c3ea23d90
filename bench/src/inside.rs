//! The closed loop that a driver runs by itself: what it is asked for, and what it says of it.
//!
//! Times that are measured through a driver's pipe contain the pipe. A driver may offer to run the loop on its own side of it; what it
//! then says is its own word, since no history of it is seen here, so it stands beside a row and never in its place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    protocol::{Locks, Request, whole_ms},
    workload,
};

/// The workloads of the protocol, as its `load` names them and as ours are named.
const WORKLOADS: [(&str, &str); 3] = [
    ("cycles", "uncontended"),
    ("contended", "contended"),
    ("chain", "chain"),
];

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

/// What a driver says of its loop.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReport {
    /// Whole cycles in the window.
    pub cycles: u64,
    /// Calls that failed for certain.
    pub failed: u64,
    /// Calls whose ending nobody knows.
    pub unknown: u64,
    /// The window.
    pub elapsed: Duration,
    /// CPU time of the driver's process in it, where it says so.
    pub client_cpu: Option<Duration>,
    /// Cycles of each task.
    pub per_task: Vec<u64>,
    /// From the sending of an acquire to its grant: nanoseconds and how often.
    pub acquire: Vec<(u64, u64)>,
    /// From the sending of a release to its answer.
    pub release: Vec<(u64, u64)>,
    /// From the sending of a release to the next grant of that lock.
    pub handoff: Vec<(u64, u64)>,
    /// The same to another task only.
    pub handoff_other: Vec<(u64, u64)>,
    /// What the driver saw of two holds at once, in its own words; ours say it, and no other need.
    pub overlap: Option<String>,
}

impl LoadRequest {
    pub(crate) fn to_request(&self, kind: &str) -> Request {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let workload = WORKLOADS.iter().find(|(_, ours)| *ours == self.workload);
        Request {
            op: "load".into(),
            workload: Some(
                workload
                    .map_or(&*self.workload, |(name, _)| name)
                    .to_owned(),
            ),
            kind: Some(kind.to_owned()),
            tasks: Some(self.tasks),
            locks: Some(Locks::Count(self.locks)),
            warmup_ms: Some(whole_ms(self.warmup)),
            measure_ms: Some(whole_ms(self.measure)),
            lease_ms: self.lease.map(whole_ms),
            hold_us: Some(us(self.hold)),
            think_us: Some(us(self.think)),
            prefix: Some(self.prefix.clone()),
            ..Request::default()
        }
    }

    /// Of a request line. An error says which field is wrong.
    pub(crate) fn of_request(request: &Request) -> Result<Self, String> {
        let name = request.workload.as_deref().unwrap_or_default();
        let Some((_, ours)) = WORKLOADS.iter().find(|(known, _)| *known == name) else {
            return Err(format!(
                "load of an unknown workload `{name}`: it is cycles, contended or chain"
            ));
        };
        let tasks = request.tasks.unwrap_or(0);
        let locks = match request.locks {
            None => tasks,
            Some(Locks::Count(locks)) => locks,
            Some(Locks::Names(_)) => return Err("load: `locks` is how many, no names".into()),
        };
        let measure = Duration::from_millis(request.measure_ms.unwrap_or(0));
        for (field, empty) in [
            ("tasks", tasks == 0),
            ("locks", locks == 0),
            ("measure_ms", measure.is_zero()),
        ] {
            if empty {
                return Err(format!("load without `{field}`, or with none"));
            }
        }
        Ok(LoadRequest {
            workload: (*ours).to_owned(),
            kind: request.kind.clone().unwrap_or_default(),
            tasks,
            locks: if *ours == "uncontended" { locks } else { 1 },
            warmup: Duration::from_millis(request.warmup_ms.unwrap_or(0)),
            measure,
            lease: request.lease_ms.map(Duration::from_millis),
            hold: Duration::from_micros(request.hold_us.unwrap_or(0)),
            think: Duration::from_micros(request.think_us.unwrap_or(0)),
            prefix: request
                .prefix
                .clone()
                .unwrap_or_else(|| "locklab-load:".into()),
        })
    }

    /// Whether a driver can be asked for a workload at all.
    pub(crate) fn offers(workload: &workload::Workload) -> bool {
        WORKLOADS.iter().any(|(_, ours)| *ours == workload.name)
    }
}

impl LoadReport {
    pub(crate) fn to_body(&self) -> Value {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let text = |pairs: &[(u64, u64)]| results::hdr::encode_compressed(pairs);
        let mut body = json!({
            "cycles": self.cycles,
            "failed": self.failed,
            "unknown": self.unknown,
            "elapsed_ns": ns(self.elapsed),
            "per_task": self.per_task,
            "acquire_hist": text(&self.acquire),
            "release_hist": text(&self.release),
            "handoff_hist": text(&self.handoff),
            "handoff_other_hist": text(&self.handoff_other),
        });
        if let Some(cpu) = self.client_cpu {
            body["client_cpu_ns"] = ns(cpu).into();
        }
        if let Some(overlap) = &self.overlap {
            body["overlap"] = overlap.as_str().into();
        }
        body
    }

    /// Of the body of an `ok` to a load of `tasks` tasks. An error says which field is wrong, and how.
    pub(crate) fn of_body(body: &Value, tasks: u32) -> Result<Self, String> {
        let number = |field: &str| {
            body.get(field)
                .and_then(Value::as_u64)
                .ok_or_else(|| format!("`{field}` is missing, or no whole number"))
        };
        let pairs = |field: &str| {
            let text = body
                .get(field)
                .and_then(Value::as_str)
                .ok_or_else(|| format!("`{field}` is missing, or no string"))?;
            results::hdr::decode_any(text).map_err(|why| format!("`{field}`: {why}"))
        };
        // Where nothing is handed on there is nothing to say of it.
        let maybe = |field: &str| match body.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(_) => pairs(field),
        };
        let per_task: Option<Vec<u64>> = body
            .get("per_task")
            .and_then(Value::as_array)
            .filter(|list| list.len() == tasks as usize)
            .and_then(|list| list.iter().map(Value::as_u64).collect());
        Ok(LoadReport {
            cycles: number("cycles")?,
            failed: number("failed")?,
            unknown: number("unknown")?,
            elapsed: Duration::from_nanos(number("elapsed_ns")?),
            client_cpu: body
                .get("client_cpu_ns")
                .and_then(Value::as_u64)
                .map(Duration::from_nanos),
            per_task: per_task.ok_or("`per_task` is no list of one figure per task")?,
            acquire: pairs("acquire_hist")?,
            release: pairs("release_hist")?,
            handoff: maybe("handoff_hist")?,
            handoff_other: maybe("handoff_other_hist")?,
            overlap: body
                .get("overlap")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    /// Cycles per second of the window.
    #[must_use]
    pub fn cycles_per_s(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64().max(1e-9)
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
fn quantile(pairs: &[(u64, u64)], share: f64) -> Option<u64> {
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
    use super::*;

    fn report() -> LoadReport {
        LoadReport {
            cycles: 7,
            failed: 1,
            unknown: 2,
            elapsed: Duration::from_secs(2),
            client_cpu: Some(Duration::from_millis(3)),
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
        assert_eq!(LoadReport::of_body(&report().to_body(), 2), Ok(report()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        for field in [
            "cycles",
            "failed",
            "unknown",
            "elapsed_ns",
            "per_task",
            "acquire_hist",
            "release_hist",
        ] {
            let mut body = report().to_body();
            body[field] = json!({"a": 1});
            let error = LoadReport::of_body(&body, 2).unwrap_err();
            assert!(error.contains(field), "{field}: {error}");
        }
        let error = LoadReport::of_body(&report().to_body(), 3).unwrap_err();
        assert!(error.contains("per_task"), "{error}");
    }

    #[test]
    fn a_request_comes_back_as_it_was_asked() {
        let asked = LoadRequest {
            workload: "chain".into(),
            kind: "plain".into(),
            tasks: 8,
            locks: 1,
            warmup: Duration::from_millis(100),
            measure: Duration::from_millis(900),
            lease: None,
            hold: Duration::from_micros(5),
            think: Duration::ZERO,
            prefix: "p:".into(),
        };
        let request = asked.to_request("plain");
        assert_eq!(request.workload.as_deref(), Some("chain"));
        let back = LoadRequest::of_request(&request).expect("ours");
        assert_eq!(format!("{back:?}"), format!("{asked:?}"));
        for (workload, tasks, locks) in [("cycle", 1, 1), ("cycles", 0, 1), ("cycles", 1, 0)] {
            let mut wrong = request.clone();
            wrong.workload = Some(workload.into());
            wrong.tasks = Some(tasks);
            wrong.locks = Some(Locks::Count(locks));
            LoadRequest::of_request(&wrong).unwrap_err();
        }
    }
}
