//! Decides who has a lock, and when that changed: one thing that happens to it at a time.

use hashbrown::HashMap;
use results::history::{Acquire, Call, End, Entry, Line};
use results::watch::Certainty;

use super::finding_kinds::FindingKind;
use super::lock_state::{
    AcquireAttempt, AttemptOutcome, HoldChange, LockOwner, LockState, REMEMBERED_MAX,
    RefusedWaiter, SeenFinding, ServerHold, WatchOptions, count,
};
use super::patterns::Patterns;
use super::recipe_table::{RECIPES, Recipe};
use super::units::ClientNames;

/// A server ends a lease at a whole millisecond, and stamps a line when its command is over: an attempt this close to the end of a lease may have
/// come before it or after it.
const END_DOUBT_US: u64 = 2_000;

/// How a hold ended of which it is known at the end of the watch only whether connections tell holders apart.
pub(super) const AS_CONNECTIONS_TELL: &str = "another deleted its key, as connections tell";

/// One thing that happens to one lock.
pub(super) struct WatchStep<'a> {
    pub(super) options: WatchOptions,
    pub(super) patterns: &'a mut Patterns,
    pub(super) findings: &'a mut Vec<SeenFinding>,
    pub(super) history: &'a mut Vec<Line>,
    pub(super) history_cut: &'a mut bool,
    pub(super) holds: &'a mut u64,
    pub(super) first_us: u64,
    pub(super) watched_from_us: u64,
    pub(super) clock_doubt_us: u64,
    pub(super) clients: &'a ClientNames,
    pub(super) values: &'a HashMap<u64, String>,
    pub(super) time_us: u64,
}

impl WatchStep<'_> {
    pub(super) fn doubt_us(&self) -> u64 {
        END_DOUBT_US + self.clock_doubt_us + self.options.time_doubt_us
    }

    /// Ends what time has ended.
    pub(super) fn advance(&mut self, lock: &mut LockState) {
        let doubt_us = self.doubt_us();
        let over = |hold: &ServerHold| {
            hold.until_us
                .is_some_and(|until_us| until_us + doubt_us < self.time_us)
        };
        if lock.holds.iter().any(over) {
            let (ended, rest) = lock.holds.iter().partition(|hold| over(hold));
            lock.holds = rest;
            for hold in Vec::<ServerHold>::clone(&ended) {
                self.lapse(lock, hold);
            }
        }
        if let Some((hold, _)) = &lock.broken_promise
            && hold
                .until_us
                .is_some_and(|until_us| until_us < self.time_us)
        {
            lock.broken_promise = None;
        }
        // The lease of each of them is over: no holder has it any more.
        if !lock.candidates.is_empty()
            && lock.candidates.iter().all(|one| {
                one.until_us
                    .is_some_and(|end| end + doubt_us < self.time_us)
            })
        {
            let ends = lock.candidates.iter().filter_map(|one| one.until_us);
            lock.free_from_us = ends.max().unwrap_or(0) + doubt_us;
            self.patterns.of(lock.pattern).undecided += lock.candidates.len() as u64;
            lock.candidates.clear();
            lock.is_known = true;
        }
    }

    pub(super) fn lapse(&mut self, lock: &mut LockState, hold: ServerHold) {
        let until_us = hold.until_us.unwrap_or(self.time_us);
        lock.free_from_us = lock.free_from_us.max(until_us + self.doubt_us());
        self.note_of(
            lock,
            until_us,
            0,
            &format!("the lease of {} ends", self.owner(&hold.attempt.owner)),
        );
        if !hold.is_adopted {
            let pattern = self.patterns.of(lock.pattern);
            pattern.expired += 1;
            pattern.held(until_us - hold.attempt.time_us, None);
        }
        lock.remember_lapsed(hold);
    }

    pub(super) fn attempt(
        &mut self,
        lock: &mut LockState,
        attempt: AcquireAttempt,
        outcome: AttemptOutcome,
    ) {
        let pattern = self.patterns.of(lock.pattern);
        pattern.attempts += 1;
        pattern.add_recipe(attempt.recipe, attempt.owner.client);
        count(&mut lock.forms, attempt.recipe.key_form);
        self.look_for_two_recipes(lock);
        match outcome {
            AttemptOutcome::Refused => return self.refused(lock, attempt),
            AttemptOutcome::Granted => return self.granted_for_sure(lock, attempt),
            AttemptOutcome::Overwritten => return self.overwritten(lock, attempt),
            AttemptOutcome::ByKey => {}
        }
        // Who asks again had not been granted.
        let asked_before = lock
            .candidates
            .iter()
            .position(|one| one.owner.is(&attempt.owner));
        if let Some(place) = asked_before {
            let before = lock.candidates.remove(place);
            if lock.is_known && lock.holds.is_empty() && before.time_us >= lock.free_from_us {
                lock.refused_when_free_us = before.time_us;
            }
            self.refused(lock, before);
            self.settle(lock);
        }
        let doubt_us = self.doubt_us();
        if let Some(hold) = lock.holds.first() {
            let may_be_over = hold.may_be_over(self.time_us + doubt_us);
            match may_be_over && !hold.attempt.owner.is(&attempt.owner) {
                true => self.add_candidate(lock, attempt),
                false => self.refused(lock, attempt),
            }
            return;
        }
        if !lock.is_known {
            let lease_us = attempt
                .until_us
                .map_or(u64::MAX, |until_us| until_us - attempt.time_us);
            // A hold from before the watch has ended, if it had this lease.
            lock.is_known = self.time_us.saturating_sub(self.watched_from_us)
                > lease_us.saturating_add(doubt_us);
        }
        match lock.is_known && lock.candidates.is_empty() && self.time_us >= lock.free_from_us {
            true => self.grant(lock, attempt),
            false => self.add_candidate(lock, attempt),
        }
    }

    /// Two libraries, or two forms of one key, exclude each other by accident only.
    pub(super) fn look_for_two_recipes(&mut self, lock: &mut LockState) {
        if lock.is_mixed || lock.libraries.len().max(lock.forms.len()) < 2 {
            return;
        }
        // A value may look like another library's once.
        let often = |ways: &[(&'static str, u64)]| -> Vec<&'static str> {
            let often = ways.iter().filter(|(_, count)| *count >= 3);
            often.map(|(name, _)| *name).collect()
        };
        let (libraries, forms) = (often(&lock.libraries), often(&lock.forms));
        let ways = if forms.len() > 1 { forms } else { libraries };
        if ways.len() > 1 {
            lock.is_mixed = true;
            self.note(lock, 0, format!("taken by {}", ways.join(" and ")));
            self.found(lock, FindingKind::TwoRecipes, Certainty::Sure, 0);
        }
    }

    pub(super) fn add_candidate(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        if lock.candidates.len() == REMEMBERED_MAX {
            lock.candidates.remove(0);
        }
        let lease_ms = attempt
            .until_us
            .map(|until_us| (until_us - attempt.time_us) / 1000);
        self.note_attempt(lock, &attempt, lease_ms, "may have got it");
        lock.candidates.push(attempt);
    }

    /// The first candidate had it, if the lock was certainly free and all before it were refused, or if another was refused the free lock
    /// and only the first had asked before it.
    pub(super) fn settle(&mut self, lock: &mut LockState) {
        let asked_before = |one: &&AcquireAttempt| one.time_us < lock.refused_when_free_us;
        let is_first_alone = lock.candidates.iter().filter(asked_before).count() == 1;
        if let Some(first) = lock.candidates.first()
            && lock.is_known
            && lock.holds.is_empty()
            && (first.time_us >= lock.free_from_us || is_first_alone)
        {
            self.decide(lock, 0);
        }
    }

    /// The candidate at this place had it: those before it were refused, and those after it, too.
    pub(super) fn decide(&mut self, lock: &mut LockState, place: usize) {
        let all = std::mem::take(&mut lock.candidates);
        for (index, one) in all.into_iter().enumerate() {
            match index == place {
                true => self.grant(lock, one),
                false => self.refused(lock, one),
            }
        }
    }

    pub(super) fn note_attempt(
        &self,
        lock: &mut LockState,
        attempt: &AcquireAttempt,
        lease_ms: Option<u64>,
        outcome: &str,
    ) {
        let lease = lease_ms.map_or("without an end".to_owned(), |ms| format!("for {ms} ms"));
        let owner = self.owner(&attempt.owner);
        let name = attempt.recipe.name;
        self.note_of(
            lock,
            attempt.time_us,
            attempt.owner.client,
            &format!("{name} by {owner} {lease}: {outcome}"),
        );
    }

    pub(super) fn refused(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        lock.is_known |= attempt.recipe.is_by_script;
        let pattern = self.patterns.of(lock.pattern);
        pattern.refusals += 1;
        let waiter = lock
            .waiters
            .iter_mut()
            .find(|one| one.owner.is(&attempt.owner));
        match waiter {
            Some(waiter) => {
                waiter.tries += 1;
                waiter.last = attempt;
            }
            None => {
                if lock.waiters.len() == REMEMBERED_MAX {
                    lock.waiters.remove(0);
                }
                lock.waiters.push(RefusedWaiter {
                    owner: attempt.owner,
                    first_us: attempt.time_us,
                    last: attempt,
                    tries: 1,
                });
                self.note_attempt(lock, &attempt, None, "refused");
            }
        }
    }

    pub(super) fn granted_for_sure(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        lock.is_known = true;
        if let Some(place) = lock
            .candidates
            .iter()
            .rposition(|one| one.owner.is(&attempt.owner))
        {
            self.decide(lock, place);
        }
        lock.candidates.clear();
        if let Some(hold) = lock.hold_mut(&attempt.owner) {
            hold.depth += 1;
            hold.until_us = attempt.until_us;
            return;
        }
        self.make_room(lock, &attempt, "the server had lost it");
        self.grant(lock, attempt);
    }

    /// The server has granted it: what was held there is over, whether anybody saw its end or not.
    pub(super) fn make_room(
        &mut self,
        lock: &mut LockState,
        attempt: &AcquireAttempt,
        how: &'static str,
    ) {
        if lock.is_shared {
            return;
        }
        for hold in std::mem::take(&mut lock.holds) {
            self.end_unseen(lock, hold, attempt.time_us, how);
        }
    }

    /// A hold has ended unseen: with its lease, or by the server's fault.
    pub(super) fn end_unseen(
        &mut self,
        lock: &mut LockState,
        hold: ServerHold,
        by_us: u64,
        how: &'static str,
    ) {
        match hold.may_be_over(by_us + self.doubt_us()) {
            true => self.lapse(lock, hold),
            false => self.break_promise(lock, hold, FindingKind::LostByServer, how),
        }
    }

    pub(super) fn overwritten(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        lock.is_known = true;
        lock.candidates.clear();
        let doubt_us = self.doubt_us();
        if let Some(hold) = lock.hold_mut(&attempt.owner) {
            hold.until_us = attempt.until_us;
            hold.renewals += 1;
            self.patterns.of(lock.pattern).renewals += 1;
            return;
        }
        let was_lost = lock
            .lapsed
            .iter()
            .any(|hold| hold.attempt.owner.is(&attempt.owner) && hold.attempt.owner.is_unique);
        for hold in std::mem::take(&mut lock.holds) {
            match hold.may_be_over(attempt.time_us + doubt_us) {
                true => self.lapse(lock, hold),
                false => {
                    self.patterns.of(lock.pattern).overwritten += 1;
                    lock.broken_promise = Some((hold, "its value was overwritten"));
                }
            }
        }
        self.grant(lock, attempt);
        if was_lost {
            self.found(lock, FindingKind::Revived, Certainty::Sure, 0);
        }
    }

    pub(super) fn grant(&mut self, lock: &mut LockState, mut attempt: AcquireAttempt) {
        *self.holds += 1;
        let number = *self.holds;
        let lease_us = attempt
            .until_us
            .map(|until_us| until_us.saturating_sub(attempt.time_us));
        self.note_attempt(lock, &attempt, lease_us.map(|us| us / 1000), "granted");
        let mut called_us = attempt.time_us;
        if let Some(place) = lock
            .waiters
            .iter()
            .position(|one| one.owner.is(&attempt.owner))
        {
            let waiter = lock.waiters.swap_remove(place);
            called_us = waiter.first_us;
            // A release may hand the lock to somebody who waits: it is then sent by another.
            if attempt.recipe.is_by_script {
                attempt.owner.client = waiter.owner.client;
            }
        }
        let pattern = self.patterns.of(lock.pattern);
        pattern.grant(attempt.owner.client, lease_us, attempt.time_us - called_us);
        let hold = ServerHold {
            attempt,
            until_us: attempt.until_us,
            number,
            depth: 1,
            renewals: 0,
            is_adopted: false,
        };
        let asked = Call::Acquire(Acquire {
            client: self.clients.name(attempt.owner.client).to_owned(),
            owner: self.owner(&attempt.owner),
            lock: Some(lock.name.to_string()),
            kind: "plain".to_owned(),
            lease_ms: lease_us.map(|us| us / 1000),
            ..Acquire::default()
        });
        if !lock.is_shared {
            self.record(
                called_us,
                Entry::Call {
                    id: number * 4,
                    call: asked,
                },
            );
            let granted = End::Ok {
                grant: Some(grant_name(number)),
                token: None,
                sent_ns: None,
                returned_ns: None,
                lease_ms: None,
            };
            self.record(
                attempt.time_us,
                Entry::End {
                    id: number * 4,
                    end: granted,
                },
            );
        }
        lock.holds.push(hold);
        if let Some((before, how)) = lock.broken_promise
            && !lock.is_shared
            && !before.attempt.owner.is(&attempt.owner)
        {
            let end_us = before.until_us.unwrap_or(u64::MAX);
            let doubt_us = self.doubt_us();
            if end_us > attempt.time_us + doubt_us {
                let end = match before.until_us {
                    Some(end_us) => format!(
                        "{} ms before the end of the lease of {}",
                        (end_us - attempt.time_us) / 1000,
                        self.owner(&before.attempt.owner)
                    ),
                    None => format!(
                        "though {} had it without an end",
                        self.owner(&before.attempt.owner)
                    ),
                };
                self.note(lock, 0, format!("two holders: granted {end}; {how}"));
                let length_us = before.until_us.map_or(0, |end_us| end_us - attempt.time_us);
                self.found(lock, FindingKind::Overlap, Certainty::Violated, length_us);
                if how == AS_CONNECTIONS_TELL {
                    lock.lines.pop_back();
                }
            }
        }
    }

    /// A hold is over before the end that the server had promised.
    pub(super) fn break_promise(
        &mut self,
        lock: &mut LockState,
        hold: ServerHold,
        kind: FindingKind,
        how: &'static str,
    ) {
        let pattern = self.patterns.of(lock.pattern);
        pattern.deleted_by_another += u64::from(kind == FindingKind::ReleasedByAnother);
        let left_us = hold
            .until_us
            .map_or(0, |until_us| until_us.saturating_sub(self.time_us));
        self.found(lock, kind, Certainty::Sure, left_us);
        lock.broken_promise = Some((hold, how));
    }

    /// An owner did what only a holder can do: it had the lock, whatever was thought before.
    pub(super) fn prove(&mut self, lock: &mut LockState, owner: &LockOwner) -> Option<usize> {
        let held = |lock: &LockState| lock.hold_of(owner);
        if let Some(place) = held(lock) {
            lock.candidates.clear();
            return Some(place);
        }
        if let Some(place) = lock.candidates.iter().rposition(|one| one.owner.is(owner)) {
            let attempt = lock.candidates[place];
            self.make_room(lock, &attempt, "the server had lost it");
            lock.is_known = true;
            self.decide(lock, place);
            return held(lock);
        }
        if let Some(waiter) = lock.waiters.iter().find(|one| one.owner.is(owner)) {
            let attempt = waiter.last;
            let pattern = self.patterns.of(lock.pattern);
            pattern.refusals = pattern.refusals.saturating_sub(1);
            self.make_room(lock, &attempt, "the server had lost it");
            lock.candidates.clear();
            self.grant(lock, attempt);
            return held(lock);
        }
        None
    }

    /// Somebody had it from before the watch.
    pub(super) fn adopt(
        &mut self,
        lock: &mut LockState,
        owner: LockOwner,
        until_us: Option<u64>,
        recipe: &'static Recipe,
    ) -> usize {
        lock.is_known = true;
        let attempt = AcquireAttempt {
            recipe,
            owner,
            time_us: self.time_us,
            until_us,
        };
        for one in std::mem::take(&mut lock.candidates) {
            self.refused(lock, one);
        }
        lock.holds.push(ServerHold {
            attempt,
            until_us,
            number: 0,
            depth: 1,
            renewals: 0,
            is_adopted: true,
        });
        lock.holds.len() - 1
    }

    /// A renewal or release that found nothing of its owner's.
    pub(super) fn came_too_late(
        &mut self,
        lock: &mut LockState,
        owner: &LockOwner,
        what: &str,
        client: u32,
    ) {
        if let Some(place) = lock.hold_of(owner) {
            let hold = lock.holds.remove(place);
            self.note(
                lock,
                client,
                format!("{what} by {}: it is not there", self.owner(owner)),
            );
            match hold.is_adopted {
                true => self.lapse(lock, hold),
                false => self.end_unseen(lock, hold, self.time_us, "the server had lost it"),
            }
            return;
        }
        if let Some((before, _)) = &lock.broken_promise
            && before.attempt.owner.is(owner)
        {
            self.note(
                lock,
                client,
                format!("{what} by {}, who thinks to have it", self.owner(owner)),
            );
            return;
        }
        let Some(place) = lock
            .lapsed
            .iter()
            .rposition(|hold| hold.attempt.owner.is(owner))
        else {
            return;
        };
        let hold = lock.lapsed[place];
        let end_us = hold.until_us.unwrap_or(self.time_us);
        let others = lock.holds.iter().chain(&lock.lapsed);
        let granted_since = others
            .filter(|other| other.attempt.time_us >= end_us && !other.attempt.owner.is(owner))
            .count();
        if granted_since > 0 {
            self.note(
                lock,
                client,
                format!("{what} by {}, whose lease has ended", self.owner(owner)),
            );
            let late_us = self.time_us.saturating_sub(end_us);
            self.found(
                lock,
                FindingKind::OutlivedItsLease,
                Certainty::Likely,
                late_us,
            );
            lock.lapsed.remove(place);
        }
    }

    pub(super) fn renew(
        &mut self,
        lock: &mut LockState,
        change: &HoldChange,
        until_us: Option<u64>,
    ) {
        if let Some(owner) = &change.owner {
            if change.was_done == Some(false) {
                return self.came_too_late(lock, owner, "renewal", change.client);
            }
            let place = self.prove(lock, owner);
            let place = place.or_else(|| {
                (!lock.is_known || lock.holds.is_empty() && change.is_checked)
                    .then(|| self.adopt(lock, *owner, until_us, &RECIPES[0]))
            });
            return match place {
                Some(place) => self.renewed(lock, place, until_us),
                // A script that names its own value and renews somebody else's.
                None if !lock.holds.is_empty() && !change.is_checked => {
                    self.extended_by_another(lock, change, until_us)
                }
                None => {}
            };
        }
        let by_client = |lock: &LockState| {
            lock.holds
                .iter()
                .position(|hold| hold.attempt.owner.client == change.client)
        };
        if lock.holds.is_empty() && !lock.candidates.is_empty() {
            let place = lock
                .candidates
                .iter()
                .rposition(|one| one.owner.client == change.client);
            if let Some(place) = place.filter(|_| lock.is_known || until_us.is_some()) {
                // A lease for the taker's own key: it would not be sent by one that was refused.
                self.decide(lock, place);
                lock.is_known = true;
            }
        }
        let Some(hold) = lock.holds.first() else {
            return;
        };
        let (place, is_foreign) = match by_client(lock) {
            Some(place) => (place, false),
            None => {
                let late = lock
                    .lapsed
                    .iter()
                    .any(|hold| hold.attempt.owner.client == change.client);
                let waits = lock
                    .waiters
                    .iter()
                    .any(|one| one.owner.client == change.client);
                (
                    0,
                    (late || waits)
                        && self.patterns.of(lock.pattern).is_stable()
                        && hold.attempt.owner.client != 0,
                )
            }
        };
        match is_foreign {
            true => self.extended_by_another(lock, change, until_us),
            false => self.renewed(lock, place, until_us),
        }
    }

    pub(super) fn extended_by_another(
        &mut self,
        lock: &mut LockState,
        change: &HoldChange,
        until_us: Option<u64>,
    ) {
        lock.holds[0].until_us = until_us;
        self.note(lock, change.client, "renews the lock of another".to_owned());
        self.found(lock, FindingKind::ExtendedByAnother, Certainty::Sure, 0);
    }

    pub(super) fn renewed(&mut self, lock: &mut LockState, place: usize, until_us: Option<u64>) {
        let hold = &mut lock.holds[place];
        let sets_first_end =
            hold.attempt.until_us.is_none() && hold.renewals == 0 && hold.until_us.is_none();
        hold.until_us = until_us;
        let (hold, owner) = (*hold, self.owner(&hold.attempt.owner));
        let lease_ms = until_us.map_or(0, |until_us| until_us.saturating_sub(self.time_us) / 1000);
        self.note(
            lock,
            hold.attempt.owner.client,
            format!("renewal by {owner} for {lease_ms} ms"),
        );
        if sets_first_end && until_us.is_some() && !hold.is_adopted {
            let gap_us = self.time_us - hold.attempt.time_us;
            lock.holds[place].attempt.until_us = until_us;
            self.patterns
                .of(lock.pattern)
                .lease(until_us.map(|end| end.saturating_sub(self.time_us)));
            if !self.options.effects_only {
                self.found(lock, FindingKind::ExpirySetLater, Certainty::Sure, gap_us);
            }
            return;
        }
        lock.holds[place].renewals += 1;
        self.patterns.of(lock.pattern).renewals += 1;
        if hold.number > 0 && !lock.is_shared {
            let id = hold.number * 4 + 1 + (u64::from(hold.renewals) << 40);
            let call = Call::Extend {
                grant: grant_name(hold.number),
                lease_ms,
                by: None,
            };
            self.record_done(id, call);
        }
    }

    pub(super) fn release(&mut self, lock: &mut LockState, change: &HoldChange) {
        if let Some(owner) = &change.owner {
            if change.was_done == Some(false) {
                return self.came_too_late(lock, owner, "release", change.client);
            }
            let place = self.prove(lock, owner);
            return match place {
                Some(place) if change.one_level && lock.holds[place].depth > 1 => {
                    lock.holds[place].depth -= 1
                }
                Some(place) => self.released(lock, place, change),
                None => {
                    if !lock.is_known {
                        for one in std::mem::take(&mut lock.candidates) {
                            self.refused(lock, one);
                        }
                        lock.is_known = true;
                        lock.free_from_us = self.time_us;
                    } else if !change.is_checked && !lock.holds.is_empty() {
                        self.released_by_another(lock, change, Some(owner));
                    }
                }
            };
        }
        if lock.holds.is_empty() {
            let place = lock
                .candidates
                .iter()
                .rposition(|one| one.owner.client == change.client && change.client != 0);
            match place {
                Some(place) => {
                    lock.is_known = true;
                    self.decide(lock, place);
                }
                None => {
                    // A script that deletes has found a value, and it is none of theirs.
                    for one in std::mem::take(&mut lock.candidates) {
                        match change.is_checked {
                            true => self.refused(lock, one),
                            false => self.patterns.of(lock.pattern).undecided += 1,
                        }
                    }
                    lock.is_known = true;
                    lock.free_from_us = lock.free_from_us.min(self.time_us);
                    return;
                }
            }
        }
        let Some(hold) = lock.holds.first().copied() else {
            return;
        };
        // A replica gets a DEL for a key whose lease is over.
        let doubt_us = self.doubt_us();
        if self.options.effects_only {
            let is_over = hold.may_be_over(self.time_us + doubt_us);
            match is_over {
                true => {
                    lock.holds.remove(0);
                    self.lapse(lock, hold);
                    lock.free_from_us = self.time_us;
                }
                false => self.released(lock, 0, change),
            }
            return;
        }
        let same_client = hold.attempt.owner.client == change.client && change.client != 0;
        let pattern = self.patterns.of(lock.pattern);
        let compares = pattern.checked_releases > 0 && pattern.plain_releases == 0;
        let late = lock
            .lapsed
            .iter()
            .rposition(|one| one.attempt.owner.client == change.client);
        let late = late.filter(|_| !same_client && !change.is_checked);
        let is_foreign = !same_client
            && !change.is_checked
            && (compares || late.is_some() && pattern.is_stable());
        match late {
            _ if is_foreign => self.released_by_another(lock, change, None),
            // The release of a hold that has ended, or the holder's by a connection of a pool: both may come with a release yet.
            Some(place) => {
                lock.lapsed.remove(place);
                self.released(lock, 0, change);
                lock.remember_lapsed(hold);
                lock.broken_promise = Some((hold, AS_CONNECTIONS_TELL));
            }
            None => {
                let asked = lock.waiters.iter().map(|one| one.owner.client);
                let candidates = lock.candidates.iter().map(|one| one.owner.client);
                let had_asked = asked.chain(candidates).any(|one| one == change.client);
                pattern.count_release_client(same_client, had_asked);
                self.released(lock, 0, change);
            }
        }
    }

    pub(super) fn released_by_another(
        &mut self,
        lock: &mut LockState,
        change: &HoldChange,
        by: Option<&LockOwner>,
    ) {
        let hold = lock.holds.remove(0);
        let by = by.map_or(String::new(), |owner| format!(" by {}", self.owner(owner)));
        let words = format!(
            "deletes it{by} while {} holds it",
            self.owner(&hold.attempt.owner)
        );
        self.note(lock, change.client, words);
        lock.free_from_us = self.time_us;
        if !hold.is_adopted {
            self.patterns
                .of(lock.pattern)
                .held(self.time_us - hold.attempt.time_us, None);
        }
        let late = lock
            .lapsed
            .iter()
            .rposition(|one| one.attempt.owner.client == change.client);
        if let Some(place) = late {
            lock.lapsed.remove(place);
        }
        // Its own release comes yet, and is none by a connection of a pool.
        lock.remember_lapsed(hold);
        self.break_promise(
            lock,
            hold,
            FindingKind::ReleasedByAnother,
            "another deleted its key",
        );
    }

    pub(super) fn released(&mut self, lock: &mut LockState, place: usize, change: &HoldChange) {
        let hold = lock.holds.remove(place);
        self.note(
            lock,
            change.client,
            format!("release by {}", self.owner(&hold.attempt.owner)),
        );
        lock.free_from_us = self.time_us;
        lock.is_known = true;
        let lease_us = hold
            .attempt
            .until_us
            .map(|until_us| until_us.saturating_sub(hold.attempt.time_us));
        let pattern = self.patterns.of(lock.pattern);
        match change.is_checked {
            true => pattern.checked_releases += 1,
            false => pattern.plain_releases += 1,
        }
        if !hold.is_adopted {
            pattern.released += 1;
            let lease_us = lease_us.filter(|_| hold.renewals == 0);
            pattern.held(self.time_us.saturating_sub(hold.attempt.time_us), lease_us);
            if !lock.is_shared {
                let grant = grant_name(hold.number);
                self.record_done(hold.number * 4 + 2, Call::Release { grant });
            }
        }
        if !change.is_checked && !self.options.effects_only && hold.attempt.recipe.has_owner {
            self.found(
                lock,
                FindingKind::ReleaseWithoutOwnerCheck,
                Certainty::Sure,
                0,
            );
        }
        if hold.attempt.until_us.is_none() && hold.until_us.is_none() && !hold.is_adopted {
            self.found(lock, FindingKind::NoExpiry, Certainty::Sure, 0);
        }
    }

    /// The watch is over.
    pub(super) fn end(&mut self, lock: &mut LockState) {
        for hold in std::mem::take(&mut lock.holds) {
            if hold.is_adopted {
                continue;
            }
            let held_us = self.time_us.saturating_sub(hold.attempt.time_us);
            let pattern = self.patterns.of(lock.pattern);
            pattern.still_held += 1;
            pattern.longest_open_us = pattern.longest_open_us.max(held_us);
            if hold.until_us.is_none() && held_us > 1_000_000 {
                self.found(lock, FindingKind::NoExpiry, Certainty::Sure, held_us);
            }
        }
        self.patterns.of(lock.pattern).undecided += lock.candidates.len() as u64;
    }
}

pub(super) fn grant_name(number: u64) -> String {
    format!("g{number}")
}
