//! The lines of a history (`history.jsonl`), as types that are also their form in the file.
//!
//! A history is the record of one scenario: operations in two lines (call, end) with one `id`, and events. It
//! is in order of `t_ns`, nanoseconds on one monotonic clock. What it means is the checkers' work.
//!
//! | file | what it is for |
//! |---|---|
//! | `line.rs`, `parse.rs` | reads and writes a line; reads a whole file and says by line what is wrong with it |
//! | `history_writer.rs` | writes a file from many threads |
//! | `history_file/` | reads a file, plain or compressed, and compresses it |
//! | `history_parts.rs` | reads the parts of several machines as one |
//! | `overlap.rs` | finds overlaps among hold intervals |

pub mod history_file;
pub mod history_parts;
pub mod history_writer;
mod line;
pub mod overlap;
mod parse;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub(crate) use parse::Reader;

/// One line of a history: the start of an operation, its end, or an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Nanoseconds since the run began, on one monotonic clock.
    pub t_ns: u64,
    /// What happened then.
    pub entry: Entry,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// An operation was called.
    Call {
        /// Pairs the call with its end.
        id: u64,
        /// What was asked.
        call: Call,
    },
    /// An operation returned.
    End {
        /// The `id` of its call.
        id: u64,
        /// How it ended.
        end: End,
    },
    /// Something happened that is not an operation.
    Event(Event),
}

/// What an operation asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Call {
    /// Ask for a lock.
    Acquire(Acquire),
    /// Lengthen a hold by a lease from now on.
    Extend {
        /// The hold.
        grant: String,
        /// The lease asked for.
        lease_ms: u64,
        /// `Some("watchdog")` for a renewal of the library's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Give a hold back.
    Release {
        /// The hold.
        grant: String,
    },
}

/// An acquire, as asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Acquire {
    /// The client process that asks.
    pub client: String,
    /// The caller inside the client.
    pub owner: String,
    /// The lock asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The locks asked for, in place of `lock`: several, of `multi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<Vec<String>>,
    /// The kind, by name (`reentrant`, `read`, `semaphore`, …).
    pub kind: String,
    /// The lease in milliseconds; `None` means renewed by the library.
    pub lease_ms: Option<u64>,
    /// The longest wait in milliseconds; `None` means without bound.
    pub wait_ms: Option<u64>,
    /// Permits asked for, for `semaphore` and `permits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
}

impl Acquire {
    /// The names of what was asked for: one, but for `multi`.
    pub fn names(&self) -> &[String] {
        self.lock.as_ref().map(std::slice::from_ref).or(self.locks.as_deref()).unwrap_or_default()
    }
}

/// How an operation ended.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// It worked.
    Ok {
        /// The hold's name, on an acquire.
        grant: Option<String>,
        /// The fencing token, where the kind has one. 0 … 2^63−1.
        #[serde(default, deserialize_with = "line::token")]
        token: Option<u64>,
        /// When the attempt that succeeded was sent, where known.
        sent_ns: Option<u64>,
        /// When an acquire returned to its caller, where known: this line may be written later.
        returned_ns: Option<u64>,
        /// What was granted, on an acquire, if that is less than what was asked for.
        lease_ms: Option<u64>,
        /// Where in the subject's own source an acquire was granted, as `lock.py:41`, where it says so.
        #[serde(default, deserialize_with = "line::words")]
        at: Option<String>,
    },
    /// An acquire: certainly not acquired within the wait.
    Busy,
    /// An extend or release: the library says that it does not hold the lock.
    NotHeld,
    /// It certainly did not happen.
    Failed {
        /// Why.
        #[serde(default, deserialize_with = "line::words")]
        error: Option<String>,
    },
    /// It may or may not have happened.
    Unknown {
        /// Why.
        #[serde(default, deserialize_with = "line::words")]
        error: Option<String>,
        /// A grant that may exist; a later proof of it turns it into held.
        grant: Option<String>,
    },
}

impl End {
    /// It worked, and there is nothing to say of it.
    pub const fn done() -> Self {
        End::Ok { grant: None, token: None, sent_ns: None, returned_ns: None, lease_ms: None, at: None }
    }
    /// The ending in words: as in the file, with the grant and the token where it names them.
    pub fn words(&self) -> String {
        let (word, grant, token) = match self {
            Self::Ok { grant, token, .. } => ("ok", grant.as_ref(), *token),
            Self::Busy => ("busy", None, None),
            Self::NotHeld => ("not_held", None, None),
            Self::Failed { .. } => ("failed", None, None),
            Self::Unknown { grant, .. } => ("unknown", grant.as_ref(), None),
        };
        let at = match self {
            Self::Ok { at: Some(at), .. } => format!(", at {at}"),
            _ => String::new(),
        };
        let grant = grant.map_or(String::new(), |grant| format!(": {grant}"));
        let token = token.map_or(String::new(), |token| format!(", token {token}"));
        format!("{word}{grant}{token}{at}")
    }
}

/// Something that is not an operation.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The library notified its caller that the lock is gone.
    Lost {
        /// The hold.
        grant: String,
        /// Why, in the library's words.
        #[serde(default, deserialize_with = "line::words")]
        reason: Option<String>,
        /// When it did, where it was written down later: lines are in order of time.
        at_ns: Option<u64>,
    },
    /// A holder wrote to the protected resource.
    Write {
        /// The lock that protects it.
        lock: String,
        /// The hold under which it was written.
        grant: String,
        /// The fencing token shown to the resource.
        #[serde(default, deserialize_with = "line::token")]
        token: Option<u64>,
        /// Whether the resource took it.
        accepted: bool,
        /// The counter's value that the holder had read.
        read: Option<i64>,
        /// The counter's value that it wrote.
        wrote: Option<i64>,
    },
    /// A fault was injected or healed.
    Fault {
        /// Its name, as in the registry.
        fault: String,
        /// Nodes (`n1`), clients (`c1`) or links (`n1 -> n2`).
        targets: Vec<String>,
        /// Pairs inject with heal.
        span: u64,
        /// Which end of the span this is.
        phase: Phase,
    },
    /// A client process died; its grants returned by then end here for belief.
    Crash {
        /// The client.
        client: String,
    },
    /// The harness's own probe of a lock's slot changed its answer (`locklab` writes these; others need not).
    Probe {
        /// The lock whose slot was written.
        lock: String,
        /// Whether the write succeeded.
        ok: bool,
    },
    /// What a client's library said of itself (`locklab` writes these; others need not).
    Client {
        /// The client.
        client: String,
        /// The lease that the library renews by itself, in milliseconds; `None` where it did not say.
        watchdog_ms: Option<u64>,
        /// What its driver's hello lists: `release_blind` (an `ok` proves no hold), `renewals` (all on
        /// record), …
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features: Vec<String>,
    },
    /// The recorder went on after it had stood still: what it was told meanwhile it wrote down only now.
    Stall {
        /// For how long.
        lasted_ns: u64,
        /// The client that stood still in the recorder's place.
        client: Option<String>,
        /// How much of it the recorder's thread was ready to run and waited for a processor.
        run_queue_ns: Option<u64>,
        /// How much of it a hypervisor kept the processors for others, all of them together, to 10 ms.
        steal_ns: Option<u64>,
        /// By how much the machine's clock, by which servers end leases, was set forward meanwhile; less than
        /// nothing: back.
        clock_step_ns: Option<i64>,
    },
    /// How the recorder's clock stands to a reference's, for histories that are recorded in parts.
    Clock {
        /// In a part: what the reference's clock showed, to half the round trip before this line.
        reference_ns: Option<u64>,
        /// How long it took to ask.
        #[serde(default, skip_serializing_if = "is_zero")]
        round_trip_ns: u64,
        /// In parts that were put together: the clients of one part …
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        clients: Vec<String>,
        /// … and how far off their times may be from here on.
        uncertainty_ns: Option<u64>,
    },
    /// A line of a kind that this version does not know; kept as it was.
    #[serde(skip)]
    Other(serde_json::Map<String, serde_json::Value>),
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An end of a fault span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The harm begins.
    Inject,
    /// The harm is undone.
    Heal,
}

/// A whole history, in order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Its lines, sorted by `t_ns`.
    pub lines: Vec<Line>,
    /// Set if the last line was torn: the run is partial.
    pub torn: bool,
    /// The library's own lease for renewed locks, per client, where its recorder knew it; milliseconds.
    pub watchdog_ms: BTreeMap<String, u64>,
}

impl History {
    /// Makes a history of lines that are in order already, and fills [`watchdog_ms`](Self::watchdog_ms) from
    /// its [`Event::Client`] lines; the last one of a client counts. Nothing is checked.
    pub fn from_lines(lines: Vec<Line>) -> Self {
        let said = lines.iter().filter_map(|line| match &line.entry {
            Entry::Event(Event::Client { client, watchdog_ms, .. }) => {
                Some((client.clone(), (*watchdog_ms)?))
            }
            _ => None,
        });
        Self { watchdog_ms: said.collect(), lines, torn: false }
    }
}

/// A history that cannot be read, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{found}; allowed: {allowed}", place(*line, *column))]
pub struct HistoryError {
    /// The line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The column in bytes, counted from 1, where it is known.
    pub column: Option<usize>,
    /// What was found.
    pub found: String,
    /// What is allowed there.
    pub allowed: String,
}

fn place(line: usize, column: Option<usize>) -> String {
    match (line, column) {
        (0, _) => String::new(),
        (line, None) => format!("line {line}: "),
        (line, Some(column)) => format!("line {line}, column {column}: "),
    }
}

impl HistoryError {
    pub(crate) fn new(found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { line: 1, column: None, found: found.into(), allowed: allowed.into() }
    }

    fn missing(name: &str) -> Self {
        Self::new(format!("no `{name}`"), format!("a line with `{name}`"))
    }

    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line = line;
        self
    }
}
