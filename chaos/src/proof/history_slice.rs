//! Searches for the shortest slice of a history that still shows an anomaly.
//!
//! As a specification:
//!
//! 1. A slice is a valid history: lines of the whole one, in their order; a call may lose its end, never the
//!    reverse.
//! 2. It convicts: the checker of the class, without floors, finds the same anomaly in it: the same kind,
//!    lock, grants and times. (An anomaly that lasts to the end of the history may last to the end of the
//!    slice.)
//! 3. So nothing is accused that the whole history does not accuse: a release that is left out where it
//!    matters makes the anomaly longer, and then it is not the same.
//! 4. Nor is it doubtful where the whole one is not: no line of it speaks of a grant that was never given.
//! 5. What may excuse a lock that refuses (faults, crashes, probes, what a library said of its lease) stays
//!    where liveness is judged.
//! 6. Nothing of the slice can be left out, unit by unit and end by end, or the slice says that the search
//!    was cut short.
//!
//! The search begins with what the anomaly names, then with what touches its lock and time, then with
//! everything, and takes away halves, quarters and so on of what convicts (delta debugging).

use std::collections::{HashMap, HashSet};

use results::history::{Entry, History, Line};
use results::verdict::Anomaly;

use super::units::{Unit, units};
use crate::checkers::{CHECKERS, CheckOptions, Record};

/// Histories that are judged on the way, at most.
const TRIES: usize = 3_000;

/// So many lines are judged on the way, at most: a search over a whole long history must end.
const LINES_JUDGED: usize = 3_000_000;

/// A slice that convicts.
#[derive(Debug, Clone, PartialEq)]
pub struct HistorySlice {
    /// Its lines, as a history.
    pub history: History,
    /// Nothing can be left out.
    pub shortest: bool,
}

/// The shortest slice of `history` in which `class` has the same `anomaly`; `None` if the whole history does
/// not show it.
pub fn shortest(
    history: &History,
    options: &CheckOptions<'_>,
    class: &str,
    anomaly: &Anomaly,
) -> Option<HistorySlice> {
    let units = units(history);
    let mut search = Search {
        history,
        units: &units,
        options: CheckOptions { floors: None, proofs: None, ..options.clone() },
        class,
        anomaly,
        doubts: Record::of(history).doubts,
        to_the_end: history.lines.last().is_some_and(|line| anomaly.to_ns >= line.t_ns),
        tries: 0,
        lines_judged: 0,
    };
    let beginning = search.beginning()?;
    Some(search.narrowed(beginning))
}

struct Search<'a> {
    history: &'a History,
    units: &'a [Unit],
    options: CheckOptions<'a>,
    class: &'a str,
    anomaly: &'a Anomaly,
    doubts: Vec<String>,
    to_the_end: bool,
    tries: usize,
    lines_judged: usize,
}

impl Search<'_> {
    /// Whether the lines show the anomaly; `None` when the search has gone on for long enough.
    fn convicts(&mut self, lines: &[usize]) -> Option<bool> {
        if self.tries >= TRIES || self.lines_judged >= LINES_JUDGED {
            return None;
        }
        self.tries += 1;
        self.lines_judged += lines.len();
        Some(self.shows(lines))
    }

    fn shows(&self, lines: &[usize]) -> bool {
        let slice = self.taken(lines);
        if !ids_are_apart(&slice) {
            return false;
        }
        let last_ns = slice.lines.last().map_or(0, |line| line.t_ns);
        let record = Record::of(&slice);
        if record.doubts.iter().any(|doubt| !self.doubts.contains(doubt)) {
            return false;
        }
        let Some(checker) = CHECKERS.iter().find(|checker| checker.name == self.class) else { return false };
        let findings = (checker.run)(&record, &self.options);
        let wanted = self.anomaly;
        let mut found = findings.iter().flat_map(|finding| &finding.anomalies);
        found.any(|found| {
            let ends_alike = found.to_ns == wanted.to_ns || (self.to_the_end && found.to_ns == last_ns);
            found.what == wanted.what
                && found.lock == wanted.lock
                && found.from_ns == wanted.from_ns
                && found.grants == wanted.grants
                && ends_alike
        })
    }

    fn taken(&self, lines: &[usize]) -> History {
        let lines: Vec<Line> =
            lines.iter().filter_map(|index| self.history.lines.get(*index).cloned()).collect();
        let mut taken = History::from_lines(lines);
        // What a recorder knew besides its lines holds for every slice.
        for (client, lease_ms) in &self.history.watchdog_ms {
            taken.watchdog_ms.entry(client.clone()).or_insert(*lease_ms);
        }
        taken
    }

    /// The smallest of a few guesses that convicts; the last one is the whole history.
    fn beginning(&mut self) -> Option<Vec<usize>> {
        let anomaly = self.anomaly;
        let must = |unit: &Unit| self.class == "liveness" && unit.excuses;
        let named = |unit: &Unit| unit.grant.as_ref().is_some_and(|grant| anomaly.grants.contains(grant));
        // Of permits an anomaly names two, and it takes one more than there are to convict.
        let around = self.held_around();
        let held = |unit: &Unit| {
            let grant = unit.grant.as_deref();
            grant.is_some_and(|grant| around.contains(grant))
        };
        let near = |unit: &Unit| {
            let here = unit.locks.is_empty() || unit.locks.contains(&anomaly.lock);
            let margin_ns = (anomaly.to_ns - anomaly.from_ns).max(1_000_000_000);
            here && unit.from_ns <= anomaly.to_ns && unit.to_ns >= anomaly.from_ns.saturating_sub(margin_ns)
        };
        let of_lock = |unit: &Unit| unit.locks.is_empty() || unit.locks.contains(&anomaly.lock);
        let guesses: [&dyn Fn(&Unit) -> bool; 6] = [
            &named,
            &|unit: &Unit| named(unit) || unit.excuses,
            &|unit: &Unit| named(unit) || held(unit),
            &|unit: &Unit| named(unit) || near(unit),
            &of_lock,
            &|_| true,
        ];
        guesses.into_iter().find_map(|guess| {
            let chosen: Vec<usize> = (0..self.units.len())
                .filter(|index| {
                    let unit = &self.units[*index];
                    must(unit) || guess(unit)
                })
                .collect();
            self.shows(&self.lines(&chosen)).then_some(chosen)
        })
    }

    /// Grants of the anomaly's lock that were, or may have been, held while it lasted.
    fn held_around(&self) -> HashSet<&str> {
        let mut spans: HashMap<&str, (u64, u64, usize)> = HashMap::new();
        let here = |unit: &&Unit| unit.locks.contains(&self.anomaly.lock);
        for unit in self.units.iter().filter(here) {
            if let Some(grant) = &unit.grant {
                let span = spans.entry(grant).or_insert((u64::MAX, 0, 0));
                *span = (span.0.min(unit.from_ns), span.1.max(unit.to_ns), span.2 + 1);
            }
        }
        let (from_ns, to_ns) = (self.anomaly.from_ns, self.anomaly.to_ns);
        spans.retain(|_, (first_ns, last_ns, units)| {
            // One unit is an acquire that nothing followed: it is held still.
            *first_ns <= to_ns && (*last_ns >= from_ns || *units == 1)
        });
        spans.into_keys().collect()
    }

    fn lines(&self, units: &[usize]) -> Vec<usize> {
        let mut lines: Vec<usize> =
            units.iter().flat_map(|unit| self.units[*unit].lines.iter().copied()).collect();
        lines.sort_unstable();
        lines
    }

    fn narrowed(&mut self, chosen: Vec<usize>) -> HistorySlice {
        let (must, chosen): (Vec<usize>, Vec<usize>) =
            chosen.into_iter().partition(|unit| self.class == "liveness" && self.units[*unit].excuses);
        let (chosen, whole) = fewest(chosen, |kept| {
            let all: Vec<usize> = kept.iter().chain(&must).copied().collect();
            self.convicts(&self.lines(&all))
        });
        let all: Vec<usize> = chosen.iter().chain(&must).copied().collect();
        let mut lines = self.lines(&all);
        let mut shortest = whole;
        // Ends that prove nothing: of calls, and of faults that need not be healed. Where refusals are the
        // matter, the answer says until when was asked, so there it stays.
        let may_lose_ends = self.class != "liveness";
        for unit in chosen.iter().filter(|_| may_lose_ends) {
            for end in self.units[*unit].lines.iter().skip(1) {
                let without: Vec<usize> = lines.iter().copied().filter(|line| line != end).collect();
                match self.convicts(&without) {
                    Some(true) => lines = without,
                    Some(false) => {}
                    None => shortest = false,
                }
            }
        }
        HistorySlice { history: self.taken(&lines), shortest }
    }
}

/// Whether no id names two operations at a time: one that comes back after its end must not lose that end.
fn ids_are_apart(slice: &History) -> bool {
    let mut pending = HashSet::new();
    slice.lines.iter().all(|line| match &line.entry {
        Entry::Call { id, .. } => pending.insert(*id),
        Entry::End { id, .. } => pending.remove(id),
        _ => true,
    })
}

/// The smallest part of `items` that the search finds to have a property that `items` have; true if no single
/// item can be left out, false if `holds` gave up before that was certain.
pub(crate) fn fewest<T: Clone>(items: Vec<T>, mut holds: impl FnMut(&[T]) -> Option<bool>) -> (Vec<T>, bool) {
    let mut kept = items;
    let mut parts = 2;
    while !kept.is_empty() {
        let size = kept.len().div_ceil(parts);
        let mut shrunk = false;
        let mut at = 0;
        while at < kept.len() {
            let rest: Vec<T> = kept.iter().take(at).chain(kept.iter().skip(at + size)).cloned().collect();
            match holds(&rest) {
                Some(true) => {
                    kept = rest;
                    shrunk = true;
                }
                Some(false) => at += size,
                None => return (kept, false),
            }
        }
        if size == 1 && !shrunk {
            break;
        }
        parts = if shrunk { parts.min(kept.len().max(2)) } else { (parts * 2).min(kept.len()) };
    }
    (kept, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_found_among_much() {
        let all: Vec<u32> = (0..1_000).collect();
        let mut tries = 0;
        let (kept, shortest) = fewest(all, |kept| {
            tries += 1;
            Some([17, 400, 401].iter().all(|needed| kept.contains(needed)))
        });
        assert_eq!((kept, shortest), (vec![17, 400, 401], true));
        assert!(tries < 200, "{tries} tries");
    }

    #[test]
    fn nothing_is_left_where_nothing_is_needed_and_a_search_that_gives_up_says_so() {
        assert_eq!(fewest(vec![1, 2, 3], |_| Some(true)), (vec![], true));
        let mut left = 2;
        let (kept, shortest) = fewest((0..64).collect::<Vec<u32>>(), |kept| {
            left -= 1;
            (left >= 0).then(|| kept.contains(&5))
        });
        assert!(!shortest && kept.contains(&5) && kept.len() == 32, "{kept:?}");
    }
}
