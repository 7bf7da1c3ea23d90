//! The rows `SUBJECT/TOPOLOGY/TASKS`: what is measured for the table, and what Criterion found.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use bench::stats::paired;
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
/// Of each row.
pub(crate) const SAMPLES: usize = 20;
const TASKS: [u32; 3] = [1, 16, 64];

/// A row that ran.
pub(crate) struct Row {
    subject: &'static str,
    topology: &'static str,
    tasks: u32,
    /// Of its own samples and of the first lock's that took turns with them; empty where it is the first
    /// itself.
    pairs: Vec<[f64; 2]>,
}

/// Measures what the filter lets through. After each sample of a row the first lock of its topology runs for
/// as many cycles, since a machine's pace drifts; Criterion does not see that time.
pub(crate) fn measure(criterion: &mut Criterion, runtime: &Runtime) -> Vec<Row> {
    let mut ran = Vec::new();
    for kind in TopologyKind::REDIS {
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
                let (mut client, mut pairs) = (None, Vec::new());
                group.bench_function(BenchmarkId::from_parameter(tasks), |b| {
                    // Only where it is asked for.
                    let client = client.get_or_insert_with(|| {
                        let url = servers.url();
                        let first = (subject != subjects[0]).then(|| load::connect(subjects[0], &url));
                        runtime.block_on(async {
                            let first = match first {
                                Some(first) => Some(first.await),
                                None => None,
                            };
                            (load::connect(subject, &url).await, first)
                        })
                    });
                    b.iter_custom(|times| {
                        let took = runtime.block_on(load::cycles(&client.0, tasks, times));
                        if let Some(first) = &client.1 {
                            let beside = runtime.block_on(load::cycles(first, tasks, times));
                            pairs.push([took, beside].map(|time| time.as_secs_f64()));
                        }
                        took
                    });
                });
                group.finish();
                // Those before the last samples warmed up.
                pairs.drain(..pairs.len().saturating_sub(SAMPLES));
                if client.is_some() {
                    ran.push(Row { subject, topology, tasks, pairs });
                }
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
        let path: PathBuf = output.join(group).join(self.tasks.to_string()).join("new/estimates.json");
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
            ratio: {
                let [own, first] = [0, 1].map(|n| self.pairs.iter().map(|pair| pair[n]).collect::<Vec<_>>());
                // The shorter time is the higher pace.
                paired::ratio(&own, &first)
            },
            cycles_per_s: Interval {
                point: per_s(mean.point_estimate),
                // The shorter time is the higher pace.
                low: per_s(mean.confidence_interval.upper_bound),
                high: per_s(mean.confidence_interval.lower_bound),
            },
        })
    }
}
