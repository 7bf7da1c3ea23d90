//! Somebody else who carries faults out, such as Chaos Mesh, and what shows here that they took effect.
//!
//! An engine's word alone is no evidence: beside it, the servers themselves must show the harm, seen over the same connections as ever.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::Party;

use super::hooked::{LOOK, SHOWS_WITHIN, run_id, shown};
use super::{
    Fault, FaultGuard, FaultKind, Healed, Injected, Injection, Proof, Shows, Target, World, clock,
    nodes, settings,
};
use crate::scenario::FaultSpec;
use crate::shim::Skew;

/// A replica hears of its master every second; silence of more is a harm.
const SILENT_S: u64 = 3;
/// A lost packet is sent again no sooner, on any Linux.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// So many round trips show whether packets are lost, and how long a server takes to answer.
const ROUND_TRIPS: u32 = 50;
/// Round trips to a server that waits for a processor last so many times as long as before. On a machine with other work they vary by less.
const SLOWER: u32 = 4;

/// Somebody else who carries faults out in place of the harness.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync {
    /// Whether this fault is its to carry out.
    fn takes(&self, fault: &FaultSpec) -> bool;

    /// Carries it out. The guard's proof is the engine's own word; a heal that hangs has no proof.
    ///
    /// # Errors
    /// What could not be done; nothing is left of it.
    async fn inject(&self, fault: &str, world: &Arc<World>, injection: &Injection) -> Injected;
}

/// A fault by an engine, with evidence of our own.
pub(crate) struct ByEngine<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) kind: &'a FaultKind,
}

#[async_trait]
impl Fault for ByEngine<'_> {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut before = Vec::new();
        for name in nodes(injection) {
            let took = match self.kind.name {
                "stress" => answers(world, name, Duration::MAX).await,
                _ => None,
            };
            before.push((name, run_id(world, name).await, took));
        }
        let since = Instant::now();
        let guard = self.engine.inject(self.kind.name, world, injection).await?;
        let mut proofs = Vec::new();
        for (name, before, took) in &before {
            proofs.push(match self.kind.name {
                "stress" => later(world, name, *took).await,
                "clock" => wrong_clock(world, name, injection, since).await,
                "disk" => late_sync(world, name, injection).await,
                _ => {
                    let node = world.deployment.node(name)?.clone();
                    shown(
                        world,
                        &node,
                        "it was harmed",
                        Shows::Gone,
                        before.as_deref(),
                    )
                    .await
                }
            });
        }
        if before.is_empty() {
            proofs.push(harmed_links(world, self.kind.name, injection).await);
        }
        Ok(Box::new(Proved {
            guard,
            seen: Proof::all(proofs),
        }))
    }
}

struct Proved {
    guard: Box<dyn FaultGuard>,
    seen: Proof,
}

#[async_trait]
impl FaultGuard for Proved {
    fn proof(&self) -> Proof {
        Proof::all([self.guard.proof(), self.seen.clone()])
    }

    async fn heal(self: Box<Self>) -> Healed {
        let healed = self.guard.heal().await;
        Healed {
            proof: Proof::all([healed.proof, self.seen]),
            failed: healed.failed,
        }
    }
}

async fn wrong_clock(world: &World, name: &str, injection: &Injection, since: Instant) -> Proof {
    let skew = Skew {
        offset_ns: settings::shift_ns(&injection.with, "jump").unwrap_or(0),
        drift_ppb: 0,
    };
    let target = Target::Node(name.to_owned());
    let seen = clock::seen(world, &target, skew, since).await;
    seen.unwrap_or_else(|| proof!(false, "{name} has no clock to ask"))
}

/// A write is answered after its sync, where a server syncs always; elsewhere nothing shows.
async fn late_sync(world: &World, name: &str, injection: &Injection) -> Proof {
    let least = settings::time(&injection.with, "fsync").unwrap_or_default();
    let asked = Instant::now();
    let key = world.locks.first().map_or("locklab", String::as_str);
    let written = world
        .command(name, &["SET", &format!("{key}:probe"), "1", "PX", "10000"])
        .await;
    let took = asked.elapsed();
    match written {
        Ok(_) => proof!(
            took >= least,
            "{name}: a write took {took:.0?}, where a sync is {least:?} late"
        ),
        Err(error) => proof!(false, "{name}: a write shows nothing: {error}"),
    }
}

/// How long a row of round trips to a server takes, or what it takes before that is `enough`; `None` if one is not answered.
async fn answers(world: &World, name: &str, enough: Duration) -> Option<Duration> {
    let mut took = Duration::ZERO;
    for _ in 0..ROUND_TRIPS {
        if took >= enough {
            break;
        }
        let asked = Instant::now();
        world.deployment.command(name, &["PING"]).await.ok()?;
        took += asked.elapsed();
        // A server that is asked without a rest never has to wake up.
        tokio::time::sleep(LOOK).await;
    }
    Some(took)
}

/// What a server waits for cannot be seen from here, only that it answers later.
async fn later(world: &World, name: &str, before: Option<Duration>) -> Proof {
    let Some(before) = before else {
        return proof!(false, "{name} did not answer before");
    };
    let took = answers(world, name, before * SLOWER)
        .await
        .unwrap_or_default();
    proof!(
        took >= before * SLOWER,
        "{name} took {before:.1?} for {ROUND_TRIPS} answers before, and now {took:.1?} or more"
    )
}

/// What shows on links: those with a client by round trips from here, those between a master and its replica by what the replica has heard.
/// Other links show nothing; of those that can, one at least must.
async fn harmed_links(world: &World, fault: &str, injection: &Injection) -> Proof {
    let mut seen: Option<Proof> = None;
    let mut tried = std::collections::BTreeSet::new();
    for target in &injection.targets {
        let Target::Link(from, to) = target else {
            continue;
        };
        let proof = match (from, to) {
            (Party::Client(_), Party::Node(name)) | (Party::Node(name), Party::Client(_)) => {
                match tried.insert((name.clone(), String::new())) {
                    true => Some(from_here(world, name, fault, injection).await),
                    false => None,
                }
            }
            (Party::Node(one), Party::Node(two)) => {
                let pair = (one.min(two).clone(), one.max(two).clone());
                match tried.insert(pair) {
                    true => between(world, one, two, fault, injection).await,
                    false => None,
                }
            }
            (Party::Client(_), Party::Client(_)) => None,
        };
        match proof {
            Some(proof) if proof.bit => return proof,
            Some(proof) => seen = Some(proof),
            None => {}
        }
    }
    seen.unwrap_or_else(|| {
        proof!(
            false,
            "nothing passes these links whose delay or loss could be seen from here"
        )
    })
}

async fn from_here(world: &World, name: &str, fault: &str, injection: &Injection) -> Proof {
    let ping = async || {
        let asked = Instant::now();
        let answer = world.deployment.command(name, &["PING"]).await;
        (answer.is_ok(), asked.elapsed())
    };
    match fault {
        "delay" => {
            let jitter = settings::time(&injection.with, "jitter").unwrap_or_default();
            let latency = settings::time(&injection.with, "latency").unwrap_or_default();
            let (_, took) = ping().await;
            proof!(
                took >= latency.saturating_sub(jitter),
                "{name} answered from here after {took:.0?}"
            )
        }
        "loss" => {
            let mut late = 0;
            for _ in 0..ROUND_TRIPS {
                let (answered, took) = ping().await;
                late += u32::from(!answered || took >= SENT_AGAIN_AFTER);
            }
            proof!(
                late > 0,
                "{late} of {ROUND_TRIPS} round trips to {name} lasted as long as a packet that is sent again"
            )
        }
        _ => {
            let (answered, took) = ping().await;
            proof!(
                !answered,
                "{name} was asked from here for {took:.0?}, and {}",
                match answered {
                    true => "answered",
                    false => "is silent",
                }
            )
        }
    }
}

/// `None`: neither copies the other.
async fn between(
    world: &World,
    one: &str,
    two: &str,
    fault: &str,
    injection: &Injection,
) -> Option<Proof> {
    let (master, replica) = match (is_replica(world, one).await, is_replica(world, two).await) {
        (false, true) => (one, two),
        (true, false) => (two, one),
        _ => return None,
    };
    let latency = settings::time(&injection.with, "latency").unwrap_or_default();
    let jitter = settings::time(&injection.with, "jitter").unwrap_or_default();
    let asked = Instant::now();
    let key = world.locks.first().map_or("locklab", String::as_str);
    let write = ["SET", &format!("{key}:probe"), "1", "PX", "10000"];
    let _ = world.deployment.command(master, &write).await;
    let written = figure(world, master, "master_repl_offset").await;
    while asked.elapsed() < SHOWS_WITHIN {
        let heard = figure(world, replica, "slave_repl_offset").await;
        let took = asked.elapsed();
        if fault == "cut" || fault == "partition" {
            let silent_s = figure(world, replica, "master_last_io_seconds_ago").await;
            // A link that is down says -1, which is no figure.
            if silent_s.is_none_or(|seconds| seconds >= SILENT_S) {
                return Some(proof!(
                    true,
                    "{replica} has not heard of {master} for seconds"
                ));
            }
        } else if written
            .zip(heard)
            .is_some_and(|(written, heard)| heard >= written)
        {
            let least = match fault {
                "loss" => SENT_AGAIN_AFTER,
                _ => latency.saturating_sub(jitter),
            };
            return Some(proof!(
                took >= least,
                "a write at {master} was at {replica} after {took:.0?}"
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
    Some(proof!(
        fault == "delay" && latency >= SHOWS_WITHIN,
        "a write at {master} was not at {replica} after {SHOWS_WITHIN:?}"
    ))
}

async fn is_replica(world: &World, name: &str) -> bool {
    let info = world
        .deployment
        .command(name, &["INFO", "replication"])
        .await;
    info.is_ok_and(|info| info.contains("role:slave"))
}

async fn figure(world: &World, name: &str, figure: &str) -> Option<u64> {
    let info = world
        .deployment
        .command(name, &["INFO", "replication"])
        .await
        .ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}
