//! Wakes up within some tens of microseconds of a moment, never before it.
//!
//! The runtime's own timers count in whole milliseconds and round up: half a round trip of 0.2 ms would
//! become 1 ms. The kernel's timer descriptors count in nanoseconds and cost no CPU while they wait.

use tokio::time::{Instant, sleep_until};

/// A timer, set again for every wait. Where no descriptor can be had, the runtime's timer serves.
#[derive(Default)]
pub(super) struct FineTimer {
    #[cfg(target_os = "linux")]
    descriptor: Option<descriptor::Descriptor>,
}

impl FineTimer {
    /// Returns at `due` or later. May be given up and begun anew.
    #[cfg(target_os = "linux")]
    pub(super) async fn until(&mut self, due: Instant) {
        if self.descriptor.is_none() {
            self.descriptor = descriptor::Descriptor::new().ok();
        }
        let waited = match &self.descriptor {
            Some(descriptor) => descriptor.until(due).await,
            None => Ok(()),
        };
        // Returns at once unless the descriptor failed.
        if waited.is_err() || Instant::now() < due {
            sleep_until(due).await;
        }
    }

    /// Returns at `due` or up to a millisecond later.
    #[cfg(not(target_os = "linux"))]
    pub(super) async fn until(&mut self, due: Instant) {
        sleep_until(due).await;
    }
}

#[cfg(target_os = "linux")]
mod descriptor {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, RawFd};

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    /// The runtime asks for the number of a descriptor, which nix does not give by itself.
    struct Timer(TimerFd);

    impl AsRawFd for Timer {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    pub(super) struct Descriptor(AsyncFd<Timer>);

    impl Descriptor {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
            // SAFETY: the number is that of the timer's own descriptor: it stays open until both are dropped.
            let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
            Ok(Descriptor(registered?))
        }

        pub(super) async fn until(&self, due: Instant) -> io::Result<()> {
            loop {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(());
                }
                let once = Expiration::OneShot(TimeSpec::from_duration(left));
                self.0.get_ref().0.set(once, TimerSetTimeFlags::empty())?;
                // A wait given up may have left the descriptor ready: reading finds nothing, and waits on.
                loop {
                    let mut ready = self.0.readable().await?;
                    match ready.try_io(|timer| Ok(timer.get_ref().0.wait()?)) {
                        Ok(expired) => break expired?,
                        Err(_would_block) => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn short_waits_are_shorter_than_the_runtimes_and_never_too_short() {
        let asked = Duration::from_micros(100);
        let mut timer = FineTimer::default();
        let (mut fine, mut coarse) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let began = Instant::now();
            timer.until(began + asked).await;
            fine.push(began.elapsed());
            let began = Instant::now();
            sleep_until(began + asked).await;
            coarse.push(began.elapsed());
        }
        assert!(fine.iter().all(|waited| *waited >= asked), "{fine:?}");
        fine.sort_unstable();
        coarse.sort_unstable();
        // By turns, so that whatever else the machine does delays both alike.
        if cfg!(target_os = "linux") {
            assert!(fine[50] < coarse[50], "{:?}, {:?}", fine[50], coarse[50]);
        }
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_does_not_shorten_the_next() {
        let mut timer = FineTimer::default();
        for _ in 0..20 {
            tokio::select! {
                biased;
                () = timer.until(Instant::now() + Duration::from_micros(50)) => {}
                () = std::future::ready(()) => {}
            }
            // Let it run out behind our back.
            std::thread::sleep(Duration::from_micros(100));
            let began = Instant::now();
            timer.until(began + Duration::from_millis(2)).await;
            assert!(began.elapsed() >= Duration::from_millis(2));
        }
    }
}
