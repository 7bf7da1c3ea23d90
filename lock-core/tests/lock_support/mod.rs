//! A server behind a relay that loses, delays or holds what a test chooses.
// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod lines;
pub mod shapes;
pub mod shares;

use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

use lock_core::Kind;

use crate::support::{PATIENCE, Server};

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It is never delivered, nor anything after it on that connection.
    Silence,
    /// The connection is closed instead.
    Reset,
    /// It is delivered so much later, and what is behind it waits.
    Late(Duration),
    /// It is delivered when the relay is healed, and what is behind it waits.
    Held,
    /// The connection is closed to the client, and the command reaches the server only when the relay is
    /// healed.
    Stranded,
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
    /// Tells that the relay was healed.
    healed: watch::Sender<()>,
    /// Whether an answer is to be held.
    holds: watch::Sender<bool>,
    /// Every answer comes so much later.
    delay_us: AtomicU64,
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
            healed: watch::Sender::new(()),
            holds: watch::Sender::new(false),
            delay_us: AtomicU64::new(0),
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
                    let way = Arc::new(Way {
                        number: plan.connections.fetch_add(1, Ordering::SeqCst),
                        plan: Arc::clone(&plan),
                        loss: Mutex::new(None),
                        cut: Notify::new(),
                    });
                    tokio::spawn(commands(Arc::clone(&way), from_client, to_server));
                    tokio::spawn(answers(way, from_server, to_client));
                }
            }
        });
        Relay { address, plan, accepting }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The answer to the next command with this word is lost; the command itself is delivered.
    pub fn lose(&self, word: &'static str, how: Loss) {
        self.plan.holds.send_replace(how == Loss::Held);
        *self.plan.next.lock().expect("no panic") = Some((word, how));
    }

    /// Every answer and every message comes so much later from now on, as from a server that is half as far
    /// away in each direction.
    pub fn delay(&self, by: Duration) {
        let us = u64::try_from(by.as_micros()).expect("a short delay");
        self.plan.delay_us.store(us, Ordering::SeqCst);
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
    pub fn heal(&self) {
        self.plan.held_below.send_replace(0);
        self.plan.healed.send_replace(());
        self.plan.holds.send_replace(false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection through a relay.
struct Way {
    plan: Arc<Plan>,
    number: u64,
    /// What becomes of its next answer.
    loss: Mutex<Option<Loss>>,
    /// The client is to see its end.
    cut: Notify,
}

async fn commands(way: Arc<Way>, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let plan = &way.plan;
    let mut healed = plan.healed.subscribe();
    let mut bytes = vec![0; 65_536];
    while let Ok(read) = from.read(&mut bytes).await
        && read > 0
    {
        plan.passable(way.number).await;
        let lost = {
            let mut next = plan.next.lock().expect("no panic");
            let text = String::from_utf8_lossy(&bytes[..read]);
            next.take_if(|(word, _)| text.contains(*word))
        };
        if let Some((_, how)) = lost {
            *way.loss.lock().expect("no panic") = Some(how);
            plan.lost.fetch_add(1, Ordering::SeqCst);
            if how == Loss::Stranded {
                healed.mark_unchanged();
                way.cut.notify_one();
                drop(from);
                let _ = healed.changed().await;
                let _ = to.write_all(&bytes[..read]).await;
                // The server is to read it before it sees the end of the connection.
                tokio::time::sleep(Duration::from_secs(1)).await;
                return;
            }
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

async fn answers(way: Arc<Way>, mut from: OwnedReadHalf, to: OwnedWriteHalf) {
    let mut bytes = vec![0; 65_536];
    // What is under way delays nothing that is behind it.
    let (under_way, arriving) = mpsc::unbounded_channel();
    let mut delivery = Delivery(tokio::spawn(deliver(Arc::clone(&way), arriving, to)));
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            () = way.cut.notified() => return,
            _ = &mut delivery.0 => return,
        };
        let Ok(read @ 1..) = read else {
            drop(under_way);
            let _ = (&mut delivery.0).await;
            return;
        };
        let how = *way.loss.lock().expect("no panic");
        match how {
            None | Some(Loss::Stranded) => {}
            Some(Loss::Silence) => continue,
            Some(Loss::Reset) => return,
            Some(Loss::Late(by)) => {
                way.loss.lock().expect("no panic").take();
                tokio::time::sleep(by).await;
            }
            Some(Loss::Held) => {
                way.loss.lock().expect("no panic").take();
                let mut holds = way.plan.holds.subscribe();
                let _ = holds.wait_for(|held| !held).await;
            }
        }
        let delay_us = way.plan.delay_us.load(Ordering::SeqCst);
        let due = Instant::now() + Duration::from_micros(delay_us);
        if under_way.send((due, bytes[..read].to_vec())).is_err() {
            return;
        }
    }
}

/// Ends with its reader.
struct Delivery(JoinHandle<()>);

impl Drop for Delivery {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn deliver(
    way: Arc<Way>,
    mut arriving: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
) {
    while let Some((due, bytes)) = arriving.recv().await {
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        way.plan.passable(way.number).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Polls a future when it asks for it, so many times at most; whether it was done by then. After that it is
/// dropped.
pub async fn polled<F: Future>(future: F, polls: usize) -> bool {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match Pin::new(&mut future).poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            // The last poll has been: what it asked for is on its way, and nobody will hear the answer.
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The kind that a hold of this kind keeps out: another hold of the same kind, unless those share.
pub fn rival(kind: Kind) -> Kind {
    match kind.is_shared() {
        true => Kind::Write,
        false => kind,
    }
}

/// How many scripts the server has run.
pub fn scripts_run(server: &Server) -> u64 {
    let stats = server.ok(&["INFO", "commandstats"]);
    let each = ["cmdstat_eval:calls=", "cmdstat_evalsha:calls="].map(|calls| {
        let calls = stats.split(calls).nth(1);
        let calls = calls.and_then(|rest| rest.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().expect("a number"))
    });
    each.iter().sum()
}

/// Nothing is held, and nothing is renewed for anybody: no script runs any more while all renewals would be
/// due twice.
pub async fn all_is_over(server: &Server, watchdog_lease: Duration) {
    server.wait_for(&["KEYS", "*"], |keys| {
        keys.lines().all(|key| key.contains("latch") || key.contains("token"))
    });
    shapes::only_latches_and_tokens_stay(server);
    let until = Instant::now() + PATIENCE;
    loop {
        let before = scripts_run(server);
        tokio::time::sleep(watchdog_lease).await;
        if scripts_run(server) == before {
            return;
        }
        assert!(Instant::now() < until, "renewals go on after all holds");
    }
}
