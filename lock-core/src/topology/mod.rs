//! The seam between a lock algorithm and the servers: requests by key in, replies with node and time out.
//!
//! | file | what it is for |
//! |---|---|
//! | `request.rs`, `slot.rs` | a command or script call as bytes, and the cluster slot of its key |
//! | `drive.rs`, `attempt.rs`, `refusal.rs` | sends until done: the loop, one attempt, refusals by code |
//! | `single.rs`, `sentinel/`, `cluster/` | the routes: which node a request goes to |
//! | `finished_records.rs` | records at a node that the next request deletes |
//! | `vote.rs` | which of several independent masters a connection leads to |
//! | `node.rs`, `flight.rs` | the connections of a node; work that many ask for at once, done once |
//! | `dial.rs`, `dial_error.rs`, `tls/` | makes a connection, or says why there is none |
//! | `conn.rs`, `shared_connection/` | one connection that many tasks share |
//! | `pubsub/`, `subscriber.rs` | subscriptions, each shared by its waiters |
//! | `survey.rs` | what a server reports about itself |

mod attempt;
mod cluster;
mod conn;
mod dial;
mod dial_error;
mod drive;
mod finished_records;
mod flight;
mod node;
mod pubsub;
mod refusal;
mod request;
mod sentinel;
mod shared_connection;
mod single;
mod slot;
mod subscriber;
pub(crate) mod survey;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod vote;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};

use self::cluster::Cluster;
use self::dial::Dialer;
use self::drive::drive;
use self::flight::Joined;
pub(crate) use self::node::Node;
use self::pubsub::Channels;
pub(crate) use self::pubsub::{ReceivedMessages, Subscription};
pub(crate) use self::refusal::{
    CLOSED, MAX_CLIENTS, RESTARTED, RequestPurpose, UNREADABLE, WRONG_TYPE, passes, unreadable,
};
pub(crate) use self::request::{Request, RequestCommand, Script, WaitFor};
use self::sentinel::Sentinel;
use self::single::Single;
pub use self::slot::slot;
pub(crate) use self::tls::Secure;
use self::vote::Voter;
use crate::client::target::{Target, TopologyKind};
use crate::clock::{Instant, timeout_at};
use crate::machine::ClientRuntime;
use crate::{ClientOptions, PubSub};

/// A reply. `value` never is a server error: those are [`NodeError`]s, also those that a script raises.
#[derive(Debug, Clone)]
pub(crate) struct ServerReply {
    pub(crate) value: redis::Value,
    pub(crate) node: Arc<str>,
    /// When the attempt that was answered was handed to the connection.
    pub(crate) sent_at: Instant,
    /// WAIT's answer and what was demanded, where asked.
    pub(crate) acked: Option<(u32, u32)>,
    pub(crate) attempt: u32,
}

fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// A request that got no usable answer.
#[derive(Debug, Clone)]
pub(crate) struct NodeError {
    pub(crate) node: Option<String>,
    /// Certainly no effect, of any attempt of the same `send`. With a code and not so: a script broke off.
    pub(crate) definite: bool,
    /// Server error code (`NOSCRIPT`, `OOM`, …) if the server answered one.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) attempt: u32,
}

impl NodeError {
    /// Nothing came of it, for certain.
    pub(crate) fn local(message: impl Into<String>) -> Self {
        NodeError { node: None, definite: true, code: None, message: message.into(), attempt: 1 }
    }

    /// What a closed client answers: certainly nothing was sent, and nothing will be.
    pub(crate) fn closed() -> Self {
        NodeError { code: Some(CLOSED.to_owned()), attempt: 0, ..NodeError::local("the client was closed") }
    }

    /// Nothing came of it at a node, for certain.
    fn at(node: &Node, code: Option<String>, message: String) -> Self {
        NodeError { node: Some(node.label.to_string()), code, ..NodeError::local(message) }
    }
}

/// One logical server set: a single server, a sentinel group, a cluster. Independent masters are several.
pub(crate) type Route = dyn Topology;

impl Route {
    /// Runs the request at the master that owns its keys. Definite refusals (NOSCRIPT, MOVED, ASK, TRYAGAIN,
    /// READONLY, LOADING, CLUSTERDOWN, MASTERDOWN, BUSY, refused connections) are retried, with rediscovery,
    /// until `deadline`; an answer that is lost ends the call at once as not definite. Never takes longer
    /// than `deadline` whatever the network does. Once the route is closed, [`NodeError::closed`].
    pub(crate) async fn send(&self, request: &Request, deadline: Instant) -> Result<ServerReply, NodeError> {
        drive(self, request, deadline).await
    }

    /// Looks for the owner anew, or joins a search under way; returns by the deadline, found or not.
    async fn rediscover(&self, deadline: Instant) {
        if let Some(search) = self.search() {
            let _ = timeout_at(deadline, search).await;
        }
    }
}

/// What a kind of topology says: where its requests go. The rest is the same for all.
pub(crate) trait Topology: Send + Sync {
    /// The node that owns the request's keys, as far as known.
    fn owner(&self, request: &Request) -> Option<Arc<Node>>;
    /// Begins to look for the owner anew, or joins who does, where there is more than one place to look. It
    /// goes on if nobody waits for it.
    fn search(&self) -> Option<Joined<()>> {
        None
    }
    /// An answer was lost: the next request should not find the same.
    fn suspect(&self) {
        drop(self.search());
    }
    /// The same after a redirection, which may have named a node that knows better.
    fn moved(&self, _to: Option<&Arc<Node>>) {
        self.suspect();
    }
    /// The node that a redirection of `from` names (`MOVED 3999 127.0.0.1:6381`).
    fn redirected(&self, _from: &Node, _message: &str) -> Option<Arc<Node>> {
        None
    }
    /// For messages before any node is known.
    fn name(&self) -> String;
    /// Why there is no owner of anything until somebody corrects it: as a server refused the last search.
    fn refuses(&self) -> Option<NodeError> {
        None
    }
    /// Whether keys of one request must lie in one slot.
    fn is_sharded(&self) -> bool {
        false
    }
    fn dialer(&self) -> &Dialer;
    fn channels(&self) -> &Channels;
    fn masters(&self) -> Vec<Arc<Node>>;
    /// After how much silence of the master sentinels replace it; `None` where none has said it.
    fn down_after_ms(&self) -> Option<u64> {
        None
    }
    fn close_nodes(&self);

    fn hears_patterns(&self) -> bool {
        self.channels().publish_command() == "PUBLISH"
    }
    fn close(&self) {
        self.channels().close();
        self.close_nodes();
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ChannelName<'a> {
    Channel(&'a str),
    /// Every channel that a pattern of PSUBSCRIBE fits; there is no such thing where publishing is sharded.
    Pattern(&'a str),
}

/// What a key is asked, and how it answers for as long as nothing has happened to it.
pub(crate) struct KeyCheck {
    command: redis::Cmd,
    expected: redis::Value,
}

impl KeyCheck {
    pub(crate) fn new(asked: &Request, expected: redis::Value) -> Self {
        let (keys, args) = asked.parts();
        let command = redis::cmd(asked.what().name()).arg(keys).arg(args).take();
        KeyCheck { command, expected }
    }
}

/// Takes a message, or says that it is there no more.
pub(crate) type MessageReader = Box<dyn Fn(&Message) -> bool + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) channel: String,
    pub(crate) payload: Vec<u8>,
}

/// Connects to a target: one route, but for independent masters one per endpoint (unreachable masters of a
/// quorum are routes too: they connect lazily).
///
/// `tls` where the target asks for it; `runtime` carries what is connected. Fails, always for certain, if
/// nothing answers within the connect timeout; of independent masters a majority must.
///
/// Boxed, so that connections are compiled in this crate and not with each user of it.
pub(crate) fn connect<'a>(
    target: &'a Target,
    options: &'a ClientOptions,
    tls: Option<Secure>,
    runtime: &'a ClientRuntime,
) -> BoxFuture<'a, Result<Vec<Arc<Route>>, NodeError>> {
    Box::pin(async move {
        // A dial that takes all of its time has a moment left to say why.
        let deadline = Instant::now() + options.connect_timeout + Duration::from_millis(20);
        match target.shape {
            TopologyKind::Single | TopologyKind::Masters => {
                reached(masters(target, options, tls, runtime), deadline).await
            }
            TopologyKind::Sentinel => {
                let sentinel = Sentinel::new(target, options, tls, runtime);
                sentinel.reach(target, deadline).await?;
                Ok(vec![Arc::new(sentinel) as Arc<Route>])
            }
            TopologyKind::Cluster => {
                let dialer = Arc::new(Dialer::new(target, options, tls, runtime));
                let cluster =
                    Cluster::connect(target.endpoints.clone(), dialer, target.pub_sub(options), deadline)
                        .await?;
                Ok(vec![Arc::new(cluster) as Arc<Route>])
            }
        }
    })
}

/// The same, where nobody is dialled before the first request or subscription. Not for a cluster of which
/// nobody says how messages are published: that is to be asked of its servers.
pub(crate) fn unconnected(
    target: &Target,
    options: &ClientOptions,
    tls: Option<Secure>,
    runtime: &ClientRuntime,
) -> Result<Vec<Arc<Route>>, String> {
    let way = target.pub_sub(options);
    match target.shape {
        TopologyKind::Single | TopologyKind::Masters => Ok(routes(masters(target, options, tls, runtime))),
        TopologyKind::Sentinel => {
            Ok(vec![Arc::new(Sentinel::new(target, options, tls, runtime))])
        }
        TopologyKind::Cluster if matches!(way, PubSub::Plain | PubSub::Sharded) => {
            let dialer = Arc::new(Dialer::new(target, options, tls, runtime));
            Ok(vec![Arc::new(Cluster::new(target.endpoints.clone(), dialer, way))])
        }
        TopologyKind::Cluster => Err(
            "before its servers can be asked, a cluster's client is to be told how they publish: `?pubsub=sharded` (Redis 7.0 and later) or `?pubsub=plain` in the URL, or \
             ClientOptions::pub_sub"
                .to_owned(),
        ),
    }
}

fn masters(
    target: &Target,
    options: &ClientOptions,
    tls: Option<Secure>,
    runtime: &ClientRuntime,
) -> Vec<Single> {
    let several = target.shape == TopologyKind::Masters;
    (target.endpoints.iter().zip(Voter::all(target.endpoints.len())))
        .map(|(endpoint, voter)| {
            let mut dialer = Dialer::new(target, options, tls.clone(), runtime);
            dialer.voter = several.then_some(voter);
            Single::new(endpoint.clone(), Arc::new(dialer), target.pub_sub(options))
        })
        .collect()
}

fn routes(singles: Vec<Single>) -> Vec<Arc<Route>> {
    singles.into_iter().map(|single| Arc::new(single) as Arc<Route>).collect()
}

/// Servers of which more than half have answered.
async fn reached(singles: Vec<Single>, deadline: Instant) -> Result<Vec<Arc<Route>>, NodeError> {
    let majority = singles.len() / 2 + 1;
    let mut dials: FuturesUnordered<_> = singles.iter().map(|single| single.reach(deadline)).collect();
    let (mut reached, mut errors) = (0, Vec::new());
    while let Some(dialled) = dials.next().await {
        match dialled {
            Ok(()) => reached += 1,
            Err(error) => errors.push(error),
        }
        if reached == majority {
            drop(dials);
            return Ok(routes(singles));
        }
    }
    if errors.len() == 1 && singles.len() == 1 {
        return Err(errors.remove(0));
    }
    let reasons: Vec<_> = errors.into_iter().map(|error| error.message).collect();
    Err(NodeError::local(format!(
        "{reached} of {} masters answered, a majority is {majority}: {}",
        singles.len(),
        reasons.join("; ")
    )))
}
