//! Bandwidth: turns the bytes before it into the moment at which a chunk's last byte would have come through
//! a thin pipe.

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
        let tenth = usize::try_from(self.bytes_per_s / 10);
        Some(tenth.unwrap_or(usize::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lateness(pipe: &Bandwidth) -> Vec<Duration> {
        let read_at = Instant::now();
        let late = |connection| {
            let mut bytes = [0; 100];
            let chunk = Chunk { read_at, ..Chunk::of(&mut bytes, connection) };
            match pipe.treat(chunk) {
                Treatment::Delayed(late) => late,
                other => panic!("{other:?}"),
            }
        };
        [1, 2, 1].map(late).into()
    }

    #[test]
    fn chunks_queue_up_behind_each_other() {
        let millis = Duration::from_millis;
        let shared = lateness(&Bandwidth::new(1000, false));
        assert_eq!(shared, [millis(100), millis(200), millis(300)]);
        let apart = lateness(&Bandwidth::new(1000, true));
        assert_eq!(apart, [millis(100), millis(100), millis(200)]);
    }
}
