//! What is going on at this moment, for who looks at a terminal. Nothing is counted unless somebody does.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use results::units;

use crate::driver_loop::{LoadReport, quantile};
use crate::per_thread::PerThread;

const WINDOW: Duration = Duration::from_secs(1);
/// As many waits of one thread are kept in a window; a rate beyond is not shown as higher.
const KEPT: usize = 1 << 20;

static WATCHED: AtomicBool = AtomicBool::new(false);
static WAITS: LazyLock<PerThread<Vec<u64>, 16>> = LazyLock::new(PerThread::default);
static RUNNING: Mutex<Vec<String>> = Mutex::new(Vec::new());
static SHOWN: LazyLock<Mutex<(Instant, String)>> =
    LazyLock::new(|| Mutex::new((Instant::now(), String::new())));

fn running() -> MutexGuard<'static, Vec<String>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on grants are counted.
pub fn watch() {
    WATCHED.store(true, Relaxed);
}

pub(crate) fn granted(called: Instant, granted: Instant) {
    if WATCHED.load(Relaxed) {
        let mut waits = WAITS.own().1;
        if waits.len() < KEPT {
            waits.push(granted.saturating_duration_since(called).as_nanos() as u64);
        }
    }
}

/// What a driver's own loop says when its round is over; shown for as long as the next round lasts.
pub(crate) fn round_over(report: &LoadReport, lasts: Duration) {
    let p99 = quantile(&report.acquire, 0.99);
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) =
        (Instant::now() + lasts, figures(report.cycles_per_s(), p99));
}

fn figures(rate: f64, p99: Option<u64>) -> String {
    let figures = p99.map(|p99| {
        let (rate, p99) = (units::figure(rate), units::duration(p99));
        format!("{rate} grants/s, p99 {p99}  ")
    });
    figures.unwrap_or_default()
}

/// A scenario that is under way until this is dropped.
#[derive(Debug)]
pub struct Running(String);

impl Running {
    /// From now on.
    pub fn new(name: &str) -> Self {
        running().push(name.to_owned());
        Self(name.to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = running();
        if let Some(at) = running.iter().position(|name| *name == self.0) {
            running.remove(at);
        }
    }
}

/// The grants of the last second and the p99 of their waits, the scenario that began first of those under
/// way, and how many others there are; each part is followed by two spaces.
pub fn shown() -> String {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = shown.0.elapsed();
    if seconds >= WINDOW {
        let mut waits: Vec<u64> = Vec::new();
        WAITS.parts().for_each(|mut part| waits.append(&mut part));
        waits.sort_unstable();
        let rate = waits.len() as f64 / seconds.as_secs_f64();
        *shown = (Instant::now(), figures(rate, waits.get(waits.len() * 99 / 100).copied()));
    }
    let running = running();
    let scenario = match running.as_slice() {
        [] => String::new(),
        [only] => format!("{only}  "),
        [first, others @ ..] => format!("{first} and {} more  ", others.len()),
    };
    format!("{}{scenario}", shown.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_counted_while_somebody_watches_and_scenarios_while_they_run() {
        let called = Instant::now();
        granted(called, called);
        watch();
        for ms in 1..=200 {
            granted(called, called + Duration::from_millis(ms));
        }
        SHOWN.lock().unwrap().0 = called.checked_sub(2 * WINDOW).unwrap();
        let (first, second) = (Running::new("failover"), Running::new("pause"));
        let words = shown();
        assert!(words.contains("grants/s, p99 199 ms  failover and 1 more  "), "{words}");
        drop(first);
        assert!(shown().ends_with("199 ms  pause  "), "the figures stand for a second");
        drop(second);
        SHOWN.lock().unwrap().0 = called.checked_sub(2 * WINDOW).unwrap();
        assert_eq!(shown(), "");
    }
}
