//! Carries the bytes of one connection both ways, each chunk when its link lets it.
//!
//! While no harm concerns a link, a chunk is written as soon as it is read. Else it is stamped when it is read and delivered
//! in order at that moment plus the delay that holds *then*; so a burst is late once, a harm that goes sets free what it
//! held, and one that comes hits what is on its way.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join, try_join};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use super::cutter::Cutter;
use super::fault::Ending;
use super::parcel::{Content, Parcel};
use super::table::{Direction, Ends, Flow, LinkTable, Verdict};

/// Bytes that one direction of a connection may have under way; beyond that the sender feels back-pressure.
const UNDER_WAY: usize = 64 * 1024 * 1024;
const READ_SIZE: usize = 32 * 1024;

/// Where one direction's parcels wait.
struct Queue {
    parcels: UnboundedSender<Parcel>,
    /// How many were queued and are not delivered.
    waiting: AtomicUsize,
}

impl Queue {
    fn new() -> (Queue, UnboundedReceiver<Parcel>) {
        let (parcels, receiver) = unbounded_channel();
        let waiting = AtomicUsize::new(0);
        (Queue { parcels, waiting }, receiver)
    }

    /// Whether it was taken; it is not when the direction has ended.
    fn push(&self, parcel: Parcel) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.parcels.send(parcel).is_ok()
    }

    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    fn delivered(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
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
        let (to_dialler, to_node): (&TcpStream, &TcpStream) =
            (to_dialler.as_ref(), to_node.as_ref());
        let (out, out_queue) = Queue::new();
        let (back, back_queue) = Queue::new();
        let flow = |direction| table.flow(ends, direction);
        let reading = join(
            read(
                Reader::new(table, ends, Direction::Out),
                from_dialler,
                to_node,
                &out,
            ),
            read(
                Reader::new(table, ends, Direction::Back),
                from_node,
                to_dialler,
                &back,
            ),
        );
        let writing = try_join(
            write(to_node, out_queue, &out, &back, flow(Direction::Out)),
            write(to_dialler, back_queue, &back, &out, flow(Direction::Back)),
        );
        let ending = ending(flow(Direction::Out), flow(Direction::Back));
        tokio::select! {
            biased;
            ending = ending => ending,
            // Reading ends first and says nothing; the writers have the last word.
            () = async { reading.await; std::future::pending().await } => Ending::Close,
            written = writing => written.err().unwrap_or(Ending::Close),
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

/// What reading one direction needs to know.
struct Reader {
    flow: Flow,
    opposite: Flow,
    cutter: Cutter,
}

impl Reader {
    fn new(table: &LinkTable, ends: &Arc<Ends>, direction: Direction) -> Reader {
        let other = match direction {
            Direction::Out => Direction::Back,
            Direction::Back => Direction::Out,
        };
        Reader {
            flow: table.flow(ends, direction),
            opposite: table.flow(ends, other),
            cutter: Cutter::new(ends, direction),
        }
    }
}

/// Reads until the sender ends; writes at once what nothing harms and nothing precedes, stamps and queues the rest.
async fn read(mut reader: Reader, mut from: ReadHalf<'_>, to: &TcpStream, queue: &Queue) {
    let Reader {
        flow,
        opposite,
        cutter,
    } = &mut reader;
    let room = Arc::new(Semaphore::new(UNDER_WAY));
    let mut buffer = vec![0; READ_SIZE];
    let last = loop {
        let length = match from.read(&mut buffer).await {
            Ok(0) => break Content::End,
            Ok(length) => length,
            Err(_) => break Content::Reset,
        };
        let mut bytes = &buffer[..length];
        flow.refresh();
        let parcels = if flow.is_quiet() && queue.is_empty() && cutter.is_empty() {
            cutter.listen(bytes, opposite);
            // On an error all of it is queued, and the writer learns what is wrong.
            bytes = &bytes[to.try_write(bytes).unwrap_or(0)..];
            if bytes.is_empty() {
                continue;
            }
            vec![Parcel::new(Content::Bytes(bytes.to_vec()))]
        } else {
            cutter.cut(bytes, flow, opposite)
        };
        for mut parcel in parcels {
            if let Content::Bytes(bytes) = &parcel.content {
                let permit = Arc::clone(&room).acquire_many_owned(bytes.len() as u32);
                parcel.room = permit.await.ok();
            }
            if !queue.push(parcel) {
                return;
            }
        }
    };
    for parcel in cutter.rest(flow) {
        queue.push(parcel);
    }
    queue.push(Parcel::new(last));
}

/// Delivers parcels in order, each when its link lets it.
///
/// If the receiver turns out to be gone, a reset travels the other way, through that link's own harms, and what still
/// comes is thrown away, as a network would.
async fn write(
    to: &TcpStream,
    mut parcels: UnboundedReceiver<Parcel>,
    queue: &Queue,
    other_way: &Queue,
    mut flow: Flow,
) -> Result<(), Ending> {
    let mut receiver_gone = false;
    while let Some(mut parcel) = parcels.recv().await {
        let verdict = until_due(&mut parcel, &mut flow).await;
        match &parcel.content {
            Content::Bytes(bytes) => {
                let passing = verdict.last.unwrap_or(bytes.len()).min(bytes.len());
                if !receiver_gone
                    && !verdict.lost
                    && deliver(to, &bytes[..passing], verdict.slice).await.is_err()
                {
                    receiver_gone = true;
                    other_way.push(Parcel::new(Content::Reset));
                }
                if verdict.last.is_some() {
                    return Err(Ending::Close);
                }
                flow.delivered(&parcel.treatments);
            }
            Content::End => {
                // Fails only if the receiver is gone, and then it needs no end.
                let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
                return Ok(());
            }
            Content::Reset => return Err(Ending::Reset),
        }
        queue.delivered();
    }
    Ok(())
}

async fn deliver(to: &TcpStream, bytes: &[u8], slice: Option<(usize, Duration)>) -> io::Result<()> {
    let Some((size, delay)) = slice else {
        return write_all(to, bytes).await;
    };
    for piece in bytes.chunks(size) {
        write_all(to, piece).await?;
        sleep(delay).await;
    }
    Ok(())
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
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
