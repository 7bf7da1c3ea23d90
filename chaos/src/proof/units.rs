//! The units of a history that can be left out one by one without breaking its form.
//!
//! A call goes with its end, and the inject of a fault with its heal; any other event is a unit of its own.
//! What is known of a unit is what decides where a search begins: its grants, its locks, and the time that it
//! spans.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use results::history::{Call, End, Entry, Event, History, Phase};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Unit {
    /// Indices into the history's lines, in order.
    pub(super) lines: Vec<usize>,
    pub(super) grant: Option<String>,
    pub(super) locks: BTreeSet<String>,
    /// Its first stamp, and its last; `u64::MAX` for an operation without an end.
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// It may excuse a lock that refuses: leaving it out would accuse.
    pub(super) excuses: bool,
}

pub(super) fn units(history: &History) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut pending: HashMap<u64, usize> = HashMap::new();
    let mut spans: HashMap<u64, usize> = HashMap::new();
    let mut locks_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (index, line) in history.lines.iter().enumerate() {
        let mut unit = Unit { lines: vec![index], from_ns: line.t_ns, to_ns: line.t_ns, ..Unit::default() };
        match &line.entry {
            Entry::Call { id, call } => {
                unit.to_ns = u64::MAX;
                match call {
                    Call::Acquire(ask) => unit.locks.extend(ask.names().iter().cloned()),
                    Call::Extend { grant, .. } | Call::Release { grant } => {
                        unit.locks = locks_of.get(grant).cloned().unwrap_or_default();
                        unit.grant = Some(grant.clone());
                    }
                    _ => {}
                }
                pending.insert(*id, units.len());
                units.push(unit);
            }
            Entry::End { id, end } => {
                let Some(unit) = pending.remove(id).and_then(|at| units.get_mut(at)) else { continue };
                unit.lines.push(index);
                unit.to_ns = line.t_ns;
                if let End::Ok { grant: Some(grant), .. } | End::Unknown { grant: Some(grant), .. } = end {
                    locks_of.insert(grant.clone(), unit.locks.clone());
                    unit.grant = Some(grant.clone());
                }
            }
            Entry::Event(event) => {
                match event {
                    Event::Fault { span, phase: Phase::Heal, .. } => {
                        if let Some(unit) = spans.get(span).and_then(|at| units.get_mut(*at)) {
                            unit.lines.push(index);
                            unit.to_ns = line.t_ns;
                            continue;
                        }
                        unit.excuses = true;
                    }
                    Event::Fault { span, .. } => {
                        spans.insert(*span, units.len());
                        unit.to_ns = u64::MAX;
                        unit.excuses = true;
                    }
                    Event::Lost { grant, .. } => {
                        unit.locks = locks_of.get(grant).cloned().unwrap_or_default();
                        unit.grant = Some(grant.clone());
                    }
                    Event::Write { lock, grant, .. } => {
                        unit.locks.insert(lock.clone());
                        unit.grant = Some(grant.clone());
                    }
                    Event::Probe { lock, .. } => {
                        unit.locks.insert(lock.clone());
                        unit.excuses = true;
                    }
                    _ => unit.excuses = true,
                }
                units.push(unit);
            }
            _ => units.push(unit),
        }
    }
    units
}
