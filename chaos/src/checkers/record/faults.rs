//! The times in which a client is touched by a fault.
//!
//! 1. A fault on a client, or on a link to or from one, touches that client; any other touches every client.
//! 2. It touches from inject to heal + 0.5 s. A one-shot fault heals when applied: at its heal line, else at
//!    its inject.
//! 3. A fault on a node touches until its heal or until the lock's probe succeeds again after a failure,
//!    whichever is first, + 0.5 s.
//! 4. Where the servers of which it needs a majority are known, a fault that blocks links touches a client
//!    only while a majority is beyond its reach, see [`MajorityReach`].
//! 5. A client that was killed, or died, stays touched.
//! 6. Targets are read leniently: a client's own name, `client 2`, `c2`, `clients`; `A -> B`, `A <-> B`,
//!    lists and groups.

use std::collections::BTreeMap;

use crate::checkers::record::holds::{Record, ms};
use crate::checkers::record::majority_reach::MajorityReach;
use crate::checkers::record::names::Names;
use crate::checkers::record::spans::{Span, Spans};
use crate::faults::{Blocks, find};

/// For so long after its heal a fault may still be felt.
pub(crate) const AFTER_HEAL_NS: u64 = 500_000_000;

/// One fault, and whom it touches.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its name.
    pub fault: String,
    /// Its targets, as in the history.
    pub targets: Vec<String>,
    /// When it was injected.
    pub injected_ns: u64,
    /// When it was healed.
    pub healed_ns: Option<u64>,
    /// The clients that are targets themselves, or ends of a link, as indices into the record's clients.
    pub clients: Vec<u32>,
    /// It is on a node, or between nodes, or on something unknown: every client may feel it.
    pub everybody: bool,
    /// The clients that are targets themselves.
    direct: Vec<u32>,
    pub(crate) blocked: Vec<BlockedLink>,
}

/// A link of a client on which nothing passes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockedLink {
    pub(crate) client: u32,
    pub(crate) node: String,
    /// Requests do not pass; else only answers do not.
    pub(crate) requests: bool,
}

impl Fault {
    pub(crate) fn new(fault: &str, targets: &[String], injected_ns: u64) -> Self {
        Self {
            fault: fault.to_owned(),
            targets: targets.to_vec(),
            injected_ns,
            healed_ns: None,
            clients: Vec::new(),
            everybody: targets.is_empty(),
            direct: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Whether it does nothing but block links.
    pub(crate) fn blocks(&self) -> Blocks {
        find(&self.fault).map_or(Blocks::Nothing, |kind| kind.blocks)
    }

    /// Finds the clients that its targets mean, once all names are known.
    pub(crate) fn resolve(&mut self, clients: &Names) {
        for target in self.targets.clone() {
            self.target(&target, clients);
        }
    }

    fn target(&mut self, target: &str, clients: &Names) {
        if let Some(found) = client(target, clients) {
            self.clients.extend(&found);
            self.direct.extend(found);
            return;
        }
        let ends: Vec<&str> =
            target.split("->").map(|end| end.trim_matches(|c: char| c == '<' || c.is_whitespace())).collect();
        let parties = |end: &str| -> Vec<Option<Vec<u32>>> {
            let parties = end.split([',', '|', ';']).map(str::trim);
            parties.filter(|party| !party.is_empty()).map(|party| client(party, clients)).collect()
        };
        if let [from, to] = ends.as_slice() {
            self.block(from, to, true, clients);
            self.block(to, from, self.blocks() == Blocks::BothWays, clients);
            let (from, to) = (parties(from), parties(to));
            // Between nodes only: replication, votes. Else it is felt by the clients at its ends.
            let among_nodes = from.iter().any(Option::is_none) && to.iter().any(Option::is_none);
            self.everybody |= among_nodes;
            self.clients.extend(from.into_iter().chain(to).flatten().flatten());
            return;
        }
        // In a partition the parties themselves are whole; only what flows between the groups is cut.
        let groups: Vec<_> = target.split('|').map(parties).collect();
        let with_nodes = groups.iter().filter(|group| group.iter().any(Option::is_none)).count();
        self.everybody |= with_nodes > usize::from(groups.len() > 1);
        let found: Vec<u32> = groups.iter().flatten().flatten().flatten().copied().collect();
        if groups.len() == 1 {
            self.direct.extend(&found);
        }
        self.clients.extend(found);
    }

    /// Adds a link between a client and a server, if it is one and this fault blocks it.
    fn block(&mut self, from: &str, to: &str, requests: bool, clients: &Names) {
        if self.blocks() == Blocks::Nothing || client(to, clients).is_some() {
            return;
        }
        for client in client(from, clients).into_iter().flatten() {
            let node = to.trim().to_owned();
            self.blocked.push(BlockedLink { client, node, requests });
        }
    }

    /// When it is healed; `u64::MAX`: not in this history.
    pub(crate) fn heal_ns(&self) -> u64 {
        match self.healed_ns {
            Some(healed_ns) => healed_ns,
            None if find(&self.fault).is_some_and(|kind| kind.one_shot) => self.injected_ns,
            None => u64::MAX,
        }
    }

    /// Whether it pauses this client, or what its library runs on, at some time between two instants.
    pub(crate) fn paused(&self, client: u32, (from, to): Span) -> bool {
        matches!(&*self.fault, "pause" | "block")
            && self.direct.contains(&client)
            && self.injected_ns <= to
            && self.healed_ns.unwrap_or(u64::MAX) >= from
    }
}

pub(crate) fn shown(fault: &Fault) -> String {
    format!("{} on {} at {}", fault.fault, fault.targets.join(", "), ms(fault.injected_ns))
}

fn client(word: &str, clients: &Names) -> Option<Vec<u32>> {
    let word = word.trim();
    if let Some(index) = clients.position(word) {
        return Some(vec![index]);
    }
    if word == "clients" {
        return Some((0..clients.len() as u32).collect());
    }
    let rest = word.strip_prefix("client").or_else(|| word.strip_prefix('c'))?;
    let number = rest.trim_start_matches(['-', '_', ' ', '#']);
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let spellings = ["c", "client", "client-", "client_", "client "];
    let found = spellings.iter().find_map(|prefix| clients.position(&format!("{prefix}{number}")));
    // A client that never asked for a lock: nobody of this record.
    Some(found.into_iter().collect())
}

pub(crate) fn kills_without_crash(faults: &[Fault], deaths: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut killed = Vec::new();
    for fault in faults.iter().filter(|fault| fault.fault == "kill") {
        let until_ns = fault.healed_ns.unwrap_or(u64::MAX);
        for client in &fault.direct {
            let told = deaths
                .iter()
                .any(|(dead, t_ns)| dead == client && (fault.injected_ns..=until_ns).contains(t_ns));
            if !told {
                killed.push((*client, fault.injected_ns));
            }
        }
    }
    killed
}

#[derive(Debug, Clone, Copy)]
struct ClientFault {
    client: Option<u32>,
    from_ns: u64,
    heal_ns: u64,
}

impl ClientFault {
    fn span(&self) -> Span {
        (self.from_ns, self.heal_ns.saturating_add(AFTER_HEAL_NS))
    }
}

/// Who is touched when, for one lock: the probe that ends a node's fault is the lock's own.
#[derive(Debug, Clone)]
pub(crate) struct ClientFaults {
    touches: Vec<ClientFault>,
    alive: Vec<Spans>,
    all: Vec<Spans>,
    away: Vec<Spans>,
    down: Spans,
    mute: Vec<Spans>,
}

/// The touches of each lock; all locks without a probe of their own share them.
pub(crate) struct TouchesByLock {
    without_probe: ClientFaults,
    with_probe: BTreeMap<u32, ClientFaults>,
}

impl TouchesByLock {
    pub(crate) fn of(record: &Record, masters: &[String]) -> Self {
        let probes = record.probes.iter();
        let reach = MajorityReach::of(record, masters);
        Self {
            without_probe: ClientFaults::of(record, &reach, &[]),
            with_probe: probes
                .map(|(lock, probes)| (*lock, ClientFaults::of(record, &reach, probes)))
                .collect(),
        }
    }

    pub(crate) fn get(&self, lock: u32) -> &ClientFaults {
        self.with_probe.get(&lock).unwrap_or(&self.without_probe)
    }
}

impl ClientFaults {
    fn of(record: &Record, reach: &MajorityReach, probes: &[(u64, bool)]) -> Self {
        let mut touches = Vec::new();
        for (client, (from_ns, heal_ns)) in reach.cut_off() {
            touches.push(ClientFault { client: Some(client), from_ns, heal_ns });
        }
        for fault in record.faults.iter().filter(|fault| !reach.knows(fault)) {
            let (from_ns, heal_ns) = (fault.injected_ns, fault.heal_ns());
            // A killed client is dead: its deaths say so, and until when its acquires may hold.
            let clients = fault.clients.iter().filter(|_| fault.fault != "kill");
            touches.extend(clients.map(|client| ClientFault { client: Some(*client), from_ns, heal_ns }));
            if fault.everybody {
                let again_ns = works_again(probes, from_ns).unwrap_or(u64::MAX);
                touches.push(ClientFault { client: None, from_ns, heal_ns: heal_ns.min(again_ns) });
            }
        }
        let of = |client: u32| -> Spans {
            let own = touches.iter().filter(|touch| touch.client.is_none_or(|of| of == client));
            own.map(ClientFault::span).collect()
        };
        let alive: Vec<Spans> = (0..record.clients.len() as u32).map(of).collect();
        let with_death = |(client, spans): (u32, &Spans)| -> Spans {
            let deaths = record.deaths.iter().filter(|(dead, _)| *dead == client);
            spans.iter().chain(deaths.map(|(_, t_ns)| (*t_ns, u64::MAX))).collect()
        };
        let all: Vec<Spans> = (0..).zip(&alive).map(with_death).collect();
        let down = refused(probes);
        Self {
            away: all.iter().map(|all| all.union(&down)).collect(),
            all,
            alive,
            touches,
            down,
            mute: reach.mute.clone(),
        }
    }

    pub(crate) fn spans(&self, client: u32) -> &Spans {
        &self.all[client as usize]
    }

    /// When a client cannot be asking: it is touched, or the servers are down.
    pub(crate) fn away(&self, client: u32) -> &Spans {
        &self.away[client as usize]
    }

    /// When the servers refused the lock's probe.
    pub(crate) fn down(&self) -> &Spans {
        &self.down
    }

    /// When no request of a client reaches a majority of the masters: what it asks for then it cannot get.
    pub(crate) fn mute(&self, client: u32) -> &Spans {
        &self.mute[client as usize]
    }

    /// When a fault touches a client so that it may delay its calls, which end with its death.
    pub(crate) fn in_flight(&self, client: u32) -> &Spans {
        &self.alive[client as usize]
    }

    /// The latest heal of the faults that touch a client at some time in a span; `u64::MAX`: one never heals.
    pub(crate) fn last_heal_ns(&self, client: u32, (from, to): Span) -> Option<u64> {
        let here = self.touches.iter().filter(|touch| {
            let (touched_ns, until_ns) = touch.span();
            touch.client.is_none_or(|of| of == client) && touched_ns <= to && until_ns > from
        });
        here.map(|touch| touch.heal_ns).max()
    }
}

/// The first probe after an instant that succeeds after one that failed.
fn works_again(probes: &[(u64, bool)], since_ns: u64) -> Option<u64> {
    let mut down = false;
    for (t_ns, ok) in probes {
        match ok {
            false => down = true,
            true if down && *t_ns > since_ns => return Some(*t_ns),
            true => down = false,
        }
    }
    None
}

/// When the servers refused a lock's probe.
pub(crate) fn refused(probes: &[(u64, bool)]) -> Spans {
    let mut spans = Vec::new();
    let mut since = None;
    for (t_ns, ok) in probes {
        match (ok, since) {
            (false, None) => since = Some(*t_ns),
            (true, Some(from)) => {
                spans.push((from, *t_ns));
                since = None;
            }
            _ => {}
        }
    }
    spans.extend(since.map(|from| (from, u64::MAX)));
    spans.into_iter().collect()
}
