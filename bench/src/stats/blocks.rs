//! The interval of a quantile, from a small histogram per stretch of time: rounds are drawn, in each of them
//! blocks of neighbours, all is merged, and the quantile read (two-level moving-block bootstrap; Künsch 1989,
//! Kalibera and Jones 2013).
//!
//! Quantiles are never averaged: each resample is one merged histogram.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use results::measures::Interval;

use super::histogram::Coarse;
use super::special::{normal_tail, student_quantile};

/// With fewer rounds there is no interval: what differs from round to round cannot be seen in so few.
pub(crate) const FEWEST_ROUNDS: usize = 6;
const RESAMPLES: usize = 1_000;

/// The tail of a percentile interval over so many rounds. That of so few would be too narrow; it is moved
/// outwards so that it agrees with Student's where values are normal (Hesterberg 2015, "expanded percentile
/// interval").
fn expanded_tail(rounds: usize) -> f64 {
    let freedom = rounds as f64 - 1.0;
    normal_tail((rounds as f64 / freedom).sqrt() * student_quantile(0.025, freedom))
}

/// A 95 % interval of the `q`-quantile; `None` with fewer than six rounds that have samples.
pub(crate) fn quantile(rounds: &[&[Coarse]], q: f64, seed: u64) -> Option<Interval> {
    interval(rounds, q, seed, RESAMPLES)
}

fn interval(rounds: &[&[Coarse]], q: f64, seed: u64, resamples: usize) -> Option<Interval> {
    let rounds: Vec<&[Coarse]> =
        rounds.iter().copied().filter(|parts| parts.iter().any(|part| !part.is_empty())).collect();
    if rounds.len() < FEWEST_ROUNDS {
        return None;
    }
    let values: Vec<u64> = rounds
        .iter()
        .flat_map(|parts| parts.iter().flat_map(|part| part.keys().copied()))
        .collect::<BTreeSet<u64>>()
        .into_iter()
        .collect();
    let sums: Vec<Vec<Vec<u32>>> = rounds.iter().map(|parts| sums(parts, &values)).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut found: Vec<u64> = (0..resamples).map(|_| resample(&sums, &values, q, &mut random)).collect();
    found.sort_unstable();
    let tail = (expanded_tail(rounds.len()) * resamples as f64) as usize;
    Some(Interval { low: found[tail] as f64, high: found[resamples - 1 - tail] as f64 })
}

/// For each stretch how often each value was seen before it; the round twice, so that blocks may wrap.
fn sums(parts: &[Coarse], values: &[u64]) -> Vec<Vec<u32>> {
    let mut sums = vec![vec![0; values.len()]];
    for part in parts.iter().chain(parts) {
        let mut next = sums.last().expect("never empty").clone();
        for (value, count) in part {
            let at = values.binary_search(value).expect("every value is listed");
            next[at] += count;
        }
        sums.push(next);
    }
    sums
}

fn resample(sums: &[Vec<Vec<u32>>], values: &[u64], q: f64, random: &mut ChaCha8Rng) -> u64 {
    let mut counts = vec![0_u64; values.len()];
    for _ in 0..sums.len() {
        let round = &sums[random.random_range(0..sums.len())];
        let parts = (round.len() - 1) / 2;
        let block = (parts as f64).cbrt().ceil() as usize;
        let mut left = parts;
        while left > 0 {
            let from = random.random_range(0..parts);
            let length = block.min(left);
            let (upto, before) = (&round[from + length], &round[from]);
            for ((count, upto), before) in counts.iter_mut().zip(upto).zip(before) {
                *count += u64::from(upto - before);
            }
            left -= length;
        }
    }
    let total: u64 = counts.iter().sum();
    let rank = ((total as f64 * q).ceil() as u64).max(1);
    let mut below = 0;
    for (value, count) in values.iter().zip(&counts) {
        below += count;
        if below >= rank {
            return *value;
        }
    }
    values.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::series::{autoregressive, normal, share};

    /// A round of 8 stretches with 15 latencies each: normal logarithms around 1 ms, whose level differs from
    /// round to round and wanders within it. Rounded to 2.5 %, so that the test is quick: a quarter of the
    /// usual interval's half, so that few ends tie with the truth.
    fn round(random: &mut ChaCha8Rng, between: f64) -> Vec<Coarse> {
        let level = between * normal(random);
        let wander = autoregressive(random, 0.5, 8);
        wander
            .iter()
            .map(|drift| {
                let mut part = Coarse::new();
                for _ in 0..15 {
                    let log = level + 0.05 * drift + 0.3 * normal(random);
                    let rounded = (log * 40.0).round() / 40.0;
                    *part.entry((1e6 * rounded.exp()) as u64).or_default() += 1;
                }
                part
            })
            .collect()
    }

    #[test]
    fn few_rounds_have_no_interval() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let rounds: Vec<Vec<Coarse>> = (0..5).map(|_| round(&mut random, 0.1)).collect();
        let slices: Vec<&[Coarse]> = rounds.iter().map(Vec::as_slice).collect();
        assert_eq!(quantile(&slices, 0.5, 1), None);
        assert_eq!(quantile(&[[].as_slice(); 9], 0.5, 1), None);
    }

    #[test]
    fn a_burst_in_one_round_moves_the_tail_and_widens_its_interval() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut rounds: Vec<Vec<Coarse>> = (0..8).map(|_| round(&mut random, 0.0)).collect();
        let of = |rounds: &[Vec<Coarse>]| {
            let slices: Vec<&[Coarse]> = rounds.iter().map(Vec::as_slice).collect();
            quantile(&slices, 0.99, 1).unwrap()
        };
        let calm = of(&rounds);
        for part in &mut rounds[3][2..6] {
            part.insert(50_000_000, 20);
        }
        let burst = of(&rounds);
        assert!(burst.high >= 5e7 && burst.low < 5e7 && calm.high < 5e7, "{calm:?} {burst:?}");
    }

    /// By symmetry the true median of the merged population is 1 ms, whatever the spread between rounds.
    #[test]
    fn intervals_of_the_median_cover_the_truth_as_often_as_they_say() {
        let mut random = ChaCha8Rng::seed_from_u64(8);
        let covered = share(300, |trial| {
            let rounds: Vec<Vec<Coarse>> = (0..8).map(|_| round(&mut random, 0.25)).collect();
            let slices: Vec<&[Coarse]> = rounds.iter().map(Vec::as_slice).collect();
            let found = interval(&slices, 0.5, trial, 300).unwrap();
            found.low <= 1e6 && 1e6 <= found.high
        });
        assert!((0.93..=0.975).contains(&covered), "{covered}");
    }
}
