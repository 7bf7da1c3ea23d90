//! Turns requests into attempts at one fixed server.
use std::{sync::Arc, time::Instant};

use async_trait::async_trait;

use super::{
    NodeError, Request, Route, Sent, Subscription, Tune,
    dial::{Dialer, Proof},
    drive::{Router, drive},
    node::{Node, Purpose},
    pubsub::{Channels, Places},
};
use crate::{PubSub, target::Endpoint};

/// One server. Replies of a replica (READONLY) are retried: an address may stand for whoever is master now.
#[derive(Debug)]
pub(crate) struct Single {
    node: Arc<Node>,
    channels: Channels,
}

impl Single {
    /// Nothing is dialled before the first request or subscription.
    pub(crate) fn new(endpoint: Endpoint, dialer: Arc<Dialer>, way: PubSub) -> Self {
        let node = Node::new(endpoint, dialer, Proof::Answers);
        let channels = Channels::new(Arc::new(OneNode(node.clone())), way);
        Single { node, channels }
    }

    /// Dials once, so that a wrong address or password shows at once.
    pub(crate) async fn reach(&self, deadline: Instant) -> Result<(), NodeError> {
        match self.node.dialled(Purpose::Command, deadline).await {
            Ok(_) => Ok(()),
            Err(error) => Err(NodeError {
                node: Some(self.node.label.to_string()),
                definite: true,
                code: error.code,
                message: error.message,
                attempt: 1,
            }),
        }
    }
}

impl Router for Single {
    fn owner(&self, _: &Request) -> Option<Arc<Node>> {
        Some(self.node.clone())
    }
    async fn rediscover(&self, _: Instant) {}
    fn suspect(&self) {}
    fn redirected(&self, _: &Node, _: &str) -> Option<Arc<Node>> {
        None
    }
    fn name(&self) -> String {
        self.node.label.to_string()
    }
}

#[async_trait]
impl Route for Single {
    async fn send(&self, request: &Request, deadline: Instant) -> Result<Sent, NodeError> {
        drive(self, request, deadline).await
    }
    fn subscribe(&self, key: &[u8], tune: Tune<'_>) -> Subscription {
        self.channels.subscribe(key, tune)
    }
    fn publish_command(&self) -> &'static str {
        self.channels.publish_command()
    }
    fn commands(&self) -> u64 {
        self.node.dialer.commands()
    }
    fn masters(&self) -> Vec<Arc<Node>> {
        vec![self.node.clone()]
    }
    fn label(&self) -> String {
        self.node.label.to_string()
    }
    async fn close(&self) {
        self.channels.close();
        self.node.close();
    }
}

/// Every channel lives on the one node.
#[derive(Debug)]
struct OneNode(Arc<Node>);

impl Places for OneNode {
    fn place(&self, _: u16) -> Option<Arc<Node>> {
        Some(self.0.clone())
    }
    fn misplaced(&self) {}
}
