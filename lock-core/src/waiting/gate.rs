//! The waiters of one client on one lock: a line, of which only the first looks at the server.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use crate::clock::Instant;
use crate::lock::LockInner;
use crate::quorum::majority;
use crate::servers::Servers;
use crate::topology::{Route, Subscription, Tune};
use crate::waiting::line::{self, Lines};

pub(crate) struct Gates {
    lines: Lines<Key, GateFront>,
}

pub(crate) type Key = (&'static str, String);

pub(crate) type Position<'a> = line::Position<'a, Key, GateFront>;

/// What the first in the line has, and leaves to the next.
pub(crate) struct GateFront {
    pub(crate) subscriptions: Option<Subscriptions>,
    /// When to look even if no message comes.
    pub(crate) look_at: Instant,
    /// The one before has just seen that there is no room for another.
    pub(crate) full: bool,
    /// The one before got what all who wait here may have: they look at once, side by side.
    pub(crate) open: bool,
    /// For so many more grants other clients are expected to look at the same moment.
    pub(crate) rivals: u32,
}

impl GateFront {
    /// The longest time between two looks: while nothing can be heard, `unheard_pause`.
    pub(crate) fn poll_bound(&self, bound: Duration, waited: Duration) -> Duration {
        match &self.subscriptions {
            Some(subscriptions) if subscriptions.are_refused() => bound.min(unheard_pause(waited)),
            _ => bound,
        }
    }
}

/// When who is told nothing, and has waited for so long, looks again: few looks are made, and none is late by more than a quarter of the
/// whole wait.
pub(crate) fn unheard_pause(waited: Duration) -> Duration {
    const LEAST: Duration = Duration::from_millis(10);
    (waited / 4).max(LEAST)
}

/// For so long after a vote was split, by grants: a split costs ten times what the pause does.
pub(crate) const RIVALS: u32 = 250;

impl Default for Gates {
    fn default() -> Self {
        Gates {
            lines: Lines::new(),
        }
    }
}

impl Gates {
    pub(crate) fn is_waited_for(&self, lock: &LockInner) -> bool {
        self.served(lock).is_some()
    }

    /// What to give to [`call`](Self::call), if somebody waits; asked before the release is sent.
    pub(crate) fn served(&self, lock: &LockInner) -> Option<u64> {
        let waits = !self.lines.is_empty();
        waits.then(|| self.lines.served(&key(lock))).flatten()
    }

    /// Calls the first of those who wait for the lock: a release is on its way, of which nobody has profited yet.
    pub(crate) fn call(&self, lock: &LockInner, served: u64) {
        self.lines.call(&key(lock), served);
    }

    pub(crate) fn enter(&self, lock: &LockInner) -> Position<'_> {
        self.lines.enter(key(lock), || GateFront {
            subscriptions: None,
            look_at: Instant::now(),
            full: false,
            open: false,
            rivals: 0,
        })
    }
}

pub(crate) fn key(lock: &LockInner) -> Key {
    (lock.word, lock.names.line())
}

/// The subscriptions to a lock's channels, each at every server set.
pub(crate) struct Subscriptions {
    subscriptions: Vec<Subscription>,
    /// How many must be acknowledged before a release cannot be missed.
    enough: usize,
    /// What each has said since the last look, and until when one that owes its voice is late.
    voices: Vec<MessageStatus>,
    late_until: Instant,
}

/// What a subscription has to do with the release that is heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageStatus {
    Silent,
    Spoken,
    /// Enough of the others have spoken of the release before; its next message is of that one too.
    Late,
}

/// What is to come of a release comes within this time after the others' messages.
const LATE: Duration = Duration::from_millis(50);

impl Subscriptions {
    pub(crate) fn new(lock: &LockInner) -> Self {
        let channels = lock.form.channels(&lock.names);
        Subscriptions::on(lock.servers.routes(), &lock.names.key, &channels)
    }

    pub(crate) fn on(routes: &[Arc<Route>], key: &str, channels: &[&str]) -> Self {
        let mut subscriptions = Vec::new();
        for channel in channels {
            let tune = Tune::Channel(channel);
            let each = routes.iter();
            subscriptions.extend(each.map(|route| route.subscribe(key.as_bytes(), tune)));
        }
        Subscriptions {
            voices: vec![MessageStatus::Silent; subscriptions.len()],
            late_until: Instant::now(),
            subscriptions,
            enough: channels.len() * majority(routes.len()),
        }
    }

    /// Completes when enough servers have acknowledged the subscription, or refused it.
    pub(crate) async fn ready(&mut self) {
        let all = self.subscriptions.iter_mut();
        let all: FuturesUnordered<_> = all.map(|one| one.ready()).collect();
        let _: Vec<()> = all.take(self.enough).collect().await;
    }

    /// Whether too few servers let this client listen.
    pub(crate) fn are_refused(&self) -> bool {
        let refused = self.subscriptions.iter().filter(|one| one.is_refused());
        self.subscriptions.len() - refused.count() < self.enough
    }

    /// Completes on the next hint; never if there is nothing to hear. What comes late of a release that was looked at is no hint.
    pub(crate) async fn hint(&mut self) {
        loop {
            let who = match self.subscriptions.as_mut_slice() {
                [] => std::future::pending().await,
                [one] => {
                    one.hint().await;
                    Some(0)
                }
                many => {
                    let each = many.iter_mut().enumerate();
                    let mut any: FuturesUnordered<_> = each
                        .map(|(who, one)| async move {
                            one.hint().await;
                            who
                        })
                        .collect();
                    any.next().await
                }
            };
            if who.is_none_or(|who| self.has_spoken(who)) {
                return;
            }
        }
    }

    /// A release of this client has been looked at; what is said of it comes late.
    pub(crate) fn know(&mut self) {
        self.voices.fill(MessageStatus::Late);
        self.late_until = Instant::now() + LATE;
    }

    /// That look found nothing: what is said of the release is worth another.
    pub(crate) fn doubt(&mut self) {
        self.voices.fill(MessageStatus::Silent);
    }

    /// Notes that one has spoken; false if that was late.
    fn has_spoken(&mut self, who: usize) -> bool {
        let is_late = self.voices[who] == MessageStatus::Late && Instant::now() < self.late_until;
        self.voices[who] = if is_late {
            MessageStatus::Silent
        } else {
            MessageStatus::Spoken
        };
        !is_late
    }

    fn have_spoken(&self) -> bool {
        let spoken = self
            .voices
            .iter()
            .filter(|voice| **voice == MessageStatus::Spoken);
        spoken.count() >= self.enough
    }

    async fn rest(&mut self) {
        while !self.have_spoken() {
            self.hint().await;
        }
    }

    /// Takes in what has been said by now, and answers whether that is enough for a look, which all of it is then worth.
    fn conclude(&mut self) -> bool {
        for who in 0..self.subscriptions.len() {
            let spoken = self.subscriptions[who].hint().now_or_never();
            if spoken.is_some() {
                self.has_spoken(who);
            }
        }
        let enough = self.have_spoken();
        for voice in &mut self.voices {
            *voice = match *voice {
                MessageStatus::Silent if enough => MessageStatus::Late,
                _ => MessageStatus::Silent,
            };
        }
        self.late_until = Instant::now() + LATE;
        enough
    }
}

/// A release on several masters is heard from the fastest first; looking then would find the others still taken. So it is to be heard
/// from a majority. Where other clients are about to look too, a random pause keeps them from splitting the vote.
///
/// Answers whether to look now. Fewer speak where a failed vote is given back: to look then would fail too, and be heard by
/// the others in its turn. They also do where one does not hear: so there is something to see a while later.
pub(crate) async fn settle(
    subscriptions: &mut Subscriptions,
    servers: &Servers,
    rivals: bool,
) -> bool {
    if !servers.is_majority() {
        return true;
    }
    let pause = Duration::from_micros(rand::random_range(1_000..5_000));
    if rivals {
        tokio::time::sleep(pause).await;
    } else {
        let _ = tokio::time::timeout(pause, subscriptions.rest()).await;
    }
    subscriptions.conclude()
}

/// When to look if fewer have spoken than are enough.
pub(crate) fn doubt() -> Duration {
    Duration::from_millis(rand::random_range(20..50))
}
