//! Somebody else who carries faults out, such as Chaos Mesh, and what shows here that they took effect.
//!
//! An engine's word alone is no evidence: beside it, the servers themselves must show the harm, seen over the
//! same connections as ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::Party;

use super::command_fault::{LOOK, SHOWS_WITHIN, run_id, shown};
use crate::faults::process::clock;
use crate::faults::{
    Fault, FaultGuard, FaultKind, FaultWorld, HealReport, HookEvidence, Injected, Injection, Proof, Target,
    nodes, settings,
};
use crate::scenario::{FaultSpec, Settings};
use crate::servers::shim::Skew;

/// A replica hears of its master every second; silence of more is a harm.
const SILENT_S: u64 = 3;
/// A lost packet is sent again no sooner, on any Linux.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// So many round trips show whether packets are lost, and how long a server takes to answer.
const ROUND_TRIPS: u32 = 50;
/// Round trips to a server that waits for a processor last so many times as long as before. On a machine with
/// other work they vary by less.
const SLOWER: u32 = 4;

/// Somebody else who carries faults out in place of the harness.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Whether this fault is its to carry out.
    fn takes(&self, fault: &FaultSpec) -> bool;

    /// Carries it out. The guard's proof is the engine's own word; a heal that hangs has no proof.
    ///
    /// # Errors
    /// What could not be done; nothing is left of it.
    async fn inject(&self, fault: &str, world: &Arc<FaultWorld>, injection: &Injection) -> Injected;
}

pub(crate) struct ByEngine<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) kind: &'a FaultKind,
}

#[async_trait]
impl Fault for ByEngine<'_> {
    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let fault = self.kind.name;
        let look = FaultView { world, fault, with: &injection.with };
        let mut before = Vec::new();
        for name in nodes(injection) {
            let took = match fault {
                "stress" => look.answers(name, Duration::MAX).await,
                _ => None,
            };
            before.push((name, run_id(world, name).await, took));
        }
        let since = Instant::now();
        let guard = self.engine.inject(fault, world, injection).await?;
        let mut proofs = Vec::new();
        for (name, before, took) in &before {
            proofs.push(match fault {
                "stress" => look.later(name, *took).await,
                "clock" => look.wrong_clock(name, since).await,
                "disk" => look.late_sync(name).await,
                _ => shown(world, name, "it was harmed", HookEvidence::Gone, before.as_deref()).await,
            });
        }
        if before.is_empty() {
            proofs.push(look.harmed_links(&injection.targets).await);
        }
        Ok(Box::new(ProvenFault { guard, seen: Proof::all(proofs) }))
    }
}

struct ProvenFault {
    guard: Box<dyn FaultGuard>,
    seen: Proof,
}

#[async_trait]
impl FaultGuard for ProvenFault {
    fn proof(&self) -> Proof {
        Proof::all([self.guard.proof(), self.seen.clone()])
    }

    async fn heal(self: Box<Self>) -> HealReport {
        let healed = self.guard.heal().await;
        HealReport { proof: Proof::all([healed.proof, self.seen]), failed: healed.failed }
    }
}

#[derive(Clone, Copy)]
struct FaultView<'a> {
    world: &'a FaultWorld,
    fault: &'a str,
    with: &'a Settings,
}

impl FaultView<'_> {
    fn time(self, setting: &str) -> Duration {
        settings::time(self.with, setting).unwrap_or_default()
    }

    /// How much later than without it a delay lets bytes arrive at least.
    fn least_delay(self) -> Duration {
        self.time("latency").saturating_sub(self.time("jitter"))
    }

    async fn wrong_clock(self, name: &str, since: Instant) -> Proof {
        let skew = Skew { offset_ns: settings::shift_ns(self.with, "jump").unwrap_or(0), drift_ppb: 0 };
        let target = Target::Node(name.to_owned());
        let seen = clock::seen(self.world, &target, skew, since).await;
        seen.unwrap_or_else(|| proof!(false, "{name} has no clock to ask"))
    }

    /// What is written to be seen; no lock is called so.
    fn key(self) -> String {
        let lock = self.world.locks.first().map_or("locklab", String::as_str);
        format!("{lock}:probe")
    }

    /// A write is answered after its sync, where a server syncs always; elsewhere nothing shows.
    async fn late_sync(self, name: &str) -> Proof {
        let least = self.time("fsync");
        let asked = Instant::now();
        let write = ["SET", &self.key(), "1", "PX", "10000"];
        let written = self.world.command(name, &write).await;
        let took = asked.elapsed();
        match written {
            Ok(_) => proof!(took >= least, "{name}: a write took {took:.0?}, where a sync is {least:?} late"),
            Err(error) => proof!(false, "{name}: a write shows nothing: {error}"),
        }
    }

    /// Whether a server answers from here, and how long that takes.
    async fn ping(self, name: &str) -> (bool, Duration) {
        let asked = Instant::now();
        let answer = self.world.deployment.command(name, &["PING"]).await;
        (answer.is_ok(), asked.elapsed())
    }

    /// How long a row of round trips to a server takes, or what it takes before that is `enough`; `None` if
    /// one is not answered.
    async fn answers(self, name: &str, enough: Duration) -> Option<Duration> {
        let mut took = Duration::ZERO;
        for _ in 0..ROUND_TRIPS {
            if took >= enough {
                break;
            }
            let (answered, one) = self.ping(name).await;
            took += answered.then_some(one)?;
            // A server that is asked without a rest never has to wake up.
            tokio::time::sleep(LOOK).await;
        }
        Some(took)
    }

    /// What a server waits for cannot be seen from here, only that it answers later.
    async fn later(self, name: &str, before: Option<Duration>) -> Proof {
        let Some(before) = before else {
            return proof!(false, "{name} did not answer before");
        };
        let took = self.answers(name, before * SLOWER).await;
        let took = took.unwrap_or_default();
        proof!(
            took >= before * SLOWER,
            "{name} took {before:.1?} for {ROUND_TRIPS} answers before, and now {took:.1?} or more"
        )
    }

    /// What shows on links: those with a client by round trips from here, those between a master and its
    /// replica by what the replica has heard. Other links show nothing; of those that can, one at least must.
    async fn harmed_links(self, targets: &[Target]) -> Proof {
        let mut seen: Option<Proof> = None;
        let mut tried = BTreeSet::new();
        for target in targets {
            let proof = match target {
                Target::Link(Party::Client(_), Party::Node(name))
                | Target::Link(Party::Node(name), Party::Client(_))
                    if tried.insert((name, name)) =>
                {
                    Some(self.seen_from_here(name).await)
                }
                Target::Link(Party::Node(one), Party::Node(two))
                    if tried.insert((one.min(two), one.max(two))) =>
                {
                    self.between(one, two).await
                }
                _ => None,
            };
            match proof {
                Some(proof) if proof.bit => return proof,
                Some(proof) => seen = Some(proof),
                None => {}
            }
        }
        seen.unwrap_or_else(|| {
            proof!(false, "nothing passes these links whose delay or loss could be seen from here")
        })
    }

    async fn seen_from_here(self, name: &str) -> Proof {
        if self.fault == "loss" {
            let mut late = 0;
            for _ in 0..ROUND_TRIPS {
                let (answered, took) = self.ping(name).await;
                late += u32::from(!answered || took >= SENT_AGAIN_AFTER);
            }
            return proof!(
                late > 0,
                "{late} of {ROUND_TRIPS} round trips to {name} lasted as long as a packet that is sent again"
            );
        }
        let (answered, took) = self.ping(name).await;
        match (self.fault, answered) {
            ("delay", _) => proof!(took >= self.least_delay(), "{name} answered from here after {took:.0?}"),
            (_, true) => proof!(false, "{name} was asked from here for {took:.0?}, and answered"),
            (_, false) => proof!(true, "{name} was asked from here for {took:.0?}, and is silent"),
        }
    }

    /// `None`: neither copies the other.
    async fn between(self, one: &str, two: &str) -> Option<Proof> {
        let is_replica = async |name: &str| self.replication(name, "role").await.as_deref() == Some("slave");
        let (master, replica) = match (is_replica(one).await, is_replica(two).await) {
            (false, true) => (one, two),
            (true, false) => (two, one),
            _ => return None,
        };
        let figure = async |name: &str, field: &str| -> Option<u64> {
            self.replication(name, field).await?.parse().ok()
        };
        let asked = Instant::now();
        let write = ["SET", &self.key(), "1", "PX", "10000"];
        let _ = self.world.deployment.command(master, &write).await;
        let written = figure(master, "master_repl_offset").await;
        while asked.elapsed() < SHOWS_WITHIN {
            let heard = figure(replica, "slave_repl_offset").await;
            let took = asked.elapsed();
            if self.fault == "cut" || self.fault == "partition" {
                let silent_s = figure(replica, "master_last_io_seconds_ago").await;
                // A link that is down says -1, which is no figure.
                if silent_s.is_none_or(|seconds| seconds >= SILENT_S) {
                    return Some(proof!(true, "{replica} has not heard of {master} for seconds"));
                }
            } else if written.zip(heard).is_some_and(|(written, heard)| heard >= written) {
                let least = match self.fault {
                    "loss" => SENT_AGAIN_AFTER,
                    _ => self.least_delay(),
                };
                return Some(proof!(took >= least, "a write at {master} was at {replica} after {took:.0?}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Some(proof!(
            self.fault == "delay" && self.time("latency") >= SHOWS_WITHIN,
            "a write at {master} was not at {replica} after {SHOWS_WITHIN:?}"
        ))
    }

    async fn replication(self, name: &str, field: &str) -> Option<String> {
        let info = self.world.deployment.command(name, &["INFO", "replication"]).await.ok()?;
        super::field(&info, field).map(str::to_owned)
    }
}
