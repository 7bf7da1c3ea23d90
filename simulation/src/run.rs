//! Carries a plan out in simulated time, and judges it as a plan on real servers is judged.

use std::collections::BTreeMap;
use std::iter;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::recorded::LoadRun;
use bench::sink::Sink;
use bench::subject::{Subject, SubjectError};
use bench::subjects;
use chaos::checkers::{CheckOptions, CheckReport, check};
use chaos::names::named;
use chaos::plan::Plan;
use chaos::proof;
use chaos::roles::Roles;
use chaos::run::{check_options, load};
use chaos::scenario::{FaultParty, FaultSpec};
use cluster_config::Persistence::{AofAlways, AofEverysec};
use cluster_config::layout::slot_range;
use cluster_config::{Role, Topology, TopologyKind};
use lock_core::machine;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use results::history::{Entry, History, Line};
use results::run::{FaultSpan, ScenarioResult};
use results::sequence::Sequence;
use results::verdict::CLASSES;
use tokio::sync::watch;

use crate::clients::Clients;
use crate::host::Host;
use crate::nemesis::NemesisContext;
use crate::network::{Machine, Network, State};
use crate::runtime::lock;
use crate::runtime::system;
use crate::server::{Address, Membership, Persistence, Server, Settings, Shard, Watch};

pub(crate) const MASTER_NAME: &str = "locklab";

/// Sentinels and the nodes of a cluster need a moment to find each other.
const SETTLES: Duration = Duration::from_secs(3);

/// What came of a plan that was carried out.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// What the checkers say of it.
    pub report: CheckReport,
    /// The faults, by when they were injected.
    pub faults: Vec<FaultSpan>,
    /// How much time passed in the simulation.
    pub simulated: Duration,
    /// Classes that were to be clean and are violated.
    pub convicted: Vec<String>,
    /// Classes that were to be violated and are not.
    pub missed: Vec<String>,
    /// Classes that were to be clean and of which too little is known.
    pub unknown: Vec<String>,
    /// Where it was asked for: the shortest history that convicts, step by step.
    pub sequence: Option<Sequence>,
    /// Where it was asked for: what clients and servers said to each other, a line for each message.
    pub trace: Vec<String>,
}

/// Carries a plan out. One plan gives one outcome, as long as process and thread begin in the same state,
/// which [`swarm`](crate::swarm) ensures. Both are of no use afterwards.
///
/// `in_full`: adds the messages between clients and servers, and for a conviction the shortest history that
/// convicts. That takes longer than the run.
pub fn run(plan: &Plan, in_full: bool) -> Result<Outcome, SubjectError> {
    let subject = subjects::find(&plan.lock.subject)?;
    system::enter(plan.seed);
    let runtime = system::runtime();
    let recorded = runtime.block_on(record(plan, subject, in_full));
    system::leave();
    // The rest is freed with the process.
    std::mem::forget(runtime);
    let recorded = recorded?;
    Ok(judged(plan, recorded, in_full))
}

struct Recorded {
    lines: Vec<Line>,
    faults: Vec<FaultSpan>,
    incomplete: Vec<String>,
    simulated: Duration,
    trace: Vec<String>,
}

async fn record(plan: &Plan, subject: Arc<dyn Subject>, in_full: bool) -> Result<Recorded, SubjectError> {
    let began = Instant::now();
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed ^ 0x6e65_7477_6f72_6b00);
    let on_holder =
        |fault: &FaultSpec| fault.on.everybody().any(|who: &FaultParty| *who == FaultParty::Holder);
    let roles = (plan.needs_roles() || plan.faults.iter().any(on_holder)).then(Arc::default);
    let network = Network::new(
        random.random(),
        latency(&mut random),
        hosts(&plan.topology, &mut random),
        roles.clone(),
    );
    let carrier = tokio::spawn(Arc::clone(&network).carry());
    if in_full {
        network.with(State::begin_trace);
    }
    if plan.needs_names() {
        let masters = plan.topology.names(Role::Master);
        network.with(|state| {
            for name in masters {
                state.point(&by_name(&name), Some(&name));
            }
        });
    }
    let _left = begin(&network, plan.topology.kind).await;
    let sink = Arc::new(HistoryRecorder { origin: began, lines: Mutex::default(), roles: roles.clone() });
    let load = LoadRun::new(load(plan), Arc::clone(&sink) as Arc<dyn Sink>);
    let clients = Arc::new(Clients::new(
        plan,
        subject,
        target(&plan.topology, plan.needs_names()),
        load.clone(),
        Arc::clone(&sink) as Arc<dyn Sink>,
    ));
    clients.start().await?;
    let over = watch::Sender::new(false);
    let scene = Arc::new(NemesisContext {
        network: Arc::clone(&network),
        clients: Arc::clone(&clients),
        topology: plan.topology.clone(),
        locks: plan.load.locks.clone(),
        load: load.clone(),
        sink: Arc::clone(&sink) as Arc<dyn Sink>,
        roles,
        over: over.subscribe(),
        spans: Mutex::default(),
    });
    let faults: Vec<_> =
        (plan.faults.iter()).map(|fault| tokio::spawn(Arc::clone(&scene).carry_out(fault.clone()))).collect();
    tokio::time::sleep(plan.load.does.duration.0).await;
    load.stop();
    over.send_replace(true);
    for fault in faults {
        let _ = fault.await;
    }
    let incomplete = clients.finish().await;
    carrier.abort();
    let mut faults = std::mem::take(&mut *lock(&scene.spans));
    faults.sort_by_key(|fault| fault.injected_ns);
    Ok(Recorded {
        lines: std::mem::take(&mut *lock(&sink.lines)),
        faults,
        incomplete,
        simulated: began.elapsed(),
        trace: network.with(State::take_trace),
    })
}

/// Starts the servers and waits until they know each other. Clients are simulated while the result lives.
pub(crate) async fn begin(network: &Arc<Network>, kind: TopologyKind) -> impl Sized + use<> {
    network.with(State::begin);
    if [TopologyKind::Sentinel, TopologyKind::Cluster].contains(&kind) {
        tokio::time::sleep(SETTLES).await;
    }
    machine::enter(Arc::new(Machine(Arc::clone(network))))
}

/// How far apart the machines of a run are: in one room, in one town, or far apart.
fn latency(random: &mut ChaCha8Rng) -> (Duration, Duration) {
    let (low, high) = [(100, 900), (500, 3_000), (2_000, 25_000)][random.random_range(0..3)];
    (Duration::from_micros(low), Duration::from_micros(high))
}

pub(crate) fn hosts(topology: &Topology, random: &mut ChaCha8Rng) -> BTreeMap<String, Host> {
    let config = |name| topology.config.get(name).map_or("", String::as_str);
    let kept = topology.persistence;
    let persistence = match (kept, config("appendonly"), config("appendfsync")) {
        (Some(AofAlways), ..) | (_, "yes", "always") => Persistence::Always,
        (_, "yes", "no") => Persistence::Never,
        (Some(AofEverysec), ..) | (_, "yes", _) => Persistence::EverySecond,
        _ => Persistence::None,
    };
    let seconds = |name| config(name).parse().ok().map(Duration::from_secs);
    let usual = Settings::default();
    let replication_timeout = seconds("repl-timeout").unwrap_or(usual.replication_timeout);
    let replica_ping = seconds("repl-ping-replica-period").unwrap_or(usual.replica_ping);
    let down_after_ms = (topology.sentinel_config.get("down-after-milliseconds"))
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(1_000);
    let master = topology.names(Role::Master).first().map(|name| address(name));
    let is_cluster = topology.kind == TopologyKind::Cluster;
    let membership = is_cluster.then(|| membership(topology));
    let roles = [Role::Master, Role::Replica, Role::Sentinel].into_iter();
    let all = roles.flat_map(|role| topology.names(role).into_iter().map(move |name| (role, name)));
    let hosts = all.map(|(role, name)| {
        let address = address(&name);
        let watch = master.clone().filter(|_| role == Role::Sentinel);
        let settings = Settings {
            seed: random.random(),
            persistence,
            replication_timeout,
            replica_ping,
            cluster: membership.clone(),
            replica_of: (master.clone()).filter(|_| role == Role::Replica && !is_cluster),
            watch: watch.map(|master| Watch {
                name: MASTER_NAME.to_owned(),
                master,
                quorum: topology.sentinels as usize / 2 + 1,
                down_after: Duration::from_millis(down_after_ms),
                failover_timeout: Duration::from_secs(5),
            }),
            address: address.clone(),
            ..Settings::default()
        };
        (name, Host::new(address.to_string(), Server::new(settings)))
    });
    hosts.collect()
}

/// The parts of a cluster, with the same number of replicas each.
fn membership(topology: &Topology) -> Membership {
    let (masters, replicas) = (topology.names(Role::Master), topology.names(Role::Replica));
    let shard = |(at, master): (usize, &String)| {
        let replicas = replicas.iter().skip(at).step_by(masters.len());
        Shard {
            slots: vec![slot_range(at, masters.len())],
            nodes: iter::once(master).chain(replicas).map(|name| address(name)).collect(),
        }
    };
    Membership {
        shards: masters.iter().enumerate().map(shard).collect(),
        node_timeout: Duration::from_secs(1),
        full_coverage: true,
    }
}

fn address(name: &str) -> Address {
    Address { host: name.to_owned(), port: 6379 }
}

/// The name by which clients know a server, in a run whose faults are about names.
pub(crate) fn by_name(name: &str) -> String {
    address(&named(name)).to_string()
}

pub(crate) fn target(topology: &Topology, needs_names: bool) -> String {
    let known = |name: &String| match needs_names {
        true => by_name(name),
        false => address(name).to_string(),
    };
    let all = |role| {
        let all: Vec<_> = topology.names(role).iter().map(known).collect();
        all.join(",")
    };
    match topology.kind {
        TopologyKind::Masters => format!("redlock://{}", all(Role::Master)),
        TopologyKind::Cluster => format!("redis-cluster://{}", all(Role::Master)),
        TopologyKind::Sentinel => format!("redis-sentinel://{}/{MASTER_NAME}", all(Role::Sentinel)),
        _ => format!("redis://{}", all(Role::Master)),
    }
}

fn judged(plan: &Plan, recorded: Recorded, prove: bool) -> Outcome {
    let history = History::from_lines(recorded.lines);
    // Of the faults that a seed draws some meet nobody; one that was asked for must be seen to take effect.
    let is_drawn = plan.name == format!("simulated-{}", plan.seed);
    let options = CheckOptions {
        doubts: recorded.incomplete,
        load: Some(plan.load.does.duration.0),
        proofs: (!is_drawn).then_some(&*recorded.faults),
        ..check_options(plan)
    };
    let mut report = check(&history, &options);
    if prove {
        proof::attach(&mut report, &history, &options);
    }
    let result = ScenarioResult {
        topology: plan.topology.kind.name().to_owned(),
        faults: recorded.faults.clone(),
        verdicts: report.verdicts.clone(),
        load_ns: u64::try_from(plan.load.does.duration.0.as_nanos()).unwrap_or(u64::MAX),
        ..ScenarioResult::default()
    };
    let meets = |wanted: Option<bool>| {
        let judged = |class: &String| CLASSES.contains(&class.as_str());
        let expected = plan.expect.iter().filter(|(class, _)| judged(class));
        let fits = expected.filter(|(class, expected)| result.meets(class, expected) == wanted);
        fits.map(|(class, _)| class.clone()).collect()
    };
    let to_be_violated = |class: &String| plan.expect[class] == "violated";
    let unmet: Vec<String> = meets(Some(false));
    let (missed, convicted) = unmet.into_iter().partition(to_be_violated);
    Outcome {
        convicted,
        missed,
        unknown: meets(None),
        sequence: Sequence::of(&result),
        history,
        report,
        faults: result.faults,
        simulated: recorded.simulated,
        trace: recorded.trace,
    }
}

struct HistoryRecorder {
    origin: Instant,
    lines: Mutex<Vec<Line>>,
    roles: Option<Arc<Mutex<Roles>>>,
}

impl Sink for HistoryRecorder {
    fn record(&self, entry: Entry) -> u64 {
        let t_ns = self.ns(Instant::now());
        self.roles.iter().for_each(|roles| lock(roles).follow(&entry));
        lock(&self.lines).push(Line { t_ns, entry });
        t_ns
    }

    fn ns(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}
