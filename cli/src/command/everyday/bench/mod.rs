//! `locklab bench`: measured rows of subjects on topologies under workloads, without faults.
//!
//! | file | what it is for |
//! |---|---|
//! | `from_watch.rs` | `--from`: the workload that `watch` has seen |
//! | `sweep.rs` | `--sweep`: rows at rising levels |
//! | `generator_part.rs` | `--part`: one load by several generators |

mod from_watch;
mod generator_part;
mod sweep;

use std::time::Duration;

use bench::client_cores::pin_servers;
use bench::driver::{self, BenchPlan, Leasing};
use bench::subjects::startable;
use bench::workload::Pace;
use chaos::bench_servers::{delay, direct_round_trip, places, sync_every_write};
use chaos::target_servers::TargetServers;
use clap::Args;
use cluster_config::{Deployment, Links, Topology, TopologyKind};

use self::sweep::Axis;
use crate::args::{ResultArgs, TargetConsent, durability, duration, lease_duration};
use crate::bench_run::{self, EarlyEnd, code_of_rows, measure, measure_at, record_server};
use crate::exit;
use crate::parts::{PARTS_HEADING, PartArgs};
use crate::provisioner::ProvisionerArgs;
use crate::run::Keeper;
use crate::target::remove_keys;
use crate::terminal::Terminal;

const WHERE: &str = "Where";
const LOAD: &str = "Load";
const LOCK: &str = "Lock";
const MEASURING: &str = "Measuring";

/// Windows per row, and the most of them where a precision decides.
const ROUNDS: u32 = 6;
const MOST_ROUNDS: u32 = 40;

#[derive(Debug, Args)]
#[command(after_help = include_str!("../../../../help/bench.txt").trim_end())]
pub(crate) struct Options {
    /// Your own servers by URL; nothing there is flushed, restarted or configured, and the run's keys are
    /// removed at its end
    #[arg(help_heading = WHERE, long, conflicts_with = "topology", value_name = "URL", value_parser = crate::args::target_url)]
    pub(super) target: Option<String>,
    #[command(flatten, next_help_heading = WHERE)]
    pub(super) mine: TargetConsent,
    #[command(flatten)]
    part: PartArgs,
    /// With --part: how long parts wait for each other
    #[arg(hide_short_help = true, help_heading = PARTS_HEADING, long, value_parser = duration, default_value = "2m", value_name = "DURATION")]
    pub(super) parts_within: Duration,
    /// Topologies to start: single, sentinel, cluster, masters; of other systems too, and then all in the
    /// same rounds
    #[arg(help_heading = WHERE, long, value_delimiter = ',', default_value = "single", value_name = "T[,T]")]
    pub(super) topology: Vec<TopologyKind>,
    /// Measure through a proxy that adds this to the round trip, e.g. 0.2ms,1ms,5ms,20ms [default: direct]
    #[arg(hide_short_help = true, help_heading = WHERE, long, value_delimiter = ',', value_parser = round_trip, conflicts_with_all = ["target", "sweep"], value_name = "D[,D]")]
    rtt: Vec<Duration>,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
    /// Locks under test; one named twice is an A/A pair [default: our lock and SET NX PX, or redlock on
    /// independent masters]
    #[arg(help_heading = LOCK, long, value_name = "S[,S]")]
    pub(super) subject: Vec<String>,
    /// The kind of lock, where a subject has several [default: the subject's own]
    #[arg(hide_short_help = true, help_heading = LOCK, long, default_value = "", hide_default_value = true, value_name = "KIND")]
    kind: String,
    /// Lease, or `renewed` for renewal by the library [default: the workload's, else 30s]
    #[arg(hide_short_help = true, help_heading = LOCK, long, value_parser = lease, value_name = "DURATION")]
    pub(super) lease: Option<Leasing>,
    /// Longest wait of an acquire; one that gives up is right-censored at that time
    #[arg(hide_short_help = true, help_heading = LOCK, long, value_parser = duration, default_value = "10s", value_name = "DURATION")]
    wait: Duration,
    /// Who must have a grant before it counts: none, wait:K, wait:majority or wait:all replicas, or waitaof:K
    /// disks
    #[arg(hide_short_help = true, help_heading = LOCK, long, value_parser = durability, default_value = "none", value_name = "HOW")]
    durability: String,
    /// Redis writes each grant to its disk before it answers (appendfsync always), as etcd, ZooKeeper and
    /// rows of a database do by themselves
    #[arg(hide_short_help = true, help_heading = LOCK, long, conflicts_with_all = ["target", "sweep"])]
    fsync: bool,
    /// What clients do [default: uncontended,contended; in a sweep uncontended alone]
    #[arg(help_heading = LOAD, long, value_delimiter = ',', value_name = "W[,W]")]
    pub(super) workload: Vec<String>,
    /// As the busiest lock of an application was used: names, hold, lease and rate that this run of
    /// `locklab watch` has seen
    #[arg(hide_short_help = true, help_heading = LOAD, long, conflicts_with_all = ["sweep", "own_loop"], value_name = "RUN")]
    from: Option<String>,
    /// Concurrent tasks [default: 16]
    #[arg(help_heading = LOAD, long, value_delimiter = ',', value_parser = crate::args::count, value_name = "N[,N]")]
    pub(super) tasks: Vec<u32>,
    /// Clients of their own identity and connections that share the tasks; with more than one, each is a
    /// process of its own
    #[arg(hide_short_help = true, help_heading = LOAD, long, default_value_t = 1, value_parser = crate::args::count, value_name = "N")]
    pub(super) clients: u32,
    /// Each lock runs the closed loop itself, in a process of its own that lasts through the run and is
    /// warmed up once for --warmup: as fast as it is without our pipe, by its own word and not judged
    /// (uncontended, contended, chain)
    #[arg(hide_short_help = true, help_heading = LOAD, long, conflicts_with_all = ["sweep", "rate", "clients"])]
    pub(super) own_loop: bool,
    /// Lock names [default: the workload's, else as many as tasks]
    #[arg(hide_short_help = true, help_heading = LOAD, long, value_parser = crate::args::count, value_name = "N")]
    pub(super) locks: Option<u32>,
    /// Time between grant and release [default: the workload's]
    #[arg(hide_short_help = true, help_heading = LOAD, long, value_parser = duration, value_name = "DURATION")]
    pub(super) hold: Option<Duration>,
    /// Open loop: cycles begin on a schedule at this rate, whatever the lock does, e.g. 5000/s; --tasks is
    /// the most in flight [default: closed loop; with a rate 256 tasks]
    #[arg(help_heading = LOAD, long, value_parser = crate::args::rate, value_name = "RATE")]
    pub(super) rate: Option<f64>,
    /// Time before each measured window, which is dropped
    #[arg(hide_short_help = true, help_heading = MEASURING, long, value_parser = duration, default_value = "150ms", value_name = "DURATION")]
    warmup: Duration,
    /// Each measured window
    #[arg(help_heading = MEASURING, long, value_parser = window, default_value = "500ms", value_name = "DURATION")]
    duration: Duration,
    /// Windows per row; with one there is no interval, below six no comparison [default: 6; with --precision
    /// at most 40]
    #[arg(help_heading = MEASURING, long, value_parser = crate::args::count, value_name = "N")]
    rounds: Option<u32>,
    /// As many windows, six at least and --rounds at most, as bring each row's rate to this precision, e.g.
    /// 5%: its 95 % interval then reaches no farther than 5 % to either side
    #[arg(hide_short_help = true, help_heading = MEASURING, long, value_parser = precision, conflicts_with = "sweep", value_name = "SHARE")]
    pub(super) precision: Option<f64>,
    /// Raise the load level by level, and show the curve
    #[arg(hide_short_help = true, help_heading = MEASURING, long, value_enum, value_name = "WHAT")]
    pub(super) sweep: Option<Axis>,
    /// With --sweep shards: the most
    #[arg(hide_short_help = true, help_heading = MEASURING, long, value_parser = clap::value_parser!(u32).range(1..=100), default_value_t = 100, requires = "sweep", value_name = "N")]
    pub(super) shards: u32,
    #[command(flatten)]
    shown: ResultArgs,
}

impl Options {
    fn workloads(&self) -> Vec<String> {
        if !self.workload.is_empty() {
            return self.workload.clone();
        }
        match self.sweep {
            Some(_) => vec!["uncontended".to_owned()],
            None => vec!["uncontended".to_owned(), "contended".to_owned()],
        }
    }
}

pub(crate) async fn run(mut options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if let Some(run) = options.from.clone() {
        terminal.note(&from_watch::fill(&mut options, &run)?);
    }
    check(&options)?;
    let share = options.part.share()?;
    if share.is_some() {
        generator_part::check(&options)?;
    }
    let seed = options.part.seed(&terminal.common)?;
    let mine = options.mine.yes_this_is_mine;
    let target = options.target.as_ref();
    let servers = target.map(|url| TargetServers::of(url, mine)).transpose()?;
    if let Some(servers) = &servers {
        servers.refuse_redirects().await?;
    }
    let mut keeper = Keeper::begin(terminal, "bench", "bench", seed)?;
    keeper.shown = options.shown;
    terminal.note(&format!("seed {seed}"));

    let measured = match (options.sweep, share) {
        (Some(axis), _) => sweep::run(axis, &options, &mut keeper).await,
        (None, Some(share)) => generator_part::run(share, &options, &mut keeper).await,
        (None, None) => measure_all(&options, &mut keeper).await,
    };
    let failed = measured.is_err() && keeper.is_empty();
    let ended = measured.unwrap_or_else(|error| Some((exit::code_of(&error), format!("{error:#}"))));
    // Why the run ended comes before what could not be tidied up after it.
    if let Some((_, why)) = &ended {
        terminal.warn(why);
    }
    if let (Some(mut servers), None) = (servers, share) {
        let prefix = keeper.key_prefix();
        match failed {
            // Servers that nobody could connect to have no keys.
            true => drop(servers.remove(&prefix).await),
            false => remove_keys(&mut servers, &prefix, terminal).await,
        }
    }
    let code = ended.as_ref().map_or_else(|| code_of_rows(&keeper.run.rows), |(code, _)| *code);
    if failed {
        keeper.discard();
        terminal.no_result(ended.as_ref().map_or("", |(_, why)| why), code);
        return Ok(code);
    }
    if let Some(part) = &mut keeper.run.part {
        part.exit_code = ended.is_none().then_some(code);
    }
    if let Some((_, why)) = &ended {
        keeper.run.warnings.push(format!("ended early: {why}"));
    }
    keeper.finish(ended.is_some())?;
    Ok(code)
}

/// Measures the target, or one started topology after the other.
async fn measure_all(options: &Options, keeper: &mut Keeper) -> anyhow::Result<Option<EarlyEnd>> {
    if let Some(url) = &options.target {
        if let Some(system) = bench::subjects::system_of(url)
            && let Ok(mut servers) = TargetServers::of(url, options.mine.yes_this_is_mine)
            && let Ok(found) = servers.ask().await
        {
            let mut topology = found.topology().clone();
            topology.server = system.to_owned();
            record_server(keeper, &topology, found.server_version());
        }
        let plan = plan(options, url, "external", keeper);
        return measure(&plan, keeper).await;
    }
    let kinds = &options.topology;
    // Without --rtt there is no proxy.
    let mut round_trips: Vec<Option<Duration>> = options.rtt.iter().copied().map(Some).collect();
    if round_trips.is_empty() {
        round_trips.push(None);
    }
    // Locks of several systems are measured in the same rounds; topologies of Redis one after the other,
    // since a lock runs on each.
    let together = !kinds.iter().all(|kind| kind.is_redis());
    for group in kinds.chunks(if together { kinds.len() } else { 1 }) {
        for rtt in &round_trips {
            let ended = measure_group(options, group, *rtt, keeper).await?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
    }
    Ok(None)
}

/// Measures on servers of these kinds at once, behind proxies that add to the round trip if they are to.
async fn measure_group(
    options: &Options,
    kinds: &[TopologyKind],
    rtt: Option<Duration>,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<EarlyEnd>> {
    let links = rtt.map_or(Links::Direct, |_| Links::Proxied);
    let mut running = Vec::new();
    for kind in kinds {
        let mut topology = Topology::of(*kind);
        if options.fsync && kind.is_redis() {
            sync_every_write(&mut topology);
        }
        running.push(start_servers(options, topology, links, kind.name(), keeper).await?);
    }
    let mut plan = plan(options, &running[0].url(), kinds[0].name(), keeper);
    plan.added_rtt = rtt;
    if let [alone] = running.as_slice() {
        let servers = alone.nodes().iter().map(|node| alone.pid(&node.name));
        plan.client_cores = pin_servers(servers, options.clients);
        if rtt.is_some() {
            plan.direct_round_trip = direct_round_trip(alone).await;
        }
    }
    let places = places(&running, &options.subject, options.fsync, &mut plan)?;
    let mut delays = Vec::new();
    for deployment in &running {
        if let Some(rtt) = rtt {
            delays.extend(delay(deployment.links()?, deployment.nodes(), rtt / 2, Duration::ZERO));
        }
    }
    let ended = measure_at(&plan, Some(places), None, keeper).await;
    drop(delays);
    for deployment in running {
        deployment.down().await?;
    }
    ended
}

/// Starts servers; `name` tells deployments of one run apart.
pub(super) async fn start_servers(
    options: &Options,
    mut topology: Topology,
    links: Links,
    name: &str,
    keeper: &mut Keeper,
) -> anyhow::Result<Deployment> {
    options.provisioner.apply(&mut topology);
    let deployment = bench_run::start_servers(&topology, links, name, &keeper.path()).await?;
    record_server(keeper, &topology, deployment.server_version());
    Ok(deployment)
}

/// A round trip such as `0.2ms`, above nought.
fn round_trip(text: &str) -> Result<Duration, String> {
    let rtt: Option<jiff::SignedDuration> = text.parse().ok();
    rtt.and_then(|rtt| Duration::try_from(rtt).ok())
        .filter(|rtt| !rtt.is_zero() && *rtt <= Duration::from_secs(10))
        .ok_or_else(|| crate::args::invalid("round trip", text, "0.2ms, 5ms or 1s"))
}

fn check(options: &Options) -> anyhow::Result<()> {
    let workloads = options.workloads();
    for name in &workloads {
        let workload = bench::workload::find(name).map_err(exit::usage)?;
        if options.rate.is_some() && !workload.paced {
            return Err(exit::usage(format!(
                "--rate: `{name}` sets its own pace; leave the rate out, or choose another workload"
            )));
        }
    }
    if let Some(axis) = options.sweep {
        sweep::check(axis, options, &workloads)?;
    }
    if options.subject.is_empty() {
        bench::subjects::check_usual(&workloads).map_err(exit::usage)?;
    }
    for name in bench::subjects::by_comma(&options.subject) {
        let subject = startable(&name)?;
        for workload in &workloads {
            driver::kind_of(&options.kind, subject.as_ref(), workload).map_err(exit::usage)?;
        }
    }
    Ok(())
}

pub(super) fn plan(options: &Options, url: &str, topology: &str, keeper: &Keeper) -> BenchPlan {
    let mut plan = BenchPlan::new(url);
    plan.topology = topology.to_owned();
    plan.workloads = options.workloads();
    plan.subjects = bench::subjects::by_comma(&options.subject);
    if plan.subjects.is_empty() {
        plan.subjects = bench::subjects::usual(url, &plan.workloads);
    }
    plan.tasks = match (options.tasks.as_slice(), options.rate) {
        ([], None) => vec![16],
        // An open loop needs room: a tick that finds every task busy begins late.
        ([], Some(_)) => vec![256],
        (tasks, _) => tasks.to_vec(),
    };
    plan.kind = options.kind.clone();
    plan.lease = options.lease.unwrap_or_default();
    plan.wait = options.wait;
    plan.hold = options.hold;
    plan.pace = options.rate.map(|rate_per_s| Pace { rate_per_s });
    plan.locks = options.locks;
    plan.clients = options.clients;
    plan.client_processes = options.clients > 1 || options.own_loop;
    plan.own_loop = options.own_loop;
    plan.durability = options.durability.clone();
    let kind = TopologyKind::REDIS.iter().find(|kind| kind.name() == topology);
    plan.replicas = kind.map_or(0, |kind| Topology::of(*kind).replicas);
    plan.warmup = options.warmup;
    plan.duration = options.duration;
    let usual = options.precision.map_or(ROUNDS, |_| MOST_ROUNDS);
    plan.rounds = options.rounds.unwrap_or(usual);
    plan.precision = options.precision;
    plan.seed = keeper.run.meta.seed;
    plan.key_prefix = keeper.key_prefix();
    plan
}

fn lease(text: &str) -> Result<Leasing, String> {
    match text {
        "renewed" => Ok(Leasing::Renewed),
        fixed => lease_duration(fixed).map(Leasing::Fixed),
    }
}

fn window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    (window >= Duration::from_millis(50))
        .then_some(window)
        .ok_or_else(|| "a window under 50ms measures nothing".to_owned())
}

fn precision(text: &str) -> Result<f64, String> {
    crate::args::share(text)
        .ok()
        .filter(|share| *share > 0.0)
        .ok_or_else(|| crate::args::invalid("precision", text, "a share above 0%, such as 5%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_may_be_parts_of_a_millisecond() {
        assert_eq!(round_trip("0.2ms"), Ok(Duration::from_micros(200)));
        assert_eq!(round_trip("20ms"), Ok(Duration::from_millis(20)));
        for bad in ["", "5", "0ms", "-1ms", "fast", "NaNms", "1h"] {
            assert!(round_trip(bad).is_err(), "{bad}");
        }
    }
}
