//! What renewals and releases do to a watched lock, and what they prove of who has it.

use results::history::Call;

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{
    AcquireAttempt, FindingCondition, HoldChange, HoldOrigin, LockAct, LockOwner, RefusedWaiter, ServerHold,
};
use crate::watch::lock::step_record::grant_name;
use crate::watch::lock::watch_step::{LOST_BY_SERVER, WatchStep};
use crate::watch::recognition::recipe_table::SET_NX;
use crate::watch::recognition::units::hash;

/// How a hold ended whose key another deleted, by what has to turn out for it.
const DELETIONS: [&str; 4] = [
    "another deleted its key",
    "another deleted its key, as connections tell",
    "another deleted its key, as values tell",
    "one that was refused deleted its key",
];

/// What a holder does that wants its lock no longer.
const RELEASE: &str = "release";

impl WatchStep<'_> {
    /// A renewal or release that found nothing of its owner's.
    pub(crate) fn came_too_late(&mut self, owner: &LockOwner, what: &'static str, client: u32) {
        let mut lapsed = self.lock.lapsed.iter_mut();
        if let Some(hold) = lapsed.find(|hold| hold.is_in_doubt && hold.attempt.owner.is(owner)) {
            hold.is_in_doubt = false;
            self.pattern().confirmed_deletes += 1;
        }
        if let Some(place) = self.lock.hold_of(owner) {
            let hold = self.lock.holds.remove(place);
            self.note(client, what, "{subject} by {owner}: it is not there", *owner);
            return match hold.is_promised() {
                // It is the repetition of a release that nobody saw.
                true if what == RELEASE && hold.may_be_given_back => self.record_release(&hold),
                true if what == RELEASE && !hold.may_be_over(self.time_us + self.doubt_us()) => {
                    self.given_up(hold)
                }
                true => self.end_unseen(hold, self.time_us),
                false => self.lapse(hold),
            };
        }
        if let Some((before, _)) = &self.lock.broken_promise
            && before.attempt.owner.is(owner)
        {
            self.note(client, what, "{subject} by {owner}, who thinks to have it", *owner);
            if what == RELEASE {
                self.lock.broken_promise = None;
            }
            return;
        }
        let Some(place) = self.lock.lapsed.iter().rposition(|hold| hold.attempt.owner.is(owner)) else {
            return;
        };
        let end_us = self.lock.lapsed[place].until_us.unwrap_or(self.time_us);
        let is_later = |one: &AcquireAttempt| one.time_us >= end_us && !one.owner.is(owner);
        if self.lock.holds.iter().chain(&self.lock.lapsed).any(|other| is_later(&other.attempt)) {
            self.note(client, what, "{subject} by {owner}, whose lease has ended", *owner);
            self.found(FindingKind::OutlivedItsLease, self.time_us.saturating_sub(end_us), "");
            self.lock.lapsed.remove(place);
        }
    }

    /// A holder gives back what the server has lost: who was granted it before that overlaps, nobody later.
    fn given_up(&mut self, hold: ServerHold) {
        self.record_release(&hold);
        self.break_promise(hold, FindingKind::LostByServer, LOST_BY_SERVER);
        self.lock.broken_promise = None;
        let until_us = Some(self.time_us);
        self.lock.remember_lapsed(
            ServerHold { until_us, late_us: 0, is_lapsed: true, ..hold },
            self.remembered_max,
        );
    }

    /// Whose a change is, where its value tells that. The value of a present holder may be one that all use.
    fn owner_by_value(&self, change: &HoldChange) -> Option<LockOwner> {
        let is_common = |one: LockOwner| !one.is_unique && one.client != 0;
        let mut owners = self.lock.holds.iter().map(|hold| hold.attempt.owner).filter(|one| is_common(*one));
        change.owner.filter(|owner| owners.all(|one| one.value != owner.value))
    }

    pub(crate) fn renew(&mut self, change: &HoldChange, until_us: Option<u64>) {
        if let Some(owner) = &self.owner_by_value(change) {
            if !change.was_done {
                return self.came_too_late(owner, "renewal", change.client);
            }
            let place = self.prove(owner).or_else(|| {
                let (time_us, late_us) = (self.time_us, self.late_us);
                let attempt = AcquireAttempt { recipe: SET_NX, owner: *owner, time_us, late_us, until_us };
                let is_free = self.lock.holds.is_empty() && change.is_checked;
                (!self.lock.is_known || is_free).then(|| self.adopt(attempt, HoldOrigin::Inferred, 1))
            });
            return match place {
                Some(place) => self.renewed(place, until_us, 0),
                // A script that names its own value and renews somebody else's.
                None if !self.lock.holds.is_empty() && !change.is_checked => {
                    self.extended_by_another(change, until_us, FindingCondition::None)
                }
                None => {}
            };
        }
        if self.lock.holds.is_empty()
            && (self.lock.is_known || until_us.is_some())
            && let Some(place) = self.lock.candidate_of_client(change.client)
        {
            // A lease for the taker's own key: it would not be sent by one that was refused.
            self.decide(place);
        }
        let Some(first) = self.lock.holds.first() else { return };
        let has_client = first.attempt.owner.client != 0;
        let own = self.lock.holds.iter().position(|hold| hold.attempt.owner.is_of(change.client));
        let has_end = own.is_none_or(|own| self.lock.holds[own].until_us.is_some());
        let was_late = self.lock.lapsed_of_client(change.client).is_some();
        let had_asked = was_late || self.lock.has_waiter_of_client(change.client);
        // In one transaction, after it was refused: no pool's connection renews the holder's.
        let time_us = self.time_us;
        let is_refused =
            |one: &RefusedWaiter| one.last.owner.is_of(change.client) && one.last.time_us == time_us;
        if own.is_none() && self.lock.waiters.iter().any(is_refused) {
            return self.extended_by_another(change, until_us, FindingCondition::None);
        }
        let pattern = self.pattern();
        if own.is_none() && had_asked && has_client && pattern.is_stable() {
            return self.extended_by_another(change, until_us, FindingCondition::Connections);
        }
        if has_client {
            pattern.count_client(own.is_some(), had_asked);
            pattern.first_ends += u64::from(own.is_some() && !has_end);
        }
        // Its answer is not seen.
        let by_us = if self.options.effects_only { 0 } else { self.time_us + self.doubt_us() };
        self.renewed(own.unwrap_or(0), until_us, by_us);
    }

    fn extended_by_another(
        &mut self,
        change: &HoldChange,
        until_us: Option<u64>,
        condition: FindingCondition,
    ) {
        (self.lock.holds[0].until_us, self.lock.holds[0].late_us) = (until_us, self.late_us);
        let owner = self.lock.holds[0].attempt.owner;
        self.note(change.client, "", "renews the lock of {owner}", owner);
        self.found_if(FindingKind::ExtendedByAnother, 0, "", condition);
    }

    fn renewed(&mut self, place: usize, until_us: Option<u64>, by_us: u64) {
        let late_us = self.late_us;
        let hold = &mut self.lock.holds[place];
        self.votes.push(LockAct::Renew(HoldChange::by(hold.attempt.owner), until_us));
        let sets_first_end = hold.attempt.until_us.is_none() && hold.renewals == 0 && hold.until_us.is_none();
        let is_shorter = until_us.is_some() && until_us < hold.until_us;
        hold.extend_by(by_us, until_us, late_us);
        hold.may_be_given_back = false;
        let hold = *hold;
        let renewal = AcquireAttempt { time_us: self.time_us, until_us, ..hold.attempt };
        self.lock.note_attempt(&renewal, "renewal by {owner}{lease}");
        if sets_first_end && until_us.is_some() && hold.is_counted() {
            let gap_us = self.time_us.saturating_sub(hold.attempt.time_us);
            self.lock.holds[place].attempt.until_us = until_us;
            self.pattern().lease(renewal.lease_us());
            // In a transaction nothing comes between.
            if !self.options.effects_only && gap_us > 0 {
                self.found(FindingKind::ExpirySetLater, gap_us, "");
            }
            return;
        }
        self.lock.holds[place].renewals += 1;
        self.pattern().counts.renewals += 1;
        self.pattern().shortened += u64::from(is_shorter);
        if hold.number > 0 && !self.lock.is_shared && hold.doubtful_from_us.is_none() {
            let id = hold.number * 4 + 1 + (u64::from(hold.renewals) << 40);
            let lease_ms = renewal.lease_us().unwrap_or(0) / 1000;
            self.record_done(id, Call::Extend { grant: grant_name(hold.number), lease_ms, by: None });
        }
    }

    pub(crate) fn release(&mut self, change: &HoldChange) {
        if let Some(owner) = &self.owner_by_value(change) {
            if !change.was_done {
                // One that looks at the record of its own acquire alone says nothing of a later one's hold.
                if !change.is_checked && self.lock.hold_of(owner).is_some() {
                    return;
                }
                return self.came_too_late(owner, RELEASE, change.client);
            }
            return match self.prove(owner) {
                Some(place) if change.one_level && self.lock.holds[place].depth > 1 => {
                    self.lock.holds[place].depth -= 1
                }
                Some(place) => {
                    let holder = self.lock.holds[place].attempt.owner;
                    if holder.client != 0 && change.is_checked {
                        self.pattern().count_client(holder.is_of(change.client), false);
                    }
                    self.released(place, change);
                }
                None if !self.lock.is_known => {
                    self.refuse_candidates();
                    self.lock.mark_free(self.time_us);
                }
                None if change.is_checked || self.lock.holds.is_empty() => {}
                None => self.released_by_another(change, FindingCondition::None),
            };
        }
        let is_checked = change.is_checked && change.owner.is_none();
        let is_plain = !change.is_checked && !self.options.effects_only;
        if is_plain {
            let name = hash(self.lock.name.as_bytes());
            self.pattern().delete(change.client, name);
            // It gives back what was its own, whose key another has deleted.
            self.lock.broken_promise.take_if(|(before, _)| before.attempt.owner.is_of(change.client));
        }
        let is_refused = |one: &ServerHold| one.deleted_if == FindingCondition::Refused;
        if self.lock.holds.is_empty() {
            let Some(place) = self.lock.candidate_of_client(change.client) else {
                if change.is_checked {
                    // A script that deletes has found a value, and it is none of theirs.
                    self.refuse_candidates();
                }
                self.lock.candidates.clear();
                self.lock.lapsed.retain(|one| !is_refused(one) || !one.attempt.owner.is_of(change.client));
                return self.lock.mark_free(self.lock.free_from_us.min(self.time_us));
            };
            self.decide(place);
        }
        // One of several: that of the same connection, if there is one.
        let place = self.lock.holds.iter().position(|hold| hold.attempt.owner.is_of(change.client));
        let place = place.filter(|_| self.lock.is_shared).unwrap_or(0);
        let Some(hold) = self.lock.holds.get(place).copied() else { return };
        // A replica gets a DEL for a key whose lease is over.
        if self.options.effects_only && hold.seems_over(self.time_us + self.doubt_us()) {
            self.lock.holds.remove(place);
            self.lapse(hold);
            self.lock.free_from_us = self.time_us;
            return;
        }
        if self.options.effects_only {
            return self.released(place, change);
        }
        // The connection of a holder from before the watch is not known.
        let has_client = hold.attempt.owner.client != 0;
        let same_client = hold.attempt.owner.is_of(change.client);
        let may_have_it = self.lock.candidate_of_client(change.client).is_some();
        let had_asked = may_have_it || self.lock.has_waiter_of_client(change.client);
        let late = self.lock.lapsed_of_client(change.client);
        let late = late.filter(|_| !same_client && !is_checked);
        let by_pool = self.pattern().deletes_by_pool();
        let late = late.filter(|late| !by_pool || !self.lock.lapsed[*late].is_in_doubt);
        let pattern = self.pattern();
        let compares = pattern.checked_releases > 0 && pattern.plain_releases == 0 && !by_pool;
        if is_plain
            && !same_client
            && compares
            && pattern.is_of_another(hold.attempt.owner.value, change.client)
        {
            self.pattern().doubtful_deletes += 1;
            self.lock.holds[place].is_in_doubt = true;
            return self.released_by_another(change, FindingCondition::Names);
        }
        let is_after_that = late.is_some_and(|late| is_refused(&self.lock.lapsed[late]));
        // A connection with a lease before comes back late, whatever others ask over it.
        let was_refused = late.is_none() && !same_client && self.lock.was_refused_since(&hold, change.client);
        if is_plain && (is_after_that || was_refused) {
            late.and_then(|late| self.lock.lapsed.remove(late));
            return self.deleted_though_refused(place, change);
        }
        let pattern = self.pattern();
        let by_another = !same_client && !is_checked && compares && (has_client || had_asked);
        if late.is_none() && !by_another {
            if has_client {
                pattern.count_client(same_client, had_asked);
            }
            return self.released(place, change);
        }
        let is_stable = pattern.is_stable();
        let late = late.and_then(|late| self.lock.lapsed.remove(late));
        let is_in_doubt = late.is_none_or(|late| late.is_in_doubt);
        self.pattern().doubtful_deletes += u64::from(is_in_doubt);
        self.lock.holds[place].is_in_doubt = is_in_doubt;
        if is_stable {
            return self.released_by_another(change, FindingCondition::Connections);
        }
        // A hold that has ended, or the holder's by a pool's connection: a release may come yet.
        self.released(place, change);
        let hold = ServerHold { is_in_doubt, deleted_if: FindingCondition::Connections, ..hold };
        self.lock.remember_lapsed(hold, self.remembered_max);
        self.lock.broken_promise = Some((hold, DELETIONS[hold.deleted_if as usize]));
    }

    /// A client that was refused deletes the key, or the one whose key that was, or a pool's connection gives
    /// back what another has taken.
    fn deleted_though_refused(&mut self, place: usize, change: &HoldChange) {
        let hold = ServerHold { deleted_if: FindingCondition::Refused, ..self.lock.holds[place] };
        self.pattern().by_refused_client += 1;
        self.note(change.client, "", "deletes it while {owner} holds it", hold.attempt.owner);
        self.released(place, change);
        self.lock.remember_lapsed(hold, self.remembered_max);
        self.lock.broken_promise = Some((hold, DELETIONS[hold.deleted_if as usize]));
        let left_us = hold.until_us.map_or(0, |until_us| until_us.saturating_sub(self.time_us));
        self.found(FindingKind::ReleasedByAnother, left_us, "");
    }

    pub(crate) fn released_by_another(&mut self, change: &HoldChange, deleted_if: FindingCondition) {
        let hold = ServerHold { deleted_if, ..self.lock.holds.remove(0) };
        self.note(change.client, "", "deletes it while {owner} holds it", hold.attempt.owner);
        self.lock.free_from_us = self.time_us;
        if hold.is_counted() {
            let held_us = self.time_us.saturating_sub(hold.attempt.time_us);
            self.pattern().held(held_us, None);
        }
        // Its own release comes yet, and is none by a connection of a pool.
        self.lock.remember_lapsed(hold, self.remembered_max);
        self.break_promise(hold, FindingKind::ReleasedByAnother, DELETIONS[deleted_if as usize]);
    }

    pub(crate) fn released(&mut self, place: usize, change: &HoldChange) {
        let hold = self.lock.holds.remove(place);
        let owner = hold.attempt.owner;
        let release = HoldChange { owner: Some(owner), was_done: true, one_level: false, ..*change };
        self.votes.push(LockAct::Release(release));
        self.note(change.client, RELEASE, "{subject} by {owner}", owner);
        self.lock.mark_free(self.time_us);
        let held_us = self.time_us.saturating_sub(hold.attempt.time_us);
        let pattern = self.pattern();
        match change.is_checked {
            true => pattern.checked_releases += 1,
            false => pattern.plain_releases += 1,
        }
        if hold.is_counted() {
            pattern.counts.released += 1;
            pattern.held(held_us, hold.attempt.lease_us().filter(|_| hold.renewals == 0));
            self.record_release(&hold);
        }
        if !change.is_checked && !self.options.effects_only && hold.attempt.recipe.has_owner {
            self.found(FindingKind::ReleaseWithoutOwnerCheck, 0, "");
        }
        if hold.never_ends() && !self.lock.is_shared {
            self.found(FindingKind::NoExpiry, 0, "");
        }
    }
}
