//! What all holds of a lock share.

use std::fmt;
use std::sync::Arc;

use crate::client::client_core::ClientCore;
use crate::kind::LockFormat;
use crate::names::Names;
use crate::servers::server_set::Servers;
use crate::telemetry::LockLabels;
use crate::waiting::gate::LineKey;

/// Permits are held alike.
pub(crate) struct LockInner {
    pub(crate) client: Arc<ClientCore>,
    pub(crate) names: Names,
    /// The kind's name.
    pub(crate) word: &'static str,
    pub(crate) format: &'static dyn LockFormat,
    pub(crate) servers: Servers,
}

/// Every hold has it, so that it says no more than which lock it is.
impl fmt::Debug for LockInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {:?}", self.word, self.names.key, self.client)
    }
}

impl LockInner {
    pub(crate) fn labels(&self) -> LockLabels<'_> {
        LockLabels { kind: self.word, name: &self.names.key, servers: &self.client.set }
    }

    /// What those who wait for it in this client have in common.
    pub(crate) fn line_key(&self) -> LineKey {
        (self.word, self.names.line())
    }

    /// What to give to [`call_waiter`](Self::call_waiter) if somebody waits; asked before the release.
    pub(crate) fn waiters_served(&self) -> Option<u64> {
        let gates = &self.client.gates;
        let waits = !gates.is_empty();
        waits.then(|| gates.served(&self.line_key())).flatten()
    }

    /// Calls the first of those who wait: a release is on its way, of which nobody has profited yet.
    pub(crate) fn call_waiter(&self, served: u64) {
        self.client.gates.call(&self.line_key(), served);
    }
}
