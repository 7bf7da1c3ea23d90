//! The route to one fixed server, alone or one of several that vote.
use std::sync::Arc;

use super::dial::{Dialer, Proof};
use super::node::{Node, Purpose};
use super::pubsub::{Channels, FixedNode};
use super::{NodeError, Request, Topology};
use crate::client::target::Endpoint;
use crate::{PubSub, clock::Instant};

/// One server. Replies of a replica (READONLY) are retried: an address may stand for the current master.
pub(crate) struct Single {
    node: Arc<Node>,
    channels: Channels,
}

impl Single {
    /// Nothing is dialled before the first request or subscription.
    pub(crate) fn new(endpoint: Endpoint, dialer: Arc<Dialer>, way: PubSub) -> Self {
        let node = Node::new(endpoint, dialer, Proof::Answers);
        let channels = Channels::new(Arc::new(FixedNode(node.clone())), way, &node.dialer.runtime);
        Single { node, channels }
    }

    /// Dials once, so that a wrong address or password shows at once.
    pub(crate) async fn reach(&self, deadline: Instant) -> Result<(), NodeError> {
        match self.node.dialled(Purpose::Command, deadline).await {
            Ok(_) => Ok(()),
            Err(error) => Err(NodeError::at(&self.node, error.code, error.message)),
        }
    }
}

impl Topology for Single {
    fn owner(&self, _: &Request) -> Option<Arc<Node>> {
        Some(self.node.clone())
    }
    fn dialer(&self) -> &Dialer {
        &self.node.dialer
    }
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn masters(&self) -> Vec<Arc<Node>> {
        vec![self.node.clone()]
    }
    fn name(&self) -> String {
        self.node.label.to_string()
    }
    fn close_nodes(&self) {
        self.node.close();
    }
}
