//! A process for each run: a copy of this one, as it is, which does one thing and says what came of it.
//!
//! What a run leaves behind in a process would be there for the next: counters of tokio, of the library and of its users, from which
//! names and the order of tasks come. A copy has what its original has, so each run begins with the same. The
//! original must have one thread and have run nothing itself.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A copy at work.
pub(crate) struct Apart {
    process: libc::pid_t,
    answer: File,
    read: Vec<u8>,
}

impl Apart {
    /// Copies this process; the copy does `work`, and ends.
    pub(crate) fn start(work: impl FnOnce() -> Vec<u8>) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two numbers.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened, and nobody else has them.
        let (reading, mut writing) =
            unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        // SAFETY: this process has one thread, which goes on in the copy.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // The end of the original is the end of the copy.
                // SAFETY: two numbers, as this request takes.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let done = catch_unwind(AssertUnwindSafe(work));
                let written = done.is_ok_and(|answer| writing.write_all(&answer).is_ok());
                // SAFETY: ends without what the original would do at its end.
                unsafe { libc::_exit(i32::from(!written)) }
            }
            process => Ok(Apart {
                process,
                answer: reading,
                read: Vec::new(),
            }),
        }
    }

    /// Waits until one of several has said all: its place.
    pub(crate) fn first(all: &mut [Apart]) -> io::Result<usize> {
        let mut waits: Vec<libc::pollfd> = (all.iter())
            .map(|one| libc::pollfd {
                fd: one.answer.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
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
                let mut chunk = [0; 1 << 16];
                match one.answer.read(&mut chunk)? {
                    0 => return Ok(place),
                    length => one.read.extend_from_slice(&chunk[..length]),
                }
            }
        }
    }

    /// What it said; an error if it did not end well.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        let mut status = 0;
        // SAFETY: our own child, whose end nobody else waits for.
        unsafe { libc::waitpid(self.process, &raw mut status, 0) };
        match status {
            0 => Ok(self.read),
            _ => Err(io::Error::other(format!(
                "the process of a run ended with status {status}; what it said is above"
            ))),
        }
    }
}
