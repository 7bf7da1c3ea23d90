//! A process that outlives this one by a moment: when their pipe closes, it ends what drivers have left.
//!
//! The kernel's parent-death signal reaches a driver's first process only, and of a process that got SIGKILL
//! nobody else would end the others. The guard is a program of its own, since a fork of a program with
//! threads may do next to nothing.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::processes::{OWN_MARK, of_groups};

/// The guard's program and first words. Without it only the parent-death signal ends orphaned drivers.
static PROGRAM: OnceLock<Vec<String>> = OnceLock::new();
static GUARD: Mutex<Option<Child>> = Mutex::new(None);

/// The guard ends after so many empty scans in a row: a process forked during one is seen by a later one.
const EMPTY_SCANS: u32 = 3;
const MAX_SCANS: u32 = 200;
const SCAN_PAUSE: Duration = Duration::from_millis(20);

/// Names the program that calls [`run`], with its first words; it is started with the first driver.
pub fn install(program: Vec<String>) {
    // An error means that it is known already.
    let _ = PROGRAM.set(program);
}

fn guard() -> MutexGuard<'static, Option<Child>> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the guard end this process group when this process ends.
pub(super) fn add(first: u32) {
    let mut guard = guard();
    if guard.is_none() {
        *guard = start();
    }
    send(&mut guard, &format!("+{first}"));
}

/// Forgets a process group that is empty: its number may be used again.
pub(super) fn remove(first: u32) {
    send(&mut guard(), &format!("-{first}"));
}

fn send(guard: &mut Option<Child>, line: &str) {
    if let Some(pipe) = guard.as_mut().and_then(|guard| guard.stdin.as_mut()) {
        // Fails only if the guard was killed, and then there is no other.
        let _ = writeln!(pipe, "{line}");
    }
}

fn start() -> Option<Child> {
    let (program, words) = PROGRAM.get()?.split_first()?;
    Command::new(program)
        .args(words)
        .arg(OWN_MARK.as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Signals to the terminal's group are not meant for it.
        .process_group(0)
        .spawn()
        // A machine that has no process to spare has a run without a guard.
        .ok()
}

/// Ends what drivers have left, and returns when nothing is.
pub fn dismiss() {
    if let Some(mut guard) = guard().take() {
        // Closes the pipe before it waits.
        let _ = guard.wait();
    }
}

/// The guard's whole life: reads until the pipe ends, then ends the groups left and all whose mark begins so.
pub fn run(pipe: impl Read, mark: &str) {
    let mut groups: Vec<u32> = Vec::new();
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("+", group)) => groups.extend(group.parse::<u32>()),
            Some((_, group)) => groups.retain(|known| known.to_string() != group),
            None => {}
        }
    }
    let mut empty_scans = 0;
    for _ in 0..MAX_SCANS {
        let left = of_groups(&groups, &[mark]);
        empty_scans = if left.is_empty() { empty_scans + 1 } else { 0 };
        if empty_scans == EMPTY_SCANS || left.is_empty() && groups.is_empty() {
            return;
        }
        for member in left {
            // Fails only if it is gone, or is another user's.
            let _ = kill(Pid::from_raw(member.pid.cast_signed()), Signal::SIGKILL);
        }
        std::thread::sleep(SCAN_PAUSE);
    }
}
