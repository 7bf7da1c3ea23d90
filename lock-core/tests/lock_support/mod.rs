//! Turns a server into one behind a relay that loses the answers that a test chooses.
// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
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
}

/// A relay to one server. Everything passes until `lose` is called.
pub struct Relay {
    pub address: SocketAddr,
    plan: Arc<Plan>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Plan {
    /// The word of the next command whose answer is lost, and how.
    next: Mutex<Option<(&'static str, Loss)>>,
    lost: AtomicUsize,
}

impl Relay {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let plan = Arc::new(Plan::default());
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
                    let (lose, lost) = watch::channel(None);
                    tokio::spawn(commands(from_client, to_server, Arc::clone(&plan), lose));
                    tokio::spawn(answers(from_server, to_client, lost));
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
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn commands(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: Arc<Plan>,
    lose: watch::Sender<Option<Loss>>,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(read) = from.read(&mut bytes).await
        && read > 0
    {
        {
            let mut next = plan.next.lock().expect("no panic");
            let text = String::from_utf8_lossy(&bytes[..read]);
            if let Some((_, how)) = next.take_if(|(word, _)| text.contains(*word)) {
                plan.lost.fetch_add(1, Ordering::SeqCst);
                lose.send_replace(Some(how));
            }
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    lost: watch::Receiver<Option<Loss>>,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(read) = from.read(&mut bytes).await
        && read > 0
    {
        let how = *lost.borrow();
        match how {
            None => {
                if to.write_all(&bytes[..read]).await.is_err() {
                    return;
                }
            }
            Some(Loss::Silence) => {}
            Some(Loss::Reset) => return,
        }
    }
}
