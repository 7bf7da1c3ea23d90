//! How this machine's clock stands to that of a server: asked again and again, since clocks drift.

use std::time::{Duration, Instant};

use results::history::{Entry, Event, Line};

use crate::links::{CommandError, Links};
use crate::monotonic;
use crate::subject::SubjectError;

/// A moment of a server's clock, asked for by one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime<T> {
    /// When it was asked, by our clock.
    pub sent: T,
    /// When the answer came.
    pub answered: T,
    /// What the server's clock showed in between, nanoseconds since 1970.
    pub reference_ns: u64,
}

impl Links {
    /// The clock of the server that has `key`, beside `now`.
    pub(crate) async fn time<T>(
        &self,
        key: &str,
        now: impl Fn() -> T,
    ) -> Result<ServerTime<T>, CommandError> {
        let time = redis::cmd("TIME");
        let sent = now();
        let (s, us): (u64, u64) = self.query(key, &time).await?;
        Ok(ServerTime { sent, answered: now(), reference_ns: (s * 1_000_000 + us) * 1_000 })
    }
}

/// A server whose clock others are set beside: one that no fault touches.
pub struct Reference {
    links: Links,
}

impl Reference {
    /// The first server of a target, its master where it has one. Connects to nothing yet.
    pub fn of(target: &str) -> Result<Self, SubjectError> {
        let links = Links::parse(target, Duration::from_secs(2))?;
        Ok(Reference { links })
    }

    /// Asks it once, by whichever clock of ours.
    pub async fn ask<T>(&self, now: impl Fn() -> T) -> Result<ServerTime<T>, SubjectError> {
        self.links.time("", now).await.map_err(|trouble| SubjectError::unreachable(trouble.to_string()))
    }

    /// Asks it once, as a line of a history whose times are those of `CLOCK_MONOTONIC`.
    pub async fn line(&self) -> Result<Line, SubjectError> {
        let asked = self.ask(Instant::now).await?;
        let round_trip = asked.answered - asked.sent;
        Ok(Line {
            t_ns: monotonic::ns(asked.answered).unwrap_or_default(),
            entry: Entry::Event(Event::Clock {
                reference_ns: Some(asked.reference_ns),
                round_trip_ns: u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX),
                clients: Vec::new(),
                uncertainty_ns: None,
            }),
        })
    }
}
