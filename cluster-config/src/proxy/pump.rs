//! Carries the bytes of one connection both ways, each chunk when its link lets it.
//!
//! A chunk is stamped when it is read and delivered in order at that moment plus the delay that holds *then*; so a burst
//! is late once, a harm that goes sets free what it held, and one that comes hits what is on its way.

use std::io;
use std::sync::Arc;

use futures_util::future::{join, try_join};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::fault::Ending;
use super::table::{Direction, Ends, Flow, LinkTable, Verdict};

/// Bytes that one direction of a connection may have under way; beyond that the sender feels back-pressure.
const UNDER_WAY: usize = 64 * 1024 * 1024;
const READ_SIZE: usize = 64 * 1024;

/// Something on its way through a link.
struct Parcel {
    content: Content,
    read_at: Instant,
    /// Drawn once, so that looking at a parcel again does not move it.
    luck: f64,
    /// Harms that have counted it.
    counted: Vec<u64>,
    _room: Option<OwnedSemaphorePermit>,
}

enum Content {
    Bytes(Vec<u8>),
    /// The sender will send no more.
    End,
    /// The sender's socket is gone.
    Reset,
}

impl Parcel {
    fn new(content: Content, room: Option<OwnedSemaphorePermit>) -> Parcel {
        Parcel {
            content,
            read_at: Instant::now(),
            luck: rand::random(),
            counted: Vec::new(),
            _room: room,
        }
    }

    fn len(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::End | Content::Reset => 0,
        }
    }
}

/// The connection has to be reset.
struct Abort;

/// Runs until both directions have ended, one was reset, or a harm ends the connection.
pub(super) async fn carry(
    table: &LinkTable,
    ends: &Arc<Ends>,
    mut dialler: TcpStream,
    mut node: TcpStream,
) -> io::Result<()> {
    dialler.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let reset = {
        let (from_dialler, to_dialler) = dialler.split();
        let (from_node, to_node) = node.split();
        let (out, out_queue) = unbounded_channel();
        let (back, back_queue) = unbounded_channel();
        let flow = |direction| table.flow(ends, direction);
        let reading = join(
            read(from_dialler, out.clone(), flow(Direction::Out)),
            read(from_node, back.clone(), flow(Direction::Back)),
        );
        let writing = try_join(
            write(to_node, out_queue, back, flow(Direction::Out)),
            write(to_dialler, back_queue, out, flow(Direction::Back)),
        );
        let ending = ending(flow(Direction::Out), flow(Direction::Back));
        tokio::select! {
            written = writing => written.is_err(),
            ending = ending => ending == Ending::Reset,
            // Reading ends first and says nothing; the writers have the last word.
            () = async { reading.await; std::future::pending().await } => false,
        }
    };
    if reset {
        // Without lingering, closing sends a reset.
        dialler.set_zero_linger()?;
        node.set_zero_linger()?;
    }
    Ok(())
}

/// Returns when a harm on either direction ends the connection.
async fn ending(mut out: Flow, mut back: Flow) -> Ending {
    loop {
        if let Some(ending) = out.ending().or(back.ending()) {
            return ending;
        }
        tokio::select! {
            () = out.changed() => {}
            () = back.changed() => {}
        }
    }
}

/// Reads until the sender ends, stamping what comes.
async fn read(mut from: ReadHalf<'_>, queue: UnboundedSender<Parcel>, mut flow: Flow) {
    let room = Arc::new(Semaphore::new(UNDER_WAY));
    let mut buffer = vec![0; READ_SIZE];
    let last = loop {
        let length = match from.read(&mut buffer).await {
            Ok(0) => break Content::End,
            Ok(length) => length,
            Err(_) => break Content::Reset,
        };
        let mut parcel = Parcel::new(Content::Bytes(buffer[..length].to_vec()), None);
        flow.refresh();
        flow.count(length, parcel.luck, &mut parcel.counted);
        parcel._room = Arc::clone(&room)
            .acquire_many_owned(length as u32)
            .await
            .ok();
        if queue.send(parcel).is_err() {
            return;
        }
    };
    let _ = queue.send(Parcel::new(last, None));
}

/// Delivers parcels in order, each when its link lets it.
///
/// If the receiver turns out to be gone, a reset travels the other way, through that link's own harms, and what still
/// comes is thrown away, as a network would.
async fn write(
    mut to: WriteHalf<'_>,
    mut queue: UnboundedReceiver<Parcel>,
    other_way: UnboundedSender<Parcel>,
    mut flow: Flow,
) -> Result<(), Abort> {
    let mut receiver_gone = false;
    while let Some(mut parcel) = queue.recv().await {
        until_due(&mut parcel, &mut flow).await;
        match &parcel.content {
            Content::Bytes(bytes) => {
                if !receiver_gone && to.write_all(bytes).await.is_err() {
                    receiver_gone = true;
                    let _ = other_way.send(Parcel::new(Content::Reset, None));
                }
            }
            Content::End => {
                // Fails only if the receiver is gone, and then it needs no end.
                let _ = to.shutdown().await;
                return Ok(());
            }
            Content::Reset => return Err(Abort),
        }
    }
    Ok(())
}

async fn until_due(parcel: &mut Parcel, flow: &mut Flow) {
    loop {
        flow.refresh();
        if parcel.len() > 0 {
            flow.count(parcel.len(), parcel.luck, &mut parcel.counted);
        }
        match flow.verdict(parcel.luck) {
            Verdict::Now => return,
            Verdict::Hold => flow.changed().await,
            Verdict::Late(late) => {
                let due = parcel.read_at + late;
                if due <= Instant::now() {
                    return;
                }
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = flow.changed() => {}
                }
            }
        }
    }
}
