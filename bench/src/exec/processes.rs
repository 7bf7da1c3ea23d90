//! The processes of a driver: the one that was started, its process group, and all that descends from them.
//!
//! A driver is often started by another program (`sh -c`, `uv run`, `npx`, `go run`), and then its first
//! process is not the one that has the locks. Others are found in `/proc`: by their group, by their parent,
//! and by a mark in their environment, which stays when a process leaves its group or loses its parent.
//! Without `/proc` only the group is known.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::guard;
use crate::environment::process_stat;

pub(super) const MARK: &str = "LOCKLAB_DRIVER";
/// A process that got SIGKILL is gone within milliseconds; a machine that swaps may need longer.
const GONE_WITHIN: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// What the marks of all drivers of this process begin with; the time, since process ids are used again.
pub(super) static OWN_MARK: LazyLock<String> = LazyLock::new(|| {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{now_ns}-", std::process::id())
});

/// The mark of the next driver. It ends in `;`, since marks are matched by prefix and 1 is a prefix of 10.
pub(super) fn next_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}{};", *OWN_MARK, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub pid: u32,
    /// Its state letter in `/proc`.
    pub state: char,
    parent: u32,
    group: u32,
}

impl Member {
    fn describe(&self) -> String {
        const LONGEST: usize = 80;
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let command: String = words.trim_end().chars().take(LONGEST).collect();
        format!("{} (`{command}`)", self.pid)
    }
}

/// The processes of one driver.
#[derive(Debug, Clone)]
pub struct Processes {
    first: u32,
    mark: String,
    /// Descriptions of processes that have left the group.
    escaped: Arc<Mutex<BTreeSet<String>>>,
}

impl Processes {
    pub(super) fn new(first: u32, mark: String) -> Processes {
        guard::add(first);
        Processes { first, mark, escaped: Arc::default() }
    }

    /// The process that was started, whose number is that of the group too.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The running processes of several drivers, found in one scan.
    pub(crate) fn of_all<'a>(drivers: impl Iterator<Item = &'a Processes>) -> Vec<Member> {
        let (groups, marks): (Vec<u32>, Vec<&str>) =
            drivers.map(|driver| (driver.first, driver.mark.as_str())).unzip();
        of_groups(&groups, &marks)
    }

    /// Those that run now.
    pub fn members(&self) -> Vec<Member> {
        let members = of_groups(&[self.first], &[&self.mark]);
        for member in &members {
            if member.group != self.first {
                self.escaped.lock().expect("no panic while held").insert(member.describe());
            }
        }
        members
    }

    /// Sends a signal to each, as far as it is there.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let group = killpg(pid(self.first), signal);
        let members = self.members();
        let escaped = members.iter().filter(|member| member.group != self.first);
        let sent = escaped.map(|member| (member.pid, kill(pid(member.pid), signal)));
        let sent = std::iter::once((self.first, group)).chain(sent);
        let failed = sent.filter_map(|(pid, sent)| {
            // A process that ended meanwhile needs no signal; a driver of which nothing is left is an error.
            let error = sent.err()?;
            (error != nix::errno::Errno::ESRCH || members.is_empty())
                .then(|| format!("{signal} to process {pid}: {error}"))
        });
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    pub(super) async fn end(&self) {
        let end = tokio::time::Instant::now() + GONE_WITHIN;
        let left = loop {
            let left = self.members();
            if left.is_empty() || tokio::time::Instant::now() >= end {
                break left;
            }
            // What it may not end is named.
            let _ = self.signal(Signal::SIGKILL);
            tokio::time::sleep(POLL).await;
        };
        let mut escaped = self.escaped.lock().expect("no panic while held");
        for member in left {
            let said = member.describe();
            escaped.remove(&said);
            escaped.insert(format!("{said}, which could not be ended"));
        }
        let (first, count) = &mut *ESCAPED.lock().expect("no panic while held");
        *count += escaped.len();
        first.extend(escaped.iter().take(ESCAPED_NAMED.saturating_sub(first.len())).cloned());
        guard::remove(self.first);
    }

    /// The processes that have left the group, or could not be ended; `None` where there are none.
    pub fn escaped(&self) -> Option<String> {
        let escaped = self.escaped.lock().expect("no panic while held");
        let all: Vec<&str> = escaped.iter().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

const ESCAPED_NAMED: usize = 3;

/// The processes of drivers that have ended which had left their driver's group: the first, and how many.
static ESCAPED: Mutex<(Vec<String>, usize)> = Mutex::new((Vec::new(), 0));

/// A message about processes that had left the groups of drivers that have ended; `None` if there were none.
pub fn escaped_processes() -> Option<String> {
    let (first, count) = &*ESCAPED.lock().expect("no panic while held");
    let others = match count - first.len() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let named = first.join(", ");
    (*count > 0).then(|| {
        format!("processes that left their driver's process group, and were ended with it: {named}{others}")
    })
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap_or(i32::MAX))
}

/// The living processes of these groups, those whose mark begins with one of these, and their descendants.
pub(super) fn of_groups(groups: &[u32], marks: &[&str]) -> Vec<Member> {
    let marks: Vec<String> = marks.iter().map(|mark| format!("{MARK}={mark}")).collect();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Member> = numbers.filter_map(member).collect();
    // Process ids are used again: this process is never a driver.
    others.retain(|member| member.pid != std::process::id());
    let is_marked = |member: &Member| {
        fs::read(format!("/proc/{}/environ", member.pid)).is_ok_and(|environ| {
            let mut entries = environ.split(|byte| *byte == 0);
            entries.any(|entry| marks.iter().any(|mark| entry.starts_with(mark.as_bytes())))
        })
    };
    let mut found: Vec<Member> =
        others.extract_if(.., |member| groups.contains(&member.group) || is_marked(member)).collect();
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).map(|member| member.pid) {
        found.extend(others.extract_if(.., |member| member.parent == parent));
        looked_at += 1;
    }
    found
}

fn member(pid: u32) -> Option<Member> {
    let stat = process_stat(pid)?;
    let mut fields = stat.split_whitespace();
    let member = Member {
        pid,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    };
    (!matches!(member.state, 'Z' | 'X')).then_some(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_begins_another() {
        let marks: BTreeSet<String> = (0..1000).map(|_| next_mark()).collect();
        let pairs = marks.iter().zip(marks.iter().skip(1));
        // In sorted order a prefix stands right before what it begins.
        for (mark, next) in pairs {
            assert!(!next.starts_with(mark), "{mark} {next}");
        }
    }
}
