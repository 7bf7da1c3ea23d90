//! This machine, as the [`Environment`] that is kept with a run.

use std::{ffi::OsStr, fs};

use nix::sys::utsname::{UtsName, uname};
use results::run::Environment;

const RUSTC: &str = concat!(env!("BENCH_RUSTC"), ", ", env!("BENCH_PROFILE"));

/// What was read at the start; [`EnvironmentReading::finish`] reads the rest at the end.
#[derive(Debug, Clone)]
pub struct EnvironmentReading {
    environment: Environment,
    ticks: Option<Ticks>,
}

/// CPU time of the whole machine in ticks since it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    all: u64,
    /// By the hypervisor.
    stolen: u64,
}

impl Ticks {
    /// The share that was stolen from then on until a later reading; 0 where nothing was read.
    pub(crate) fn stolen_until(then: Option<Ticks>, later: Option<Ticks>) -> f64 {
        match (then, later) {
            (Some(then), Some(later)) if later.all > then.all => {
                later.stolen.saturating_sub(then.stolen) as f64 / (later.all - then.all) as f64
            }
            _ => 0.0,
        }
    }
}

/// Reads the machine now, before anything is measured. What cannot be read stays empty or zero.
pub fn read_machine() -> EnvironmentReading {
    let load = load_average();
    let uname = uname().ok();
    let text = |part: fn(&UtsName) -> &OsStr| {
        uname.as_ref().map(part).unwrap_or_default().to_string_lossy().into_owned()
    };
    EnvironmentReading {
        environment: Environment {
            host: text(UtsName::nodename),
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism()
                .map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
            memory_bytes: memory("MemTotal").unwrap_or(0),
            kernel: format!("{} {}", text(UtsName::sysname), text(UtsName::release)),
            rustc: RUSTC.to_owned(),
            load_average: [load, load],
            ..Environment::default()
        },
        ticks: ticks(),
    }
}

impl EnvironmentReading {
    /// Adds the load at the end and the share of stolen time in between. Servers are the caller's to add.
    pub fn finish(mut self) -> Environment {
        self.environment.load_average[1] = load_average();
        self.environment.steal = Ticks::stolen_until(self.ticks, ticks());
        self.environment
    }
}

/// The value of the first line of a file in the form `name : value`.
fn field(path: &str, name: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

/// Memory that this machine could give now; `None` where it cannot be told.
pub fn available_memory_bytes() -> Option<u64> {
    memory("MemAvailable")
}

fn memory(name: &str) -> Option<u64> {
    let kib: u64 = field("/proc/meminfo", name).split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

pub(crate) fn load_average() -> f64 {
    fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

/// What `/proc` says of a process, from the third field on, which is its state. The second is the program's
/// name in brackets and may contain anything.
pub(crate) fn process_stat(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit_once(')')?.1.to_owned())
}

/// User and system time of a process in microseconds, and that of its children that have ended. The kernel
/// counts them in hundredths of a second on every Linux.
pub(crate) fn process_cpu_us(pid: u32) -> Option<(f64, f64)> {
    let stat = process_stat(pid)?;
    // The four times are fields 14 to 17.
    let times = stat.split_whitespace().skip(11).take(4);
    let us: Vec<f64> =
        times.map(|ticks| Some(ticks.parse::<f64>().ok()? * 10_000.0)).collect::<Option<_>>()?;
    Some((us.get(..2)?.iter().sum(), us.get(2..4)?.iter().sum()))
}

/// The same of a process and all below it, those that have ended too.
pub(crate) fn tree_cpu_us(pid: u32) -> Option<f64> {
    let (own, ended) = process_cpu_us(pid)?;
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let below = lists.collect::<Vec<_>>().join(" ");
    let below = below.split_whitespace().filter_map(|pid| tree_cpu_us(pid.parse().ok()?));
    Some(own + ended + below.sum::<f64>())
}

pub(crate) fn ticks() -> Option<Ticks> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is contained in user's.
    Some(Ticks { all: all.iter().take(8).sum(), stolen: *all.get(7)? })
}
