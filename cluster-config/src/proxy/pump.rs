//! Carries the bytes of one connection both ways, each chunk when its link lets it.
//!
//! A chunk is stamped when it is read and delivered in order at that moment plus the delay that holds *then*; so a burst
//! is late once, a harm that goes sets free what it held, and one that comes hits what is on its way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, try_join};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::fault::Ending;
use super::table::{Direction, Ends, Flow, LinkTable, Treatments, Verdict};

/// Bytes that one direction of a connection may have under way; beyond that the sender feels back-pressure.
const UNDER_WAY: usize = 64 * 1024 * 1024;
const READ_SIZE: usize = 64 * 1024;

/// Something on its way through a link.
struct Parcel {
    content: Content,
    read_at: Instant,
    /// What harms have decided about it. Each decides once, so that looking again does not move it.
    treatments: Treatments,
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
    fn new(content: Content) -> Parcel {
        Parcel {
            content,
            read_at: Instant::now(),
            treatments: Treatments::new(),
            _room: None,
        }
    }

    fn treat(&mut self, flow: &Flow) {
        let bytes = match &mut self.content {
            Content::Bytes(bytes) => bytes.as_mut_slice(),
            // Ends are held and delayed as bytes are, but are none.
            Content::End | Content::Reset => &mut [],
        };
        flow.treat(bytes, self.read_at, &mut self.treatments);
    }
}

/// Runs until both directions have ended, one was reset, or a harm ends the connection.
pub(super) async fn carry(
    table: &LinkTable,
    ends: &Arc<Ends>,
    mut dialler: TcpStream,
    mut node: TcpStream,
) -> io::Result<()> {
    dialler.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let ending = {
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
            written = writing => written.err().unwrap_or(Ending::Close),
            ending = ending => ending,
            // Reading ends first and says nothing; the writers have the last word.
            () = async { reading.await; std::future::pending().await } => Ending::Close,
        }
    };
    if ending == Ending::Reset {
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
        let mut parcel = Parcel::new(Content::Bytes(buffer[..length].to_vec()));
        flow.refresh();
        parcel.treat(&flow);
        parcel._room = Arc::clone(&room)
            .acquire_many_owned(length as u32)
            .await
            .ok();
        if queue.send(parcel).is_err() {
            return;
        }
    };
    let _ = queue.send(Parcel::new(last));
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
) -> Result<(), Ending> {
    let mut receiver_gone = false;
    while let Some(mut parcel) = queue.recv().await {
        let verdict = until_due(&mut parcel, &mut flow).await;
        match &parcel.content {
            Content::Bytes(bytes) => {
                let passing = verdict.last.unwrap_or(bytes.len()).min(bytes.len());
                if !receiver_gone
                    && deliver(&mut to, &bytes[..passing], verdict.slice)
                        .await
                        .is_err()
                {
                    receiver_gone = true;
                    let _ = other_way.send(Parcel::new(Content::Reset));
                }
                if verdict.last.is_some() {
                    return Err(Ending::Close);
                }
            }
            Content::End => {
                // Fails only if the receiver is gone, and then it needs no end.
                let _ = to.shutdown().await;
                return Ok(());
            }
            Content::Reset => return Err(Ending::Reset),
        }
    }
    Ok(())
}

async fn deliver(
    to: &mut WriteHalf<'_>,
    bytes: &[u8],
    slice: Option<(usize, Duration)>,
) -> io::Result<()> {
    let Some((size, delay)) = slice else {
        return to.write_all(bytes).await;
    };
    for piece in bytes.chunks(size) {
        to.write_all(piece).await?;
        sleep(delay).await;
    }
    Ok(())
}

/// Returns when the link lets the parcel through, with what remains to be done to it.
async fn until_due(parcel: &mut Parcel, flow: &mut Flow) -> Verdict {
    loop {
        flow.refresh();
        parcel.treat(flow);
        let verdict = flow.verdict(&parcel.treatments);
        if verdict.hold {
            flow.changed().await;
            continue;
        }
        let due = parcel.read_at + verdict.late;
        if verdict.late.is_zero() || due <= Instant::now() {
            return verdict;
        }
        tokio::select! {
            () = sleep_until(due) => {}
            () = flow.changed() => {}
        }
    }
}
