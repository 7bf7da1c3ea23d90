//! One history that several machines recorded: brought to a reference's clock and read as one.
//!
//! A part's `clock` lines say what the reference's clock showed. From the best reading of each half second
//! follow straight pieces that turn the part's times into the reference's; how far off a piece may be is half
//! the round trip of its readings, and how far its ends are from where its neighbours point: a clock that was
//! stepped within a piece is not known there.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread;

use itertools::Itertools;

use crate::history::history_file::{self, HistoryFileError};
use crate::history::{Call, End, Entry, Event, Line};

/// The best reading of each such stretch is kept.
const STRETCH_NS: u64 = 500_000_000;
/// Outside all readings a clock may be off by this part of the time: ten times what quartz is.
const UNREAD: u64 = 1_000;
/// Lines of each part that are read ahead at a time.
const AHEAD: usize = 256;

/// Why parts are no one history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// One of them cannot be read.
    #[error(transparent)]
    File(#[from] HistoryFileError),
    /// Nothing says how its clock stands to that of the others.
    #[error("{} has no line that says how its clock stands to the reference's, and {other}", part.display())]
    NoClock {
        /// The part.
        part: PathBuf,
        /// What there is instead.
        other: &'static str,
    },
    /// Two parts speak of one client.
    #[error("client {client} is in both {} and {}", one.display(), other.display())]
    Twice {
        /// Its name.
        client: String,
        /// The one.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
}

/// What the reference's clock showed, and when the answer came by the part's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// When the answer came, by the part's clock.
    pub at_ns: u64,
    /// What it said.
    pub reference_ns: u64,
    /// How long it took.
    pub round_trip_ns: u64,
}

/// How a part's clock stands to the reference's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clock {
    /// Own time, the reference's, how far off that may be; in order of time. Empty: they are one.
    points: Vec<(i128, i128, i128)>,
    /// How far off it may be in any case.
    least_ns: u64,
}

impl Clock {
    /// From readings in order of time. `least_ns`: no less uncertain than that.
    pub fn of(readings: &[Reading], least_ns: u64) -> Self {
        let stretch = |reading: &Reading| reading.at_ns / STRETCH_NS;
        let stretches = readings.chunk_by(|a, b| stretch(a) == stretch(b));
        let best = stretches.filter_map(|of| of.iter().min_by_key(|reading| reading.round_trip_ns));
        let point = |reading: &Reading| {
            let half = i128::from(reading.round_trip_ns / 2);
            (i128::from(reading.at_ns) - half, i128::from(reading.reference_ns), half + 1)
        };
        let mut points: Vec<_> = best.map(point).collect();
        points.dedup_by(|b, a| b.0 <= a.0);
        Clock { points, least_ns }
    }

    /// The reference's time, and how far off that may be.
    pub fn at(&self, t_ns: u64) -> (i128, u64) {
        let (t, points) = (i128::from(t_ns), &self.points);
        let (moment, off) = match points.as_slice() {
            [] => (t, 0),
            [(own, reference, half)] => {
                let away = t - own;
                (reference + away, half + away.abs() / i128::from(UNREAD))
            }
            _ => {
                let piece = points.partition_point(|point| point.0 <= t).clamp(1, points.len() - 1) - 1;
                let (from, to) = (points[piece], points[piece + 1]);
                let away = (from.0 - t).max(t - to.0).max(0);
                (along(from, to, t), from.2.max(to.2) + self.bend(piece) + away / i128::from(UNREAD))
            }
        };
        let off = u64::try_from(off).unwrap_or(u64::MAX);
        (moment, off.max(self.least_ns))
    }

    /// How far a piece's ends are from where the better neighbour points; without one, its whole drift.
    fn bend(&self, piece: usize) -> i128 {
        let (from, to) = (self.points[piece], self.points[piece + 1]);
        let before = piece.checked_sub(1).map(|at| self.points[at]);
        let before = before.map(|before| (along(before, from, to.0) - to.1).abs());
        let after = self.points.get(piece + 2);
        let after = after.map(|after| (along(to, *after, from.0) - from.1).abs());
        before.into_iter().chain(after).min().unwrap_or(((to.1 - from.1) - (to.0 - from.0)).abs())
    }
}

/// The straight line through two points, at a time.
fn along(from: (i128, i128, i128), to: (i128, i128, i128), t: i128) -> i128 {
    from.1 + (t - from.0) * (to.1 - from.1) / (to.0 - from.0)
}

/// A file of a part, and what its first reading said.
#[derive(Debug)]
struct HistoryPart {
    path: PathBuf,
    clients: BTreeSet<String>,
    clock: Clock,
    begins_ns: u64,
}

/// The parts of one history.
#[derive(Debug)]
pub struct Parts {
    parts: Vec<HistoryPart>,
    /// The reference's time at which the whole begins.
    base: i128,
}

impl Parts {
    /// Reads each part once for its clock and its clients, and keeps no line. `declared_ns`: how far apart
    /// their clocks may be at most; without any reading their times are then taken as they stand.
    pub fn open(paths: &[PathBuf], declared_ns: Option<u64>) -> Result<Self, PartsError> {
        let mut parts: Vec<HistoryPart> = Vec::new();
        for path in paths {
            let mut readings = Vec::new();
            let mut clients = BTreeSet::new();
            let mut begins_ns = None;
            history_file::read_lines(path, |line| {
                begins_ns.get_or_insert(line.t_ns);
                match line.entry {
                    Entry::Event(Event::Clock {
                        reference_ns: Some(reference_ns), round_trip_ns, ..
                    }) => readings.push(Reading { at_ns: line.t_ns, reference_ns, round_trip_ns }),
                    Entry::Call { call: Call::Acquire(acquire), .. }
                        if !clients.contains(&acquire.client) =>
                    {
                        clients.insert(acquire.client);
                    }
                    _ => {}
                }
            })?;
            for part in &parts {
                if let Some(client) = part.clients.intersection(&clients).next() {
                    return Err(PartsError::Twice {
                        client: client.clone(),
                        one: part.path.clone(),
                        other: path.clone(),
                    });
                }
            }

            parts.push(HistoryPart {
                path: path.clone(),
                clients,
                clock: Clock::of(&readings, declared_ns.unwrap_or(0)),
                begins_ns: begins_ns.unwrap_or(0),
            });
        }
        let is_read = |part: &&HistoryPart| !part.clock.points.is_empty();
        let other = match (parts.iter().any(|part| is_read(&part)), declared_ns) {
            (true, _) => Some("others have"),
            (false, None) => Some("no uncertainty is declared"),
            (false, Some(_)) => None,
        };
        if let Some((part, other)) = parts.iter().find(|part| !is_read(part)).zip(other) {
            let part = part.path.clone();
            return Err(PartsError::NoClock { part, other });
        }
        let base = parts.iter().map(|part| part.clock.at(part.begins_ns).0).min().unwrap_or(0);
        Ok(Parts { parts, base })
    }

    /// A time of a part, by its place among them, as one of the whole.
    pub fn time(&self, part: usize, t_ns: u64) -> u64 {
        let (moment, _) = self.parts[part].clock.at(t_ns);
        u64::try_from(moment - self.base).unwrap_or(0)
    }

    /// Hands over all lines in order of the reference's time; no more than some of each part are in memory.
    /// Returned is what is to be said of files that end early.
    pub fn read(&self, mut take: impl FnMut(Line)) -> Result<Vec<String>, PartsError> {
        thread::scope(|scope| {
            let mut readers = Vec::new();
            let mut all = Vec::new();
            for (number, part) in (0..).zip(&self.parts) {
                let (give, lines) = sync_channel::<Vec<Line>>(1);
                readers.push(scope.spawn(move || {
                    let mut shift = Shift { of: self, part, number, last_ns: 0, said_ns: None };
                    let mut batch = Vec::with_capacity(AHEAD);
                    let read = history_file::read_lines(&part.path, |line| {
                        batch.extend(shift.lines(line));
                        if batch.len() >= AHEAD {
                            let next = Vec::with_capacity(AHEAD);
                            // Nobody takes any more only where another part failed.
                            let _ = give.send(std::mem::replace(&mut batch, next));
                        }
                    });
                    let _ = give.send(batch);
                    read
                }));
                let lines = lines.into_iter().flatten();
                all.push(lines.map(move |line| ((line.t_ns, number), line)));
            }
            all.into_iter().kmerge_by(|(a, _), (b, _)| a < b).for_each(|(_, line)| take(line));
            let mut warnings = Vec::new();
            for reader in readers {
                let read = reader.join();
                warnings.extend(read.unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(warnings)
        })
    }
}

/// Turns the lines of a part into lines of the whole.
struct Shift<'a> {
    of: &'a Parts,
    part: &'a HistoryPart,
    number: u64,
    /// Times never go back.
    last_ns: u64,
    said_ns: Option<u64>,
}

impl Shift<'_> {
    fn time(&self, t_ns: u64) -> u64 {
        self.of.time(self.number as usize, t_ns)
    }

    fn id(&self, id: u64) -> u64 {
        id.wrapping_mul(self.of.parts.len() as u64).wrapping_add(self.number)
    }

    /// The line as one of the whole; before it what its clock is known to, where that changed.
    fn lines(&mut self, line: Line) -> Vec<Line> {
        let (_, uncertainty_ns) = self.part.clock.at(line.t_ns);
        let mut lines = Vec::with_capacity(1);
        self.last_ns = self.last_ns.max(self.time(line.t_ns));
        let t_ns = self.last_ns;
        // To the microsecond upwards, so that it is not said with each line.
        let uncertainty_ns = uncertainty_ns.div_ceil(1_000) * 1_000;
        if self.said_ns.replace(uncertainty_ns) != Some(uncertainty_ns) {
            let clock = Event::Clock {
                clients: self.part.clients.iter().cloned().collect(),
                uncertainty_ns: Some(uncertainty_ns),
                reference_ns: None,
                round_trip_ns: 0,
            };
            let entry = Entry::Event(clock);
            lines.push(Line { t_ns, entry });
        }
        lines.extend(self.entry(line.entry).map(|entry| Line { t_ns, entry }));
        lines
    }

    fn entry(&self, mut entry: Entry) -> Option<Entry> {
        let named = |grant: &mut String| grant.push_str(&format!("@{}", self.number));
        let moved = |t_ns: &mut Option<u64>| *t_ns = t_ns.map(|t_ns| self.time(t_ns));
        match &mut entry {
            Entry::Call { id, call } => {
                *id = self.id(*id);
                if let Call::Extend { grant, .. } | Call::Release { grant } = call {
                    named(grant);
                }
            }
            Entry::End { id, end } => {
                *id = self.id(*id);
                match end {
                    End::Ok { grant, sent_ns, returned_ns, .. } => {
                        grant.iter_mut().for_each(named);
                        moved(sent_ns);
                        moved(returned_ns);
                    }
                    End::Unknown { grant, .. } => grant.iter_mut().for_each(named),
                    _ => {}
                }
            }
            Entry::Event(event) => match event {
                Event::Lost { grant, at_ns, .. } => {
                    named(grant);
                    moved(at_ns);
                }
                Event::Write { grant, .. } => named(grant),
                Event::Fault { span, .. } => *span = self.id(*span),
                Event::Clock { .. } => return None,
                _ => {}
            },
        }
        Some(entry)
    }
}
