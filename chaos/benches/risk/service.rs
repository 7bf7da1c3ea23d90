//! A service whose master crashes, and what is counted of it: shared by the bench with real servers and by
//! the one in simulated time.

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient};
use chaos::risk::{ServiceRates, assess};
use cluster_config::{Topology, TopologyKind};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use results::overlap::{Hold, Mode, overlaps};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Grants are counted for so long before the crash.
const COUNTED: Duration = Duration::from_secs(4);
/// A caller that has no answer by then goes away.
const PATIENCE: Duration = Duration::from_millis(100);
/// A lock must be had again so soon after a crash.
const LONGEST_OUTAGE: Duration = Duration::from_secs(40);

/// What is tried, by its name in [`chaos::risk`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Configuration {
    Asynchronous,
    /// Of two replicas one is late; it is promoted in every other failover, as a blind choice would.
    WaitOne,
    WaitAll,
    Single,
}

impl Configuration {
    pub(crate) const ALL: [Configuration; 4] =
        [Configuration::Asynchronous, Configuration::WaitOne, Configuration::WaitAll, Configuration::Single];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Configuration::Asynchronous => "sentinel, asynchronous",
            Configuration::WaitOne => "sentinel, wait:1",
            Configuration::WaitAll => "sentinel, wait:all",
            Configuration::Single => "single, no persistence",
        }
    }

    fn durability(self) -> &'static str {
        match self {
            Configuration::WaitOne => "wait:1",
            Configuration::WaitAll => "wait:all",
            _ => "none",
        }
    }

    pub(crate) fn topology(self, setting: &Setting) -> Topology {
        let down_after = (setting.down_after_s * 1e3).to_string();
        match self {
            Configuration::Single => Topology::of(TopologyKind::Single),
            _ => Topology {
                replicas: if self == Configuration::WaitOne { 2 } else { 1 },
                sentinel_config: [("down-after-milliseconds".to_owned(), down_after)].into(),
                ..Topology::of(TopologyKind::Sentinel)
            },
        }
    }
}

/// A service and its servers.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The mean of the lag, which is drawn from half of it to one and a half.
    lag_s: f64,
    hold_s: f64,
    lease_s: f64,
    /// From one caller of a lock to the next.
    caller_s: f64,
    /// `down-after-milliseconds`; of a single server, until it is started again.
    pub(crate) down_after_s: f64,
}

const USUAL: Setting =
    Setting { name: "usual", lag_s: 0.2, hold_s: 2.0, lease_s: 30.0, caller_s: 1.0, down_after_s: 0.5 };

pub(crate) static SETTINGS: [Setting; 6] = [
    USUAL,
    Setting { name: "more lag", lag_s: 0.6, ..USUAL },
    Setting { name: "short holds", hold_s: 0.8, ..USUAL },
    Setting { name: "long outage", down_after_s: 2.0, ..USUAL },
    Setting { name: "rare callers", caller_s: 4.0, ..USUAL },
    Setting { name: "D ≥ lease", hold_s: 1.0, lease_s: 3.0, down_after_s: 3.2, ..USUAL },
];

fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}

/// One crash: what was counted, and what the model says of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Failover {
    double: u64,
    predicted: [f64; 3],
    outage_s: f64,
    grants_per_s: f64,
}

/// What the model says of a crash.
fn says(name: &str, rates: &ServiceRates) -> f64 {
    let all = assess(rates, rates, 1).configurations;
    let one = all.into_iter().find(|one| one.name == name);
    one.expect("a configuration of the model").double_grants_per_year.estimate
}

/// The callers of all locks; what they held, and when each grant was made.
struct Callers {
    client: Arc<dyn LockClient>,
    /// Who asks once the master is dead: without waiting for replicas, of which one is gone.
    later: Arc<dyn LockClient>,
    patience_later: Duration,
    is_dead: AtomicBool,
    began: Instant,
    holds: Mutex<Vec<Hold>>,
}

impl Callers {
    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    async fn ask(
        &self,
        name: &str,
        lease: Duration,
        patience: Duration,
    ) -> Option<(Arc<dyn LockClient>, String)> {
        let (client, patience) = match self.is_dead.load(Ordering::Relaxed) {
            true => (&self.later, self.patience_later),
            false => (&self.client, patience),
        };
        let request = AcquireRequest {
            lock: name,
            kind: "plain",
            owner: "caller",
            wait: Some(Duration::ZERO),
            lease: Some(lease),
            cancel: Some(patience),
            ..AcquireRequest::default()
        };
        match timeout(patience, client.acquire(request)).await {
            Ok(AcquireEnd::Ok { grant, .. }) => Some((Arc::clone(client), grant)),
            _ => None,
        }
    }

    /// Callers of one lock, one after the other; each that is granted holds beside them.
    async fn come(
        self: Arc<Self>,
        lock: u32,
        setting: &'static Setting,
        patience: Duration,
        mut over: watch::Receiver<bool>,
        mut rng: ChaCha8Rng,
    ) {
        let (name, lease) = (format!("risk-{lock}"), Duration::from_secs_f64(setting.lease_s));
        loop {
            let next = Duration::from_secs_f64(exponential(setting.caller_s, &mut rng));
            tokio::select! {
                () = sleep(next) => {}
                _ = over.wait_for(|over| *over) => return,
            }
            let sent_ns = self.now_ns();
            let Some((client, grant)) = self.ask(&name, lease, patience).await else {
                continue;
            };
            let from_ns = self.now_ns();
            let hold_s = exponential(setting.hold_s, &mut rng);
            let until_ns = sent_ns + lease.as_nanos() as u64;
            let to_ns = (from_ns + (hold_s * 1e9) as u64).min(until_ns);
            let mut holds = self.holds.lock().expect("no panic");
            let number = holds.len() as u32;
            holds.push(Hold {
                lock,
                owner: 0,
                from_ns,
                to_ns,
                mode: Mode::Exclusive,
                weight: 1,
                grant: number,
            });
            drop(holds);
            let left = Duration::from_nanos(to_ns.saturating_sub(self.now_ns()));
            tokio::spawn(async move {
                sleep(left).await;
                // A server that is not there yet answers nobody; the lease ends what it keeps.
                let _given = timeout(Duration::from_secs(2), client.release(&grant)).await;
            });
        }
    }

    /// When a lock that nobody else asks for is granted again.
    async fn first_grant_ns(&self) -> Result<u64, Failure> {
        let asked = Instant::now();
        while asked.elapsed() < LONGEST_OUTAGE {
            let name = format!("probe-{}", asked.elapsed().as_nanos());
            if self.ask(&name, PATIENCE, PATIENCE).await.is_some() {
                return Ok(self.now_ns());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Err("nothing was granted again".into())
    }
}

/// The servers of one failover, and how they are broken.
pub(crate) trait FailingServers {
    /// Attempts of all callers together in a second.
    const ATTEMPTS_PER_S: f64;
    /// By how many standard deviations of their count the grants a second may be off.
    const GRANTS_DOUBT: f64;
    /// By how much outage and lag may be off: messages, and the clock's grain.
    const DOUBT_S: f64;
    /// The call that kills the master may return so much later than the master dies. The last grant tells the
    /// time better then.
    const KILL_LASTS_AT_MOST: Duration;
    /// A caller after the crash goes away sooner: one that waited for servers would be granted the lock at
    /// once, as no new caller is.
    const PATIENCE_AFTER: Duration;

    /// A client of the library.
    async fn connect(&self, to: &ConnectTo) -> Result<Arc<dyn LockClient>, Failure>;
    /// What `n2` hears of its master is late by so much from now on; `barred` is not to be promoted.
    async fn be_late(&self, lag: Duration, barred: Option<&str>) -> Result<(), Failure>;
    /// Ends the master and what it still says to its replicas.
    async fn crash(&self, barred: Option<&str>) -> Result<(), Failure>;
    /// Starts the master again.
    async fn start_again(&self) -> Result<(), Failure>;
}

/// One failover of servers that are started for it.
pub(crate) async fn fail_over<S: FailingServers>(
    of: Configuration,
    setting: &'static Setting,
    seed: u64,
    servers: &S,
) -> Result<Failover, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Where each grant waits for a late replica, the one after the other on a connection, callers of a
    // library would give up.
    let (share, waits_for) = match of {
        Configuration::WaitAll => (0.1, Duration::from_secs(10)),
        _ => (1.0, Duration::ZERO),
    };
    let lag_s = share * setting.lag_s * rng.random_range(0.5..1.5);
    // The late one is promoted in every other failover.
    let barred = (of == Configuration::WaitOne).then_some(if seed.is_multiple_of(2) { "n3" } else { "n2" });
    if of != Configuration::Single {
        let lag = Duration::from_secs_f64(lag_s);
        servers.be_late(lag, barred).await?;
    }
    let client = |name, durability| ConnectTo::new("", name, seed, durability);
    let callers = Arc::new(Callers {
        client: servers.connect(&client("c1", of.durability())).await?,
        later: servers.connect(&client("c2", "none")).await?,
        patience_later: S::PATIENCE_AFTER,
        is_dead: AtomicBool::new(false),
        began: Instant::now(),
        holds: Mutex::default(),
    });
    let (over, is_over) = watch::channel(false);
    let locks = (share * S::ATTEMPTS_PER_S * setting.caller_s) as u32;
    for lock in 0..locks {
        let rng = ChaCha8Rng::seed_from_u64(seed << 32 | u64::from(lock));
        let callers = Arc::clone(&callers);
        tokio::spawn(callers.come(lock, setting, PATIENCE + waits_for, is_over.clone(), rng));
    }
    let settled = Duration::from_secs_f64(3.0 * setting.hold_s.min(setting.lease_s));
    sleep(settled + COUNTED).await;
    servers.crash(barred).await?;
    callers.is_dead.store(true, Ordering::Relaxed);
    let killed_ns = callers.now_ns();
    if of == Configuration::Single {
        sleep(Duration::from_secs_f64(setting.down_after_s)).await;
        servers.start_again().await?;
    }
    let probed_ns = callers.first_grant_ns().await?;
    let counted = (4.0 * setting.hold_s).min(setting.lease_s);
    sleep(Duration::from_secs_f64(counted)).await;
    over.send(true)?;
    let holds = callers.holds.lock().expect("no panic").clone();
    let later = holds.iter().map(|hold| hold.from_ns);
    let first_ns = later.filter(|from_ns| *from_ns > killed_ns).fold(probed_ns, u64::min);
    let answered = (holds.iter().map(|hold| hold.from_ns)).filter(|from_ns| *from_ns <= killed_ns);
    let answered_ns = answered.max().ok_or("nothing was granted")?;
    let earliest_ns = killed_ns.saturating_sub(S::KILL_LASTS_AT_MOST.as_nanos() as u64);
    let killed_ns = answered_ns.max(earliest_ns);
    let counted_ns = killed_ns.saturating_sub(COUNTED.as_nanos() as u64);
    let counted = holds.iter().filter(|hold| (counted_ns..killed_ns).contains(&hold.from_ns));
    let counted = counted.count() as f64;
    // Each forgotten hold counts once, however often its lock is granted while it lasts.
    let forgotten: HashSet<u32> = overlaps(holds, |_| None).list.iter().map(|one| one.earlier).collect();
    let (outage_s, seconds) = ((first_ns - killed_ns) as f64 / 1e9, COUNTED.as_secs_f64());
    let at = |sign: f64| ServiceRates {
        failovers_per_year: 1.0,
        outage_s: outage_s - sign * S::DOUBT_S,
        lag_s: lag_s + sign * S::DOUBT_S,
        grants_per_s: (counted + sign * S::GRANTS_DOUBT * counted.sqrt()) / seconds,
        hold_s: setting.hold_s,
        lease_s: setting.lease_s,
        next_caller_s: setting.caller_s,
        free_s: setting.caller_s,
        machine_share: 1.0,
        replicas: f64::from(of.topology(setting).replicas),
        acknowledgers: 1.0,
        masters: 5.0,
        ..ServiceRates::default()
    };
    // Of wait:1 the model takes the mean of both choices, each of which is made in every other failover.
    let predicted = [-1.0, 0.0, 1.0].map(|sign| says(of.name(), &at(sign)));
    Ok(Failover { double: forgotten.len() as u64, predicted, outage_s, grants_per_s: counted / seconds })
}

/// Between what the mean of a Poisson count lies in 95 of 100 cases (Wilson and Hilferty).
fn poisson_interval(count: u64) -> (f64, f64) {
    let bound = |count: f64, z: f64| {
        let ninth = 1.0 / (9.0 * count);
        count * (1.0 - ninth + z * ninth.sqrt()).powi(3)
    };
    let low = if count == 0 { 0.0 } else { bound(count as f64, -1.96) };
    (low, bound(count as f64 + 1.0, 1.96))
}

/// Whether a cell of the table agrees with the model, and whether it keeps what an outage of a lease
/// promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Agrees,
    Differs,
    /// A lock was granted twice after an outage of a lease.
    Impossible,
}

impl Outcome {
    fn of(setting: &Setting, double: u64, agrees: bool) -> Self {
        match (setting.down_after_s >= setting.lease_s && double > 0, agrees) {
            (true, _) => Outcome::Impossible,
            (false, true) => Outcome::Agrees,
            (false, false) => Outcome::Differs,
        }
    }
}

/// A cell of the table: per failover what was observed, and what is predicted.
fn cell(of: Configuration, setting: &Setting, found: &[Failover]) -> Outcome {
    let n = found.len() as f64;
    let double: u64 = found.iter().map(|one| one.double).sum();
    let (low, high) = poisson_interval(double);
    let sum = |which: usize| found.iter().map(|one| one.predicted[which]).sum::<f64>() / n;
    let mean = |figure: fn(&Failover) -> f64| found.iter().map(figure).sum::<f64>() / n;
    let [from, estimate, to] = [0, 1, 2].map(sum);
    let overlap = low / n <= to && from <= high / n;
    println!(
        "| {} | {} | {n} | {:.0} | {:.2} s | {:.2} ({:.2}–{:.2}) | {estimate:.2} ({from:.2}–{to:.2}) | {} |",
        of.name(),
        setting.name,
        mean(|one| one.grants_per_s),
        mean(|one| one.outage_s),
        double as f64 / n,
        low / n,
        high / n,
        if overlap { "yes" } else { "**no**" },
    );
    Outcome::of(setting, double, overlap)
}

/// Each configuration with each setting.
pub(crate) fn cells() -> impl Iterator<Item = (Configuration, &'static Setting)> {
    let all = Configuration::ALL.into_iter();
    all.flat_map(|of| SETTINGS.iter().map(move |setting| (of, setting)))
}

/// How many failovers of each cell are asked for: an even number, since every other one promotes the late
/// replica of wait:1.
pub(crate) fn failovers(default: u64) -> Result<u64, Failure> {
    let failovers = number("RISK_FAILOVERS", default)?;
    match failovers.is_multiple_of(2) {
        true => Ok(failovers),
        false => Err("RISK_FAILOVERS must be even".into()),
    }
}

/// A number of the environment.
pub(crate) fn number(name: &str, default: u64) -> Result<u64, Failure> {
    Ok(env::var(name).map_or(Ok(default), |text| text.parse())?)
}

/// The table, a row per cell.
#[derive(Default)]
pub(crate) struct Table {
    outcomes: Vec<Outcome>,
    failovers: usize,
}

impl Table {
    /// Prints the row of a cell; a cell without a failover has none.
    pub(crate) fn add(&mut self, of: Configuration, setting: &Setting, found: &[Failover]) {
        if found.is_empty() {
            return;
        }
        if self.outcomes.is_empty() {
            println!(
                "| configuration | setting | failovers | grants/s | outage | double grants per failover | predicted | agree |\n|---|---|---|---|---|---|---|---|"
            );
        }
        self.outcomes.push(cell(of, setting, found));
        self.failovers += found.len();
    }

    /// Fails where fewer than 23 cells agree, or a lock was granted twice after an outage of a lease.
    pub(crate) fn finish(&self) -> ExitCode {
        let number = |which| self.outcomes.iter().filter(|one| **one == which).count();
        println!("\n{} of 24 cells agree, {} failovers.", number(Outcome::Agrees), self.failovers);
        let is_enough = number(Outcome::Agrees) >= 23 && number(Outcome::Impossible) == 0;
        ExitCode::from(u8::from(!is_enough))
    }
}
