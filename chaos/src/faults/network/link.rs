//! Harms to directed links, through the proxies that the deployment's links pass: delay, cut, and cut between
//! groups.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::{LinkFault, LinkGuard, Party};

use crate::faults::{
    Blocks, Fault, FaultGuard, FaultKind, FaultWorld, HealReport, Injected, Injection, Proof, SettingKind,
    SettingSpec, Target, TargetKind, settings,
};
use crate::scenario::Settings;

pub(crate) const DELAY: FaultKind = FaultKind {
    name: "delay",
    about: "bytes arrive later by `latency`, give or take `jitter`, in their order",
    settings: &[
        SettingSpec::required("latency", SettingKind::Duration).about("how much later bytes arrive"),
        SettingSpec::optional("jitter", SettingKind::Duration)
            .about("at most so much more or less, drawn uniformly; default 0s"),
    ],
    allowed: |_, _, with| {
        let is_zero = |name| settings::time(with, name).is_some_and(|time| time.is_zero());
        match is_zero("latency") && (!with.contains_key("jitter") || is_zero("jitter")) {
            true => Err("`delay` of `latency` 0s delays nothing; allowed is more than 0, or a `jitter` of more than 0".to_owned()),
            false => Ok(()),
        }
    },
    ..FaultKind::on_links(&OnLinks(|with| LinkFault::Delay {
        latency: settings::time(with, "latency").unwrap_or_default(),
        jitter: settings::time(with, "jitter").unwrap_or_default(),
    }))
};

pub(crate) const CUT: FaultKind = FaultKind {
    name: "cut",
    about: "bytes are held and nothing is closed, as when packets are dropped; they arrive when `for` ends",
    blocks: Blocks::OneWay,
    ..FaultKind::on_links(&OnLinks(|_| LinkFault::Cut))
};

pub(crate) const PARTITION: FaultKind = FaultKind {
    name: "partition",
    about: "`cut` between groups, both ways; who is in no group reaches all",
    hits: TargetKind::Groups,
    blocks: Blocks::OneWay,
    ..FaultKind::on_links(&OnLinks(|_| LinkFault::Cut))
};

/// A fault that puts one fault of the proxies on every link it names.
pub(crate) struct OnLinks(pub(crate) fn(&Settings) -> LinkFault);

/// What is said of harmed links on which nothing was harmed: where messages are chosen, others may well have
/// passed. `unclear` is how many commands could have been of several roles.
fn untouched(fault: &LinkFault, unclear: u64) -> String {
    let (LinkFault::Drop { pattern, nth, .. } | LinkFault::Hold { pattern, nth, .. }) = fault else {
        return "no byte passed these links while it lasted".to_owned();
    };
    let what = match pattern.label() {
        Some(role) => format!("was known to be of the role `{role}`"),
        None => "matched".to_owned(),
    };
    let fewer = match nth {
        0 | 1 => String::new(),
        nth => format!(", or fewer than {nth}"),
    };
    let unclear = match (pattern.label(), unclear) {
        (None, _) | (_, 0) => String::new(),
        _ => format!("; in the whole run {unclear} commands could have been of several roles"),
    };
    format!("no message on these links {what} while it lasted{fewer}{unclear}")
}

#[async_trait]
impl Fault for OnLinks {
    fn on_links(&self, with: &Settings) -> Option<LinkFault> {
        Some((self.0)(with))
    }

    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let links: Vec<(Party, Party)> = injection
            .targets
            .iter()
            .filter_map(|target| match target {
                Target::Link(from, to) => Some((from.clone(), to.clone())),
                _ => None,
            })
            .collect();
        if links.is_empty() {
            return Err(failed!("it names no link between two parties"));
        }
        let fault = (self.0)(&injection.with);
        let guards = world.deployment.apply(&links, &fault)?;
        Ok(Box::new(InjectedLinkFault {
            world: world.clone(),
            fault,
            names: injection.targets.iter().map(Target::to_string).collect(),
            guards,
        }))
    }
}

struct InjectedLinkFault {
    names: Vec<String>,
    world: Arc<FaultWorld>,
    fault: LinkFault,
    guards: Vec<LinkGuard>,
}

#[async_trait]
impl FaultGuard for InjectedLinkFault {
    /// Bytes and connections that were harmed are the proof. Quiet links (a replica that talks to nobody)
    /// prove nothing and disprove nothing: one of the links is enough.
    fn proof(&self) -> Proof {
        let (mut bytes, mut chunks, mut connections) = (0, 0, 0);
        let mut touched = Vec::new();
        for (name, guard) in self.names.iter().zip(&self.guards) {
            let effect = guard.effect();
            bytes += effect.bytes;
            chunks += effect.chunks;
            connections += effect.connections;
            if effect.bytes > 0 || effect.connections > 0 {
                touched.push(name.as_str());
            }
        }
        if bytes > 0 {
            proof!(true, "{bytes} bytes in {chunks} pieces harmed on {}", touched.join(", "))
        } else if connections > 0 {
            proof!(true, "{connections} connections harmed on {}", touched.join(", "))
        } else {
            Proof::of(false, untouched(&self.fault, self.world.clients.unclear()))
        }
    }

    fn awaits_evidence(&self) -> bool {
        !self.proof().bit
    }

    async fn heal(self: Box<Self>) -> HealReport {
        HealReport { proof: self.proof(), failed: None }
    }
}
