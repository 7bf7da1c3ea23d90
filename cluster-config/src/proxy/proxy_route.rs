//! Shared by our proxies: an accept loop, and the way through a fault table's links.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::pump;
use super::table::{LinkTable, ProxyBehaviour};
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
                // An error here is a broken connection, which both ends notice by themselves.
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
}

impl ProxyRoute {
    /// Carries a connection until it ends. One direction ends the other, once what is under way is delivered.
    pub(crate) async fn carry(
        &self,
        client: TcpStream,
        upstream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let local = client.local_addr()?;
        let behaviour = ProxyBehaviour { speaks_redis: false, half_open: false };
        let ends =
            self.table.register(Some(self.client.clone()), self.upstream.clone(), peer, local, behaviour);
        pump::carry(&self.table, &ends, client, upstream).await
    }
}
