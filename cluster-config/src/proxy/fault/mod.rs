//! The harms that a link can suffer: one file each, and one line each in the table below.

mod bandwidth;
mod close_after;
mod corrupt;
mod cut;
mod delay;
mod refuse;
mod reset;
mod slice;

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// A harm to one directed link.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LinkFault {
    /// Bytes arrive `latency` later, give or take up to `jitter`, drawn uniformly per chunk; their order is kept. What is
    /// sent in one burst is late once, not once per piece. Timers count in milliseconds: shorter ones are rounded up.
    Delay {
        /// This much on average.
        latency: Duration,
        /// At most this much more or less.
        jitter: Duration,
    },
    /// At most this many bytes per second pass, over all connections of the link together; 0 holds everything.
    Bandwidth {
        /// Bytes per second.
        bytes_per_s: u64,
    },
    /// Bytes are held and nothing is closed; new connections are accepted and held as well. After the heal everything
    /// flows in order.
    Cut,
    /// Connections are closed, new ones are closed as soon as they are made. Hits a connection if either of its directions
    /// is the harmed link.
    Refuse,
    /// As `Refuse`, but existing connections end with a TCP reset, as if the peer's host had restarted.
    Reset,
    /// A connection is closed once this many of its bytes have passed since the fault began; what comes after is lost.
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
}

/// What a harm does to a chunk that it saw for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Nothing, or nothing any more.
    Pass,
    /// It changed the bytes themselves.
    Changed,
    /// They arrive this much after they were read.
    Late(Duration),
    /// They wait for the heal.
    Hold,
    /// They arrive in pieces of this size, with this pause after each.
    Slice(usize, Duration),
    /// So many of them arrive; then the connection is closed.
    Last(usize),
}

/// What was read at once from one connection.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) read_at: Instant,
    pub(super) connection: u64,
}

/// How a harm ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Closed in order: what arrived is read, then end of stream.
    Close,
    /// TCP reset.
    Reset,
}

/// One kind of harm, with its settings.
pub(super) trait Harm: fmt::Debug + Send + Sync {
    /// What happens to a chunk; asked once per chunk, in the order in which they were read. By default nothing.
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Pass
    }

    /// Whether new connections are kept waiting. By default not.
    fn holds_connections(&self) -> bool {
        false
    }

    /// Whether all connections over the link are ended, and how. By default they live.
    fn ending(&self) -> Option<Ending> {
        None
    }
}

impl LinkFault {
    /// The table: one line per harm.
    pub(super) fn harm(self) -> Box<dyn Harm> {
        match self {
            LinkFault::Delay { latency, jitter } => Box::new(delay::Delay { latency, jitter }),
            LinkFault::Bandwidth { bytes_per_s } => {
                Box::new(bandwidth::Bandwidth::new(bytes_per_s))
            }
            LinkFault::Cut => Box::new(cut::Cut),
            LinkFault::Refuse => Box::new(refuse::Refuse),
            LinkFault::Reset => Box::new(reset::Reset),
            LinkFault::CloseAfter { bytes } => Box::new(close_after::CloseAfter::new(bytes)),
            LinkFault::Slice { size, delay } => Box::new(slice::Slice { size, delay }),
            LinkFault::Corrupt { rate } => Box::new(corrupt::Corrupt { rate }),
        }
    }
}
