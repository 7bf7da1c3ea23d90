//! The faults that a link can suffer: one line each in the table below, and a type for each behaviour.
//!
//! | file | what it is for |
//! |---|---|
//! | `small.rs` | behaviours of a few lines each |
//! | `bandwidth.rs` | a thin pipe |
//! | `loss.rs` | lost packets, as TCP repeats them |
//! | `toxic.rs` | the same by Toxiproxy's names |

mod bandwidth;
mod loss;
mod small;
mod toxic;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::Instant;

use super::resp::Pattern;
use bandwidth::Bandwidth;
use loss::Loss;
pub(super) use small::MessageCounter;
use small::{Always, CloseAfter, Corrupt, Delay, EndConnections, MessageRange};
pub(crate) use toxic::{TOXICS, ToxicKind};

/// A fault to one directed link.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LinkFault {
    /// Bytes arrive `latency` later, give or take up to `jitter`, drawn uniformly per chunk; their order is
    /// kept. What is sent in one burst is late once, not once per piece. Never shorter than asked; on Linux
    /// longer by what the kernel and the proxy need (some tens of microseconds on an idle machine), elsewhere
    /// by up to a millisecond.
    Delay {
        /// This much on average.
        latency: Duration,
        /// At most this much more or less.
        jitter: Duration,
    },
    /// At most this many bytes per second pass, over all connections of the link; 0 holds everything.
    Bandwidth {
        /// Bytes per second.
        bytes_per_s: u64,
    },
    /// Bytes are held and nothing is closed; new connections are accepted and held as well. After the heal
    /// everything flows in order.
    Cut,
    /// Connections are closed, new ones at once. Hits a connection if either of its directions is the link.
    Refuse,
    /// As `Refuse`, but existing connections end with a TCP reset, as if the peer's host had restarted.
    Reset,
    /// A connection is closed once so many of its bytes have passed since the beginning; the rest is lost.
    CloseAfter {
        /// Bytes that still pass, per connection.
        bytes: u64,
    },
    /// Bytes arrive in pieces of at most `size`, each `delay` after the one before.
    Slice {
        /// Bytes per piece, at least 1.
        size: usize,
        /// Pause after each piece.
        delay: Duration,
    },
    /// Each byte is replaced by another with this probability. What was corrupted stays so after the heal.
    Corrupt {
        /// Probability per byte, 0.0 to 1.0.
        rate: f64,
    },
    /// Packets are lost, and TCP sends them again: a chunk that is lost arrives 200 ms later, or 600 ms if
    /// the repetition is lost too, 1.4 s, 3 s and so on, and what follows it on its connection waits. Nothing
    /// is missing in the end.
    Loss {
        /// Share of chunks that are lost, 0.0 to 1.0; at 1.0 nothing passes before the heal.
        rate: f64,
        /// So many chunks in a row are lost on average, at least 1.
        burst: u32,
    },
    /// Certain messages are held, and what follows them on their connections, until the heal.
    ///
    /// Messages of a client or of a server that answers it; on a replication link the master's writes.
    /// Counted since the fault began, over all connections of the link. Replies are those to commands that
    /// were sent since then. Connections that are not Redis in the clear (TLS, the cluster's bus) have no
    /// messages, nor are those longer than 1 MiB looked at.
    Hold {
        /// Which messages: a command's own words, or for a reply those of the command that it answers.
        pattern: Pattern,
        /// The first of them that is held, from 1.
        nth: u64,
        /// How many are, from that one on.
        count: u64,
    },
    /// Certain messages are lost, chosen as for `Hold`. The connection stays open and silent. As no network
    /// loses bytes out of the middle of a connection, the next message that would take the lost one's place
    /// resets the connection instead. Only pushes, which nobody counts, are lost without a trace.
    Drop {
        /// Which messages.
        pattern: Pattern,
        /// The first of them that is lost, from 1.
        nth: u64,
        /// How many are, from that one on.
        count: u64,
    },
}

/// What a fault does to a chunk that it saw for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    Pass,
    Changed,
    Delayed(Duration),
    Hold,
    Slice(Slices),
    /// So many of them arrive; then the connection is closed.
    CloseAfter(usize),
    Lost,
    /// They never arrive, and the connection ends so much later.
    EndsAfter(Duration, ConnectionEnding),
    /// Nothing, but their arrival is of interest.
    Counted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slices {
    /// Bytes per piece on average, at least 1.
    pub(super) size: usize,
    /// At most so many more or fewer, drawn uniformly.
    pub(super) variation: usize,
    pub(super) delay: Duration,
}

#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) read_at: Instant,
    pub(super) connection: u64,
    /// Whether it is a message that the fault's pattern means.
    pub(super) is_match: bool,
    /// Whether it is no bytes but the end of them.
    pub(super) is_end: bool,
}

#[cfg(test)]
impl<'a> Chunk<'a> {
    pub(super) fn of(bytes: &'a mut [u8], connection: u64) -> Chunk<'a> {
        Chunk { bytes, read_at: Instant::now(), connection, is_match: false, is_end: false }
    }

    pub(super) fn message(bytes: &'a mut [u8]) -> Chunk<'a> {
        Chunk { is_match: true, ..Chunk::of(bytes, 1) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    /// Closed in order: what arrived is read, then end of stream.
    Close,
    Reset,
}

/// One kind of fault, with its settings: what it does to chunks and connections.
pub(crate) trait FaultBehaviour: fmt::Debug + Send + Sync {
    /// What happens to a chunk; asked once for each, in the order of their reading. By default nothing.
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Pass
    }

    /// Whether new connections are kept waiting. By default not.
    fn holds_connections(&self) -> bool {
        false
    }

    /// Whether all connections over the link are ended, and how. By default they live.
    fn ending(&self) -> Option<ConnectionEnding> {
        None
    }

    /// When a connection is ended that was opened then, and how. By default it is not.
    fn ends_at(&self, _connection: u64, _opened: Instant) -> Option<(Instant, ConnectionEnding)> {
        None
    }

    /// How a connection ends when the fault is lifted. By default it does not.
    fn ends_when_lifted(&self, _connection: u64) -> Option<ConnectionEnding> {
        None
    }

    /// The largest chunk that it wants to see at once, at least 1. By default any.
    fn largest_chunk(&self) -> Option<usize> {
        None
    }

    /// Which messages it is about; a chunk then holds one of them whole, or nothing of them. By default none.
    fn pattern(&self) -> Option<&Pattern> {
        None
    }

    fn delivered(&self) {}
}

impl LinkFault {
    /// The table: one line per fault.
    pub(super) fn behaviour(self) -> Box<dyn FaultBehaviour> {
        let range = |pattern, nth, count, treatment| {
            Box::new(MessageRange { pattern, nth, count, treatment, matched: AtomicU64::new(0) })
        };
        match self {
            LinkFault::Delay { latency, jitter } => Box::new(Delay { latency, jitter }),
            LinkFault::Bandwidth { bytes_per_s } => Box::new(Bandwidth::new(bytes_per_s, false)),
            LinkFault::Cut => Box::new(Always(Treatment::Hold)),
            LinkFault::Refuse => Box::new(EndConnections(ConnectionEnding::Close)),
            LinkFault::Reset => Box::new(EndConnections(ConnectionEnding::Reset)),
            LinkFault::CloseAfter { bytes } => Box::new(CloseAfter { bytes, passed: Mutex::default() }),
            LinkFault::Slice { size, delay } => {
                Box::new(Always(Treatment::Slice(Slices { size: size.max(1), variation: 0, delay })))
            }
            LinkFault::Corrupt { rate } => Box::new(Corrupt { rate }),
            LinkFault::Loss { rate, burst } => Box::new(Loss::new(rate, burst)),
            LinkFault::Hold { pattern, nth, count } => range(pattern, nth, count, Treatment::Hold),
            LinkFault::Drop { pattern, nth, count } => range(pattern, nth, count, Treatment::Lost),
        }
    }
}
