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
        dial::{DialError, Dialer, Proof},
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
        let mut answer = self.ask_once(name).await;
        if let Err(error) = &answer
            && error.code.as_deref() == Some("NOAUTH")
            && !self.wants_password.swap(true, Ordering::Relaxed)
        {
            answer = self.ask_once(name).await;
        }
        answer.map_err(|error| error.message)
    }

    async fn ask_once(&self, name: &str) -> Result<Report, DialError> {
        let node = self.node();
        let deadline = Instant::now() + node.dialer.connect_timeout;
        let lease = node.dialled(Purpose::Command, deadline).await?;
        let mut pipe = redis::pipe();
        for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS"] {
            pipe.cmd("SENTINEL").arg(question).arg(name);
        }
        let failed = |why: String| DialError::new(format!("{}: {why}", node.label));
        let patience = node.dialer.response_timeout;
        let asked = timeout(patience, lease.conn.pipeline(&pipe, pipe.len()));
        let answers = match asked.await {
            Ok(answers) => answers.map_err(|error| failed(error.to_string()))?,
            Err(_) => {
                lease.conn.suspect(patience);
                return Err(failed(format!("no answer within {patience:?}")));
            }
        };
        match answers.first() {
            Some(Value::Nil) => Err(failed(format!("knows no master `{name}`"))),
            Some(Value::ServerError(error)) => Err(DialError {
                code: Some(error.code().to_owned()),
                ..failed(error.to_string())
            }),
            _ => Report::read(&answers).ok_or_else(|| failed(format!("answered {answers:?}"))),
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
