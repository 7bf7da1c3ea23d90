//! Instants as nanoseconds of the machine's monotonic clock: so one process can tell another when it was.
//!
//! All processes of a machine read the same `CLOCK_MONOTONIC`, so such a stamp does not age on its way
//! through a pipe. Both directions err to the early side, by the time between two readings of the clock (well
//! below a microsecond): a lease that is counted from too early a moment makes a hold shorter, which can hide
//! but never invent an overlap.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// One moment on both clocks: `ns` was read between the two instants.
#[derive(Clone, Copy)]
struct ClockReading {
    before: Instant,
    ns: u64,
    after: Instant,
}

/// Nanoseconds of `CLOCK_MONOTONIC` at an instant; `None` where the machine has no such clock.
pub(crate) fn ns(at: Instant) -> Option<u64> {
    let moment = moment()?;
    let apart = |duration: Duration| u64::try_from(duration.as_nanos()).ok();
    match at.checked_duration_since(moment.after) {
        Some(later) => moment.ns.checked_add(apart(later)?),
        None => moment.ns.checked_sub(apart(moment.after - at)?),
    }
}

/// The instant of such a stamp; `None` for one that this machine's clock cannot have shown.
pub(crate) fn instant(ns: u64) -> Option<Instant> {
    let moment = moment()?;
    if ns >= moment.ns {
        moment.before.checked_add(Duration::from_nanos(ns - moment.ns))
    } else {
        moment.before.checked_sub(Duration::from_nanos(moment.ns - ns))
    }
}

/// Read once per process: the two clocks are one, so what lies between their readings never changes.
fn moment() -> Option<ClockReading> {
    static MOMENT: OnceLock<Option<ClockReading>> = OnceLock::new();
    *MOMENT.get_or_init(|| {
        // The tightest of several readings: another process may take the core between two of them.
        (0..16)
            .filter_map(|_| {
                let before = Instant::now();
                let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
                let after = Instant::now();
                let ns = u64::try_from(Duration::from(time).as_nanos()).ok()?;
                Some(ClockReading { before, ns, after })
            })
            .min_by_key(|moment| moment.after - moment.before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_as_its_instant_and_never_later() {
        for at in [
            Instant::now(),
            Instant::now() + Duration::from_secs(5),
            Instant::now() - Duration::from_millis(5),
        ] {
            let back = instant(ns(at).unwrap()).unwrap();
            assert!(back <= at);
            assert!(at - back < Duration::from_millis(1), "{:?}", at - back);
        }
    }
}
