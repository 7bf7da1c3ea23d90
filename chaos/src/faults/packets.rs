//! Cuts links by dropping packets where the run has a network of its own, else and for clients' links through the proxies.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::{LinkFault, PacketGuard, Party, isolation};

use super::link::OnLinks;
use super::{Fault, FaultGuard, Healed, Injected, Injection, Proof, Target, World};
use crate::scenario::Settings;

/// Every link that the fault names is cut.
pub(super) struct Cut;

#[async_trait]
impl Fault for Cut {
    fn on_links(&self, _with: &Settings) -> Option<LinkFault> {
        Some(LinkFault::Cut)
    }

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let (servers, others): (Vec<Target>, Vec<Target>) =
            injection.targets.iter().cloned().partition(by_packets);
        let mut guard = CutLinks {
            guards: Vec::new(),
            others: None,
        };
        for target in &servers {
            if let Target::Link(Party::Node(from), Party::Node(to)) = target {
                let cut = world.deployment.cut_packets(from, to)?;
                guard.guards.push((target.to_string(), cut));
            }
        }
        if !others.is_empty() || servers.is_empty() {
            let rest = Injection {
                targets: others,
                ..injection.clone()
            };
            guard.others = Some(OnLinks(|_| LinkFault::Cut).inject(world, &rest).await?);
        }
        Ok(Box::new(guard))
    }
}

/// Links between servers, whose addresses tell them apart; clients share one address.
pub(crate) fn by_packets(target: &Target) -> bool {
    isolation().is_some_and(|isolation| isolation.cuts_packets)
        && matches!(target, Target::Link(Party::Node(_), Party::Node(_)))
}

struct CutLinks {
    guards: Vec<(String, PacketGuard)>,
    others: Option<Box<dyn FaultGuard>>,
}

impl CutLinks {
    fn dropped(&self) -> Option<Proof> {
        if self.guards.is_empty() {
            return None;
        }
        let (mut packets, mut touched) = (0, Vec::new());
        for (name, guard) in &self.guards {
            let dropped = guard.dropped();
            packets += dropped;
            if dropped > 0 {
                touched.push(name.as_str());
            }
        }
        Some(match packets {
            0 => proof!(false, "no packet was on these links while it lasted"),
            _ => proof!(true, "{packets} packets dropped on {}", touched.join(", ")),
        })
    }

    /// One of the links is enough, as with proxies alone: quiet links prove nothing and disprove nothing.
    fn either(dropped: Option<Proof>, held: Option<Proof>) -> Proof {
        match (dropped, held) {
            (Some(dropped), Some(held)) => {
                proof!(dropped.bit || held.bit, "{}; {}", dropped.words, held.words)
            }
            (one, other) => one
                .or(other)
                .unwrap_or_else(|| proof!(false, "it names no link")),
        }
    }
}

#[async_trait]
impl FaultGuard for CutLinks {
    fn proof(&self) -> Proof {
        Self::either(
            self.dropped(),
            self.others.as_ref().map(|others| others.proof()),
        )
    }

    fn awaits_evidence(&self) -> bool {
        !self.proof().bit
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let dropped = self.dropped();
        let mut failed = Vec::new();
        for (_, guard) in std::mem::take(&mut self.guards) {
            if let Err(error) = guard.heal() {
                failed.push(error.to_string());
            }
        }
        let mut held = None;
        if let Some(others) = self.others.take() {
            let healed = others.heal().await;
            held = Some(healed.proof);
            failed.extend(healed.failed);
        }
        Healed::with(Self::either(dropped, held), &failed)
    }
}
