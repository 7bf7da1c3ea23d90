//! A process that outlives this one by a moment: when the pipe that both hold closes, it ends what drivers have left.
//!
//! The kernel's parent-death signal reaches a driver's first process only, and of a process that got SIGKILL nobody else would end the
//! others. The guard is a program of its own, since a fork of a program with threads may do next to nothing.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::processes::{OWN_MARK, of_groups};

/// What ends drivers when this process is killed; without it that is left to the parent-death signal.
static PROGRAM: OnceLock<Vec<String>> = OnceLock::new();
static GUARD: Mutex<Option<Child>> = Mutex::new(None);

/// After so many looks that found nothing in a row the guard goes: what is forked while it looks shows by then.
const QUIET_LOOKS: u32 = 3;
const MOST_LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// Names the program that calls [`stand`], with its first words; it is started with the first driver.
pub fn install(program: Vec<String>) {
    // An error means that it is known already.
    let _ = PROGRAM.set(program);
}

fn guard() -> MutexGuard<'static, Option<Child>> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the group of this process is ended with this process.
pub(super) fn watch(first: u32) {
    let mut guard = guard();
    if guard.is_none() {
        *guard = start();
    }
    tell(&mut guard, &format!("+{first}"));
}

/// Nothing is left of a group, and its number may be another's.
pub(super) fn forget(first: u32) {
    tell(&mut guard(), &format!("-{first}"));
}

fn tell(guard: &mut Option<Child>, line: &str) {
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

/// The guard's whole life: reads until the pipe ends, then ends the groups that are left, and all whose mark begins so.
pub fn stand(pipe: impl Read, mark: &str) {
    let mut groups: Vec<u32> = Vec::new();
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("+", group)) => groups.extend(group.parse::<u32>()),
            Some((_, group)) => groups.retain(|known| known.to_string() != group),
            None => {}
        }
    }
    let mut quiet = 0;
    for _ in 0..MOST_LOOKS {
        let left = of_groups(&groups, &[mark]);
        quiet = if left.is_empty() { quiet + 1 } else { 0 };
        if quiet == QUIET_LOOKS || left.is_empty() && groups.is_empty() {
            return;
        }
        for member in left {
            // Fails only if it is gone, or is another user's.
            let _ = kill(Pid::from_raw(member.pid.cast_signed()), Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
}
