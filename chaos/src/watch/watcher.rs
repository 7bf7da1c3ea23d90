//! Follows the locks of servers through their commands, and says at the end what was seen of them.

use std::collections::BTreeMap;

use cluster_config::MonitorLine;
use hashbrown::HashMap;
use itertools::Itertools as _;
use results::history::Line;
use results::watch::WatchReport;

use super::holds_over_time::over_time;
use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::lock::lock_state::{
    AcquireAttempt, AttemptOutcome, LockAct, LockState, REMEMBERED_MAX, REMEMBERED_OF_MANY, ServerHold,
    WatchOptions, count,
};
use crate::watch::lock::votes::{Votes, WHOLE_SET};
use crate::watch::lock::watch_step::{END_DOUBT_US, WatchRecords, WatchStep};
use crate::watch::recognition::patterns::{LibraryTrace, LockPattern};
use crate::watch::recognition::recipe_table::Recipe;
use crate::watch::recognition::recipes::{self, ScriptRole};
use crate::watch::recognition::units::{Assembler, LATE_MAX_US, Unit, WORD_MAX, hash};
use crate::watch::sources::key_reads::{KeyState, WantedKey, recipe_of, value_command};

/// Locks that are followed at a time.
const LOCKS_MAX: usize = 50_000;
/// Of more than these less is remembered.
const MANY_LOCKS: usize = 300;

/// Keys are read so often at most, and so many at once.
const READ_EVERY_US: u64 = 20_000;
const READS_AT_ONCE: u64 = 16;

/// What a member of a set of masters did waits for so long for older news of other members.
const SKEW_US: u64 = 1_000_000;

/// A server that dies so soon after a grant may not have answered it: MONITOR is written before the answer,
/// and the end of a connection drops what its client has not read.
const UNANSWERED_US: u64 = 10_000;

/// What was seen of locks.
#[derive(Debug, Clone, Default)]
pub struct WatchedTraffic {
    /// Locks, findings and what may be locks.
    pub report: WatchReport,
    /// The holds as a history for the checkers, in order of time.
    pub history: Vec<Line>,
    /// The history is cut: there was more than is kept.
    pub cut: bool,
    /// What was not seen or not kept to, and why.
    pub warnings: Vec<String>,
}

/// What comes of a server, in its order.
#[derive(Debug)]
enum ServerNews {
    Ran(Unit),
    /// What a key held at this place of the traffic.
    KeyRead(KeyState),
}

/// Boxed, so that a table that grows moves and reserves little.
type Locks = HashMap<Box<[u8]>, Box<LockState>>;

/// Follows locks through the commands of one or several servers.
#[derive(Debug, Default)]
pub struct Watcher {
    pub(super) options: WatchOptions,
    assembler: Assembler,
    /// Per group of servers and database.
    locks: HashMap<(usize, u32), Locks>,
    records: WatchRecords,
    /// What single members of a set of masters did, which nobody is told.
    of_members: WatchRecords,
    votes: Votes,
    pub(super) scripts: HashMap<u64, ScriptRole>,
    holds: u64,
    commands: u64,
    last_us: u64,
    /// Since when each group is watched without a gap.
    watched_from_us: HashMap<usize, u64>,
    /// Values of owners by their hash, where they may be shown.
    values: HashMap<u64, String>,
    /// The source of the unit that is applied.
    source: usize,
    /// Of a set of masters: what is not applied yet, by its times, and until when each member is known.
    unordered: BTreeMap<(u64, u64), ServerNews>,
    members_us: HashMap<usize, u64>,
    ordered: u64,
    /// Where many locks are followed: new names until idle ones are forgotten.
    names_until_look: usize,
    /// Keys that are to be read; `None`: there is nobody to read them.
    wanted: Option<Vec<WantedKey>>,
    /// The reads so far are paid for by then.
    reads_paid_us: u64,
}

/// Where a lock lives, and when something happened to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockPlace<'a> {
    pub(super) group: usize,
    pub(super) database: u32,
    pub(super) key: &'a [u8],
    pub(super) time_us: u64,
    /// How much earlier it may have been by the server's clock.
    pub(super) late_us: u64,
    pub(super) client: u32,
}

impl Watcher {
    /// Nothing seen yet.
    pub fn new(options: WatchOptions) -> Self {
        Watcher { options, ..Watcher::default() }
    }

    /// Says that keys can be read when they first appear: [`Watcher::wanted_keys`] gives them.
    pub(super) fn read_keys(&mut self) {
        self.wanted = Some(Vec::new());
    }

    /// The keys to be read of which the traffic has not shown since who has them.
    pub(super) fn wanted_keys(&mut self) -> Vec<WantedKey> {
        let mut wanted = self.wanted.as_mut().map(std::mem::take).unwrap_or_default();
        wanted.retain(|one| {
            let lock = self.lock_at(&self.place_of(one, 0));
            lock.is_some_and(|lock| lock.holds.is_empty())
        });
        wanted
    }

    /// Takes what a key held at this time of its source.
    pub(super) fn key_state(&mut self, state: KeyState, time_us: u64) {
        self.take(state.wanted.source, time_us, ServerNews::KeyRead(state));
    }

    fn place_of<'a>(&self, wanted: &'a WantedKey, time_us: u64) -> LockPlace<'a> {
        let (group, database, key) = (self.group_of(wanted.source), wanted.database, &*wanted.key);
        LockPlace { group, database, key, time_us, late_us: LATE_MAX_US, client: 0 }
    }

    fn see_key(&mut self, state: &KeyState, time_us: u64) {
        let place = self.place_of(&state.wanted, time_us);
        let recipe = recipe_of(state.wanted.kind);
        if let Some((owner, _)) = &state.holder {
            self.show_value(owner);
        }
        if self.is_followed(&place) {
            self.with(&place, |step| step.see_key(recipe, state.left_ms, state.holder.as_ref()));
        }
    }

    fn show_value(&mut self, value: &[u8]) {
        if self.options.show_values && !value.is_empty() && self.values.len() < LOCKS_MAX {
            let shown = String::from_utf8_lossy(&value[..value.len().min(80)]);
            self.values.entry(hash(value)).or_insert_with(|| shown.into_owned());
        }
    }

    /// The servers of a group hold the same locks, as those that follow each other do.
    fn group_of(&self, source: usize) -> usize {
        if self.votes.members > 0 { source } else { 0 }
    }

    /// Says that each source is one of so many independent masters, a majority of which grants a lock.
    pub fn set_members(&mut self, members: usize) {
        self.votes.members = members;
    }

    /// By how much the clocks of servers may differ.
    pub fn set_clock_doubt(&mut self, doubt_us: u64) {
        self.options.time_doubt_us = self.options.time_doubt_us.max(doubt_us);
    }

    /// Commands seen, those of scripts among them.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Takes a command of a source.
    pub fn line(&mut self, source: usize, line: &MonitorLine<'_>) {
        self.commands += 1;
        if self.records.first_us == 0 {
            self.records.first_us = line.time_us;
        }
        self.last_us = self.last_us.max(line.time_us);
        let group = self.group_of(source);
        self.watched_from_us.entry(group).or_insert(line.time_us);
        for unit in self.assembler.line(source, line) {
            self.take(source, unit.time_us, ServerNews::Ran(unit));
        }
        if self.votes.members > 0 {
            self.apply_older(source, line.time_us);
        }
    }

    /// Applies what a server did: at once, or of a set of masters in the order of time. A script is whole
    /// when its server's next command comes, and which connection's lines come first says nothing.
    fn take(&mut self, source: usize, time_us: u64, news: ServerNews) {
        if self.votes.members == 0 {
            return self.apply(news, time_us);
        }
        // That of one server keeps its order.
        let begun_us = self.members_us.get(&source).copied();
        self.ordered += 1;
        let order = (time_us.max(begun_us.unwrap_or(0)), self.ordered);
        self.unordered.insert(order, news);
    }

    /// Applies what nothing can come before any more, now that a member has run a command at this time.
    fn apply_older(&mut self, source: usize, time_us: u64) {
        let begun_us = self.assembler.script_us(source).unwrap_or(time_us);
        let known_us = self.members_us.entry(source).or_default();
        *known_us = begun_us.max(*known_us);
        let patience_us = self.last_us.saturating_sub(SKEW_US);
        let is_heard_of_all = self.members_us.len() >= self.votes.members;
        let all_us = self.members_us.values().copied().min().filter(|_| is_heard_of_all);
        self.apply_until(all_us.unwrap_or(0).max(patience_us), patience_us);
    }

    /// Applies what began before one time, once the scripts are whole that began before another.
    fn apply_until(&mut self, until_us: u64, whole_us: u64) {
        for unit in self.assembler.begun_before(whole_us) {
            self.take(unit.source, unit.time_us, ServerNews::Ran(unit));
        }
        while let Some(first) = self.unordered.first_entry()
            && first.key().0 < until_us
        {
            let ((time_us, _), news) = first.remove_entry();
            self.apply(news, time_us);
        }
    }

    fn apply_all(&mut self) {
        self.apply_until(u64::MAX, u64::MAX);
    }

    fn apply(&mut self, news: ServerNews, time_us: u64) {
        match news {
            ServerNews::Ran(unit) => {
                self.source = unit.source;
                recipes::apply(self, self.group_of(unit.source), &unit);
            }
            ServerNews::KeyRead(state) => self.see_key(&state, time_us),
        }
    }

    /// Nothing is known of a source since its last line, as after a lost connection. What was held may be
    /// over.
    pub fn gap(&mut self, source: usize) {
        self.apply_all();
        self.assembler.forget(source);
        let group = self.group_of(source);
        let is_concerned = |of: usize| of == group || of == WHOLE_SET;
        self.with_each(|of, _| is_concerned(of), self.last_us, |step| step.lose_sight_of(|_| true));
        self.watched_from_us.remove(&group);
        self.locks.retain(|(of, _), _| !is_concerned(*of));
    }

    /// A server that is the only one of its group was started anew without its keys.
    pub fn lost(&mut self, source: usize) {
        self.apply_all();
        self.lose(self.group_of(source), None, self.last_us, "its server was started without its keys");
    }

    /// The connection to a server ended: its last command may be in no line, though its keys show it.
    pub fn disconnected(&mut self, source: usize) {
        self.apply_all();
        let group = self.group_of(source);
        self.with_each(
            |of, _| of == group,
            self.last_us,
            |step| step.lock.holds.iter_mut().for_each(|hold| hold.may_be_given_back = true),
        );
    }

    /// A server died, or another took its place, right after a command at `last_us`: a grant of that moment
    /// may never have been answered, or never have reached a disk or a replica, and accuses nobody.
    pub fn unanswered(&mut self, source: usize, last_us: u64) {
        if let Some(unit) = self.assembler.end_script(source) {
            self.take(source, unit.time_us, ServerNews::Ran(unit));
        }
        let group = self.group_of(source);
        let is_unanswered = |hold: &ServerHold| hold.attempt.time_us + UNANSWERED_US > last_us;
        self.with_each(|of, _| of == group, self.last_us, |step| step.lose_sight_of(is_unanswered));
    }

    /// What is known of a lock that is followed.
    pub(super) fn lock_at(&self, place: &LockPlace<'_>) -> Option<&LockState> {
        self.locks.get(&(place.group, place.database))?.get(place.key).map(Box::as_ref)
    }

    pub(super) fn is_followed(&self, place: &LockPlace<'_>) -> bool {
        self.lock_at(place).is_some()
    }

    /// Whether the holder has this value; `None`: it is not known who holds it.
    pub(super) fn holder_is(&self, place: &LockPlace<'_>, value: &[u8]) -> Option<bool> {
        let lock = self.lock_at(place)?;
        let value = hash(value);
        let over_us = place.time_us.saturating_sub(END_DOUBT_US + self.options.time_doubt_us + 1);
        let mut holds = lock.holds.iter().filter(|hold| !hold.seems_over(over_us));
        let held = holds.any(|hold| hold.attempt.owner.value == value);
        let may_be = lock.candidates.iter().any(|one| one.owner.value == value);
        (held || lock.is_known && !may_be).then_some(held)
    }

    /// When the lease of the holder ends, or that it never does; `None`: nobody is known to hold it.
    pub(super) fn held_until_us(&self, place: &LockPlace<'_>) -> Option<Option<u64>> {
        let holds = &self.lock_at(place)?.holds;
        holds.first().filter(|hold| !hold.seems_over(place.time_us)).map(|hold| hold.until_us)
    }

    /// How the lock at a place is taken; `None`: it is not followed, or nobody has it.
    pub(super) fn held_by_recipe(&self, place: &LockPlace<'_>) -> Option<&'static Recipe> {
        let lock = self.lock_at(place)?;
        let holds = lock.holds.iter().map(|hold| hold.attempt.recipe);
        holds.chain(lock.candidates.iter().map(|one| one.recipe)).next()
    }

    /// Counts a command that was sent for the lock, and does what it does.
    pub(super) fn act(&mut self, place: &LockPlace<'_>, trace: &LibraryTrace<'_>, act: LockAct) {
        self.count_command(place, trace);
        self.change(place, act);
    }

    /// Does to a lock what a command does that is counted already.
    pub(super) fn change(&mut self, place: &LockPlace<'_>, act: LockAct) {
        let is_read = self.with(place, |step| {
            let appears = step.lock.forms.is_empty();
            step.act(act);
            appears && step.may_read && step.lock.holds.is_empty() && !step.lock.is_shared
        });
        if let LockAct::Attempt(attempt, _) = act
            && let (Some(true), Some(wanted)) = (is_read, &mut self.wanted)
            && let kind = attempt.recipe.key_form.trim_start_matches("a ")
            && value_command(kind, place.key).is_some()
            && attempt.recipe.has_owner
            && place.key.len() <= WORD_MAX
        {
            self.reads_paid_us = self.reads_paid_us.max(place.time_us) + READ_EVERY_US;
            let (source, database, key) = (self.source, place.database, place.key.into());
            wanted.push(WantedKey { source, database, key, kind });
        }
    }

    /// Counts a command that was sent for the lock, and what it tells of the library.
    pub(super) fn count_command(&mut self, place: &LockPlace<'_>, trace: &LibraryTrace<'_>) {
        self.show_value(trace.value);
        self.with(&self.counted(place), |step| {
            let pattern = step.records.patterns.of(step.lock.pattern);
            if let Some(library) = pattern.add_command(&step.lock.name, trace) {
                count(&mut step.lock.libraries, library);
                step.look_for_two_recipes();
            }
        });
    }

    /// Where commands for a lock are counted.
    fn counted<'a>(&self, place: &LockPlace<'a>) -> LockPlace<'a> {
        match self.votes.is_member(place.group) {
            true => LockPlace { group: WHOLE_SET, ..*place },
            false => *place,
        }
    }

    /// Whether an owner with this value has the lock or may have it.
    pub(super) fn knows_owner(&self, place: &LockPlace<'_>, value: &[u8]) -> bool {
        let value = hash(value);
        self.lock_at(place).is_some_and(|lock| {
            let holds = lock.holds.iter().chain(&lock.lapsed).map(|hold| &hold.attempt);
            let waiters = lock.waiters.iter().map(|waiter| &waiter.last);
            let mut attempts = holds.chain(waiters).chain(&lock.candidates);
            attempts.any(|attempt| attempt.owner.value == value)
        })
    }

    /// Works on a lock, which is followed from now on.
    fn with<T>(&mut self, place: &LockPlace<'_>, work: impl FnOnce(&mut WatchStep<'_>) -> T) -> Option<T> {
        let followed = self.forget_idle(place);
        let watched_from_us = self.watched_from_us.get(&place.group).copied().unwrap_or(0);
        let is_member = self.votes.is_member(place.group);
        let is_paid = self.reads_paid_us < place.time_us + READS_AT_ONCE * READ_EVERY_US;
        let records = if is_member { &mut self.of_members } else { &mut self.records };
        let locks = self.locks.entry((place.group, place.database)).or_default();
        if !locks.contains_key(place.key) {
            if followed > 2 * LOCKS_MAX {
                return None;
            }
            let name: Box<str> = String::from_utf8_lossy(place.key).into();
            let pattern = records.patterns.number(&name);
            locks.insert(place.key.into(), Box::new(LockState::new(name, pattern)));
        }
        let mut step = WatchStep {
            options: self.options,
            lock: locks.get_mut(place.key)?,
            records,
            holds: &mut self.holds,
            watched_from_us,
            clients: &self.assembler.clients,
            values: &self.values,
            time_us: place.time_us,
            late_us: place.late_us,
            remembered_max: if followed > MANY_LOCKS { REMEMBERED_OF_MANY } else { REMEMBERED_MAX },
            may_read: self.wanted.is_some() && place.group != WHOLE_SET && is_paid,
            votes: Vec::new(),
        };
        step.advance();
        let done = work(&mut step);
        let votes = step.votes;
        if is_member {
            records.history.clear();
            votes.into_iter().for_each(|vote| self.vote(place, vote));
        }
        Some(done)
    }

    /// A member of a set has done something: what a majority does, the set does.
    fn vote(&mut self, place: &LockPlace<'_>, act: LockAct) {
        let majority = self.votes.add(place.group, place.key, &act, place.time_us);
        let Some(majority) = majority else { return };
        let place = self.counted(place);
        let LockAct::Attempt(attempt, AttemptOutcome::Granted) = act else { return self.change(&place, act) };
        let attempt = AcquireAttempt { time_us: majority.from_us, ..attempt };
        match majority.over_us {
            None => self.change(&place, LockAct::Attempt(attempt, AttemptOutcome::Granted)),
            Some(time_us) => {
                let place = LockPlace { time_us, ..place };
                self.with(&place, |step| step.add_past_hold(attempt));
            }
        }
    }

    /// Forgets locks that nobody holds or asks for, where many are followed: how many are now. It looks at
    /// each once for as many new names as were left the last time.
    fn forget_idle(&mut self, place: &LockPlace<'_>) -> usize {
        let count = |locks: &HashMap<(usize, u32), Locks>| locks.values().map(HashMap::len).sum();
        let followed: usize = count(&self.locks);
        if followed <= LOCKS_MAX || self.is_followed(place) {
            return followed;
        }
        self.names_until_look = self.names_until_look.saturating_sub(1);
        if self.names_until_look > 0 {
            return followed;
        }
        for locks in self.locks.values_mut() {
            locks.retain(|_, lock| {
                let lives = |until_us: Option<u64>| until_us.is_none_or(|until_us| until_us > place.time_us);
                lock.holds.iter().any(|hold| lives(hold.until_us))
                    || lock.candidates.iter().any(|attempt| lives(attempt.until_us))
            });
        }
        let left = count(&self.locks);
        self.names_until_look = left;
        left
    }

    pub(super) fn share(&mut self, place: &LockPlace<'_>) {
        self.with(place, |step| step.lock.is_shared = true);
    }

    /// A connection waits for a token of a list; whether it is one of a lock, only its push shows.
    pub(super) fn blocks_for_token(&mut self, place: &LockPlace<'_>, attempt: AcquireAttempt) {
        self.with(place, |step| {
            step.pattern().attempt(attempt.recipe, attempt.owner.client, 0);
            step.lock.is_shared = true;
            step.lock.candidates.retain(|one| !one.owner.is_of(attempt.owner.client));
            if step.lock.candidates.len() < REMEMBERED_MAX {
                step.lock.candidates.push(attempt);
            }
        });
    }

    /// Counts what commands for the lock at a place tell of its pattern.
    pub(super) fn count(&mut self, place: &LockPlace<'_>, add: impl FnOnce(&mut LockPattern)) {
        self.with(&self.counted(place), |step| add(step.pattern()));
    }

    /// Each of two databases has the other's keys. Clients stay in theirs, and miss what they held there.
    pub(super) fn swap(&mut self, group: usize, one: u32, other: u32, time_us: u64) {
        if one == other {
            return;
        }
        let databases = [one, other];
        let is_swapped = |of: usize, database: u32| of == group && databases.contains(&database);
        self.with_each(is_swapped, time_us, |step| step.swap_away());
        let mut locks = databases.map(|database| self.locks.remove(&(group, database)).unwrap_or_default());
        let mut missed = Vec::new();
        for (database, locks) in databases.into_iter().zip(&mut locks) {
            let promises =
                locks.iter_mut().filter_map(|(key, lock)| Some((key.clone(), lock.broken_promise.take()?)));
            missed.extend(promises.map(|(key, promise)| (database, key, promise)));
        }
        let [of_one, of_other] = locks;
        self.locks.extend([((group, one), of_other), ((group, other), of_one)]);
        for (database, key, (hold, how)) in missed {
            let place = LockPlace { group, database, key: &key, time_us, late_us: 0, client: 0 };
            self.with(&place, |step| {
                let is_back = step.lock.hold_of(&hold.attempt.owner).is_some();
                step.lock.broken_promise = (!is_back).then_some((hold, how));
            });
        }
    }

    /// All keys of a database, or of all, are gone.
    pub(super) fn lose(&mut self, group: usize, database: Option<u32>, time_us: u64, how: &'static str) {
        let is_lost = |of: usize, number: u32| of == group && database.is_none_or(|wanted| wanted == number);
        self.with_each(is_lost, time_us, |step| {
            step.lock.candidates.clear();
            for hold in std::mem::take(&mut step.lock.holds) {
                step.note(0, how, "{subject} while {owner} held it", hold.attempt.owner);
                step.break_promise(hold, FindingKind::LostByServer, how);
            }
            step.lock.mark_free(time_us);
        });
    }

    /// Works on every lock of these groups and databases that is followed.
    fn with_each(
        &mut self,
        is_wanted: impl Fn(usize, u32) -> bool,
        time_us: u64,
        work: impl Fn(&mut WatchStep<'_>),
    ) {
        let of = self.locks.iter().filter(|((group, database), _)| is_wanted(*group, *database));
        let keys = of.flat_map(|(of, locks)| locks.keys().map(|key| (*of, key.clone())));
        // The example of a finding is the same in every run.
        for ((group, database), key) in keys.sorted_unstable() {
            let place = LockPlace { group, database, key: &key, time_us, late_us: 0, client: 0 };
            self.with(&place, &work);
        }
    }

    /// What was seen, once all lines were taken.
    pub fn finish(mut self) -> WatchedTraffic {
        self.apply_all();
        self.with_each(|_, _| true, self.last_us, |step| step.end());
        // What is made of it needs memory too.
        drop((self.locks, self.votes, self.of_members));
        let WatchRecords { first_us, patterns, findings, mut history, history_is_cut } = self.records;
        history.sort_by_key(|line| line.t_ns);
        let seconds = self.last_us.saturating_sub(first_us) as f64 / 1e6;
        let mut report = patterns.report(seconds, findings);
        report.commands = self.commands;
        (report.over_time, report.held) = over_time(&history);
        report.seconds = seconds;
        WatchedTraffic { report, history, cut: history_is_cut, warnings: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_that_live_are_not_looked_at_for_each_command() {
        let (mut watcher, mut looked_at) = (Watcher::new(WatchOptions::default()), 0);
        let mut take = |number: u64, lease_s: u64| {
            let (second, micros) = (1_700_000_000 + number / 1_000_000, number % 1_000_000);
            let line = format!(
                "{second}.{micros:06} [0 127.0.0.1:5001] \"SET\" \"seen:{number}\" \"1\" \"NX\" \"EX\" \"{lease_s}\""
            );
            let count = |watcher: &Watcher| watcher.locks.values().map(HashMap::len).sum::<usize>();
            let (until_look, before) = (watcher.names_until_look, count(&watcher));
            watcher.line(0, &MonitorLine::parse(line.as_bytes()).unwrap());
            // A look begins the count of names anew.
            let has_looked = until_look <= 1 || watcher.names_until_look >= until_look;
            looked_at += if has_looked && before > LOCKS_MAX { before as u64 } else { 0 };
            (looked_at, count(&watcher))
        };
        let names = 3 * LOCKS_MAX as u64;
        let (looked_at, followed) = (0..names).map(|number| take(number, 3_600)).last().unwrap();
        assert!(looked_at <= 2 * names, "{looked_at}");
        assert!(followed > LOCKS_MAX && followed <= 2 * LOCKS_MAX + 1, "{followed}");
        // An hour later they have ended, and make room.
        let later = 4_000_000_000;
        let (looked_at, followed) = (later..later + names).map(|number| take(number, 3_600)).last().unwrap();
        assert!(looked_at <= 6 * names && followed <= 2 * LOCKS_MAX + 1, "{looked_at} {followed}");
    }
}
