//! The waiters of one client on one lock: a line, of which only the first looks at the server.

use std::time::Duration;

use crate::clock::Instant;
use crate::servers::server_set::Servers;
use crate::waiting::line::{self, Lines};
use crate::waiting::subscriptions::Subscriptions;

/// The kind and the names of what is waited for.
pub(crate) type LineKey = (&'static str, Vec<String>);

pub(crate) type Gates = Lines<LineKey, GateFront>;

pub(crate) type Position<'a> = line::Position<'a, LineKey, GateFront>;

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
    pub(crate) fn new() -> Self {
        GateFront { subscriptions: None, look_at: Instant::now(), full: false, open: false, rivals: 0 }
    }

    /// The longest time between two looks: while nothing can be heard, `unheard_pause`.
    pub(crate) fn poll_bound(&self, bound: Duration, waited: Duration) -> Duration {
        match &self.subscriptions {
            Some(subscriptions) if subscriptions.are_refused() => bound.min(unheard_pause(waited)),
            _ => bound,
        }
    }
}

/// When who is told nothing, and has waited for so long, looks again: few looks are made, and none is late by
/// more than a quarter of the whole wait.
pub(crate) fn unheard_pause(waited: Duration) -> Duration {
    const LEAST: Duration = Duration::from_millis(10);
    (waited / 4).max(LEAST)
}

/// For so long after a vote was split, by grants: a split costs ten times what the pause does.
pub(crate) const RIVALS: u32 = 250;

/// A release on several masters is heard from the fastest first; looking then would find the others still
/// taken. So a majority has to be heard. A random pause keeps clients from splitting the vote.
///
/// Answers whether to look now. Fewer speak where a failed vote is given back: to look then would fail too,
/// and be heard by the others in its turn. They also do where one does not hear.
pub(crate) async fn settle(subscriptions: &mut Subscriptions, servers: &Servers, rivals: bool) -> bool {
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
