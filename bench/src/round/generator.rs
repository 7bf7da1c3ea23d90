//! What the generator itself costs: its cycle, with all its draws and records, on a lock that grants at once.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt;
use nix::time::{ClockId, clock_gettime};

use super::{figures::Figures, ledger::Ledger, look};
use crate::load::{self, Load, LoadState, SharedClient, Task};
use crate::parts::GeneratorShare;
use crate::subject::{AcquireEnd, AcquireRequest, Caller, LockClient, ReleaseEnd};
use crate::workload::{CycleShape, Rhythm};

/// Processor time that is spent on it, after as much again that does not count.
const ENOUGH: Duration = Duration::from_millis(4);
const MOST_TASKS: u32 = 256;

struct GrantAllClient {
    /// Whether its callers keep what they hold, as those of the client that was measured.
    has_callers: bool,
}

#[async_trait]
impl LockClient for GrantAllClient {
    async fn acquire(&self, _: AcquireRequest<'_>) -> AcquireEnd {
        AcquireEnd::ok("g1".to_owned(), None)
    }

    async fn release(&self, _: &str) -> ReleaseEnd {
        ReleaseEnd::Ok
    }

    fn caller(&self, _: &[&str]) -> Option<Box<dyn Caller>> {
        self.has_callers.then(|| Box::new(GrantAllCaller) as Box<dyn Caller>)
    }
}

struct GrantAllCaller;

impl Caller for GrantAllCaller {
    fn begin_acquire(&mut self, _: AcquireRequest<'_>) -> Result<(), AcquireEnd> {
        Ok(())
    }

    fn poll_acquire(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Duration>, AcquireEnd>> {
        Poll::Ready(Ok(None))
    }

    fn sent_at(&self) -> Option<Instant> {
        None
    }

    fn begin_release(&mut self) {}

    fn poll_release(&mut self, _: &mut Context<'_>) -> Poll<ReleaseEnd> {
        Poll::Ready(ReleaseEnd::Ok)
    }
}

/// CPU time of one cycle in microseconds; `None` for workloads without cycles, or if the machine is silent.
pub(super) fn cpu_us(load: &Load, asks: CycleShape, clients: &[SharedClient]) -> Option<f64> {
    let rhythm = load.workload.rhythm;
    if !matches!(rhythm, Rhythm::Cycles | Rhythm::Chain | Rhythm::Herd) {
        return None;
    }
    let with_callers = rhythm == Rhythm::Cycles && load.pace.is_none();
    let mut measured = clients.iter();
    let has_callers = with_callers && measured.all(|client| load.caller(&***client).is_some());
    let load = Load {
        tasks: load.tasks.min(MOST_TASKS),
        share: GeneratorShare::WHOLE,
        hold: (Duration::ZERO, Duration::ZERO),
        think: (Duration::ZERO, Duration::ZERO),
        pace: None,
        ..load.clone()
    };
    let shared = Arc::new(LoadState::new(load, None, None));
    let figures = Figures::new(&shared, asks, 1);
    let client: SharedClient = Arc::new(Box::new(GrantAllClient { has_callers }));
    let task = |number| {
        let named = (number, format!("t{number}"));
        let (shared, client) = (shared.clone(), client.clone());
        let task = Task::new(shared, client, None, figures.clone(), named, number.into());
        (task.caller(), task)
    };
    let mut tasks: Vec<Running> = (0..shared.load.tasks).map(task).collect();
    let mut ledger = Ledger::new(asks.permits());
    figures.set_window(1, u64::MAX);
    ledger.set_window(1, u64::MAX);
    spend(&mut tasks)?;
    look(&mut ledger, &figures, true);
    let began = cpu_time()?;
    let cycles = spend(&mut tasks)?;
    look(&mut ledger, &figures, true);
    Some(cpu_time()?.checked_sub(began)?.as_secs_f64() * 1e6 / cycles as f64)
}

type Running = (Option<Box<dyn Caller>>, Task);

/// Lets the tasks go round in turn until enough time is over: how many cycles that were.
fn spend(tasks: &mut [Running]) -> Option<u64> {
    let (began, mut cycles) = (Instant::now(), 0);
    while began.elapsed() < ENOUGH {
        for (caller, task) in &mut *tasks {
            // It never has to wait for anything.
            load::cycle(task, caller).now_or_never()?;
            cycles += 1;
        }
    }
    Some(cycles)
}

fn cpu_time() -> Option<Duration> {
    Some(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn a_cycle_costs_something_and_a_workload_without_cycles_nothing_that_is_known() {
        let load = |name| Load {
            workload: workload::find(name).unwrap(),
            tasks: 3,
            locks: (0..3).map(|n| format!("l{n}")).collect(),
            ..Load::default()
        };
        for has_callers in [true, false] {
            let client: SharedClient = Arc::new(Box::new(GrantAllClient { has_callers }));
            for name in ["uncontended", "chain", "zipf"] {
                let us = cpu_us(&load(name), CycleShape::One, std::slice::from_ref(&client)).unwrap();
                assert!((0.01..1_000.0).contains(&us), "{name}: {us}");
            }
            assert_eq!(cpu_us(&load("renewal"), CycleShape::One, &[client]), None);
        }
    }
}
