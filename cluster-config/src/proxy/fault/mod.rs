//! The harms that a link can suffer: one file each, and one line each in the table below.

mod cut;
mod delay;
mod refuse;
mod reset;

use std::fmt;
use std::time::Duration;

/// A harm to one directed link.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkFault {
    /// Bytes arrive `latency` later, plus up to `jitter` drawn per chunk; their order is kept. What is sent in one burst
    /// is late once, not once per piece. Timers count in milliseconds: a shorter latency is rounded up.
    Delay {
        /// At least this much.
        latency: Duration,
        /// At most this much more, drawn uniformly.
        jitter: Duration,
    },
    /// Bytes are held and nothing is closed; new connections are accepted and held as well. After the heal everything
    /// flows in order.
    Cut,
    /// Connections are closed, new ones are closed as soon as they are made. Hits a connection if either of its directions
    /// is the harmed link.
    Refuse,
    /// As `Refuse`, but existing connections end with a TCP reset, as if the peer's host had restarted.
    Reset,
}

/// What a harm does to the bytes that wait at its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Nothing.
    Pass,
    /// They arrive this much after they were read.
    Late(Duration),
    /// They wait for the heal.
    Hold,
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
    /// What happens to a chunk. `luck`, 0.0 to 1.0, was drawn for it when it was read.
    fn treat(&self, luck: f64) -> Treatment;

    /// Whether connections over the link are ended, and how. By default they live.
    fn ending(&self) -> Option<Ending> {
        None
    }
}

impl LinkFault {
    /// The table: one line per harm.
    pub(super) fn harm(self) -> Box<dyn Harm> {
        match self {
            LinkFault::Delay { latency, jitter } => Box::new(delay::Delay { latency, jitter }),
            LinkFault::Cut => Box::new(cut::Cut),
            LinkFault::Refuse => Box::new(refuse::Refuse),
            LinkFault::Reset => Box::new(reset::Reset),
        }
    }
}
