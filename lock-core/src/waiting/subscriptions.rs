//! What is heard on a lock's channels, at every server set.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use crate::clock::Instant;
use crate::servers::server_set::majority;
use crate::topology::{ChannelName, Route, Subscription};

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
    pub(crate) fn on(routes: &[Arc<Route>], key: &str, channels: &[&str]) -> Self {
        let mut subscriptions = Vec::new();
        for channel in channels {
            let channel_name = ChannelName::Channel(channel);
            let each = routes.iter();
            subscriptions.extend(each.map(|route| route.channels().subscribe(key.as_bytes(), channel_name)));
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
        let all: FuturesUnordered<_> = self.subscriptions.iter_mut().map(|one| one.ready()).collect();
        let _: Vec<()> = all.take(self.enough).collect().await;
    }

    /// Whether too few servers let this client listen.
    pub(crate) fn are_refused(&self) -> bool {
        let refused = self.subscriptions.iter().filter(|one| one.is_refused());
        self.subscriptions.len() - refused.count() < self.enough
    }

    /// Completes on the next hint; never if there is nothing to hear. A late one of a seen release is none.
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
        self.voices[who] = if is_late { MessageStatus::Silent } else { MessageStatus::Spoken };
        !is_late
    }

    fn have_spoken(&self) -> bool {
        self.voices.iter().filter(|voice| **voice == MessageStatus::Spoken).count() >= self.enough
    }

    pub(crate) async fn rest(&mut self) {
        while !self.have_spoken() {
            self.hint().await;
        }
    }

    /// Takes in what has been said by now, and answers whether that is enough for a look.
    pub(crate) fn conclude(&mut self) -> bool {
        for who in 0..self.subscriptions.len() {
            if self.subscriptions[who].hint().now_or_never().is_some() {
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
