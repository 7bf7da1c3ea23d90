//! The clock of an open loop: a thread that sleeps to each moment at which a cycle is due, and skips none.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Sink, load_state::LoadState};
use crate::workload::arrivals::Schedule;

/// A nap is cut into pieces, so that the end of a load is not slept through.
const LONGEST_NAP: Duration = Duration::from_millis(50);

pub(crate) struct Pacer {
    thread: JoinHandle<()>,
}

impl Pacer {
    /// Starts the schedule now; `None` in a closed loop, and where it was started before.
    pub(crate) fn start(shared: &Arc<LoadState>, sink: Arc<dyn Sink>) -> Option<Pacer> {
        let ticks = shared.ticks.as_ref()?;
        let (phase, schedule) = shared.load.schedule()?;
        let began = Instant::now() + phase;
        ticks.began.set(began).ok()?;
        let shared = shared.clone();
        let thread = std::thread::spawn(move || keep(&shared, sink.as_ref(), schedule, began));
        Some(Pacer { thread })
    }

    /// Waits for the end of the schedule; the load is over.
    pub(crate) fn finish(self) {
        let _ = self.thread.join();
    }
}

fn keep(shared: &LoadState, sink: &dyn Sink, schedule: Schedule, began: Instant) {
    // The kernel may otherwise wake us 50 µs late to save power; without it lags are larger, and shown.
    let _ = nix::sys::prctl::set_timerslack(1);
    let ticks = shared.ticks.as_ref().expect("an open loop");
    for after_ns in schedule {
        let at = began + Duration::from_nanos(after_ns);
        loop {
            if !shared.running() {
                return;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LONGEST_NAP));
        }
        sink.due(at);
        ticks.due.add_permits(1);
    }
}
