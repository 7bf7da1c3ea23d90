//! What is known of one lock: who has it, who may have it, who waits, and what was done to it.

use std::collections::VecDeque;

use results::watch::WatchFinding;

use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::recognition::recipe_table::{PERMITS, Recipe};
use crate::watch::recognition::units::hash;

/// Waiters and attempts of one lock that are remembered, a quarter of it lapsed holds; and the same where
/// many locks are followed, of which they are most of what is kept.
pub(crate) const REMEMBERED_MAX: usize = 64;
pub(crate) const REMEMBERED_OF_MANY: usize = 8;
/// Lines that a finding may show.
const LINES_MAX: usize = 8;

/// How traffic is watched.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchOptions {
    /// Values of locks are shown, not hashes of them.
    pub show_values: bool,
    /// Only effects are seen, as a replica gets them: no refusals, no clients, no options of SET.
    pub effects_only: bool,
    /// Lines have only whole seconds, or clocks of servers differ: ends are not compared with leases more
    /// closely than this.
    pub time_doubt_us: u64,
    /// Lines have no times: their numbers stand in the place, and examples show no lengths.
    pub has_no_times: bool,
}

/// Who has a lock or asks for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LockOwner {
    pub(crate) value: u64,
    /// The value alone tells owners apart; else their connections do.
    pub(crate) is_unique: bool,
    pub(crate) client: u32,
    /// The second since 1970 that the value is, in seconds or milliseconds; 0: it is none.
    pub(crate) value_s: u32,
}

impl LockOwner {
    pub(crate) fn of(value: &[u8], client: u32) -> Self {
        let is_number = value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
        let second = std::str::from_utf8(whole).ok().filter(|_| is_number && [10, 13].contains(&whole.len()));
        let value_s = second.and_then(|text| text[..10].parse().ok()).unwrap_or(0);
        LockOwner { value: hash(value), is_unique: value.len() >= 8 && !is_number, client, value_s }
    }

    pub(crate) fn is(&self, other: &LockOwner) -> bool {
        match self.is_unique || other.is_unique {
            true => self.value == other.value,
            false => self.is_of(other.client),
        }
    }

    /// Whether it has this connection. One of many that are not told apart is nobody's.
    pub(crate) fn is_of(&self, client: u32) -> bool {
        client != 0 && self.client == client
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AcquireAttempt {
    pub(crate) recipe: &'static Recipe,
    pub(crate) owner: LockOwner,
    pub(crate) time_us: u64,
    /// How much earlier it may have been by the server's clock, by which the lease ends.
    pub(crate) late_us: u64,
    /// When the lease ends that the server was asked for, at the latest; `None`: never.
    pub(crate) until_us: Option<u64>,
}

impl AcquireAttempt {
    /// What the server was asked for; `None`: a lease without an end.
    pub(crate) fn lease_us(&self) -> Option<u64> {
        self.until_us.map(|until_us| until_us.saturating_sub(self.time_us))
    }
}

/// What is known of an attempt's outcome from the commands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// It depends on whether the key was there.
    ByKey,
    Granted,
    Refused,
    /// The key was written whatever it held.
    Overwritten,
    /// The key was written if it was there.
    OverwrittenIfThere,
}

/// How a hold is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldOrigin {
    Granted,
    /// It began before the watch, as what its owner did shows.
    Inferred,
    /// It began before the watch, as the server said of its key.
    Read,
}

/// A hold as the server promised it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerHold {
    pub(crate) attempt: AcquireAttempt,
    pub(crate) until_us: Option<u64>,
    /// How much earlier that may be by the server's clock.
    pub(crate) late_us: u64,
    /// The end before a renewal that may have come too late for it, or that its value says and no server.
    pub(crate) doubtful_from_us: Option<u64>,
    pub(crate) number: u64,
    pub(crate) depth: u32,
    pub(crate) renewals: u32,
    pub(crate) origin: HoldOrigin,
    /// It ended with its lease.
    pub(crate) is_lapsed: bool,
    /// Its key was deleted by a connection that had no lease before: another's, or one of the holder's pool.
    pub(crate) is_in_doubt: bool,
    /// What shows that another deleted its key, where that is not certain.
    pub(crate) deleted_if: FindingCondition,
    /// Its key is in another database than its holder.
    pub(crate) is_away: bool,
    /// Its server's connection has ended since: a release of that moment may be in no line.
    pub(crate) may_be_given_back: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedWaiter {
    pub(crate) first_us: u64,
    pub(crate) last: AcquireAttempt,
}

/// A line of an example, put into words once a finding shows it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NotedEvent {
    pub(crate) time_us: u64,
    pub(crate) client: u32,
    /// With `{owner}`, `{lease}` and `{subject}` in the places of what follows.
    pub(crate) words: &'static str,
    pub(crate) owner: LockOwner,
    pub(crate) until_us: Option<u64>,
    pub(crate) subject: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct LockState {
    pub(crate) name: Box<str>,
    pub(crate) pattern: usize,
    /// Whether it is known who had the lock when it first appeared.
    pub(crate) is_known: bool,
    pub(crate) holds: Vec<ServerHold>,
    /// Attempts of which one was granted, in order; which, is not known yet.
    pub(crate) candidates: Vec<AcquireAttempt>,
    /// From here on it is certain that the lock was free.
    pub(crate) free_from_us: u64,
    /// The last attempt since then that was refused: one of the candidates before it has the lock.
    pub(crate) refused_when_free_us: u64,
    /// A hold that ended before the end that the server had promised, and not by its owner; and how.
    pub(crate) broken_promise: Option<(ServerHold, &'static str)>,
    pub(crate) lapsed: VecDeque<ServerHold>,
    pub(crate) waiters: Vec<RefusedWaiter>,
    /// Several may hold it at once.
    pub(crate) is_shared: bool,
    /// A holder asked for it again, as a leader does that is elected anew each time.
    pub(crate) holders_ask: bool,
    /// The libraries and the forms of its key (a hash or not) by which it is taken, and how often.
    pub(crate) libraries: Vec<(&'static str, u64)>,
    pub(crate) forms: Vec<(&'static str, u64)>,
    /// Two of them were seen, and that was said.
    pub(crate) is_mixed: bool,
    pub(crate) events: VecDeque<NotedEvent>,
    /// The time of what was recorded of it last.
    pub(crate) recorded_ns: u64,
    /// Its key is read, and what was read is here by then.
    pub(crate) read_due_us: u64,
}

impl ServerHold {
    /// One that was taken once, as it was asked for.
    pub(crate) fn of(attempt: AcquireAttempt, origin: HoldOrigin) -> Self {
        let end_us = Some(u64::from(attempt.owner.value_s) * 1_000_000);
        ServerHold {
            attempt,
            until_us: attempt.until_us,
            late_us: attempt.late_us,
            doubtful_from_us: end_us.filter(|us| *us > attempt.time_us && attempt.until_us.is_none()),
            number: 0,
            depth: 1,
            renewals: 0,
            origin,
            is_lapsed: false,
            is_in_doubt: false,
            deleted_if: FindingCondition::None,
            is_away: false,
            may_be_given_back: false,
        }
    }

    /// Whether it was granted during the watch.
    pub(crate) fn is_counted(&self) -> bool {
        self.origin == HoldOrigin::Granted
    }

    /// Whether it is known until when the server has promised it.
    pub(crate) fn is_promised(&self) -> bool {
        self.origin != HoldOrigin::Inferred
    }

    /// Whether it has no end. Permits of a semaphore have none by their nature.
    pub(crate) fn never_ends(&self) -> bool {
        let end_us = self.until_us.or(self.doubtful_from_us);
        end_us.is_none() && self.is_promised() && self.attempt.recipe != PERMITS
    }

    /// Whether the lease may have ended by then, by the server's clock: nobody is accused of what follows.
    pub(crate) fn may_be_over(&self, by_us: u64) -> bool {
        self.seems_over(by_us.saturating_add(self.late_us))
    }

    /// The same by the stamps of lines.
    pub(crate) fn seems_over(&self, by_us: u64) -> bool {
        let is_before = |end_us: Option<u64>| end_us.is_some_and(|end_us| end_us <= by_us);
        is_before(self.until_us) || is_before(self.doubtful_from_us)
    }

    /// Renews it by a command that does nothing if the lease was over; `by_us`: it may have been by then.
    pub(crate) fn extend_by(&mut self, by_us: u64, until_us: Option<u64>, late_us: u64) {
        let end_us = self.doubtful_from_us.or(self.until_us);
        self.doubtful_from_us = end_us.filter(|_| self.may_be_over(by_us));
        self.until_us = until_us;
        self.late_us = if self.doubtful_from_us.is_some() { self.late_us.max(late_us) } else { late_us };
    }
}

impl LockState {
    /// Nothing is known of it. Most locks have one hold at a time, of one library and form.
    pub(crate) fn new(name: Box<str>, pattern: usize) -> Self {
        let (libraries, forms) = (Vec::with_capacity(1), Vec::with_capacity(1));
        let holds = Vec::with_capacity(1);
        LockState { name, pattern, holds, libraries, forms, ..LockState::default() }
    }

    /// Everybody who has it, had it, may have it or was refused it.
    pub(crate) fn owners(&mut self) -> impl Iterator<Item = &mut LockOwner> {
        let holds = self.holds.iter_mut().chain(&mut self.lapsed).map(|hold| &mut hold.attempt);
        let waiters = self.waiters.iter_mut().map(|waiter| &mut waiter.last);
        holds.chain(waiters).chain(&mut self.candidates).map(|attempt| &mut attempt.owner)
    }

    /// The place of an owner's hold.
    pub(crate) fn hold_of(&self, owner: &LockOwner) -> Option<usize> {
        self.holds.iter().position(|hold| hold.attempt.owner.is(owner))
    }

    /// The place of an owner's attempt that may have been granted.
    pub(crate) fn candidate_of(&self, owner: &LockOwner) -> Option<usize> {
        self.candidates.iter().rposition(|one| one.owner.is(owner))
    }

    /// The same of a connection's.
    pub(crate) fn candidate_of_client(&self, client: u32) -> Option<usize> {
        self.candidates.iter().rposition(|one| one.owner.is_of(client))
    }

    /// The place of the last hold of a connection that ended with its lease.
    pub(crate) fn lapsed_of_client(&self, client: u32) -> Option<usize> {
        self.lapsed.iter().rposition(|hold| hold.attempt.owner.is_of(client))
    }

    /// Whether a connection was refused the lock.
    pub(crate) fn has_waiter_of_client(&self, client: u32) -> bool {
        self.waiters.iter().any(|one| one.last.owner.is_of(client))
    }

    /// Whether a connection was refused since a hold began.
    pub(crate) fn was_refused_since(&self, hold: &ServerHold, client: u32) -> bool {
        let is_since = |one: &&RefusedWaiter| one.last.time_us >= hold.attempt.time_us;
        self.waiters.iter().filter(is_since).any(|one| one.last.owner.is_of(client))
    }

    /// Says that it is free for certain from this time on.
    pub(crate) fn mark_free(&mut self, time_us: u64) {
        (self.is_known, self.free_from_us) = (true, time_us);
    }

    /// Keeps an event for the examples of findings.
    pub(crate) fn note(&mut self, event: NotedEvent) {
        if self.events.len() == LINES_MAX {
            self.events.pop_front();
        }
        // One, or all that are kept: what grows step by step leaves holes in memory.
        let more = if self.events.is_empty() { 1 } else { LINES_MAX - self.events.len() };
        self.events.reserve_exact(more);
        self.events.push_back(event);
    }

    pub(crate) fn note_attempt(&mut self, attempt: &AcquireAttempt, words: &'static str) {
        let AcquireAttempt { recipe, owner, time_us, until_us, .. } = *attempt;
        let (client, subject) = (owner.client, recipe.name);
        self.note(NotedEvent { time_us, client, words, owner, until_us, subject });
    }

    /// Keeps a hold whose holder may come back for it.
    pub(crate) fn remember_lapsed(&mut self, hold: ServerHold, remembered_max: usize) {
        while self.lapsed.len() >= remembered_max / 4 {
            self.lapsed.pop_front();
        }
        // Many locks have few.
        self.lapsed.reserve_exact(1);
        self.lapsed.push_back(hold);
    }
}

/// A renewal or a release.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HoldChange {
    pub(crate) owner: Option<LockOwner>,
    pub(crate) client: u32,
    /// Whether it asked first whose the lock is, in the same step.
    pub(crate) is_checked: bool,
    /// Whether it took effect, if the key was there.
    pub(crate) was_done: bool,
    /// One level of a re-entrant hold is given back, not all.
    pub(crate) one_level: bool,
}

impl HoldChange {
    /// The holder's own.
    pub(crate) fn by(owner: LockOwner) -> Self {
        let (client, owner) = (owner.client, Some(owner));
        HoldChange { owner, client, is_checked: true, was_done: true, one_level: false }
    }
}

/// What a command does to a lock, or what a member of a set of masters did.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LockAct {
    Attempt(AcquireAttempt, AttemptOutcome),
    /// It was granted before the watch.
    Adopt(AcquireAttempt),
    /// The lease now ends at this time.
    Renew(HoldChange, Option<u64>),
    Release(HoldChange),
    /// The owner's lease is over.
    Lapse(LockOwner),
}

/// A finding that was made as it happened.
#[derive(Debug)]
pub(crate) struct SeenFinding {
    pub(crate) kind: FindingKind,
    pub(crate) pattern: usize,
    pub(crate) worst_us: u64,
    pub(crate) found: WatchFinding,
    pub(crate) condition: FindingCondition,
}

/// What has to turn out until the end of the watch, or a finding does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindingCondition {
    None,
    /// Connections tell holders apart.
    Connections,
    /// Fixed values do.
    Names,
    /// Clients delete the key though they were refused.
    Refused,
}

pub(crate) fn count(ways: &mut Vec<(&'static str, u64)>, name: &'static str) {
    match ways.iter_mut().find(|(known, _)| *known == name) {
        Some((_, count)) => *count += 1,
        None => ways.push((name, 1)),
    }
}
