//! Turns a toxic's type, attributes and toxicity into a fault: one line per type of Toxiproxy.

use std::time::Duration;

use tokio::time::Instant;

use super::slice::Slices;
use super::{Chunk, Ending, FaultBehaviour, Treatment};
use super::{bandwidth, close_after, delay, reset_peer, slice, slow_close, timeout};

/// What a toxic does to the connections that it hits.
#[derive(Debug)]
pub(crate) struct ToxicFault(pub(in crate::proxy) Box<dyn FaultBehaviour>);

impl ToxicFault {
    /// The fault of a type, its attributes in the order in which Toxiproxy prints them. `toxicity` is the share of the connections
    /// that it hits. Nothing for `noop` and for types that nobody knows. Values below zero count as zero.
    pub(crate) fn of(kind: &str, values: &[i64], toxicity: f32) -> Option<ToxicFault> {
        let value = |place: usize| values.get(place).copied().unwrap_or(0).max(0) as u64;
        let millis = |place| Duration::from_millis(value(place).min(LONGEST_MS));
        let fault: Box<dyn FaultBehaviour> = match kind {
            "latency" => Box::new(delay::Delay {
                latency: millis(0),
                jitter: millis(1),
            }),
            // Thousands of bytes; each connection has a pipe of its own.
            "bandwidth" => Box::new(bandwidth::Bandwidth::per_connection(
                value(0).saturating_mul(1000),
            )),
            "slow_close" => Box::new(slow_close::SlowClose { delay: millis(0) }),
            "timeout" => Box::new(timeout::Timeout::new(millis(0))),
            "reset_peer" => Box::new(reset_peer::ResetPeer { after: millis(0) }),
            "slicer" => Box::new(slice::Slice(Slices {
                size: value(0).max(1) as usize,
                variation: value(1) as usize,
                delay: Duration::from_micros(value(2).min(LONGEST_MS * 1000)),
            })),
            "limit_data" => Box::new(close_after::CloseAfter::new(value(0))),
            _ => return None,
        };
        if toxicity >= 1.0 {
            return Some(ToxicFault(fault));
        }
        Some(ToxicFault(Box::new(Partial {
            fault,
            toxicity,
            salt: rand::random(),
        })))
    }
}

/// A year; longer waits would overflow the clock.
const LONGEST_MS: u64 = 365 * 24 * 3600 * 1000;

/// A fault that hits a share of the connections.
#[derive(Debug)]
struct Partial {
    fault: Box<dyn FaultBehaviour>,
    toxicity: f32,
    salt: u64,
}

impl Partial {
    /// Always the same for one connection, without a list of them.
    fn hits(&self, connection: u64) -> bool {
        // SplitMix64's mixing of a counter (Steele, Lea and Flood, 2014).
        let mut mixed = self
            .salt
            .wrapping_add(connection.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((mixed >> 40) as f32) / ((1_u64 << 24) as f32) < self.toxicity
    }
}

impl FaultBehaviour for Partial {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.hits(chunk.connection) {
            self.fault.treat(chunk)
        } else {
            Treatment::Pass
        }
    }

    fn piece(&self) -> Option<usize> {
        self.fault.piece()
    }

    fn ends_at(&self, connection: u64, opened: Instant) -> Option<(Instant, Ending)> {
        self.fault
            .ends_at(connection, opened)
            .filter(|_| self.hits(connection))
    }

    fn ends_when_lifted(&self, connection: u64) -> Option<Ending> {
        self.fault
            .ends_when_lifted(connection)
            .filter(|_| self.hits(connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toxicity_is_the_share_of_the_connections() {
        for toxicity in [0.0, 0.3] {
            let ToxicFault(fault) = ToxicFault::of("timeout", &[0], toxicity).unwrap();
            let hit =
                |connection: &u64| fault.treat(Chunk::of(&mut [0], *connection)) == Treatment::Lost;
            let hits = (0..10_000).filter(hit).count();
            let expected = 10_000.0 * f64::from(toxicity);
            assert!((hits as f64 - expected).abs() <= 300.0, "{hits}");
            assert_eq!(hits, (0..10_000).filter(hit).count());
        }
    }

    #[test]
    fn no_value_is_too_large_or_too_small() {
        for kind in [
            "latency",
            "bandwidth",
            "slow_close",
            "timeout",
            "reset_peer",
            "slicer",
            "limit_data",
        ] {
            for value in [i64::MIN, -1, 0, i64::MAX] {
                let ToxicFault(fault) = ToxicFault::of(kind, &[value; 3], 1.0).unwrap();
                let mut bytes = [0; 9];
                let chunk = Chunk::of(&mut bytes, 1);
                let read_at = chunk.read_at;
                if let Treatment::Late(late) | Treatment::EndsAfter(late, _) = fault.treat(chunk) {
                    assert!(read_at.checked_add(late).is_some());
                }
                let _ = fault.ends_at(1, read_at);
            }
        }
    }
}
