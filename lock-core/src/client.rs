//! One client of a lock service: its identity, its connections, its renewals.
use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};
use crate::{durability::Durability, error::LockError, kind::Kind, lock::Lock, target::Target};
/// Announced address to the address to dial instead (a proxy, a published port).
pub type AddressMap = HashMap<(String, u16), SocketAddr>;
/// How a client behaves; `Default` suits a lease of tens of seconds on a local network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions { /// Longest wait for one reply before it counts as lost. Default 1 s.
    pub response_timeout: Duration, /// Longest wait for a connection. Default 1 s.
    pub connect_timeout: Duration, /// Lease of a renewed lock; renewed each third of it. Default 30 s.
    pub watchdog_lease: Duration, /// A waiter looks at least this often, whatever messages it gets. Default 1 s... see docs.
    pub poll_bound: Duration, /// Durability of every acquire that does not say otherwise.
    pub durability: Durability, /// Where to dial instead of announced addresses.
    pub address_map: AddressMap, /// CLIENT SETNAME of each connection.
    pub client_name: Option<String> }
impl Default for ClientOptions { fn default() -> Self { todo!() } }
impl ClientOptions {
    /// Sets the lease of renewed locks. (One such setter for every field.)
    pub fn watchdog_lease(mut self, d: Duration) -> Self { self.watchdog_lease = d; self }
    /// Sets the reply timeout.
    pub fn response_timeout(mut self, d: Duration) -> Self { self.response_timeout = d; self }
    /// Sets the durability.
    pub fn durability(mut self, d: Durability) -> Self { self.durability = d; self }
}
/// What a client has sent so far.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ClientStats { /// Commands written to servers: scripts count as one, WAIT counts, PING and discovery count.
    pub commands: u64 }
/// A client of a lock service. Cheap to clone; clones are the same client.
#[derive(Debug, Clone)]
pub struct Client { pub(crate) inner: Arc<()> }
impl Client {
    /// Connects and discovers the topology.
    pub async fn connect(_target: &Target, _options: ClientOptions) -> Result<Self, LockError> { todo!() }
    /// This client's identity, a UUID in lower case.
    pub fn id(&self) -> &str { todo!() }
    /// A lock of a kind by its name, which is the Redis key itself.
    pub fn lock(&self, _kind: Kind, _name: &str) -> Result<Lock, LockError> { todo!() }
    /// What was sent so far.
    pub fn stats(&self) -> ClientStats { todo!() }
    /// Ends renewals and background releases in an orderly way and closes the connections; holds are left to their leases.
    pub async fn close(self) { todo!() }
}
