//! A process for each run: a copy of this one, as it is, which does one thing and says what came of it.
//!
//! What a run leaves behind in a process would be there for the next: counters of tokio, of the library and
//! of its users, from which names and the order of tasks come. A copy has what its original has, so each run
//! begins with the same. The thread that copies goes on alone in the copy; the original must have run nothing
//! itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::runtime::heap;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Of a processor's time, in whole seconds.
    pub(crate) processor_s: u32,
    /// And altogether: it may wait for what never comes, too.
    pub(crate) wall_s: u32,
}

pub(crate) struct CopyOutcome {
    /// What it said; if it did not end well, how it ended.
    pub(crate) said: Result<Vec<u8>, String>,
    pub(crate) processor: Duration,
}

pub(crate) struct ForkedCopy {
    pub(crate) number: u64,
    process: libc::pid_t,
    limit: Limit,
    answer: File,
    read: Vec<u8>,
}

impl ForkedCopy {
    /// Copies this process; the copy does `work`, and ends, at the latest when its time is over.
    pub(crate) fn start(number: u64, limit: Limit, work: impl FnOnce() -> Vec<u8>) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two numbers.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened, and nobody else has them.
        let (reading, mut writing) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        // SAFETY: this thread goes on in the copy, and needs no other there.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // The end of the original is the end of the copy.
                // SAFETY: two numbers, as this request takes.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                limit.begin();
                heap::begin();
                let done = catch_unwind(AssertUnwindSafe(work));
                let written = done.is_ok_and(|answer| writing.write_all(&answer).is_ok());
                let status = i32::from(!written);
                // What a build with `--cfg training` counts is written at an end like any other
                // (`scripts/seeds.sh`). SAFETY: it is alone, and its original has nothing to do at its end
                // but that.
                #[cfg(training)]
                unsafe {
                    libc::exit(status)
                }
                // SAFETY: ends without what the original would do at its end.
                #[cfg(not(training))]
                unsafe {
                    libc::_exit(status)
                }
            }
            process => Ok(ForkedCopy { number, process, limit, answer: reading, read: Vec::new() }),
        }
    }

    /// Waits until one of several has said all: its place.
    pub(crate) fn first(all: &mut [ForkedCopy]) -> io::Result<usize> {
        let mut waits: Vec<libc::pollfd> = (all.iter())
            .map(|one| libc::pollfd { fd: one.answer.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        loop {
            // SAFETY: so many are there.
            let ready = unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, -1) };
            if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(io::Error::last_os_error());
            }
            for (place, (one, wait)) in all.iter_mut().zip(&waits).enumerate() {
                if wait.revents == 0 {
                    continue;
                }
                // After each copy the first write to a page of the stack copies that page.
                let mut chunk = [0; 1 << 12];
                match one.answer.read(&mut chunk)? {
                    0 => return Ok(place),
                    length => one.read.extend_from_slice(&chunk[..length]),
                }
            }
        }
    }

    pub(crate) fn finish(self) -> CopyOutcome {
        let mut status = 0;
        // SAFETY: numbers alone, for which zeros are fine.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: our own child, whose end nobody else waits for, and room for both answers.
        unsafe { libc::wait4(self.process, &raw mut status, 0, &raw mut usage) };
        let said = match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
            (true, libc::SIGXCPU) => Err(format!(
                "it had no end: it was ended after {} s of a processor's time",
                self.limit.processor_s
            )),
            (true, libc::SIGALRM) => Err(format!(
                "it had no end: it was ended after {} s, in which it mostly waited",
                self.limit.wall_s
            )),
            _ if status == 0 => Ok(self.read),
            _ => Err(format!("its process ended with status {status}; what it said is above")),
        };
        CopyOutcome { said, processor: processor(&usage) }
    }
}

impl Limit {
    /// From now on this process has so much time.
    fn begin(self) {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let processor =
            libc::rlimit { rlim_cur: self.processor_s.into(), rlim_max: (self.processor_s + 1).into() };
        // SAFETY: limits of this process alone. Their signals end it, and it leaves no image of its memory
        // behind.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::setrlimit(libc::RLIMIT_CPU, &raw const processor);
            libc::alarm(self.wall_s);
        }
    }
}

pub(crate) fn processor(usage: &libc::rusage) -> Duration {
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
