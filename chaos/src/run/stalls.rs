//! Stalls of the harness: when its own process got no processor although it was due. What was timed around them is longer than the lock
//! made it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use results::units;

const EVERY: Duration = Duration::from_millis(5);
/// A watch that comes so much too late has seen a stall: far above what timers and a busy scheduler add.
const STALL: Duration = Duration::from_millis(100);

/// A watch over this process, on a thread of its own.
pub(super) struct Stalls {
    over: Arc<AtomicBool>,
    watch: JoinHandle<Vec<(Duration, Duration)>>,
}

impl Stalls {
    pub(super) fn watch() -> Self {
        Self::by(thread::sleep)
    }

    fn by(sleep: impl Fn(Duration) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let watch = thread::spawn(move || {
            let (began, mut stalls) = (Instant::now(), Vec::new());
            while !ended.load(Relaxed) {
                let asleep = Instant::now();
                sleep(EVERY);
                let late = asleep.elapsed().saturating_sub(EVERY);
                if late > STALL {
                    stalls.push((asleep - began, late));
                }
            }
            stalls
        });
        Stalls { over, watch }
    }

    /// What is to be said of a run in which there were any.
    pub(super) fn finish(self) -> Option<String> {
        self.over.store(true, Relaxed);
        note(&self.watch.join().ok()?)
    }
}

fn note(stalls: &[(Duration, Duration)]) -> Option<String> {
    let (at, longest) = stalls.iter().max_by_key(|(_, late)| *late)?;
    let words = |length: &Duration| units::duration(length.as_nanos() as u64);
    Some(format!(
        "the harness itself stood still {} {} for more than {}, at the longest {} ({} after the load began): waits, hand-offs and recoveries around \
         that contain it",
        stalls.len(),
        units::plural(stalls.len(), "time"),
        words(&STALL),
        words(longest),
        words(at),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_stall_says_nothing_and_another_names_the_longest() {
        assert_eq!(note(&[]), None);
        let ms = Duration::from_millis;
        let said = note(&[(ms(200), ms(120)), (ms(900), ms(450)), (ms(1500), ms(110))]).unwrap();
        assert!(
            said.contains("3 times") && said.contains("450 ms (900 ms after"),
            "{said}"
        );
    }

    #[test]
    fn a_watch_that_comes_too_late_has_seen_a_stall() {
        let late = AtomicBool::new(true);
        let stalls = Stalls::by(move |length| {
            let stalled = late.swap(false, Relaxed);
            thread::sleep(if stalled { 4 * STALL } else { length });
        });
        thread::sleep(6 * STALL);
        let said = stalls.finish().expect("a stall of 395 ms");
        assert!(said.contains("stood still"), "{said}");
    }
}
