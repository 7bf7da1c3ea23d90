//! The moments at which this client lets others look first, by what a release says of its listeners.
//!
//! Of a kind without order the first look after a release wins, and the client that gives the lock back has
//! the shortest way: it knows without a message. So a client that has just had the lock waits a moment before
//! it looks again, for as long as fewer others have had it since than listened when it gave the lock back.
//! Who has waited longer looks at once: a hand-off between two that wait costs nothing.
//!
//! Nobody says how far the others are. The moment doubles when it was in vain and shrinks when it was not, so
//! that it finds their distance. Some who listen want nothing: after a few moments in vain as many as did not
//! come are left out of account for a while.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::Value;

use crate::clock::Instant;
use crate::kind::ReleaseAnswer;
use crate::locks::lock_inner::LockInner;
use crate::servers::server_set::Servers;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::topology::{ReceivedMessages, Route};
use crate::waiting::gate::LineKey;

/// The shortest and the longest moment. A look comes a round trip after a release; timers are exact to 1 ms.
const MOMENT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// A moment that was not in vain is so much shorter the next time.
const SHRINK: f64 = 0.8;
/// A client that has not had the lock for so long waits for nobody; until then the less the longer.
const OWES: Duration = Duration::from_millis(500);
/// After so many moments in vain, one per grant, those who did not come are left out for so long.
const VAIN: u32 = 8;
const LEFT_OUT: Duration = Duration::from_secs(2);
/// A client that listened to a quorum lock is thought to do so for as long.
const LATELY: Duration = Duration::from_secs(1);
/// What was not used for so long is forgotten.
const KEPT: Duration = Duration::from_secs(5);

/// The locks that others listened to when this client gave them back.
#[derive(Debug, Default)]
pub(crate) struct ContendedLocks {
    turns: Mutex<Table>,
    /// How many there are, so that nobody needs the table while nobody listens.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    of: HashMap<LineKey, ContendedLock>,
    swept_at: Option<Instant>,
}

#[derive(Debug)]
struct ContendedLock {
    /// When it was given back; nothing while this client has it.
    since: Option<Instant>,
    used_at: Instant,
    /// How many others listened then.
    rivals: u32,
    /// How many messages there were then, with that of the release itself.
    messages: u64,
    moment: Duration,
    vain: u32,
    /// So many do not come, as it seems, until then.
    absent: Option<(u32, Instant)>,
}

impl ContendedLocks {
    /// A release is about to be sent. Its message may come before its answer, which says how many listen now.
    pub(crate) fn giving(&self, lock: &LockInner) {
        if self.is_empty() || lock.servers.is_majority() {
            return;
        }
        if let Some(turn) = self.table(Instant::now()).of.get_mut(&lock.line_key()) {
            turn.give(heard(lock).as_ref());
        }
    }

    /// The release was answered. Those who have heard it are counted, this client too if it listens.
    pub(crate) fn gave(&self, lock: &LockInner, route: &Arc<Route>, given: ReleaseAnswer, answer: &Value) {
        let freed = given == ReleaseAnswer::Freed;
        let listeners = if freed { lock.format.listeners(answer) } else { 0 };
        if listeners == 0 && self.is_empty() {
            return;
        }
        let heard = route.channels().heard(&lock.names.channel);
        let rivals = listeners.saturating_sub(heard.is_some().into());
        if rivals == 0 && self.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut table = self.table(now);
        if lock.servers.is_majority() {
            // A majority has pauses of its own; only that there are rivals counts.
            if rivals > 0 {
                (table.of.entry(lock.line_key())).or_insert_with(|| ContendedLock::new(now)).used_at = now;
            }
        } else if !freed {
            // Its owner has another hold.
            if let Some(turn) = table.of.get_mut(&lock.line_key()) {
                turn.since = None;
            }
        } else if rivals == 0 {
            table.of.remove(&lock.line_key());
        } else {
            let turn = table.of.entry(lock.line_key()).or_insert_with(|| {
                let mut turn = ContendedLock::new(now);
                turn.give(heard.as_ref());
                turn
            });
            turn.rivals = rivals;
            turn.since = Some(now);
        }
        self.count.store(table.of.len(), Ordering::Relaxed);
    }

    /// Until when to let others look first; drawn anew each time.
    pub(crate) fn hold_back(&self, lock: &LockInner) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let now = Instant::now();
        let table = self.table(now);
        let turn = table.of.get(&lock.line_key())?;
        let heard = heard(lock);
        let until = turn.until(heard.as_ref(), now, rand::random_range(0.5..=1.0))?;
        (until > now).then_some(until)
    }

    /// This client has the lock; `in_vain` if it had held back, and nobody else had come.
    pub(crate) fn had(&self, lock: &LockInner, in_vain: bool) {
        if self.is_empty() || lock.servers.is_majority() {
            return;
        }
        let now = Instant::now();
        if let Some(turn) = self.table(now).of.get_mut(&lock.line_key()) {
            turn.had(heard(lock).as_ref(), in_vain, now);
        }
    }

    /// Whether others listened lately when this client gave the lock back.
    pub(crate) fn has_rivals(&self, lock: &LockInner) -> bool {
        if self.is_empty() {
            return false;
        }
        let now = Instant::now();
        let table = self.table(now);
        let turn = table.of.get(&lock.line_key());
        turn.is_some_and(|turn| now.saturating_duration_since(turn.used_at) <= LATELY)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn table(&self, now: Instant) -> MutexGuard<'_, Table> {
        let mut table = self.turns.lock();
        if table.swept_at.is_none_or(|at| now.saturating_duration_since(at) > KEPT) {
            table.swept_at = Some(now);
            (table.of).retain(|_, turn| now.saturating_duration_since(turn.used_at) <= KEPT);
            self.count.store(table.of.len(), Ordering::Relaxed);
        }
        table
    }
}

/// What was heard on the lock's channel, if this client listens.
fn heard(lock: &LockInner) -> Option<ReceivedMessages> {
    match &lock.servers {
        Servers::One(route) => route.channels().heard(&lock.names.channel),
        Servers::Majority(_) => None,
    }
}

impl ContendedLock {
    fn new(now: Instant) -> Self {
        ContendedLock {
            since: None,
            used_at: now,
            rivals: 0,
            messages: 0,
            moment: MOMENT.0,
            vain: 0,
            absent: None,
        }
    }

    fn give(&mut self, heard: Option<&ReceivedMessages>) {
        let now = Instant::now();
        self.since = Some(now);
        self.used_at = now;
        self.messages = heard.map_or(0, |heard| heard.messages + 1);
    }

    /// How many others have had it since, as far as was heard.
    fn passed(&self, heard: Option<&ReceivedMessages>) -> u64 {
        match heard {
            // Who begins to listen anew counts anew, and hears nothing of its own release.
            Some(heard) if heard.messages + 1 < self.messages => heard.messages,
            Some(heard) => heard.messages.saturating_sub(self.messages),
            None => 0,
        }
    }

    /// How many are still to have it before this client.
    fn owed(&self, heard: Option<&ReceivedMessages>, now: Instant) -> u32 {
        let absent = self.absent.filter(|(_, until)| now < *until);
        let rivals = self.rivals - absent.map_or(0, |(absent, _)| absent.min(self.rivals));
        rivals.saturating_sub(u32::try_from(self.passed(heard)).unwrap_or(u32::MAX))
    }

    fn until(&self, heard: Option<&ReceivedMessages>, now: Instant, part: f64) -> Option<Instant> {
        let since = self.since?;
        let owes = 1.0 - now.saturating_duration_since(since).div_duration_f64(OWES);
        if self.owed(heard, now) == 0 || owes <= 0.0 {
            return None;
        }
        let released_at = heard.and_then(|heard| heard.at).map_or(since, |at| at.max(since));
        Some(released_at + self.moment.mul_f64(part * owes))
    }

    fn had(&mut self, heard: Option<&ReceivedMessages>, in_vain: bool, now: Instant) {
        self.since = None;
        self.used_at = now;
        if !in_vain {
            self.moment = self.moment.mul_f64(SHRINK).max(MOMENT.0);
            self.vain = 0;
            return;
        }
        self.moment = (self.moment * 2).min(MOMENT.1);
        self.vain += 1;
        if self.vain == VAIN {
            self.vain = 0;
            self.absent = Some((self.owed(heard, now), now + LEFT_OUT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acquire, Client, ClientOptions, Kind, topology::tests::support::Server};

    fn heard(messages: u64) -> Option<ReceivedMessages> {
        Some(ReceivedMessages { messages, at: None })
    }

    /// Given back after five messages, with so many others who listen.
    fn turn(rivals: u32) -> ContendedLock {
        let mut turn = ContendedLock::new(Instant::now());
        turn.give(heard(5).as_ref());
        turn.rivals = rivals;
        turn
    }

    fn lets_go_first(turn: &ContendedLock, heard: Option<ReceivedMessages>) -> bool {
        turn.until(heard.as_ref(), Instant::now(), 1.0).is_some()
    }

    #[test]
    fn as_many_go_first_as_listened() {
        let turn = turn(2);
        for messages in [5, 6, 7] {
            assert!(lets_go_first(&turn, heard(messages)), "{messages}");
        }
        assert!(!lets_go_first(&turn, heard(8)));
        // Who did not listen hears nothing of its own release, and who begins anew counts anew.
        assert!(lets_go_first(&turn, None));
        assert!(lets_go_first(&turn, heard(1)));
        assert!(!lets_go_first(&turn, heard(2)));
    }

    #[test]
    fn who_has_it_or_has_not_had_it_for_long_waits_for_nobody() {
        let mut turn = turn(1);
        turn.had(heard(6).as_ref(), false, Instant::now());
        assert!(!lets_go_first(&turn, heard(6)));
        let mut turn = self::turn(1);
        turn.since = turn.since.and_then(|since| since.checked_sub(OWES));
        assert!(!lets_go_first(&turn, heard(6)));
    }

    #[test]
    fn moments_in_vain_are_longer_and_then_none() {
        let now = Instant::now();
        let mut turn = turn(2);
        for vain in 1..VAIN {
            turn.had(heard(7).as_ref(), true, now);
            assert_eq!(turn.moment, (MOMENT.0 * 2_u32.pow(vain)).min(MOMENT.1));
            turn.give(heard(5).as_ref());
        }
        assert_eq!(turn.owed(heard(7).as_ref(), now), 1);
        turn.had(heard(7).as_ref(), true, now);
        turn.give(heard(5).as_ref());
        // One came each time, and for that one it waits as before.
        assert_eq!(turn.owed(heard(6).as_ref(), now), 1);
        assert_eq!(turn.owed(heard(7).as_ref(), now), 0);
        assert_eq!(turn.owed(heard(7).as_ref(), now + LEFT_OUT), 1);
        for _ in 0..50 {
            turn.had(heard(7).as_ref(), false, now);
        }
        assert_eq!(turn.moment, MOMENT.0);
    }

    /// Several tasks of one client listen for each other, and none of them is a rival.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_client_alone_waits_for_nobody() {
        let server = Server::start(&[]);
        let target = server.url().parse().expect("a good URL");
        let connect = || Client::connect(&target, ClientOptions::default());
        let client = connect().await.expect("it answers");
        for kind in [Kind::Plain, Kind::Reentrant, Kind::Fenced, Kind::Write] {
            let tasks = (0..4).map(|_| {
                let lock = client.lock(kind, kind.name()).expect("a good name");
                tokio::spawn(async move {
                    for _ in 0..50 {
                        let guard = lock.acquire().await.expect("entered");
                        tokio::task::yield_now().await;
                        guard.release().await.expect("held");
                        assert!(lock.inner.client.turns.is_empty(), "{kind}");
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("no rival");
            }
        }
        // Another that waits is one.
        let lock = client.lock(Kind::Reentrant, "n").expect("a good name");
        let guard = lock.acquire().await.expect("free");
        let other = connect().await.expect("it answers");
        let theirs = other.lock(Kind::Reentrant, "n").expect("a good name");
        let waiter = tokio::spawn(async move { theirs.acquire_with(Acquire::default()).await });
        server.wait_for(&["PUBSUB", "NUMSUB", &lock.inner.names.channel], |answer| answer.ends_with('1'));
        guard.release().await.expect("held");
        assert!(!lock.inner.client.turns.is_empty());
        let guard = waiter.await.expect("no panic").expect("entered");
        guard.release().await.expect("held");
        client.close().await;
    }
}
