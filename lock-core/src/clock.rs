//! Says what time it is, for everything that this crate times. No other file asks a clock, but for the
//! connections of `topology/shared_connection`, whose patience with a server is a timer's.
//!
//! [`Instant`] goes on while the machine is suspended, as the leases at the servers do. Timers stand still
//! with the machine, so waits here look at the clock each second at least.

use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest sleep between two looks at the clock.
const SLICE: Duration = Duration::from_secs(1);

/// The moment came before the future's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// A moment on a clock that never stands still. As [`std::time::Instant`] in all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Instant(source::now())
    }

    /// Zero for a moment that is still to come.
    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().saturating_duration_since(self)
    }

    /// Zero if `earlier` is later.
    pub(crate) fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Instant)
    }

    pub(crate) fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Instant)
    }

    /// The same moment on the clock of callers and timers: as far from now as this is. It moves closer there
    /// by the time of a suspension; until then the answer is always the same.
    pub(crate) fn std(self) -> std::time::Instant {
        let origin = origin();
        let there = origin.there;
        // A moment that the other clock cannot show is out of reach for everybody.
        let at = match self.0.checked_sub(origin.here.0) {
            Some(later) => there.checked_add(later),
            None => there.checked_sub(origin.here.0 - self.0),
        };
        at.and_then(|at| at.checked_sub(suspended())).unwrap_or(there)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// Completes then; up to a second after the resume if the machine was suspended over it.
pub(crate) async fn sleep_until(at: Instant) {
    loop {
        let left = at - Instant::now();
        if left.is_zero() {
            return;
        }
        slept(left.min(SLICE)).await;
    }
}

/// Why nothing can be waited for here, if so.
pub(crate) fn outside_of_tokio() -> Option<&'static str> {
    // Within a task, which is mostly so, the runtime's own counter is not touched.
    let inside = tokio::task::try_id().is_some() || tokio::runtime::Handle::try_current().is_ok();
    (!inside).then_some(
        "it is polled outside of a Tokio runtime, which its timers and connections need; other executors can enter one by Handle::enter",
    )
}

/// A timer, or outside of a Tokio runtime, which has none, a thread that sleeps.
async fn slept(pause: Duration) {
    if outside_of_tokio().is_none() {
        return tokio::time::sleep(pause).await;
    }
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        std::thread::sleep(pause);
        drop(tell);
    });
    let _ = told.await;
}

/// The future's output, or an error if the moment comes first; as late as [`sleep_until`].
pub(crate) async fn timeout_at<T>(at: Instant, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    loop {
        let left = at - Instant::now();
        let ended = match outside_of_tokio() {
            None => tokio::time::timeout(left.min(SLICE), future.as_mut()).await.map_err(|_| Elapsed),
            Some(_) => tokio::select! {
                biased;
                output = future.as_mut() => Ok(output),
                () = slept(left.min(SLICE)) => Err(Elapsed),
            },
        };
        match ended {
            Err(_) if Instant::now() < at => {}
            ended => return ended,
        }
    }
}

/// One moment on both clocks.
struct Origin {
    there: std::time::Instant,
    here: Instant,
}

impl Origin {
    /// The tightest of several readings: another process may take the core between the two. `here` is read
    /// second, which makes what was converted earlier: a validity ends too early rather than too late.
    fn read() -> Self {
        let readings = (0..16).map(|_| {
            let there = std::time::Instant::now();
            let here = Instant::now();
            (there.elapsed(), Origin { there, here })
        });
        readings.min_by_key(|(apart, _)| *apart).expect("there are some").1
    }
}

fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    ORIGIN.get_or_init(Origin::read)
}

/// For how long the machine was suspended since the first conversion. Less than a millisecond is the time
/// between two readings, so that conversions of a moment agree.
fn suspended() -> Duration {
    static KNOWN_NS: AtomicU64 = AtomicU64::new(0);
    const ROUNDING_NS: u64 = 1_000_000;
    let origin = origin();
    let since = |now: &Origin| {
        let apart = (now.here - origin.here).saturating_sub(now.there - origin.there);
        u64::try_from(apart.as_nanos()).unwrap_or(u64::MAX)
    };
    let there = std::time::Instant::now();
    let here = Instant::now();
    let known_ns = KNOWN_NS.load(Ordering::Relaxed);
    let mut ns = since(&Origin { there, here });
    if ns.abs_diff(known_ns) >= ROUNDING_NS {
        ns = since(&Origin::read());
    }
    if ns.abs_diff(known_ns) < ROUNDING_NS {
        return Duration::from_nanos(known_ns);
    }
    KNOWN_NS.store(ns, Ordering::Relaxed);
    Duration::from_nanos(ns)
}

/// CLOCK_BOOTTIME, which is CLOCK_MONOTONIC and the time of all suspensions.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod source {
    use std::{mem::MaybeUninit, time::Duration};

    /// Added, so that moments before the start of the machine can be named.
    const BEFORE: Duration = Duration::from_secs(1 << 32);

    pub(super) fn now() -> Duration {
        let mut now = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the call writes one `timespec` where it may.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, now.as_mut_ptr()) };
        assert_eq!(done, 0, "the kernel has had this clock since 2.6.39");
        // SAFETY: it was written, since the call succeeded.
        let now = unsafe { now.assume_init() };
        // Neither is negative.
        BEFORE + Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// What the standard library has; whether it stands still in a suspension is the system's business.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod source {
    use std::{
        sync::OnceLock,
        time::{Duration, Instant},
    };

    /// Added, so that moments before the start of the process can be named.
    const BEFORE: Duration = Duration::from_secs(1 << 32);

    pub(super) fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        BEFORE + START.get_or_init(Instant::now).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_converted_to_the_same_instant_each_time() {
        let before = std::time::Instant::now();
        let now = Instant::now();
        let after = std::time::Instant::now();
        let converted = now.std();
        let slack = Duration::from_millis(1);
        assert!(before <= converted + slack && converted <= after + slack);
        for offset in [0, 1, 5_000, 86_400_000].map(Duration::from_millis) {
            assert_eq!((now + offset).std(), converted + offset);
            assert_eq!((now - offset).std(), converted - offset);
        }
    }

    #[tokio::test]
    async fn nothing_that_waits_is_early() {
        let begun = Instant::now();
        let at = begun + Duration::from_millis(1_030);
        assert_eq!(timeout_at(begun, std::future::ready(1)).await, Ok(1));
        assert!(timeout_at(at, std::future::pending::<()>()).await.is_err());
        assert!(Instant::now() >= at);
        let at = Instant::now() + Duration::from_millis(3);
        sleep_until(at).await;
        assert!(Instant::now() >= at);
    }
}
