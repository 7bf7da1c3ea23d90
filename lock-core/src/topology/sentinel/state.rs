//! The sentinels, and the master that they name, proven by its own ROLE.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::{sync::watch, time::timeout};

use super::report::{Report, candidates};
use crate::clock::Instant;
use crate::sync::{Flag, Mutex};
use crate::topology::dial::{Dialer, Proof};
use crate::topology::dial_error::DialError;
use crate::topology::flight::{AnswerValue, Joined, Refresh, hear};
use crate::topology::node::{Node, Purpose};
use crate::topology::pubsub::ChannelRouter;
use crate::topology::refusal::unreadable;

/// How long after the first report the others are waited for, unless a majority agrees before.
const GRACE: Duration = Duration::from_millis(100);

pub(super) struct State {
    pub(super) name: String,
    pub(super) dialer: Arc<Dialer>,
    pub(super) witnesses: Vec<Arc<Node>>,
    label: String,
    master: Mutex<Option<Arc<Node>>>,
    epoch: AtomicU64,
    /// The least that a sentinel said; 0: none said it.
    down_after_ms: AtomicU64,
    search: Refresh,
    why_none: Mutex<String>,
    /// Whether a master was named, so that another search may find one, after a failover.
    pub(super) may_pass: Flag,
    /// By which code the master refused the last search for good.
    pub(super) refused: Mutex<Option<String>>,
    version: watch::Sender<u64>,
    closed: Flag,
    me: Weak<State>,
}

impl State {
    pub(super) fn new(
        name: String,
        label: String,
        dialer: Arc<Dialer>,
        witnesses: Vec<Arc<Node>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| State {
            name,
            dialer,
            witnesses,
            label,
            master: Mutex::default(),
            epoch: AtomicU64::new(0),
            down_after_ms: AtomicU64::new(0),
            search: Refresh::default(),
            why_none: Mutex::new("none of them has answered yet".to_owned()),
            may_pass: Flag::default(),
            refused: Mutex::default(),
            version: watch::Sender::new(0),
            closed: Flag::default(),
            me: me.clone(),
        })
    }

    /// The master, if its connection stands. After a loss the sentinels are asked before anybody connects
    /// again: a master that restarts says that it is one, long before it learns that it is not any more.
    pub(super) fn master(&self) -> Option<Arc<Node>> {
        self.last_master().filter(|node| node.is_connected())
    }

    pub(super) fn last_master(&self) -> Option<Arc<Node>> {
        self.master.lock().clone()
    }

    pub(super) fn down_after_ms(&self) -> Option<u64> {
        Some(self.down_after_ms.load(Ordering::Relaxed)).filter(|known| *known > 0)
    }

    pub(super) fn search(&self) -> Joined<()> {
        let look = |state: Arc<State>| async move { state.look().await };
        self.search.join(&self.dialer.runtime, &self.me, look)
    }

    async fn look(&self) {
        if self.closed.get() {
            return;
        }
        let (reports, mut complaints) = self.reports().await;
        if let Some(least) = reports.iter().filter_map(|report| report.down_after_ms).min() {
            self.down_after_ms.store(least, Ordering::Relaxed);
        }
        let refused = self.follow(&reports, &mut complaints).await;
        self.may_pass.set(!reports.is_empty() && refused.is_none());
        *self.refused.lock() = refused.and_then(|error| error.code);
        if !complaints.is_empty() {
            *self.why_none.lock() = complaints.join("; ");
        }
    }

    async fn reports(&self) -> (Vec<Report>, Vec<String>) {
        let answers = self.witnesses.iter().map(|witness| ask(witness, &self.name)).collect();
        let (mut reports, mut complaints): (Vec<Report>, _) = (Vec::new(), Vec::new());
        hear(answers, GRACE, |answer| match answer {
            Err(complaint) => {
                complaints.push(complaint);
                AnswerValue::Nothing
            }
            Ok(report) => {
                reports.push(report);
                let last = &reports[reports.len() - 1];
                let agrees = |other: &&Report| other.master == last.master && other.epoch == last.epoch;
                match reports.iter().filter(agrees).count() > self.witnesses.len() / 2 {
                    true => AnswerValue::Enough,
                    false => AnswerValue::Good,
                }
            }
        })
        .await;
        (reports, complaints)
    }

    /// Goes to the first candidate that says itself that it is the master. Says how one refused for good.
    async fn follow(&self, reports: &[Report], complaints: &mut Vec<String>) -> Option<DialError> {
        let seen = self.epoch.load(Ordering::Acquire);
        let Some((epoch, endpoints)) = candidates(reports, seen, self.witnesses.len()) else {
            if !reports.is_empty() {
                complaints.push("the sentinels that answer lag behind what others said before".to_owned());
            }
            return None;
        };
        let old = self.last_master();
        if let Some(old) = &old
            && epoch > seen
            && !endpoints.contains(&old.endpoint)
        {
            // Another master was elected. Whatever the old one still answers, it answers from a lost world.
            self.settle(None);
            old.close();
        }
        let mut refused = None;
        for endpoint in endpoints {
            let known = old.as_ref().filter(|old| old.endpoint == endpoint && !old.closed.get()).cloned();
            let node = known.unwrap_or_else(|| Node::new(endpoint, self.dialer.clone(), Proof::IsMaster));
            match node.dialled(Purpose::Command, Instant::now() + self.dialer.connect_timeout).await {
                Ok(_) => {
                    self.epoch.store(epoch, Ordering::Release);
                    self.settle(Some(node.clone()));
                    if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, &node)) {
                        old.close();
                    }
                    return None;
                }
                Err(error) => {
                    complaints.push(error.message.clone());
                    refused = refused.or(Some(error).filter(|error| error.fatal));
                }
            }
        }
        refused
    }

    fn settle(&self, node: Option<Arc<Node>>) {
        let mut master = self.master.lock();
        let same = master.as_ref().map(Arc::as_ptr) == node.as_ref().map(Arc::as_ptr);
        *master = node.filter(|_| !self.closed.get());
        drop(master);
        if !same {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Why there is no master, as far as the last search could tell.
    pub(super) fn why_none(&self) -> String {
        self.why_none.lock().clone()
    }

    pub(super) fn label(&self) -> String {
        match self.last_master() {
            Some(master) => format!("{} ({})", self.name, master.label),
            None => format!("{} (sentinels {})", self.name, self.label),
        }
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        if let Some(master) = self.last_master() {
            master.close();
        }
        self.witnesses.iter().for_each(|witness| witness.close());
    }
}

impl ChannelRouter for State {
    fn place(&self, _: u16) -> Option<Arc<Node>> {
        self.last_master()
    }
    fn misplaced(&self) {
        drop(self.search());
    }
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.version.subscribe())
    }
}

/// What a sentinel says about the master `name`, or why there is nothing to be had.
async fn ask(node: &Arc<Node>, name: &str) -> Result<Report, String> {
    let deadline = Instant::now() + node.dialer.connect_timeout;
    let lease = node.dialled(Purpose::Command, deadline).await;
    let lease = lease.map_err(|error| error.message)?;
    let mut pipe = redis::pipe();
    for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER"] {
        pipe.cmd("SENTINEL").arg(question).arg(name);
    }
    let failed = |why: String| format!("{}: {why}", node.label);
    let patience = node.dialer.response_timeout;
    let answers = match timeout(patience, lease.conn.pipeline(&pipe, pipe.len())).await {
        Ok(answers) => answers.map_err(|error| failed(error.to_string()))?,
        Err(_) => {
            lease.conn.suspect(patience);
            return Err(failed(format!("no answer within {patience:?}")));
        }
    };
    if answers.first() == Some(&Value::Nil) {
        return Err(failed(format!("knows no master `{name}`")));
    }
    let refused = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(error.to_string()),
        _ => None,
    });
    match refused {
        Some(text) if text.contains("unknown command") => {
            Err(failed(format!("{text}; it is no sentinel: a server's URL begins with redis://")))
        }
        Some(text) => Err(failed(text)),
        None => Report::read(&answers).ok_or_else(|| failed(unreadable(&Value::Array(answers)))),
    }
}
