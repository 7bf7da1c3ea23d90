//! The fault proxies of a deployment: they listen where its nodes are announced and can fault each directed link.
//!
//! A node's proxy listens where the node is announced and forwards to where it really listens, client port and cluster
//! bus alike. Nodes of Redis dial from addresses of their own, so the source of a connection names its link; every other source
//! is a client, or a node of another system, told apart by the process that owns the socket.

mod clients;
mod cutter;
mod fault;
mod fine_timer;
mod passage;
mod pump;
mod resp;
mod table;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::layout::PlannedNode;
use crate::relay::{HopLease, Relay};
use crate::{ClusterError, Party, TopologyKind};
use fault::Ending;
pub use fault::LinkFault;
pub(crate) use fault::{TOXICS, ToxicFault, ToxicKind};
pub(crate) use passage::{Passage, Traffic, accept};
pub use resp::{Label, Labels, MessagePassage, Pattern, Words};
pub(crate) use table::{Direction, Ends};
use table::{Flow, Manners};
pub use table::{LinkEffect, LinkGuard, LinkTable, MessageWatch};

/// The running proxies of one deployment; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxies {
    table: LinkTable,
    /// Where connections are led through, if it is not straight to the nodes.
    relay: Arc<OnceLock<Arc<Relay>>>,
    // Own threads: a busy load generator in the same process must not make links slower.
    runtime: Option<Runtime>,
}

impl Proxies {
    /// Listens on every announced address; forwards from then on, whether or not the servers run.
    pub(crate) fn open(nodes: &[PlannedNode], kind: TopologyKind) -> Result<Proxies, ClusterError> {
        let sources = nodes
            .iter()
            .map(|node| (node.address.ip(), node.name.clone()))
            .collect();
        Proxies::listening(nodes, sources, kind.is_redis())
    }

    /// The same before servers that do not know of it and do not dial through it: each one that dials is a client.
    pub(crate) fn before(
        nodes: &[PlannedNode],
        kind: TopologyKind,
    ) -> Result<Proxies, ClusterError> {
        Proxies::listening(nodes, BTreeMap::new(), kind.is_redis())
    }

    fn listening(
        nodes: &[PlannedNode],
        sources: BTreeMap<IpAddr, String>,
        is_redis: bool,
    ) -> Result<Proxies, ClusterError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("link-proxy")
            .enable_all()
            .build()
            .map_err(|error| failed!("cannot start proxy threads: {error}"))?;
        let proxies = Proxies {
            table: LinkTable::new(),
            relay: Arc::default(),
            runtime: Some(runtime),
        };
        let sources = Arc::new(sources);
        for node in nodes {
            let ports = (node.announced.port(), node.address.port());
            for (announced, real) in
                std::iter::once(ports).chain(node.bus_ports.iter().map(|bus| (*bus, *bus)))
            {
                let proxy = Proxy {
                    table: proxies.table.clone(),
                    relay: Arc::clone(&proxies.relay),
                    node: Party::Node(node.name.clone()),
                    real: SocketAddr::new(node.address.ip(), real),
                    sources: Arc::clone(&sources),
                    // The cluster's bus speaks a language of its own, and so do other systems.
                    manners: Manners {
                        listens: is_redis && real == node.address.port(),
                        half_open: true,
                        traffic: Arc::default(),
                    },
                };
                proxies.listen(SocketAddr::new(node.announced.ip(), announced), proxy)?;
            }
        }
        Ok(proxies)
    }

    fn listen(&self, announced: SocketAddr, proxy: Proxy) -> Result<(), ClusterError> {
        let failed = |error| failed!("the proxy cannot listen on {announced}: {error}");
        let listener = bind(announced).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let proxy = Arc::new(proxy);
        runtime.spawn(accept(listener, move |stream, peer| {
            let proxy = Arc::clone(&proxy);
            async move { proxy.serve(stream, peer).await }
        }));
        Ok(())
    }

    pub(crate) fn table(&self) -> &LinkTable {
        &self.table
    }

    /// Leads every connection from now on through this Toxiproxy server, where links are harmed then.
    pub(crate) async fn lead_through(&self, toxiproxy: SocketAddr) -> Result<(), ClusterError> {
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        let opened = runtime.spawn(Relay::open(toxiproxy)).await;
        let relay = opened.map_err(|error| failed!("talking to Toxiproxy: {error}"))??;
        // Set once, before anybody dials.
        let _ = self.relay.set(Arc::new(relay));
        Ok(())
    }

    /// The Toxiproxy server that connections pass, if any.
    pub(crate) fn relay(&self) -> Option<&Arc<Relay>> {
        self.relay.get()
    }

    pub(crate) fn set_clients(&self, pids: BTreeMap<u32, u32>) {
        self.table.set_clients(pids);
        if let Some(relay) = self.relay.get() {
            relay.renamed();
        }
    }
}

/// Listens on an address that is reserved for us.
///
/// A process that is being started by another thread has, until its own program runs, a copy of every socket that was open when it was
/// forked: also of the one by which this very address was found free a moment ago. That passes.
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
        if let Some(relay) = self.relay.get() {
            relay.close_now();
        }
        // Waiting for the threads is not allowed inside another runtime, and nothing they hold is needed any more.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What one listener needs to know.
#[derive(Debug)]
struct Proxy {
    table: LinkTable,
    relay: Arc<OnceLock<Arc<Relay>>>,
    node: Party,
    real: SocketAddr,
    /// Source addresses of nodes.
    sources: Arc<BTreeMap<IpAddr, String>>,
    manners: Manners,
}

impl Proxy {
    async fn serve(&self, stream: TcpStream, peer: SocketAddr) -> std::io::Result<()> {
        let local = stream.local_addr()?;
        let ends = self.register(peer, local).await?;
        let mut out = self.table.flow(&ends, Direction::Out);
        let back = self.table.flow(&ends, Direction::Back);
        if admitted(&mut out, back).await.is_err() {
            return stream.set_zero_linger();
        }
        let hop = match self.relay.get() {
            Some(relay) => match relay.hop(&ends, self.real).await {
                Ok(hop) => Some(hop),
                // A server that has gone takes the links with it.
                Err(_) => return stream.set_zero_linger(),
            },
            None => None,
        };
        let next = hop.as_ref().map_or(self.real, HopLease::address);
        match TcpStream::connect(next).await {
            Ok(node) => pump::carry(&self.table, &ends, stream, node).await,
            // As near to "connection refused" as one comes who has already accepted.
            Err(_) => stream.set_zero_linger(),
        }
    }

    async fn register(&self, peer: SocketAddr, local: SocketAddr) -> std::io::Result<Arc<Ends>> {
        let node = self.node.clone();
        let manners = Manners {
            traffic: Arc::default(),
            ..self.manners.clone()
        };
        if let Some(dialler) = self.sources.get(&peer.ip()) {
            let dialler = Some(Party::Node(dialler.clone()));
            return Ok(self.table.register(dialler, node, peer, local, manners));
        }
        let table = self.table.clone();
        let looked_up = move || table.register(None, node, peer, local, manners);
        Ok(tokio::task::spawn_blocking(looked_up).await?)
    }
}

/// Waits while a cut holds the way to the node; an error if a fault lets no connection live.
async fn admitted(out: &mut Flow, mut back: Flow) -> Result<(), Ending> {
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
