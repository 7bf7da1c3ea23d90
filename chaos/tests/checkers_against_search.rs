//! Compares two judgements of random small histories of a mutex: the sweep's and a search's.
//!
//! The search asks whether any order of the operations is one that a mutex allows: it tries every operation
//! that may come next (nothing that returned earlier is left) in every state, and remembers what it tried
//! (Wing and Gong, with Lowe's memory). It shares no code and no idea with the sweep. Stamps differ, so that
//! no tie needs a rule.
//!
//! What needs leases, re-entries and tokens is compared with a model of a re-entrant lock, which no checker
//! may convict, and with the rule of tokens asked of each pair of grants.

use std::collections::BTreeMap;

use chaos::checkers::{CheckOptions, Finding, Record, belief, check, confirmed, contract, effect};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use results::history::{Acquire, Call, End, Entry, Event, History, Line};
use results::verdict::State;

/// Per test; the four of them run side by side.
const HISTORIES: u32 = 50_000;

/// Per test of leases and tokens, where a history is longer.
const LONGER: u32 = 10_000;

/// One operation for the search. Operations that certainly did nothing are left out before.
#[derive(Clone, Copy)]
struct Op {
    owner: u8,
    acquire: bool,
    called: u64,
    /// `u64::MAX`: it may have happened at any time since, or never.
    returned: u64,
    /// An acquire whose answer was not seen.
    optional: bool,
}

/// Whether a mutex could have answered so.
fn is_mutex(ops: &[Op]) -> bool {
    // One place per set of operations done and holder: none, or one of three owners.
    let mut seen = vec![false; 4 << ops.len()];
    let mut stack = vec![(0u32, None::<u8>)];
    let must: u32 = (0..).zip(ops).filter(|(_, op)| op.returned < u64::MAX).map(|(n, _)| 1 << n).sum();
    while let Some((done, holder)) = stack.pop() {
        if done & must == must {
            return true;
        }
        let place = 4 * done as usize + holder.map_or(0, |owner| 1 + usize::from(owner));
        if std::mem::replace(&mut seen[place], true) {
            continue;
        }
        let left = || (0..).zip(ops).filter(|(n, _)| done & (1 << n) == 0);
        let first_return = left().map(|(_, op)| op.returned).min().unwrap_or(u64::MAX);
        for (n, op) in left().filter(|(_, op)| op.called < first_return) {
            let after = match (op.acquire, holder) {
                (true, None) => Some(op.owner),
                (false, Some(owner)) if owner == op.owner => None,
                // A release of a lock that an unknown acquire never got does nothing.
                (false, other) if op.optional => other,
                _ => continue,
            };
            stack.push((done | 1 << n, after));
        }
    }
    false
}

/// A random history: each owner acquires and releases in turn, at random times, some answers missing.
fn random(rng: &mut ChaCha8Rng) -> (Vec<Op>, History) {
    let owners = rng.random_range(2..=3u8);
    let mut stamps: Vec<u64> = (1..=24).collect();
    stamps.shuffle(rng);
    let mut ops = Vec::new();
    let mut lines = Vec::new();
    let mut id = 0;
    for owner in 0..owners {
        let cycles = rng.random_range(1..=2usize);
        let mut times: Vec<u64> = stamps.split_off(stamps.len() - 4 * cycles);
        times.sort_unstable();
        for (cycle, t) in times.chunks(4).enumerate() {
            id += 2;
            let grant = format!("g{owner}-{cycle}");
            let unknown_acquire = rng.random_ratio(1, 6);
            let unknown_release = rng.random_ratio(1, 6);
            lines.push(call(t[0], id, owner));
            if unknown_acquire {
                ops.push(Op { owner, acquire: true, called: t[0], returned: u64::MAX, optional: true });
                lines.push(end(t[1], id, unknown()));
                // A life that does not know what it holds ends here: nothing follows from this owner.
                break;
            }
            ops.push(Op { owner, acquire: true, called: t[0], returned: t[1], optional: false });
            lines.push(end(t[1], id, ok(Some(grant.clone()), None, None)));
            let release = Entry::Call { id: id + 1, call: Call::Release { grant } };
            lines.push(Line { t_ns: t[2], entry: release });
            if unknown_release {
                ops.push(Op { owner, acquire: false, called: t[2], returned: u64::MAX, optional: false });
                lines.push(end(t[3], id + 1, unknown()));
                break;
            }
            ops.push(Op { owner, acquire: false, called: t[2], returned: t[3], optional: false });
            lines.push(end(t[3], id + 1, End::done()));
        }
    }
    lines.sort_by_key(|line| line.t_ns);
    (ops, History::from_lines(lines))
}

fn call(t_ns: u64, id: u64, owner: u8) -> Line {
    Line { t_ns, entry: Entry::Call { id, call: asked(u64::from(owner), "plain", None) } }
}

fn asked(client: u64, kind: &str, lease_ms: Option<u64>) -> Call {
    Call::Acquire(Acquire {
        client: format!("c{client}"),
        owner: "t0".to_owned(),
        lock: Some("a".to_owned()),
        locks: None,
        kind: kind.to_owned(),
        lease_ms,
        wait_ms: None,
        permits: None,
    })
}

fn ok(grant: Option<String>, token: Option<u64>, sent_ns: Option<u64>) -> End {
    End::Ok { grant, token, sent_ns, returned_ns: None, lease_ms: None, at: None }
}

fn unknown() -> End {
    End::Unknown { error: None, grant: None }
}

fn end(t_ns: u64, id: u64, end: End) -> Line {
    Line { t_ns, entry: Entry::End { id, end } }
}

fn bare() -> CheckOptions<'static> {
    CheckOptions { floors: None, ..CheckOptions::default() }
}

#[test]
fn the_sweep_agrees_with_an_exhaustive_search_seed_7() {
    agrees(7);
}

#[test]
fn the_sweep_agrees_with_an_exhaustive_search_seed_8() {
    agrees(8);
}

#[test]
fn the_sweep_agrees_with_an_exhaustive_search_seed_9() {
    agrees(9);
}

#[test]
fn the_sweep_agrees_with_an_exhaustive_search_seed_10() {
    agrees(10);
}

fn agrees(seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut illegal = 0;
    for n in 0..HISTORIES {
        let (ops, history) = random(&mut rng);
        let clean = is_mutex(&ops);
        illegal += u32::from(!clean);
        // Belief alone: the other classes would only cost time here.
        let findings = belief::check(&Record::of(&history), &bare());
        let swept = findings.iter().all(|finding| finding.count == 0);
        assert_eq!(swept, clean, "history {n}: {:#?}", history.lines);
    }
    // Both sides of the question were asked often.
    assert!(illegal > HISTORIES / 20 && illegal < HISTORIES - HISTORIES / 20, "{illegal}");
}

/// One cycle of a clean history, in milliseconds: called, granted, released, answered.
#[derive(Clone)]
struct Cycle {
    client: u64,
    times: [u64; 4],
    token: u64,
    released: bool,
}

/// A clean fenced history: one holder after the other, tokens rising.
fn clean(rng: &mut ChaCha8Rng) -> Vec<Cycle> {
    let mut now = 10;
    let mut token = rng.random_range(0..100);
    let mut before = 9;
    let mut cycles = Vec::new();
    for _ in 0..rng.random_range(4..12) {
        let mut step = |most: u64| {
            now += 1 + rng.next_u64() % most;
            now
        };
        let times = [step(9), step(9), step(20), step(9)];
        let client = (before + 1 + rng.next_u64() % 2) % 3;
        before = client;
        token += 1 + rng.next_u64() % 3;
        cycles.push(Cycle { client, times, token, released: true });
    }
    cycles
}

fn written(cycles: &[Cycle]) -> History {
    let mut lines = BTreeMap::new();
    for (n, cycle) in (0u64..).zip(cycles) {
        let ns = |place: usize| cycle.times[place] * 1_000_000;
        let grant = format!("g{n}");
        let write = Event::Write {
            lock: "a".to_owned(),
            grant: grant.clone(),
            token: Some(cycle.token),
            accepted: true,
            read: None,
            wrote: None,
        };
        let call = asked(cycle.client, "fenced", Some(60_000));
        let mut put = |t_ns: u64, entry| lines.insert((t_ns, n, lines.len()), Line { t_ns, entry });
        put(ns(0), Entry::Call { id: 2 * n, call });
        put(ns(1), Entry::End { id: 2 * n, end: ok(Some(grant.clone()), Some(cycle.token), None) });
        put(ns(1) + 1, Entry::Event(write));
        if cycle.released {
            put(ns(2), Entry::Call { id: 2 * n + 1, call: Call::Release { grant } });
            put(ns(3), Entry::End { id: 2 * n + 1, end: End::done() });
        }
    }
    History::from_lines(lines.into_values().collect())
}

/// Each way of spoiling a clean history, and the class that must convict it.
#[test]
fn every_mutation_of_a_clean_history_is_convicted() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for round in 0..2_000 {
        let cycles = clean(&mut rng);
        let verdicts = check(&written(&cycles), &bare()).verdicts;
        for verdict in
            [&verdicts.belief, &verdicts.contract, &verdicts.confirmed, &verdicts.effect, &verdicts.liveness]
        {
            assert_eq!(verdict.state, State::Clean, "round {round}: {verdict:#?}");
        }
        let at = rng.random_range(1..cycles.len());

        let mut early = cycles.clone();
        early[at].times[1] = early[at - 1].times[2] - 1;
        early[at].times[0] = early[at].times[0].min(early[at].times[1] - 1);
        let verdicts = check(&written(&early), &bare()).verdicts;
        for verdict in [&verdicts.belief, &verdicts.contract, &verdicts.confirmed] {
            assert_eq!(verdict.state, State::Violated, "granted before the release, round {round}");
        }

        let mut kept = cycles.clone();
        kept[at - 1].released = false;
        let verdicts = check(&written(&kept), &bare()).verdicts;
        assert_eq!(verdicts.belief.state, State::Violated, "release dropped, round {round}");
        assert_eq!(verdicts.contract.state, State::Violated, "release dropped, round {round}");

        let mut doubled = cycles.clone();
        doubled[at].token = doubled[at - 1].token;
        let verdicts = check(&written(&doubled), &bare()).verdicts;
        assert_eq!(verdicts.effect.state, State::Violated, "token doubled, round {round}");

        // Owners swapped: the release of each of two neighbours names the other's grant.
        let mut swapped = cycles;
        let (a, b) = (swapped[at - 1].times, swapped[at].times);
        swapped[at - 1].times = [a[0], a[1], b[2], b[3]];
        swapped[at].times = [b[0], b[1], b[1] + 1, b[1] + 1];
        let verdicts = check(&written(&swapped), &bare()).verdicts;
        assert_eq!(verdicts.belief.state, State::Violated, "owners swapped, round {round}");
    }
}

/// A re-entrant lock with leases and tokens. Each hold is given back by its name.
struct Model {
    lease: u64,
    /// A re-entry renews the lease: else the lock is broken.
    renews: bool,
    owner: usize,
    holds: Vec<String>,
    until: u64,
    token: u64,
}

impl Model {
    fn is_held(&self, now: u64) -> bool {
        !self.holds.is_empty() && now <= self.until
    }

    fn acquire(&mut self, now: u64, owner: usize, grant: &str) -> Option<u64> {
        let is_held = self.is_held(now);
        if is_held && self.owner != owner {
            return None;
        }
        if !is_held {
            self.holds.clear();
            self.token += 1;
            self.owner = owner;
        }
        if !is_held || self.renews {
            self.until = now + self.lease;
        }
        self.holds.push(grant.to_owned());
        Some(self.token)
    }

    fn finds(&self, now: u64, grant: &str) -> bool {
        self.is_held(now) && self.holds.iter().any(|hold| hold == grant)
    }

    fn extend(&mut self, now: u64, grant: &str) -> bool {
        let found = self.finds(now, grant);
        if found {
            self.until = now + self.lease;
        }
        found
    }

    fn release(&mut self, now: u64, grant: &str) -> bool {
        let found = self.finds(now, grant);
        self.holds.retain(|hold| hold != grant);
        found
    }
}

/// An operation of an owner between its call and its answer.
enum Pending {
    /// When it was called, when it was last sent, and the token that it got.
    Acquire(u64, Option<u64>, Option<u64>),
    /// Of one of the owner's grants, and whether it found it.
    Extend(usize, Option<bool>),
    Release(usize, Option<bool>),
}

/// One grant of a lock as its owner knows it, in milliseconds.
#[derive(Clone, Copy)]
struct Hold {
    owner: usize,
    /// When it was sent, where that is said; else when it was called.
    from: u64,
    told: u64,
    /// The call of its release; the answer that it is not held.
    until: u64,
}

/// What three owners do with a model, a step of one of them in each millisecond: a call, a sending, an
/// arrival, or an answer.
fn modelled(rng: &mut ChaCha8Rng, renews: bool) -> (u64, Vec<Hold>, History) {
    const STEPS: u64 = 70;
    let mut model =
        Model { lease: rng.random_range(4..24), renews, owner: 0, holds: Vec::new(), until: 0, token: 0 };
    let says_sent = rng.random_bool(0.5);
    let ns = |ms: u64| ms * 1_000_000;
    let mut pending: [Option<(u64, Pending)>; 3] = [None, None, None];
    let mut own: [Vec<usize>; 3] = Default::default();
    let mut holds: Vec<Hold> = Vec::new();
    let mut lines = Vec::new();
    let name = |id: u64| format!("g{id}");
    let mut names: Vec<String> = Vec::new();
    for now in 1..=STEPS {
        let owner = rng.random_range(0..3usize);
        let called = |call| Line { t_ns: ns(now), entry: Entry::Call { id: now, call } };
        let Some((id, operation)) = &mut pending[owner] else {
            let operation = if own[owner].is_empty() || rng.random_ratio(2, 5) {
                let call = asked(owner as u64, "fenced", Some(model.lease));
                lines.push(called(call));
                Pending::Acquire(now, None, None)
            } else {
                let at = rng.random_range(0..own[owner].len());
                let hold = own[owner][at];
                let grant = names[hold].clone();
                if rng.random_ratio(1, 4) {
                    lines.push(called(Call::Extend { grant, lease_ms: model.lease, by: None }));
                    Pending::Extend(hold, None)
                } else {
                    own[owner].remove(at);
                    holds[hold].until = now;
                    lines.push(called(Call::Release { grant }));
                    Pending::Release(hold, None)
                }
            };
            pending[owner] = Some((now, operation));
            continue;
        };
        let answer = match operation {
            Pending::Acquire(_, sent @ None, _) => {
                *sent = Some(now);
                continue;
            }
            Pending::Acquire(_, sent, token @ None) => {
                *token = model.acquire(now, owner, &name(*id));
                if token.is_none() {
                    *sent = None;
                }
                continue;
            }
            Pending::Acquire(called, Some(sent), Some(token)) => {
                // A library refuses a grant that is over.
                if *sent + model.lease < now {
                    End::Failed { error: None }
                } else {
                    own[owner].push(holds.len());
                    names.push(name(*id));
                    holds.push(Hold {
                        owner,
                        from: if says_sent { *sent } else { *called },
                        told: now,
                        until: STEPS,
                    });
                    ok(Some(name(*id)), Some(*token), says_sent.then(|| ns(*sent)))
                }
            }
            Pending::Extend(hold, found @ None) => {
                *found = Some(model.extend(now, &names[*hold]));
                continue;
            }
            Pending::Release(hold, found @ None) => {
                *found = Some(model.release(now, &names[*hold]));
                continue;
            }
            Pending::Extend(hold, Some(false)) => {
                holds[*hold].until = now;
                own[owner].retain(|own| own != hold);
                End::NotHeld
            }
            Pending::Release(..) if rng.random_ratio(1, 6) => unknown(),
            Pending::Release(_, Some(false)) => End::NotHeld,
            Pending::Extend(..) | Pending::Release(..) => End::done(),
        };
        lines.push(end(ns(now), *id, answer));
        pending[owner] = None;
    }
    (model.lease, holds, History::from_lines(lines))
}

/// Pairs of holds of different owners that were promised one time, where a re-entry surely renewed the first.
fn broken_promises(lease: u64, holds: &[Hold]) -> usize {
    let renewed = |outer: &Hold| {
        let entered = holds.iter().filter(|inner| {
            let in_time = outer.from <= inner.from && inner.told <= outer.from + lease;
            inner.owner == outer.owner && in_time
        });
        let last = entered.map(|inner| inner.from).max().unwrap_or(outer.from);
        (outer.told, outer.until.min(last + lease))
    };
    let pairs = holds.iter().flat_map(|one| {
        let other = move |other: &&Hold| other.owner != one.owner && one.told < other.told;
        holds.iter().filter(other).map(move |other| (one, other))
    });
    let broken = pairs.filter(|(one, other)| {
        let is_promised = other.told <= other.from + lease;
        is_promised && other.told <= renewed(one).1
    });
    broken.count()
}

fn anomalies(findings: &[Finding]) -> u64 {
    findings.iter().map(|finding| finding.count).sum()
}

/// However long answers take, which caller waits, and whether clients say when they sent.
#[test]
fn no_correct_re_entrant_lock_is_convicted() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let mut late = 0;
    for n in 0..LONGER {
        let (lease, holds, history) = modelled(&mut rng, true);
        let record = Record::of(&history);
        for judge in [contract::check, confirmed::check, effect::check] {
            let findings = judge(&record, &bare());
            assert_eq!(anomalies(&findings), 0, "history {n}: {findings:#?}");
        }
        // A re-entry began in the outer lease and was answered after it, and after another's grant.
        late += u32::from(holds.iter().any(|outer| {
            let over = outer.from + lease;
            holds.iter().any(|inner| {
                let mut others = holds.iter().filter(|other| other.owner != outer.owner);
                inner.owner == outer.owner
                    && (outer.told..over).contains(&inner.from)
                    && outer.until > inner.told
                    && others.any(|other| (over..inner.told).contains(&other.told))
            })
        }));
    }
    assert!(late > LONGER / 200, "{late}");
}

#[test]
fn a_lock_whose_re_entries_do_not_renew_is_convicted_where_they_were_answered_in_time() {
    let exact = CheckOptions { drift: 0.0, ..bare() };
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let mut broken = 0;
    for n in 0..LONGER {
        let (lease, holds, history) = modelled(&mut rng, false);
        if broken_promises(lease, &holds) == 0 {
            continue;
        }
        broken += 1;
        let findings = contract::check(&Record::of(&history), &exact);
        assert!(anomalies(&findings) > 0, "history {n}: {:#?}", history.lines);
    }
    assert!(broken > LONGER / 200, "{broken}");
}

/// A grant with a token, of a lock that keeps no rule.
struct Token {
    owner: u64,
    called: u64,
    returned: u64,
    token: u64,
    /// The call of a release that the lock answered, else the end of the history.
    until: u64,
}

/// Three owners who nest, at random times, with random tokens; grants in order of their calls.
fn fenced(rng: &mut ChaCha8Rng) -> (Vec<Token>, History) {
    let mut stamps: Vec<u64> = (1..=42).collect();
    stamps.shuffle(rng);
    let mut grants = Vec::new();
    let mut lines = Vec::new();
    for owner in 0..3 {
        let mut times = stamps.split_off(stamps.len() - 14);
        times.sort_unstable();
        let mut open: Vec<usize> = Vec::new();
        for t in times.chunks(2) {
            let id = t[0];
            let call = if open.is_empty() || rng.random_bool(0.5) {
                let token = rng.random_range(1..=6);
                lines.push(end(t[1], id, ok(Some(format!("g{id}")), Some(token), None)));
                open.push(grants.len());
                grants.push(Token { owner, called: t[0], returned: t[1], token, until: u64::MAX });
                asked(owner, "fenced", Some(60_000))
            } else {
                let hold: usize = open.remove(rng.random_range(0..open.len()));
                let grant = &mut grants[hold];
                let answers = [End::done(), End::NotHeld, End::Failed { error: None }, unknown()];
                let answer = rng.random_range(0..answers.len());
                if answer < 2 {
                    grant.until = t[0];
                }
                lines.push(end(t[1], id, answers[answer].clone()));
                Call::Release { grant: format!("g{}", grant.called) }
            };
            lines.push(Line { t_ns: t[0], entry: Entry::Call { id, call } });
        }
    }
    lines.sort_by_key(|line| line.t_ns);
    grants.sort_by_key(|grant| grant.called);
    (grants, History::from_lines(lines))
}

/// When the hold began that a grant re-enters.
fn re_entered(grants: &[Token], n: usize) -> Option<u64> {
    let grant = &grants[n];
    let outer = (0..n).find(|outer| {
        let outer = &grants[*outer];
        outer.owner == grant.owner && grant.called <= outer.until
    })?;
    Some(re_entered(grants, outer).unwrap_or(grants[outer].returned))
}

/// The rule of tokens, asked of each pair.
#[test]
fn tokens_are_judged_as_by_asking_of_each_pair() {
    let mut rng = ChaCha8Rng::seed_from_u64(14);
    let (mut excused, mut hidden) = (0, 0);
    for n in 0..LONGER {
        let (grants, history) = fenced(&mut rng);
        let mut wrong = 0;
        for (n, grant) in grants.iter().enumerate() {
            let before = || {
                let others = grants.iter().filter(|other| other.owner != grant.owner);
                others.filter(|other| other.returned < grant.called)
            };
            let Some(greatest) = before().max_by_key(|other| other.token) else {
                continue;
            };
            if grant.token > greatest.token {
                continue;
            }
            let since = re_entered(&grants, n);
            if since.is_some_and(|since| before().all(|other| other.returned <= since)) {
                excused += 1;
                continue;
            }
            hidden += u32::from(since.is_some_and(|since| greatest.returned <= since));
            wrong += 1;
        }
        let findings = effect::check(&Record::of(&history), &bare());
        assert_eq!(anomalies(&findings), wrong, "history {n}: {:#?}", history.lines);
    }
    assert!(excused > LONGER / 200, "{excused}");
    assert!(hidden > LONGER / 200, "{hidden}");
}
