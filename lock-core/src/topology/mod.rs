//! The seam between a lock algorithm and the servers: requests by key in, replies with their node and time of sending out.
use std::{sync::Arc, time::{Duration, Instant}};
use async_trait::async_trait;
use crate::{client::ClientOptions, target::Target};

/// What is run: a script by its text, or a command by its name (`SET`, …).
#[derive(Debug, Clone, Copy)]
pub(crate) enum What { Script(&'static Script), Command(&'static str) }
/// A script and the SHA-1 of its text (computed once).
#[derive(Debug)]
pub(crate) struct Script { pub(crate) name: &'static str, pub(crate) text: &'static str, pub(crate) sha1: std::sync::OnceLock<String> }
impl Script { pub(crate) const fn new(name: &'static str, text: &'static str) -> Self { Script { name, text, sha1: std::sync::OnceLock::new() } } }
/// How many replicas must acknowledge, checked by WAIT on the same connection in the same write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitFor { pub(crate) replicas: Replicas, pub(crate) timeout: Duration }
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replicas { AtLeast(u32), All }
/// One request; all keys lie in one slot. For `Command`, keys come first, then args.
#[derive(Debug, Clone)]
pub(crate) struct Request { pub(crate) what: What, pub(crate) keys: Vec<Vec<u8>>, pub(crate) args: Vec<Vec<u8>>, pub(crate) wait: Option<WaitFor> }
/// A reply. `value` never is a server error: those are `NodeError`s, but for errors a script raises on purpose (see `NodeError::code`).
#[derive(Debug, Clone)]
pub(crate) struct Sent { pub(crate) value: redis::Value, pub(crate) node: String, /// When the attempt that was answered was handed to the connection.
    pub(crate) sent_at: Instant, /// WAIT's answer and what was demanded, where asked.
    pub(crate) acked: Option<(u32, u32)>, pub(crate) attempt: u32 }
/// A request that got no usable answer.
#[derive(Debug, Clone)]
pub(crate) struct NodeError { pub(crate) node: Option<String>, /// Certainly no effect, of this and of every earlier attempt of the same `send`.
    pub(crate) definite: bool, /// Server error code (`NOSCRIPT`, `OOM`, …) if the server answered one.
    pub(crate) code: Option<String>, pub(crate) message: String, pub(crate) attempt: u32, /// When the first attempt that may have had an effect was sent.
    pub(crate) first_sent_at: Option<Instant> }
/// One logical server set: a single server, a sentinel group, a cluster. Independent masters are several of them.
#[async_trait]
pub(crate) trait Route: std::fmt::Debug + Send + Sync {
    /// Runs the request at the master that owns its keys. Definite refusals (NOSCRIPT, MOVED, ASK, TRYAGAIN, READONLY, LOADING, CLUSTERDOWN,
    /// MASTERDOWN, BUSY, refused connections) are retried, with rediscovery, until `deadline`; an answer that is lost ends the call at once as not definite.
    /// Never takes longer than `deadline` whatever the network does.
    async fn send(&self, request: &Request, deadline: Instant) -> Result<Sent, NodeError>;
    /// Subscribes to a lock's channel at the node that owns `key`; shared by all waiters of this client on that channel; ends on drop.
    fn subscribe(&self, key: &[u8], channel: &str) -> Subscription;
    /// `PUBLISH` or `SPUBLISH`: what release scripts must use here (REDISSON.md §3).
    fn publish_command(&self) -> &'static str;
    /// Commands written so far.
    fn commands(&self) -> u64;
    /// `127.0.0.1:6379`, for messages.
    fn label(&self) -> String;
    async fn close(&self);
}
/// A waiter's view of a channel. Everything is a hint: look at the lock again.
#[derive(Debug)]
pub(crate) struct Subscription { pub(crate) inner: Box<dyn Hints> }
#[async_trait]
pub(crate) trait Hints: std::fmt::Debug + Send + Sync {
    /// Completes when the server has acknowledged the subscription (or at once if it had already).
    async fn ready(&mut self);
    /// Completes on a message, on every re-subscription, and on loss of the connection. Cancel-safe; a hint that came while nobody waited is not lost.
    async fn hint(&mut self);
}
/// Connects to a target: one route, but for independent masters one per endpoint (unreachable masters of a quorum are routes too: they connect lazily).
pub(crate) async fn connect(_target: &Target, _options: &ClientOptions) -> Result<Vec<Arc<dyn Route>>, NodeError> { todo!() }
/// The cluster slot of a key, 0 to 16,383, hash tags respected.
pub fn slot(_key: &[u8]) -> u16 { todo!() }
