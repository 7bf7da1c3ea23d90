//! One node's pub/sub connection: acknowledgements and messages, and a new dial whenever it is lost.
use std::{collections::HashMap, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, poll, stream::FuturesUnordered};
use redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Order, channel::Channel};
use crate::clock::Instant;
use crate::topology::{Message, conn::Conn, node::Node};

/// A connection that has heard nothing for so long is asked PING.
const QUIET: Duration = Duration::from_secs(2);
/// First and longest pause before the node is dialled again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

pub(super) enum FeedOrder {
    Add(Arc<Channel>),
    Remove(String),
}

struct Member {
    channel: Arc<Channel>,
    /// Subscriptions sent and not acknowledged. Only the last one counts: an earlier one was undone again.
    pending: u32,
}

/// The channels that are subscribed at one node.
///
/// Only pushes are believed: when the server itself ends a sharded subscription, its message takes the place of a
/// reply in the client library, and from then on replies on this connection may be off by one. Therefore nothing but
/// subscriptions and PING is ever sent here, and a reply says no more than that the server is there, or unwilling.
pub(super) struct Feed {
    id: u64,
    node: Arc<Node>,
    sharded: bool,
    board: UnboundedSender<Order>,
    members: HashMap<String, Member>,
}

struct Live {
    conn: Arc<Conn>,
    replies: FuturesUnordered<BoxFuture<'static, RedisResult<Value>>>,
    /// Since when something is expected and nothing was heard.
    expecting: Option<Instant>,
    heard: Instant,
}

impl Feed {
    pub(super) fn new(
        id: u64,
        node: Arc<Node>,
        sharded: bool,
        board: UnboundedSender<Order>,
    ) -> Self {
        Feed {
            id,
            node,
            sharded,
            board,
            members: HashMap::new(),
        }
    }

    /// Runs until the board lets go of it.
    pub(super) async fn run(mut self, mut orders: UnboundedReceiver<FeedOrder>) {
        let mut pause = BACK_OFF.0;
        loop {
            let (pushes, inbox) = unbounded_channel();
            let dialled = {
                let node = self.node.clone();
                let dial = async move { node.dialer.dial_for_pushes(&node.endpoint, pushes).await };
                self.meanwhile(&mut orders, dial).await
            };
            match dialled {
                None => return,
                Some(Ok(conn)) => {
                    pause = BACK_OFF.0;
                    if self.serve(conn, inbox, &mut orders).await {
                        return;
                    }
                }
                Some(Err(_)) => {}
            }
            for member in self.members.values_mut() {
                member.pending = 0;
            }
            let _ = self.board.send(Order::Lost);
            if self.meanwhile(&mut orders, sleep(pause)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(BACK_OFF.1);
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
                order = orders.recv() => match order? {
                    FeedOrder::Add(channel) => {
                        self.members.insert(channel.name.clone(), Member { channel, pending: 0 });
                    }
                    FeedOrder::Remove(name) => {
                        self.members.remove(&name);
                    }
                },
            }
        }
    }

    /// Serves one connection to its end. True if the board let go of the feed.
    async fn serve(
        &mut self,
        conn: Arc<Conn>,
        mut pushes: UnboundedReceiver<PushInfo>,
        orders: &mut UnboundedReceiver<FeedOrder>,
    ) -> bool {
        let mut live = Live {
            conn,
            replies: FuturesUnordered::new(),
            expecting: None,
            heard: Instant::now(),
        };
        let patience = self.node.dialer.response_timeout;
        let mut tick =
            interval((patience / 2).clamp(Duration::from_millis(20), Duration::from_millis(500)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for member in self.members.values_mut() {
            member.pending = 1;
        }
        let channels: Vec<_> = self
            .members
            .values()
            .map(|member| member.channel.clone())
            .collect();
        for channel in channels {
            self.ask(&mut live, &channel, true).await;
        }
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return true,
                    Some(FeedOrder::Add(channel)) => {
                        let asked = Arc::clone(&channel);
                        let name = channel.name.clone();
                        let member = self.members.entry(name).or_insert(Member { channel, pending: 0 });
                        member.pending += 1;
                        self.ask(&mut live, &asked, true).await;
                    }
                    Some(FeedOrder::Remove(name)) => {
                        if let Some(member) = self.members.remove(&name) {
                            member.channel.lost(self.id);
                            self.ask(&mut live, &member.channel, false).await;
                        }
                    }
                },
                push = pushes.recv() => match push {
                    None | Some(PushInfo { kind: PushKind::Disconnection, .. }) => break,
                    Some(push) => {
                        live.heard();
                        self.pushed(&push);
                    }
                },
                Some(reply) = live.replies.next() => match reply {
                    Ok(Value::ServerError(_)) => {
                        live.heard();
                        self.refused();
                    }
                    Ok(_) => live.heard(),
                    Err(_) => break,
                },
                _ = tick.tick() => {
                    if live.expecting.is_some_and(|since| since.elapsed() > patience) {
                        live.conn.kill();
                        break;
                    }
                    if live.expecting.is_none() && live.heard.elapsed() > QUIET {
                        live.say("PING", None).await;
                    }
                },
            }
        }
        for member in self.members.values() {
            member.channel.lost(self.id);
        }
        false
    }

    /// Subscribes or ends a subscription; its acknowledgement comes later.
    async fn ask(&self, live: &mut Live, channel: &Channel, on: bool) {
        let verb = self.verb(channel, on);
        if let Some(tracer) = &self.node.dialer.tracer {
            tracer.channel(&self.node.label, verb, &channel.name, None);
        }
        live.say(verb, Some(&channel.name)).await;
    }

    fn verb(&self, channel: &Channel, on: bool) -> &'static str {
        match (self.sharded, channel.pattern, on) {
            (true, _, true) => "SSUBSCRIBE",
            (true, _, false) => "SUNSUBSCRIBE",
            (false, true, true) => "PSUBSCRIBE",
            (false, true, false) => "PUNSUBSCRIBE",
            (false, false, true) => "SUBSCRIBE",
            (false, false, false) => "UNSUBSCRIBE",
        }
    }

    fn pushed(&mut self, push: &PushInfo) {
        let Some(Value::BulkString(name)) = push.data.first() else {
            return;
        };
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        match push.kind {
            PushKind::Message | PushKind::SMessage | PushKind::PMessage => {
                // Of a pattern the channel stands behind it.
                match &push.data[push.data.len().saturating_sub(2)..] {
                    [Value::BulkString(channel), Value::BulkString(payload)] => {
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
            PushKind::Subscribe | PushKind::SSubscribe | PushKind::PSubscribe => {
                member.pending = member.pending.saturating_sub(1);
                if member.pending == 0 {
                    member.channel.acknowledged(self.id);
                }
            }
            // Not asked for by us, who forget a channel before leaving it: its slot has moved away.
            PushKind::Unsubscribe | PushKind::SUnsubscribe | PushKind::PUnsubscribe
                if member.pending == 0 =>
            {
                if let Some(member) = self.members.remove(name) {
                    member.channel.lost(self.id);
                    let _ = self.board.send(Order::Again(member.channel));
                }
            }
            _ => {}
        }
    }

    /// Some subscription was refused (the slot is elsewhere, the server is loading); which one is not known.
    fn refused(&mut self) {
        let refused = self.members.extract_if(|_, member| member.pending > 0);
        for (_, member) in refused {
            member.channel.lost(self.id);
            let _ = self.board.send(Order::Again(member.channel));
        }
    }
}

impl Live {
    /// Writes a command now; its reply comes later.
    async fn say(&mut self, verb: &str, channel: Option<&str>) {
        let mut command = redis::cmd(verb);
        if let Some(channel) = channel {
            command.arg(channel);
        }
        let conn = self.conn.clone();
        let mut reply = async move { conn.command(&command).await }.boxed();
        self.expecting.get_or_insert_with(Instant::now);
        // The first poll puts the command into the connection's queue, so that commands keep their order.
        let polled = poll!(&mut reply);
        self.replies.push(match polled {
            Poll::Ready(reply) => std::future::ready(reply).boxed(),
            Poll::Pending => reply,
        });
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
        self.expecting = None;
    }
}
