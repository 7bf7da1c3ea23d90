//! What is known of a history whose clients were recorded on several clocks: which of two moments came first,
//! and which nobody can say.
//!
//! 1. Clients of one part share a clock, and their times are exact among each other.
//! 2. Of two parts, each time is off by no more than the part's uncertainty then. Two moments whose distance
//!    is no larger than both uncertainties together have no order.
//! 3. Two holds of different parts overlap for certain if they do so for longer than both uncertainties
//!    together; if they are that close, or overlap for less, it is not known.

use results::overlap::{Hold, Mode, Overlap, Overlaps, join, overlaps};

use crate::checkers::record::holds::{Grant, Record};

/// The clocks of a history that was put together from parts; empty where there is one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clocks {
    part_of: Vec<Option<usize>>,
    parts: Vec<Vec<(u64, u64)>>,
}

impl Clocks {
    pub(crate) fn said(&mut self, clients: &[u32], t_ns: u64, uncertainty_ns: u64) {
        let known = |client: &u32| self.part_of.get(*client as usize).copied().flatten();
        let part = clients.iter().find_map(known).unwrap_or(self.parts.len());
        self.parts.resize(self.parts.len().max(part + 1), Vec::new());
        for client in clients {
            let client = *client as usize;
            self.part_of.resize(self.part_of.len().max(client + 1), None);
            self.part_of[client] = Some(part);
        }
        self.parts[part].push((t_ns, uncertainty_ns));
    }

    pub(crate) fn are_several(&self) -> bool {
        self.parts.len() > 1
    }

    /// How far off a moment may be at the worst; 0: all are on one clock.
    pub(crate) fn off_ns(&self) -> u64 {
        let said = |part: &Vec<(u64, u64)>| part.iter().map(|(_, off_ns)| *off_ns).max();
        match self.parts.as_slice() {
            [] | [_] => 0,
            parts => parts.iter().filter_map(said).max().unwrap_or(0),
        }
    }

    fn part(&self, client: u32) -> Option<usize> {
        self.part_of.get(client as usize).copied().flatten()
    }

    fn uncertainty_ns(&self, client: u32, t_ns: u64) -> u64 {
        let Some(part) = self.part(client) else { return 0 };
        let said = &self.parts[part];
        let after = said.partition_point(|(from_ns, _)| *from_ns <= t_ns);
        said.get(after.saturating_sub(1)).map_or(0, |(_, uncertainty_ns)| *uncertainty_ns)
    }

    /// Whether it is known which of two moments of two clients came first.
    pub(crate) fn are_ordered(&self, one: (u32, u64), other: (u32, u64)) -> bool {
        let unknown = |(client, t_ns)| self.uncertainty_ns(client, t_ns);
        self.part(one.0) == self.part(other.0)
            || one.1.abs_diff(other.1) > unknown(one).saturating_add(unknown(other))
    }
}

struct HoldUncertainty {
    hold: Hold,
    part: Option<usize>,
    off_ns: u64,
}

/// The overlaps of one lock that are certain, and how many pairs nobody can judge.
pub(crate) fn certain(record: &Record, holds: Vec<Hold>, limit: Option<u64>) -> (Overlaps, u64) {
    let clocks = &record.clocks;
    let client = |hold: &Hold| {
        let grant: &Grant = &record.grants[hold.grant as usize];
        record.acquire_of(grant).client
    };
    let mut parts: Vec<(Option<usize>, Vec<Hold>)> = Vec::new();
    for hold in &holds {
        let part = clocks.part(client(hold));
        match parts.iter_mut().find(|(other, _)| *other == part) {
            Some((_, own)) => own.push(*hold),
            None => parts.push((part, vec![*hold])),
        }
    }
    let mut found = Overlaps::default();
    for (_, own) in parts {
        add(&mut found, overlaps(own, |_| limit));
    }
    let mut joined = holds;
    join(&mut joined);
    let off = |hold: Hold| {
        let client = client(&hold);
        let unknown = |t_ns| clocks.uncertainty_ns(client, t_ns);
        HoldUncertainty {
            part: clocks.part(client),
            off_ns: unknown(hold.from_ns).max(unknown(hold.to_ns)),
            hold,
        }
    };
    let mut all: Vec<HoldUncertainty> = joined.into_iter().map(off).collect();
    all.sort_by_key(|off| (off.hold.from_ns.saturating_sub(off.off_ns), off.hold.grant));
    let mut unknown = permits_beyond(&mut found, &all, limit);
    let mut lasting: Vec<&HoldUncertainty> = Vec::new();
    for later in &all {
        let from_ns = later.hold.from_ns.saturating_sub(later.off_ns);
        lasting.retain(|off| off.hold.to_ns.saturating_add(off.off_ns) >= from_ns);
        for earlier in lasting.iter().filter(|earlier| earlier.part != later.part) {
            match shared_ns(earlier, later) {
                Some(shared_ns) if shared_ns > 0 => note(&mut found, &earlier.hold, &later.hold),
                Some(_) => unknown += 1,
                None => {}
            }
        }
        lasting.push(later);
    }
    found.list.sort_by_key(|overlap| (overlap.from_ns, overlap.to_ns));
    (found, unknown)
}

/// For how long two holds of different parts certainly overlapped; 0: perhaps. `None`: not at all.
fn shared_ns(one: &HoldUncertainty, other: &HoldUncertainty) -> Option<u64> {
    let (a, b) = (&one.hold, &other.hold);
    let together = matches!((a.mode, b.mode), (Mode::Read, Mode::Read) | (Mode::Permit, Mode::Permit));
    if together {
        return None;
    }
    let off_ns = one.off_ns.saturating_add(other.off_ns);
    let (from_ns, to_ns) = (a.from_ns.max(b.from_ns), a.to_ns.min(b.to_ns));
    match to_ns.checked_sub(from_ns) {
        Some(long_ns) if long_ns > off_ns => Some(long_ns),
        Some(_) => Some(0),
        None => (from_ns - to_ns <= off_ns).then_some(0),
    }
}

/// Permits beyond the limit that only the parts together have: certain if the holds are so without what is
/// unknown of them. One more that is not known, if they are only with it.
fn permits_beyond(found: &mut Overlaps, all: &[HoldUncertainty], limit: Option<u64>) -> u64 {
    let permits = |wider: bool| {
        let of = all.iter().filter(|off| off.hold.mode == Mode::Permit);
        let moved = of.map(|off| {
            let (sooner, later) = match wider {
                true => {
                    (off.hold.from_ns.saturating_sub(off.off_ns), off.hold.to_ns.saturating_add(off.off_ns))
                }
                false => {
                    (off.hold.from_ns.saturating_add(off.off_ns), off.hold.to_ns.saturating_sub(off.off_ns))
                }
            };
            Hold { from_ns: sooner, to_ns: later, ..off.hold }
        });
        overlaps(moved.collect(), |_| limit)
    };
    let of_parts = found.count;
    let sure = permits(false);
    if of_parts > 0 || sure.count > 0 {
        // What one part shows by itself stands, and is part of what all show together.
        if sure.count > of_parts {
            *found = sure;
        }
        return 0;
    }
    u64::from(permits(true).count > 0)
}

fn add(sum: &mut Overlaps, mut more: Overlaps) {
    sum.count += more.count;
    sum.worst_ns = sum.worst_ns.max(more.worst_ns);
    sum.list.append(&mut more.list);
}

fn note(found: &mut Overlaps, one: &Hold, other: &Hold) {
    let (earlier, later) = if one.from_ns <= other.from_ns { (one, other) } else { (other, one) };
    let to_ns = earlier.to_ns.min(later.to_ns);
    found.count += 1;
    found.worst_ns = found.worst_ns.max(to_ns - later.from_ns);
    found.list.push(Overlap {
        lock: later.lock,
        from_ns: later.from_ns,
        to_ns,
        earlier: earlier.grant,
        later: later.grant,
    });
}
