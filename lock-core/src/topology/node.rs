//! A node and its connections, redialled whenever they are lost.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::Script;
use super::conn::Conn;
use super::dial::{Dialer, Proof};
use super::dial_error::DialError;
use super::finished_records::FinishedRecords;
use super::flight::Flight;
use crate::client::target::Endpoint;
use crate::clock::{Instant, timeout_at};
use crate::diagnostics::concern::Concern;
use crate::sync::{Flag, Mutex};

/// Connections for requests that end with WAIT. Such a request blocks its connection until the replicas have
/// answered, so that on a single one the waits of many callers would add up.
const WAIT_LINES: usize = 4;
/// So many connections that end at a script's digest are no accident.
const DIGEST_ENDS: u32 = 2;
/// First and longest pause before a node that could not be reached is dialled again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Command,
    Wait,
}

/// One server, by the address under which it is announced.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    /// Its address, for messages.
    pub(crate) label: Arc<str>,
    pub(crate) dialer: Arc<Dialer>,
    proof: Proof,
    command: Lane,
    wait: [Lane; WAIT_LINES],
    pub(crate) closed: Flag,
    /// Its master has said that WAITAOF can wait for its file; believed until the next connection.
    pub(crate) has_disk: Flag,
    /// SCRIPT LOAD did not help once: a script that it does not know goes by its text.
    pub(crate) loads_nothing: Flag,
    /// It has answered to a script's digest.
    pub(crate) knows_digests: Flag,
    /// Connections that it ended at a script's digest before it ever answered to one.
    digest_ends: AtomicU32,
    /// The last subscription that it refused, and what it said.
    pub(crate) refusal: Mutex<Option<(String, String)>>,
    /// The last request that it refused to this user for its keys, and what it said.
    pub(crate) refused_keys: Mutex<Option<String>>,
    /// Why it does not say when keys change.
    pub(crate) untracked: Mutex<Option<String>>,
    /// Scripts that it was sent by their text over this connection, and so knows by their digests.
    scripts: Mutex<Vec<&'static Script>>,
    /// As one of several masters it did not answer the last acquire in time, nor anything since.
    pub(crate) is_silent: Flag,
    /// Records there that the next request deletes.
    pub(crate) finished: FinishedRecords,
}

impl Node {
    pub(crate) fn new(endpoint: Endpoint, dialer: Arc<Dialer>, proof: Proof) -> Arc<Self> {
        Arc::new(Node {
            label: endpoint.to_string().into(),
            endpoint,
            dialer,
            proof,
            command: Lane::default(),
            wait: Default::default(),
            closed: Flag::default(),
            has_disk: Flag::default(),
            loads_nothing: Flag::default(),
            knows_digests: Flag::default(),
            digest_ends: AtomicU32::new(0),
            refusal: Mutex::default(),
            refused_keys: Mutex::default(),
            untracked: Mutex::default(),
            scripts: Mutex::default(),
            is_silent: Flag::default(),
            finished: FinishedRecords::default(),
        })
    }

    /// What was found missing there since the last connection, or is refused now.
    pub(crate) fn concerns(&self) -> impl Iterator<Item = Concern> {
        let keys = self.refused_keys.lock().clone().map(|found| Concern::keys(&self.label, found));
        let refused = self.refusal.lock().clone();
        let messages = refused.map(|(_, found)| Concern::messages(&self.label, found));
        let untracked = self.untracked.lock().as_ref().map(|why| Concern::tracking(&self.label, why));
        keys.into_iter().chain(messages).chain(untracked)
    }

    /// Whether the server was sent this script's text.
    pub(super) fn knows(&self, script: &Script) -> bool {
        let scripts = self.scripts.lock();
        scripts.iter().any(|known| std::ptr::eq(*known, script))
    }

    pub(super) fn learn(&self, script: &'static Script) {
        if !self.knows(script) {
            self.scripts.lock().push(script);
        }
    }

    /// A connection ended at a script's digest. Some proxies do so at a command that they do not know.
    pub(super) fn ends_at_digests(&self) {
        self.digest_ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether scripts go to it by their text alone.
    pub(super) fn wants_texts(&self) -> bool {
        !self.knows_digests.get() && self.digest_ends.load(Ordering::Relaxed) >= DIGEST_ENDS
    }

    pub(crate) fn current(&self, purpose: Purpose) -> Option<Lease<'_>> {
        let share = self.share(purpose).1;
        share.0.alive().map(|conn| share.lease(conn))
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.command.alive().is_some()
    }

    /// The connection, dialled if need be. The dial belongs to everybody who waits for it and outlives them.
    pub(crate) async fn dialled(
        self: &Arc<Self>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Lease<'_>, DialError> {
        // Counted from now on, so that not all who come before there is a connection share the same.
        let (index, share) = self.share(purpose);
        let line = share.0;
        if let Some(conn) = line.alive() {
            return Ok(share.lease(conn));
        }
        let flight = line.flight.join(&self.dialer.runtime, || {
            let node = self.clone();
            async move { node.redial(purpose, index).await }
        });
        match timeout_at(deadline, flight).await {
            Ok(Some(conn)) => conn.map(|conn| share.lease(conn)),
            Ok(None) => Err(DialError::new(format!("connecting to {} was cut off", self.label))),
            Err(_) => Err(DialError::new(format!("not connected to {} before the deadline", self.label))),
        }
    }

    async fn redial(self: Arc<Self>, purpose: Purpose, index: usize) -> Result<Arc<Conn>, DialError> {
        let line = match purpose {
            Purpose::Command => &self.command,
            Purpose::Wait => &self.wait[index],
        };
        let failures = line.failures.load(Ordering::Relaxed);
        if failures > 0 {
            sleep(BACK_OFF.1.min(BACK_OFF.0 * 2_u32.pow(failures.min(10)))).await;
        }
        if self.closed.get() {
            return Err(DialError::new(format!("the connection to {} was closed", self.label)));
        }
        let dialled = self.dialer.dial(&self.endpoint, self.proof).await;
        match &dialled {
            Ok(conn) => {
                line.failures.store(0, Ordering::Relaxed);
                *line.conn.lock() = Some(conn.clone());
                // The server that answers now may be another incarnation, with another configuration.
                self.has_disk.set(false);
                self.scripts.lock().clear();
                self.refused_keys.lock().take();
                if self.closed.get() {
                    conn.kill();
                }
            }
            Err(_) => {
                line.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        dialled
    }

    /// A part in the line for a purpose; of several in the one with the fewest requests. It is taken as it
    /// was counted, so that two who choose at once do not choose the same.
    fn share(&self, purpose: Purpose) -> (usize, LaneSlot<'_>) {
        if purpose == Purpose::Command {
            return (0, self.command.share());
        }
        loop {
            let counted = self.wait.iter().enumerate();
            let counted = counted.map(|(index, line)| (line.busy.load(Ordering::Relaxed), index));
            let (busy, index) = counted.min().expect("there is a line");
            let line = &self.wait[index];
            let (order, missed) = (Ordering::Relaxed, Ordering::Relaxed);
            if line.busy.compare_exchange(busy, busy + 1, order, missed).is_ok() {
                return (index, LaneSlot(line));
            }
        }
    }

    /// Lets go of the connections: the next request dials anew, requests in flight may still be answered.
    pub(crate) fn drop_connections(&self) {
        for line in self.lines() {
            line.conn.lock().take();
        }
    }

    /// Closes the connections for good; requests in flight end at once.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        for line in self.lines() {
            if let Some(conn) = line.conn.lock().take() {
                conn.kill();
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.command).chain(&self.wait)
    }
}

#[derive(Default)]
struct Lane {
    conn: Mutex<Option<Arc<Conn>>>,
    flight: Flight<Result<Arc<Conn>, DialError>>,
    failures: AtomicU32,
    busy: AtomicU32,
}

impl Lane {
    fn alive(&self) -> Option<Arc<Conn>> {
        let conn = self.conn.lock();
        conn.as_ref().filter(|conn| !conn.is_dead()).cloned()
    }

    fn share(&self) -> LaneSlot<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        LaneSlot(self)
    }
}

/// One request's part in a line.
struct LaneSlot<'a>(&'a Lane);

impl<'a> LaneSlot<'a> {
    fn lease(self, conn: Arc<Conn>) -> Lease<'a> {
        Lease { conn, share: self }
    }
}

impl Drop for LaneSlot<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection in use by one request.
pub(crate) struct Lease<'a> {
    pub(crate) conn: Arc<Conn>,
    share: LaneSlot<'a>,
}

impl Lease<'_> {
    /// Requests on this connection now, this one included.
    pub(crate) fn busy(&self) -> u32 {
        self.share.0.busy.load(Ordering::Relaxed).max(1)
    }
}
