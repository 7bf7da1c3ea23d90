//! What is kept of one execution: the contents of `run.json`, and of `--json` on standard output.
//!
//! Field names are a contract: add, never rename. Times are in nanoseconds, since the run began or durations.

use std::collections::BTreeMap;
use std::fmt;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::audit::{Audit, AuditOutcome, AuditedScenario, Inherent};
use crate::record::measures::{Measures, Sweep, bare, lock};
use crate::record::open_loop::OpenLoop;
use crate::record::over_time::OverTime;
use crate::record::timeline::TimelineData;
use crate::record::verdict::{State, Verdict, Verdicts};
use crate::record::watch::WatchReport;
use crate::wording::spelling::nearest;
use crate::wording::units::{self, enclosed};

/// The version of the form of `run.json` that this build writes.
pub const SCHEMA: u32 = 1;

/// Everything kept of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
    /// Rows at rising levels, set beside each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<Sweep>,
    /// Scenarios.
    #[serde(default)]
    pub scenarios: Vec<ScenarioResult>,
    /// Scenarios that there was nothing to try of, since the lock does not work there or has no such kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_applicable: Vec<NotApplicable>,
    /// Which part of a larger plan this is; `None` of a whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PlanPart>,
    /// Where each part of a plan ran, of a run that was put together from parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRan>,
    /// The scorecard of the locks that were audited; `None` of any other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Box<Audit>>,
    /// What was seen of locks in the traffic of servers; `None` of any other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<WatchReport>>,
    /// Whether everything came out as expected; `None` where nothing was expected.
    #[serde(default)]
    pub as_expected: Option<bool>,
    /// The run was cut short: what is here is what was measured until then.
    #[serde(default)]
    pub partial: bool,
    /// What a reader must know before believing a number.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Configuration in which the parts differ, where several runs were put together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// The runs that were joined for a report alone; empty of a run that is kept.
    #[serde(skip)]
    pub joined: Vec<String>,
}

/// A part of a plan that several machines share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct PlanPart {
    /// Its number, from 0.
    pub index: u32,
    /// How many parts there are.
    pub of: u32,
    /// Everything that all parts together run, in its order: the same in each part.
    pub plan: Vec<ScenarioShare>,
    /// The exit code of this part; `None` while it runs, and where it was killed.
    pub exit_code: Option<u8>,
}

/// Where a part of a plan ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct PartRan {
    /// Its number, from 0.
    pub part: u32,
    /// The machine.
    pub host: String,
    /// What it had of the plan: clients of one load, or how many scenarios.
    pub had: String,
    /// Its exit code; `None` where it did not end by itself.
    pub exit_code: Option<u8>,
}

impl PartRan {
    pub(crate) fn of(part: &PlanPart, host: &str) -> Self {
        let mut own = part.plan.iter().filter(|share| share.part == part.index);
        let had = match (own.next(), own.count()) {
            (None, _) => "nothing".to_owned(),
            (Some(one), 0) => one.name.clone(),
            (Some(_), more) => format!("{} of {} runs", more + 1, part.plan.len()),
        };
        PartRan { part: part.index, host: host.to_owned(), had, exit_code: part.exit_code }
    }
}

impl fmt::Display for PartRan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, host, had) = (self.part, &self.host, &self.had);
        let end = self.exit_code.map_or(", did not end", |_| "");
        write!(f, "part {part} on {host}: {had}{end}")
    }
}

/// A run of a scenario, and the part that makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct ScenarioShare {
    /// The scenario.
    pub name: String,
    /// The seed of its plan.
    pub seed: u64,
    /// The part, from 0.
    pub part: u32,
    /// What decides what it runs, each by its word, in short or as a hash; empty in runs of older builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
}

/// A scenario that a lock could not be tried on: neither kept nor broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct NotApplicable {
    /// The scenario.
    pub name: String,
    /// The shape of its servers.
    pub topology: String,
    /// The lock.
    pub subject: String,
    /// Why, in a sentence.
    pub why: String,
}

impl fmt::Display for NotApplicable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not applicable: {} on {}: {}", self.name, self.topology, self.why)
    }
}

/// How and where a run was made, as the caller says: this crate has no clock and asks no server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>")]
    pub steal: f64,
}

/// A server binary as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct ServerInfo {
    /// `redis_version` of INFO.
    pub version: String,
    /// Configuration lines that it was started with.
    pub config: Vec<String>,
}

/// One measured row of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
    /// From the sending of a release to another task's return from acquire; `null` without waiting.
    pub handoff_ns: Option<Quantiles>,
    /// Commands that clients sent per cycle, without scripts' inner calls; `null` where not counted.
    pub commands_per_cycle: Option<f64>,
    /// Commands that servers counted per cycle, inner calls included.
    pub server_calls_per_cycle: Option<f64>,
    /// Server CPU per cycle in microseconds, all servers together.
    pub server_cpu_us_per_cycle: Option<f64>,
    /// Client CPU per cycle in microseconds.
    pub client_cpu_us_per_cycle: Option<f64>,
    /// Jain's index over tasks, 0 to 1; `null` where nobody was served.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>")]
    pub jain: f64,
    /// Acquires that gave up: waits of unknown length.
    pub censored: u64,
    /// Whether the lock was safe while it was measured.
    pub safety: Safety,
    /// Whether the figures may be quoted.
    pub valid: bool,
    /// Why not.
    pub why_invalid: Vec<String>,
    /// Everything beyond: the load, hand-offs, costs, intervals, noise.
    #[serde(default)]
    pub measures: Box<Measures>,
    /// The machine or run that it is from, where several were put together; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// Whether a lock was safe while it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Safety {
    /// Clean, violated or unknown.
    pub state: State,
}

/// A point and its interval over rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Estimate {
    /// Median over rounds.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>")]
    pub median: f64,
    /// Lower end; `null` with one round.
    pub low: Option<f64>,
    /// Upper end; `null` with one round.
    pub high: Option<f64>,
}

/// Quantiles of a latency in nanoseconds. A quantile is `null` where there are too few samples for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Comparison {
    /// The base.
    pub a: String,
    /// What is compared with it.
    pub b: String,
    /// The metric, by its field name.
    pub metric: String,
    /// `topology/workload/tasks` and a proxy's round trip: `single/contended/16/+3ms`.
    pub r#where: String,
    /// b over a.
    pub ratio: Ratio,
    /// `better`, `worse`, `not-shown` or `equivalent`: b against a.
    pub verdict: String,
    /// The same of an arm that is `a` once more: a difference that is not larger is not shown.
    pub same_again: Option<Ratio>,
    /// How likely a difference so large is without any, two-sided; `null` with too few rounds.
    pub p: Option<f64>,
    /// `p` after Holm's correction for all comparisons of the run.
    pub p_adjusted: Option<f64>,
    /// The smallest true difference that so many rounds show in four of five runs, as a ratio above 1.
    pub detectable: Option<f64>,
}

/// A ratio and its interval; no interval with too few rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Ratio {
    /// The point.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>")]
    pub point: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// How far replicas were behind their masters, in time, while load ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct ReplicaLag {
    /// It was measured so often.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// What a measured outage means for a usual service whose master fails once a month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct FailoverRisk {
    /// The configuration, as `locklab risk` names it.
    pub configuration: String,
    /// From the kill to the first grant after it.
    pub outage_ns: u64,
    /// Grants a year of a lock that somebody holds.
    pub double_grants_per_year: f64,
    /// The usual service, in words.
    pub service: String,
}

/// One scenario's outcome.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
    /// 0 as expected, 1 not, 2 unknown; of a user's own lock 1 where it was lost, whatever its file expects.
    pub exit_code: u8,
    /// What was measured of its clients, by the names of [`BOUNDS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Grants per second of load, over the whole scenario.
    #[serde(default, deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>")]
    pub grants_per_s: f64,
    /// Length of the load in nanoseconds.
    #[serde(default)]
    pub load_ns: u64,
    /// The lease of its holds, asked for or renewed by the library; `None` in runs of earlier builds.
    pub lease_ns: Option<u64>,
    /// Directory of its history and logs: one name in the run's own, or empty for that itself.
    #[serde(default)]
    pub dir: String,
    /// What a reader must know (down-time of the servers, subject's log, …).
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the history may be incomplete, or the run is partial: such a run convicts, but does not acquit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    /// What the scenario is about, in its file's words.
    #[serde(default)]
    pub about: String,
    /// Where its expectation comes from, in its file's words.
    #[serde(default)]
    pub claim: String,
    /// Where its file says what it expects, as `locks.toml:12`; empty of a built-in scenario.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub declared_at: String,
    /// What a grant waits for beside the master: `none`, `wait:1`, `wait:all`; empty where not applicable.
    #[serde(default)]
    pub durability: String,
    /// Why no lock keeps what is expected to be violated, and what helps; `None` where another lock keeps it.
    pub inherent: Option<Inherent>,
    /// Whether the lock says that it tells its holder of a loss; `None` where it says nothing of itself.
    pub tells_holder: Option<bool>,
    /// The longest time for which a free lock was asked for and not granted; `None` where nobody asked.
    pub without_grant_ns: Option<u64>,
    /// How far replicas were behind before the first fault; `None`: there was none, or no time.
    pub lag_before_faults: Option<ReplicaLag>,
    /// The same from the first fault on.
    pub lag_from_first_fault: Option<ReplicaLag>,
    /// What the configuration means where masters fail; `None` where no master was replaced.
    pub risk: Option<FailoverRisk>,
    /// What the servers were configured with beside their defaults, e.g. `appendonly` is `yes`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub server_config: BTreeMap<String, String>,
    /// The server that it ran on, by its own word: `redis-7.0.15`; empty where it was not asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// How callers used the lock: `clients`, `tasks`, `hold`, …, with units; empty in runs of earlier builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub load: BTreeMap<String, String>,
    /// The holds around the worst anomaly, for the picture; `None` where nothing is to be shown.
    pub timeline: Option<TimelineData>,
    /// Grants over time and by owner; `None` where nothing was granted, or no history was judged.
    pub over_time: Option<OverTime>,
    /// How long callers waited, where the load has a `rate`; else `None`.
    pub open_loop: Option<OpenLoop>,
    /// The machine or run that it is from, where several were put together; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// A fault, its targets, when it was injected and healed, and the evidence that it took effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct FaultSpan {
    /// Its name, as in the registry.
    pub fault: String,
    /// Nodes, clients or links.
    pub targets: Vec<String>,
    /// When its injection began.
    pub injected_ns: u64,
    /// When its injection was complete: the server killed, the rule in place; `None`: not in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<u64>,
    /// When it was healed; `null`: not in this run.
    pub healed_ns: Option<u64>,
    /// Whether there is evidence that it took effect.
    pub bit: bool,
    /// What shows it.
    pub proof: String,
    /// From its injection to the first grant asked for once it was in place, or half a second later.
    #[serde(default)]
    pub first_grant_after_ns: Option<u64>,
    /// Recovery from it; `None` where no history was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<FaultRecovery>,
}

/// Recovery from one fault. The window begins with the injection and ends with the heal, or with the first
/// grant after the injection if that is later or nothing was healed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct FaultRecovery {
    /// From the last grant before the injection to the injection; `None`: there was no grant before it.
    pub last_grant_before_ns: Option<u64>,
    /// The window's length.
    pub window_ns: u64,
    /// Operations called in the window, or under way when it began.
    pub operations: u64,
    /// The share of them that ended failed or unknown, 0.0 to 1.0; `None` of none.
    pub error_share: Option<f64>,
    /// The share of them without an answer a second after their wait, 0.0 to 1.0; `None` of none.
    pub hang_share: Option<f64>,
    /// From the injection until the first holder was notified that it lost the lock; `None`: none was.
    pub holder_knew_ns: Option<u64>,
    /// Acquires under way in the first second after the heal (after the injection, where nothing was healed).
    pub herd: u64,
    /// Locks that stood still from the injection on, until the next one.
    pub stuck_locks: u64,
    /// Grants before the injection.
    #[serde(default)]
    pub grants_before: u64,
    /// Grants from the injection to the heal; to the end of the history, where nothing was healed.
    #[serde(default)]
    pub grants_during: u64,
    /// Grants after the heal.
    #[serde(default)]
    pub grants_after: u64,
    /// Holds granted before the injection and believed in after the heal and the servers' next write.
    #[serde(default)]
    pub holds_across: u64,
}

/// How soon a lock worked again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Recovery {
    /// The longest time from the injection of a fault to the first grant after it, over the faults after
    /// which there was one; `null` if there was none. Each fault's own is in its [`FaultSpan`].
    pub first_grant_after_fault_ns: Option<u64>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Difference {
    /// The run that is compared with the base.
    pub run: String,
    /// The setting, e.g. `environment.cores` or `servers.redis.version`.
    pub field: String,
    /// In the base; empty if it is not there.
    pub a: String,
    /// In the run; empty if it is not there.
    pub b: String,
}

/// What is expected of recovery, beside the classes: `< 3s` from each fault to the next grant.
pub const RECOVERY: &str = "recovery";

/// Figures of which a bound can be expected beside the classes, `< 20` or `> 0.5`, and what each is.
pub const BOUNDS: [(&str, &str); 5] = [
    (
        "fairness",
        "Jain's index over the clients' grants since the last fault was over, of clients that lived: 1 is even, one over their number is one for all",
    ),
    (
        "told_ms",
        "the longest time in ms from a fault until the first of its holders was told that it lost its lock",
    ),
    ("connections", "the most connections of one client"),
    ("subscriptions", "the most subscriptions of all clients together"),
    ("memory_mb", "the most resident memory of one client's process, in MB"),
];

impl Run {
    /// An empty run of `command` (`quickstart`, `bench`, `chaos`), of the form that this build writes.
    pub fn new(run: impl Into<String>, command: impl Into<String>, meta: Meta) -> Self {
        Self { schema: SCHEMA, run: run.into(), command: command.into(), meta, ..Self::default() }
    }

    /// The run with the scenarios of one name alone.
    pub fn only(mut self, scenario: &str) -> Result<Self, String> {
        let names = self.scenarios.iter().map(|result| result.name.as_str());
        if !names.clone().contains(&scenario) {
            let meant = nearest(scenario, names);
            return Err(format!("the run has no scenario `{scenario}`{meant}"));
        }
        self.scenarios.retain(|result| result.name == scenario);
        let as_expected = self.scenarios.iter().all(|result| result.as_expected);
        Ok(Self {
            as_expected: Some(as_expected),
            audit: None,
            rows: Vec::new(),
            sweeps: Vec::new(),
            comparisons: Vec::new(),
            not_applicable: Vec::new(),
            ..self
        })
    }

    /// The result that decided what became of an audited scenario; `None` where none was kept.
    pub(crate) fn decisive(&self, scenario: &AuditedScenario) -> Option<&ScenarioResult> {
        let decided = scenario.decisive()?;
        self.scenarios.iter().find(|result| result.dir == decided.dir)
    }

    /// The run that keeps a result's records: this one, or of runs joined for a report the result's own.
    pub(crate) fn keeper<'a>(&'a self, dir: &str) -> &'a str {
        let own = |name: &&String| {
            dir.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.joined.iter().find(own).unwrap_or(&self.run)
    }

    /// The directories of its records, wherever it names one, each relative to its own.
    pub fn dirs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let audited = self.audit.iter_mut().flat_map(|audit| &mut audit.subjects);
        let audited = audited.flat_map(|subject| &mut subject.scenarios);
        let tried = audited.flat_map(|one| &mut one.runs).flat_map(|tried| {
            std::iter::once(&mut tried.dir).chain(tried.twin.as_mut().map(|twin| &mut twin.dir))
        });
        self.scenarios.iter_mut().map(|result| &mut result.dir).chain(tried)
    }

    /// The last part of its directory.
    pub(crate) fn name(&self) -> &str {
        let path = self.run.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    }

    /// The overall outcome: `not-as-expected` if any part is, else `unknown` if any part is or the run is
    /// partial, else `as-expected`; `none` where nothing was expected.
    pub fn outcome(&self) -> Outcome {
        let worst = match &self.audit {
            // Its scenarios were made for other locks: what they expect is not what an audit asks.
            Some(audit) => audit.worst().map(AuditOutcome::of_run),
            None => self.scenarios.iter().map(ScenarioResult::outcome).max(),
        };
        let stated = match self.as_expected {
            Some(true) => Outcome::AsExpected,
            // A run says no both for a failed and for an unknown scenario; the scenarios say which.
            Some(false) if worst == Some(Outcome::Unknown) => Outcome::Unknown,
            Some(false) => Outcome::NotAsExpected,
            None => Outcome::None,
        };
        let outcome = stated.max(worst.unwrap_or(Outcome::None));
        if self.partial { outcome.max(Outcome::Unknown) } else { outcome }
    }
}

/// What came out, against what was expected; in order, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Nothing was expected.
    None,
    /// All as expected.
    AsExpected,
    /// Too little is known to say.
    Unknown,
    /// At least one part is not as expected.
    NotAsExpected,
}

impl Outcome {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "no expectation",
            Self::AsExpected => "as expected",
            Self::Unknown => "unknown",
            Self::NotAsExpected => "not as expected",
        }
    }

    /// One character for it, which no colour is needed to tell from the others.
    pub fn glyph(self) -> char {
        match self {
            Self::None => '·',
            Self::AsExpected => '✓',
            Self::Unknown => '?',
            Self::NotAsExpected => '✗',
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

impl Estimate {
    /// `99 800–103 900`; empty without an interval.
    pub(crate) fn interval(&self) -> String {
        self.low.zip(self.high).map_or(String::new(), |(low, high)| units::range(low, high))
    }

    /// ` (99 800–103 900)`, to stand behind a figure; empty without an interval.
    pub(crate) fn behind(&self) -> String {
        units::enclosed(" (", &self.interval(), ")")
    }
}

impl Environment {
    /// `vm: AMD EPYC, 2 cores, 23.5 GiB of memory, Linux 6.18`, without what is not known.
    pub(crate) fn machine(&self) -> String {
        let known = |number: u64, words: String| if number > 0 { words } else { String::new() };
        let (cores, memory) = (self.cores, self.memory_bytes);
        let words = [
            self.cpu.clone(),
            known(cores.into(), format!("{cores} cores")),
            known(memory, format!("{} of memory", units::bytes(memory))),
            self.kernel.clone(),
        ];
        let words = words.iter().filter(|word| !word.is_empty()).join(", ");
        [&self.host, &words].iter().filter(|part| !part.is_empty()).join(": ")
    }

    /// Each server binary with its version.
    pub(crate) fn server_versions(&self) -> String {
        let versions = self.servers.iter().map(|(name, server)| format!("{name} {}", server.version));
        versions.format(", ").to_string()
    }
}

impl BenchRow {
    /// The lock under test: the subject, and the kind that it was asked for where that is not its own.
    pub fn lock(&self) -> String {
        lock(&self.subject, self.measures.load.kind.as_deref())
    }

    /// Whether its figures may not be shown: the lock was proven unsafe while it was measured.
    pub(crate) fn is_void(&self) -> bool {
        self.safety.state == State::Violated
    }

    /// Whether somebody wakes its waiters, as far as is known: a driver and the plain recipes poll.
    pub(crate) fn is_woken(&self) -> bool {
        let polls = ["exec:", "baseline:", "broken:"].iter().chain(&["lock-core:spin"]);
        let spins = self.measures.load.kind.as_deref() == Some("spin");
        !spins && !polls.into_iter().any(|prefix| self.subject.starts_with(prefix))
    }

    /// The round trip that a proxy was to add; `None` where it added none.
    pub(crate) fn added_rtt_ns(&self) -> Option<u64> {
        self.measures.load.added_rtt_ns.filter(|ns| *ns > 0)
    }

    /// `single`, what grants wait for, as in `cluster, wait:all`, and through a proxy `single +3 ms`.
    pub(crate) fn site(&self) -> String {
        let added = self.added_rtt_ns().map(units::duration);
        let waits_for = enclosed(", ", bare(&self.measures.load.durability), "");
        self.topology.clone() + &waits_for + &enclosed(" +", &added.unwrap_or_default(), "")
    }

    /// Where it was measured: topology, added round trip, workload, tasks, and of several the machine.
    pub fn place(&self) -> String {
        with_origin(format!("{} · {} · {} tasks", self.site(), self.workload, self.tasks), &self.origin)
    }

    /// The same behind its lock, for a sentence.
    pub fn title(&self) -> String {
        let from = enclosed(", from ", &self.origin, "");
        let (lock, site, workload) = (self.lock(), self.site(), &self.workload);
        format!("{lock} on {site}, {workload}, {} tasks{from}", self.tasks)
    }
}

impl FaultSpan {
    /// Its name and its targets.
    pub fn label(&self) -> String {
        format!("{} {}", self.fault, self.targets.join(" + "))
    }
}

/// Behind a place the machine that it is from, where several runs were put together.
pub(crate) fn with_origin(place: String, origin: &str) -> String {
    place + &enclosed(" · ", origin, "")
}

impl ScenarioResult {
    /// The faults that left no evidence of an effect, each in a sentence.
    pub(crate) fn without_effect(&self) -> impl Iterator<Item = String> {
        self.faults.iter().filter(|fault| !fault.bit).map(|FaultSpan { fault, targets, .. }| {
            let targets = targets.join(" + ");
            format!("no evidence that the fault {fault} on {targets} took effect")
        })
    }

    /// Why the verdicts came out as they did. What holds for every verdict is said once.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let incomplete = self.incomplete.iter().map(|why| format!("incomplete: {why}"));
        let of_verdicts = self.verdicts.iter().flat_map(|(class, verdict)| {
            let why = self.own_reasons(verdict);
            why.map(move |why| format!("{class}: {why}"))
        });
        incomplete.chain(of_verdicts).collect()
    }

    /// What a verdict alone says: its reasons, and its first anomaly.
    pub(crate) fn own_reasons<'a>(&'a self, verdict: &'a Verdict) -> impl Iterator<Item = &'a String> {
        let own = |why: &&String| !self.incomplete.contains(why);
        verdict.why.iter().filter(own).chain(verdict.anomalies.first().map(|anomaly| &anomaly.proof))
    }

    /// Where it ran and with what: topology, subject, and the machine where several were put together.
    pub fn place(&self) -> String {
        with_origin(with_origin(format!("{} · {}", self.topology, self.subject), &self.server), &self.origin)
    }

    /// What came out, from `exit_code` and `as_expected`; `None` where nothing was expected and nothing
    /// failed.
    pub fn outcome(&self) -> Outcome {
        match (self.exit_code, self.as_expected) {
            (2, _) => Outcome::Unknown,
            (0, true) if self.expected.is_empty() => Outcome::None,
            (0, true) => Outcome::AsExpected,
            // What a file expects to be lost, and was: the exit code is about the lock alone.
            (1, true) if self.is_lost() => Outcome::AsExpected,
            _ => Outcome::NotAsExpected,
        }
    }

    /// Whether an expectation is met: of a class, of `recovery`, or of a bound. `None`: nothing can be said.
    pub fn meets(&self, class: &str, expected: &str) -> Option<bool> {
        if let Some((bound, _)) = BOUNDS.iter().find(|(name, _)| *name == class) {
            let found = *self.figures.get(*bound)?;
            let number = |word: &str| word.trim().parse::<f64>().ok();
            return match expected.split_at_checked(1)? {
                ("<", limit) => Some(found < number(limit)?),
                (">", limit) => Some(found > number(limit)?),
                _ => None,
            };
        }
        if class != RECOVERY {
            return self.verdicts.get(class)?.meets(expected, self.load_ns);
        }
        let limit = humantime::parse_duration(expected.strip_prefix('<')?.trim()).ok()?;
        let after = self.faults.iter().map(|fault| fault.first_grant_after_ns);
        let soon = |ns: Option<u64>| ns.is_some_and(|ns| u128::from(ns) < limit.as_nanos());
        (!self.faults.is_empty()).then(|| after.into_iter().all(soon))
    }

    /// What to say where nothing was granted after the last fault: a load shorter than a lease shows little.
    pub fn unrecovered(&self) -> String {
        let last_ns = self.faults.iter().map(|fault| fault.injected_ns).max();
        match self.lease_ns {
            Some(lease_ns) if self.load_ns <= lease_ns.saturating_add(last_ns.unwrap_or(0)) => {
                let (lease, load) = (units::duration(lease_ns), units::duration(self.load_ns));
                format!("not within this run (lease {lease}, load {load})")
            }
            _ => "never".to_owned(),
        }
    }

    /// Anomalies of `class` per minute of load; `None` without a load of known length.
    pub fn per_minute(&self, class: &str) -> Option<f64> {
        self.verdicts.get(class)?.rate_per_minute(self.load_ns)
    }
}

/// JSON has no NaN: it is written as `null`, and must not make a whole run unreadable when it comes back.
fn null_is_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
