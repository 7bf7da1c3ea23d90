//! Answers the two calls of the system by which a program learns the time and draws random bytes, on threads
//! that simulate.
//!
//! The program's own `clock_gettime` and `getrandom` stand before those of the C library. On a thread that
//! simulates, time is that of the runtime, whose clock is paused and goes on when nothing else is left to do,
//! and random bytes come from the seed; so the standard library, tokio, `rand`, `uuid` and the order of hash
//! maps are all the same for the same seed, and none of them knows. Everywhere else the calls go on to the C
//! library, for one look at the thread more.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hash::RandomState;
use std::mem;
use std::sync::{
    OnceLock,
    atomic::{AtomicPtr, Ordering},
};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::runtime::process::Process;

/// What wall clocks show when a simulation begins: 2026-01-01.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_767_225_600);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skew {
    pub(crate) jump_ns: i64,
    pub(crate) drift_ppb: i64,
    pub(crate) since: Duration,
}

impl Skew {
    pub(crate) fn wall(self, now: Duration) -> Duration {
        let since = now.saturating_sub(self.since).as_nanos();
        let since = i128::try_from(since).unwrap_or(i128::MAX);
        let drift = since * i128::from(self.drift_ppb) / 1_000_000_000;
        let wrong = i128::from(self.jump_ns) + drift;
        let amount = Duration::from_nanos(u64::try_from(wrong.unsigned_abs()).unwrap_or(u64::MAX));
        match wrong < 0 {
            true => (EPOCH + now).saturating_sub(amount),
            false => EPOCH + now + amount,
        }
    }
}

thread_local! {
    static SIMULATES: Cell<bool> = const { Cell::new(false) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static DRAWS_ORDER: Cell<bool> = const { Cell::new(false) };
    static KNOWN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// What the runtime's clock showed when it went on last.
    static SHOWN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// One moment on the monotonic clock and on the one that goes on while the machine is suspended: simulated
/// ones lie as far apart as the real ones, so that what was learnt on one thread is true on the other.
struct Base {
    /// The moment of `monotonic`, as the standard library says it.
    instant: Instant,
    monotonic: Duration,
    boottime: Duration,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let monotonic = ask_system(libc::CLOCK_MONOTONIC);
        let boottime = ask_system(libc::CLOCK_BOOTTIME);
        // The thread simulates for one question: the answer is this very moment.
        SHOWN.set(monotonic);
        KNOWN.set(Duration::ZERO);
        let simulates = SIMULATES.replace(true);
        let instant = Instant::now();
        SIMULATES.set(simulates);
        Base { instant, monotonic, boottime }
    })
}

/// From now on this thread simulates, with everything random from `seed`. To be called first thing on a new
/// thread: what drew randomness before would keep it.
pub(crate) fn enter(seed: u64) {
    let base = base();
    KNOWN.set(base.monotonic);
    SHOWN.set(base.monotonic);
    RANDOM.set(seed);
    DRAWS_ORDER.set(!seed.is_multiple_of(2));
    SIMULATES.set(true);
    // Where the keys of hash maps were drawn by an earlier seed, they count those maps: the order of the next
    // ones is another with each.
    (0..seed % 1_024).for_each(|_| drop(RandomState::new()));
}

/// Ends that: time and randomness are those of the system again.
pub(crate) fn leave() {
    SIMULATES.set(false);
}

fn ask_system(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` where it may.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A runtime for a thread that simulates, whose time is that of its clock.
pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // Where the runtime waits for a timer, and nowhere else, its clock goes on.
        .on_thread_unpark(|| {
            let now = tokio::time::Instant::now().into_std();
            let base = base();
            SHOWN.set(base.monotonic + now.saturating_duration_since(base.instant));
        })
        .build();
    runtime.expect("a runtime needs nothing of the system")
}

/// The time since the base, which only grows.
fn monotonic() -> Duration {
    // No two readings are the same, as on a real machine: what came first is seen to have come first.
    KNOWN.set((SHOWN.get()).max(KNOWN.get() + Duration::from_nanos(1)));
    KNOWN.get()
}

/// The time of the run, to the runtime's last step.
pub(crate) fn since_base() -> Duration {
    SHOWN.get().saturating_sub(base().monotonic)
}

fn simulated(clock: libc::clockid_t) -> Option<Duration> {
    if matches!(clock, libc::CLOCK_BOOTTIME) {
        // The library reads it for `tracing` and `metrics` too: builds without them see the same times.
        return Some(base().boottime + SHOWN.get().max(KNOWN.get()).saturating_sub(base().monotonic));
    }
    let now = monotonic();
    if matches!(clock, libc::CLOCK_MONOTONIC) {
        return Some(now);
    }
    let since = now.saturating_sub(base().monotonic);
    match clock {
        libc::CLOCK_MONOTONIC_COARSE => Some(now),
        // A process is stopped as if its machine was suspended: this clock stands still meanwhile. So would
        // CLOCK_MONOTONIC, but that one is also the runtime's, which all processes share.
        libc::CLOCK_MONOTONIC_RAW => Some(now.saturating_sub(Process::running_stood_still())),
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Some(Process::running_clock().wall(since)),
        _ => None,
    }
}

/// The C library's function of that name.
fn next(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let found = known.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    // SAFETY: a name that ends as C's do.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has it");
    known.store(found, Ordering::Relaxed);
    found
}

/// As in time(2): the simulated time on a thread that simulates.
///
/// # Safety
/// `into` must be valid for a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    into: *mut libc::timespec,
) -> libc::c_int {
    type Call = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if SIMULATES.get()
        && let Some(now) = simulated(clock)
    {
        // SAFETY: the caller's promise.
        unsafe {
            (*into).tv_sec = now.as_secs() as libc::time_t;
            (*into).tv_nsec = now.subsec_nanos().into();
        }
        return 0;
    }
    // SAFETY: it is the C library's function, which has this form.
    unsafe { mem::transmute::<*mut c_void, Call>(next(&NEXT, c"clock_gettime"))(clock, into) }
}

/// As getrandom(2): bytes from the seed on a thread that simulates.
///
/// # Safety
/// `into` must be valid for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(
    into: *mut c_void,
    length: usize,
    flags: libc::c_uint,
) -> libc::ssize_t {
    type Call = unsafe extern "C" fn(*mut c_void, usize, libc::c_uint) -> libc::ssize_t;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if !SIMULATES.get() {
        // SAFETY: it is the C library's function, which has this form.
        return unsafe {
            mem::transmute::<*mut c_void, Call>(next(&NEXT, c"getrandom"))(into, length, flags)
        };
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(into.cast::<mem::MaybeUninit<u8>>(), length) };
    for chunk in bytes.chunks_mut(8) {
        let drawn = draw().to_le_bytes();
        for (byte, drawn) in chunk.iter_mut().zip(drawn) {
            byte.write(drawn);
        }
    }
    length as libc::ssize_t
}

/// Whether a task whose turn it is goes to the end of those that are ready. Even seeds draw no order, so that
/// they keep their histories.
pub(crate) fn puts_off() -> bool {
    DRAWS_ORDER.get() && draw().is_multiple_of(2)
}

/// The next of SplitMix64.
fn draw() -> u64 {
    RANDOM.set(RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
    let mut z = RANDOM.get();
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, thread};

    use super::*;

    /// What a thread that simulates sees of the time, of randomness and of the order of a hash map.
    fn seen(seed: u64) -> (Duration, u64, u128, Vec<u32>, Duration) {
        let simulation = thread::spawn(move || {
            enter(seed);
            runtime().block_on(async {
                let began = Instant::now();
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                let map: HashMap<u32, ()> = (0..20).map(|n| (n, ())).collect();
                (
                    began.elapsed(),
                    rand::random(),
                    uuid::Uuid::new_v4().as_u128(),
                    map.into_keys().collect(),
                    std::time::UNIX_EPOCH.elapsed().expect("it is later"),
                )
            })
        });
        simulation.join().expect("no panic")
    }

    #[test]
    fn the_clock_of_a_process_is_its_own() {
        let simulation = thread::spawn(|| {
            enter(1);
            let process = Process::new("c1");
            process.set_clock(Skew {
                jump_ns: -5_000_000_000,
                drift_ppb: 500_000_000,
                since: Duration::ZERO,
            });
            let wall = || std::time::UNIX_EPOCH.elapsed().expect("it is later");
            // What the library reads for its telemetry moves no clock.
            let (known, _) = (KNOWN.get(), [(); 3].map(|()| simulated(libc::CLOCK_BOOTTIME)));
            assert_eq!(known, KNOWN.get());
            let (before, monotonic) = (wall(), Instant::now());
            let wrong = process.within(wall);
            (before, wrong, wall(), process.within(|| monotonic.elapsed()))
        });
        let (before, wrong, after, elapsed) = simulation.join().expect("no panic");
        let moment = Duration::from_millis(1);
        assert!(wrong.abs_diff(before - Duration::from_secs(5)) < moment);
        assert!(after - before < moment && elapsed < moment);
    }

    #[test]
    fn a_seed_decides_the_time_and_everything_random() {
        let real = Instant::now();
        let first = seen(7);
        assert_eq!(first, seen(7));
        assert_ne!(first.1, seen(8).1);
        let hour = Duration::from_secs(3_600);
        // A timer counts whole milliseconds, and each look at a clock is a nanosecond later.
        let (early, little) = (Duration::from_micros(1), Duration::from_millis(2));
        assert!((hour - early..hour + little).contains(&first.0));
        assert!((EPOCH + hour - early..EPOCH + hour + little).contains(&first.4));
        assert!(real.elapsed() < Duration::from_secs(60), "nobody slept");
    }
}
