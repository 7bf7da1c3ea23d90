//! How often a configuration grants a lock twice in a year, and for how long it grants nothing: closed forms,
//! each with its derivation, over the rates of a service. `docs/src/risk.md` has the same derivations with
//! their assumptions.
//!
//! Everywhere: grants come as a Poisson process of G a second on the part that fails, holds last an
//! exponential time of mean h, and the next caller is granted what was forgotten D + W after the crash: the
//! outage, then an exponential wait of mean w for that caller. A lease of ℓ that ends by then breaks no
//! contract. `chaos/benches/risk` counts what real failovers do, `simulation/benches/risk.rs` what the
//! library does in simulated time.

use cluster_config::Topology;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use results::run::{FailoverRisk, Run, ScenarioResult};

/// A year in seconds.
pub const YEAR_S: f64 = 365.25 * 86_400.0;

/// How long Redis leaves what `appendfsync everysec` has not written to the disk: at a crash its age is
/// uniform up to that.
const EVERYSEC_S: f64 = 1.0;

/// So many draws of uncertain inputs.
const DRAWS: usize = 4_000;

/// A mean over a distribution is taken over so many parts of it that are as likely.
const PARTS: u32 = 100;

/// In what an input is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateUnit {
    /// Times a year.
    PerYear,
    /// Times a second.
    PerSecond,
    /// A duration.
    Seconds,
    /// A share.
    Share,
}

/// An input by which a configuration's figure may be moved.
#[derive(Debug)]
pub struct RateField {
    /// Its name, as a flag.
    pub name: &'static str,
    /// Its unit.
    pub unit: RateUnit,
    /// What it is where nothing is said; `None`: it must be said.
    pub default: Option<&'static str>,
    /// A usual value.
    pub usual: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its place.
    pub field: fn(&mut ServiceRates) -> &mut f64,
}

macro_rules! service_rates {
    ($($name:literal $unit:ident $usual:literal $default:expr, $field:ident, $about:literal;)+) => {
        /// What is known of a service. Times are in seconds.
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct ServiceRates {
            $(#[doc = $about] pub $field: f64,)+
            /// Replicas of each master.
            pub replicas: f64,
            /// How many of these acknowledge a grant in the row `sentinel, wait:K`.
            pub acknowledgers: f64,
            /// Independent masters.
            pub masters: f64,
            /// A write to the disk.
            pub fsync_s: f64,
            /// 1 where a hold's lease is renewed, else 0.
            pub renewed: f64,
        }

        /// The inputs, of which each takes one value or a range.
        pub static RATE_FIELDS: &[RateField] = &[$(RateField {
            name: $name,
            unit: RateUnit::$unit,
            default: $default,
            usual: $usual,
            about: $about,
            field: |rates| &mut rates.$field,
        }),+];
    };
}

service_rates! {
    "failovers" PerYear "4/year" None, failovers_per_year, "Crashes of a master; usual are 1/year to 12/year";
    "outage" Seconds "2.2s" None, outage_s, "From a crash to the first grant after it; usual are 1s to 30s, and `chaos` measures it";
    "lag" Seconds "20ms" None, lag_s, "How far the replica that is promoted is behind; usual are 1ms to 1s";
    "grants" PerSecond "50/s" None, grants_per_s, "Grants on the servers that fail together; usual are 1/s to 1000/s";
    "hold" Seconds "5s" None, hold_s, "The mean time of a hold; usual are 50ms to 1m";
    "lease" Seconds "30s" None, lease_s, "The lease; usual are 10s to 30s";
    "next-caller" Seconds "0s" Some("0s"), next_caller_s, "From the first possible grant after a crash to the next caller of the same lock, on average";
    "free-for" Seconds "1m" Some("1h"), free_s, "How long a lock is free between two holds, on average: while a replica takes it for held, nobody is granted it";
    "machine-share" Share "100%" Some("100%"), machine_share, "The share of the crashes that take the machine along, with what its disk has not yet";
    "partitions" PerYear "1/year" Some("0/year"), partitions_per_year, "Partitions that leave a master with some of its clients";
    "partition-lasts" Seconds "1m" Some("1m"), partition_s, "How long a partition lasts";
    "cut-off-share" Share "50%" Some("50%"), cut_off_share, "The share of the callers on the old master's side of a partition";
    "max-lag" Seconds "10s" Some("10s"), max_lag_s, "`min-replicas-max-lag` of the servers";
    "pauses" PerYear "12/year" Some("0/year"), pauses_per_year, "Pauses of a client, as by its garbage collector or its machine";
    "pause-lasts" Seconds "30s" Some("30s"), pause_s, "How long a pause lasts";
    "paused-share" Share "10%" Some("10%"), paused_share, "The share of the holds that a pause stops";
    "clock-jumps" PerYear "2/year" Some("0/year"), clock_jumps_per_year, "Times that the clock of the server that grants jumps forwards";
    "jump" Seconds "5s" Some("5s"), jump_s, "How far a clock jumps";
    "rtt" Seconds "500us" Some("500us"), rtt_s, "A message to a server and back";
}

impl ServiceRates {
    /// The share of the holds that are alive and last until they are granted again: with rates 1/h and 1/w, ∫
    /// e^(−t/w)/w · e^(−(D+t)/h) dt over the waits t < ℓ − D; 0 where no lease lasts as long as the outage.
    fn outlasting(&self) -> f64 {
        let left_s = self.lease_s - self.outage_s;
        let rate = 1.0 / self.next_caller_s + 1.0 / self.hold_s;
        match left_s > 0.0 {
            true => {
                let waits = (1.0 - (-left_s * rate).exp()) / (1.0 + self.next_caller_s / self.hold_s);
                waits * (-self.outage_s / self.hold_s).exp()
            }
            false => 0.0,
        }
    }

    /// Live grants of the last `window_s` before a crash whose lock was free at the window's begin: G·(1 −
    /// e^(−rL))/r with r = 1/h + 1/f. A lock that was held then is blocked after the crash, since the release
    /// of that hold is forgotten, too. Of G·(f + h) locks f/(f + h) are free at any time, and h/(f + h)·(1 −
    /// e^(−rL)) of these are held L later. Where locks are free for long, that is G·h·(1 − e^(−L/h)).
    fn alive(&self, window_s: f64) -> f64 {
        let rate = 1.0 / self.hold_s + 1.0 / self.free_s;
        self.grants_per_s * (1.0 - (-window_s * rate).exp()) / rate
    }

    /// Double grants of one crash that forgets what was granted in its last `window_s`.
    fn forgotten(&self, window_s: f64) -> f64 {
        self.alive(window_s) * self.outlasting()
    }

    /// The same of a crash that forgets everything: G·h holds are alive. Without renewal an old one's lease
    /// ends sooner, which leaves those of age < ℓ − (D+W).
    fn all_forgotten(&self) -> f64 {
        let left_s = (self.lease_s - self.outage_s).max(0.0);
        let too_old = match self.renewed > 0.0 {
            true => 0.0,
            false => (-self.lease_s / self.hold_s).exp() * (1.0 - (-left_s / self.next_caller_s).exp()),
        };
        self.grants_per_s * self.hold_s * (self.outlasting() - too_old).max(0.0)
    }

    /// The share of the live holds whose lease ends within `limit_s`: of one that is renewed after each third
    /// between two thirds and all of it are left; else what the hold's age leaves, e^(−(ℓ−limit)/h).
    fn lease_ends_within(&self, limit_s: f64) -> f64 {
        match self.renewed > 0.0 {
            true => (3.0 * limit_s / self.lease_s - 2.0).clamp(0.0, 1.0),
            false => (-(self.lease_s - limit_s).max(0.0) / self.hold_s).exp(),
        }
    }

    /// Locks that a crash leaves blocked until their lease ends, after the outage: of the G·h holds that were
    /// alive `window_s` before it, those whose release is forgotten. No library waits for replicas there.
    fn blocked(&self, window_s: f64) -> f64 {
        let released = 1.0 - (-window_s / self.hold_s).exp();
        self.grants_per_s * self.hold_s * released * (1.0 - self.lease_ends_within(self.outage_s))
    }

    /// Holders a year who believe in a hold that somebody else has, or had, since. Of those that a pause
    /// stops, whose lease and whose next caller's wait end before it does. Of all holders at a clock that
    /// jumps, whose lease it ends and who go on when the next caller comes: no longer than they believe it
    /// lasts, or until they renew it. A check of the fencing token helps, and no way to set up servers.
    fn overtaken(&self) -> f64 {
        let waits =
            |figure: &dyn Fn(f64) -> f64| mean(|share| figure(-self.next_caller_s * (1.0 - share).ln()));
        let asleep = waits(&|wait_s| match self.pause_s - wait_s {
            left_s if left_s > 0.0 => self.lease_ends_within(left_s),
            _ => 0.0,
        });
        let early = waits(&|wait_s| {
            let until_told_s = wait_s + self.renewed * self.lease_s * 2.0 / 3.0;
            let ended = self.lease_ends_within(self.jump_s) - self.lease_ends_within(until_told_s);
            ended.max(0.0) * (-wait_s / self.hold_s).exp()
        });
        let times = self.pauses_per_year * self.paused_share * asleep + self.clock_jumps_per_year * early;
        times * self.grants_per_s * self.hold_s
    }

    /// Blind choice among R replicas promotes one that did not acknowledge in (R − K)/R. Sentinels prefer the
    /// one that is furthest.
    fn other_promoted(&self) -> f64 {
        (1.0 - self.acknowledgers / self.replicas.max(1.0)).max(0.0)
    }

    /// Double grants of one partition: from the promotion on until the partition's end, or until the master
    /// gives up, each side grants by itself. Of G·(h + f) locks one for which a share s of the callers asks
    /// is granted 1/(h + f/s) times a second and held h times that share of the time; 2·h·g·g′ meet.
    fn split(&self, gives_up_s: f64) -> f64 {
        let both_s = (self.partition_s.min(gives_up_s) - self.outage_s).max(0.0);
        let grants_per_s = |share: f64| 1.0 / (self.hold_s + self.free_s / share);
        let met_per_s = grants_per_s(self.cut_off_share) * grants_per_s(1.0 - self.cut_off_share);
        self.grants_per_s * (self.hold_s + self.free_s) * 2.0 * self.hold_s * met_per_s * both_s
    }

    /// The chance that a hold with `votes` votes of independent masters that forget when they restart is
    /// granted again: another client has a majority once `votes − (N − majority)` of them restarted within
    /// the hold. For an exponential hold E[(λH)^k] is k!·(λh)^k, and C(votes, k) sets of masters can do it.
    fn forgotten_votes(&self, votes: u32) -> f64 {
        let needed = votes - self.minority();
        let within = self.failovers_per_year / YEAR_S * self.hold_s.min(self.lease_s);
        let orders: f64 = (1..=needed).map(f64::from).product();
        (choose(votes, needed) * orders * within.powi(needed.cast_signed())).min(1.0)
    }

    /// How many of the masters may be down.
    fn minority(&self) -> u32 {
        (self.masters as u32).saturating_sub(1) / 2
    }

    /// The share of the time in which so many of the masters are down.
    fn down_share(&self, down: u32) -> f64 {
        let share = (self.failovers_per_year * self.outage_s / YEAR_S).min(1.0);
        let masters = self.masters as u32;
        choose(masters, down)
            * share.powi(down.cast_signed())
            * (1.0 - share).powi((masters - down).cast_signed())
    }

    fn masters_that_forget(&self) -> f64 {
        let votes = |down| self.forgotten_votes(self.masters as u32 - down);
        let risky = (0..=self.minority()).map(|down| self.down_share(down) * votes(down));
        self.grants_per_s * YEAR_S * risky.sum::<f64>()
    }

    fn majority_down_minutes(&self) -> f64 {
        let down = self.minority() + 1..=self.masters as u32;
        down.map(|down| self.down_share(down)).sum::<f64>() * YEAR_S / 60.0
    }

    /// Where a master that crashed stays away until all leases that it may have forgotten have ended.
    fn delayed_restart_minutes(&self) -> f64 {
        ServiceRates { outage_s: self.outage_s.max(self.lease_s), ..*self }.majority_down_minutes()
    }

    fn outage_minutes(&self) -> f64 {
        self.failovers_per_year * self.outage_s / 60.0
    }

    fn failover_minutes(&self) -> f64 {
        // Of a partition's sides the smaller is without a master that answers; the other waits for its own.
        self.outage_minutes() + self.partitions_per_year * self.outage_s / 60.0
    }

    /// Where a replica that is away keeps the master from granting, too.
    fn minutes_without_all(&self) -> f64 {
        (1.0 + self.replicas) * self.outage_minutes() + self.partitions_per_year * self.partition_s / 60.0
    }
}

/// The mean of `figure` over shares from 0 to 1.
fn mean(figure: impl Fn(f64) -> f64) -> f64 {
    let shares = (0..PARTS).map(|part| (f64::from(part) + 0.5) / f64::from(PARTS));
    shares.map(figure).sum::<f64>() / f64::from(PARTS)
}

fn choose(of: u32, some: u32) -> f64 {
    (1..=some).map(|k| f64::from(of + 1 - k) / f64::from(k)).product()
}

/// What the model says of a service.
type Figure = fn(&ServiceRates) -> f64;

/// A way to set up Redis, by its name in the documentation, and what it costs and loses a year.
struct RiskModel {
    name: &'static str,
    costs: [f64; 3],
    unavailable_minutes: Figure,
    /// By one failover.
    blocked_locks: Figure,
    double_grants: Figure,
}

const fn model(
    name: &'static str,
    costs: [f64; 3],
    down: Figure,
    blocked: Figure,
    doubles: Figure,
) -> RiskModel {
    RiskModel { name, costs, unavailable_minutes: down, blocked_locks: blocked, double_grants: doubles }
}

/// Commands of a cycle of acquire and release; round trips and writes to the disk of a grant.
const ONCE: [f64; 3] = [2.0, 1.0, 0.0];
const SYNCED: [f64; 3] = [2.0, 1.0, 1.0];
const TWICE: [f64; 3] = [3.0, 2.0, 0.0];
const MOST_DOWN: Figure = ServiceRates::majority_down_minutes;
const NONE: Figure = |_| 0.0;
const BY_LAG: Figure = |r| r.blocked(r.lag_s);

/// In the names K stands for how many acknowledge, and N for how many masters there are.
static RISK_MODELS: [RiskModel; 10] = [
    model("single, no persistence", ONCE, ServiceRates::outage_minutes, NONE, |r| {
        r.failovers_per_year * r.all_forgotten()
    }),
    // A process that dies leaves what it wrote to the kernel, which writes it all the same.
    model(
        "single, appendfsync everysec",
        ONCE,
        ServiceRates::outage_minutes,
        |r| r.machine_share * mean(|share| r.blocked(EVERYSEC_S * share)),
        |r| r.failovers_per_year * r.machine_share * mean(|share| r.forgotten(EVERYSEC_S * share)),
    ),
    model("single, appendfsync always", SYNCED, ServiceRates::outage_minutes, NONE, NONE),
    model("sentinel, asynchronous", ONCE, ServiceRates::failover_minutes, BY_LAG, |r| {
        r.failovers_per_year * r.forgotten(r.lag_s) + r.partitions_per_year * r.split(f64::MAX)
    }),
    model("sentinel, min-replicas-to-write 1", ONCE, ServiceRates::failover_minutes, BY_LAG, |r| {
        r.failovers_per_year * r.forgotten(r.lag_s) + r.partitions_per_year * r.split(r.max_lag_s)
    }),
    model("sentinel, wait:K", TWICE, ServiceRates::failover_minutes, BY_LAG, |r| {
        r.failovers_per_year * r.other_promoted() * r.forgotten(r.lag_s)
    }),
    model("sentinel, wait:all", TWICE, ServiceRates::minutes_without_all, BY_LAG, NONE),
    // Each master is asked to take and to give back.
    model("masters (N), no persistence", ONCE, MOST_DOWN, NONE, ServiceRates::masters_that_forget),
    model("masters (N), delayed restart", ONCE, ServiceRates::delayed_restart_minutes, NONE, NONE),
    model("masters (N), appendfsync always", SYNCED, MOST_DOWN, NONE, NONE),
];

/// A figure with the interval that holds 95 of 100 draws of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct RiskEstimate {
    /// At the middle of every input.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What the model says of a service.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ServiceRisk {
    /// For each way to set up Redis.
    pub configurations: Vec<ConfigurationRisk>,
    /// Holders a year who were paused beyond their lease and whose lock was granted meanwhile, whichever way.
    pub overtaken_holders_per_year: RiskEstimate,
}

/// What the model says of a configuration.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ConfigurationRisk {
    /// Its name.
    pub name: String,
    /// Grants a year of a lock that somebody holds.
    pub double_grants_per_year: RiskEstimate,
    /// Minutes a year in which nothing is granted.
    pub unavailable_minutes_per_year: RiskEstimate,
    /// Locks a year whose release a failover forgot: nobody is granted them until their lease ends.
    pub blocked_locks_per_year: RiskEstimate,
    /// Commands of a cycle.
    pub commands_per_grant: f64,
    /// The median time of a grant in milliseconds, without load.
    pub grant_p50_ms: f64,
    /// The input that moves the double grants most; `None` where none does.
    pub matters_most: Option<&'static str>,
}

/// Each configuration for a service that is known to lie between `low` and `high`, field by field; where
/// these are the same, it is known exactly. The seed draws the uncertain inputs, evenly on a logarithmic
/// scale.
pub fn assess(low: &ServiceRates, high: &ServiceRates, seed: u64) -> ServiceRisk {
    let between = |share: &mut dyn FnMut() -> f64| {
        let mut rates = *low;
        for RateField { field, .. } in RATE_FIELDS {
            let (from, to) = (*field(&mut low.clone()), *field(&mut high.clone()));
            *field(&mut rates) = match from > 0.0 {
                true => from * (to / from).powf(share()),
                false => from + (to - from) * share(),
            };
        }
        rates
    };
    let middle = between(&mut || 0.5);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // What is known exactly is the same in every draw.
    let count = if low == high { 1 } else { DRAWS };
    let draws: Vec<ServiceRates> = (0..count).map(|_| between(&mut || rng.random())).collect();
    let estimate = |figure: &dyn Fn(&ServiceRates) -> f64| {
        let mut drawn: Vec<f64> = draws.iter().map(figure).collect();
        drawn.sort_unstable_by(f64::total_cmp);
        RiskEstimate {
            estimate: figure(&middle),
            low: drawn[count / 40],
            high: drawn[count - 1 - count / 40],
        }
    };
    let each = RISK_MODELS.iter().map(|model| {
        let [commands, round_trips, writes] = model.costs;
        let servers = if model.name.starts_with("masters") { low.masters } else { 1.0 };
        let name = model.name.replace("(N)", &format!("({})", low.masters));
        ConfigurationRisk {
            name: name.replace(":K", &format!(":{}", low.acknowledgers)),
            double_grants_per_year: estimate(&model.double_grants),
            unavailable_minutes_per_year: estimate(&model.unavailable_minutes),
            blocked_locks_per_year: estimate(&|r| r.failovers_per_year * (model.blocked_locks)(r)),
            commands_per_grant: commands * servers,
            grant_p50_ms: (round_trips * middle.rtt_s + writes * middle.fsync_s) * 1_000.0,
            matters_most: matters_most(model, low, high, &middle),
        }
    });
    ServiceRisk {
        configurations: each.collect(),
        overtaken_holders_per_year: estimate(&ServiceRates::overtaken),
    }
}

/// The input across whose range the double grants differ most; without a range, half to twice its value.
fn matters_most(
    model: &RiskModel,
    low: &ServiceRates,
    high: &ServiceRates,
    middle: &ServiceRates,
) -> Option<&'static str> {
    let at = |field: fn(&mut ServiceRates) -> &mut f64, value: f64| {
        let mut rates = *middle;
        *field(&mut rates) = value;
        (model.double_grants)(&rates)
    };
    let factor = if low == high { 2.0 } else { 1.0 };
    let moved = RATE_FIELDS.iter().map(|&RateField { name, field, .. }| {
        let (from, to) = (*field(&mut low.clone()) / factor, *field(&mut high.clone()) * factor);
        ((at(field, to) - at(field, from)).abs(), name)
    });
    // Of inputs that move it alike, as those by which it is multiplied, the first.
    let moved: Vec<(f64, &str)> = moved.collect();
    let rounded = |moved: f64| moved as f32;
    let most = moved.into_iter().rev().max_by(|a, b| rounded(a.0).total_cmp(&rounded(b.0)))?;
    (most.0 > 0.0).then_some(most.1)
}

/// How long the failovers of a run's sentinel groups and clusters took until the first grant, in seconds.
pub fn failover_outages(run: &Run) -> Vec<f64> {
    run.scenarios.iter().filter_map(failover_outage_ns).map(|ns| ns as f64 / 1e9).collect()
}

fn failover_outage_ns(result: &ScenarioResult) -> Option<u64> {
    let kills = result.faults.iter().any(|fault| fault.fault == "kill");
    let replaced = kills && ["sentinel", "cluster"].contains(&result.topology.as_str());
    result.recovery.first_grant_after_fault_ns.filter(|_| replaced)
}

/// A service as many have it: that of the page *How often will it break?*
pub const USUAL_SERVICE: ServiceRates = ServiceRates {
    failovers_per_year: 4.0,
    outage_s: 2.2,
    lag_s: 0.02,
    grants_per_s: 50.0,
    hold_s: 5.0,
    lease_s: 30.0,
    next_caller_s: 0.0,
    free_s: 3_600.0,
    machine_share: 1.0,
    replicas: 2.0,
    acknowledgers: 1.0,
    masters: 5.0,
    pauses_per_year: 0.0,
    pause_s: 30.0,
    paused_share: 0.1,
    clock_jumps_per_year: 0.0,
    jump_s: 5.0,
    partitions_per_year: 0.0,
    partition_s: 60.0,
    cut_off_share: 0.5,
    max_lag_s: 10.0,
    rtt_s: 0.0005,
    fsync_s: 0.001,
    renewed: 0.0,
};

/// What the configuration of a scenario means for the usual service at one failover a month, with the outage
/// that the scenario measured.
pub(crate) fn failover_risk(result: &ScenarioResult, topology: &Topology) -> Option<FailoverRisk> {
    let outage_ns = failover_outage_ns(result)?;
    let replicas = topology.replicas;
    let waits_for = result.durability.strip_prefix("wait:");
    let acknowledgers = match waits_for {
        Some("all") => replicas,
        Some(count) => count.parse().ok()?,
        None => 1,
    };
    let way = match waits_for {
        Some(_) if acknowledgers >= replicas => "wait:all",
        Some(_) => "wait:K",
        None if result.durability == "none" && topology.min_replicas_to_write > 0 => {
            "min-replicas-to-write 1"
        }
        None if result.durability == "none" => "asynchronous",
        // What the model has no term for.
        _ => return None,
    };
    let model = RISK_MODELS.iter().find(|model| model.name == format!("sentinel, {way}"))?;
    let rates = ServiceRates {
        failovers_per_year: 12.0,
        outage_s: outage_ns as f64 / 1e9,
        replicas: replicas.into(),
        acknowledgers: acknowledgers.into(),
        ..USUAL_SERVICE
    };
    Some(FailoverRisk {
        configuration: format!("{}, {}", result.topology, way.replace('K', &acknowledgers.to_string())),
        outage_ns,
        double_grants_per_year: (model.double_grants)(&rates),
        service: format!(
            "{} grants/s, holds of {} s, leases of {} s, a replica {:.0} ms behind",
            rates.grants_per_s,
            rates.hold_s,
            rates.lease_s,
            rates.lag_s * 1e3
        ),
    })
}

#[cfg(test)]
mod tests {
    use cluster_config::TopologyKind;
    use results::run::FaultSpan;

    use super::*;

    #[test]
    fn two_of_five_masters_down_is_by_far_the_riskier_time_for_a_grant() {
        let rates = USUAL_SERVICE;
        assert!(rates.forgotten_votes(3) / rates.forgotten_votes(5) > 1e9);
    }

    #[test]
    fn a_scenario_says_what_its_configuration_means() {
        let mut result = ScenarioResult {
            topology: "sentinel".to_owned(),
            durability: "none".to_owned(),
            ..ScenarioResult::default()
        };
        let mut topology = Topology::of(TopologyKind::Sentinel);
        result.recovery.first_grant_after_fault_ns = Some(2_200_000_000);
        assert_eq!(failover_risk(&result, &topology), None, "nobody was killed");
        result.faults = vec![FaultSpan { fault: "kill".to_owned(), ..FaultSpan::default() }];
        let mut of = |durability: &str, min_replicas: u32| {
            result.durability = durability.to_owned();
            topology.min_replicas_to_write = min_replicas;
            let risk = failover_risk(&result, &topology)?;
            Some((risk.configuration, risk.double_grants_per_year))
        };
        let (name, asynchronous) = of("none", 0).unwrap();
        assert_eq!(name, "sentinel, asynchronous");
        assert!((7.5..8.1).contains(&asynchronous), "{asynchronous}");
        assert_eq!(of("none", 1).unwrap().0, "sentinel, min-replicas-to-write 1");
        assert_eq!(of("wait:1", 0).unwrap().1, asynchronous / 2.0);
        for all in ["wait:2", "wait:3", "wait:all"] {
            assert_eq!(of(all, 0).unwrap(), ("sentinel, wait:all".to_owned(), 0.0));
        }
        assert_eq!(of("waitaof:1", 0), None);
    }
}
