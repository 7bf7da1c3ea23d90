//! Decides who has each lock, and when that changed: what units do to keys in, holds and findings out.

use std::collections::VecDeque;

use cluster_config::MonitorLine;
use hashbrown::{HashMap, HashSet};
use results::history::{Acquire, Call, End, Entry, Line};
use results::timeline::{HoldBar, Span, TimelineData};
use results::watch::{Certainty, WatchReport};

use super::finding_kinds::FindingKind;
use super::patterns::{Patterns, pattern_of};
use super::recipes::{self, Recipe, ScriptRole};
use super::units::{Assembler, Unit, hash};

/// A server ends a lease at a whole millisecond, and stamps a line when its command is over: an attempt this close to the end of a lease may have
/// come before it or after it.
const END_DOUBT_US: u64 = 2_000;
/// Locks that are followed at a time.
const LOCKS_MAX: usize = 50_000;
/// Lines of a history that are kept.
const HISTORY_MAX: usize = 40_000;
/// Lines that a finding may show.
const LINES_MAX: usize = 8;
/// Waiters, attempts and lapsed holds of one lock that are remembered.
const REMEMBERED_MAX: usize = 64;
/// As many releases by the connection that took the lock, and none by another, and connections tell holders apart.
pub(super) const STABLE_RELEASES: u64 = 5;

/// How a hold ended of which it is known at the end of the watch only whether connections tell holders apart.
const AS_CONNECTIONS_TELL: &str = "another deleted its key, as connections tell";

/// How traffic is watched.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchOptions {
    /// Values of locks are shown, not hashes of them.
    pub show_values: bool,
    /// Only effects are seen, as a replica gets them: no refusals, no clients, no options of SET.
    pub effects_only: bool,
    /// Lines have no times of their own, or only whole seconds: ends are not compared with leases more closely than this.
    pub time_doubt_us: u64,
}

/// What was seen of locks.
#[derive(Debug, Clone, Default)]
pub struct WatchedTraffic {
    /// Locks, findings and what may be locks.
    pub report: WatchReport,
    /// The holds as a history for the checkers, in order of time.
    pub history: Vec<Line>,
    /// The history is cut: there was more than is kept.
    pub cut: bool,
}

/// Who has a lock or asks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockOwner {
    pub(super) value: u64,
    /// The value alone tells owners apart; else their connections do.
    pub(super) is_unique: bool,
    pub(super) client: u32,
}

impl LockOwner {
    pub(super) fn of(value: &[u8], client: u32) -> Self {
        let is_number = value
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.');
        LockOwner {
            value: hash(value),
            is_unique: value.len() >= 8 && !is_number,
            client,
        }
    }

    fn is(&self, other: &LockOwner) -> bool {
        match self.is_unique || other.is_unique {
            true => self.value == other.value,
            false => self.client != 0 && self.client == other.client,
        }
    }
}

/// An attempt to take a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcquireAttempt {
    pub(super) recipe: &'static Recipe,
    pub(super) owner: LockOwner,
    pub(super) time_us: u64,
    /// When the lease ends that the server was asked for; `None`: never.
    pub(super) until_us: Option<u64>,
}

/// What is known of an attempt's outcome from the commands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// It depends on whether the key was there.
    ByKey,
    Granted,
    Refused,
    /// The key was written whatever it held.
    Overwritten,
}

/// A hold as the server promised it.
#[derive(Debug, Clone, Copy)]
struct ServerHold {
    attempt: AcquireAttempt,
    until_us: Option<u64>,
    number: u64,
    depth: u32,
    renewals: u32,
    /// It began before the watch.
    is_adopted: bool,
}

/// Somebody who was refused.
#[derive(Debug, Clone, Copy)]
struct RefusedWaiter {
    owner: LockOwner,
    first_us: u64,
    last: AcquireAttempt,
    tries: u64,
}

/// What is known of one lock.
#[derive(Debug, Default)]
struct LockState {
    name: Box<str>,
    pattern: usize,
    /// Whether it is known who had the lock when it first appeared.
    is_known: bool,
    holds: Vec<ServerHold>,
    /// Attempts of which one was granted, in order; which, is not known yet.
    candidates: Vec<AcquireAttempt>,
    /// From here on it is certain that the lock was free.
    free_from_us: u64,
    /// The last attempt since then that was refused: one of the candidates before it has the lock.
    refused_when_free_us: u64,
    /// A hold that ended before the end that the server had promised, and not by its owner; and how.
    broken_promise: Option<(ServerHold, &'static str)>,
    lapsed: VecDeque<ServerHold>,
    waiters: Vec<RefusedWaiter>,
    /// Several may hold it at once.
    is_shared: bool,
    /// The libraries and the forms of its key (a hash or not) by which it is taken, and how often.
    libraries: Vec<(&'static str, u64)>,
    forms: Vec<(&'static str, u64)>,
    /// Two of them were seen, and that was said.
    is_mixed: bool,
    lines: VecDeque<String>,
}

impl LockState {
    /// Keeps a hold whose holder may come back for it.
    fn remember_lapsed(&mut self, hold: ServerHold) {
        if self.lapsed.len() == REMEMBERED_MAX {
            self.lapsed.pop_front();
        }
        self.lapsed.push_back(hold);
    }
}

type Locks = HashMap<Box<[u8]>, LockState>;

/// A finding that was made as it happened.
#[derive(Debug)]
pub(super) struct SeenFinding {
    pub(super) kind: FindingKind,
    pub(super) pattern: usize,
    pub(super) certainty: Certainty,
    pub(super) lock: String,
    pub(super) count: u64,
    pub(super) worst_us: u64,
    pub(super) lines: Vec<String>,
    pub(super) picture: Option<TimelineData>,
    /// It holds only if connections turn out to tell holders apart.
    pub(super) is_pending: bool,
}

/// Follows locks through the commands of one or several servers.
#[derive(Debug)]
pub struct Watcher {
    options: WatchOptions,
    assembler: Assembler,
    /// Per group of servers and database.
    locks: HashMap<(usize, u32), Locks>,
    /// The group of each source: servers that follow each other hold the same locks.
    groups: Vec<usize>,
    pub(super) patterns: Patterns,
    pub(super) scripts: HashMap<u64, ScriptRole>,
    findings: Vec<SeenFinding>,
    history: Vec<Line>,
    history_cut: bool,
    holds: u64,
    commands: u64,
    first_us: u64,
    last_us: u64,
    /// Since when each group is watched without a gap.
    watched_from_us: HashMap<usize, u64>,
    /// By how much the clocks of servers of one group may differ.
    clock_doubt_us: u64,
    /// Values of owners by their hash, where they may be shown.
    values: HashMap<u64, String>,
}

/// Where a lock lives, and when something happened to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockPlace<'a> {
    pub(super) group: usize,
    pub(super) database: u32,
    pub(super) key: &'a [u8],
    pub(super) time_us: u64,
    pub(super) client: u32,
}

impl Watcher {
    /// Nothing seen yet.
    pub fn new(options: WatchOptions) -> Self {
        Watcher {
            options,
            assembler: Assembler::default(),
            locks: HashMap::new(),
            groups: Vec::new(),
            patterns: Patterns::default(),
            scripts: HashMap::new(),
            findings: Vec::new(),
            history: Vec::new(),
            history_cut: false,
            holds: 0,
            commands: 0,
            first_us: 0,
            last_us: 0,
            watched_from_us: HashMap::new(),
            clock_doubt_us: 0,
            values: HashMap::new(),
        }
    }

    /// Whether only effects are seen.
    pub fn sees_effects_only(&self) -> bool {
        self.options.effects_only
    }

    /// Says that a source is a server of this group, whose servers follow each other. Without a word all are of one.
    pub fn set_group(&mut self, source: usize, group: usize) {
        if self.groups.len() <= source {
            self.groups.resize(source + 1, 0);
        }
        self.groups[source] = group;
    }

    /// By how much the clocks of servers may differ.
    pub fn set_clock_doubt(&mut self, doubt_us: u64) {
        self.clock_doubt_us = self.clock_doubt_us.max(doubt_us);
    }

    /// Commands seen, those of scripts among them.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Takes a command of a source.
    pub fn line(&mut self, source: usize, line: &MonitorLine<'_>) {
        self.commands += 1;
        if self.first_us == 0 {
            self.first_us = line.time_us;
        }
        self.last_us = self.last_us.max(line.time_us);
        let group = self.groups.get(source).copied().unwrap_or(0);
        self.watched_from_us.entry(group).or_insert(line.time_us);
        for unit in self.assembler.line(source, line).into_iter().flatten() {
            self.unit(&unit);
        }
    }

    fn unit(&mut self, unit: &Unit) {
        let group = self.groups.get(unit.source).copied().unwrap_or(0);
        recipes::apply(self, group, unit);
    }

    /// Nothing is known of a source since its last line, as after a lost connection. What was held may be over.
    pub fn gap(&mut self, source: usize) {
        self.finish_units();
        self.assembler.forget(source);
        let group = self.groups.get(source).copied().unwrap_or(0);
        self.watched_from_us.remove(&group);
        for ((of, _), locks) in &mut self.locks {
            if *of == group {
                locks.clear();
            }
        }
    }

    fn finish_units(&mut self) {
        for unit in self.assembler.rest() {
            self.unit(&unit);
        }
    }

    pub(super) fn is_followed(&self, place: &LockPlace<'_>) -> bool {
        let locks = self.locks.get(&(place.group, place.database));
        locks.is_some_and(|locks| locks.contains_key(place.key))
    }

    /// Whether the holder has this value; `None`: it is not known who holds it.
    pub(super) fn holder_is(&self, place: &LockPlace<'_>, value: &[u8]) -> Option<bool> {
        let lock = self
            .locks
            .get(&(place.group, place.database))?
            .get(place.key)?;
        let value = hash(value);
        let held = lock
            .holds
            .iter()
            .any(|hold| hold.attempt.owner.value == value);
        let may_be = lock.candidates.iter().any(|one| one.owner.value == value);
        (held || lock.is_known && !may_be).then_some(held)
    }

    /// How the lock at a place is taken; `None`: it is not followed, or nobody has it.
    pub(super) fn held_by_recipe(&self, place: &LockPlace<'_>) -> Option<&'static Recipe> {
        let lock = self
            .locks
            .get(&(place.group, place.database))?
            .get(place.key)?;
        let holds = lock.holds.iter().map(|hold| hold.attempt.recipe);
        holds
            .chain(lock.candidates.iter().map(|one| one.recipe))
            .next()
    }

    /// Counts a command that was sent for the lock, and what it tells of the library.
    pub(super) fn count_command(
        &mut self,
        place: &LockPlace<'_>,
        trace: &super::patterns::LibraryTrace<'_>,
    ) {
        if self.options.show_values && !trace.value.is_empty() && self.values.len() < LOCKS_MAX {
            let shown = &trace.value[..trace.value.len().min(80)];
            let shown = String::from_utf8_lossy(shown).into_owned();
            self.values.entry(hash(trace.value)).or_insert(shown);
        }
        self.with(place, |step, lock| {
            let pattern = step.patterns.of(lock.pattern);
            if let Some(library) = pattern.add_command(&lock.name, trace) {
                count(&mut lock.libraries, library);
                step.look_for_two_recipes(lock);
            }
        });
    }

    /// Whether an owner with this value has the lock or may have it.
    pub(super) fn knows_owner(&self, place: &LockPlace<'_>, value: &[u8]) -> bool {
        let value = hash(value);
        let locks = self.locks.get(&(place.group, place.database));
        locks
            .and_then(|locks| locks.get(place.key))
            .is_some_and(|lock| {
                let holds = lock
                    .holds
                    .iter()
                    .chain(&lock.lapsed)
                    .map(|hold| hold.attempt.owner);
                let waiters = lock.waiters.iter().map(|waiter| waiter.owner);
                let candidates = lock.candidates.iter().map(|attempt| attempt.owner);
                holds
                    .chain(waiters)
                    .chain(candidates)
                    .any(|owner| owner.value == value)
            })
    }

    /// Works on a lock, which is followed from now on.
    fn with<T>(
        &mut self,
        place: &LockPlace<'_>,
        work: impl FnOnce(&mut WatchStep<'_>, &mut LockState) -> T,
    ) -> Option<T> {
        let followed: usize = self.locks.values().map(HashMap::len).sum();
        if followed > LOCKS_MAX {
            self.forget_idle(place.time_us);
        }
        let watched_from_us = self.watched_from_us.get(&place.group).copied().unwrap_or(0);
        let locks = self.locks.entry((place.group, place.database)).or_default();
        if !locks.contains_key(place.key) {
            if followed > 2 * LOCKS_MAX {
                return None;
            }
            let name: Box<str> = String::from_utf8_lossy(place.key).into();
            let pattern = self.patterns.number(&pattern_of(&name));
            self.patterns.of(pattern).add_name(&name);
            let state = LockState {
                name,
                pattern,
                ..LockState::default()
            };
            locks.insert(place.key.into(), state);
        }
        let lock = locks.get_mut(place.key)?;
        let mut step = WatchStep {
            options: self.options,
            patterns: &mut self.patterns,
            findings: &mut self.findings,
            history: &mut self.history,
            history_cut: &mut self.history_cut,
            holds: &mut self.holds,
            first_us: self.first_us,
            watched_from_us,
            clock_doubt_us: self.clock_doubt_us,
            clients: &self.assembler.clients,
            values: &self.values,
            time_us: place.time_us,
        };
        step.advance(lock);
        Some(work(&mut step, lock))
    }

    /// Makes room: locks that nobody holds or asks for.
    fn forget_idle(&mut self, now_us: u64) {
        for locks in self.locks.values_mut() {
            locks.retain(|_, lock| {
                let lives =
                    |until_us: Option<u64>| until_us.is_none_or(|until_us| until_us > now_us);
                lock.holds.iter().any(|hold| lives(hold.until_us))
                    || lock
                        .candidates
                        .iter()
                        .any(|attempt| lives(attempt.until_us))
            });
        }
    }

    pub(super) fn attempt(
        &mut self,
        place: &LockPlace<'_>,
        attempt: AcquireAttempt,
        outcome: AttemptOutcome,
    ) {
        self.with(place, |step, lock| step.attempt(lock, attempt, outcome));
    }

    pub(super) fn share(&mut self, place: &LockPlace<'_>) {
        self.with(place, |_, lock| lock.is_shared = true);
    }

    /// The lease now ends at `until_us`. `owner`: who a script or a comparison names; `None`: the holder, whichever it is. `was_done`: `None` where that depends on
    /// whether it is held.
    pub(super) fn renew(
        &mut self,
        place: &LockPlace<'_>,
        change: HoldChange,
        until_us: Option<u64>,
    ) {
        self.with(place, |step, lock| step.renew(lock, &change, until_us));
    }

    pub(super) fn release(&mut self, place: &LockPlace<'_>, change: HoldChange) {
        self.with(place, |step, lock| step.release(lock, &change));
    }

    /// A connection waits for a token of a list; whether it is one of a lock, only its push shows.
    pub(super) fn blocks_for_token(&mut self, place: &LockPlace<'_>, attempt: AcquireAttempt) {
        self.with(place, |step, lock| {
            step.patterns
                .of(lock.pattern)
                .add_recipe(attempt.recipe, attempt.owner.client);
            lock.is_shared = true;
            lock.candidates
                .retain(|one| one.owner.client != attempt.owner.client);
            if lock.candidates.len() < REMEMBERED_MAX {
                lock.candidates.push(attempt);
            }
        });
    }

    /// A release that came after a read of its own compared in the client, in two steps.
    pub(super) fn note_read_before(&mut self, place: &LockPlace<'_>, follows_read: bool) {
        self.with(place, |step, lock| {
            step.patterns.of(lock.pattern).reads_before_delete += u64::from(follows_read)
        });
    }

    /// Counts a script by whether its text was sent with it.
    pub(super) fn count_script(&mut self, place: &LockPlace<'_>, is_whole: bool, is_script: bool) {
        self.with(place, |step, lock| {
            let pattern = step.patterns.of(lock.pattern);
            pattern.scripts += u64::from(is_script);
            pattern.whole_scripts += u64::from(is_whole);
        });
    }

    /// All keys of a database, or of all, are gone.
    pub(super) fn flush(&mut self, group: usize, database: Option<u32>, time_us: u64) {
        let keys: Vec<(u32, Box<[u8]>)> = (self.locks.iter())
            .filter(|((of, number), _)| {
                *of == group && database.is_none_or(|wanted| wanted == *number)
            })
            .flat_map(|((_, number), locks)| locks.keys().map(|key| (*number, key.clone())))
            .collect();
        for (database, key) in keys {
            let place = LockPlace {
                group,
                database,
                key: &key,
                time_us,
                client: 0,
            };
            self.with(&place, |step, lock| {
                lock.candidates.clear();
                for hold in std::mem::take(&mut lock.holds) {
                    step.note(
                        lock,
                        format!("FLUSH while {} held it", step.owner(&hold.attempt.owner)),
                    );
                    step.break_promise(
                        lock,
                        hold,
                        FindingKind::LostByServer,
                        "it was flushed away",
                    );
                }
                lock.is_known = true;
                lock.free_from_us = time_us;
            });
        }
    }

    /// What was seen, once all lines were taken.
    pub fn finish(mut self) -> WatchedTraffic {
        self.finish_units();
        let now_us = self.last_us;
        let mut end = now_us;
        let groups: Vec<(usize, u32)> = self.locks.keys().copied().collect();
        for (group, database) in groups {
            let keys: Vec<Box<[u8]>> = self.locks[&(group, database)].keys().cloned().collect();
            for key in keys {
                let place = LockPlace {
                    group,
                    database,
                    key: &key,
                    time_us: now_us,
                    client: 0,
                };
                self.with(&place, |step, lock| step.end(lock));
            }
        }
        end = end.max(self.first_us);
        self.history.sort_by_key(|line| line.t_ns);
        let seconds = (end - self.first_us) as f64 / 1e6;
        let mut report = self.patterns.report(seconds, self.findings);
        report.commands = self.commands;
        report.seconds = seconds;
        WatchedTraffic {
            report,
            history: self.history,
            cut: self.history_cut,
        }
    }
}

/// A renewal or a release.
#[derive(Debug, Clone, Copy)]
pub(super) struct HoldChange {
    pub(super) owner: Option<LockOwner>,
    pub(super) client: u32,
    /// Whether it asked first whose the lock is, in the same step.
    pub(super) is_checked: bool,
    /// Whether it took effect; `None`: if the key was there.
    pub(super) was_done: Option<bool>,
    /// One level of a re-entrant hold is given back, not all.
    pub(super) one_level: bool,
}

/// One thing that happens to one lock.
struct WatchStep<'a> {
    options: WatchOptions,
    patterns: &'a mut Patterns,
    findings: &'a mut Vec<SeenFinding>,
    history: &'a mut Vec<Line>,
    history_cut: &'a mut bool,
    holds: &'a mut u64,
    first_us: u64,
    watched_from_us: u64,
    clock_doubt_us: u64,
    clients: &'a super::units::ClientNames,
    values: &'a HashMap<u64, String>,
    time_us: u64,
}

impl WatchStep<'_> {
    fn doubt_us(&self) -> u64 {
        END_DOUBT_US + self.clock_doubt_us + self.options.time_doubt_us
    }

    fn owner(&self, owner: &LockOwner) -> String {
        if let Some(value) = self.values.get(&owner.value) {
            return value.clone();
        }
        match owner.is_unique || owner.client == 0 {
            true => format!("#{:08x}", owner.value as u32),
            false => self.clients.name(owner.client).to_owned(),
        }
    }

    fn note(&self, lock: &mut LockState, what: String) {
        self.note_of(lock, self.time_us, 0, &what);
    }

    fn note_of(&self, lock: &mut LockState, time_us: u64, client: u32, what: &str) {
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

    fn found(&mut self, lock: &LockState, kind: FindingKind, certainty: Certainty, worst_us: u64) {
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
    fn picture(&self, lock: &LockState, kind: FindingKind) -> Option<TimelineData> {
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

    fn record(&mut self, time_us: u64, entry: Entry) {
        if self.history.len() >= HISTORY_MAX {
            *self.history_cut = true;
            return;
        }
        let t_ns = time_us.saturating_sub(self.first_us) * 1_000;
        self.history.push(Line { t_ns, entry });
    }

    /// Ends what time has ended.
    fn advance(&mut self, lock: &mut LockState) {
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

    fn lapse(&mut self, lock: &mut LockState, hold: ServerHold) {
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

    fn attempt(&mut self, lock: &mut LockState, attempt: AcquireAttempt, outcome: AttemptOutcome) {
        let pattern = self.patterns.of(lock.pattern);
        pattern.attempts += 1;
        pattern.add_recipe(attempt.recipe, attempt.owner.client);
        count(&mut lock.forms, attempt.recipe.key_form());
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
            let may_be_over = hold
                .until_us
                .is_some_and(|until_us| until_us <= self.time_us + doubt_us);
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
    fn look_for_two_recipes(&mut self, lock: &mut LockState) {
        // A value may look like another library's once.
        let often = |ways: &[(&'static str, u64)]| -> Vec<&'static str> {
            let often = ways.iter().filter(|(_, count)| *count >= 3);
            often.map(|(name, _)| *name).collect()
        };
        let (libraries, forms) = (often(&lock.libraries), often(&lock.forms));
        let ways = if forms.len() > 1 { forms } else { libraries };
        if ways.len() > 1 && !lock.is_mixed {
            lock.is_mixed = true;
            self.note(lock, format!("taken by {}", ways.join(" and ")));
            self.found(lock, FindingKind::TwoRecipes, Certainty::Sure, 0);
        }
    }

    fn add_candidate(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
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
    fn settle(&mut self, lock: &mut LockState) {
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
    fn decide(&mut self, lock: &mut LockState, place: usize) {
        let all = std::mem::take(&mut lock.candidates);
        for (index, one) in all.into_iter().enumerate() {
            match index == place {
                true => self.grant(lock, one),
                false => self.refused(lock, one),
            }
        }
    }

    fn note_attempt(
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

    fn refused(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
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

    fn granted_for_sure(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        lock.is_known = true;
        if let Some(place) = lock
            .candidates
            .iter()
            .rposition(|one| one.owner.is(&attempt.owner))
        {
            self.decide(lock, place);
        }
        lock.candidates.clear();
        if let Some(hold) = lock
            .holds
            .iter_mut()
            .find(|hold| hold.attempt.owner.is(&attempt.owner))
        {
            hold.depth += 1;
            hold.until_us = attempt.until_us;
            return;
        }
        self.make_room(lock, &attempt, "the server had lost it");
        self.grant(lock, attempt);
    }

    /// The server has granted it: what was held there is over, whether anybody saw its end or not.
    fn make_room(&mut self, lock: &mut LockState, attempt: &AcquireAttempt, how: &'static str) {
        if lock.is_shared {
            return;
        }
        for hold in std::mem::take(&mut lock.holds) {
            let may_be_over = hold
                .until_us
                .is_some_and(|until_us| until_us <= attempt.time_us + self.doubt_us());
            match may_be_over {
                true => self.lapse(lock, hold),
                false => self.break_promise(lock, hold, FindingKind::LostByServer, how),
            }
        }
    }

    fn overwritten(&mut self, lock: &mut LockState, attempt: AcquireAttempt) {
        lock.is_known = true;
        lock.candidates.clear();
        let doubt_us = self.doubt_us();
        if let Some(hold) = lock
            .holds
            .iter_mut()
            .find(|hold| hold.attempt.owner.is(&attempt.owner))
        {
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
            match hold
                .until_us
                .is_some_and(|until_us| until_us <= attempt.time_us + doubt_us)
            {
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

    fn grant(&mut self, lock: &mut LockState, mut attempt: AcquireAttempt) {
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
                self.note(lock, format!("two holders: granted {end}; {how}"));
                let length_us = before.until_us.map_or(0, |end_us| end_us - attempt.time_us);
                self.found(lock, FindingKind::Overlap, Certainty::Violated, length_us);
                if how == AS_CONNECTIONS_TELL {
                    lock.lines.pop_back();
                }
            }
        }
    }

    fn end_record(&mut self, hold: &ServerHold, time_us: u64) {
        let id = hold.number * 4 + 2;
        let call = Call::Release {
            grant: grant_name(hold.number),
        };
        self.record(time_us, Entry::Call { id, call });
        self.record(
            time_us,
            Entry::End {
                id,
                end: End::done(),
            },
        );
    }

    /// A hold is over before the end that the server had promised.
    fn break_promise(
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
    fn prove(&mut self, lock: &mut LockState, owner: &LockOwner) -> Option<usize> {
        let held = |lock: &LockState| {
            lock.holds
                .iter()
                .position(|hold| hold.attempt.owner.is(owner))
        };
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
    fn adopt(
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
    fn came_too_late(&mut self, lock: &mut LockState, owner: &LockOwner, what: &str, client: u32) {
        if let Some(place) = lock
            .holds
            .iter()
            .position(|hold| hold.attempt.owner.is(owner))
        {
            let hold = lock.holds.remove(place);
            self.note_of(
                lock,
                self.time_us,
                client,
                &format!("{what} by {}: it is not there", self.owner(owner)),
            );
            let may_be_over = hold
                .until_us
                .is_some_and(|until_us| until_us <= self.time_us + self.doubt_us());
            match may_be_over || hold.is_adopted {
                true => self.lapse(lock, hold),
                false => self.break_promise(
                    lock,
                    hold,
                    FindingKind::LostByServer,
                    "the server had lost it",
                ),
            }
            return;
        }
        if let Some((before, _)) = &lock.broken_promise
            && before.attempt.owner.is(owner)
        {
            self.note_of(
                lock,
                self.time_us,
                client,
                &format!("{what} by {}, who thinks to have it", self.owner(owner)),
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
            self.note_of(
                lock,
                self.time_us,
                client,
                &format!("{what} by {}, whose lease has ended", self.owner(owner)),
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

    fn renew(&mut self, lock: &mut LockState, change: &HoldChange, until_us: Option<u64>) {
        if let Some(owner) = &change.owner {
            if change.was_done == Some(false) {
                return self.came_too_late(lock, owner, "renewal", change.client);
            }
            let place = self.prove(lock, owner);
            let place = place.or_else(|| {
                (!lock.is_known || lock.holds.is_empty() && change.is_checked)
                    .then(|| self.adopt(lock, *owner, until_us, &recipes::RECIPES[0]))
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

    fn extended_by_another(
        &mut self,
        lock: &mut LockState,
        change: &HoldChange,
        until_us: Option<u64>,
    ) {
        lock.holds[0].until_us = until_us;
        self.note_of(
            lock,
            self.time_us,
            change.client,
            "renews the lock of another",
        );
        self.found(lock, FindingKind::ExtendedByAnother, Certainty::Sure, 0);
    }

    fn renewed(&mut self, lock: &mut LockState, place: usize, until_us: Option<u64>) {
        let hold = &mut lock.holds[place];
        let sets_first_end =
            hold.attempt.until_us.is_none() && hold.renewals == 0 && hold.until_us.is_none();
        hold.until_us = until_us;
        let (hold, owner) = (*hold, self.owner(&hold.attempt.owner));
        let lease_ms = until_us.map_or(0, |until_us| until_us.saturating_sub(self.time_us) / 1000);
        self.note_of(
            lock,
            self.time_us,
            hold.attempt.owner.client,
            &format!("renewal by {owner} for {lease_ms} ms"),
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
            self.record(self.time_us, Entry::Call { id, call });
            self.record(
                self.time_us,
                Entry::End {
                    id,
                    end: End::done(),
                },
            );
        }
    }

    fn release(&mut self, lock: &mut LockState, change: &HoldChange) {
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
            let is_over = hold
                .until_us
                .is_some_and(|until_us| until_us <= self.time_us + doubt_us);
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

    fn released_by_another(
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
        self.note_of(lock, self.time_us, change.client, &words);
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

    fn released(&mut self, lock: &mut LockState, place: usize, change: &HoldChange) {
        let hold = lock.holds.remove(place);
        self.note_of(
            lock,
            self.time_us,
            change.client,
            &format!("release by {}", self.owner(&hold.attempt.owner)),
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
                self.end_record(&hold, self.time_us);
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
    fn end(&mut self, lock: &mut LockState) {
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

fn count(ways: &mut Vec<(&'static str, u64)>, name: &'static str) {
    match ways.iter_mut().find(|(known, _)| *known == name) {
        Some((_, count)) => *count += 1,
        None => ways.push((name, 1)),
    }
}

fn grant_name(number: u64) -> String {
    format!("g{number}")
}

/// Distinct things, counted up to a bound.
pub(super) type Distinct = HashSet<u64>;
