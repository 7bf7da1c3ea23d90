//! Bandwidth: turns the bytes before it into the moment at which a thin pipe would have passed a chunk.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::{Chunk, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct Bandwidth {
    bytes_per_s: u64,
    per_connection: bool,
    /// When each pipe has nothing more to carry.
    idle_from: Mutex<BTreeMap<u64, Instant>>,
}

impl Bandwidth {
    /// Connections of the link share one pipe, unless each has its own.
    pub(super) fn new(bytes_per_s: u64, per_connection: bool) -> Bandwidth {
        Bandwidth { bytes_per_s, per_connection, idle_from: Mutex::default() }
    }
}

impl FaultBehaviour for Bandwidth {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.bytes_per_s == 0 {
            return Treatment::Hold;
        }
        let takes = Duration::from_secs_f64(chunk.bytes.len() as f64 / self.bytes_per_s as f64);
        let pipe = if self.per_connection { chunk.connection } else { 0 };
        let mut idle_from = self.idle_from.lock().unwrap();
        let idle = idle_from.get(&pipe);
        let start = idle.map_or(chunk.read_at, |idle| (*idle).max(chunk.read_at));
        if chunk.is_end {
            idle_from.remove(&pipe);
        } else {
            idle_from.insert(pipe, start + takes);
        }
        Treatment::Delayed(start + takes - chunk.read_at)
    }

    /// A tenth of a second's worth: a long chunk trickles, and does not come whole when its last byte would.
    fn largest_chunk(&self) -> Option<usize> {
        Some(usize::try_from(self.bytes_per_s / 10).unwrap_or(usize::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lateness(pipe: &Bandwidth) -> Vec<Duration> {
        let read_at = Instant::now();
        let late = |connection| {
            let mut bytes = [0; 100];
            match pipe.treat(Chunk { read_at, ..Chunk::of(&mut bytes, connection) }) {
                Treatment::Delayed(late) => late,
                other => panic!("{other:?}"),
            }
        };
        [1, 2, 1].map(late).into()
    }

    #[test]
    fn chunks_queue_up_behind_each_other() {
        let millis = Duration::from_millis;
        assert_eq!(lateness(&Bandwidth::new(1000, false)), [millis(100), millis(200), millis(300)]);
        assert_eq!(lateness(&Bandwidth::new(1000, true)), [millis(100), millis(100), millis(200)]);
    }
}
