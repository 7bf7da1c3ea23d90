//! Carries the bytes of one connection both ways, each chunk when its link lets it.
//!
//! While no fault concerns a link, a chunk is written as soon as it is read. Else it is stamped when it is
//! read and delivered in order at that moment plus the delay that holds *then*; so a burst is late once, a
//! fault that goes sets free what it held, and one that comes hits what is on its way.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{join, try_join};
use nix::sys::socket::{Shutdown, shutdown};
use rand::RngExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

use super::cutter::{Content, Cutter, Parcel};
use super::fault::{ConnectionEnding, Slices};
use super::fine_timer::FineTimer;
use super::table::{ConnectionEnds, Direction, Flow, LinkTable, Treatments, Verdict};

/// Bytes that one direction of a connection may have under way; beyond that the sender feels back-pressure.
const UNDER_WAY_MAX: usize = 64 * 1024 * 1024;
const READ_SIZE: usize = 32 * 1024;

struct Queue {
    parcels: UnboundedSender<Parcel>,
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

/// Runs until both directions have ended, one was reset, or a fault ends the connection.
pub(super) async fn carry(
    table: &LinkTable,
    ends: &Arc<ConnectionEnds>,
    mut dialler: TcpStream,
    mut node: TcpStream,
) -> io::Result<()> {
    dialler.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let ending = {
        let (from_dialler, to_dialler) = dialler.split();
        let (from_node, to_node) = node.split();
        let (to_dialler, to_node): (&TcpStream, &TcpStream) = (to_dialler.as_ref(), to_node.as_ref());
        let (out, out_queue) = Queue::new();
        let (back, back_queue) = Queue::new();
        let flow = |direction| table.flow(ends, direction);
        let reading = join(
            read(Reader::new(table, ends, Direction::Out), from_dialler, to_node, &out),
            read(Reader::new(table, ends, Direction::Back), from_node, to_dialler, &back),
        );
        let writing = try_join(
            write(Writer::new(table, ends, Direction::Out), to_node, out_queue, &out, &back),
            write(Writer::new(table, ends, Direction::Back), to_dialler, back_queue, &back, &out),
        );
        let ending = ending(flow(Direction::Out), flow(Direction::Back));
        tokio::select! {
            biased;
            ending = ending => ending,
            // The end of reading says nothing about the connection: the writers decide.
            () = async { reading.await; std::future::pending().await } => ConnectionEnding::Close,
            written = writing => written.err().unwrap_or(ConnectionEnding::Close),
        }
    };
    if ending == ConnectionEnding::Reset {
        // Without lingering, closing sends a reset.
        dialler.set_zero_linger()?;
        node.set_zero_linger()?;
    }
    Ok(())
}

/// Returns when a fault on either direction ends the connection.
async fn ending(mut out: Flow, mut back: Flow) -> ConnectionEnding {
    loop {
        if let Some(ending) = out.ending().or(back.ending()) {
            return ending;
        }
        let deadline = out.deadline().into_iter().chain(back.deadline()).min_by_key(|(at, _)| *at);
        tokio::select! {
            () = out.changed() => {}
            () = back.changed() => {}
            ending = ending_at(deadline) => return ending,
        }
    }
}

async fn ending_at(deadline: Option<(Instant, ConnectionEnding)>) -> ConnectionEnding {
    match deadline {
        Some((at, ending)) => {
            sleep_until(at).await;
            ending
        }
        None => std::future::pending().await,
    }
}

struct Reader {
    flow: Flow,
    opposite: Flow,
    cutter: Cutter,
}

impl Reader {
    fn new(table: &LinkTable, ends: &Arc<ConnectionEnds>, direction: Direction) -> Reader {
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

/// Reads until the sender ends; writes at once what nothing harms or precedes, stamps and queues the rest.
async fn read(mut reader: Reader, mut from: ReadHalf<'_>, to: &TcpStream, queue: &Queue) {
    let Reader { flow, opposite, cutter } = &mut reader;
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
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
            cutter.note_messages(bytes, opposite);
            // On an error all of it is queued, and the writer learns what is wrong.
            let written = to.try_write(bytes).unwrap_or(0);
            bytes = &bytes[written..];
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
    for parcel in cutter.take_rest(flow) {
        queue.push(parcel);
    }
    queue.push(Parcel::new(last));
}

struct Writer {
    half_open: bool,
    flow: Flow,
    timer: FineTimer,
}

impl Writer {
    fn new(table: &LinkTable, ends: &Arc<ConnectionEnds>, direction: Direction) -> Writer {
        Writer {
            half_open: ends.behaviour.half_open,
            flow: table.flow(ends, direction),
            timer: FineTimer::default(),
        }
    }

    /// Hands bytes on, in pieces for as long as a fault asks for them.
    async fn deliver(
        &mut self,
        to: &TcpStream,
        treatments: &Treatments,
        mut bytes: &[u8],
        mut slice: Option<Slices>,
    ) -> io::Result<()> {
        while let Some(slices) = slice {
            let size = slices.next_size().min(bytes.len());
            let (piece, rest) = bytes.split_at(size);
            write_all(to, piece).await?;
            bytes = rest;
            let mut pause = std::pin::pin!(sleep(slices.delay));
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    () = self.flow.changed() => {
                        slice = self.flow.verdict(treatments).slice;
                        if slice.is_none() {
                            break;
                        }
                    }
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
        write_all(to, bytes).await
    }
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

impl Slices {
    fn next_size(&self) -> usize {
        let least = self.size.saturating_sub(self.variation);
        let most = self.size.saturating_add(self.variation);
        rand::rng().random_range(least..=most).max(1)
    }
}

/// Delivers parcels in order, each when its link lets it. If the receiver is gone, a reset travels the other
/// way, through that link's faults, and what still comes is thrown away.
async fn write(
    mut writer: Writer,
    to: &TcpStream,
    mut parcels: UnboundedReceiver<Parcel>,
    queue: &Queue,
    opposite: &Queue,
) -> Result<(), ConnectionEnding> {
    let mut receiver_gone = false;
    while let Some(mut parcel) = parcels.recv().await {
        let verdict = wait_until_due(&mut parcel, &mut writer.flow, &mut writer.timer).await;
        if let Some((_, ending)) = verdict.ends {
            return Err(ending);
        }
        match &parcel.content {
            Content::Bytes(bytes) => {
                let passing = verdict.close_after.unwrap_or(bytes.len()).min(bytes.len());
                if !receiver_gone
                    && !verdict.lost
                    && writer.deliver(to, &parcel.treatments, &bytes[..passing], verdict.slice).await.is_err()
                {
                    receiver_gone = true;
                    opposite.push(Parcel::new(Content::Reset));
                }
                if verdict.close_after.is_some() {
                    return Err(ConnectionEnding::Close);
                }
                writer.flow.delivered(&parcel.treatments);
            }
            Content::End => {
                // Fails only if the receiver is gone, and then it needs no end.
                let how = if writer.half_open { Shutdown::Write } else { Shutdown::Both };
                let _ = shutdown(to.as_raw_fd(), how);
                return Ok(());
            }
            Content::Reset => return Err(ConnectionEnding::Reset),
        }
        queue.delivered();
    }
    Ok(())
}

/// Returns when the link lets the parcel through, with what remains to be done to it.
async fn wait_until_due(parcel: &mut Parcel, flow: &mut Flow, timer: &mut FineTimer) -> Verdict {
    loop {
        flow.refresh();
        parcel.treat(flow);
        let verdict = flow.verdict(&parcel.treatments);
        if verdict.hold {
            flow.changed().await;
            continue;
        }
        let late = verdict.ends.map_or(verdict.delay, |(after, _)| verdict.delay + after);
        let due = parcel.read_at + late;
        if late.is_zero() || due <= Instant::now() {
            return verdict;
        }
        tokio::select! {
            () = timer.until(due) => {}
            () = flow.changed() => {}
        }
    }
}
