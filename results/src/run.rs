//! What is kept of one execution: the contents of `run.json`, and of `--json` on standard output.
//!
//! Field names are a contract (see the README); add, never rename. Times are nanoseconds since the run began, or durations in
//! nanoseconds, and say so in their names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::verdict::{State, Verdicts};

/// The version of the form of `run.json` that this build writes.
pub const SCHEMA: u32 = 1;

/// Everything kept of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The form's version, [`SCHEMA`].
    pub schema: u32,
    /// The run's directory as given to the user, e.g. `runs/2026-11-21-host-quickstart`.
    pub run: String,
    /// `quickstart`, `bench` or `chaos`.
    pub command: String,
    /// How and where it was made.
    pub meta: Meta,
    /// Benchmarks.
    #[serde(default)]
    pub rows: Vec<BenchRow>,
    /// Comparisons between rows.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Scenarios.
    #[serde(default)]
    pub scenarios: Vec<ScenarioResult>,
    /// Whether everything came out as expected; `None` where nothing was expected.
    #[serde(default)]
    pub as_expected: Option<bool>,
    /// The run was cut short: what is here is what was measured until then.
    #[serde(default)]
    pub partial: bool,
    /// What a reader must know before believing a number.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How and where a run was made. All of it is taken by the caller: this crate has no clock and asks nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Meta {
    /// Start in RFC 3339, UTC.
    pub started_at: String,
    /// The whole command line, secrets removed.
    pub command_line: Vec<String>,
    /// The seed of everything random.
    pub seed: u64,
    /// `locklab`'s version.
    pub version: String,
    /// The commit it was built from, with `-dirty` if so.
    pub commit: String,
    /// The machine.
    pub environment: Environment,
    /// Wall time of the whole run.
    #[serde(default)]
    pub elapsed_ns: u64,
}

/// The machine a run was made on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// CPU model.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Operating system and kernel release.
    pub kernel: String,
    /// Compiler that built `locklab`, and the profile.
    pub rustc: String,
    /// `redis_version` and configuration that differs from default, per server binary.
    pub servers: BTreeMap<String, ServerInfo>,
    /// Load average over one minute at the start and at the end.
    pub load_average: [f64; 2],
    /// CPU time stolen by the hypervisor during the run, share of all, 0 to 1.
    pub steal: f64,
}

/// A server binary as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ServerInfo {
    /// `redis_version` of INFO.
    pub version: String,
    /// Configuration lines that it was started with.
    pub config: Vec<String>,
}

/// One measured row of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// The lock under test.
    pub subject: String,
    /// `single`, `sentinel`, `cluster`, `masters` or `external`.
    pub topology: String,
    /// The workload's name.
    pub workload: String,
    /// Concurrent tasks.
    pub tasks: u32,
    /// Lock names.
    pub locks: u32,
    /// Rounds measured.
    pub rounds: u32,
    /// Acquire and release pairs per second.
    pub cycles_per_s: Estimate,
    /// From the call of acquire to its return.
    pub acquire_ns: Quantiles,
    /// From the call of release to its return.
    pub release_ns: Quantiles,
    /// From the sending of a release to the return of the next acquire of that lock by another task; `null` without waiting.
    pub handoff_ns: Option<Quantiles>,
    /// Commands that clients sent per cycle, scripts' inner calls not included; `null` where they cannot be counted.
    pub commands_per_cycle: Option<f64>,
    /// Commands that servers counted per cycle, inner calls included.
    pub server_calls_per_cycle: Option<f64>,
    /// Server CPU per cycle in microseconds, all servers together.
    pub server_cpu_us_per_cycle: Option<f64>,
    /// Client CPU per cycle in microseconds.
    pub client_cpu_us_per_cycle: Option<f64>,
    /// Jain's index over tasks, 0 to 1.
    pub jain: f64,
    /// Acquires that gave up: waits of unknown length.
    pub censored: u64,
    /// Whether the lock was safe while it was measured.
    pub safety: Safety,
    /// Whether the figures may be quoted.
    pub valid: bool,
    /// Why not.
    pub why_invalid: Vec<String>,
}

/// Whether a lock was safe while it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Safety {
    /// Clean, violated or unknown.
    pub state: State,
}

/// A point and its interval over rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over rounds.
    pub median: f64,
    /// Lower end; `null` with one round.
    pub low: Option<f64>,
    /// Upper end; `null` with one round.
    pub high: Option<f64>,
}

/// Quantiles of a latency in nanoseconds. A quantile is `null` where there are too few samples for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[allow(missing_docs)]
pub struct Quantiles {
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
    pub n: u64,
}

/// Two rows of one run, or of two runs, side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The base.
    pub a: String,
    /// What is compared with it.
    pub b: String,
    /// The metric, by its field name.
    pub metric: String,
    /// `topology/workload/tasks`.
    pub r#where: String,
    /// b over a.
    pub ratio: Ratio,
    /// `better`, `worse`, `not-shown` or `equivalent`: b against a.
    pub verdict: String,
}

/// A ratio and its interval; no interval with too few rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The point.
    pub point: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// One scenario's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// The scenario's name.
    pub name: String,
    /// `single`, `sentinel`, `cluster`, `masters` or `external`.
    pub topology: String,
    /// The lock under test.
    pub subject: String,
    /// The kind of lock.
    pub kind: String,
    /// The seed of its plan.
    pub seed: u64,
    /// What was done to it.
    pub faults: Vec<FaultSpan>,
    /// Endings per operation: `{"acquire":{"ok":812,…},…}`.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// What the checkers say.
    pub verdicts: Verdicts,
    /// How soon it worked again.
    pub recovery: Recovery,
    /// What the scenario expects, verdict by verdict.
    pub expected: BTreeMap<String, String>,
    /// Whether it came out so.
    pub as_expected: bool,
    /// 0 as expected, 1 not, 2 unknown.
    pub exit_code: u8,
    /// Grants per second of load, over the whole scenario.
    #[serde(default)]
    pub grants_per_s: f64,
    /// Length of the load in nanoseconds.
    #[serde(default)]
    pub load_ns: u64,
    /// Directory of its history and logs, relative to the run's.
    #[serde(default)]
    pub dir: String,
    /// What a reader must know (down-time of the servers, subject's log, …).
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A fault, its targets, when it was injected and healed, and the proof that it bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSpan {
    /// Its name, as in the registry.
    pub fault: String,
    /// Nodes, clients or links.
    pub targets: Vec<String>,
    /// When it was injected.
    pub injected_ns: u64,
    /// When it was healed; `null`: not in this run.
    pub healed_ns: Option<u64>,
    /// Whether it can be shown to have bitten.
    pub bit: bool,
    /// What shows it.
    pub proof: String,
}

/// How soon a lock worked again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct Recovery {
    /// From the first fault to the first grant after it; `null` without one.
    pub first_grant_after_fault_ns: Option<u64>,
}
