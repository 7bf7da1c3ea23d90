//! Carries the faults of a plan out, by the names that they have on real servers, and writes them into the
//! history.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::{recorded::LoadRun, sink::Sink};
use chaos::faults::{self, Target, settings};
use chaos::partition;
use chaos::roles::Roles;
use chaos::scenario::{FaultParty, FaultSite, FaultSpec, FaultTrigger};
use cluster_config::{LinkFault, Party, Role, Topology, slot_of};
use results::history::{Entry, Event, Phase};
use results::run::FaultSpan;
use tokio::sync::watch;

use crate::clients::Clients;
use crate::network::{MessageFault, Network, client_number};
use crate::run::{MASTER_NAME, by_name};
use crate::runtime::lock;
use crate::runtime::system::Skew;
use crate::server::{Loss, Reply};

/// The faults that are simulated, with a comma between each two.
pub(crate) const FAULTS: &str = "client-kill, client-pause, clock, cut, delay, drop, failover, hold, kill, late-writes, maxmemory, \
                                 migrate-slot, new-address, partition, pause, power-cut, refuse, reset, resolve, restart, script-flush";

pub(crate) struct NemesisContext {
    pub(crate) network: Arc<Network>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) topology: Topology,
    pub(crate) locks: Vec<String>,
    pub(crate) load: LoadRun,
    pub(crate) sink: Arc<dyn Sink>,
    /// Who holds a lock, where a fault asks for that.
    pub(crate) roles: Option<Arc<Mutex<Roles>>>,
    /// The load is over: what lasts is healed.
    pub(crate) over: watch::Receiver<bool>,
    pub(crate) spans: Mutex<Vec<FaultSpan>>,
}

impl NemesisContext {
    pub(crate) async fn carry_out(self: Arc<Self>, fault: FaultSpec) {
        let mut over = self.over.clone();
        let begins = async {
            match &fault.when {
                FaultTrigger::AtNs(at_ns) => tokio::time::sleep(Duration::from_nanos(*at_ns)).await,
                FaultTrigger::AfterFirstGrant => {
                    let _ = self.load.grants().wait_for(|grants| *grants > 0).await;
                }
                FaultTrigger::OnMessage(message) => {
                    let name = |who: &Option<FaultParty>| Some(name_of(&self.parties(who.as_ref()?).pop()?));
                    let ends = [name(&message.from), name(&message.to)];
                    let mut passed = self.network.with(|state| state.watch(ends, message.pattern()));
                    let _ = passed.wait_for(|passed| *passed >= message.nth).await;
                }
            }
            self.targets(&fault.on).await
        };
        let targets = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => Vec::new(),
            targets = begins => targets,
        };
        let mut span = FaultSpan { fault: fault.fault.clone(), ..FaultSpan::default() };
        if targets.is_empty() {
            span.targets = vec![fault.on.to_string()];
            span.injected_ns = self.sink.ns(Instant::now());
            return lock(&self.spans).push(span);
        }
        span.targets = targets.iter().map(Target::to_string).collect();
        span.injected_ns = self.write(&fault, &targets, Phase::Inject);
        span.bit = self.act(&fault, &targets, true).await;
        let is_over = faults::find(&fault.fault).is_some_and(|kind| kind.one_shot);
        let lasts = async {
            match fault.lasts_ns {
                Some(lasts_ns) => tokio::time::sleep(Duration::from_nanos(lasts_ns)).await,
                None if is_over => {}
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
        lock(&self.spans).push(span);
    }

    fn write(&self, fault: &FaultSpec, targets: &[Target], phase: Phase) -> u64 {
        self.sink.record(Entry::Event(Event::Fault {
            fault: fault.fault.clone(),
            targets: targets.iter().map(Target::to_string).collect(),
            span: fault.span,
            phase,
        }))
    }

    /// Somebody who holds is waited for, as long as on real servers.
    async fn targets(&self, on: &FaultSite) -> Vec<Target> {
        for _ in 0..5_000 {
            if self.holder().is_some() || on.everybody().all(|who| *who != FaultParty::Holder) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let all = |parties: &[FaultParty]| -> Vec<Party> {
            parties.iter().flat_map(|who| self.parties(who)).collect()
        };
        match on {
            FaultSite::Parties(parties) => (all(parties).into_iter())
                .map(|party| match party {
                    Party::Node(name) => Target::Node(name),
                    Party::Client(number) => Target::Client(number),
                })
                .collect(),
            FaultSite::Link { from, to, both } => partition::between(&all(from), &all(to), *both),
            FaultSite::Groups(groups) => {
                let groups: Vec<_> = groups.iter().map(|group| all(group)).collect();
                partition::cut(&groups)
            }
        }
    }

    fn holder(&self) -> Option<u32> {
        client_number(lock(self.roles.as_ref()?).holder()?)
    }

    fn parties(&self, who: &FaultParty) -> Vec<Party> {
        let named = |role: Role| self.topology.names(role).into_iter().map(Party::Node).collect::<Vec<_>>();
        match who {
            FaultParty::Node(name) => vec![Party::Node(name.clone())],
            FaultParty::Client(number) => vec![Party::Client(*number)],
            FaultParty::Clients => (1..=self.clients.count()).map(Party::Client).collect(),
            FaultParty::Sentinels => named(Role::Sentinel),
            FaultParty::Replicas => named(Role::Replica),
            FaultParty::Masters => named(Role::Master),
            FaultParty::Master => named(Role::Master).into_iter().take(1).collect(),
            FaultParty::Holder => self.holder().into_iter().map(Party::Client).collect(),
            // Plans name whom they drew.
            FaultParty::AnyClient
            | FaultParty::Minority
            | FaultParty::Majority
            | FaultParty::Any
            | FaultParty::Share { .. } => Vec::new(),
        }
    }

    /// Injects or heals it; whether it is seen to have taken effect.
    async fn act(&self, fault: &FaultSpec, targets: &[Target], on: bool) -> bool {
        let mut effect = false;
        for target in targets {
            effect |= match target {
                Target::Client(number) => self.on_client(fault, *number, on).await,
                Target::Node(name) => {
                    self.on_node(fault, name, on)
                        || self.by_order(fault, name, on).await
                        || self.starts_again(fault, name, on).await
                }
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
            ("client-kill", true) => self.network.with(|state| state.end_client(&format!("c{number}"))),
            // A clock that is wrong to the end stays so, as that of a server.
            ("clock", false) if fault.lasts_ns.is_none() => false,
            ("clock", _) => {
                let now = self.network.with(|state| state.now());
                self.clients.set_clock(number, skew(fault, now, on))
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
            ("clock", _) => state.set_clock(name, skew(fault, state.now(), on)),
            ("resolve", _) => {
                let to = if on { settings::text(&fault.with, "to") } else { Some(name) };
                state.point(&by_name(name), to) > 0 && !on
            }
            _ => false,
        })
    }

    fn on_link(&self, fault: &FaultSpec, from: &Party, to: &Party, on: bool) -> bool {
        let way = (name_of(from), name_of(to));
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
            how @ ("reset" | "refuse") => {
                state.refuse(&way, on);
                on && state.end_way(&way, how == "reset") > 0
            }
            "hold" | "drop" if !on => state.choose_no_more(&way, fault.span),
            "hold" | "drop" => {
                let known = faults::find(&fault.fault);
                let (pattern, nth, count) = match known.and_then(|kind| kind.fault.on_links(&fault.with)) {
                    Some(
                        LinkFault::Hold { pattern, nth, count } | LinkFault::Drop { pattern, nth, count },
                    ) => (pattern, nth, count),
                    _ => return false,
                };
                let chosen = MessageFault {
                    span: fault.span,
                    pattern,
                    nth,
                    count,
                    is_lost: fault.fault == "drop",
                    fitted: 0,
                };
                state.choose(&way, chosen);
                false
            }
            _ => false,
        })
    }

    /// Faults that end a process and start it again, maybe under another address, which its name follows.
    async fn starts_again(&self, fault: &FaultSpec, name: &str, on: bool) -> bool {
        let moves = fault.fault == "new-address";
        if !on || !moves && fault.fault != "restart" {
            return false;
        }
        let known = by_name(name);
        let ended = self.network.with(|state| {
            let ended = state.end_process(name, Loss::Process);
            if ended && moves {
                state.move_away(name);
                state.point(&known, None);
                state.start_process(name);
            }
            ended
        });
        tokio::time::sleep(settings::time(&fault.with, "after").unwrap_or_default()).await;
        if ended {
            self.network.with(|state| match moves {
                true => state.point(&known, Some(name)) > 0,
                false => state.start_process(name),
            });
        }
        ended
    }

    /// What a server says to an order; nothing if it does not for a while.
    async fn told(&self, name: &str, order: &[&str]) -> Option<Reply> {
        let own = self.network.with(|state| state.order(name, order))?;
        for _ in 0..3_000 {
            let said = self.network.with(|state| state.said(name, own));
            if said.is_some() {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None
    }

    /// The order that ends a fault waits at a process that is stopped, until it goes on or is gone.
    async fn reaches(&self, name: &str, on: bool) {
        while !on && self.network.with(|state| state.is_stopped(name)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn by_order(&self, fault: &FaultSpec, name: &str, on: bool) -> bool {
        let order = async |name, order: &[&str]| self.told(name, order).await == Some(Reply::OK);
        let lasts_ms = fault.lasts_ns.unwrap_or(0) / 1_000_000;
        match (fault.fault.as_str(), on) {
            ("maxmemory", _) => {
                let limit = settings::text(&fault.with, "limit").filter(|_| on);
                let set = ["CONFIG", "SET", "maxmemory", limit.unwrap_or("0")];
                self.reaches(name, on).await;
                order(name, &set).await && on
            }
            ("script-flush", true) => order(name, &["SCRIPT", "FLUSH"]).await,
            ("client-pause", true) => order(name, &["CLIENT", "PAUSE", &lasts_ms.to_string(), "WRITE"]).await,
            ("client-pause", false) => {
                self.reaches(name, on).await;
                order(name, &["CLIENT", "UNPAUSE"]).await && on
            }
            ("client-kill", true) => {
                let mut killed = false;
                for class in ["normal", "pubsub"] {
                    let said = self.told(name, &["CLIENT", "KILL", "TYPE", class]).await;
                    killed |= matches!(said, Some(Reply::Int(1..)));
                }
                killed
            }
            ("failover", true) if self.topology.shards > 0 => {
                let of = self.topology.names(Role::Master).iter().position(|master| master == name);
                let replicas = self.topology.names(Role::Replica);
                match of.and_then(|of| replicas.get(of)) {
                    Some(replica) => order(replica, &["CLUSTER", "FAILOVER"]).await,
                    None => false,
                }
            }
            ("failover", true) => order("s1", &["SENTINEL", "FAILOVER", MASTER_NAME]).await,
            ("migrate-slot", true) => self.migrate(fault, name).await.is_some(),
            _ => false,
        }
    }

    /// Moves slots with their keys, those of the locks first, as the fault does it on real servers.
    async fn migrate(&self, fault: &FaultSpec, from: &str) -> Option<()> {
        let to = settings::text(&fault.with, "to")?;
        let pause = settings::time(&fault.with, "pause").unwrap_or_default();
        let count = settings::count(&fault.with, "slots").unwrap_or(1) as usize;
        let from_id = text(self.told(from, &["CLUSTER", "MYID"]).await?)?;
        let to_id = text(self.told(to, &["CLUSTER", "MYID"]).await?)?;
        let slots: BTreeSet<u16> = self.locks.iter().map(slot_of).collect();
        for slot in slots.into_iter().take(count) {
            let slot = slot.to_string();
            let set = async |name, how, id: &str| {
                let set = ["CLUSTER", "SETSLOT", &slot, how, id];
                (self.told(name, &set).await == Some(Reply::OK)).then_some(())
            };
            // One that has it no more has nothing to hand over.
            set(from, "MIGRATING", &to_id).await?;
            set(to, "IMPORTING", &from_id).await?;
            tokio::time::sleep(pause).await;
            loop {
                let list = ["CLUSTER", "GETKEYSINSLOT", &slot, "100"];
                let Some(Reply::Array(keys)) = self.told(from, &list).await else { return None };
                let keys: Vec<String> = keys.into_iter().filter_map(text).collect();
                if keys.is_empty() {
                    break;
                }
                let mut migrate = vec!["MIGRATE", to, "6379", "", "0", "2000", "KEYS"];
                migrate.extend(keys.iter().map(String::as_str));
                // One that is no master any more moves nothing.
                let said = self.told(from, &migrate).await;
                if !matches!(&said, Some(Reply::Status(_))) {
                    return None;
                }
            }
            tokio::time::sleep(pause).await;
            // The target first: else a client could be sent to and fro between two that disown it.
            set(to, "NODE", &to_id).await?;
            set(from, "NODE", &to_id).await?;
        }
        Some(())
    }
}

fn name_of(party: &Party) -> Arc<str> {
    match party {
        Party::Node(name) => name.as_str().into(),
        Party::Client(number) => format!("c{number}").into(),
    }
}

fn text(reply: Reply) -> Option<String> {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn skew(fault: &FaultSpec, since: Duration, on: bool) -> Skew {
    let wrong = i64::from(on);
    Skew {
        jump_ns: settings::shift_ns(&fault.with, "jump").unwrap_or(0) * wrong,
        drift_ppb: settings::percent_ppb(&fault.with, "drift").unwrap_or(0) * wrong,
        since,
    }
}
