//! What this machine and the clients' processes have used so far.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::environment::{self, Ticks};
use crate::exec::Processes;
use crate::load::SharedClient;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Machine {
    ticks: Option<Ticks>,
    /// Time in which some task waited for a core, microseconds.
    pressure_us: Option<u64>,
    /// Involuntary context switches of this process.
    switches: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Disturbance {
    /// Stolen CPU time, share of all.
    pub(crate) steal: f64,
    /// Share of the time in which some task waited for a core.
    pub(crate) pressure: Option<f64>,
    /// Involuntary context switches of this process per second.
    pub(crate) switches_per_s: f64,
}

impl Machine {
    pub(crate) fn read() -> Machine {
        use nix::sys::resource::{UsageWho, getrusage};
        Machine {
            ticks: environment::ticks(),
            pressure_us: fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| total_us(&text)),
            switches: getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| usage.involuntary_context_switches()),
        }
    }

    /// What went on from this reading to a later one, so many seconds after it.
    pub(crate) fn until(&self, later: &Machine, seconds: f64) -> Disturbance {
        let pressure = self
            .pressure_us
            .zip(later.pressure_us)
            .map(|(a, b)| (b.saturating_sub(a) as f64 / 1e6 / seconds.max(1e-9)).min(1.0));
        let switches = self.switches.zip(later.switches).map_or(0, |(a, b)| b - a);
        Disturbance {
            steal: Ticks::stolen_until(self.ticks, later.ticks),
            pressure,
            switches_per_s: switches as f64 / seconds.max(1e-9),
        }
    }
}

/// `total=` of the `some` line.
fn total_us(pressure: &str) -> Option<u64> {
    pressure.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// The clients' CPU time in microseconds and memory in bytes: of their drivers' processes, else of this one.
pub(crate) fn client_use(clients: &[SharedClient]) -> (Option<f64>, Option<u64>) {
    let mut drivers = clients.iter().filter_map(|c| c.processes()).peekable();
    if drivers.peek().is_none() {
        return (own_cpu_us(), rss_bytes("self"));
    }
    // One that ends meanwhile counts among those that its parent has seen end.
    let members = Processes::of_all(drivers);
    let cpu = members.iter().filter_map(|member| {
        let (own, ended) = environment::process_cpu_us(member.pid)?;
        Some(own + ended)
    });
    let cpu_us = cpu.reduce(|sum, one| sum + one);
    let memory = members.iter().filter_map(|member| rss_bytes(&member.pid.to_string()));
    (cpu_us, memory.reduce(|sum, one| sum + one))
}

/// User and system time of this process, microseconds.
fn own_cpu_us() -> Option<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let us = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 * 1e6 + t.tv_usec() as f64;
    Some(us(usage.user_time()) + us(usage.system_time()))
}

fn rss_bytes(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_from_the_kernels_line() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.92 total=92873466\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(total_us(text), Some(92_873_466));
        assert_eq!(total_us(""), None);
    }

    #[test]
    fn between_two_readings_shares_are_shares() {
        let d = Machine::read().until(&Machine::read(), 0.01);
        assert!((0.0..=1.0).contains(&d.steal) && d.pressure.is_none_or(|p| (0.0..=1.0).contains(&p)));
        assert!(rss_bytes("self").unwrap() > 100_000);
        assert!(own_cpu_us().unwrap() > 0.0);
    }
}
