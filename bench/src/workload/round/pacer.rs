//! Turns a schedule into ticks: a thread of its own that sleeps to each due time and says so, and never skips one.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use super::shared::Shared;
use crate::workload::{
    arrivals::Schedule,
    record::{add, histogram},
};

/// A nap is cut into pieces, so that the end of a round is not slept through.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// What the pacer saw within the window.
pub(crate) struct Offered {
    /// Ticks that were due.
    pub(crate) due: u64,
    /// From the due time to the pacer's waking.
    pub(crate) lag: Histogram<u64>,
}

pub(super) struct Pacer {
    thread: JoinHandle<Offered>,
}

impl Pacer {
    /// Starts the schedule now; `None` in a closed loop.
    pub(super) fn start(shared: &Arc<Shared>) -> Option<Pacer> {
        let ticks = shared.ticks.as_ref()?;
        let pace = shared.load.pace?;
        let began_ns = shared.now_ns();
        ticks.began_ns.store(began_ns, SeqCst);
        let schedule = Schedule::new(pace, shared.load.seed);
        let shared = shared.clone();
        let thread = std::thread::spawn(move || keep(&shared, schedule, began_ns));
        Some(Pacer { thread })
    }

    /// What was offered; the round is over.
    pub(super) fn finish(self) -> Option<Offered> {
        self.thread.join().ok()
    }
}

fn keep(shared: &Shared, schedule: Schedule, began_ns: u64) -> Offered {
    // The kernel may otherwise wake us 50 µs late to save power. Without it lags are a little larger, and are shown.
    let _ = nix::sys::prctl::set_timerslack(1);
    let ticks = shared.ticks.as_ref().expect("an open loop");
    let mut lag = histogram();
    let mut due = 0;
    for after_ns in schedule {
        let due_ns = began_ns + after_ns;
        let at = shared.instant_at(due_ns);
        loop {
            if !shared.running() {
                return Offered { due, lag };
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LONGEST_NAP));
        }
        if shared.within(due_ns) {
            due += 1;
            add(&mut lag, shared.now_ns().saturating_sub(due_ns));
        }
        ticks.due.add_permits(1);
    }
    Offered { due, lag }
}
