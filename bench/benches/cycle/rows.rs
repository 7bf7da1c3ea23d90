//! The rows `SUBJECT/TOPOLOGY/TASKS`: what is measured for the table, and what Criterion found.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use cluster_config::TopologyKind;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::{
    load,
    servers::Servers,
    table::{Interval, Measured},
};

/// The first of each is what the others are set beside.
const ONE_DEPLOYMENT: [&str; 7] = [
    "lock-core:reentrant",
    "lock-core:plain",
    "lock-core:fair",
    "lock-core:queued",
    "lock-core:fenced",
    "baseline:set-nx-px",
    "baseline:raw-scripts",
];
const SEVERAL_MASTERS: [&str; 1] = ["lock-core:redlock"];
const TASKS: [u32; 3] = [1, 16, 64];

/// A row that ran.
pub(crate) struct Row {
    subject: &'static str,
    topology: &'static str,
    tasks: u32,
    base: &'static str,
}

/// Measures what the filter lets through: rows that are set beside each other one after another, since a machine's pace drifts.
pub(crate) fn measure(criterion: &mut Criterion, runtime: &Runtime) -> Vec<Row> {
    let mut ran = Vec::new();
    for kind in TopologyKind::ALL {
        let mut servers = Servers::new(runtime, kind);
        let subjects: &[_] = match kind {
            TopologyKind::Masters => &SEVERAL_MASTERS,
            _ => &ONE_DEPLOYMENT,
        };
        for tasks in TASKS {
            for &subject in subjects {
                let topology = kind.name();
                let mut group = criterion.benchmark_group(format!("{subject}/{topology}"));
                group.throughput(Throughput::Elements(1));
                // Samples of one length, so that each counts alike.
                group.sampling_mode(SamplingMode::Flat);
                let mut client = None;
                group.bench_function(BenchmarkId::from_parameter(tasks), |b| {
                    // Only where it is asked for.
                    let client = client.get_or_insert_with(|| {
                        ran.push(Row {
                            subject,
                            topology,
                            tasks,
                            base: subjects[0],
                        });
                        runtime.block_on(load::connect(subject, &servers.url()))
                    });
                    b.iter_custom(|times| runtime.block_on(load::cycles(client, tasks, times)));
                });
                group.finish();
            }
        }
        servers.down();
    }
    ran
}

/// What Criterion writes of a benchmark, as far as it is wanted here.
#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Bounds,
}

#[derive(Deserialize)]
struct Bounds {
    lower_bound: f64,
    upper_bound: f64,
}

impl Row {
    /// Its figures below Criterion's directory; `None` where it wrote none since then, e.g. with `--test`.
    pub(crate) fn read(self, output: &Path, since: SystemTime) -> Option<Measured> {
        let group = format!("{}_{}", self.subject, self.topology).replace(':', "_");
        let path: PathBuf = output
            .join(group)
            .join(self.tasks.to_string())
            .join("new/estimates.json");
        if path.metadata().ok()?.modified().ok()? < since {
            return None;
        }
        let estimates: Estimates = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let per_s = |ns: f64| 1e9 / ns;
        let mean = estimates.mean;
        Some(Measured {
            subject: self.subject,
            topology: self.topology,
            tasks: self.tasks,
            base: self.base,
            cycles_per_s: Interval {
                point: per_s(mean.point_estimate),
                // The shorter time is the higher pace.
                low: per_s(mean.confidence_interval.upper_bound),
                high: per_s(mean.confidence_interval.lower_bound),
            },
        })
    }
}
