//! Draws calls for many locks at once, and compares each answer with what a lock may say then.
//!
//! They are drawn twice, the second time over slow lines and with drivers that are stopped meanwhile.
//! The other steps ask for what somebody has thought of. This one knows of each hold until when it is there
//! for certain, and from when on it is gone for certain; what lies between may be answered either way.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::super::{LineFault, Outcome, Step};
use super::leases::{NEXT_MS, said_lost, send_to};
use super::{
    A, B, DriverIndex, LONG_MS, Reply, SHORT_MS, SLACK, SkippableResult, StepResult, Trial, WATCHDOG_MS,
    grant_of, skip,
};

/// Another name is taken then, so that a finding shows all that was done with one.
const CALLS_MAX: usize = 12;
/// What does not wait is answered by then, and who waits for a free lock is granted it by then.
const LATE: Duration = Duration::from_secs(2);
/// Libraries that ask for a sign of life each second take a driver that is stopped for so long for dead.
const STOPPED_FOR: Duration = Duration::from_millis(1_300);
/// A lease that is renewed lasts for longer than the calls.
const RENEWED: Duration = Duration::from_secs(3_600);

/// How calls are drawn.
struct Course {
    seed: u64,
    length: Duration,
    locks: usize,
    wait_ms: u64,
    /// Draws of 66 to this of a hundred are calls for what another has, half of which wait.
    waits_below: usize,
    /// Lines are slow, drivers are stopped, and keys of single locks are deleted.
    is_rough: bool,
}

const CALM: Course = Course {
    seed: 7,
    length: Duration::from_secs(6),
    locks: 32,
    wait_ms: 3_000,
    waits_below: 78,
    is_rough: false,
};

/// A driver with one connection waits for each answer, and renews so few locks in time all the same. A waiter
/// who was stopped has time left to be granted a lock that is free.
const ROUGH: Course = Course {
    seed: 8,
    length: Duration::from_secs(12),
    locks: 8,
    wait_ms: 6_000,
    waits_below: 92,
    is_rough: true,
};

/// Who calls: an owner of one of the drivers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Caller {
    which: DriverIndex,
    owner: &'static str,
}

struct PendingCall {
    id: u64,
    caller: Caller,
    request: Value,
    sent: Instant,
}

impl PendingCall {
    fn is_acquire(&self) -> bool {
        self.request["op"] == "acquire"
    }

    fn waits(&self) -> bool {
        self.is_acquire() && self.request["wait_ms"] != 0
    }

    fn grant(&self) -> &str {
        self.request["grant"].as_str().unwrap_or_default()
    }

    /// The lease that it asks for.
    fn lease(&self) -> Option<Duration> {
        self.request["lease_ms"].as_u64().map(Duration::from_millis)
    }
}

struct DrawnHold {
    caller: Caller,
    grant: String,
    lease: Option<Duration>,
    sure_until: Instant,
    /// It is gone for certain from then on; `None`: only a release ends it.
    over_by: Option<Instant>,
}

impl DrawnHold {
    /// Whether it is there for certain until after this moment.
    fn outlasts(&self, at: Instant) -> bool {
        self.sure_until > at + SLACK
    }
}

struct DrawnLock {
    name: String,
    course: &'static Course,
    /// Most of its leases are renewed; else few are.
    is_mostly_renewed: bool,
    begun: Instant,
    holds: Vec<DrawnHold>,
    /// The grants of holds that ended, and whether a release ended them.
    past: Vec<(Caller, String, bool)>,
    pending: Vec<PendingCall>,
    /// Where nobody is known to have it: until when somebody had it, and since when it is free for certain.
    taken_until: Instant,
    free_since: Instant,
    flushed: Option<Instant>,
    /// When each driver last went on after it was stopped.
    resumed: [Instant; 2],
    token: Option<u64>,
    /// Its calls and their answers, in words.
    story: Vec<String>,
    calls: usize,
    /// An answer left open who has it.
    is_open: bool,
}

impl DrawnLock {
    fn new(name: String, course: &'static Course, is_mostly_renewed: bool) -> Self {
        let now = Instant::now();
        DrawnLock {
            name,
            course,
            is_mostly_renewed,
            begun: now,
            holds: Vec::new(),
            past: Vec::new(),
            pending: Vec::new(),
            taken_until: now,
            free_since: now,
            flushed: None,
            resumed: [now; 2],
            token: None,
            story: Vec::new(),
            calls: 0,
            is_open: false,
        }
    }

    fn of(&self, caller: Caller) -> impl Iterator<Item = &DrawnHold> {
        self.holds.iter().filter(move |hold| hold.caller == caller)
    }

    fn is_anothers(&self, caller: Caller, at: Instant) -> bool {
        self.holds.iter().any(|hold| hold.caller != caller && hold.outlasts(at))
    }

    /// Whether the caller has it for certain until after this moment.
    fn is_reentry(&self, caller: Caller, at: Instant) -> bool {
        self.of(caller).next().is_some() && self.of(caller).all(|hold| hold.outlasts(at))
    }

    /// What is wrong, with all that was done with it.
    fn told(&self, wrong: &str) -> String {
        format!("{wrong}: {}", self.story.join("; "))
    }

    /// Who waits for no answer about it.
    fn is_idle(&self, caller: Caller) -> bool {
        self.pending.iter().all(|one| one.caller != caller)
    }

    /// Whether the driver was stopped while it had the call.
    fn was_stopped_in(&self, call: &PendingCall) -> bool {
        self.resumed[call.caller.which] > call.sent
    }

    fn has_waiter(&self) -> bool {
        !self.is_open && !self.pending.is_empty()
    }

    /// Ends the holds that this is true of, at some time between these two.
    fn end(&mut self, is_ended: impl Fn(&DrawnHold) -> bool, [from, to]: [Instant; 2], is_released: bool) {
        for hold in self.holds.extract_if(.., |hold| is_ended(hold)) {
            self.taken_until = self.taken_until.max(from);
            self.free_since = self.free_since.max(to);
            self.past.push((hold.caller, hold.grant, is_released));
        }
    }

    /// Ends what is gone for certain by now, but not what the server has lost of who had entered twice: the
    /// inner release must say so.
    fn advance(&mut self) {
        let now = Instant::now();
        let is_nested = self.holds.len() > 1;
        let over = |hold: &DrawnHold| hold.over_by.filter(|over_by| *over_by < now);
        let ends = self.holds.iter().filter_map(|hold| Some([hold.sure_until, over(hold)?]));
        if let Some(last) = ends.max_by_key(|[_, over_by]| *over_by)
            && !(is_nested && self.flushed == Some(last[1]))
        {
            self.end(|hold| over(hold).is_some(), last, false);
        }
    }

    /// Sets the lease of the caller's holds. Of several, libraries keep the last or the longest.
    fn set_lease(&mut self, by: &PendingCall, sure_until: Instant, over_by: Option<Instant>) {
        let is_only = self.of(by.caller).count() == 1;
        let is_renewed = self.of(by.caller).any(|hold| hold.over_by.is_none());
        let longest = self.of(by.caller).filter_map(|hold| hold.over_by).chain(over_by).max();
        for hold in self.holds.iter_mut().filter(|hold| hold.caller == by.caller) {
            hold.lease = hold.lease.and(by.lease());
            hold.sure_until = if is_only { sure_until } else { sure_until.min(hold.sure_until) };
            hold.over_by = over_by.and(longest).filter(|_| !is_renewed);
        }
    }

    fn tell(&mut self, one: &PendingCall, reply: &Reply) {
        let [from, to] = [one.sent, reply.at].map(|at| at.saturating_duration_since(self.begun).as_millis());
        let Caller { which, owner } = one.caller;
        let field = |name: &str| one.request.get(name).map(|ms| format!(" {name} {ms}")).unwrap_or_default();
        let (op, wait, lease) =
            (one.request["op"].as_str().unwrap_or(""), field("wait_ms"), field("lease_ms"));
        let [asked, got] = [one.grant(), &grant_of(reply).unwrap_or_default()].map(|grant| match grant {
            "" => String::new(),
            grant => format!(" {grant}"),
        });
        let call = format!("c{} {owner} {op}{asked}{wait}{lease}", which + 1);
        self.story.push(format!("{from} to {to} ms {call}: {}{got}", reply.ending));
    }
}

impl Trial<'_> {
    pub(super) async fn drawn_calls(&mut self) -> SkippableResult {
        if ["read", "semaphore", "permits"].contains(&self.kind.as_str()) {
            return skip("several clients may have a lock of this kind at once");
        }
        let is_one_by_one = |step: &Step| step.name == "concurrency" && step.outcome == Outcome::Broken;
        if self.short_lease_ends_after.is_none() || self.result.steps.iter().any(is_one_by_one) {
            return skip("no lease ends, or requests are answered one by one: see expiry and concurrency");
        }
        self.start_both().await?;
        let drawn = match self.draw_calls(&CALM).await {
            Ok(calm) => {
                self.draw_calls(&ROUGH).await.map(|rough| format!("{calm} calls, {rough} on slow lines"))
            }
            broken => broken,
        };
        // Some calls may wait still.
        for driver in self.drivers.iter_mut().flatten() {
            driver.kill().await;
        }
        Ok(drawn?)
    }

    async fn draw_calls(&mut self, course: &'static Course) -> StepResult {
        let mut random = ChaCha8Rng::seed_from_u64(course.seed);
        let line_faults = self.options.line_faults.as_ref().filter(|_| course.is_rough);
        let _slow = line_faults.map(|begin| begin(LineFault::SlowLines));
        let may_flush = self.options.may_flush && self.is_single();
        let mut locks: Vec<DrawnLock> = Vec::new();
        self.slowest_call = Duration::ZERO;
        let (mut calls, begun) = (0, Instant::now());
        while begun.elapsed() < course.length {
            locks.retain(|lock| !lock.is_open && (lock.calls < CALLS_MAX || !lock.pending.is_empty()));
            locks
                .resize_with(course.locks, || DrawnLock::new(self.lock(), course, random.random_ratio(1, 3)));
            let round = Instant::now();
            for lock in &mut locks {
                lock.advance();
                let more = CALLS_MAX.saturating_sub(lock.calls);
                for (caller, request) in self.draw(lock, &mut random).into_iter().take(more) {
                    self.send_drawn(lock, caller, request).await;
                    calls += 1;
                }
            }
            if course.is_rough && random.random_ratio(1, 4) {
                self.stop_one(&mut locks, &mut random).await;
            }
            self.collect(&mut locks, round).await?;
            if may_flush && random.random_ratio(1, 8) {
                // Who waits may look again only when the holder's lease ends.
                locks.retain(|lock| lock.pending.is_empty());
                self.delete_keys(locks.iter_mut().collect(), true).await?;
            } else if may_flush && course.is_rough {
                let is_drawn = |lock: &&mut DrawnLock| lock.pending.is_empty() && random.random_ratio(1, 8);
                self.delete_keys(locks.iter_mut().filter(is_drawn).collect(), false).await?;
            }
            // A short lease ends in the last of them, or while a driver is stopped.
            let pauses_ms = [0, 0, 0, 60, 250, SHORT_MS + 300];
            let pauses_ms = if course.is_rough { &pauses_ms[..5] } else { &pauses_ms };
            let pause_ms = pauses_ms.choose(&mut random).copied().unwrap_or(0);
            self.listen(A, Duration::from_millis(pause_ms)).await;
            self.collect(&mut locks, Instant::now()).await?;
        }
        self.end_drawn(&mut locks).await?;
        Ok(calls.to_string())
    }

    /// Deletes the keys that have the names of these locks, or all keys, of which they are all the locks.
    async fn delete_keys(&self, locks: Vec<&mut DrawnLock>, all: bool) -> Result<(), String> {
        if locks.is_empty() {
            return Ok(());
        }
        let mut delete = redis::cmd(if all { "FLUSHALL" } else { "DEL" });
        for lock in locks.iter().filter(|_| !all) {
            delete.arg(&lock.name);
        }
        let before = Instant::now();
        send_to::<()>(&self.options.target, &delete).await?;
        let now = Instant::now();
        for lock in locks {
            lock.token = None;
            // A lock may be kept elsewhere than in the key of its name.
            lock.flushed = Some(now).filter(|_| all).or(lock.flushed);
            for hold in &mut lock.holds {
                hold.sure_until = hold.sure_until.min(before);
                hold.over_by = if all { Some(now) } else { hold.over_by };
            }
            lock.story.push(if all { "all keys were deleted" } else { "its key was deleted" }.to_owned());
        }
        Ok(())
    }

    /// Lets nothing of one of the drivers run for a while. Its calls wait meanwhile, and nothing is renewed.
    async fn stop_one(&mut self, locks: &mut [DrawnLock], random: &mut ChaCha8Rng) {
        let which = *[A, B].choose(random).unwrap_or(&A);
        let before = Instant::now();
        // A driver that has ended meanwhile is found by its calls.
        let _ = self.driver(which).signal(Signal::SIGSTOP);
        self.listen(A + B - which, STOPPED_FOR).await;
        let _ = self.driver(which).signal(Signal::SIGCONT);
        for lock in locks {
            lock.resumed[which] = Instant::now();
            let is_renewed = |hold: &&mut DrawnHold| hold.caller.which == which && hold.over_by.is_none();
            for hold in lock.holds.iter_mut().filter(is_renewed) {
                hold.sure_until = hold.sure_until.min(before);
            }
            lock.story.push(format!("c{} was stopped for {STOPPED_FOR:?}", which + 1));
        }
    }

    /// Releases everything, so that all who wait are granted it.
    async fn end_drawn(&mut self, locks: &mut [DrawnLock]) -> Result<(), String> {
        while locks.iter().any(DrawnLock::has_waiter) {
            let round = Instant::now();
            for lock in locks.iter_mut().filter(|lock| !lock.is_open) {
                let held = lock.holds.iter().find(|hold| lock.is_idle(hold.caller));
                if let Some((caller, grant)) = held.map(|hold| (hold.caller, hold.grant.clone())) {
                    self.send_drawn(lock, caller, json!({"op": "release", "grant": grant})).await;
                }
            }
            self.listen(A, Duration::from_millis(20)).await;
            self.collect(locks, round).await?;
            let long = Duration::from_millis(NEXT_MS);
            let is_stuck = |lock: &&DrawnLock| lock.holds.is_empty() && lock.free_since.elapsed() > long;
            if let Some(lock) = locks.iter().filter(|lock| lock.has_waiter()).find(is_stuck) {
                return Err(lock.told("nobody was granted a lock that all had released"));
            }
        }
        Ok(())
    }

    /// The next calls for a lock, each by another caller.
    fn draw(&self, lock: &DrawnLock, random: &mut ChaCha8Rng) -> Vec<(Caller, Value)> {
        let callers = [(A, "t0"), (A, "t1"), (B, "t0"), (B, "t1")];
        let mut idle = callers.map(|(which, owner)| Caller { which, owner }).to_vec();
        idle.retain(|caller| lock.is_idle(*caller));
        idle.shuffle(random);
        let Some(&caller) = idle.first() else { return Vec::new() };
        let renewed_of_8 = if lock.is_mostly_renewed { 6 } else { 1 };
        let is_renewed = self.hello.watchdog_ms.is_some_and(|ms| ms <= WATCHDOG_MS)
            && random.random_ratio(renewed_of_8, 8);
        let lease_ms = [SHORT_MS, LONG_MS, SHORT_MS].choose(random).copied().filter(|_| !is_renewed);
        let acquire = |caller: Caller, wait_ms: Option<u64>| {
            let own = lock.of(caller).next().map(|hold| hold.lease.map(|lease| lease.as_millis() as u64));
            let mut request = self.acquire_request(&lock.name, caller.owner, 0, own.unwrap_or(lease_ms));
            request["wait_ms"] = json!(wait_ms);
            (caller, request)
        };
        let drawn = random.random_range(0..100);
        let change = |caller: Caller, grant: &str, is_extend: bool| {
            let lease_ms = [SHORT_MS, LONG_MS][drawn % 2];
            let request = match is_extend && self.require_extend().is_ok() {
                true => json!({"op": "extend", "grant": grant, "lease_ms": lease_ms}),
                false => json!({"op": "release", "grant": grant}),
            };
            (caller, request)
        };
        if drawn < 14 {
            // A library may know its holds by their owner, so who has the lock again is not asked.
            let is_fit =
                |(by, ..): &&(Caller, String, bool)| idle.contains(by) && lock.of(*by).next().is_none();
            let past = lock.past.choose(random).filter(is_fit);
            return Vec::from_iter(past.map(|(by, grant, _)| change(*by, grant, drawn < 4)));
        }
        let Some(hold) = lock.holds.choose(random) else {
            let is_race = drawn > 70 || !lock.pending.is_empty() || lock.free_since.elapsed() < SLACK;
            let (callers, wait_ms) =
                if is_race { (random.random_range(1..=4), lock.course.wait_ms) } else { (1, 0) };
            return idle.into_iter().take(callers).map(|caller| acquire(caller, Some(wait_ms))).collect();
        };
        let wait_ms = Some(lock.course.wait_ms).filter(|_| random.random());
        let one = match drawn {
            14..40 => change(hold.caller, &hold.grant, false),
            40..50 => change(hold.caller, &hold.grant, true),
            50..66 => acquire(hold.caller, Some(0)),
            66.. if drawn < lock.course.waits_below && lock.pending.len() < 2 && caller != hold.caller => {
                acquire(caller, wait_ms)
            }
            _ => acquire(caller, Some(0)),
        };
        if idle.contains(&one.0) { vec![one] } else { Vec::new() }
    }

    async fn send_drawn(&mut self, lock: &mut DrawnLock, caller: Caller, request: Value) {
        let sent = Instant::now();
        let id = self.driver(caller.which).send(request.clone()).await;
        lock.pending.push(PendingCall { id, caller, request, sent });
        lock.calls += 1;
    }

    /// Waits for the answers that are due, and judges all that there are. Due are those of calls that do not
    /// wait, and one to the calls since `round` for a lock that nobody has.
    async fn collect(&mut self, locks: &mut [DrawnLock], round: Instant) -> Result<(), String> {
        let by = Instant::now() + self.patience() + Duration::from_millis(ROUGH.wait_ms);
        self.listen_to_both().await;
        for lock in locks {
            while self.is_due(lock, round) {
                if Instant::now() > by || self.drivers.iter().flatten().any(|driver| driver.has_ended) {
                    return Err(lock.told("a call had no answer"));
                }
                self.listen_to_both().await;
            }
            let pending = std::mem::take(&mut lock.pending);
            let (answered, pending) = pending.into_iter().partition(|one| self.is_answered(one));
            lock.pending = pending;
            let mut replies = Vec::new();
            for one in answered {
                let reply = self.driver(one.caller.which).reply(one.id, Duration::ZERO).await?;
                if !one.waits() && !lock.was_stopped_in(&one) {
                    self.slowest_call = self.slowest_call.max(reply.took);
                }
                replies.push((reply, one));
            }
            let judged = self.judge_all(lock, replies);
            judged.map_err(|wrong| lock.told(&wrong))?;
        }
        Ok(())
    }

    async fn listen_to_both(&mut self) {
        for which in [A, B] {
            self.listen(which, Duration::from_millis(1)).await;
        }
    }

    fn is_answered(&self, one: &PendingCall) -> bool {
        self.drivers[one.caller.which].as_ref().is_some_and(|driver| driver.has(one.id))
    }

    fn is_due(&self, lock: &DrawnLock, round: Instant) -> bool {
        let is_open = |one: &PendingCall| !self.is_answered(one);
        let mut new = lock.pending.iter().filter(|one| one.sent >= round).peekable();
        lock.pending.iter().any(|one| !one.waits() && is_open(one))
            || lock.holds.is_empty() && new.peek().is_some() && new.all(is_open)
    }

    fn judge_all(&self, lock: &mut DrawnLock, mut replies: Vec<(Reply, PendingCall)>) -> Result<(), String> {
        // A waiter may be granted the lock before its release is answered.
        replies.sort_by_key(|(reply, one)| (one.is_acquire(), grant_of(reply).is_none(), reply.at));
        for (reply, one) in replies {
            lock.tell(&one, &reply);
            if lock.is_open {
                return Ok(());
            }
            let was_stopped = lock.was_stopped_in(&one);
            if !one.waits() && !lock.course.is_rough && reply.took > LATE {
                return Err(format!("a call that need not wait took {:?}", reply.took));
            }
            match grant_of(&reply) {
                _ if reply.ending == "unknown" && !self.is_busy(&reply) => lock.is_open = true,
                // What was so at the server may be over since.
                _ if was_stopped && !(one.waits() && self.is_busy(&reply)) => lock.is_open = true,
                Some(grant) if one.is_acquire() => self.judge_grant(lock, &one, &reply, grant)?,
                None if one.is_acquire() => self.judge_refusal(lock, &one, &reply)?,
                _ => self.judge_change(lock, &one, &reply)?,
            }
        }
        let now = Instant::now();
        let is_lost = |hold: &&DrawnHold| !lock.is_open && hold.outlasts(now) && self.was_told_lost(hold);
        match lock.holds.iter().find(is_lost) {
            Some(hold) => Err(format!("`lost` came for {}, which is held", hold.grant)),
            None => Ok(()),
        }
    }

    fn was_told_lost(&self, hold: &DrawnHold) -> bool {
        self.drivers[hold.caller.which].as_ref().is_some_and(said_lost(&hold.grant))
    }

    /// Where a lease ends for certain that was set between these times: some systems know whole seconds only.
    fn over_by(&self, to: Instant, lease: Duration) -> Instant {
        let half = Duration::from_millis(SHORT_MS / 2);
        to + lease + self.short_lease_ends_after.unwrap_or_default().saturating_sub(half)
    }

    fn judge_change(&self, lock: &mut DrawnLock, one: &PendingCall, reply: &Reply) -> Result<(), String> {
        let (caller, from, to) = (one.caller, one.sent, reply.at);
        // Two drivers may give the same name to a grant.
        let is_it = |hold: &DrawnHold| hold.caller == caller && hold.grant == one.grant();
        let hold = lock.holds.iter().find(|hold| is_it(hold));
        // The lease that an extend asks for may be over before its answer.
        let is_whole = one.lease().is_none_or(|lease| from + lease > to + SLACK);
        let is_sure = is_whole && hold.is_some_and(|hold| hold.outlasts(to));
        let may_be_there = hold.is_some_and(|hold| hold.over_by.is_none_or(|over_by| over_by > to));
        let was_released = lock.past.contains(&(caller, one.grant().to_owned(), true));
        let is_anothers = lock.is_anothers(caller, to);
        // The last release of what was lost does no harm, whatever it says.
        let is_lost = hold.is_some_and(|hold| hold.over_by.is_some() && hold.over_by == lock.flushed)
            && (lock.of(caller).count() > 1 || one.lease().is_some());
        let what = one.request["op"].as_str().unwrap_or_default();
        let may_be_blind = what == "release" && self.has_feature("release_blind");
        match (reply.ending.as_str(), one.lease()) {
            ("ok", _) if !may_be_blind && (is_anothers || is_lost || was_released) => {
                return Err(format!(
                    "the {what} of a lock that its caller had lost or released was answered `ok`"
                ));
            }
            // It was there for longer than its holder counted on, or is there again.
            ("ok", Some(_)) if hold.is_some_and(|hold| self.was_told_lost(hold)) => lock.is_open = true,
            ("ok", Some(lease)) if hold.is_some() => {
                lock.set_lease(one, from + lease, Some(self.over_by(to, lease)));
            }
            // What had ended may be there again, and what is said to have ended may still be there.
            ("ok", Some(_)) => lock.is_open = true,
            ("ok", None) => {
                // A blind release says `ok` of a lease that had ended, too.
                let sure_until = hold.filter(|_| may_be_blind).map(|hold| hold.sure_until);
                let had_until = sure_until.map_or(from, |sure_until| sure_until.min(from));
                lock.end(is_it, [had_until, to], true);
            }
            // A lock that is renewed need not be extended.
            ("failed", Some(_)) if hold.is_some_and(|hold| hold.lease.is_none()) => lock.is_open = true,
            (ending, _) if is_sure => {
                return Err(format!("the {what} of a lock that is held was answered `{ending}`"));
            }
            _ if may_be_there => lock.is_open = true,
            _ => lock.end(is_it, [from, to], false),
        }
        Ok(())
    }

    fn judge_refusal(&self, lock: &mut DrawnLock, one: &PendingCall, reply: &Reply) -> Result<(), String> {
        let is_reentry = lock.is_reentry(one.caller, reply.at);
        let wait = one.request["wait_ms"].as_u64().map_or(RENEWED, Duration::from_millis);
        let free_since = lock.resumed.into_iter().fold(lock.free_since, Instant::max);
        let is_free = lock.holds.is_empty()
            && lock.pending.is_empty()
            && (lock.free_since + SLACK < one.sent
                || free_since + LATE < reply.at && self.slowest_call < LATE / 2);
        match () {
            () if !self.is_busy(reply) => lock.is_open = true,
            // Some count tries in place of time.
            () if reply.took + wait / 4 < wait => return Err(format!("it gave up after {:?}", reply.took)),
            () if is_reentry && self.nests() == Some(Some(true)) => {
                return Err("a re-entry was refused".to_owned());
            }
            () if is_free => return Err("nobody was granted a lock that is free".to_owned()),
            () => {}
        }
        Ok(())
    }

    fn judge_grant(
        &self,
        lock: &mut DrawnLock,
        one: &PendingCall,
        reply: &Reply,
        grant: String,
    ) -> Result<(), String> {
        let (caller, from, to) = (one.caller, one.sent, reply.at);
        let is_held = lock.of(caller).next().is_some();
        let is_reentry = lock.is_reentry(caller, to);
        let is_mixed = lock.of(caller).any(|hold| hold.lease != one.lease());
        let token = reply.body.get("token").and_then(Value::as_u64);
        let token = token.filter(|_| self.kind == "fenced" && !is_held);
        // Of several masters callers may each get some.
        let was_free = lock.holds.is_empty()
            && lock.free_since + SLACK < from
            && self.is_single()
            && !lock.course.is_rough;
        let wrong = match () {
            () if lock.is_anothers(caller, to) => Some("it was granted though another has it"),
            () if lock.of(caller).any(|hold| hold.grant == grant) => {
                Some("a re-entry got the grant of a hold before it")
            }
            () if is_reentry && self.nests() == Some(Some(false)) => Some("its holder was granted it again"),
            () if was_free && reply.took > LATE => Some("a lock that was free was granted late"),
            () if token.is_some() && token <= lock.token => {
                Some("its token is no greater than the one before")
            }
            () => None,
        };
        if let Some(wrong) = wrong {
            return Err(wrong.to_owned());
        }
        let was_told_lost = lock.of(caller).any(|hold| self.was_told_lost(hold));
        if is_held && (!is_reentry || is_mixed || was_told_lost) {
            // The hold before may have ended or not, and of two leases the shorter may be what counts.
            lock.is_open = true;
            return Ok(());
        }
        lock.token = token.or(lock.token);
        lock.end(|hold| hold.caller != caller, [from, from], false);
        // A library may grant a shorter lease, and says so then.
        let granted = reply.body.get("lease_ms").and_then(Value::as_u64).map(Duration::from_millis);
        // It counts its lease from when it began the attempt that succeeded.
        let age = reply.body.get("age_ms").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, NEXT_MS as f64);
        let begun_at = to.checked_sub(Duration::from_secs_f64(age / 1e3)).unwrap_or(from);
        let sure_until =
            from.max(lock.taken_until).min(begun_at) + granted.or(one.lease()).unwrap_or(RENEWED);
        let over_by = one.lease().map(|lease| self.over_by(to, lease));
        lock.holds.push(DrawnHold { caller, grant, lease: one.lease(), sure_until, over_by });
        if is_held {
            lock.set_lease(one, sure_until, over_by);
        }
        Ok(())
    }
}
