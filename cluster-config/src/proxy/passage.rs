//! A way through a table's links for a proxy that knows both its ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::pump;
use super::table::{LinkTable, Manners};
use super::traffic::Traffic;
use crate::Party;

/// What one such proxy needs to know.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) table: LinkTable,
    pub(crate) client: Party,
    pub(crate) upstream: Party,
    pub(crate) traffic: Arc<Traffic>,
}

impl Passage {
    /// Carries a connection until it ends. When one direction ends, so does the other, as soon as what it has under way is
    /// delivered.
    pub(crate) async fn carry(
        &self,
        client: TcpStream,
        upstream: TcpStream,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> io::Result<()> {
        let manners = Manners {
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
