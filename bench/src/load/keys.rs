//! Which lock a task takes next, by the spread of its workload.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Load;
use crate::{parts::GeneratorShare, workload::Spread};

/// Exponent of the zipf workload: that of YCSB, where the hottest of 1,000 names gets 13 %.
pub(crate) const ZIPF: f64 = 0.99;

#[derive(Debug)]
pub(crate) struct Keys {
    spread: Spread,
    share: GeneratorShare,
    tasks: u32,
    locks: u32,
    /// Zipf: the share of names up to and including this one, rising to 1.
    shares: Vec<f64>,
}

impl Keys {
    pub(crate) fn new(load: &Load) -> Self {
        let (spread, locks) = (load.workload.spread, load.locks.len());
        let mut shares = Vec::new();
        if spread == Spread::Zipf {
            let mut sum = 0.0;
            shares.extend((1..=locks).map(|rank| {
                sum += (rank as f64).powf(-ZIPF);
                sum
            }));
            shares.iter_mut().for_each(|share| *share /= sum);
        }
        Keys {
            spread,
            share: load.share,
            tasks: load.tasks.max(1),
            locks: u32::try_from(locks).unwrap_or(u32::MAX),
            shares,
        }
    }

    pub(crate) fn next(&self, task: u32, cycle: u64, random: &mut ChaCha8Rng) -> u32 {
        match self.spread {
            Spread::Own => {
                let own = self.own(task);
                let task = self.share.number(task);
                if own == 0 {
                    // Fewer locks than tasks: only a driver's own loop is asked for that.
                    return task % self.locks;
                }
                task + self.tasks * u32::try_from(cycle % u64::from(own)).unwrap_or(0)
            }
            Spread::One => 0,
            Spread::Uniform => random.random_range(0..self.locks),
            Spread::Zipf => {
                let u: f64 = random.random_range(0.0..1.0);
                let at = self.shares.partition_point(|share| *share <= u);
                u32::try_from(at).unwrap_or(u32::MAX).min(self.locks - 1)
            }
        }
    }

    /// How many locks are a task's own: t, t + tasks, t + 2 tasks, …
    pub(crate) fn own(&self, task: u32) -> u32 {
        self.locks.saturating_sub(self.share.number(task)).div_ceil(self.tasks)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::workload::WORKLOADS;

    fn keys(spread: Spread, tasks: u32, locks: usize, share: GeneratorShare) -> Keys {
        let workload = WORKLOADS.iter().find(|workload| workload.spread == spread);
        Keys::new(&Load {
            workload: workload.expect("each spread has one"),
            tasks,
            share,
            locks: vec![String::new(); locks],
            ..Load::default()
        })
    }

    fn taken(spread: Spread, tasks: u32, locks: usize, n: u64) -> Vec<u32> {
        let keys = keys(spread, tasks, locks, GeneratorShare::WHOLE);
        let mut random = ChaCha8Rng::seed_from_u64(3);
        (0..n).map(|cycle| keys.next(0, cycle, &mut random)).collect()
    }

    #[test]
    fn tasks_beyond_the_locks_share_them() {
        let keys = keys(Spread::Own, 5, 2, GeneratorShare::WHOLE);
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let locks: Vec<u32> = (0..5).map(|task| keys.next(task, 7, &mut random)).collect();
        assert_eq!(locks, [0, 1, 0, 1, 0]);
    }

    #[test]
    fn own_locks_are_nobody_elses() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for of in [1, 2, 3] {
            let mut taken = std::collections::BTreeMap::new();
            for share in (0..of).map(|index| GeneratorShare { index, of }) {
                let keys = keys(Spread::Own, 3, 8, share);
                for (task, cycle) in (0..share.count(3)).flat_map(|t| (0..20).map(move |c| (t, c))) {
                    let lock = keys.next(task, cycle, &mut random);
                    let whose = (share.index, task);
                    assert_eq!(*taken.entry(lock).or_insert(whose), whose, "lock {lock}");
                }
            }
            assert_eq!(taken.len(), 8, "every lock is used: {taken:?}");
        }
    }

    #[test]
    fn uniform_takes_every_lock_alike() {
        let mut counts = [0_u32; 20];
        for lock in taken(Spread::Uniform, 4, 20, 20_000) {
            counts[lock as usize] += 1;
        }
        // 1,000 each, with a standard deviation of 31.
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn zipf_prefers_the_first_by_its_law() {
        let n = 100_000;
        let mut counts = [0_f64; 1_000];
        for lock in taken(Spread::Zipf, 4, 1_000, n) {
            counts[lock as usize] += 1.0;
        }
        let harmonic: f64 = (1..=1_000).map(|k| f64::from(k).powf(-ZIPF)).sum();
        for rank in [1, 2, 10] {
            let wanted = n as f64 * f64::from(rank).powf(-ZIPF) / harmonic;
            let seen = counts[rank as usize - 1];
            assert!((seen - wanted).abs() < 5.0 * wanted.sqrt(), "rank {rank}: {seen}, not {wanted}");
        }
    }
}
