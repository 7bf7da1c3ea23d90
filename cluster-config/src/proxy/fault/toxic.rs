//! The toxics of Toxiproxy: one line each, with the names that its API has for them and what they do here.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::bandwidth::Bandwidth;
use super::small::{Always, CloseAfter, Delay, SlowClose, Timeout};
use super::{Chunk, ConnectionEnding, FaultBehaviour, Slices, Treatment};

/// A type of toxic: its name, and its attributes, which are whole numbers.
#[derive(Debug)]
pub(crate) struct ToxicKind {
    pub(crate) name: &'static str,
    pub(crate) attributes: &'static [&'static str],
    behaviour: fn(&Values<'_>) -> Box<dyn FaultBehaviour>,
}

const fn kind(
    name: &'static str,
    attributes: &'static [&'static str],
    behaviour: fn(&Values<'_>) -> Box<dyn FaultBehaviour>,
) -> ToxicKind {
    ToxicKind { name, attributes, behaviour }
}

pub(crate) static TOXICS: [ToxicKind; 8] = [
    kind("latency", &["latency", "jitter"], |values| {
        let (latency, jitter) = (values.millis(0), values.millis(1));
        Box::new(Delay { latency, jitter })
    }),
    // Thousands of bytes; each connection has a pipe of its own.
    kind("bandwidth", &["rate"], |values| Box::new(Bandwidth::new(values.get(0).saturating_mul(1000), true))),
    kind("slow_close", &["delay"], |values| {
        let delay = values.millis(0);
        Box::new(SlowClose { delay })
    }),
    kind("timeout", &["timeout"], |values| {
        let (after, since) = (values.millis(0), Instant::now());
        Box::new(Timeout { after, since })
    }),
    kind("reset_peer", &["timeout"], |values| {
        Box::new(Always(Treatment::EndsAfter(values.millis(0), ConnectionEnding::Reset)))
    }),
    kind("slicer", &["average_size", "size_variation", "delay"], |values| {
        Box::new(Always(Treatment::Slice(Slices {
            size: values.get(0).max(1) as usize,
            variation: values.get(1) as usize,
            delay: Duration::from_micros(values.get(2).min(LONGEST_MS * 1000)),
        })))
    }),
    kind("limit_data", &["bytes"], |values| {
        let (bytes, passed) = (values.get(0), Mutex::default());
        Box::new(CloseAfter { bytes, passed })
    }),
    kind("noop", &[], |_| Box::new(Always(Treatment::Pass))),
];

/// Values of attributes; those below zero count as zero.
struct Values<'a>(&'a [i64]);

impl Values<'_> {
    fn get(&self, place: usize) -> u64 {
        self.0[place].max(0) as u64
    }

    fn millis(&self, place: usize) -> Duration {
        Duration::from_millis(self.get(place).min(LONGEST_MS))
    }
}

/// A year; longer waits would overflow the clock.
const LONGEST_MS: u64 = 365 * 24 * 3600 * 1000;

impl ToxicKind {
    /// What it does with these values. `toxicity` is the share of the connections that it hits.
    pub(crate) fn fault(&self, values: &[i64], toxicity: f32) -> Box<dyn FaultBehaviour> {
        let fault = (self.behaviour)(&Values(values));
        if toxicity >= 1.0 { fault } else { Box::new(PartialFault { fault, toxicity, salt: rand::random() }) }
    }
}

/// A fault that hits a share of the connections.
#[derive(Debug)]
struct PartialFault {
    fault: Box<dyn FaultBehaviour>,
    toxicity: f32,
    salt: u64,
}

impl PartialFault {
    /// Always the same for one connection, without a list of them.
    fn hits(&self, connection: u64) -> bool {
        // SplitMix64's mixing of a counter (Steele, Lea and Flood, 2014).
        let mut mixed = self.salt.wrapping_add(connection.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((mixed >> 40) as f32) / ((1_u64 << 24) as f32) < self.toxicity
    }
}

impl FaultBehaviour for PartialFault {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.hits(chunk.connection) { self.fault.treat(chunk) } else { Treatment::Pass }
    }

    fn largest_chunk(&self) -> Option<usize> {
        self.fault.largest_chunk()
    }

    fn ends_at(&self, connection: u64, opened: Instant) -> Option<(Instant, ConnectionEnding)> {
        self.fault.ends_at(connection, opened).filter(|_| self.hits(connection))
    }

    fn ends_when_lifted(&self, connection: u64) -> Option<ConnectionEnding> {
        self.fault.ends_when_lifted(connection).filter(|_| self.hits(connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toxicity_is_the_share_of_the_connections() {
        for toxicity in [0.0, 0.3] {
            let fault = TOXICS.iter().find(|kind| kind.name == "timeout").unwrap().fault(&[0], toxicity);
            let hit = |connection: &u64| fault.treat(Chunk::of(&mut [0], *connection)) == Treatment::Lost;
            let hits = (0..10_000).filter(hit).count();
            let expected = 10_000.0 * f64::from(toxicity);
            assert!((hits as f64 - expected).abs() <= 300.0, "{hits}");
            assert_eq!(hits, (0..10_000).filter(hit).count());
        }
    }

    #[test]
    fn no_value_is_too_large_or_too_small() {
        for kind in &TOXICS {
            for value in [i64::MIN, -1, 0, i64::MAX] {
                let fault = kind.fault(&[value; 3], 1.0);
                let mut bytes = [0; 9];
                let chunk = Chunk::of(&mut bytes, 1);
                let read_at = chunk.read_at;
                if let Treatment::Delayed(late) | Treatment::EndsAfter(late, _) = fault.treat(chunk) {
                    assert!(read_at.checked_add(late).is_some());
                }
                let _ = fault.ends_at(1, read_at);
            }
        }
    }
}
