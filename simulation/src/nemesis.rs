//! Carries the faults of a plan out, by the names that they have on real servers, and writes them into the history.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bench::{recorded::LoadRun, sink::Sink};
use chaos::{
    faults::{Target, settings},
    partition,
    scenario::{FaultSpec, On, When, Who},
};
use cluster_config::{Party, Topology};
use results::{
    history::{Entry, Event, Phase},
    run::FaultSpan,
};
use tokio::sync::watch;

use crate::{clients::Clients, network::Network, server::Loss};

/// Whom faults act on, and who is told.
pub(crate) struct Scene {
    pub(crate) network: Arc<Network>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) topology: Topology,
    pub(crate) load: LoadRun,
    pub(crate) sink: Arc<dyn Sink>,
    /// The load is over: what lasts is healed.
    pub(crate) over: watch::Receiver<bool>,
    pub(crate) spans: Mutex<Vec<FaultSpan>>,
}

impl Scene {
    /// Injects a fault when its time has come, and heals it.
    pub(crate) async fn carry_out(self: Arc<Self>, fault: FaultSpec) {
        let mut over = self.over.clone();
        let begins = async {
            match fault.when {
                When::AtNs(at_ns) => tokio::time::sleep(Duration::from_nanos(at_ns)).await,
                When::AfterFirstGrant => {
                    let _ = self.load.grants().wait_for(|grants| *grants > 0).await;
                }
                When::OnMessage(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => return,
            () = begins => {}
        }
        let targets = self.targets(&fault.on);
        let mut span = FaultSpan {
            fault: fault.fault.clone(),
            targets: targets.iter().map(Target::to_string).collect(),
            injected_ns: self.write(&fault, &targets, Phase::Inject),
            ..FaultSpan::default()
        };
        span.bit = self.act(&fault, &targets, true).await;
        let lasts = async {
            match fault.lasts_ns {
                Some(lasts_ns) => tokio::time::sleep(Duration::from_nanos(lasts_ns)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => {}
            () = lasts => {}
        }
        span.bit |= self.act(&fault, &targets, false).await;
        span.healed_ns = Some(self.write(&fault, &targets, Phase::Heal));
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.push(span);
    }

    fn write(&self, fault: &FaultSpec, targets: &[Target], phase: Phase) -> u64 {
        self.sink.record(Entry::Event(Event::Fault {
            fault: fault.fault.clone(),
            targets: targets.iter().map(Target::to_string).collect(),
            span: fault.span,
            phase,
        }))
    }

    fn targets(&self, on: &On) -> Vec<Target> {
        let all = |parties: &[Who]| -> Vec<Party> {
            parties.iter().flat_map(|who| self.parties(who)).collect()
        };
        match on {
            On::Parties(parties) => (all(parties).into_iter())
                .map(|party| match party {
                    Party::Node(name) => Target::Node(name),
                    Party::Client(number) => Target::Client(number),
                })
                .collect(),
            On::Link { from, to, both } => {
                let (from, to) = (all(from), all(to));
                let mut links = Vec::new();
                for a in &from {
                    for b in to.iter().filter(|b| *b != a) {
                        links.push(Target::Link(a.clone(), b.clone()));
                        if *both {
                            links.push(Target::Link(b.clone(), a.clone()));
                        }
                    }
                }
                links
            }
            On::Groups(groups) => {
                let groups: Vec<_> = groups.iter().map(|group| all(group)).collect();
                partition::cut(&groups)
            }
        }
    }

    fn parties(&self, who: &Who) -> Vec<Party> {
        let named = |role| {
            let names = self.topology.names(role).into_iter();
            names.map(Party::Node).collect::<Vec<_>>()
        };
        match who {
            Who::Node(name) => vec![Party::Node(name.clone())],
            Who::Client(number) => vec![Party::Client(*number)],
            Who::Clients => (1..=self.clients.count()).map(Party::Client).collect(),
            Who::Sentinels => named(cluster_config::Role::Sentinel),
            Who::Replicas => named(cluster_config::Role::Replica),
            Who::Masters => named(cluster_config::Role::Master),
            Who::Master => named(cluster_config::Role::Master)
                .into_iter()
                .take(1)
                .collect(),
            // Plans name whom they drew.
            Who::AnyClient | Who::Holder | Who::Minority | Who::Majority | Who::Any => Vec::new(),
        }
    }

    /// Injects or heals it; whether it is seen to have taken effect.
    async fn act(&self, fault: &FaultSpec, targets: &[Target], on: bool) -> bool {
        let mut effect = false;
        for target in targets {
            effect |= match target {
                Target::Client(number) => self.on_client(fault, *number, on).await,
                Target::Node(name) => self.on_node(fault, name, on),
                Target::Link(from, to) => self.on_link(fault, from, to, on),
            };
        }
        effect
    }

    async fn on_client(&self, fault: &FaultSpec, number: u32, on: bool) -> bool {
        match (fault.fault.as_str(), on) {
            ("pause", true) => self.clients.pause(number),
            ("pause", false) => {
                self.clients.resume(number);
                false
            }
            ("kill", true) => self.clients.kill(number).await,
            ("kill", false) => {
                self.clients.restart(number).await;
                false
            }
            ("late-writes", _) => {
                let latency = settings::time(&fault.with, "latency").unwrap_or_default();
                let latency = if on { latency } else { Duration::ZERO };
                self.clients.delay_writes(number, latency)
            }
            _ => false,
        }
    }

    fn on_node(&self, fault: &FaultSpec, name: &str, on: bool) -> bool {
        self.network.with(|state| match (fault.fault.as_str(), on) {
            ("pause", true) => state.stop(name),
            ("pause", false) => state.go_on(name),
            ("kill", true) => state.end_process(name, Loss::Process),
            ("power-cut", true) => state.end_process(name, Loss::Power),
            ("kill" | "power-cut", false) => state.start_process(name),
            // A clock that is wrong to the end is not set right in the middle of the last answers.
            ("clock", false) if fault.lasts_ns.is_none() => false,
            ("clock", _) => {
                let jump_ns = settings::shift_ns(&fault.with, "jump").unwrap_or(0);
                let drift_ppb = settings::percent_ppb(&fault.with, "drift").unwrap_or(0);
                let wrong = i64::from(on);
                state.set_clock(name, jump_ns * wrong, drift_ppb * wrong)
            }
            _ => false,
        })
    }

    fn on_link(&self, fault: &FaultSpec, from: &Party, to: &Party, on: bool) -> bool {
        let name = |party: &Party| match party {
            Party::Node(name) => name.clone(),
            Party::Client(number) => format!("c{number}"),
        };
        let way = (name(from), name(to));
        self.network.with(|state| match fault.fault.as_str() {
            "delay" => {
                let time = |name| settings::time(&fault.with, name).unwrap_or_default();
                state.delay(&way, (time("latency"), time("jitter")), on);
                state.is_connected(&way)
            }
            "cut" | "partition" => {
                let holds = state.held(&way) > 0;
                state.cut(&way, on);
                holds
            }
            "reset" | "refuse" => {
                state.refuse(&way, on);
                on && state.reset_way(&way) > 0
            }
            _ => false,
        })
    }
}
