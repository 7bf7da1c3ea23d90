//! The route to a cluster: each request goes to the master that owns its slot.
mod map;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use self::state::State;
use super::{
    NodeError, Request, Route,
    dial::Dialer,
    node::{Node, Purpose},
    pubsub::{Channels, Places},
    slot,
};
use crate::{
    PubSub,
    clock::{Instant, timeout_at},
    target::Endpoint,
};

#[derive(Debug)]
pub(crate) struct Cluster {
    state: Arc<State>,
    channels: Channels,
}

impl Cluster {
    /// Reads the slot map, and finds out whether the servers know sharded channels where that decides.
    pub(crate) async fn connect(
        seeds: Vec<Endpoint>,
        dialer: Arc<Dialer>,
        way: PubSub,
        deadline: Instant,
    ) -> Result<Self, NodeError> {
        let state = State::new(seeds, dialer);
        if timeout_at(deadline, state.refresh()).await.is_err() || state.masters().is_empty() {
            return Err(state.unreached());
        }
        let way = match way {
            PubSub::Auto | PubSub::Both => {
                let sharded = knows_sharded_channels(&state.masters(), deadline).await;
                match (sharded, way) {
                    (false, _) => PubSub::Plain,
                    (true, PubSub::Auto) => PubSub::Sharded,
                    (true, way) => way,
                }
            }
            way => way,
        };
        let channels = Channels::new(state.clone(), way);
        Ok(Cluster { state, channels })
    }
}

/// Asks the masters for the first definite answer to PUBSUB SHARDNUMSUB (Redis 7.0 and later know it).
async fn knows_sharded_channels(masters: &[Arc<Node>], deadline: Instant) -> bool {
    let probe = redis::cmd("PUBSUB").arg("SHARDNUMSUB").take();
    for node in masters {
        let Ok(lease) = node.dialled(Purpose::Command, deadline).await else {
            continue;
        };
        match timeout_at(deadline, lease.conn.command(&probe)).await {
            Ok(Ok(answer)) => return !matches!(answer, redis::Value::ServerError(_)),
            Ok(Err(_)) | Err(_) => continue,
        }
    }
    false
}

#[async_trait]
impl Route for Cluster {
    fn owner(&self, request: &Request) -> Option<Arc<Node>> {
        match request.first_key() {
            Some(key) => self.state.owner(slot(key)),
            None => self.state.masters().first().cloned(),
        }
    }
    async fn rediscover(&self, deadline: Instant) {
        let _ = timeout_at(deadline, self.state.refresh()).await;
    }
    fn suspect(&self) {
        // The flight runs by itself; nobody here needs its result.
        drop(self.state.refresh());
    }
    fn redirected(&self, from: &Node, message: &str) -> Option<Arc<Node>> {
        // `MOVED 3999 127.0.0.1:6381`, IPv6 without brackets, the host empty if it is the one that was asked.
        let (host, port) = message.split_whitespace().nth(2)?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let to = map::endpoint(host, port.parse().ok()?, &from.endpoint)?;
        Some(self.state.node(to))
    }
    fn is_sharded(&self) -> bool {
        true
    }
    fn dialer(&self) -> &Dialer {
        &self.state.dialer
    }
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn masters(&self) -> Vec<Arc<Node>> {
        self.state.masters()
    }
    fn name(&self) -> String {
        self.state.label()
    }
    fn close_nodes(&self) {
        self.state.close();
    }
}

impl Places for State {
    fn place(&self, slot: u16) -> Option<Arc<Node>> {
        self.owner(slot)
    }
    fn misplaced(&self) {
        drop(self.refresh());
    }
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.version())
    }
}
