//! Turns a server into one behind a relay that loses, delays or holds what a test chooses.
// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod shapes;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It is never delivered, nor anything after it on that connection.
    Silence,
    /// The connection is closed instead.
    Reset,
    /// It is delivered so much later, and what is behind it waits.
    Late(Duration),
}

/// A relay to one server. Everything passes until it is told otherwise.
pub struct Relay {
    pub address: SocketAddr,
    plan: Arc<Plan>,
    accepting: JoinHandle<()>,
}

struct Plan {
    /// The word of the next command whose answer is lost, and how.
    next: Mutex<Option<(&'static str, Loss)>>,
    lost: AtomicUsize,
    /// Connections so far; each has its number, from 0.
    connections: AtomicU64,
    /// Connections below this number deliver nothing, in neither direction; what they took in they keep.
    held_below: watch::Sender<u64>,
}

impl Plan {
    async fn passable(&self, number: u64) {
        let mut held_below = self.held_below.subscribe();
        let _ = held_below.wait_for(|below| number >= *below).await;
    }
}

impl Relay {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let plan = Arc::new(Plan {
            next: Mutex::new(None),
            lost: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            held_below: watch::Sender::new(0),
        });
        let accepting = tokio::spawn({
            let plan = Arc::clone(&plan);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let Ok(server) = TcpStream::connect(server).await else {
                        continue;
                    };
                    let _ = client.set_nodelay(true);
                    let _ = server.set_nodelay(true);
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let loss = Arc::new(Mutex::new(None));
                    let number = plan.connections.fetch_add(1, Ordering::SeqCst);
                    let there = Way(Arc::clone(&plan), number, Arc::clone(&loss));
                    let back = Way(Arc::clone(&plan), number, loss);
                    tokio::spawn(there.commands(from_client, to_server));
                    tokio::spawn(back.answers(from_server, to_client));
                }
            }
        });
        Relay {
            address,
            plan,
            accepting,
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The answer to the next command with this word is lost; the command itself is delivered.
    pub fn lose(&self, word: &'static str, how: Loss) {
        *self.plan.next.lock().expect("no panic") = Some((word, how));
    }

    /// How many answers were lost so far.
    pub fn lost(&self) -> usize {
        self.plan.lost.load(Ordering::SeqCst)
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.plan.connections.load(Ordering::SeqCst)
    }

    /// Nothing passes any more, in neither direction and on no connection. Nothing is closed either.
    pub fn black_hole(&self) {
        self.plan.held_below.send_replace(u64::MAX);
    }

    /// Nothing passes any more on the connections of now; later ones are served.
    pub fn stall(&self) {
        self.plan.held_below.send_replace(self.connections());
    }

    /// What was held is delivered, also for those who have gone away meanwhile.
    pub fn mend(&self) {
        self.plan.held_below.send_replace(0);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One direction of one connection: the plan, the connection's number, what becomes of its next answer.
struct Way(Arc<Plan>, u64, Arc<Mutex<Option<Loss>>>);

impl Way {
    async fn commands(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let Way(plan, number, loss) = self;
        let mut bytes = vec![0; 65_536];
        while let Ok(read) = from.read(&mut bytes).await
            && read > 0
        {
            plan.passable(number).await;
            {
                let mut next = plan.next.lock().expect("no panic");
                let text = String::from_utf8_lossy(&bytes[..read]);
                if let Some((_, how)) = next.take_if(|(word, _)| text.contains(*word)) {
                    plan.lost.fetch_add(1, Ordering::SeqCst);
                    *loss.lock().expect("no panic") = Some(how);
                }
            }
            if to.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    }

    async fn answers(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let Way(plan, number, loss) = self;
        let mut bytes = vec![0; 65_536];
        while let Ok(read) = from.read(&mut bytes).await
            && read > 0
        {
            let how = *loss.lock().expect("no panic");
            match how {
                None => {}
                Some(Loss::Silence) => continue,
                Some(Loss::Reset) => return,
                Some(Loss::Late(by)) => {
                    loss.lock().expect("no panic").take();
                    tokio::time::sleep(by).await;
                }
            }
            plan.passable(number).await;
            if to.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    }
}
