//! Stamps the lines of one history: the only clock and the only writer of a scenario.

use std::{sync::OnceLock, time::Instant};

use results::history::{Entry, Event};
use results::history_writer::HistoryWriter;

use crate::parts::clock::ServerTime;

/// Where load and nemesis write down what happens.
pub trait Sink: Send + Sync + 'static {
    /// Stamps an entry and keeps it, so that it survives the death of this process; gives the stamp.
    fn record(&self, entry: Entry) -> u64;

    /// An instant on the sink's clock: nanoseconds since the run began; 0 for anything earlier.
    fn ns(&self, at: Instant) -> u64;
}

/// A sink that appends to a history file.
#[derive(Debug)]
pub struct HistorySink {
    writer: HistoryWriter,
    origin: Instant,
    failed: OnceLock<String>,
}

impl HistorySink {
    /// Begins now: `t_ns` 0 is the moment of this call.
    pub fn new(writer: HistoryWriter) -> Self {
        HistorySink { writer, origin: Instant::now(), failed: OnceLock::new() }
    }

    /// Syncs the file. An error: the history is incomplete, so that no verdict over it can be clean.
    pub fn finish(&self) -> Result<u64, String> {
        if let Some(why) = self.failed.get() {
            return Err(why.clone());
        }
        self.writer.finish().map_err(|error| error.to_string())?;
        Ok(self.writer.lines())
    }

    /// Writes down what a reference's clock showed. The round trip ends with the stamp, so that what the line
    /// waited for is a part of it.
    pub fn clock(&self, asked: ServerTime<Instant>) {
        let sent_ns = self.ns(asked.sent);
        self.append(|t_ns| {
            Entry::Event(Event::Clock {
                reference_ns: Some(asked.reference_ns),
                round_trip_ns: t_ns.saturating_sub(sent_ns),
                clients: Vec::new(),
                uncertainty_ns: None,
            })
        });
    }

    fn append(&self, entry: impl FnOnce(u64) -> Entry) -> u64 {
        let now = || self.ns(Instant::now());
        self.writer.append_with(now, entry).unwrap_or_else(|error| {
            let _ = self.failed.set(error.to_string());
            now()
        })
    }
}

impl Sink for HistorySink {
    fn record(&self, entry: Entry) -> u64 {
        self.append(|_| entry)
    }

    fn ns(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}
