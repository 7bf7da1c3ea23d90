//! What renewals and releases do to a watched lock, and what they prove of who has it.

use results::history::Call;

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{
    AcquireAttempt, HoldChange, HoldOrigin, LockOwner, LockState, NotedEvent, ServerHold,
};
use crate::watch::lock::votes::MemberVote;
use crate::watch::lock::watch_step::{AS_CONNECTIONS_TELL, WatchStep, grant_name};
use crate::watch::recognition::recipe_table::SET_NX;

/// What a holder does that wants its lock no longer.
const RELEASE: &str = "release";

impl WatchStep<'_> {
    /// A renewal or release that found nothing of its owner's.
    pub(crate) fn came_too_late(
        &mut self,
        lock: &mut LockState,
        owner: &LockOwner,
        what: &'static str,
        client: u32,
    ) {
        if let Some(place) = lock.hold_of(owner) {
            let hold = lock.holds.remove(place);
            let words = "{subject} by {owner}: it is not there";
            self.note(lock, client, what, words, owner);
            match hold.is_promised() {
                true => self.end_unseen(lock, hold, self.time_us, "the server had lost it"),
                false => self.lapse(lock, hold),
            }
            return;
        }
        if let Some((before, _)) = &lock.broken_promise
            && before.attempt.owner.is(owner)
        {
            let words = "{subject} by {owner}, who thinks to have it";
            self.note(lock, client, what, words, owner);
            if what == RELEASE {
                lock.broken_promise = None;
            }
            return;
        }
        let Some(place) = lock.lapsed.iter().rposition(|hold| hold.attempt.owner.is(owner)) else { return };
        let hold = lock.lapsed[place];
        let end_us = hold.until_us.unwrap_or(self.time_us);
        let others = lock.holds.iter().chain(&lock.lapsed);
        let granted_since =
            others.filter(|other| other.attempt.time_us >= end_us && !other.attempt.owner.is(owner)).count();
        if granted_since > 0 {
            let words = "{subject} by {owner}, whose lease has ended";
            self.note(lock, client, what, words, owner);
            let late_us = self.time_us.saturating_sub(end_us);
            self.found(lock, FindingKind::OutlivedItsLease, late_us);
            lock.lapsed.remove(place);
        }
    }

    pub(crate) fn renew(&mut self, lock: &mut LockState, change: &HoldChange, until_us: Option<u64>) {
        if let Some(owner) = &change.owner {
            if change.was_done == Some(false) {
                return self.came_too_late(lock, owner, "renewal", change.client);
            }
            let place = self.prove(lock, owner);
            let place = place.or_else(|| {
                let attempt =
                    AcquireAttempt { recipe: SET_NX, owner: *owner, time_us: self.time_us, until_us };
                (!lock.is_known || lock.holds.is_empty() && change.is_checked)
                    .then(|| self.adopt(lock, attempt, HoldOrigin::Inferred, 1))
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
        let is_of_client = |owner: &LockOwner| owner.client == change.client;
        if lock.holds.is_empty() && !lock.candidates.is_empty() {
            let mut candidates = lock.candidates.iter();
            let place = candidates.rposition(|one| is_of_client(&one.owner));
            if let Some(place) = place.filter(|_| lock.is_known || until_us.is_some()) {
                // A lease for the taker's own key: it would not be sent by one that was refused.
                self.decide(lock, place);
                lock.is_known = true;
            }
        }
        let Some(first) = lock.holds.first() else { return };
        let has_client = first.attempt.owner.client != 0;
        let mut holds = lock.holds.iter();
        let own = holds.position(|hold| is_of_client(&hold.attempt.owner));
        let was_late = lock.lapsed_of_client(change.client).is_some();
        let had_asked = was_late || lock.waiters.iter().any(|one| is_of_client(&one.last.owner));
        let pattern = self.patterns.of(lock.pattern);
        if own.is_none() && had_asked && has_client && pattern.is_stable() {
            return self.extended_by_another(lock, change, until_us);
        }
        if has_client {
            pattern.count_client(own.is_some(), had_asked);
        }
        self.renewed(lock, own.unwrap_or(0), until_us);
    }

    pub(crate) fn extended_by_another(
        &mut self,
        lock: &mut LockState,
        change: &HoldChange,
        until_us: Option<u64>,
    ) {
        lock.holds[0].until_us = until_us;
        let owner = lock.holds[0].attempt.owner;
        self.note(lock, change.client, "", "renews the lock of {owner}", &owner);
        self.found(lock, FindingKind::ExtendedByAnother, 0);
    }

    pub(crate) fn renewed(&mut self, lock: &mut LockState, place: usize, until_us: Option<u64>) {
        let hold = &mut lock.holds[place];
        let change = HoldChange::by(hold.attempt.owner);
        self.votes.push(MemberVote::Renewed(change, until_us));
        let sets_first_end = hold.attempt.until_us.is_none() && hold.renewals == 0 && hold.until_us.is_none();
        hold.until_us = until_us;
        let hold = *hold;
        lock.note(NotedEvent {
            time_us: self.time_us,
            client: hold.attempt.owner.client,
            words: "renewal by {owner} {lease}",
            owner: hold.attempt.owner,
            until_us,
            subject: "",
        });
        if sets_first_end && until_us.is_some() && hold.is_counted() {
            let gap_us = self.time_us.saturating_sub(hold.attempt.time_us);
            lock.holds[place].attempt.until_us = until_us;
            self.patterns.of(lock.pattern).lease(until_us.map(|end| end.saturating_sub(self.time_us)));
            if !self.options.effects_only {
                self.found(lock, FindingKind::ExpirySetLater, gap_us);
            }
            return;
        }
        lock.holds[place].renewals += 1;
        self.patterns.of(lock.pattern).renewals += 1;
        if hold.number > 0 && !lock.is_shared {
            let id = hold.number * 4 + 1 + (u64::from(hold.renewals) << 40);
            let lease_us = until_us.map_or(0, |until_us| until_us.saturating_sub(self.time_us));
            let lease_ms = lease_us / 1000;
            let call = Call::Extend { grant: grant_name(hold.number), lease_ms, by: None };
            self.record_done(id, call);
        }
    }

    pub(crate) fn release(&mut self, lock: &mut LockState, change: &HoldChange) {
        if let Some(owner) = &change.owner {
            if change.was_done == Some(false) {
                return self.came_too_late(lock, owner, RELEASE, change.client);
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
                        self.released_by_another(lock, change);
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
        // One of several: that of the same connection, if there is one.
        let by_client = |hold: &ServerHold| hold.attempt.owner.client == change.client;
        let place = lock.holds.iter().position(by_client);
        let place = place.filter(|_| lock.is_shared).unwrap_or(0);
        let Some(hold) = lock.holds.get(place).copied() else { return };
        // A replica gets a DEL for a key whose lease is over.
        let doubt_us = self.doubt_us();
        if self.options.effects_only {
            let is_over = hold.may_be_over(self.time_us + doubt_us);
            match is_over {
                true => {
                    lock.holds.remove(place);
                    self.lapse(lock, hold);
                    lock.free_from_us = self.time_us;
                }
                false => self.released(lock, place, change),
            }
            return;
        }
        // The connection of a holder from before the watch is not known.
        let has_client = hold.attempt.owner.client != 0;
        let same_client = hold.attempt.owner.client == change.client && change.client != 0;
        let asked = lock.waiters.iter().map(|one| one.last.owner.client);
        let candidates = lock.candidates.iter().map(|one| one.owner.client);
        let had_asked = asked.chain(candidates).any(|one| one == change.client);
        let pattern = self.patterns.of(lock.pattern);
        let compares = pattern.checked_releases > 0 && pattern.plain_releases == 0;
        let late = lock.lapsed_of_client(change.client);
        let late = late.filter(|_| !same_client && !change.is_checked);
        let is_foreign = !same_client
            && !change.is_checked
            && (compares && (has_client || had_asked) || late.is_some() && pattern.is_stable());
        match late {
            _ if is_foreign => self.released_by_another(lock, change),
            // The release of a hold that has ended, or the holder's by a connection of a pool: both may come
            // with a release yet.
            Some(late) => {
                lock.lapsed.remove(late);
                self.released(lock, place, change);
                lock.remember_lapsed(hold, self.remembered_max);
                lock.broken_promise = Some((hold, AS_CONNECTIONS_TELL));
            }
            None => {
                if has_client {
                    pattern.count_client(same_client, had_asked);
                }
                self.released(lock, place, change);
            }
        }
    }

    pub(crate) fn released_by_another(&mut self, lock: &mut LockState, change: &HoldChange) {
        let hold = lock.holds.remove(0);
        let words = "deletes it while {owner} holds it";
        self.note(lock, change.client, "", words, &hold.attempt.owner);
        lock.free_from_us = self.time_us;
        if hold.is_counted() {
            self.patterns.of(lock.pattern).held(self.time_us.saturating_sub(hold.attempt.time_us), None);
        }
        let late = lock.lapsed_of_client(change.client);
        if let Some(place) = late {
            lock.lapsed.remove(place);
        }
        // Its own release comes yet, and is none by a connection of a pool.
        lock.remember_lapsed(hold, self.remembered_max);
        self.break_promise(lock, hold, FindingKind::ReleasedByAnother, "another deleted its key");
    }

    pub(crate) fn released(&mut self, lock: &mut LockState, place: usize, change: &HoldChange) {
        let hold = lock.holds.remove(place);
        self.votes.push(MemberVote::Released(HoldChange {
            owner: Some(hold.attempt.owner),
            was_done: Some(true),
            one_level: false,
            ..*change
        }));
        let owner = &hold.attempt.owner;
        self.note(lock, change.client, RELEASE, "{subject} by {owner}", owner);
        lock.free_from_us = self.time_us;
        lock.is_known = true;
        let lease_us = hold.attempt.lease_us();
        let pattern = self.patterns.of(lock.pattern);
        match change.is_checked {
            true => pattern.checked_releases += 1,
            false => pattern.plain_releases += 1,
        }
        if hold.is_counted() {
            pattern.released += 1;
            let lease_us = lease_us.filter(|_| hold.renewals == 0);
            pattern.held(self.time_us.saturating_sub(hold.attempt.time_us), lease_us);
            if !lock.is_shared {
                let grant = grant_name(hold.number);
                self.record_done(hold.number * 4 + 2, Call::Release { grant });
            }
        }
        if !change.is_checked && !self.options.effects_only && hold.attempt.recipe.has_owner {
            self.found(lock, FindingKind::ReleaseWithoutOwnerCheck, 0);
        }
        if hold.never_ends() {
            self.found(lock, FindingKind::NoExpiry, 0);
        }
    }
}
