//! A fault on a link, wherever it is made: what it did so far, and its undo.

use std::sync::Arc;

use super::Relay;
use crate::{ClusterError, LinkEffect, LinkGuard};

/// The undo of a fault on one link, made by the embedded proxies or by a Toxiproxy server. Dropping it heals.
#[derive(Debug)]
#[must_use = "the fault heals when this is dropped"]
pub struct LinkFaultGuard(pub(super) Carrier);

#[derive(Debug)]
pub(super) enum Carrier {
    Here(LinkGuard),
    There(RelayGuard),
}

impl LinkFaultGuard {
    pub(crate) fn here(guard: LinkGuard) -> Self {
        LinkFaultGuard(Carrier::Here(guard))
    }

    /// Bytes and connections affected so far: the evidence that the fault took effect. A Toxiproxy server tells no pieces: there `chunks` is 0.
    pub fn effect(&self) -> LinkEffect {
        match &self.0 {
            Carrier::Here(guard) => guard.effect(),
            Carrier::There(guard) => guard.relay.locked().effect(guard.id),
        }
    }

    /// Lifts the fault: what it held or delayed flows at once. Returns what it did in all.
    ///
    /// # Errors
    /// The Toxiproxy server did not take it away.
    pub async fn heal(self) -> Result<LinkEffect, ClusterError> {
        match self.0 {
            Carrier::Here(guard) => Ok(guard.heal()),
            Carrier::There(mut guard) => {
                guard.lifted = true;
                Arc::clone(&guard.relay).lift(guard.id).await
            }
        }
    }
}

/// A fault at a Toxiproxy server.
#[derive(Debug)]
pub(super) struct RelayGuard {
    pub(super) relay: Arc<Relay>,
    pub(super) id: u64,
    pub(super) lifted: bool,
}

impl Drop for RelayGuard {
    fn drop(&mut self) {
        if !self.lifted {
            // Nobody is left to be told.
            let lifting = Arc::clone(&self.relay).lift(self.id);
            self.relay.runtime.spawn(lifting);
        }
    }
}
