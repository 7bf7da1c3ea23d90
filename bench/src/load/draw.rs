//! What one cycle asks for, drawn before its first answer, so that a task's draws do not depend on luck.

use std::{sync::Arc, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Load;

/// Of a wait without bound callers give up so soon.
const CANCEL_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct CycleRequest {
    pub(crate) lock: u32,
    pub(crate) others: Vec<u32>,
    pub(crate) kind: Arc<str>,
    pub(crate) permits: Option<u32>,
    pub(crate) keep: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) again: bool,
    /// When its caller gives up, counted from the call; what is granted until then is given back then.
    pub(crate) cancel: Option<Duration>,
    /// The owner that extends and releases, where that is not the one that acquires.
    pub(crate) moves_to: Option<Arc<str>>,
}

impl CycleRequest {
    /// What a cycle asks for whose first lock is `lock`, by the kinds' weights; callers give up if `cancels`.
    pub(crate) fn draw(
        load: &Load,
        mix: &[(Arc<str>, u32)],
        lock: impl FnOnce(&mut ChaCha8Rng) -> u32,
        cancels: bool,
        random: &mut ChaCha8Rng,
    ) -> CycleRequest {
        let share = load.cancel.0.clamp(0.0, 1.0);
        let gives_up = cancels && share > 0.0 && random.random_bool(share);
        let kind = draw_kind(random, mix);
        let (lock, mut others) = (lock(random), Vec::new());
        let count = u32::try_from(load.locks.len()).unwrap_or(u32::MAX);
        let wanted = match &**kind {
            "multi" => load.together.min(count) as usize,
            _ => 1,
        };
        // In the order drawn: callers do not sort, so that a library that must sort is tried.
        while others.len() + 1 < wanted {
            let other = random.random_range(0..count);
            if other != lock && !others.contains(&other) {
                others.push(other);
            }
        }
        let part = if load.short_leases > 0.0 && random.random_bool(load.short_leases) { 4 } else { 1 };
        CycleRequest {
            permits: matches!(&**kind, "semaphore" | "permits").then_some(load.permits),
            kind: kind.clone(),
            lock,
            others,
            keep: between(random, load.hold) / part,
            lease: load.lease.map(|lease| lease / part),
            again: load.reenter > 0.0 && random.random_bool(load.reenter.clamp(0.0, 1.0)),
            cancel: gives_up.then(|| between(random, (Duration::ZERO, load.wait.unwrap_or(CANCEL_WITHIN)))),
            moves_to: None,
        }
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.lock).chain(self.others.iter().copied())
    }

    pub(crate) fn names(&self, load: &Load) -> Vec<String> {
        self.locks().map(|at| load.locks[at as usize].clone()).collect()
    }
}

fn draw_kind<'a>(random: &mut ChaCha8Rng, mix: &'a [(Arc<str>, u32)]) -> &'a Arc<str> {
    let total: u32 = mix.iter().map(|(_, weight)| weight).sum();
    let mut draw = random.random_range(0..total.max(1));
    for (kind, weight) in mix {
        if draw < *weight {
            return kind;
        }
        draw -= weight;
    }
    &mix[mix.len() - 1].0
}

pub(super) fn between(random: &mut ChaCha8Rng, (low, high): (Duration, Duration)) -> Duration {
    if high <= low { low } else { random.random_range(low..=high) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn kinds_come_by_weight() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mix = [("read".into(), 3), ("write".into(), 1)];
        let reads = (0..4_000).filter(|_| &**draw_kind(&mut random, &mix) == "read").count();
        assert!((2_800..3_200).contains(&reads), "{reads} of 4,000 at weight 3 of 4");
    }

    #[test]
    fn locks_taken_at_once_are_different_ones() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mix = [("multi".into(), 1)];
        for count in [1, 3, 4, 50] {
            let load =
                Load { together: 3, locks: (0..count).map(|n| format!("l{n}")).collect(), ..Load::default() };
            for lock in 0..count {
                let asked = CycleRequest::draw(&load, &mix, |_| lock, true, &mut random);
                let mut all: Vec<u32> = asked.locks().collect();
                assert_eq!(all[0], lock);
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), count.min(3) as usize, "{:?}", asked.others);
                assert!(all.iter().all(|lock| *lock < count));
            }
        }
    }
}
