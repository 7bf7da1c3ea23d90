//! The fault proxies of a deployment: they listen where nodes are announced and can fault each way of a link.
//!
//! A node's proxy listens where the node is announced and forwards to where it really listens, client port
//! and cluster bus alike. Nodes of Redis dial from addresses of their own, so the source of a connection
//! names its link; every other source is a client, or a node of another system, told apart by the process
//! that owns the socket.
//!
//! | file | what it is for |
//! |---|---|
//! | `proxy_route.rs` | accepts a connection and sends it through the faults of its links |
//! | `clients.rs`, `sock_diag.rs` | which process owns the far end of a connection; a socket by its ends |
//! | `table.rs` | the faults on each link, and what they did |
//! | `fault/` | a fault on a link: what it does to chunks and connections |
//! | `resp/` | messages of Redis, and which command each reply answers |
//! | `pump.rs` | bytes of one connection, each chunk when its link lets it |
//! | `cutter.rs` | one direction cut into parcels, without the messages that faults lose |
//! | `fine_timer.rs` | waits of less than a millisecond |

mod clients;
mod cutter;
mod fault;
mod fine_timer;
mod proxy_route;
mod pump;
mod resp;
mod sock_diag;
mod table;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::layout::PlannedNode;
use crate::{ClusterError, Links, Party, TopologyKind, UpOptions};
use fault::ConnectionEnding;
pub use fault::LinkFault;
pub(crate) use fault::{FaultBehaviour, TOXICS, ToxicKind};
pub(crate) use proxy_route::{ProxyRoute, accept};
pub use resp::{Label, Labels, MessagePassage, MessageWords, Pattern};
pub(crate) use table::Direction;
use table::{ConnectionEnds, Flow, ProxyBehaviour};
pub use table::{LinkEffect, LinkGuard, LinkTable, MessageWatch};

/// The running proxies of one deployment; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxies {
    pub(crate) table: LinkTable,
    // Own threads: a busy load generator in the same process must not make links slower.
    runtime: Option<Runtime>,
}

impl Proxies {
    /// Those that the options ask for, on every announced address, whether or not the servers run. `sources`
    /// are the addresses from which nodes dial: any other connection is a client's.
    pub(crate) async fn open(
        options: &UpOptions,
        nodes: &[PlannedNode],
        kind: TopologyKind,
        sources: BTreeMap<IpAddr, String>,
    ) -> Result<Option<Proxies>, ClusterError> {
        if options.links == Links::Direct {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("link-proxy")
            .enable_all()
            .build()
            .map_err(|error| failed!("cannot start proxy threads: {error}"))?;
        let handle = runtime.handle().clone();
        let proxies = Proxies { table: LinkTable::default(), runtime: Some(runtime) };
        let sources = Arc::new(sources);
        for node in nodes {
            let ports = (node.announced.port(), node.address.port());
            for (announced, real) in
                std::iter::once(ports).chain(node.bus_ports.iter().map(|bus| (*bus, *bus)))
            {
                let proxy = Proxy {
                    table: proxies.table.clone(),
                    node: Party::Node(node.name.clone()),
                    real: SocketAddr::new(node.address.ip(), real),
                    sources: Arc::clone(&sources),
                    // The cluster's bus speaks a language of its own, and so do other systems.
                    speaks_redis: kind.is_redis() && real == node.address.port(),
                };
                let announced = SocketAddr::new(node.announced.ip(), announced);
                let _inside = handle.enter();
                proxy
                    .listen(announced)
                    .map_err(|error| failed!("the proxy cannot listen on {announced}: {error}"))?;
            }
        }
        Ok(Some(proxies))
    }
}

/// Listens on an address that is reserved for us. One in use is tried again: a process that another thread
/// has just forked holds copies of all sockets until its own program runs.
fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    const PASSES_WITHIN: Duration = Duration::from_secs(1);
    let until = Instant::now() + PASSES_WITHIN;
    loop {
        match std::net::TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            bound => return bound,
        }
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed inside another runtime, and nobody needs what they hold.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Debug)]
struct Proxy {
    table: LinkTable,
    node: Party,
    real: SocketAddr,
    sources: Arc<BTreeMap<IpAddr, String>>,
    /// Whether what is said may be Redis and is listened to.
    speaks_redis: bool,
}

impl Proxy {
    /// Serves every connection to this address from now on, in the current runtime.
    fn listen(self, announced: SocketAddr) -> std::io::Result<()> {
        let listener = bind(announced)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let proxy = Arc::new(self);
        tokio::spawn(accept(listener, move |stream, peer| {
            let proxy = Arc::clone(&proxy);
            async move { proxy.serve(stream, peer).await }
        }));
        Ok(())
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr) -> std::io::Result<()> {
        let ends = self.register(peer, stream.local_addr()?).await?;
        let mut out = self.table.flow(&ends, Direction::Out);
        if wait_until_admitted(&mut out, self.table.flow(&ends, Direction::Back)).await.is_err() {
            return stream.set_zero_linger();
        }
        match TcpStream::connect(self.real).await {
            Ok(node) => pump::carry(&self.table, &ends, stream, node).await,
            // The connection was accepted already: a reset comes nearest to "connection refused".
            Err(_) => stream.set_zero_linger(),
        }
    }

    async fn register(&self, peer: SocketAddr, local: SocketAddr) -> std::io::Result<Arc<ConnectionEnds>> {
        let node = self.node.clone();
        let behaviour = ProxyBehaviour { speaks_redis: self.speaks_redis, half_open: true };
        if let Some(dialler) = self.sources.get(&peer.ip()) {
            return Ok(self.table.register(Some(Party::Node(dialler.clone())), node, peer, local, behaviour));
        }
        let table = self.table.clone();
        Ok(tokio::task::spawn_blocking(move || table.register(None, node, peer, local, behaviour)).await?)
    }
}

/// Waits while a cut holds the way to the node; an error if a fault lets no connection live.
async fn wait_until_admitted(out: &mut Flow, mut back: Flow) -> Result<(), ConnectionEnding> {
    loop {
        if let Some(ending) = out.ending().or(back.ending()) {
            return Err(ending);
        }
        if !out.holds_connection() {
            return Ok(());
        }
        tokio::select! {
            () = out.changed() => {}
            () = back.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_socket_that_is_closed_soon_is_waited_for() {
        let copy = std::net::TcpListener::bind("127.0.0.1:0").expect("any port");
        let address = copy.local_addr().expect("it has one");
        let closes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(copy);
        });
        bind(address).expect("it is free by then");
        closes.join().expect("it only closes");
    }
}
