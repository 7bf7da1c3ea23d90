//! Verdicts from findings, and the worst of several verdicts.
//!
//! 1. An anomaly makes a finding violated, whatever the doubts.
//! 2. Without one, a doubt makes it unknown.
//! 3. Without either it is clean.

use results::verdict::{Anomaly, CLASSES, State, Verdict, Verdicts};

/// The longest list of anomalies that a verdict keeps; the count is of all.
const LISTED_MAX: usize = 20;

pub(crate) struct HistoryFacts<'a> {
    /// What keeps any verdict from being clean.
    pub(crate) doubts: &'a [String],
    /// The length of the load, or of the history.
    pub(crate) length_ns: u64,
    pub(crate) faults: u64,
}

/// What a checker found about one lock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finding {
    /// All anomalies; the list below may be shorter.
    pub count: u64,
    /// The longest anomaly, in nanoseconds.
    pub worst_ns: u64,
    /// The lengths of all anomalies that have one, in nanoseconds.
    pub lengths_ns: Vec<u64>,
    /// Anomalies with their proofs, at most a few dozen.
    pub anomalies: Vec<Anomaly>,
    /// Why clean cannot be said.
    pub doubts: Vec<String>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

impl Finding {
    pub(crate) fn add(&mut self, anomaly: Anomaly) {
        self.count += 1;
        self.worst_ns = self.worst_ns.max(anomaly.to_ns - anomaly.from_ns);
        self.lengths_ns.push(anomaly.to_ns - anomaly.from_ns);
        self.anomalies.push(anomaly);
        if self.anomalies.len() >= 4 * LISTED_MAX {
            self.shorten();
        }
    }

    pub(crate) fn add_point(&mut self, anomaly: Anomaly) {
        let worst_ns = self.worst_ns;
        self.add(anomaly);
        self.worst_ns = worst_ns;
        self.lengths_ns.pop();
    }

    /// Adds a reason why clean cannot be said, once.
    pub(crate) fn doubt(&mut self, doubt: &str) {
        if !self.doubts.iter().any(|known| known == doubt) {
            self.doubts.push(doubt.to_owned());
        }
    }

    /// Keeps the first ten and the longest ten, in order of time.
    fn shorten(&mut self) {
        let rank = |anomaly: &Anomaly| (anomaly.from_ns, anomaly.to_ns);
        self.anomalies.sort_by_key(rank);
        if self.anomalies.len() > LISTED_MAX {
            let mut rest = self.anomalies.split_off(LISTED_MAX / 2);
            rest.sort_by_key(|anomaly| std::cmp::Reverse(anomaly.to_ns - anomaly.from_ns));
            rest.truncate(LISTED_MAX / 2);
            self.anomalies.append(&mut rest);
            self.anomalies.sort_by_key(rank);
        }
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.count += other.count;
        self.worst_ns = self.worst_ns.max(other.worst_ns);
        self.lengths_ns.extend(other.lengths_ns);
        self.anomalies.extend(other.anomalies);
        self.shorten();
        other.doubts.iter().for_each(|doubt| self.doubt(doubt));
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self
    }

    pub(crate) fn verdict(mut self, of: &HistoryFacts<'_>) -> Verdict {
        self.shorten();
        let doubts = of.doubts;
        let doubtful = !doubts.is_empty() || !self.doubts.is_empty();
        Verdict {
            state: match (self.count, doubtful) {
                (1.., _) => State::Violated,
                (0, true) => State::Unknown,
                (0, false) => State::Clean,
            },
            count: self.count,
            worst_ns: self.worst_ns,
            median_ns: median(self.lengths_ns),
            per_minute: (of.length_ns > 0).then(|| self.count as f64 * 60e9 / of.length_ns as f64),
            per_fault: (of.faults > 0).then(|| self.count as f64 / of.faults as f64),
            why: [doubts, &self.doubts[..], &self.notes[..]].concat(),
            anomalies: self.anomalies,
            proof: None,
        }
    }
}

/// The median, the lower one of two; 0 of none.
fn median(mut lengths_ns: Vec<u64>) -> u64 {
    let middle = lengths_ns.len().saturating_sub(1) / 2;
    if lengths_ns.is_empty() {
        return 0;
    }
    *lengths_ns.select_nth_unstable(middle).1
}

/// The five verdicts, from the verdict of each class by its position in the registry.
pub(crate) fn verdicts(of: impl Fn(usize) -> Verdict) -> Verdicts {
    Verdicts { belief: of(0), contract: of(1), confirmed: of(2), effect: of(3), liveness: of(4) }
}

/// The verdicts of several histories as one: counts add up, the worst state stands, the first proof is shown.
pub fn join(mut all: Vec<Verdicts>) -> Verdicts {
    if all.len() == 1 {
        return all.remove(0);
    }
    let mut joined = Verdicts::default();
    for class in CLASSES {
        let Some(one) = joined.get_mut(class) else { continue };
        let of_class = || all.iter().filter_map(|verdicts| verdicts.get(class));
        one.state = worst(of_class().map(|verdict| verdict.state));
        for verdict in of_class() {
            one.count += verdict.count;
            one.worst_ns = one.worst_ns.max(verdict.worst_ns);
            one.why.extend(verdict.why.iter().cloned());
            one.anomalies.extend(verdict.anomalies.iter().cloned());
            one.proof = one.proof.take().or_else(|| verdict.proof.clone());
        }
    }
    joined
}

/// The worst of some states: violated, then unknown, then clean; clean where there is none.
pub fn worst(states: impl IntoIterator<Item = State>) -> State {
    let rank = |state: &State| match state {
        State::Clean => 0,
        State::Unknown => 1,
        State::Violated => 2,
    };
    states.into_iter().max_by_key(rank).unwrap_or(State::Clean)
}
