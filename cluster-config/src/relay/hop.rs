//! One way through a Toxiproxy server: a proxy there, and behind it a listener here that counts what comes back before it is harmed.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Party;
use crate::proxy::{Direction, LinkTable, ProxyRoute, Traffic, accept};

/// A fault, and the direction of a connection that it concerns.
pub(super) type ToxicKey = (u64, Direction);

/// A proxy of the server that carries one connection at a time.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) enabled: bool,
    /// What had been counted on the connection when each came.
    pub(super) toxics: BTreeMap<ToxicKey, u64>,
    pub(super) exit: Exit,
}

/// What a hop's proxy dials: it forwards to the node.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) address: SocketAddr,
    /// Of the connection that is opened next.
    traffic: Arc<Mutex<Arc<Traffic>>>,
    _accepting: JoinSet<()>,
}

impl Exit {
    /// Listens on a free loopback port for connections to `node`.
    pub(super) async fn open(node: SocketAddr) -> io::Result<Exit> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let traffic = Arc::new(Mutex::new(Arc::<Traffic>::default()));
        let counted = Arc::clone(&traffic);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, move |stream, peer| {
            let passage = ProxyRoute {
                table: LinkTable::default(),
                client: Party::Client(0),
                upstream: Party::Node(String::new()),
                traffic: Arc::clone(&counted.lock().unwrap()),
            };
            async move {
                match TcpStream::connect(node).await {
                    Ok(server) => passage.carry(stream, server, peer).await,
                    Err(_) => stream.set_zero_linger(),
                }
            }
        }));
        Ok(Exit {
            address,
            traffic,
            _accepting: accepting,
        })
    }

    /// Counts the next connection's bytes here.
    pub(super) fn count_in(&self, traffic: Arc<Traffic>) {
        *self.traffic.lock().unwrap() = traffic;
    }
}
