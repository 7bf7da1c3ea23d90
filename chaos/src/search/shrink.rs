//! Searches for the smallest plan that still convicts; works on plans as data and runs nothing.
//!
//! The search is greedy and bounded. It asks for one plan after the other ([`Shrinker::next`]) and hears
//! whether that one still convicted ([`Shrinker::tell`]); the caller runs them. Great steps come first: no
//! fault at all, half of the faults, one client less by half; then single ones. A plan that did not convict
//! is not tried again, though servers and schedulers are real and it might have.

use std::collections::BTreeSet;
use std::time::Duration;

use bench::recorded::Owners;

use crate::planning::plan::Plan;
use crate::scenario::{FaultParty, FaultSite, FaultTrigger, Length};

/// The load keeps so much time after the last fault is over.
const AFTER_LAST_FAULT_NS: u64 = 1_000_000_000;

/// A load shorter than this shows nothing.
const SHORTEST_NS: u64 = 500_000_000;

/// A smaller plan, and what was taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduction {
    /// In a few words, e.g. `without fault 2 (kill on n1)`.
    pub what: String,
    /// The smaller plan.
    pub plan: Plan,
}

/// A search for the smallest plan that convicts.
#[derive(Debug, Clone)]
pub struct Shrinker {
    smallest: Plan,
    open: Vec<Reduction>,
    asked: Option<Reduction>,
    refused: BTreeSet<String>,
    tries: u32,
    tries_max: u32,
}

impl Shrinker {
    /// Begins with a plan that convicts; asks for `tries_max` runs at most.
    pub fn new(plan: Plan, tries_max: u32) -> Self {
        let open = reductions(&plan);
        Self { smallest: plan, open, asked: None, refused: BTreeSet::new(), tries: 0, tries_max }
    }

    /// The next plan to be tried; `None`: nothing smaller is left, or the tries are used up.
    #[expect(clippy::should_implement_trait, reason = "each step waits for `tell`")]
    pub fn next(&mut self) -> Option<Reduction> {
        if self.tries >= self.tries_max {
            return None;
        }
        while !self.open.is_empty() {
            let reduction = self.open.remove(0);
            if !self.refused.contains(&reduction.plan.to_json()) {
                self.tries += 1;
                self.asked = Some(reduction.clone());
                return Some(reduction);
            }
        }
        None
    }

    /// Says whether the plan that was asked for last convicted.
    pub fn tell(&mut self, convicts: bool) {
        let Some(reduction) = self.asked.take() else { return };
        if convicts {
            self.open = reductions(&reduction.plan);
            self.smallest = reduction.plan;
        } else {
            self.refused.insert(reduction.plan.to_json());
        }
    }

    /// The smallest plan that convicted so far.
    pub fn smallest(&self) -> &Plan {
        &self.smallest
    }

    /// Runs asked for so far.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether every single step from the smallest plan was tried in vain.
    pub fn is_done(&self) -> bool {
        self.asked.is_none() && self.open.iter().all(|r| self.refused.contains(&r.plan.to_json()))
    }
}

/// Every plan that is one step smaller, the greatest steps first.
pub fn reductions(plan: &Plan) -> Vec<Reduction> {
    let mut all = Vec::new();
    let mut add = |what: &str, reduce: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        reduce(&mut smaller);
        if smaller != *plan {
            all.push(Reduction { what: what.to_owned(), plan: smaller });
        }
    };
    let count = plan.faults.len();
    if count > 1 {
        add("without any fault", &|smaller| keep(smaller, |_| false));
    }
    if count > 3 {
        let half = count / 2;
        add("without the first half of the faults", &|smaller| {
            keep(smaller, |n| n >= half);
        });
        add("without the second half of the faults", &|smaller| {
            keep(smaller, |n| n < half);
        });
    }
    for (place, fault) in plan.faults.iter().enumerate() {
        let what = format!("without fault {} ({} on {})", fault.span, fault.fault, fault.on);
        add(&what, &|smaller| keep(smaller, |n| n != place));
    }
    let clients = plan.load.clients.len();
    // A client that a fault names must stay, under its number.
    let named = plan.faults.iter().flat_map(|fault| clients_of(&fault.on)).max().unwrap_or(0) as usize;
    let mut fewer = |what: &str, count: usize, to: [usize; 2], truncate: fn(&mut Plan, usize)| {
        for fewer in to.into_iter().filter(|fewer| *fewer < count) {
            add(&format!("{fewer} {what} instead of {count}"), &|smaller| truncate(smaller, fewer));
        }
    };
    let least = named.max(1);
    let to = [clients / 2, clients.saturating_sub(1)].map(|count| count.max(least));
    fewer("clients", clients, to, |plan, count| {
        plan.load.clients.truncate(count);
    });
    let tasks = plan.load.tasks_per_client();
    let to = [1, tasks / 2].map(|count| count.max(1));
    fewer("tasks per client", tasks, to, |plan, count| {
        plan.load.clients.iter_mut().for_each(|client| client.task_seeds.truncate(count));
    });
    let locks = plan.load.locks.len();
    let least = 1 + usize::from(plan.load.does.mix.contains_key("multi"));
    let tasks = u32::try_from(plan.load.tasks()).unwrap_or(u32::MAX);
    let least = least.max(plan.load.does.locks_for(tasks, Some(1)) as usize);
    let to = [least, locks / 2].map(|count| count.max(least));
    fewer("locks", locks, to, |plan, count| plan.load.locks.truncate(count));
    let least_ns = SHORTEST_NS.max(faults_end_ns(plan));
    let length_ns = plan.load.does.duration.ns();
    for shorter_ns in [least_ns, length_ns / 2, length_ns / 4 * 3] {
        // In whole tenths of a second, so that a person can read the file.
        let shorter_ns = shorter_ns.max(least_ns).div_ceil(100_000_000) * 100_000_000;
        if shorter_ns < length_ns {
            let what = format!("a load of {} ms", shorter_ns / 1_000_000);
            let length = Duration::from_nanos(shorter_ns);
            add(&what, &|smaller| {
                smaller.load.does.duration = Length(length);
            });
        }
    }
    for kind in plan.load.does.mix.keys() {
        let others = plan.load.does.mix.len() > 1;
        add(&format!("without {kind}"), &|smaller| {
            if others {
                smaller.load.does.mix.remove(kind);
            }
        });
    }
    add("without extends", &|plan| plan.load.does.extend = None);
    add("without re-entries", &|plan| plan.load.does.reenter = 0.0);
    add("without cancels", &|plan| plan.load.does.cancel = 0.0);
    add("without moves of owners", &|plan| plan.load.does.owner_moves = 0.0);
    add("with one lease", &|plan| plan.load.does.short_leases = 0.0);
    add("without second releases", &|plan| plan.load.does.release_again = false);
    add("with tasks as owners", &|plan| plan.load.does.owners = Owners::Tasks);
    add("without downgrades", &|plan| plan.load.does.downgrade = None);
    all
}

/// Only these faults, by their places; they keep their order and are numbered anew.
fn keep(plan: &mut Plan, these: impl Fn(usize) -> bool) {
    let mut place = 0;
    plan.faults.retain(|_| {
        place += 1;
        these(place - 1)
    });
    for (span, fault) in (1..).zip(&mut plan.faults) {
        fault.span = span;
    }
}

/// A little after the last fault with a time is over (one without an end, when it is in); 0 without one.
fn faults_end_ns(plan: &Plan) -> u64 {
    let ends = plan.faults.iter().filter_map(|fault| match fault.when {
        FaultTrigger::AtNs(at_ns) => Some(at_ns + fault.lasts_ns.unwrap_or(0) + AFTER_LAST_FAULT_NS),
        _ => None,
    });
    ends.max().unwrap_or(0)
}

fn clients_of(on: &FaultSite) -> impl Iterator<Item = u32> {
    on.everybody().filter_map(|who| match who {
        FaultParty::Client(number) => Some(*number),
        _ => None,
    })
}
