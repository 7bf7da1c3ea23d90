//! Writes down what happens to a lock: the lines that findings show, the findings, their pictures, and the history for the checkers.

use results::history::{Call, End, Entry, Line};
use results::timeline::{HoldBar, Span, TimelineData};
use results::watch::Certainty;

use super::finding_kinds::FindingKind;
use super::lock_state::{LockOwner, LockState, SeenFinding, ServerHold};
use super::watch_step::{AS_CONNECTIONS_TELL, WatchStep, grant_name};

/// Lines of a history that are kept.
const HISTORY_MAX: usize = 40_000;
/// Lines that a finding may show.
const LINES_MAX: usize = 8;

impl WatchStep<'_> {
    pub(super) fn owner(&self, owner: &LockOwner) -> String {
        if let Some(value) = self.values.get(&owner.value) {
            return value.clone();
        }
        match owner.is_unique || owner.client == 0 {
            true => format!("#{:08x}", owner.value as u32),
            false => self.clients.name(owner.client).to_owned(),
        }
    }

    pub(super) fn note(&self, lock: &mut LockState, client: u32, what: String) {
        self.note_of(lock, self.time_us, client, &what);
    }

    pub(super) fn note_of(&self, lock: &mut LockState, time_us: u64, client: u32, what: &str) {
        if lock.lines.len() == LINES_MAX {
            lock.lines.pop_front();
        }
        let (day_s, micros) = (time_us / 1_000_000 % 86_400, time_us % 1_000_000);
        let (hours, minutes, seconds) = (day_s / 3600, day_s / 60 % 60, day_s % 60);
        let client = match client {
            0 => "server",
            client => self.clients.name(client),
        };
        lock.lines.push_back(format!(
            "{hours:02}:{minutes:02}:{seconds:02}.{micros:06} {client} {what}"
        ));
    }

    pub(super) fn found(
        &mut self,
        lock: &LockState,
        kind: FindingKind,
        certainty: Certainty,
        worst_us: u64,
    ) {
        let is_pending = kind == FindingKind::Overlap
            && lock
                .broken_promise
                .is_some_and(|(_, how)| how == AS_CONNECTIONS_TELL);
        let same = |one: &&mut SeenFinding| {
            one.is_pending == is_pending
                && one.kind == kind
                && one.pattern == lock.pattern
                && one.certainty == certainty
        };
        match self.findings.iter_mut().find(same) {
            Some(finding) => {
                finding.count += 1;
                finding.worst_us = finding.worst_us.max(worst_us);
            }
            None => self.findings.push(SeenFinding {
                kind,
                pattern: lock.pattern,
                certainty,
                lock: lock.name.to_string(),
                count: 1,
                worst_us,
                lines: lock.lines.iter().cloned().collect(),
                picture: self.picture(lock, kind),
                is_pending,
            }),
        }
    }

    /// The two holds of an overlap.
    pub(super) fn picture(&self, lock: &LockState, kind: FindingKind) -> Option<TimelineData> {
        let (before, _) = lock
            .broken_promise
            .filter(|_| kind == FindingKind::Overlap)?;
        let after = lock.holds.last()?;
        let ns = |us: u64| us.saturating_sub(self.first_us) * 1_000;
        let bar = |hold: &ServerHold, until_us: Option<u64>| HoldBar {
            client: self.clients.name(hold.attempt.owner.client).to_owned(),
            owner: self.owner(&hold.attempt.owner),
            grant: grant_name(hold.number),
            from_ns: ns(hold.attempt.time_us),
            to_ns: until_us.map(ns),
            ended_by: "lease".to_owned(),
        };
        let from_ns = ns(after.attempt.time_us);
        let ends = [before.until_us, after.until_us];
        let last_ns = ends
            .iter()
            .flatten()
            .max()
            .map_or(from_ns + 1_000_000_000, |us| ns(*us));
        let overlap = Span {
            from_ns,
            to_ns: ends.iter().flatten().min().map_or(last_ns, |us| ns(*us)),
        };
        Some(TimelineData {
            lock: lock.name.to_string(),
            class: "contract".to_owned(),
            from_ns: ns(before.attempt.time_us),
            to_ns: last_ns,
            holds: vec![bar(&before, before.until_us), bar(after, after.until_us)],
            overlaps: vec![overlap],
            ..TimelineData::default()
        })
    }

    pub(super) fn record(&mut self, time_us: u64, entry: Entry) {
        if self.history.len() >= HISTORY_MAX {
            *self.history_cut = true;
            return;
        }
        let t_ns = time_us.saturating_sub(self.first_us) * 1_000;
        self.history.push(Line { t_ns, entry });
    }

    /// A call that was done at once.
    pub(super) fn record_done(&mut self, id: u64, call: Call) {
        self.record(self.time_us, Entry::Call { id, call });
        let end = End::done();
        self.record(self.time_us, Entry::End { id, end });
    }
}
