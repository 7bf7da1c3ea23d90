//! One sentinel: its reports, and its announcements as hints to look again.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use redis::Value;
use tokio::time::timeout;

use super::report::Report;
use crate::{
    clock::Instant,
    target::Endpoint,
    topology::{
        dial::{Dialer, Proof},
        node::{Node, Purpose},
        pubsub::Places,
    },
};

/// One sentinel. It is asked without a password until it wants one.
#[derive(Debug)]
pub(super) struct Witness {
    open: Arc<Node>,
    locked: Arc<Node>,
    wants_password: AtomicBool,
}

impl Witness {
    pub(super) fn new(endpoint: &Endpoint, dialer: &Dialer) -> Arc<Self> {
        let node = |with_password| {
            Node::new(
                endpoint.clone(),
                Arc::new(dialer.for_sentinels(with_password)),
                Proof::Answers,
            )
        };
        Arc::new(Witness {
            open: node(false),
            locked: node(true),
            wants_password: AtomicBool::new(false),
        })
    }

    fn node(&self) -> &Arc<Node> {
        if self.wants_password.load(Ordering::Relaxed) {
            &self.locked
        } else {
            &self.open
        }
    }

    /// What this sentinel says about the master `name`, or why there is nothing to be had.
    pub(super) async fn ask(&self, name: &str) -> Result<Report, String> {
        let answer = self.ask_once(name).await;
        match answer {
            Err((code, _))
                if code.as_deref() == Some("NOAUTH")
                    && !self.wants_password.load(Ordering::Relaxed) =>
            {
                self.wants_password.store(true, Ordering::Relaxed);
                self.ask_once(name).await.map_err(|(_, message)| message)
            }
            other => other.map_err(|(_, message)| message),
        }
    }

    async fn ask_once(&self, name: &str) -> Result<Report, (Option<String>, String)> {
        let node = self.node();
        let deadline = Instant::now() + node.dialer.connect_timeout;
        let lease = node
            .dialled(Purpose::Command, deadline)
            .await
            .map_err(|error| (error.code, error.message))?;
        let mut pipe = redis::pipe();
        for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS"] {
            pipe.cmd("SENTINEL").arg(question).arg(name);
        }
        let patience = node.dialer.response_timeout;
        match timeout(patience, lease.conn.pipeline(&pipe, pipe.len())).await {
            Ok(Ok(answers)) => match answers.first() {
                Some(Value::Nil) => {
                    Err((None, format!("{}: knows no master `{name}`", node.label)))
                }
                Some(Value::ServerError(error)) => Err((
                    Some(error.code().to_owned()),
                    format!("{}: {error}", node.label),
                )),
                _ => Report::read(&answers)
                    .ok_or_else(|| (None, format!("{}: answered {answers:?}", node.label))),
            },
            Ok(Err(error)) => Err((None, format!("{}: {error}", node.label))),
            Err(_) => {
                lease.conn.suspect(patience);
                Err((
                    None,
                    format!("{}: no answer within {patience:?}", node.label),
                ))
            }
        }
    }

    pub(super) fn close(&self) {
        self.open.close();
        self.locked.close();
    }
}

impl Places for Witness {
    fn place(&self, _: u16) -> Option<Arc<Node>> {
        Some(self.node().clone())
    }
    fn misplaced(&self) {}
}
