//! One node's pub/sub connection: acknowledgements and messages, and a new dial whenever it is lost.
use std::collections::{HashMap, VecDeque};
use std::{pin::pin, sync::Arc, time::Duration};

use redis::{Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{Listening, Order, channel::Channel};
use crate::clock::Instant;
use crate::diagnostics::concern::Concern;
use crate::telemetry::degraded;
use crate::topology::refusal::{RequestPurpose, UNREADABLE, WRONG_TYPE, passes, unreadable};
use crate::topology::subscriber::{Subscriber, is_for_subscribers};
use crate::topology::{Message, NodeError, dial::Dialer, node::Node};

/// A connection that has heard nothing for so long is asked PING.
const QUIET: Duration = Duration::from_secs(2);
/// First and longest pause before the node is dialled again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// Longest pause where keys are followed, of which a loss costs no more than the time to the next renewal.
const KEYS_BACK_OFF: Duration = Duration::from_secs(10);
/// First and longest pause where a server has said that it does not tell of keys.
const REFUSED_BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// As `QUIET`, there.
const KEYS_QUIET: Duration = Duration::from_secs(15);
/// A key that changes oftener than `KEY_PAUSE`, so many times in a row, is asked with the next tick and no
/// more at once: so is one that is forgotten again and again by a server that remembers too few.
const KEY_CHANGES: u32 = 4;
const KEY_PAUSE: Duration = Duration::from_millis(100);
/// A server that ends so many connections in a row at their first subscription refuses it, as proxies do.
const SILENT_REFUSALS: u32 = 3;

pub(super) enum FeedOrder {
    Add(Arc<Channel>),
    Remove(String),
}

struct Member {
    channel: Arc<Channel>,
    /// Subscriptions sent and not acknowledged. Only the last one counts: an earlier one was undone again.
    pending: u32,
    /// Of a key, when it last changed, how often within `KEY_PAUSE`, and whether it is to be asked for that.
    changed_at: Option<Instant>,
    changes: u32,
    is_due: bool,
}

impl Member {
    fn new(channel: Arc<Channel>) -> Self {
        Member { channel, pending: 0, changed_at: None, changes: 0, is_due: false }
    }

    /// The key has changed: whether to ask it at once.
    fn changes(&mut self) -> bool {
        let before = self.changed_at.replace(Instant::now());
        let is_soon = before.is_some_and(|at| at.elapsed() < KEY_PAUSE);
        self.changes = if is_soon { self.changes + 1 } else { 0 };
        self.is_due = self.changes >= KEY_CHANGES;
        !self.is_due
    }
}

pub(super) struct Feed {
    id: u64,
    node: Arc<Node>,
    to: Listening,
    board: UnboundedSender<Order>,
    members: HashMap<String, Member>,
}

struct Live {
    connection: Subscriber,
    /// What is to be written next.
    commands: Pipeline,
    /// What was asked and not answered, in the order of the answers: the channel, nothing for PING.
    asked: VecDeque<Option<String>>,
    /// A subscription was acknowledged or refused.
    answered: bool,
    expecting: Option<Instant>,
    heard: Instant,
}

impl Feed {
    pub(super) fn new(id: u64, node: Arc<Node>, to: Listening, board: UnboundedSender<Order>) -> Self {
        Feed { id, node, to, board, members: HashMap::new() }
    }

    /// Runs until the board lets go of it.
    pub(super) async fn run(mut self, mut orders: UnboundedReceiver<FeedOrder>) {
        let mut pause = BACK_OFF.0;
        let mut silent_ends = 0;
        let keys = self.to == Listening::Keys;
        loop {
            // A connection that nobody needs now is not dialled anew.
            while keys && self.members.is_empty() {
                match orders.recv().await {
                    Some(order) => self.obey(order),
                    None => return,
                }
            }
            let mut longest = if keys { KEYS_BACK_OFF } else { BACK_OFF.1 };
            let dialled = {
                let node = self.node.clone();
                let dial = async move { node.dialer.dial_for_subscriptions(&node.endpoint, keys).await };
                self.meanwhile(&mut orders, dial).await
            };
            match dialled {
                None => return,
                Some(Ok(connection)) => {
                    let Some(answered) = self.serve(connection, &mut orders).await else {
                        return;
                    };
                    if answered || self.members.is_empty() {
                        pause = BACK_OFF.0;
                        silent_ends = 0;
                    } else {
                        silent_ends += 1;
                    }
                    if silent_ends >= SILENT_REFUSALS {
                        for Member { channel, .. } in self.members.values() {
                            self.refuse(channel, "the connection was ended without an answer");
                        }
                    }
                }
                Some(Err(error)) => {
                    // A proxy may end the connection in place of a refusal, while it carries the others.
                    silent_ends = if self.node.is_connected() { silent_ends + 1 } else { 0 };
                    if keys && (error.code.is_some() || silent_ends >= SILENT_REFUSALS) {
                        pause = pause.max(REFUSED_BACK_OFF.0);
                        longest = REFUSED_BACK_OFF.1;
                        for Member { channel, .. } in self.members.values() {
                            self.refuse(channel, &error.message);
                        }
                    }
                }
            }
            for member in self.members.values_mut() {
                member.pending = 0;
            }
            let _ = self.board.send(Order::Lost);
            if self.meanwhile(&mut orders, sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// Waits for `work` and takes orders meanwhile; `None` if there will be no more of them.
    async fn meanwhile<T>(
        &mut self,
        orders: &mut UnboundedReceiver<FeedOrder>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                order = orders.recv() => self.obey(order?),
            }
        }
    }

    /// Takes an order while there is no connection.
    fn obey(&mut self, order: FeedOrder) {
        match order {
            FeedOrder::Add(channel) => {
                self.members.insert(channel.name.clone(), Member::new(channel));
            }
            FeedOrder::Remove(name) => {
                self.members.remove(&name);
            }
        }
    }

    /// Serves one connection to its end: whether it answered a subscription; `None` if the board let go.
    async fn serve(
        &mut self,
        connection: Subscriber,
        orders: &mut UnboundedReceiver<FeedOrder>,
    ) -> Option<bool> {
        let mut live = Live {
            connection,
            commands: Pipeline::new(),
            asked: VecDeque::new(),
            answered: false,
            expecting: None,
            heard: Instant::now(),
        };
        let patience = self.node.dialer.response_timeout;
        let quiet = if self.to == Listening::Keys { KEYS_QUIET } else { QUIET };
        let mut tick = interval((patience / 2).clamp(Duration::from_millis(20), Duration::from_millis(500)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for member in self.members.values_mut() {
            member.pending = 1;
        }
        let channels: Vec<_> = self.members.values().map(|member| member.channel.clone()).collect();
        for channel in channels {
            self.ask(&mut live, &channel, true);
        }
        loop {
            if !live.write(&self.node.dialer).await {
                break;
            }
            tokio::select! {
                order = orders.recv() => match order {
                    None => return None,
                    Some(FeedOrder::Add(channel)) => {
                        let asked = Arc::clone(&channel);
                        let name = channel.name.clone();
                        self.members.entry(name).or_insert_with(|| Member::new(channel)).pending += 1;
                        self.ask(&mut live, &asked, true);
                    }
                    Some(FeedOrder::Remove(name)) => {
                        if let Some(member) = self.members.remove(&name) {
                            member.channel.lost(self.id);
                            self.ask(&mut live, &member.channel, false);
                        }
                    }
                },
                came = live.connection.next() => {
                    let Ok(value) = came else { break };
                    live.heard = Instant::now();
                    live.expecting = None;
                    match value {
                        Value::Array(parts) if self.to == Listening::Keys => self.changed(&mut live, &parts),
                        Value::ServerError(error) if live.is_of_another_type(&error) => {
                            self.answered(&mut live, &Value::Nil);
                        }
                        Value::Array(parts) if is_for_subscribers(&parts) => {
                            live.note(&parts);
                            self.take(&parts);
                        }
                        // Which command it answers is not said, but the order of answers is that of commands.
                        Value::ServerError(error) => {
                            live.answered = true;
                            if let Some(Some(name)) = live.asked.pop_front() {
                                let code = Some(error.code().to_owned());
                                let refusal = NodeError { code, ..NodeError::local(error.to_string()) };
                                self.refused(&name, &refusal);
                            }
                        }
                        // PONG, before anything is subscribed, what a key holds, or nothing that is known.
                        value => self.answered(&mut live, &value),
                    }
                }
                _ = tick.tick() => {
                    for member in self.members.values_mut() {
                        if std::mem::take(&mut member.is_due) {
                            live.ask_key(&member.channel);
                        }
                    }
                    if live.expecting.is_some_and(|since| since.elapsed() > patience) {
                        break;
                    }
                    if live.expecting.is_none() && live.heard.elapsed() > quiet {
                        live.queue("PING", None);
                    }
                },
            }
        }
        for member in self.members.values() {
            member.channel.lost(self.id);
        }
        Some(live.answered)
    }

    /// Subscribes or ends a subscription; its acknowledgement comes later.
    fn ask(&self, live: &mut Live, channel: &Channel, on: bool) {
        if self.to == Listening::Keys {
            // Whatever a key that nobody follows any more is said to do is overheard.
            if on {
                live.ask_key(channel);
            }
            return;
        }
        let verb = self.verb(channel, on);
        if let Some(tracer) = &self.node.dialer.tracer {
            tracer.channel(&self.node.label, verb, &channel.name, None);
        }
        live.queue(verb, Some(&channel.name));
    }

    /// Keys have changed, maybe by a renewal: each is asked, and followed on by that. Without names all went.
    fn changed(&mut self, live: &mut Live, parts: &[Value]) {
        let names = match parts {
            [Value::BulkString(kind), names] if kind == b"invalidate" => names,
            _ => return,
        };
        for member in self.members.values_mut() {
            let is_meant = match names {
                Value::Array(names) => names.iter().any(
                    |name| matches!(name, Value::BulkString(name) if name == member.channel.name.as_bytes()),
                ),
                _ => true,
            };
            if is_meant && member.changes() {
                live.ask_key(&member.channel);
            }
        }
    }

    /// The answer to what was asked first: PONG, or what a key holds. A subscription is answered otherwise.
    fn answered(&mut self, live: &mut Live, value: &Value) {
        let Some(Some(name)) = live.asked.pop_front() else {
            return;
        };
        live.answered = true;
        if self.to != Listening::Keys {
            let code = Some(UNREADABLE.to_owned());
            self.refused(&name, &NodeError { code, ..NodeError::local(unreadable(value)) });
        } else if let Some(Member { channel, .. }) = self.members.get(&name)
            && let Some(check) = channel.check()
        {
            channel.checked(self.id, check.expected == *value);
            self.node.untracked.lock().take();
        }
    }

    fn verb(&self, channel: &Channel, on: bool) -> &'static str {
        match (self.to, channel.pattern, on) {
            (Listening::Keys, ..) => "CLIENT TRACKING",
            (Listening::Sharded, _, true) => "SSUBSCRIBE",
            (Listening::Sharded, _, false) => "SUNSUBSCRIBE",
            (Listening::Plain, true, true) => "PSUBSCRIBE",
            (Listening::Plain, true, false) => "PUNSUBSCRIBE",
            (Listening::Plain, false, true) => "SUBSCRIBE",
            (Listening::Plain, false, false) => "UNSUBSCRIBE",
        }
    }

    /// A message, an acknowledgement, or the answer to PING: what it is, the channel, and more.
    fn take(&mut self, parts: &[Value]) {
        let [Value::BulkString(kind), Value::BulkString(name), rest @ ..] = parts else {
            return;
        };
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        match &kind[..] {
            b"message" | b"smessage" | b"pmessage" => {
                // Of a pattern the channel stands behind it.
                match (&parts[parts.len() - 2], rest.last()) {
                    (Value::BulkString(channel), Some(Value::BulkString(payload))) => {
                        let message = Message {
                            channel: String::from_utf8_lossy(channel).into_owned(),
                            payload: payload.clone(),
                        };
                        if let Some(tracer) = &self.node.dialer.tracer {
                            let (label, channel) = (&self.node.label, &message.channel);
                            tracer.channel(label, "message", channel, Some(payload));
                        }
                        member.channel.message(&message);
                    }
                    _ => member.channel.hint(),
                }
            }
            b"subscribe" | b"ssubscribe" | b"psubscribe" => {
                member.pending = member.pending.saturating_sub(1);
                if member.pending == 0 {
                    member.channel.acknowledged(self.id);
                    let mut refusal = self.node.refusal.lock();
                    refusal.take_if(|(channel, _)| channel == name);
                }
            }
            // Not asked for by us, who forget a channel before leaving it: its slot has moved away.
            b"unsubscribe" | b"sunsubscribe" | b"punsubscribe" if member.pending == 0 => {
                if let Some(member) = self.members.remove(name) {
                    member.channel.lost(self.id);
                    let _ = self.board.send(Order::Again(member.channel));
                }
            }
            _ => {}
        }
    }

    /// The channel's slot is elsewhere, the server is loading, or this user or server has no subscriptions.
    fn refused(&mut self, name: &str, why: &NodeError) {
        let Some(Member { channel, .. }) = self.members.remove(name) else {
            return;
        };
        if passes(why, RequestPurpose::Answer) {
            channel.lost(self.id);
            let _ = self.board.send(Order::Again(channel));
        } else {
            self.refuse(&channel, &why.message);
            let _ = self.board.send(Order::Refused(channel));
        }
    }

    fn refuse(&self, channel: &Channel, why: &str) {
        let label = &self.node.label;
        let (known, concern) = match self.to {
            Listening::Keys => {
                let known = self.node.untracked.lock().replace(why.to_owned()).is_some();
                (known, Concern::tracking(label, why))
            }
            _ => {
                let found = format!("{} {}: {why}", self.verb(channel, true), channel.name);
                let known = self.node.refusal.lock().replace((channel.name.clone(), found.clone()));
                (known.is_some(), Concern::messages(label, found))
            }
        };
        // It is asked again and again, and said once.
        if !known {
            degraded(&concern);
        }
        channel.refused(self.id);
    }
}

impl Live {
    /// An answer to what was asked first, or a message, or an end that nobody asked for.
    fn note(&mut self, parts: &[Value]) {
        let [Value::BulkString(kind), Value::BulkString(name), ..] = parts else {
            return;
        };
        let is_ack = kind.ends_with(b"subscribe");
        self.answered |= is_ack;
        let name = std::str::from_utf8(name).ok().filter(|_| is_ack);
        if (is_ack || &kind[..] == b"pong")
            && self.asked.front().is_some_and(|asked| asked.as_deref() == name)
        {
            self.asked.pop_front();
        }
    }

    /// Asks what a key holds.
    fn ask_key(&mut self, channel: &Channel) {
        if let Some(check) = channel.check() {
            self.commands.add_command(check.command.clone());
            self.note_asked(Some(channel.name.clone()));
        }
    }

    /// Writes a command with the next others; its acknowledgement comes later.
    fn queue(&mut self, verb: &str, channel: Option<&str>) {
        self.commands.cmd(verb).arg(channel);
        self.note_asked(channel.map(str::to_owned));
    }

    fn note_asked(&mut self, channel: Option<String>) {
        self.asked.push_back(channel);
        self.expecting.get_or_insert_with(Instant::now);
    }

    /// Whether a key that was asked holds something else than a lock.
    fn is_of_another_type(&self, error: &redis::ServerError) -> bool {
        error.code() == WRONG_TYPE && matches!(self.asked.front(), Some(Some(_)))
    }

    /// Writes what is queued; false if the connection does not take it in time.
    async fn write(&mut self, dialer: &Dialer) -> bool {
        if self.commands.is_empty() {
            return true;
        }
        dialer.count(self.commands.len() as u64);
        let bytes = self.commands.get_packed_pipeline();
        self.commands.clear();
        matches!(timeout(dialer.response_timeout, self.connection.write(&bytes)).await, Ok(Ok(())))
    }
}
