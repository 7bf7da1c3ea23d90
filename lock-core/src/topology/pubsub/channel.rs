//! One channel: what comes on it is a hint for all of its waiters.
use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::clock::Instant;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::topology::{ChannelName, KeyCheck, Message, MessageReader};

/// What has come on a channel since this client began to listen to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceivedMessages {
    pub(crate) messages: u64,
    pub(crate) at: Option<Instant>,
}

/// What the server has said to the subscription that this client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionStatus {
    Pending,
    Acknowledged,
    /// It is asked again, but nobody waits for that.
    Refused,
}

pub(super) struct Channel {
    pub(super) name: String,
    pub(super) pattern: bool,
    pub(super) slot: u16,
    /// The feed that has the channel; changed and compared under the lock of `status`.
    home: AtomicU64,
    waiters: AtomicUsize,
    idle_since: Mutex<Instant>,
    hints: watch::Sender<u64>,
    heard: Mutex<ReceivedMessages>,
    status: watch::Sender<SubscriptionStatus>,
    reader: Mutex<Option<MessageReader>>,
    /// Of a key, what it is asked and how it answers as long as nothing has happened to it.
    check: Mutex<Option<Arc<KeyCheck>>>,
}

impl Channel {
    pub(super) fn new(channel_name: ChannelName<'_>, slot: u16) -> Self {
        let (ChannelName::Channel(name) | ChannelName::Pattern(name)) = channel_name;
        Channel {
            pattern: matches!(channel_name, ChannelName::Pattern(_)),
            name: name.to_owned(),
            slot,
            home: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            hints: watch::Sender::new(0),
            heard: Mutex::new(ReceivedMessages::default()),
            status: watch::Sender::new(SubscriptionStatus::Pending),
            reader: Mutex::new(None),
            check: Mutex::new(None),
        }
    }

    /// What the key is expected to answer from now on.
    pub(super) fn expect(&self, check: Option<KeyCheck>) {
        *self.check.lock() = check.map(Arc::new);
    }

    pub(super) fn check(&self) -> Option<Arc<KeyCheck>> {
        self.check.lock().clone()
    }

    /// The key has answered.
    pub(super) fn checked(&self, feed: u64, as_expected: bool) {
        self.turn(feed, SubscriptionStatus::Acknowledged);
        if !as_expected {
            self.hint();
        }
    }

    /// From now on only this feed may say how the subscription stands; one that was left may still be ending.
    pub(super) fn settle(&self, feed: u64) {
        self.status.send_if_modified(|status| {
            self.home.store(feed, Ordering::Release);
            let was = *status == SubscriptionStatus::Acknowledged;
            if was {
                *status = SubscriptionStatus::Pending;
                self.hint();
            }
            was
        });
    }

    pub(super) fn acknowledged(&self, feed: u64) {
        self.set(feed, SubscriptionStatus::Acknowledged);
    }

    /// The subscription is gone; messages may have been missed. A refused one stays so until acknowledged.
    pub(super) fn lost(&self, feed: u64) {
        if *self.status.borrow() != SubscriptionStatus::Refused {
            self.set(feed, SubscriptionStatus::Pending);
        }
    }

    /// The server does not let this client listen: who waits looks by itself, once because of this.
    pub(super) fn refused(&self, feed: u64) {
        if self.turn(feed, SubscriptionStatus::Refused) {
            self.hint();
        }
    }

    fn set(&self, feed: u64, to: SubscriptionStatus) {
        self.turn(feed, to);
        self.hint();
    }

    fn turn(&self, feed: u64, to: SubscriptionStatus) -> bool {
        self.status.send_if_modified(|status| {
            let ours = self.home.load(Ordering::Acquire) == feed;
            ours && std::mem::replace(status, to) != to
        })
    }

    pub(super) fn message(&self, message: &Message) {
        let mut reader = self.reader.lock();
        if let Some(read) = &*reader {
            if read(message) {
                return;
            }
            *reader = None;
        }
        drop(reader);
        {
            // Before the hint, so that no message wakes a waiter before it counts.
            let mut heard = self.heard.lock();
            heard.messages += 1;
            heard.at = Some(Instant::now());
        }
        self.hint();
    }

    pub(super) fn heard(&self) -> ReceivedMessages {
        *self.heard.lock()
    }

    pub(super) fn hint(&self) {
        self.hints.send_modify(|count| *count += 1);
    }

    pub(super) fn is_idle(&self, linger: Duration) -> bool {
        self.waiters.load(Ordering::Acquire) == 0 && self.idle_since.lock().elapsed() > linger
    }
}

pub(crate) struct Waiter {
    channel: Arc<Channel>,
    hints: watch::Receiver<u64>,
    status: watch::Receiver<SubscriptionStatus>,
}

impl Waiter {
    pub(super) fn join(channel: Arc<Channel>) -> Self {
        channel.waiters.fetch_add(1, Ordering::AcqRel);
        Waiter { hints: channel.hints.subscribe(), status: channel.status.subscribe(), channel }
    }

    /// See [`Subscription`](crate::topology::Subscription).
    pub(crate) async fn ready(&mut self) {
        // The sender lives in the channel that this waiter holds, so waiting cannot fail.
        let settled = |status: &SubscriptionStatus| *status != SubscriptionStatus::Pending;
        let _ = self.status.wait_for(settled).await;
        // A waiter that is ready looks at the lock next; the acknowledgement need not send it there twice.
        self.hints.mark_unchanged();
    }

    pub(crate) async fn hint(&mut self) {
        let _ = self.hints.changed().await;
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.status.borrow() == SubscriptionStatus::Acknowledged
    }

    pub(crate) fn is_refused(&self) -> bool {
        *self.status.borrow() == SubscriptionStatus::Refused
    }

    pub(crate) fn read(&mut self, reader: MessageReader) {
        let place = &self.channel.reader;
        *place.lock() = Some(reader);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        *self.channel.idle_since.lock() = Instant::now();
        self.channel.waiters.fetch_sub(1, Ordering::AcqRel);
    }
}
