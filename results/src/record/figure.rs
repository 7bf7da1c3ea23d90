//! Every figure once, for gate, comparisons and every format: name, heading, unit, direction, getter.

use crate::record::measures::{HandoffMeasures, Renewal, SweepPoint};
use crate::record::run::{BenchRow, Estimate, FaultSpan, Quantiles, ScenarioResult};
use crate::wording::units;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Microseconds of CPU.
    Cpu,
    /// Per second.
    Rate,
    /// 0 to 1.
    Share,
    /// A bare number.
    Number,
}

impl Unit {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Cpu => "µs",
            Self::Rate => "1/s",
            Self::Share | Self::Number => "1",
        }
    }

    /// A number of this unit below a heading, which names rates and CPU.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Time => units::duration(value.round() as u64),
            Self::Share => format!("{} %", units::figure(100.0 * value)),
            Self::Cpu | Self::Rate | Self::Number => units::figure(value),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Figure<T: 'static> {
    /// Its name in CSV and comparisons, as in `run.json`.
    pub(crate) name: &'static str,
    /// Its name in a condition of the gate; empty where it has none.
    pub(crate) gate: &'static str,
    /// The heading of its column, as inside a sentence.
    pub(crate) head: &'static str,
    /// What it is, for who points at the heading.
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    pub(crate) more_is_better: bool,
    pub(crate) of: fn(&T) -> Option<Estimate>,
}

impl<T> Figure<T> {
    pub(crate) fn words(&self, of: &T) -> String {
        (self.of)(of).map_or("–".to_owned(), |figure| self.unit.words(figure.median))
    }

    fn known(&self, of: &T) -> bool {
        (self.of)(of).is_some()
    }
}

pub(crate) fn more_is_better(name: &str) -> bool {
    OF_ROWS.iter().any(|figure| figure.name == name && figure.more_is_better)
}

/// A figure without an interval.
pub(crate) fn point(median: f64) -> Estimate {
    Estimate { median, low: None, high: None }
}

trait Measured {
    fn estimate(self) -> Option<Estimate>;
}

impl Measured for Estimate {
    fn estimate(self) -> Option<Estimate> {
        Some(self)
    }
}

impl Measured for f64 {
    fn estimate(self) -> Option<Estimate> {
        Some(point(self))
    }
}

impl Measured for u64 {
    fn estimate(self) -> Option<Estimate> {
        Some(point(self as f64))
    }
}

impl<M: Measured> Measured for Option<M> {
    fn estimate(self) -> Option<Estimate> {
        self?.estimate()
    }
}

/// A place in a distribution: its name, and its value in nanoseconds; `None` of too few samples.
pub(crate) type Quantile = (&'static str, fn(&Quantiles) -> Option<u64>);

const P50: Quantile = ("p50", |quantiles| quantiles.p50);
const P99: Quantile = ("p99", |quantiles| quantiles.p99);

pub(crate) static QUANTILES: [Quantile; 5] = [
    P50,
    ("p90", |quantiles| quantiles.p90),
    P99,
    ("p999", |quantiles| quantiles.p999),
    ("max", |quantiles| quantiles.max),
];

#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&BenchRow) -> Option<&Quantiles>,
}

impl Latency {
    pub(crate) fn at(&self, (name, of): Quantile, row: &BenchRow) -> Option<Estimate> {
        let certainty = &row.measures.certainty;
        let interval = match (name, self.name) {
            ("p50", "acquire") => certainty.acquire_p50_ns,
            ("p99", "acquire") => certainty.acquire_p99_ns,
            ("p50", "handoff") => certainty.handoff_p50_ns,
            _ => None,
        };
        Some(Estimate {
            median: of((self.of)(row)?)? as f64,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
        })
    }
}

fn passing(row: &BenchRow) -> Option<&HandoffMeasures> {
    row.measures.passing.as_ref()
}

fn renewal(row: &BenchRow) -> Option<&Renewal> {
    row.measures.renewal.as_ref()
}

macro_rules! latencies {
    ($($name:ident $word:literal |$row:ident| $of:expr;)*) => {
        $(pub(crate) const $name: Latency = Latency { name: $word, of: |$row| $of };)*
        pub(crate) static LATENCIES: &[Latency] = &[$($name),*];
    };
}

latencies! {
    ACQUIRE  "acquire"  |row| Some(&row.acquire_ns);
    RELEASE  "release"  |row| Some(&row.release_ns);
    HANDOFF  "handoff"  |row| row.handoff_ns.as_ref();
    RESPONSE "response" |row| row.measures.response_ns.as_ref();
    NOTIFIED "notified" |row| passing(row)?.notified_ns.as_ref();
    RECOVERY "recovery" |row| row.measures.recovery_ns.as_ref();
    CONNECT  "connect"  |row| row.measures.connect_ns.as_ref();
    WAVE     "wave"     |row| row.measures.wave_ns.as_ref();
    READ     "read"     |row| row.measures.read_ns.as_ref();
    WRITE    "write"    |row| row.measures.write_ns.as_ref();
    RECOVERY_LATE "recovery_late" |row| row.measures.recovery_late_ns.as_ref();
    LAG           "lag"           |row| Some(&row.measures.pacing.as_ref()?.lag_ns);
    START_LAG     "start_lag"     |row| Some(&row.measures.pacing.as_ref()?.start_lag_ns);
}

const MORE: bool = true;
const LESS: bool = false;
const SAME_P99: &str = "The same, 99 of 100";

macro_rules! figures {
    ($all:ident of $of:ty; $($id:ident: $name:literal $gate:literal, $head:literal $unit:ident $better:ident, $about:expr, |$row:ident| $value:expr;)*) => {
        $(pub(crate) const $id: Figure<$of> = Figure {
            name: $name,
            gate: $gate,
            head: $head,
            about: $about,
            unit: Unit::$unit,
            more_is_better: $better,
            of: |$row| $value.estimate(),
        };)*
        pub(crate) static $all: &[Figure<$of>] = &[$($id),*];
    };
}

// Constant, name in files, name in conditions, heading, unit, direction, explanation, getter.
figures! { OF_ROWS of BenchRow;
    CYCLES: "cycles_per_s" "cycles", "cycles/s" Rate MORE, "Acquire and release pairs per second: median over rounds, with their range",
        |row| row.cycles_per_s;
    COMMANDS: "commands_per_cycle" "commands", "commands" Number LESS, "Commands that clients sent per cycle", |row| row.commands_per_cycle;
    SERVER_CALLS: "server_calls_per_cycle" "server_calls", "server calls" Number LESS, "Commands that servers counted per cycle, inner calls included",
        |row| row.server_calls_per_cycle;
    SERVER_CPU: "server_cpu_us_per_cycle" "server_cpu", "server µs" Cpu LESS, "CPU of all servers per cycle, in microseconds",
        |row| row.server_cpu_us_per_cycle;
    CLIENT_CPU: "client_cpu_us_per_cycle" "client_cpu", "client µs" Cpu LESS, "CPU of all clients per cycle, in microseconds",
        |row| row.client_cpu_us_per_cycle;
    GENERATOR: "generator_cpu_us_per_cycle" "generator_cpu", "generator µs" Cpu LESS,
        "CPU of the load generator and its records per cycle, in microseconds", |row| row.measures.generator_cpu_us_per_cycle;
    BYTES: "bytes_per_cycle" "bytes", "bytes" Number LESS, "Bytes that servers received and sent per cycle", |row| row.measures.bytes_per_cycle;
    JAIN: "jain" "jain", "Jain" Number MORE, "Fairness over tasks: 1 is even", |row| row.jain;
    CENSORED: "censored" "censored", "gave up" Number LESS, "Acquires that gave up: waits of unknown length", |row| row.censored;
    STARVED: "starved" "starved", "starved" Number LESS, "Tasks that asked and got nothing", |row| passing(row)?.starved;
    SHARE_MIN: "share_min" "share_min", "least client" Number MORE, "What the client that got least got, over an even share: 1 is even",
        |row| passing(row)?.share_min;
    LOST_WAKEUPS: "lost_wakeups" "lost_wakeups", "lost wake-ups" Number LESS,
        "Times that the lock was free for more than 100 ms although a task waited", |row| passing(row)?.lost_wakeups;
    BYPASSES: "most_bypasses" "bypasses", "bypassed" Number LESS, "The most later callers that one call had to see pass",
        |row| passing(row)?.most_bypasses;
    INVERSIONS: "inversions" "inversions", "out of order" Share LESS, "Grants that passed over a call that was there before",
        |row| passing(row)?.inversions;
    IDLE: "idle" "idle", "idle" Share LESS, "Share of the time in which the lock was free although a task waited", |row| passing(row)?.idle;
    WASTED: "wasted_commands_per_grant" "wasted", "wasted" Number LESS,
        "Commands per grant, without the acquire that succeeded and the release", |row| passing(row)?.wasted_commands_per_grant;
    LOST_RENEWALS: "lost" "lost_renewals", "lost" Number LESS, "Locks that the library said it had lost although nobody took them",
        |row| renewal(row)?.lost;
    ACHIEVED: "achieved_per_s" "achieved", "achieved/s" Rate MORE, "Cycles per second that were completed",
        |row| row.measures.pacing.as_ref()?.achieved_per_s;

    ACQUIRE_P50: "acquire_p50_ns" "", "acquire p50" Time LESS, "From the call of acquire to its return", |row| ACQUIRE.at(P50, row);
    ACQUIRE_P99: "acquire_p99_ns" "", "p99" Time LESS, ACQUIRE_P50.about, |row| ACQUIRE.at(P99, row);
    RESPONSE_P50: "response_p50_ns" "", "response p50" Time LESS, "From the due time to the grant", |row| RESPONSE.at(P50, row);
    RESPONSE_P99: "response_p99_ns" "", "p99" Time LESS, SAME_P99, |row| RESPONSE.at(P99, row);
    HANDOFF_P50: "handoff_p50_ns" "", "hand-off p50" Time LESS, "From the sending of a release to the next owner's return from acquire",
        |row| HANDOFF.at(P50, row);
    HANDOFF_P99: "handoff_p99_ns" "", "p99" Time LESS, SAME_P99, |row| HANDOFF.at(P99, row);
    NOTIFIED_P50: "notified_p50_ns" "", "notify to grant p50" Time LESS,
        "From the answer to a release to the grant of a task that was waiting by then", |row| NOTIFIED.at(P50, row);
    COMMANDS_PER_HANDOFF: "commands_per_handoff" "", "commands" Number LESS, "Commands that clients sent per hand-off to another task",
        |row| passing(row)?.commands_per_handoff;
    TO_ANOTHER: "to_another" "", "to another" Number MORE, "Grants that followed a hold of another task", |row| passing(row)?.to_another;
    TO_ITSELF: "to_itself" "", "to itself" Number LESS, "Grants that followed a hold of the same task", |row| passing(row)?.to_itself;
    HANDOFF_CPU: "server_cpu_us_per_handoff" "", "server µs" Cpu LESS, "Server CPU per hand-off to another task",
        |row| passing(row)?.server_cpu_us_per_handoff;
    LONGEST_WAIT: "longest_over_median" "", "longest wait" Number LESS, "As a multiple of the median wait",
        |row| passing(row)?.longest_over_median;
    LONGEST_IDLE: "longest_idle_ns" "", "longest idle" Time LESS, "The longest of these times", |row| passing(row)?.longest_idle_ns;

    OFFERED: "offered_per_s" "", "offered/s" Rate MORE, "Cycles per second that the schedule asked for",
        |row| row.measures.pacing.as_ref()?.offered_per_s;
    LATE: "late" "", "late" Number LESS, "Ticks that began more than a millisecond after they were due", |row| row.measures.pacing.as_ref()?.late;
    NOT_BEGUN: "not_begun" "", "not begun" Number LESS, "Ticks that were due and had not begun at the window's end",
        |row| row.measures.pacing.as_ref()?.not_begun;
    LAG_P99: "lag_p99_ns" "", "generator's lag p99" Time LESS, "How late the generator itself woke",
        |row| row.measures.pacing.as_ref()?.lag_ns.p99;

    HELD: "held" "", "held" Number MORE, "Locks held through the window", |row| renewal(row)?.held;
    RENEWALS: "renewals_per_s" "", "renewals/s" Rate LESS, "As clients reported them", |row| renewal(row)?.renewals_per_s;
    RENEWAL_COMMANDS: "commands_per_s_per_1000" "", "commands" Number LESS, "Per second and 1,000 held locks",
        |row| renewal(row)?.commands_per_s_per_1000;
    RENEWAL_SERVER_CPU: "server_cpu_us_per_s_per_1000" "", "server µs" Cpu LESS, "Server CPU per second and 1,000 held locks",
        |row| renewal(row)?.server_cpu_us_per_s_per_1000;
    RENEWAL_CLIENT_CPU: "client_cpu_us_per_s_per_1000" "", "client µs" Cpu LESS, "Client CPU per second and 1,000 held locks",
        |row| renewal(row)?.client_cpu_us_per_s_per_1000;
    LEAST_MARGIN: "least_margin_ns" "", "least margin" Time MORE, "What was left of the lease when its renewal was sent, at least",
        |row| renewal(row)?.least_margin_ns;
    MARGIN_P001: "margin_p001_ns" "", "99.9 % have" Time MORE, "The margin that 99.9 % of renewals exceed", |row| renewal(row)?.margin_p001_ns;
    SERVER_BYTES: "server_bytes_per_lock" "", "server B/lock" Number LESS, "Server memory per held lock",
        |row| renewal(row)?.server_bytes_per_lock;
    CLIENT_BYTES: "client_bytes_per_lock" "", "client B/lock" Number LESS, "Memory of the client process per held lock",
        |row| renewal(row)?.client_bytes_per_lock;

    RECOVERY_P50: "recovery_p50_ns" "", "recovery p50" Time LESS, "From the death of a holder to the next grant", |row| RECOVERY.at(P50, row);
    RECOVERY_P99: "recovery_p99_ns" "", "p99" Time LESS, SAME_P99, |row| RECOVERY.at(P99, row);
    RECOVERY_LATE_P50: "recovery_late_p50_ns" "", "beyond the lease p50" Time LESS, "From the end of the dead holder's lease to the next grant",
        |row| row.measures.recovery_late_ns.as_ref()?.p50;
    CONNECT_P50: "connect_p50_ns" "", "connect p50" Time LESS, "Connecting a client", |row| CONNECT.at(P50, row);
    WAVE_P50: "wave_p50_ns" "", "herd p50" Time LESS, "From a herd's arrival to the release of its last member", |row| WAVE.at(P50, row);
    READ_P50: "read_p50_ns" "", "read p50" Time LESS, "Acquires of the reading side", |row| READ.at(P50, row);
    WRITE_P50: "write_p50_ns" "", "write p50" Time LESS, "Acquires of the writing side", |row| WRITE.at(P50, row);
    AT_ONCE: "most_at_once" "", "at once" Number MORE, "The most holds that lasted at once: readers, permits, different locks",
        |row| row.measures.most_at_once;
    PAIRS: "ten_thousand_pairs_ns" "", "10,000 pairs" Time LESS, "Acquire and release, one after the other, by one task",
        |row| row.measures.ten_thousand_pairs_ns;
    WAITER_BYTES: "client_bytes_per_waiter" "", "B per waiter" Number LESS, "Memory of the client process per waiting call",
        |row| row.measures.client_bytes_per_waiter.filter(|bytes| *bytes > 0.0);
    WAIT_P50: "wait_p50_ns" "", "wait p50" Time LESS, "Waits, those that gave up right-censored", |row| row.measures.wait_tail?.p50_ns;
    WAIT_P99: "wait_p99_ns" "", "wait p99" Time LESS, SAME_P99, |row| row.measures.wait_tail?.p99_ns;

    COVERAGE: "cycles_coverage" "", "coverage" Share MORE, "How often an interval like that of the rate holds the true median",
        |row| row.measures.certainty.cycles_coverage;
    WITHIN_ROUNDS: "cycles_within_rounds" "", "within rounds" Rate MORE, "The mean rate within the rounds, by batch means: an interval alone",
        |row| row.measures.certainty.cycles_within_rounds.map(|within| Estimate { median: f64::NAN, low: Some(within.low), high: Some(within.high) });
    STEAL: "steal" "", "stolen" Share LESS, "CPU time stolen by the hypervisor in the worst round", |row| row.measures.noise.steal;
    PRESSURE: "pressure" "", "pressure" Share LESS, "Time in which some task waited for a core, in the worst round", |row| row.measures.noise.pressure;
    LOAD_AVERAGE: "load_average" "", "load" Number LESS, "At the end of the last round", |row| row.measures.noise.load_average;
    SWITCHES: "switches_per_s" "", "switches/s" Rate LESS, "Involuntary context switches in the worst round", |row| row.measures.noise.switches_per_s;
    DROPPED_ROUNDS: "dropped_rounds" "", "dropped" Number LESS, "Rounds in which too much CPU time was stolen",
        |row| Some(row.measures.noise.dropped_rounds).filter(|rounds| *rounds > 0).map(u64::from);
    LITTLES_SAMPLED: "littles_law_sampled" "", "calls seen" Number LESS, "Calls under way on average, seen from outside",
        |row| row.measures.littles_law?.sampled;
    LITTLES_CALCULATED: "littles_law_reckoned" "", "calls calculated" Number LESS, "Throughput times mean response time",
        |row| row.measures.littles_law?.reckoned;
}

figures! { OF_SCENARIOS of ScenarioResult;
    GRANTS: "grants_per_s" "grants", "grants/s" Rate MORE, "Grants per second of load",
        |result| (result.grants_per_s > 0.0).then_some(result.grants_per_s);
    FIRST_GRANT: "first_grant_after_fault_ns" "recovery", "recovery" Time LESS, "From a fault to the first grant after it, the longest",
        |result| result.recovery.first_grant_after_fault_ns;
}

// Of a fault whose recovery was judged.
figures! { OF_FAULTS of FaultSpan;
    GRANT_BEFORE: "last_grant_before_ns" "", "last grant before" Time LESS, "From the last grant before the fault to the fault",
        |fault| fault.recovery?.last_grant_before_ns;
    GRANT_AFTER: "first_grant_after_ns" "", "first after" Time LESS, "From the fault to the first grant after it",
        |fault| fault.first_grant_after_ns;
    WINDOW: "window_ns" "", "window" Time LESS, "From the fault to its end or the next grant", |fault| fault.recovery?.window_ns;
    ERRORS: "error_share" "", "errors" Share LESS, "Operations in the window that failed or whose end is unknown", |fault| fault.recovery?.error_share;
    HANGS: "hang_share" "", "hangs" Share LESS, "Operations in the window without an answer a second after their wait", |fault| fault.recovery?.hang_share;
    HOLDER_KNEW: "holder_knew_ns" "", "holder knew" Time LESS, "From the fault until a holder was notified of its loss",
        |fault| fault.recovery?.holder_knew_ns;
    HERD: "herd" "", "herd" Number LESS, "Acquires in the second after the heal", |fault| fault.recovery?.herd;
    STUCK: "stuck_locks" "", "stuck" Number LESS, "Locks that stood still from the fault on", |fault| fault.recovery?.stuck_locks;
}

figures! { OF_SWEEPS of SweepPoint;
    SWEEP_CYCLES: "cycles_per_s" "", "cycles/s" Rate MORE, "Median over rounds", |point| point.cycles_per_s.median;
    SWEEP_P50: "latency_p50_ns" "", "p50" Time LESS, "Acquire latency; of an open loop the response from the due time", |point| point.latency_ns.p50;
    SWEEP_P99: "latency_p99_ns" "", "p99" Time LESS, SAME_P99, |point| point.latency_ns.p99;
    SWEEP_HANDOFF: "handoff_p50_ns" "", "hand-off p50" Time LESS, "Median hand-off", |point| point.handoff_p50_ns;
    SWEEP_COMMANDS: "commands_per_cycle" "", "commands" Number LESS, COMMANDS.about, |point| point.commands_per_cycle;
    SWEEP_SERVER_CPU: "server_cpu_us_per_cycle" "", "server µs" Cpu LESS, "Server CPU per cycle", |point| point.server_cpu_us_per_cycle;
    SWEEP_FIRST_LOCK: "first_lock_ns" "", "first lock" Time LESS, "From the call that connects a client until it has its first lock", |point| point.client_cost?.first_lock_ns;
    SWEEP_FIRST_CONNECTIONS: "first_connections" "", "connections" Number LESS, "Connections of a client that has its first lock",
        |point| point.client_cost?.first_connections;
    SWEEP_CONNECTIONS: "connections" "", "in use everywhere" Number LESS, "Connections of a client that has had locks on every server",
        |point| point.client_cost?.connections;
    SWEEP_MEMORY: "client_kib" "", "KiB" Number LESS, "Memory of such a client", |point| point.client_cost?.memory_bytes? / 1024.0;
}

pub(crate) static BENCH: [Figure<BenchRow>; 7] =
    [CYCLES, ACQUIRE_P50, ACQUIRE_P99, HANDOFF_P50, COMMANDS, SERVER_CPU, JAIN];

pub(crate) static COMPARED: [Figure<BenchRow>; 8] =
    [CYCLES, ACQUIRE_P50, ACQUIRE_P99, RESPONSE_P99, HANDOFF_P50, COMMANDS, SERVER_CPU, CLIENT_CPU];

pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) applies: fn(&BenchRow) -> bool,
    pub(crate) figures: &'static [Figure<BenchRow>],
}

/// What rows say beyond [`BENCH`], on the page.
pub(crate) static GROUPS: [Group; 4] = [
    Group {
        title: "From hand to hand",
        note: "How a lock that others wait for is passed on, how fair that is, and what is wasted on the way.",
        applies: |row| row.measures.passing.is_some(),
        figures: &[
            HANDOFF_P50,
            HANDOFF_P99,
            NOTIFIED_P50,
            COMMANDS_PER_HANDOFF,
            WASTED,
            JAIN,
            BYPASSES,
            INVERSIONS,
            STARVED,
            SHARE_MIN,
            LONGEST_WAIT,
            IDLE,
            LONGEST_IDLE,
            LOST_WAKEUPS,
        ],
    },
    Group {
        title: "Open loop",
        note: "Cycles began on a schedule. Response is timed from when a cycle was due, service from when it was sent: where the two part, \
               calls were queueing.",
        applies: |row| row.measures.pacing.is_some(),
        figures: &[
            OFFERED,
            ACHIEVED,
            RESPONSE_P50,
            RESPONSE_P99,
            Figure { head: "service p50", about: "From the sending to the grant", ..ACQUIRE_P50 },
            Figure { about: SAME_P99, ..ACQUIRE_P99 },
            LATE,
            NOT_BEGUN,
            LAG_P99,
        ],
    },
    Group {
        title: "Renewal and memory",
        note: "What it costs to keep locks that are held for long.",
        applies: |row| row.measures.renewal.is_some(),
        figures: &[
            HELD,
            RENEWALS,
            RENEWAL_COMMANDS,
            RENEWAL_SERVER_CPU,
            RENEWAL_CLIENT_CPU,
            LEAST_MARGIN,
            MARGIN_P001,
            LOST_RENEWALS,
            SERVER_BYTES,
            CLIENT_BYTES,
        ],
    },
    Group {
        title: "Recovery, herds, sides, waiting",
        note: "What single workloads measure besides.",
        applies: |row| row.measures.wait_tail.is_some() || OTHERS.iter().any(|figure| figure.known(row)),
        figures: OTHERS,
    },
];

const OTHERS: &[Figure<BenchRow>] = &[
    RECOVERY_P50,
    RECOVERY_P99,
    RECOVERY_LATE_P50,
    CONNECT_P50,
    WAVE_P50,
    READ_P50,
    WRITE_P50,
    AT_ONCE,
    PAIRS,
    WAITER_BYTES,
    WAIT_P50,
    WAIT_P99,
];
