//! Bandwidth: turns the bytes before it into the moment at which a chunk's last byte would have come through a thin pipe.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::{Chunk, Harm, Treatment};

#[derive(Debug)]
pub(super) struct Bandwidth {
    bytes_per_s: u64,
    /// When the pipe has nothing more to carry; connections of the link share it.
    idle_from: Mutex<Option<Instant>>,
}

impl Bandwidth {
    pub(super) fn new(bytes_per_s: u64) -> Bandwidth {
        Bandwidth {
            bytes_per_s,
            idle_from: Mutex::default(),
        }
    }
}

impl Harm for Bandwidth {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.bytes_per_s == 0 {
            return Treatment::Hold;
        }
        let takes = Duration::from_secs_f64(chunk.bytes.len() as f64 / self.bytes_per_s as f64);
        let mut idle_from = self.idle_from.lock().unwrap();
        let start = idle_from.map_or(chunk.read_at, |idle| idle.max(chunk.read_at));
        *idle_from = Some(start + takes);
        Treatment::Late(start + takes - chunk.read_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_queue_up_behind_each_other() {
        let pipe = Bandwidth::new(1000);
        let read_at = Instant::now();
        let treat = |connection| {
            pipe.treat(Chunk {
                bytes: &mut [0; 100],
                read_at,
                connection,
                meant: false,
            })
        };
        assert_eq!(treat(1), Treatment::Late(Duration::from_millis(100)));
        assert_eq!(treat(2), Treatment::Late(Duration::from_millis(200)));
    }
}
