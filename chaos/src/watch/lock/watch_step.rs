//! Decides who has a lock: attempts, grants and ends of leases, one at a time.

use hashbrown::HashMap;
use results::history::Line;
use results::watch::Certainty;

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{
    AcquireAttempt, AttemptOutcome, HoldChange, HoldOrigin, LockAct, LockOwner, LockState, NotedEvent,
    RefusedWaiter, SeenFinding, ServerHold, WatchOptions, count,
};
use crate::watch::recognition::patterns::{LockPattern, Patterns, sounds_like_a_lock};
use crate::watch::recognition::recipe_table::{Recipe, SCRIPT_SET};
use crate::watch::recognition::units::{ClientNames, hash};

/// A server ends a lease at a whole millisecond, and stamps a line after its command. An attempt this close
/// to the end of a lease may have come before or after that end.
pub(crate) const END_DOUBT_US: u64 = 2_000;

/// So long after the end of a lease an attempt is taken for granted, though a server that stood still longer
/// may have refused it before that end.
const REFUSED_LATE_MAX_US: u64 = 40_000;

/// How late a grant may be stamped of which it is not certain that it was one: it is held against nobody.
const UNKNOWN_US: u64 = u64::MAX / 4;

/// A key that is read has been read by then.
const READ_PATIENCE_US: u64 = 1_000_000;

/// Ending of a hold that the server promised for longer.
pub(crate) const LOST_BY_SERVER: &str = "the server had lost it";

/// What is written down of locks: for the report, and for the checkers.
#[derive(Debug, Default)]
pub(crate) struct WatchRecords {
    /// When the watch began: times of the history are counted from here.
    pub(crate) first_us: u64,
    pub(crate) patterns: Patterns,
    pub(crate) findings: Vec<SeenFinding>,
    pub(crate) history: Vec<Line>,
    /// There was more than is kept.
    pub(crate) history_is_cut: bool,
}

/// One thing that happens to one lock.
pub(crate) struct WatchStep<'a> {
    pub(crate) options: WatchOptions,
    pub(crate) lock: &'a mut LockState,
    pub(crate) records: &'a mut WatchRecords,
    pub(crate) holds: &'a mut u64,
    pub(crate) watched_from_us: u64,
    pub(crate) clients: &'a ClientNames,
    pub(crate) values: &'a HashMap<u64, String>,
    pub(crate) time_us: u64,
    /// How much earlier it may be by the server's clock.
    pub(crate) late_us: u64,
    pub(crate) remembered_max: usize,
    /// The key of a lock that appears now is read.
    pub(crate) may_read: bool,
    /// What a member of a set of independent masters did in this step.
    pub(crate) votes: Vec<LockAct>,
}

impl WatchStep<'_> {
    pub(crate) fn doubt_us(&self) -> u64 {
        END_DOUBT_US + self.options.time_doubt_us
    }

    pub(crate) fn pattern(&mut self) -> &mut LockPattern {
        self.records.patterns.of(self.lock.pattern)
    }

    /// Ends the holds and drops the candidates whose leases are over by now.
    pub(crate) fn advance(&mut self) {
        let doubt_us = self.doubt_us();
        let is_over =
            |until_us: Option<u64>| until_us.is_some_and(|until_us| until_us + doubt_us < self.time_us);
        let ended: Vec<_> = self.lock.holds.extract_if(.., |hold| is_over(hold.until_us)).collect();
        ended.into_iter().for_each(|hold| self.lapse(hold));
        if let Some((hold, _)) = &self.lock.broken_promise
            && hold.may_be_over(self.time_us.saturating_sub(1))
        {
            self.lock.broken_promise = None;
        }
        // All candidates' leases are over: none of them holds the lock any more.
        let ends = self.lock.candidates.iter().map(|one| one.until_us.unwrap_or(u64::MAX / 2));
        if let Some(last_us) = ends.max()
            && last_us + doubt_us < self.time_us
        {
            self.lock.mark_free(last_us + doubt_us);
            self.lock.candidates.clear();
        }
    }

    pub(crate) fn lapse(&mut self, mut hold: ServerHold) {
        hold.is_lapsed = true;
        self.votes.push(LockAct::Lapse(hold.attempt.owner));
        let until_us = hold.until_us.unwrap_or(self.time_us);
        self.lock.free_from_us = self.lock.free_from_us.max(until_us + self.doubt_us());
        let (owner, words) = (hold.attempt.owner, "the lease of {owner} ends");
        self.lock.note(NotedEvent { time_us: until_us, words, owner, ..NotedEvent::default() });
        if hold.is_counted() {
            let pattern = self.pattern();
            pattern.counts.expired += 1;
            pattern.held(until_us.saturating_sub(hold.attempt.time_us), None);
        }
        self.lock.remember_lapsed(hold, self.remembered_max);
    }

    pub(crate) fn act(&mut self, act: LockAct) {
        match act {
            LockAct::Attempt(attempt, outcome) => self.attempt(attempt, outcome),
            // It begins unseen, unless somebody is known to have it.
            LockAct::Adopt(_) if !self.lock.holds.is_empty() => {}
            LockAct::Adopt(attempt) => _ = self.adopt(attempt, HoldOrigin::Read, 1),
            LockAct::Renew(change, until_us) => self.renew(&change, until_us),
            LockAct::Release(change) => self.release(&change),
            // The hold of a whole set has the lease of its own.
            LockAct::Lapse(_) => {}
        }
    }

    fn attempt(&mut self, mut attempt: AcquireAttempt, outcome: AttemptOutcome) {
        let value = attempt.owner.value;
        if outcome == AttemptOutcome::ByKey && attempt.owner.client != 0 {
            self.pattern().try_value(value, attempt.owner.client);
            if let Some(is_unique) = self.pattern().names_owner(value) {
                attempt.owner.is_unique = is_unique;
                self.lock.owners().filter(|one| one.value == value).for_each(|one| one.is_unique = is_unique);
            }
        }
        if self.lock.forms.is_empty() && self.may_read {
            self.lock.read_due_us = self.time_us + READ_PATIENCE_US;
        }
        let name = hash(self.lock.name.as_bytes());
        self.pattern().attempt(attempt.recipe, attempt.owner.client, name);
        count(&mut self.lock.forms, attempt.recipe.key_form);
        self.look_for_two_recipes();
        match outcome {
            AttemptOutcome::Refused => return self.refused(attempt),
            AttemptOutcome::Granted => return self.granted_for_sure(attempt),
            AttemptOutcome::Overwritten => return self.overwritten(attempt, 0),
            AttemptOutcome::OverwrittenIfThere => return self.overwritten_if_there(attempt),
            AttemptOutcome::ByKey => {}
        }
        // An owner that asks again had not been granted.
        while !self.lock.holders_ask
            && let Some(place) = self.lock.candidate_of(&attempt.owner)
        {
            let before = self.lock.candidates.remove(place);
            if self.lock.is_known && self.lock.holds.is_empty() && before.time_us >= self.lock.free_from_us {
                self.lock.refused_when_free_us = before.time_us;
            }
            self.refused(before);
            self.settle();
        }
        let doubt_us = self.doubt_us();
        if let Some(hold) = self.lock.holds.first() {
            let may_be_over = hold.seems_over(self.time_us + doubt_us);
            let is_holders = hold.attempt.owner.is(&attempt.owner);
            self.lock.holders_ask |= is_holders && !may_be_over;
            match may_be_over && !is_holders {
                true => self.add_candidate(attempt),
                false => self.refused(attempt),
            }
            return;
        }
        if !self.lock.is_known && self.lock.read_due_us < self.time_us {
            let lease_us = attempt.lease_us().unwrap_or(u64::MAX);
            // A hold from before the watch has ended by now, if its lease was as long as this one.
            let watched_us = self.time_us.saturating_sub(self.watched_from_us);
            self.lock.is_known = watched_us > lease_us.saturating_add(doubt_us);
        }
        let is_free = self.lock.is_known && self.time_us >= self.lock.free_from_us;
        if is_free
            && self.time_us.saturating_sub(self.late_us.min(REFUSED_LATE_MAX_US)) < self.lock.free_from_us
        {
            // It may have come before the end of a lease after all.
            attempt.late_us = UNKNOWN_US;
        }
        match is_free && self.lock.candidates.is_empty() {
            true => self.grant(attempt),
            false => self.add_candidate(attempt),
        }
    }

    /// Finds locks that two key forms take, which make each other fail, or two libraries, which may.
    pub(crate) fn look_for_two_recipes(&mut self) {
        if self.lock.is_mixed || self.lock.libraries.len().max(self.lock.forms.len()) < 2 {
            return;
        }
        // A value may look like another library's by chance, so some share of the takes is asked for.
        let often = |ways: &[(&'static str, u64)]| -> Vec<&'static str> {
            let all: u64 = ways.iter().map(|(_, count)| count).sum();
            let is_often = |(name, count): &&(&str, u64)| !name.is_empty() && *count >= 3 && count * 5 >= all;
            ways.iter().filter(is_often).map(|(name, _)| *name).collect()
        };
        let (mut libraries, forms) = (often(&self.lock.libraries), often(&self.lock.forms));
        // Lock-core takes locks as Redisson does.
        let is_ours = libraries.contains(&"lock-core");
        libraries.retain(|library| !is_ours || *library != "Redisson");
        let is_sure = forms.len() > 1;
        let ways = if is_sure { forms } else { libraries };
        if ways.len() > 1 {
            self.lock.is_mixed = true;
            let line = format!("taken by {}", ways.join(" and "));
            self.found(FindingKind::TwoRecipes, 0, &line);
            let of_two = |one: &&mut SeenFinding| one.kind == FindingKind::TwoRecipes;
            let mut findings = self.records.findings.iter_mut().filter(of_two);
            match findings.find(|one| one.pattern == self.lock.pattern) {
                Some(one) if is_sure => one.found.certainty = Certainty::Sure,
                Some(one) if one.found.count == 1 => one.found.certainty = Certainty::Likely,
                _ => {}
            }
        }
    }

    pub(crate) fn add_candidate(&mut self, attempt: AcquireAttempt) {
        if self.lock.candidates.len() >= self.remembered_max {
            self.lock.candidates.remove(0);
        }
        self.lock.note_attempt(&attempt, "{subject} by {owner}{lease}: may have got it");
        self.lock.candidates.push(attempt);
    }

    /// Grants the first candidate if the lock was free for certain and all before it were refused, or if
    /// another was refused the free lock and only the first had asked before.
    pub(crate) fn settle(&mut self) {
        let asked_before = |one: &&AcquireAttempt| one.time_us < self.lock.refused_when_free_us;
        let is_first_alone = self.lock.candidates.iter().filter(asked_before).count() == 1;
        if let Some(first) = self.lock.candidates.first()
            && self.lock.is_known
            && self.lock.holds.is_empty()
            && (first.time_us >= self.lock.free_from_us || is_first_alone)
        {
            self.decide(0);
        }
    }

    /// Grants the candidate at this index, and refuses those before it, and after it until its lease is over.
    pub(crate) fn decide(&mut self, place: usize) {
        self.lock.is_known = true;
        let candidates = std::mem::take(&mut self.lock.candidates);
        let end_us = candidates.get(place).and_then(|one| one.until_us).unwrap_or(u64::MAX);
        for (index, one) in candidates.into_iter().enumerate() {
            match () {
                () if index == place => self.grant(one),
                () if one.time_us + self.doubt_us() >= end_us => self.lock.candidates.push(one),
                () => self.refused(one),
            }
        }
    }

    /// Who has the lock asked before all of them.
    pub(crate) fn refuse_candidates(&mut self) {
        self.decide(usize::MAX);
    }

    pub(crate) fn refused(&mut self, attempt: AcquireAttempt) {
        self.lock.is_known |= attempt.recipe.is_by_script;
        self.pattern().counts.refusals += 1;
        self.votes.push(LockAct::Attempt(attempt, AttemptOutcome::Refused));
        let mut waiters = self.lock.waiters.iter_mut();
        match waiters.find(|one| one.last.owner.is(&attempt.owner)) {
            Some(waiter) => waiter.last = attempt,
            None => {
                if self.lock.waiters.len() >= self.remembered_max {
                    self.lock.waiters.remove(0);
                }
                let kept = self.lock.waiters.len();
                self.lock.waiters.reserve_exact(if kept == 0 { 1 } else { self.remembered_max - kept });
                self.lock.waiters.push(RefusedWaiter { first_us: attempt.time_us, last: attempt });
                // What a script that wrote nothing asked for, nobody says.
                self.lock.note_attempt(&attempt, "{subject} by {owner}: refused");
            }
        }
    }

    pub(crate) fn granted_for_sure(&mut self, attempt: AcquireAttempt) {
        if let Some(place) = self.lock.candidate_of(&attempt.owner) {
            self.decide(place);
        }
        self.lock.is_known = true;
        self.lock.candidates.clear();
        if let Some(place) = self.lock.hold_of(&attempt.owner) {
            let hold = &mut self.lock.holds[place];
            hold.depth += 1;
            // A shorter lease leaves the key's end as it is.
            hold.until_us = attempt.until_us.or(hold.until_us);
            hold.late_us = hold.late_us.max(attempt.late_us);
            return;
        }
        self.make_room(&attempt);
        self.grant(attempt);
    }

    /// Ends the other holds of a lock that the server has granted, whether their ends were seen or not.
    fn make_room(&mut self, attempt: &AcquireAttempt) {
        if !self.lock.is_shared {
            for hold in std::mem::take(&mut self.lock.holds) {
                let is_over = hold.may_be_over(attempt.time_us + self.doubt_us());
                self.pattern().overwritten += u64::from(!is_over);
                // A script that looks writes over a mark of its own, as a writer has that waits for readers.
                let is_own = hold.attempt.owner.is_of(attempt.owner.client);
                match is_own && !is_over && attempt.recipe == SCRIPT_SET {
                    true => self.record_release(&hold),
                    false => self.end_unseen(hold, attempt.time_us),
                }
            }
        }
    }

    /// Ends a hold whose end was not seen: its lease ran out, or the server lost it.
    pub(crate) fn end_unseen(&mut self, hold: ServerHold, by_us: u64) {
        match hold.may_be_over(by_us + self.doubt_us()) {
            true => self.lapse(hold),
            false => self.break_promise(hold, FindingKind::LostByServer, LOST_BY_SERVER),
        }
    }

    /// A write that a free lock refuses: it tells of a holder, and takes nothing that is free.
    fn overwritten_if_there(&mut self, attempt: AcquireAttempt) {
        if self.lock.holds.is_empty() {
            let place = self.lock.candidate_of(&attempt.owner);
            let place = place.or_else(|| self.lock.candidate_of_client(attempt.owner.client));
            if let Some(place) = place.or((self.lock.candidates.len() == 1).then_some(0)) {
                self.decide(place);
            }
        }
        let Some(hold) = self.lock.holds.first() else { return };
        let is_own = |hold: &ServerHold| hold.attempt.owner.is(&attempt.owner);
        let says_end = attempt.owner.value_s > 0;
        let late = !says_end && self.lock.lapsed.iter().any(is_own);
        if !(late || is_own(hold) || says_end && hold.seems_over(attempt.time_us)) {
            return self.change_value(attempt);
        }
        self.overwritten(attempt, attempt.time_us + self.doubt_us());
    }

    /// The holder writes another value: a mark of how far it is, or of its end.
    fn change_value(&mut self, attempt: AcquireAttempt) {
        self.pattern().changed_values += 1;
        let Some(hold) = self.lock.holds.first_mut() else { return };
        (hold.until_us, hold.late_us) = (attempt.until_us, attempt.late_us);
        hold.doubtful_from_us = ServerHold::of(attempt, hold.origin).doubtful_from_us;
        hold.renewals += 1;
        let client = hold.attempt.owner.client;
        hold.attempt.owner = LockOwner { client, ..attempt.owner };
        self.lock.note_attempt(&attempt, "{subject} of another value, {owner},{lease}");
    }

    fn overwritten(&mut self, attempt: AcquireAttempt, by_us: u64) {
        let value = attempt.owner.value;
        let is_takers = |owner: LockOwner| owner.is_of(attempt.owner.client) && owner.value != value;
        let taker = self.lock.candidates.iter().rposition(|one| is_takers(one.owner));
        if let Some(place) = taker.filter(|_| self.lock.holds.is_empty() && !self.options.effects_only) {
            self.decide(place);
        }
        self.lock.is_known = true;
        self.lock.candidates.clear();
        let doubt_us = self.doubt_us();
        let own = self.lock.hold_of(&attempt.owner);
        if let Some(hold) = own.map(|own| &mut self.lock.holds[own])
            && hold.attempt.owner.value == value
        {
            hold.extend_by(by_us, attempt.until_us, attempt.late_us);
            hold.renewals += 1;
            let holder = hold.attempt.owner;
            let pattern = self.pattern();
            pattern.counts.renewals += 1;
            if holder.client != 0 {
                pattern.count_client(holder.is_of(attempt.owner.client), false);
            }
            return;
        }
        if let [hold] = &self.lock.holds[..]
            && hold.attempt.owner.is_of(attempt.owner.client)
            && !hold.may_be_over(attempt.time_us)
            && !self.options.effects_only
        {
            return self.change_value(attempt);
        }
        let mut lapsed = self.lock.lapsed.iter().map(|hold| &hold.attempt.owner);
        let was_lost = lapsed.any(|owner| owner.is(&attempt.owner) && owner.is_unique);
        for hold in std::mem::take(&mut self.lock.holds) {
            if hold.may_be_over(attempt.time_us + doubt_us) {
                self.lapse(hold);
                continue;
            }
            self.pattern().overwritten += 1;
            // Of effects alone, a record that is written anew looks like that.
            match self.options.effects_only && !sounds_like_a_lock(self.lock.name.as_bytes()) {
                true => self.record_release(&hold),
                false => self.lock.broken_promise = Some((hold, "its value was overwritten")),
            }
        }
        self.grant(attempt);
        if was_lost {
            self.found(FindingKind::Revived, 0, "");
        }
    }

    pub(crate) fn grant(&mut self, mut attempt: AcquireAttempt) {
        self.votes.push(LockAct::Attempt(attempt, AttemptOutcome::Granted));
        *self.holds += 1;
        let number = *self.holds;
        let lease_us = attempt.lease_us();
        self.lock.note_attempt(&attempt, "{subject} by {owner}{lease}: granted");
        let mut called_us = attempt.time_us;
        if let Some(place) = self.lock.waiters.iter().position(|one| one.last.owner.is(&attempt.owner)) {
            let waiter = self.lock.waiters.swap_remove(place);
            called_us = waiter.first_us.min(attempt.time_us);
            // A release may hand the lock to a waiter.
            if attempt.owner.client == 0 {
                attempt.owner.client = waiter.last.owner.client;
            }
        }
        let client = attempt.owner.client;
        if !attempt.recipe.is_by_script && client != 0 && self.lock.broken_promise.is_none() {
            self.pattern().grant_value(attempt.owner.value, client);
        }
        let waited_us = attempt.time_us.saturating_sub(called_us);
        self.pattern().grant(attempt.owner.client, lease_us, waited_us);
        if !self.lock.is_shared {
            self.record_grant(number, called_us, &attempt);
        }
        self.lock.holds.push(ServerHold { number, ..ServerHold::of(attempt, HoldOrigin::Granted) });
        if self.lock.broken_promise.is_none() {
            self.lock.broken_promise = self.promised_until_later(&attempt);
        }
        if let Some((before, how)) = self.lock.broken_promise
            && !self.lock.is_shared
            && !before.attempt.owner.is(&attempt.owner)
            && !before.may_be_over(attempt.time_us + self.doubt_us())
        {
            let owner = self.owner(&before.attempt.owner);
            let left_us = before.until_us.map(|us| us - attempt.time_us);
            let end = match left_us {
                Some(_) if self.options.has_no_times => format!("before the end of the lease of {owner}"),
                Some(us) => format!("{} ms before the end of the lease of {owner}", us / 1000),
                None => format!("though {owner} had it without an end"),
            };
            let line = format!("two holders: granted {end}; {how}");
            self.found(FindingKind::Overlap, left_us.unwrap_or(0), &line);
        }
    }

    /// A hold that is known only now, when it is given back: the present holder is not concerned.
    pub(crate) fn add_past_hold(&mut self, attempt: AcquireAttempt) {
        let now = (std::mem::take(&mut self.lock.holds), self.lock.broken_promise.take());
        self.grant(attempt);
        self.released(0, &HoldChange::by(attempt.owner));
        (self.lock.holds, self.lock.broken_promise) = now;
    }

    /// The hold that a server lost, found late: its lease is over now, and was not when another was granted.
    fn promised_until_later(&self, granted: &AcquireAttempt) -> Option<(ServerHold, &'static str)> {
        let ends_later = |hold: &&ServerHold| {
            let is_anothers = hold.is_lapsed && hold.is_promised() && !hold.attempt.owner.is(&granted.owner);
            let ends_later = !hold.may_be_over(granted.time_us + self.doubt_us());
            is_anothers && hold.attempt.time_us < granted.time_us && ends_later
        };
        let hold = self.lock.lapsed.iter().rev().find(ends_later)?;
        Some((*hold, LOST_BY_SERVER))
    }

    /// Notes that a hold ended before the lease that the server had promised.
    pub(crate) fn break_promise(&mut self, hold: ServerHold, kind: FindingKind, how: &'static str) {
        self.pattern().counts.deleted_by_another += u64::from(kind == FindingKind::ReleasedByAnother);
        // Of effects alone nobody knows whether its holder has given it back since.
        self.lock.broken_promise = (!self.options.effects_only).then_some((hold, how));
        let left_us = hold.until_us.map_or(0, |until_us| until_us.saturating_sub(self.time_us));
        self.found(kind, left_us, "");
    }

    /// Grants the lock to an owner that did what only a holder can do, whatever was inferred before.
    pub(crate) fn prove(&mut self, owner: &LockOwner) -> Option<usize> {
        if let Some(place) = self.lock.hold_of(owner) {
            self.lock.candidates.clear();
            return Some(place);
        }
        if let Some(place) = self.lock.candidate_of(owner) {
            let attempt = self.lock.candidates[place];
            self.make_room(&attempt);
            self.decide(place);
            return self.lock.hold_of(owner);
        }
        // By several connections: the last, which is held against fewer. A script that wrote nothing was
        // refused for certain.
        let is_own = |one: &&RefusedWaiter| one.last.owner.is(owner) && !one.last.recipe.is_by_script;
        let own = self.lock.waiters.iter().filter(is_own);
        let attempt = own.max_by_key(|one| one.last.time_us)?.last;
        let refusals = &mut self.pattern().counts.refusals;
        *refusals = refusals.saturating_sub(1);
        self.make_room(&attempt);
        self.lock.candidates.clear();
        self.grant(attempt);
        self.lock.hold_of(owner)
    }

    /// Adds a hold that began before the watch.
    pub(crate) fn adopt(&mut self, attempt: AcquireAttempt, origin: HoldOrigin, depth: u32) -> usize {
        self.refuse_candidates();
        if origin == HoldOrigin::Read {
            self.lock.note_attempt(&attempt, "{owner} has had it since before the watch,{lease}");
            self.votes.push(LockAct::Adopt(attempt));
        }
        self.lock.holds.push(ServerHold { depth, ..ServerHold::of(attempt, origin) });
        self.lock.holds.len() - 1
    }

    /// What the server says of the key at this place: who has the lock, how often, or that nobody has.
    pub(crate) fn see_key(&mut self, recipe: &'static Recipe, left_ms: i64, holder: Option<&(Vec<u8>, u32)>) {
        self.lock.read_due_us = 0;
        if !self.lock.holds.is_empty() || self.lock.is_shared {
            // The traffic has shown more.
            return;
        }
        let doubt_us = self.doubt_us();
        let Some((value, depth)) = holder else {
            let by_us = self.time_us + doubt_us;
            for one in std::mem::take(&mut self.lock.candidates) {
                if one.until_us.is_none_or(|end_us| end_us > by_us) {
                    self.refused(one);
                }
            }
            return self.lock.mark_free(self.time_us);
        };
        let left_us = u64::try_from(left_ms).ok().map(|ms| ms * 1_000);
        let until_us = left_us.map(|left_us| self.time_us.saturating_add(left_us));
        let owner = LockOwner::of(value, 0);
        let attempt =
            AcquireAttempt { recipe, owner, time_us: self.time_us, late_us: self.late_us, until_us };
        // Values that are no names of owners are told apart by their ends.
        let ends_alike = |one: &AcquireAttempt| match (one.until_us, attempt.until_us) {
            (Some(one), Some(other)) => one.abs_diff(other) <= doubt_us,
            (one, other) => one == other,
        };
        let is_same = |one: &AcquireAttempt| {
            let is_unique = one.owner.is_unique || attempt.owner.is_unique;
            one.owner.value == attempt.owner.value && (is_unique || ends_alike(one))
        };
        let same = self.lock.candidates.iter().filter(|one| is_same(one)).count();
        match self.lock.candidates.iter().rposition(is_same) {
            Some(place) if same == 1 => self.decide(place),
            Some(_) => {}
            None => _ = self.adopt(attempt, HoldOrigin::Read, *depth),
        }
    }

    /// The key is in another database from now on, and its holders are not.
    pub(crate) fn swap_away(&mut self) {
        self.lock.holds.iter_mut().for_each(|hold| hold.is_away = !hold.is_away);
        for hold in self.lock.holds.clone().into_iter().filter(|hold| hold.is_away) {
            let how = "its database was swapped away";
            self.note(0, how, "{subject} while {owner} held it", hold.attempt.owner);
            self.break_promise(hold, FindingKind::LostByServer, how);
        }
    }

    /// Ends holds of which nothing more can be known, as releases in the history: nobody is accused.
    pub(crate) fn lose_sight_of(&mut self, is_lost: impl Fn(&ServerHold) -> bool) {
        let lost: Vec<_> = self.lock.holds.extract_if(.., |hold| is_lost(hold)).collect();
        lost.iter().for_each(|hold| self.record_release(hold));
    }

    /// Counts what is still held at the end of the watch.
    pub(crate) fn end(&mut self) {
        for hold in std::mem::take(&mut self.lock.holds) {
            let held_us = self.time_us.saturating_sub(hold.attempt.time_us);
            if hold.is_counted() {
                let pattern = self.pattern();
                pattern.counts.still_held += 1;
                pattern.longest_open_us = pattern.longest_open_us.max(held_us);
            }
            if hold.never_ends() && held_us > 1_000_000 && !self.lock.is_shared {
                self.found(FindingKind::NoExpiry, held_us, "");
            }
        }
    }
}
