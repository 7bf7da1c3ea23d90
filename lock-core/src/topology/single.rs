//! The route to one fixed server.
use std::sync::Arc;

use super::{
    NodeError, Request, Route,
    dial::{Dialer, Proof},
    node::{Node, Purpose},
    pubsub::{Channels, Places},
};
use crate::{PubSub, clock::Instant, target::Endpoint};

/// One server. Replies of a replica (READONLY) are retried: an address may stand for the current master.
#[derive(Debug)]
pub(crate) struct Single {
    node: Arc<Node>,
    channels: Channels,
}

impl Single {
    /// Nothing is dialled before the first request or subscription.
    pub(crate) fn new(endpoint: Endpoint, dialer: Arc<Dialer>, way: PubSub) -> Self {
        let node = Node::new(endpoint, dialer, Proof::Answers);
        // There is nobody else to ask.
        node.known_replicas(0);
        let channels = Channels::new(Arc::new(OneNode(node.clone())), way);
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

impl Route for Single {
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

#[derive(Debug)]
struct OneNode(Arc<Node>);

impl Places for OneNode {
    fn place(&self, _: u16) -> Option<Arc<Node>> {
        Some(self.0.clone())
    }
    fn misplaced(&self) {}
}
