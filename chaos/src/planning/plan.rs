//! A plan: a scenario with everything random drawn from a seed; nothing is drawn later.
//!
//! A plan is saved before anything starts, and read back it gives the same run again as far as servers and
//! schedulers allow. What is left for the moment of a fault is a matter of fact, not of chance: who is master
//! then, and who holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bench::workload::Pace;
use cluster_config::layout::slot_range;
use cluster_config::{Topology, TopologyKind, slot_of};
use itertools::Itertools;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use results::audit::Inherent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::faults::FaultKind;
use crate::planning::draw::{drawn, operations, random, when};
use crate::scenario::{
    FaultSpec, FaultTrigger, Load, Lock, Range, Scenario, Setting, as_in_a_file, data_nodes,
};
use crate::servers::hooks::Hooks;

/// The version of the form of `plan.json` that this build writes.
pub const SCHEMA: u32 = 1;

/// A scenario with nothing left to chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The form's version, [`SCHEMA`].
    pub schema: u32,
    /// The scenario's name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Where its expectation comes from.
    pub claim: String,
    /// Everything random was drawn from it.
    pub seed: u64,
    /// The servers.
    pub topology: Topology,
    /// The lock.
    pub lock: Lock,
    /// The load.
    pub load: LoadPlan,
    /// The faults, those with a time first and in its order.
    pub faults: Vec<FaultSpec>,
    /// Commands that carry faults out in place of the harness.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: Hooks,
    /// What must come out, by verdict.
    pub expect: BTreeMap<String, String>,
    /// Why no lock keeps what is expected to be violated; `None` where another lock keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherent: Option<Inherent>,
    /// Where its file says what it expects, as `locks.toml:12`; empty of a scenario that comes with the
    /// program, and of a plan that was kept.
    #[serde(skip)]
    pub declared_at: String,
}

/// The load of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// Lock names. In a cluster all have their slot on the first master, unless they are spread.
    pub locks: Vec<String>,
    /// What they do. Its counts say nothing here, and its `mix` is never empty.
    #[serde(flatten)]
    pub does: Load,
}

impl LoadPlan {
    pub(crate) fn tasks(&self) -> usize {
        self.clients.iter().map(|client| client.task_seeds.len()).sum()
    }

    pub(crate) fn client_names(&self) -> impl Iterator<Item = String> {
        self.clients.iter().map(|client| client.name.clone())
    }

    pub(crate) fn tasks_per_client(&self) -> usize {
        self.clients.first().map_or(1, |client| client.task_seeds.len())
    }

    /// When cycles begin; `None` in a closed loop.
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.does.rate.as_ref().and_then(|rate| rate.parse().ok())
    }
}

/// One client of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientPlan {
    /// `c1`…
    pub name: String,
    /// Seed of its library's jitter.
    pub seed: u64,
    /// Seeds of its tasks; task 0 is owner `t0`.
    pub task_seeds: Vec<u64>,
}

/// A plan that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl Plan {
    /// Draws everything random in `scenario` from `seed`. The same two give the same plan, byte for byte.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let chosen = scenario.random.as_ref().map(|spec| operations(scenario, spec, seed));
        let scenario = chosen.as_ref().unwrap_or(scenario);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let load = &scenario.load;
        let silent = Load::default();
        let kind = kind(scenario);
        let clients = (1..=load.clients)
            .map(|number| ClientPlan {
                name: format!("c{number}"),
                seed: rng.next_u64(),
                task_seeds: (0..load.tasks).map(|_| rng.next_u64()).collect(),
            })
            .collect();
        let mut faults: Vec<FaultSpec> = scenario
            .faults
            .iter()
            .map(|fault| FaultSpec {
                when: when(&fault.when, &scenario.topology, load.clients, &mut rng),
                on: drawn(&fault.on, &scenario.topology, load.clients, &mut rng),
                ..fault.clone()
            })
            .collect();
        if let Some(spec) = &scenario.random {
            let (topology, duration_ns) = (&scenario.topology, load.duration.ns());
            faults.extend(random(spec, topology, load.clients, duration_ns, &mut rng));
        }
        faults.sort_by_key(|fault| match fault.when {
            FaultTrigger::AtNs(at_ns) => at_ns,
            FaultTrigger::AfterFirstGrant | FaultTrigger::OnMessage(_) => u64::MAX,
        });
        for (span, fault) in (1..).zip(&mut faults) {
            fault.span = span;
        }
        Self {
            schema: SCHEMA,
            name: scenario.name.clone(),
            about: scenario.about.clone(),
            claim: scenario.claim.clone(),
            seed,
            topology: scenario.topology.clone(),
            lock: Lock { kind: kind.clone(), ..scenario.lock.clone() },
            load: LoadPlan {
                clients,
                locks: lock_names(&scenario.topology, load.spread, load.locks),
                does: Load {
                    clients: silent.clients,
                    tasks: silent.tasks,
                    locks: silent.locks,
                    mix: (load.kinds(&kind, &[])).expect("checked when it was read"),
                    ..load.clone()
                },
            },
            faults,
            hooks: scenario.hooks.clone(),
            expect: scenario.expect.clone(),
            declared_at: String::new(),
            inherent: scenario.audit.inherent(),
        }
    }

    /// Lets every key of the load begin with a prefix, as on servers that are somebody else's, also where a
    /// fault names it.
    pub fn prefix_locks(&mut self, prefix: &str) {
        let withs = self.faults.iter_mut().flat_map(|fault| fault.with.values_mut());
        let words =
            withs.filter_map(|with| if let Setting::Words(words) = with { Some(words) } else { None });
        for word in words.flatten().filter(|word| self.load.locks.contains(word)) {
            word.insert_str(0, prefix);
        }
        for lock in &mut self.load.locks {
            lock.insert_str(0, prefix);
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static FaultKind> {
        self.faults.iter().filter_map(FaultSpec::kind)
    }

    /// Whether a fault of this plan acts on links or waits for what passes there, so that the deployment
    /// needs proxies.
    pub fn needs_proxies(&self) -> bool {
        let waits = |fault: &FaultSpec| matches!(fault.when, FaultTrigger::OnMessage(_));
        self.faults.iter().any(waits) || self.kinds().any(|kind| kind.hits.link())
    }

    /// Whether a fault of this plan means messages by what their client is doing.
    pub fn needs_roles(&self) -> bool {
        self.faults.iter().any(|fault| match &fault.when {
            FaultTrigger::OnMessage(message) if message.pattern().label().is_some() => true,
            _ => fault.with.contains_key("during"),
        })
    }

    /// Whether a fault of this plan works through the shim, so that servers and clients must be started with
    /// it.
    pub fn needs_shim(&self) -> bool {
        self.kinds().any(|kind| kind.needs_shim)
    }

    /// Whether a fault of this plan, carried out by the harness, is about the servers' names, so that clients
    /// must know them by name.
    pub fn needs_names(&self) -> bool {
        let mut own = self.kinds().filter(|kind| !self.hooks.contains_key(kind.name));
        own.any(|kind| kind.needs_names)
    }

    /// The servers of which a client needs a majority, where none takes the place of another; else empty.
    pub fn masters(&self) -> Vec<String> {
        match self.topology.kind.has_fixed_roles() {
            true => data_nodes(&self.topology),
            false => Vec::new(),
        }
    }

    /// `plan.json`, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan is plain JSON");
        text.push('\n');
        text
    }

    /// Reads what [`Plan::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let no_plan = |error: serde_json::Error| PlanError(format!("this is no plan: {error}"));
        let mut plan: Value = serde_json::from_str(text).map_err(no_plan)?;
        if let Some(form) = plan["schema"].as_u64().filter(|form| *form != u64::from(SCHEMA)) {
            return Err(PlanError(format!("the plan has form {form}, and this build reads form {SCHEMA}")));
        }
        for section in ["lock", "load"] {
            if let Some(section) = plan.get_mut(section).and_then(Value::as_object_mut) {
                *section = as_in_a_file(section);
            }
        }
        let plan: Self = serde_json::from_value(plan).map_err(no_plan)?;
        let mut faults = plan.faults.iter();
        match faults.find(|fault| fault.kind().is_none()) {
            Some(fault) => Err(PlanError(format!("this build does not have the fault `{}`", fault.fault))),
            None => Ok(plan),
        }
    }

    /// The plan for a person: what `--dry-run` prints.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let ns = |ns: u64| humantime::format_duration(Duration::from_nanos(ns)).to_string();
        let range = |range: Range| {
            if range.min_ns == range.max_ns {
                ns(range.min_ns)
            } else {
                format!("{}..{}", ns(range.min_ns), ns(range.max_ns))
            }
        };
        let lock = &self.lock;
        let load = &self.load;
        let _ = writeln!(text, "{}  (seed {})", self.name, self.seed);
        if !self.about.is_empty() {
            let _ = writeln!(text, "  {}", self.about);
        }
        let nodes = data_nodes(&self.topology).join(", ");
        let _ = writeln!(text, "  topology  {}: {nodes}", self.topology.kind);
        for (key, value) in &self.topology.config {
            let _ = writeln!(text, "            {key} {value}");
        }
        let kind = match lock.kind.as_str() {
            "" => "its first kind",
            kind => kind,
        };
        let lease = lock.lease.map_or("renewed".to_owned(), |lease| ns(lease.ns()));
        let _ = writeln!(
            text,
            "  lock      {}, {kind}, lease {lease}, wait {}, durability {}",
            lock.subject,
            ns(lock.wait.ns()),
            lock.durability
        );
        let tasks = load.tasks_per_client();
        let _ = writeln!(
            text,
            "  load      {} for {}: {} clients with {tasks} tasks on {}, hold {}, think {}",
            load.does.mix.iter().map(|(kind, weight)| format!("{kind} {weight}")).join(", "),
            ns(load.does.duration.ns()),
            load.clients.len(),
            load.locks.join(", "),
            range(load.does.hold),
            range(load.does.think),
        );
        for fault in &self.faults {
            let when = match &fault.when {
                FaultTrigger::AtNs(at_ns) => format!("at {}", ns(*at_ns)),
                FaultTrigger::OnMessage(message) => format!("after {message}"),
                FaultTrigger::AfterFirstGrant => "after the first grant".to_owned(),
            };
            let lasts = fault.lasts_ns.map_or(String::new(), |length| format!(" for {}", ns(length)));
            let with = if fault.with.is_empty() {
                String::new()
            } else {
                let with = serde_json::to_string(&fault.with).expect("settings are plain JSON");
                format!(" with {with}")
            };
            let _ = writeln!(
                text,
                "  fault {}   {when}{lasts}: {} on {}{with}",
                fault.span, fault.fault, fault.on
            );
        }
        for (class, expected) in &self.expect {
            let _ = writeln!(text, "  expect    {class} {expected}");
        }
        text
    }
}

/// The kind that the scenario names, else the first of its subject.
pub(crate) fn kind(scenario: &Scenario) -> String {
    let lock = &scenario.lock;
    if !lock.kind.is_empty() {
        return lock.kind.clone();
    }
    let kinds = bench::subjects::find(&lock.subject).map(|subject| subject.kinds());
    kinds.unwrap_or_default().into_iter().next().unwrap_or_default()
}

/// `orders-1`, `orders-2`, …; in a cluster only names whose slot the first master has, so that a fault on it
/// touches all, or, where they are to be spread, one for each master in turn.
fn lock_names(topology: &Topology, spread: bool, count: u32) -> Vec<String> {
    let names = || (1_u32..).map(|number| format!("orders-{number}"));
    if topology.kind != TopologyKind::Cluster {
        return names().take(count as usize).collect();
    }
    let shards = topology.shards as usize;
    let masters = if spread { shards } else { 1 };
    let of_masters = (0..masters).map(|shard| {
        let (low, high) = slot_range(shard, shards);
        names().filter(move |name| (low..=high).contains(&slot_of(name)))
    });
    let mut of_masters: Vec<_> = of_masters.collect();
    (0..masters).cycle().take(count as usize).filter_map(|shard| of_masters[shard].next()).collect()
}
