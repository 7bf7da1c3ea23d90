//! Which clients reach a majority of the masters, by the faults that block links.
//!
//! 1. It is known only where the masters are: several independent ones, or a single server. Servers that
//!    replace each other are not.
//! 2. A client is cut off while the masters to and from which something passes are no majority.
//! 3. It is mute while no request of it reaches a majority; half a second later, since a fault is on record
//!    before it is in place.

use crate::checkers::record::faults::{AFTER_HEAL_NS, BlockedLink, Fault};
use crate::checkers::record::holds::Record;
use crate::checkers::record::spans::{Span, Spans};
use crate::faults::Blocks;

/// When clients reach no majority, client by client.
pub(crate) struct MajorityReach {
    known: bool,
    cut_off: Vec<Spans>,
    pub(crate) mute: Vec<Spans>,
}

impl MajorityReach {
    /// `masters` is empty where they are not known.
    pub(crate) fn of(record: &Record, masters: &[String]) -> Self {
        let clients = 0..record.clients.len() as u32;
        let late = |(from, to): Span| (from.saturating_add(AFTER_HEAL_NS), to);
        Self {
            known: !masters.is_empty(),
            cut_off: (clients.clone())
                .map(|client| without_majority(record, masters, client, |_| true))
                .collect(),
            mute: clients
                .map(|client| without_majority(record, masters, client, |link| link.requests))
                .map(|spans| spans.iter().map(late).collect())
                .collect(),
        }
    }

    /// Whether all that a fault does is known: it blocks links that are named one by one.
    pub(crate) fn knows(&self, fault: &Fault) -> bool {
        let is_link = |target: &String| target.contains("->") && !target.contains([',', ';', '|', '<']);
        self.known && fault.blocks() != Blocks::Nothing && fault.targets.iter().all(is_link)
    }

    pub(crate) fn cut_off(&self) -> impl Iterator<Item = (u32, Span)> + '_ {
        (0..).zip(&self.cut_off).flat_map(|(client, spans)| spans.iter().map(move |span| (client, span)))
    }
}

/// When the masters that no link of a kind leads to leave no majority to a client.
fn without_majority(
    record: &Record,
    masters: &[String],
    client: u32,
    counts: impl Fn(&BlockedLink) -> bool,
) -> Spans {
    let mut blocked: Vec<(Span, usize)> = Vec::new();
    for fault in &record.faults {
        for link in fault.blocked.iter().filter(|link| link.client == client && counts(link)) {
            if let Some(master) = masters.iter().position(|master| *master == link.node) {
                blocked.push(((fault.injected_ns, fault.heal_ns()), master));
            }
        }
    }
    let mut changes: Vec<u64> =
        (blocked.iter()).flat_map(|((from_ns, heal_ns), _)| [*from_ns, *heal_ns]).collect();
    changes.sort_unstable();
    changes.dedup();
    let spans = changes.windows(2).filter_map(|ends| {
        let (from_ns, to_ns) = (ends[0], ends[1]);
        let gone = |master: &usize| {
            let mut cuts = blocked.iter();
            cuts.any(|((from, to), of)| of == master && *from <= from_ns && *to >= to_ns)
        };
        let reached = masters.len() - (0..masters.len()).filter(gone).count();
        (2 * reached <= masters.len()).then_some((from_ns, to_ns))
    });
    spans.collect()
}
