//! What our proxies share: a loop that accepts, a count of bytes, and a way through a table's links for a proxy that knows both its ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::pump;
use super::table::{Direction, LinkTable, ProxyBehaviour};
use crate::Party;

/// Serves every connection to a listener, each in a task of its own; they end when this is dropped.
pub(crate) async fn accept<S>(listener: TcpListener, serve: impl Fn(TcpStream, SocketAddr) -> S)
where
    S: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An error is a connection that broke, which both its ends see for themselves.
                connections.spawn(serve(stream, peer));
            }
            // Out of descriptors, or a connection that was gone before it was accepted.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProxyRoute {
    pub(crate) table: LinkTable,
    pub(crate) client: Party,
    pub(crate) upstream: Party,
    pub(crate) traffic: Arc<Traffic>,
}

impl ProxyRoute {
    /// Carries a connection until it ends. When one direction ends, so does the other, as soon as what it has under way is
    /// delivered.
    pub(crate) async fn carry(
        &self,
        client: TcpStream,
        upstream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let local = client.local_addr()?;
        let manners = ProxyBehaviour {
            listens: false,
            half_open: false,
            traffic: Arc::clone(&self.traffic),
        };
        let ends = self.table.register(
            Some(self.client.clone()),
            self.upstream.clone(),
            peer,
            local,
            manners,
        );
        pump::carry(&self.table, &ends, client, upstream).await
    }
}

/// Bytes received and sent per direction, over all connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    counts: [[AtomicU64; 2]; 2],
}

impl Traffic {
    pub(crate) fn of(&self, direction: Direction) -> [u64; 2] {
        let counts = self.counts[direction as usize].each_ref();
        counts.map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn received(&self, direction: Direction, bytes: usize) {
        self.counts[direction as usize][0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, direction: Direction, bytes: usize) {
        self.counts[direction as usize][1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
