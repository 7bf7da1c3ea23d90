//! Stalls of the harness: when its own process got no processor although it was due. What was timed around
//! them is longer than the lock made it, and what clients said meanwhile was written down later than they
//! said it. The machine's clock is watched too, since servers end leases by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{array, fs};

use bench::sink::Sink;
use cluster_config::{process_state, ran_and_waited_ns};
use nix::unistd::gettid;
use results::history::{Entry, Event};
use results::units;

use crate::faults::ClientControl;

const EVERY: Duration = Duration::from_millis(5);
/// Clients are looked at every so many times, since each costs a read.
const CLIENTS_EVERY: usize = 4;
/// What is kept from this process is asked for less often: on a large machine that takes a while.
const DENIED_EVERY: usize = 20;
/// A watch that comes so much too late has seen a stall: far above what timers and a busy scheduler add.
const STALL: Duration = Duration::from_millis(100);

/// From here on a stall is written into the history: a little above what timers and a busy scheduler add.
const WRITTEN: Duration = Duration::from_millis(20);

/// The machine's clock was set if it moved by so much more or less than the monotonic one between two looks.
const STEP_NS: i64 = 20_000_000;

/// How far the machine's clock is ahead of the monotonic one since `began`, in nanoseconds; `None` where this
/// thread lost its processor between the two.
fn clock_ahead_ns(began: Instant) -> Option<i64> {
    let before = began.elapsed();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let after = began.elapsed();
    let ns = |length: Duration| i64::try_from(length.as_nanos()).ok();
    (after - before < Duration::from_millis(1)).then_some(ns(wall)? - ns(after)?)
}

/// For how long this thread was ready to run without a processor, and a hypervisor kept processors from this
/// machine, in nanoseconds so far; `None` where the system does not say.
type DeniedNs = [Option<u64>; 2];

fn denied_ns() -> DeniedNs {
    let waited = ran_and_waited_ns(gettid().as_raw().unsigned_abs()).map(|(_, waited_ns)| waited_ns);
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    // Ticks are hundredths of a second.
    [waited, stolen.map(|ticks| ticks * 10_000_000)]
}

/// A watch over this process, on a thread of its own.
pub(super) struct Stalls {
    over: Arc<AtomicBool>,
    watch: JoinHandle<Vec<(Duration, Duration, DeniedNs)>>,
}

impl Stalls {
    /// Writes each stall into the history, also those of clients' processes that are stopped by a signal.
    pub(super) fn watch(sink: Arc<dyn Sink>, clients: Arc<dyn ClientControl>) -> Self {
        let pids = move || (1..=clients.count()).filter_map(|n| Some((n, clients.pid(n)?))).collect();
        Self::by(thread::sleep, clock_ahead_ns, pids, sink)
    }

    fn by(
        sleep: impl Fn(Duration) + Send + 'static,
        clock_ahead_ns: impl Fn(Instant) -> Option<i64> + Send + 'static,
        clients: impl Fn() -> Vec<(u32, u32)> + Send + 'static,
        sink: Arc<dyn Sink>,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let watch = thread::spawn(move || {
            let (began, mut stalls) = (Instant::now(), Vec::new());
            // Clients that are stopped, and since when.
            let mut stopped = BTreeMap::new();
            let mut before = denied_ns();
            let mut ahead_ns = None;
            let write = |lasted: Duration, client: Option<u32>, denied: DeniedNs, clock_step_ns| {
                let [run_queue_ns, steal_ns] = denied;
                sink.record(Entry::Event(Event::Stall {
                    lasted_ns: lasted.as_nanos() as u64,
                    client: client.map(|number| format!("c{number}")),
                    run_queue_ns,
                    steal_ns,
                    clock_step_ns,
                }));
            };
            for turn in 0.. {
                if ended.load(Relaxed) {
                    break;
                }
                let asleep = Instant::now();
                sleep(EVERY);
                let late = asleep.elapsed().saturating_sub(EVERY);
                let mut denied = [None; 2];
                if late > WRITTEN || turn % DENIED_EVERY == 0 {
                    let now = denied_ns();
                    denied = array::from_fn(|at| Some(now[at]?.saturating_sub(before[at]?)));
                    before = now;
                }
                let now_ahead_ns = clock_ahead_ns(began);
                let step_ns =
                    now_ahead_ns.zip(ahead_ns).map(|(now_ns, before_ns): (i64, i64)| now_ns - before_ns);
                let step_ns = step_ns.filter(|step_ns| step_ns.abs() >= STEP_NS);
                ahead_ns = now_ahead_ns.or(ahead_ns);
                if late > WRITTEN || step_ns.is_some() {
                    write(EVERY + late, None, denied, step_ns);
                }
                let looks = turn % CLIENTS_EVERY == 0;
                for (client, pid) in looks.then(&clients).unwrap_or_default() {
                    // By a signal, or by a debugger.
                    if matches!(process_state(pid), Some('T' | 't')) {
                        stopped.entry(client).or_insert(asleep);
                    } else if let Some(since) = stopped.remove(&client) {
                        write(since.elapsed(), Some(client), [None; 2], None);
                    }
                }
                if late > STALL {
                    stalls.push((asleep - began, late, denied));
                }
            }
            for (client, since) in stopped {
                write(since.elapsed(), Some(client), [None; 2], None);
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

fn note(stalls: &[(Duration, Duration, DeniedNs)]) -> Option<String> {
    let (at, longest, [run_queue_ns, steal_ns]) = stalls.iter().max_by_key(|(_, late, _)| *late)?;
    let words = |length: &Duration| units::duration(length.as_nanos() as u64);
    let of = |what: &str, ns: Option<u64>| {
        ns.map_or(String::new(), |ns| format!(", {what} {}", units::duration(ns)))
    };
    Some(format!(
        "the harness itself stood still {} {} for more than {}, at the longest {} ({} after the load began{}{}): waits, hand-offs and recoveries \
         around that contain it",
        stalls.len(),
        units::plural(stalls.len(), "time"),
        words(&STALL),
        words(longest),
        words(at),
        of("ready to run for", *run_queue_ns),
        of("kept from the machine by its hypervisor", *steal_ns),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicI64;

    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<Entry>>);

    impl Sink for Lines {
        fn record(&self, entry: Entry) -> u64 {
            self.0.lock().expect("not poisoned").push(entry);
            0
        }

        fn ns(&self, _: Instant) -> u64 {
            0
        }
    }

    #[test]
    fn a_run_without_a_stall_says_nothing_and_another_names_the_longest() {
        assert_eq!(note(&[]), None);
        let ms = Duration::from_millis;
        let denied = [Some(440_000_000), None];
        let all = [(ms(200), ms(120)), (ms(900), ms(450)), (ms(1500), ms(110))];
        let said = note(&all.map(|(at, late)| (at, late, denied))).unwrap();
        assert!(said.contains("3 times") && said.contains("450 ms (900 ms after"), "{said}");
        assert!(said.contains("began, ready to run for 440 ms)"), "{said}");
    }

    #[test]
    fn a_watch_that_comes_too_late_has_seen_a_stall() {
        let (lines, late) = (Arc::new(Lines::default()), AtomicBool::new(true));
        let sink = lines.clone();
        let stalls = Stalls::by(
            move |length| {
                thread::sleep(if late.swap(false, Relaxed) { 4 * STALL } else { length });
            },
            |_| None,
            Vec::new,
            sink,
        );
        thread::sleep(6 * STALL);
        let said = stalls.finish().expect("a stall of 395 ms");
        assert!(said.contains("stood still"), "{said}");
        let lines = lines.0.lock().expect("not poisoned");
        let stalled = 4 * STALL.as_nanos() as u64;
        assert!(
            matches!(&lines[0], Entry::Event(Event::Stall { lasted_ns, client: None, .. }) if *lasted_ns >= stalled),
            "{lines:?}"
        );
    }

    #[test]
    fn a_clock_that_is_set_is_written_down() {
        let (lines, clock) = (Arc::new(Lines::default()), Arc::new([AtomicI64::new(0), AtomicI64::new(0)]));
        let (sink, seen) = (lines.clone(), clock.clone());
        let look = move |_| {
            let [ahead_ns, looks] = &*seen;
            looks.fetch_add(1, Relaxed);
            Some(ahead_ns.load(Relaxed))
        };
        let stalls = Stalls::by(thread::sleep, look, Vec::new, sink);
        let steps = || {
            let lines = lines.0.lock().expect("not poisoned");
            let steps = lines.iter().filter_map(|line| match line {
                Entry::Event(Event::Stall { clock_step_ns, .. }) => *clock_step_ns,
                _ => None,
            });
            steps.collect::<Vec<_>>()
        };
        // A slow adjustment is none.
        let [ahead_ns, looks] = &*clock;
        for now_ns in [0, 5_000_000, 9_000_000_000, 8_000_000_000] {
            ahead_ns.store(now_ns, Relaxed);
            let before = looks.load(Relaxed);
            while looks.load(Relaxed) < before + 2 {
                thread::sleep(EVERY);
            }
        }
        stalls.finish();
        assert_eq!(steps(), [8_995_000_000, -1_000_000_000]);
    }
}
