//! A bare client of proxied servers, for tests that look at single bytes.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{LinkFault, LinkGuard, Links, Party, TopologyKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Lab, PATIENCE, lab_of};

/// How long "no answer" is watched. Whatever it is, an answer within it is an error; so it need not be long.
pub(crate) const SILENCE: Duration = Duration::from_millis(250);

/// A client that speaks inline commands to a node's announced address.
pub(crate) struct Wire(pub(crate) TcpStream);

impl Wire {
    pub(crate) async fn to(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Wire(stream)
    }

    pub(crate) async fn send(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    /// Reads exactly this answer.
    pub(crate) async fn expect(&mut self, answer: &str) {
        let mut read = vec![0; answer.len()];
        timeout(PATIENCE, self.0.read_exact(&mut read)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&read), answer);
    }

    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(SILENCE, self.0.read_u8()).await.is_err()
    }

    /// Whether the connection has ended, in order or by a reset.
    pub(crate) async fn has_ended(&mut self) -> bool {
        let read = timeout(PATIENCE, self.0.read(&mut [0; 64])).await;
        !matches!(read.unwrap(), Ok(1..))
    }
}

/// Whether a connection made now ends by itself, which may be noticed while it is being made.
pub(crate) async fn new_connection_ends(address: SocketAddr) -> bool {
    match TcpStream::connect(address).await {
        Ok(stream) => Wire(stream).has_ended().await,
        Err(_) => true,
    }
}

pub(crate) fn node(name: &str) -> Party {
    Party::Node(name.into())
}

pub(crate) fn fault(lab: &Lab, from: &Party, to: &Party, fault: LinkFault) -> LinkGuard {
    lab.links().unwrap().apply(from, to, fault)
}

/// A client of no named process.
pub(crate) const STRANGER: Party = Party::Client(0);

pub(crate) async fn proxied_single() -> (Lab, SocketAddr) {
    let lab = lab_of(TopologyKind::Single, Links::Proxied).await;
    let announced = lab.nodes()[0].announced;
    assert_ne!(announced, lab.nodes()[0].address);
    (lab, announced)
}
