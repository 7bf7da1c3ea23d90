//! The route to the master that the sentinels name.
mod report;
mod state;

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use self::state::State;
use super::dial::{Dialer, Proof};
use super::flight::Joined;
use super::node::Node;
use super::pubsub::{Channels, FixedNode, Hub, Listening};
use super::{ChannelName, NodeError, Request, Secure, Topology};
use crate::ClientOptions;
use crate::client::target::{Target, addresses};
use crate::clock::{Instant, timeout_at};
use crate::machine::ClientRuntime;

/// Where a sentinel announces that another master was elected.
const SWITCHED: &str = "+switch-master";

/// A master with its replicas, watched by sentinels.
pub(crate) struct Sentinel {
    state: Arc<State>,
    channels: Channels,
    announcements: Vec<Hub>,
    watchers: Vec<AbortOnDropHandle<()>>,
}

impl Sentinel {
    /// Listens for the next master from now on; who it is now is asked by the first request.
    pub(crate) fn new(
        target: &Target,
        options: &ClientOptions,
        tls: Option<Secure>,
        runtime: &ClientRuntime,
    ) -> Self {
        let dialer = Arc::new(Dialer::new(target, options, tls, runtime));
        let witnesses: Vec<_> = target
            .endpoints
            .iter()
            .map(|endpoint| {
                Node::new(endpoint.clone(), Arc::new(dialer.for_sentinel(target)), Proof::Answers)
            })
            .collect();
        let name = target.master_name.clone().unwrap_or_default();
        let state = State::new(name, addresses(&target.endpoints), dialer, witnesses);
        let announcements: Vec<_> = state
            .witnesses
            .iter()
            .map(|witness| Hub::new(Arc::new(FixedNode(witness.clone())), Listening::Plain, runtime))
            .collect();
        let watchers = announcements.iter().map(|hub| watch_for_switch(hub, &state)).collect();
        Sentinel {
            channels: Channels::new(state.clone(), target.pub_sub(options), runtime),
            state,
            announcements,
            watchers,
        }
    }

    pub(crate) async fn reach(&self, target: &Target, deadline: Instant) -> Result<(), NodeError> {
        loop {
            let _ = timeout_at(deadline, self.state.search()).await;
            if self.state.master().is_some() {
                return Ok(());
            }
            // The one that is named may be down, or not be told yet that it is the master.
            if !self.state.may_pass.get() || Instant::now() >= deadline {
                break;
            }
        }
        self.close();
        Err(NodeError::local(format!("no master for {target}: {}", self.state.why_none())))
    }
}

/// Looks for the master at every announcement, and whenever announcements may have been missed.
fn watch_for_switch(hub: &Hub, state: &Arc<State>) -> AbortOnDropHandle<()> {
    let mut announcements = hub.join(b"", ChannelName::Channel(SWITCHED));
    let runtime = state.dialer.runtime.clone();
    let state = Arc::downgrade(state);
    let watcher = runtime.spawn(async move {
        loop {
            announcements.hint().await;
            let Some(state) = state.upgrade() else { return };
            drop(state.search());
        }
    });
    AbortOnDropHandle::new(watcher)
}

impl Topology for Sentinel {
    fn owner(&self, _: &Request) -> Option<Arc<Node>> {
        self.state.master()
    }
    fn search(&self) -> Option<Joined<()>> {
        Some(self.state.search())
    }
    fn name(&self) -> String {
        format!("{}: {}", self.state.label(), self.state.why_none())
    }
    fn refuses(&self) -> Option<NodeError> {
        let code = self.state.refused.lock().clone()?;
        Some(NodeError { code: Some(code), ..NodeError::local(self.name()) })
    }
    fn dialer(&self) -> &Dialer {
        &self.state.dialer
    }
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn masters(&self) -> Vec<Arc<Node>> {
        self.state.last_master().into_iter().collect()
    }
    fn down_after_ms(&self) -> Option<u64> {
        self.state.down_after_ms()
    }
    fn close_nodes(&self) {
        self.announcements.iter().for_each(Hub::close);
        self.watchers.iter().for_each(|watcher| watcher.abort());
        self.state.close();
    }
}
