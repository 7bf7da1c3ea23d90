//! What a benchmark row says beyond rate and latency: load, hand-offs, cost, and how sure that is.
//!
//! A part that does not apply or was not measured is absent; no zero stands for "not known".

use serde::{Deserialize, Serialize};

use crate::record::intervals::Intervals;
use crate::record::run::Quantiles;
use crate::wording::units::enclosed;

/// A durability, where grants wait for any.
pub(crate) fn bare(durability: &str) -> &str {
    if durability == "none" { "" } else { durability }
}

/// How a row was loaded.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct LoadShape {
    /// `closed` (a task's next cycle begins when its last is over) or `open` (cycles begin on a schedule).
    pub mode: String,
    /// Open loop: `constant` or `poisson`.
    pub arrivals: Option<String>,
    /// Open loop: wanted cycles per second.
    pub rate_per_s: Option<f64>,
    /// The kind of lock that was asked for, where that is not the subject's own.
    pub kind: Option<String>,
    /// Time between grant and release.
    pub hold_ns: u64,
    /// Time between release and the next acquire.
    pub think_ns: u64,
    /// What a cycle asks for beyond one lock: the share that writes, locks at once, permits.
    pub asks: Option<String>,
    /// The lease; `null` is renewal.
    #[serialize_always]
    pub lease_ns: Option<u64>,
    /// What a grant waited for beside the master: `none`, `wait:K`, `wait:all`.
    pub durability: String,
    /// The round trip that a proxy was to add; `null` is a direct connection.
    #[serialize_always]
    pub added_rtt_ns: Option<u64>,
    /// The round trip as it is: the median of PINGs before the load, on a connection of the harness.
    #[serde(default)]
    #[serialize_always]
    pub round_trip_ns: Option<u64>,
    /// The same on the way past the proxy: what lies between the two is what the proxy really added.
    pub direct_round_trip_ns: Option<u64>,
    /// Clients of their own identity that shared the tasks.
    pub clients: u32,
    /// Whether each client was a process of its own, apart from the one that measured.
    pub client_processes: bool,
    /// Whether a driver ran the loop itself: the row is then its word, and nothing in it was judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_loop: bool,
    /// How many generators shared the load; absent for one.
    pub generators: Option<u32>,
    /// How far apart their windows may have begun, at most; of several.
    pub generators_apart_ns: Option<u64>,
    /// The cores that clients were kept on, apart from the servers'; empty where they were not.
    #[serde(default)]
    pub client_cores: Vec<u32>,
}

/// `lock-core:plain`, and where it was asked for another kind than its own, `lock-core:plain (fair)`.
pub fn lock(subject: &str, kind: Option<&str>) -> String {
    subject.to_owned() + &enclosed(" (", kind.unwrap_or_default(), ")")
}

/// How an open loop kept its schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Pacing {
    /// Cycles per second that the schedule asked for.
    pub offered_per_s: f64,
    /// Cycles per second that were completed.
    pub achieved_per_s: f64,
    /// Ticks that began more than a millisecond after they were due.
    pub late: u64,
    /// Ticks that were due in the window and had not begun at its end.
    pub not_begun: u64,
    /// How late the generator itself was: from the due time to its own waking, before any task is looked for.
    pub lag_ns: Quantiles,
    /// From the due time to the sending of the acquire.
    pub start_lag_ns: Quantiles,
}

impl Pacing {
    /// An open loop that completes a smaller share of what was offered did not keep its schedule.
    pub const KEPT: f64 = 0.99;

    /// Whether so much of what was offered was completed that the schedule counts as kept.
    pub fn is_kept(&self) -> bool {
        self.achieved_per_s >= Self::KEPT * self.offered_per_s
    }
}

/// How a lock went from hand to hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct HandoffMeasures {
    /// Grants in the window.
    pub grants: u64,
    /// Grants that followed a hold of another task.
    pub to_another: u64,
    /// Grants that followed a hold of the same task.
    pub to_itself: u64,
    /// From the answer to a release to the grant of the next task that was waiting by then.
    pub notified_ns: Option<Quantiles>,
    /// Commands that clients sent per hand-off to another task.
    pub commands_per_handoff: Option<f64>,
    /// Commands per grant without the acquire that succeeded and the release: the price of waiting.
    pub wasted_commands_per_grant: Option<f64>,
    /// Server CPU per hand-off to another task, microseconds.
    pub server_cpu_us_per_handoff: Option<f64>,
    /// The most grants to later callers that one call had to see pass.
    pub most_bypasses: u64,
    /// Grants that passed over a call that was there before, as a share of all, 0 to 1.
    pub inversions: f64,
    /// Tasks that asked in the window and got nothing in it, over all rounds.
    pub starved: u64,
    /// The share of the client that got least, over the mean of all: the median of rounds; `null` with one.
    #[serde(default)]
    pub share_min: Option<f64>,
    /// Longest wait over median wait.
    pub longest_over_median: Option<f64>,
    /// Share of the window in which the lock was free although a task waited, 0 to 1; of permits the mean.
    pub idle: f64,
    /// The longest of these times.
    pub longest_idle_ns: u64,
    /// Times that the lock was free for more than 100 ms although a task waited.
    pub lost_wakeups: u64,
}

/// What it costs to keep locks that are held for long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Renewal {
    /// Locks held through the window.
    pub held: u64,
    /// The lease that was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ns: Option<u64>,
    /// The length of each round's window; in one shorter than the lease a lock may not have been renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
    /// Renewals per second that clients reported; `null` where they report none.
    pub renewals_per_s: Option<f64>,
    /// Commands per second and 1,000 held locks.
    pub commands_per_s_per_1000: Option<f64>,
    /// Server CPU per second and 1,000 held locks, microseconds: the median of rounds.
    pub server_cpu_us_per_s_per_1000: Option<f64>,
    /// Bytes that servers received and sent per second and 1,000 held locks, replication included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s_per_1000: Option<f64>,
    /// Client CPU per second and 1,000 held locks, microseconds.
    pub client_cpu_us_per_s_per_1000: Option<f64>,
    /// What was left of the lease when its renewal was sent: the least, and the value that 99.9 % exceed.
    pub least_margin_ns: Option<u64>,
    /// See [`Renewal::least_margin_ns`].
    pub margin_p001_ns: Option<u64>,
    /// Locks that the library said it had lost although nobody took them.
    pub lost: u64,
    /// Server memory per held lock, bytes.
    pub server_bytes_per_lock: Option<f64>,
    /// Memory of the client process per held lock, bytes.
    pub client_bytes_per_lock: Option<f64>,
}

/// Low and high end of a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The same in another unit.
    #[must_use]
    pub fn scaled(self, by: f64) -> Interval {
        Interval { low: self.low * by, high: self.high * by }
    }
}

/// How sure the figures of a row are, and how that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Certainty {
    /// How often an interval like that of `cycles_per_s` holds the true median, 0 to 1; `null` without one.
    pub cycles_coverage: Option<f64>,
    /// The mean rate within the rounds, by batch means; `null` of fewer than 20 independent batches.
    pub cycles_within_rounds: Option<Interval>,
    /// Autocorrelation of neighbouring batches that is left.
    pub batch_lag1: Option<f64>,
    /// Median of the acquire latency, two-level bootstrap over rounds and blocks.
    pub acquire_p50_ns: Option<Interval>,
    /// The same of p99.
    pub acquire_p99_ns: Option<Interval>,
    /// The same of the median hand-off.
    pub handoff_p50_ns: Option<Interval>,
    /// Server CPU per cycle over rounds, microseconds. It covers as often as that of `cycles_per_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_us_per_cycle: Option<Interval>,
    /// The same of server CPU per second and 1,000 held locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_us_per_s_per_1000: Option<Interval>,
}

/// The tail of waits, with those that gave up right-censored (Kaplan-Meier). `null`: beyond the longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
#[allow(missing_docs)]
pub struct WaitTail {
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
}

/// Little's law, as a check that no stamp was lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct LittlesLaw {
    /// Calls under way on average, looked at from outside.
    pub sampled: f64,
    /// Throughput × mean response time.
    pub reckoned: f64,
}

/// What else went on, on the machine, while a row was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Noise {
    /// CPU time stolen by the hypervisor, share of all; the worst round.
    pub steal: f64,
    /// Share of the time in which some task waited for a core (`/proc/pressure/cpu`); the worst round.
    pub pressure: Option<f64>,
    /// Load average at the end of the last round.
    pub load_average: f64,
    /// Involuntary context switches of this process per second; the worst round.
    pub switches_per_s: f64,
    /// Rounds that were dropped: more than a tenth of the CPU time was stolen in one of their arms.
    pub dropped_rounds: u32,
}

/// What a row was calculated from, so that others can calculate it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct RawSeries {
    /// Per round: cycles per second.
    pub cycles_per_s: Vec<f64>,
    /// Per round: cycles that ended in each of equal parts of the window.
    pub cycles_per_part: Vec<Vec<u32>>,
    /// All rounds: acquire latency in nanoseconds and how often. In the file an HdrHistogram, V2, base64.
    #[serde(with = "crate::record::hdr")]
    #[schemars(with = "String")]
    pub acquire_ns: Vec<(u64, u64)>,
    /// The same of hand-offs.
    #[serde(with = "crate::record::hdr")]
    #[schemars(with = "String")]
    pub handoff_ns: Vec<(u64, u64)>,
    /// All rounds, one after the other: acquire latency over time; `None` in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_over_time: Option<Intervals>,
}

/// Everything that a row says beyond its rate and latencies.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
#[serde(default)]
pub struct Measures {
    /// How it was loaded.
    pub load: LoadShape,
    /// Open loop: from the due time to the grant. `acquire_ns` is then the service time, from the sending.
    pub response_ns: Option<Quantiles>,
    /// Open loop: how the schedule was kept.
    pub pacing: Option<Pacing>,
    /// How locks were passed on.
    pub passing: Option<HandoffMeasures>,
    /// What renewal costs.
    pub renewal: Option<Renewal>,
    /// From the death of a holder to the next grant.
    pub recovery_ns: Option<Quantiles>,
    /// From the end of the dead holder's lease, as its client calculated it, to the next grant.
    pub recovery_late_ns: Option<Quantiles>,
    /// Connecting a client.
    pub connect_ns: Option<Quantiles>,
    /// From the arrival of a herd to the release of its last member.
    pub wave_ns: Option<Quantiles>,
    /// Readers and writers: acquires to read. `acquire_ns` has both sides.
    pub read_ns: Option<Quantiles>,
    /// Readers and writers: acquires to write.
    pub write_ns: Option<Quantiles>,
    /// The most holds that lasted at once, where holds may: readers, permits, different locks.
    pub most_at_once: Option<u64>,
    /// 10,000 pairs of acquire and release one after the other: how long they took.
    pub ten_thousand_pairs_ns: Option<u64>,
    /// CPU of the load generator and its records per cycle, microseconds: a cycle on a lock that grants at
    /// once and asks no server. Where clients live in the generator's process, their CPU contains it.
    pub generator_cpu_us_per_cycle: Option<f64>,
    /// Bytes that servers received and sent per cycle, replication included.
    pub bytes_per_cycle: Option<f64>,
    /// Memory of the client process per waiting lock call, bytes.
    pub client_bytes_per_waiter: Option<f64>,
    /// Waits, with those that gave up.
    pub wait_tail: Option<WaitTail>,
    /// What a client costs, where that was measured.
    pub client_cost: Option<ClientCost>,
    /// How sure the figures are.
    pub certainty: Certainty,
    /// A self-check.
    pub littles_law: Option<LittlesLaw>,
    /// What else went on.
    pub noise: Noise,
    /// What it was calculated from.
    pub raw: RawSeries,
}

/// What a client costs: the median of several, which were connected one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct ClientCost {
    /// From the call that connects it until it has its first lock.
    pub first_lock_ns: u64,
    /// Its connections then.
    pub first_connections: Option<f64>,
    /// Its connections once it has had locks on every server.
    pub connections: Option<f64>,
    /// Memory of its process then; of clients in this process by how much that grew for each.
    pub memory_bytes: Option<f64>,
}

/// One level of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct SweepPoint {
    /// What was raised: tasks, shards, or cycles offered per second.
    pub level: f64,
    /// Cycles per second.
    pub cycles_per_s: crate::record::run::Estimate,
    /// Acquire latency; of an open loop, the response from the due time.
    pub latency_ns: Quantiles,
    /// Median hand-off.
    pub handoff_p50_ns: Option<u64>,
    /// Commands that clients sent per cycle.
    pub commands_per_cycle: Option<f64>,
    /// Server CPU per cycle, microseconds.
    pub server_cpu_us_per_cycle: Option<f64>,
    /// Over shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cost: Option<ClientCost>,
    /// Whether its row may be quoted. Of a search for the knee: whether the rate was kept.
    pub valid: bool,
}

/// Where a lock no longer keeps up with what is offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct KneeAt {
    /// The highest rate that was kept, in a long window.
    pub good_per_s: Option<f64>,
    /// The lowest rate that was not kept.
    pub bad_per_s: Option<f64>,
    /// The rate at which the search ended without an answer, and why: its row is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownRate>,
    /// What "kept" means.
    pub rule: String,
}

/// A rate of which it is not known whether it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct UnknownRate {
    /// Cycles offered per second.
    pub rate_per_s: f64,
    /// Why its row is invalid.
    pub why: String,
}

/// Rows at rising levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Sweep {
    /// What was raised.
    pub over: String,
    /// The lock under test.
    pub subject: String,
    /// Its kind, where that is not the subject's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Where.
    pub topology: String,
    /// The workload.
    pub workload: String,
    /// Levels, in rising order.
    pub points: Vec<SweepPoint>,
    /// Over rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<KneeAt>,
}

impl Sweep {
    /// The lock under test, as [`BenchRow::lock`](crate::record::run::BenchRow::lock) has it.
    pub(crate) fn lock(&self) -> String {
        lock(&self.subject, self.kind.as_deref())
    }

    /// What was raised, of what and where.
    pub(crate) fn title(&self) -> String {
        let (lock, topology) = (self.lock(), &self.topology);
        format!("{lock} on {topology}, {}: {} raised", self.workload, self.over)
    }
}
