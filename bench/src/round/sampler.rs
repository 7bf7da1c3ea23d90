//! Little's law as a self-check: calls under way on average, as seen, and as reckoned from the latencies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::Figures;

/// Little's law: calls under way on average, looked at from outside and reckoned from the latencies.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Little {
    pub(crate) sampled: f64,
    /// Its standard error, from the means of ten stretches.
    pub(crate) error: f64,
    /// Throughput × mean response time, calls cut by the window's ends with the part inside.
    pub(crate) reckoned: f64,
}

/// Looks each 4 ms how many calls are under way, from a thread: a task would look only when others rest.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<f64>>,
}

impl Sampler {
    pub(super) fn start(figures: Arc<Figures>) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = StretchMeans::default();
            while !stopped.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(4));
                seen.add(figures.states.iter().filter(|s| s.in_call()).count() as f64);
            }
            seen.means()
        });
        Sampler { stop, thread }
    }

    pub(super) fn finish(self) -> Vec<f64> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Means of stretches, of which two become one when there are too many: memory stays bounded.
#[derive(Debug)]
struct StretchMeans {
    per_stretch: u32,
    sums: Vec<f64>,
    open: (f64, u32),
}

impl Default for StretchMeans {
    fn default() -> Self {
        StretchMeans { per_stretch: 1, sums: Vec::new(), open: (0.0, 0) }
    }
}

impl StretchMeans {
    const MOST: usize = 4_096;

    fn add(&mut self, value: f64) {
        self.open.0 += value;
        self.open.1 += 1;
        if self.open.1 == self.per_stretch {
            self.sums.push(self.open.0);
            self.open = (0.0, 0);
        }
        if self.sums.len() == Self::MOST {
            self.sums = self.sums.chunks(2).map(|two| two.iter().sum()).collect();
            self.per_stretch *= 2;
        }
    }

    fn means(&self) -> Vec<f64> {
        let n = f64::from(self.per_stretch);
        self.sums.iter().map(|sum| sum / n).collect()
    }
}

/// Sets what was seen beside what the latencies say.
pub(super) fn little(seen: &[f64], in_calls_ns: u64, window_ns: u64) -> Little {
    const STRETCHES: usize = 10;
    if seen.len() < STRETCHES || window_ns == 0 {
        return Little::default();
    }
    let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
    let sampled = mean(seen);
    let stretches: Vec<f64> = seen.chunks_exact(seen.len() / STRETCHES).map(mean).collect();
    let k = stretches.len() as f64;
    let spread: f64 = stretches.iter().map(|m| (m - sampled).powi(2)).sum();
    Little {
        sampled,
        error: (spread / (k - 1.0) / k).sqrt(),
        reckoned: in_calls_ns as f64 / window_ns as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_keep_their_mean_in_bounded_memory() {
        let mut means = StretchMeans::default();
        for i in 0..100_000 {
            means.add(f64::from(i % 10));
        }
        let kept = means.means();
        assert!(kept.len() < StretchMeans::MOST);
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        assert!((mean - 4.5).abs() < 0.01, "{mean}");
    }

    #[test]
    fn the_two_sides_are_set_beside_each_other() {
        let law = little(&[2.0; 100], 3_000, 1_000);
        assert_eq!((law.sampled, law.error, law.reckoned), (2.0, 0.0, 3.0));
    }
}
