//! How a client behaves, with a setter for each setting.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use crate::durability::Durability;

/// Announced address to the address to dial instead (a proxy, a published port).
pub type AddressMap = HashMap<(String, u16), SocketAddr>;

/// How a client behaves; `Default` suits a lease of tens of seconds on a local network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Longest wait for one reply before it counts as lost; also the bound of [`Wait::Try`](crate::Wait::Try).
    /// Default 1 s.
    pub response_timeout: Duration,
    /// Longest wait for a connection. Default 1 s.
    pub connect_timeout: Duration,
    /// Lease of a renewed lock; renewed each third of it. Default 30 s, as the Redisson family has it.
    pub watchdog_lease: Duration,
    /// A waiter looks at the lock at least this often, whatever messages it gets or misses. Default 1 s.
    pub poll_bound: Duration,
    /// Durability of every acquire that does not say otherwise. Default none.
    pub durability: Durability,
    /// Longest wait for the replicas' acknowledgements; servers round it up to their tick (100 ms with
    /// `hz 10`). Default 500 ms.
    pub durability_timeout: Duration,
    /// Longest wait for one of several independent masters; `None` is a twentieth of the lease, at least
    /// 50 ms, at most `response_timeout` and half the lease. A silent minority never costs it.
    pub node_timeout: Option<Duration>,
    /// Where to dial instead of announced addresses.
    pub address_map: AddressMap,
    /// CLIENT SETNAME of each connection.
    pub client_name: Option<String>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            watchdog_lease: Duration::from_secs(30),
            poll_bound: Duration::from_secs(1),
            durability: Durability::None,
            durability_timeout: Duration::from_millis(500),
            node_timeout: None,
            address_map: AddressMap::new(),
            client_name: None,
        }
    }
}

impl ClientOptions {
    /// Sets the reply timeout.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets the connection timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the lease of renewed locks.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.watchdog_lease = lease;
        self
    }

    /// Sets the longest time between two looks of a waiter.
    pub fn poll_bound(mut self, bound: Duration) -> Self {
        self.poll_bound = bound;
        self
    }

    /// Sets the durability.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the longest wait for the replicas' acknowledgements.
    pub fn durability_timeout(mut self, timeout: Duration) -> Self {
        self.durability_timeout = timeout;
        self
    }

    /// Sets the longest wait for one of several independent masters.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// Sets where to dial instead of announced addresses.
    pub fn address_map(mut self, map: AddressMap) -> Self {
        self.address_map = map;
        self
    }

    /// Sets the name that the server lists for each connection.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into());
        self
    }

    /// How long one request may take, acknowledgements of replicas included.
    pub(crate) fn request_timeout(&self, durability: Durability) -> Duration {
        match durability {
            Durability::None => self.response_timeout,
            _ => self.response_timeout + self.durability_timeout,
        }
    }

    /// How long one of several masters may take.
    pub(crate) fn quorum_node_timeout(&self, lease: Duration) -> Duration {
        self.node_timeout
            .unwrap_or_else(|| (lease / 20).max(Duration::from_millis(50)))
            .min(self.response_timeout)
            .min(lease / 2)
    }
}
