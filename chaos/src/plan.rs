//! Turns a scenario and a seed into a plan; draws nothing later.
//!
//! A plan is saved before anything starts, and read back it gives the same run again as far as servers and schedulers
//! allow. What is left for the moment of a fault is a matter of fact, not of chance: who is master then, and who holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use cluster_config::{Topology, TopologyKind, slot_of};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::draw::{drawn, random, when};
use crate::hooks::Hooks;
use crate::scenario::{On, Protects, Range, Scenario, Settings, When, data_nodes, nanoseconds};

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
    pub lock: LockPlan,
    /// The load.
    pub load: LoadPlan,
    /// The faults, those with a time first and in its order.
    pub faults: Vec<PlannedFault>,
    /// Commands that carry faults out in place of the harness.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: Hooks,
    /// What must come out, by verdict.
    pub expect: BTreeMap<String, String>,
}

/// The lock of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockPlan {
    /// The lock under test, by name.
    pub subject: String,
    /// The kind; empty: the driver's first, which it says only when it is connected.
    pub kind: String,
    /// The lease; `null`: renewed.
    pub lease_ns: Option<u64>,
    /// The lease that the library renews; `null`: its own.
    pub watchdog_ns: Option<u64>,
    /// The longest wait.
    pub wait_ns: u64,
    /// `none`, `wait:K` or `wait:all`.
    pub durability: String,
    /// Permits of one acquire, for the kinds that count.
    pub permits: u32,
}

/// The load of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// Lock names. In a cluster all have their slot on the first master.
    pub locks: Vec<String>,
    /// How long a holder keeps the lock.
    pub hold: Range,
    /// Pause between two rounds.
    pub think: Range,
    /// Length of the load.
    pub duration_ns: u64,
    /// The load ends early, half a second after so many grants came since the last fault was over; `null`: never.
    #[serde(default)]
    pub enough: Option<u32>,
    /// Kinds by weight; never empty.
    pub mix: BTreeMap<String, u32>,
    /// How often a holder extends.
    pub extend_ns: Option<u64>,
    /// Share of holds that take the lock once more inside.
    pub reenter: f64,
    /// How long a writer writes before it becomes a reader; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgrade_ns: Option<u64>,
    /// What the holder works on.
    pub protects: Protects,
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

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Pairs inject with heal in the history; from 1.
    pub span: u64,
    /// Its kind.
    pub fault: String,
    /// When it is injected.
    pub when: When,
    /// How long it lasts; `null`: until the end.
    pub lasts_ns: Option<u64>,
    /// On whom; drawn parties are nodes by now.
    pub on: On,
    /// With which settings.
    pub with: Settings,
}

/// A plan that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl Plan {
    /// Draws everything random in `scenario` from `seed`. The same two give the same plan, byte for byte.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let load = &scenario.load;
        let kind = kind(scenario);
        let clients = (1..=load.clients)
            .map(|number| ClientPlan {
                name: format!("c{number}"),
                seed: rng.next_u64(),
                task_seeds: (0..load.tasks).map(|_| rng.next_u64()).collect(),
            })
            .collect();
        let mut faults: Vec<PlannedFault> = scenario
            .faults
            .iter()
            .map(|fault| PlannedFault {
                span: 0,
                fault: fault.fault.clone(),
                when: when(&fault.when, &scenario.topology, load.clients, &mut rng),
                lasts_ns: fault.lasts.map(nanoseconds),
                on: drawn(&fault.on, &scenario.topology, load.clients, &mut rng),
                with: fault.with.clone(),
            })
            .collect();
        if let Some(spec) = &scenario.random {
            let duration_ns = nanoseconds(load.duration);
            let more = random(
                spec,
                &scenario.topology,
                load.clients,
                duration_ns,
                &mut rng,
            );
            faults.extend(more);
        }
        faults.sort_by_key(|fault| match fault.when {
            When::AtNs(at_ns) => at_ns,
            When::AfterFirstGrant | When::OnMessage(_) => u64::MAX,
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
            lock: LockPlan {
                subject: scenario.lock.subject.clone(),
                kind: kind.clone(),
                lease_ns: scenario.lock.lease.map(nanoseconds),
                watchdog_ns: scenario.lock.watchdog.map(nanoseconds),
                wait_ns: nanoseconds(scenario.lock.wait),
                durability: scenario.lock.durability.clone(),
                permits: scenario.lock.permits,
            },
            load: LoadPlan {
                clients,
                locks: lock_names(&scenario.topology, load.locks),
                hold: load.hold,
                think: load.think,
                duration_ns: nanoseconds(load.duration),
                mix: if load.mix.is_empty() {
                    BTreeMap::from([(kind, 1)])
                } else {
                    load.mix.clone()
                },
                enough: load.enough,
                extend_ns: load.extend.map(nanoseconds),
                reenter: load.reenter,
                downgrade_ns: load.downgrade.map(nanoseconds),
                protects: load.protects,
            },
            faults,
            hooks: scenario.hooks.clone(),
            expect: scenario.expect.clone(),
        }
    }

    /// Lets every key of the load begin with a prefix, as on servers that are somebody else's.
    pub fn prefix_locks(&mut self, prefix: &str) {
        for lock in &mut self.load.locks {
            lock.insert_str(0, prefix);
        }
    }

    /// Whether a fault of this plan acts on links or waits for what passes there, so that the deployment needs proxies.
    pub fn needs_proxies(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(fault.when, When::OnMessage(_))
                || crate::faults::find(&fault.fault).is_some_and(|kind| kind.hits.link())
        })
    }

    /// Whether a fault of this plan works through the shim, so that servers and clients must be started with it.
    pub fn needs_shim(&self) -> bool {
        self.faults.iter().any(|fault| {
            crate::faults::find(&fault.fault).is_some_and(|kind| kind.fault.needs_shim())
        })
    }

    /// `plan.json`, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan is plain JSON");
        text.push('\n');
        text
    }

    /// Reads what [`Plan::to_json`] wrote.
    ///
    /// # Errors
    /// Text that is no plan, a plan of a later form, or one with a fault that this build does not have.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_str(text)
            .map_err(|error| PlanError(format!("this is no plan: {error}")))?;
        if plan.schema != SCHEMA {
            return Err(PlanError(format!(
                "the plan has form {}, and this build reads form {SCHEMA}",
                plan.schema
            )));
        }
        match plan
            .faults
            .iter()
            .find(|fault| crate::faults::find(&fault.fault).is_none())
        {
            Some(fault) => Err(PlanError(format!(
                "this build does not have the fault `{}`",
                fault.fault
            ))),
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
        let kind = if lock.kind.is_empty() {
            "its first kind"
        } else {
            &lock.kind
        };
        let lease = lock.lease_ns.map_or("renewed".to_owned(), ns);
        let _ = writeln!(
            text,
            "  lock      {}, {kind}, lease {lease}, wait {}, durability {}",
            lock.subject,
            ns(lock.wait_ns),
            lock.durability
        );
        let tasks = load.clients.first().map_or(0, |c| c.task_seeds.len());
        let _ = writeln!(
            text,
            "  load      {} for {}: {} clients with {tasks} tasks on {}, hold {}, think {}",
            load.mix
                .iter()
                .map(|(kind, weight)| format!("{kind} {weight}"))
                .collect::<Vec<_>>()
                .join(", "),
            ns(load.duration_ns),
            load.clients.len(),
            load.locks.join(", "),
            range(load.hold),
            range(load.think),
        );
        for fault in &self.faults {
            let when = match &fault.when {
                When::AtNs(at_ns) => format!("at {}", ns(*at_ns)),
                When::OnMessage(message) => format!("after {message}"),
                When::AfterFirstGrant => "after the first grant".to_owned(),
            };
            let lasts = fault
                .lasts_ns
                .map_or(String::new(), |length| format!(" for {}", ns(length)));
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

fn kind(scenario: &Scenario) -> String {
    let first = || {
        bench::subjects::find(&scenario.lock.subject)
            .ok()
            .and_then(|subject| subject.kinds().into_iter().next())
    };
    scenario
        .lock
        .kind
        .clone()
        .or_else(first)
        .unwrap_or_default()
}

/// `orders-1`, `orders-2`, …; in a cluster only names whose slot the first master has, so that a fault on it touches all.
fn lock_names(topology: &Topology, count: u32) -> Vec<String> {
    let names = (1_u32..).map(|number| format!("orders-{number}"));
    let count = count as usize;
    if topology.kind == TopologyKind::Cluster {
        let (low, high) = cluster_config::layout::slot_range(0, topology.shards as usize);
        names
            .filter(|name| (low..=high).contains(&slot_of(name)))
            .take(count)
            .collect()
    } else {
        names.take(count).collect()
    }
}
