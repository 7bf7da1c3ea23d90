//! The processor time and memory of a process, as Linux counts them.

use std::{fs, io, time::Duration};

use crate::support::Server;

/// The server's process.
pub(crate) fn pid(server: &Server) -> io::Result<u32> {
    let info = server.ok(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    line.and_then(|pid| pid.trim().parse().ok()).ok_or_else(|| io::Error::other("INFO names no process"))
}

/// Processor time of all threads that live, from their scheduler's own nanosecond count.
pub(crate) fn cpu(pid: u32) -> io::Result<Duration> {
    let mut sum_ns = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the look.
        if let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) {
            let first = text.split_whitespace().next();
            sum_ns += first.and_then(|ns| ns.parse().ok()).unwrap_or(0);
        }
    }
    Ok(Duration::from_nanos(sum_ns))
}

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("no VmRSS of {pid}")))
}
