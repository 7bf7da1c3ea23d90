//! Writes down what happens to a lock: the lines that findings show, the findings, their pictures, and the
//! history for the checkers.

use results::history::{Acquire, Call, End, Entry, Line};
use results::timeline::{HoldBar, Span, TimelineData};
use results::watch::WatchFinding;

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{
    AcquireAttempt, FindingCondition, LockOwner, NotedEvent, SeenFinding, ServerHold,
};
use crate::watch::lock::watch_step::WatchStep;

/// Lines of a history that are kept.
const HISTORY_MAX: usize = 40_000;

impl WatchStep<'_> {
    pub(crate) fn owner(&self, owner: &LockOwner) -> String {
        if let Some(value) = self.values.get(&owner.value) {
            return value.clone();
        }
        match owner.is_unique || owner.client == 0 {
            true => format!("#{:08x}", owner.value as u32),
            false => self.clients.name(owner.client).to_owned(),
        }
    }

    pub(crate) fn note(&mut self, client: u32, subject: &'static str, words: &'static str, owner: LockOwner) {
        let time_us = self.time_us;
        self.lock.note(NotedEvent { time_us, client, words, owner, until_us: None, subject });
    }

    fn line(&self, event: &NotedEvent) -> String {
        let has_no_times = self.options.has_no_times;
        let (day_s, micros) = (event.time_us / 1_000_000 % 86_400, event.time_us % 1_000_000);
        let (hours, minutes, seconds) = (day_s / 3600, day_s / 60 % 60, day_s % 60);
        let time = match has_no_times {
            true => format!("line {}", event.time_us),
            false => format!("{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"),
        };
        let client = if event.client == 0 { "server" } else { self.clients.name(event.client) };
        let lease = match event.until_us {
            None => " without an end".to_owned(),
            Some(_) if has_no_times => String::new(),
            Some(until_us) => format!(" for {} ms", until_us.saturating_sub(event.time_us) / 1000),
        };
        let words = event.words.replace("{subject}", event.subject);
        let words = words.replace("{lease}", &lease).replace("{owner}", &self.owner(&event.owner));
        format!("{time} {client} {words}")
    }

    /// A finding with a last line of its own, by the server, or without: "".
    pub(crate) fn found(&mut self, kind: FindingKind, worst_us: u64, last: &str) {
        let is_of_promise = [FindingKind::Overlap, FindingKind::ReleasedByAnother].contains(&kind);
        let now = self.lock.holds.last().map(|hold| hold.attempt.owner.value);
        let before = self.lock.broken_promise.filter(|_| is_of_promise).map(|(before, _)| before);
        let is_same = before.is_some_and(|before| now == Some(before.attempt.owner.value));
        let condition = match before.map_or(FindingCondition::None, |before| before.deleted_if) {
            FindingCondition::None if is_same => FindingCondition::Connections,
            condition => condition,
        };
        self.found_if(kind, worst_us, last, condition);
    }

    pub(crate) fn found_if(
        &mut self,
        kind: FindingKind,
        worst_us: u64,
        last: &str,
        condition: FindingCondition,
    ) {
        let same = |one: &&mut SeenFinding| {
            one.condition == condition && one.kind == kind && one.pattern == self.lock.pattern
        };
        match self.records.findings.iter_mut().find(same) {
            Some(finding) => {
                finding.found.count += 1;
                finding.worst_us = finding.worst_us.max(worst_us);
            }
            None => {
                let mut first: Vec<_> = self.lock.events.iter().map(|event| self.line(event)).collect();
                if !last.is_empty() {
                    let now = NotedEvent { time_us: self.time_us, ..NotedEvent::default() };
                    first.push(self.line(&now) + last);
                }
                let (lock, picture) = (self.lock.name.to_string(), self.picture(kind));
                let found = WatchFinding { lock, count: 1, first, picture, ..kind.finding() };
                let pattern = self.lock.pattern;
                self.records.findings.push(SeenFinding { kind, pattern, worst_us, found, condition });
            }
        }
    }

    /// The two holds of an overlap.
    pub(crate) fn picture(&self, kind: FindingKind) -> Option<TimelineData> {
        let (before, _) = self.lock.broken_promise.filter(|_| kind == FindingKind::Overlap)?;
        let after = self.lock.holds.last()?;
        let ns = |us| self.history_ns(us);
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
        let last_ns = ends.iter().flatten().max().map_or(from_ns + 1_000_000_000, |us| ns(*us));
        let overlap = Span { from_ns, to_ns: ends.iter().flatten().min().map_or(last_ns, |us| ns(*us)) };
        Some(TimelineData {
            lock: self.lock.name.to_string(),
            class: "contract".to_owned(),
            from_ns: ns(before.attempt.time_us),
            to_ns: last_ns,
            holds: vec![bar(&before, before.until_us), bar(after, after.until_us)],
            overlaps: vec![overlap],
            ..TimelineData::default()
        })
    }

    /// A time as histories and pictures have it.
    pub(crate) fn history_ns(&self, time_us: u64) -> u64 {
        time_us.saturating_sub(self.records.first_us).saturating_mul(1_000)
    }

    /// The same, behind what has the same stamp: the server ran one after the other.
    fn next_ns(&mut self, time_us: u64) -> u64 {
        let (t_ns, last_ns) = (self.history_ns(time_us), self.lock.recorded_ns);
        self.lock.recorded_ns = if last_ns / 1_000 == t_ns / 1_000 { last_ns + 1 } else { t_ns };
        self.lock.recorded_ns
    }

    pub(crate) fn record(&mut self, t_ns: u64, entry: Entry) {
        match self.records.history.len() < HISTORY_MAX {
            true => self.records.history.push(Line { t_ns, entry }),
            false => self.records.history_is_cut = true,
        }
    }

    /// A grant with this number, which was called at that time.
    pub(crate) fn record_grant(&mut self, number: u64, called_us: u64, attempt: &AcquireAttempt) {
        let asked = Call::Acquire(Acquire {
            client: self.clients.name(attempt.owner.client).to_owned(),
            owner: self.owner(&attempt.owner),
            lock: Some(self.lock.name.to_string()),
            kind: "plain".to_owned(),
            lease_ms: attempt.lease_us().map(|us| us / 1000),
            ..Acquire::default()
        });
        let granted_ns = self.next_ns(attempt.time_us);
        let called_ns = if called_us < attempt.time_us { self.history_ns(called_us) } else { granted_ns };
        self.record(called_ns, Entry::Call { id: number * 4, call: asked });
        let (grant, sent_ns) = (Some(grant_name(number)), Some(granted_ns));
        let end = End::Ok { grant, token: None, sent_ns, returned_ns: None, lease_ms: None, at: None };
        self.record(granted_ns, Entry::End { id: number * 4, end });
    }

    pub(crate) fn record_release(&mut self, hold: &ServerHold) {
        if hold.number > 0 && !self.lock.is_shared {
            let grant = grant_name(hold.number);
            self.record_done(hold.number * 4 + 2, Call::Release { grant });
        }
    }

    /// A call that was done at once.
    pub(crate) fn record_done(&mut self, id: u64, call: Call) {
        let now_ns = self.next_ns(self.time_us);
        self.record(now_ns, Entry::Call { id, call });
        let end = End::done();
        self.record(now_ns, Entry::End { id, end });
    }
}

pub(crate) fn grant_name(number: u64) -> String {
    format!("g{number}")
}
