//! The interval of the mean of counts per stretch of time, although neighbouring stretches resemble each
//! other.

use results::measures::Interval;

use super::special::student_quantile;

/// Fewer batches than this have no interval.
const FEWEST: usize = 20;
/// Neighbouring batches that resemble each other more than this are made longer.
const INDEPENDENT: f64 = 0.1;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// 95 % interval of the mean of one value.
    pub interval: Interval,
    /// Values per batch.
    pub length: usize,
    /// Autocorrelation of neighbouring batches that was left.
    pub lag1: f64,
}

/// Batch means: batches are doubled until neighbours no longer resemble each other (autocorrelation below
/// 0.1) or fewer than 20 would be left. Batches lie within rounds, and differences between rounds do not
/// count: the interval is that of the mean *in these rounds*. What autocorrelation is left widens it. `None`:
/// fewer than 20 batches, so no interval rather than a wrong one.
pub fn means(rounds: &[Vec<f64>]) -> Option<Batches> {
    let mut best = None;
    let mut length = 1;
    loop {
        let batches: Vec<Vec<f64>> = rounds
            .iter()
            .map(|round| {
                round.chunks_exact(length).map(|chunk| chunk.iter().sum::<f64>() / length as f64).collect()
            })
            .collect();
        let number = batches.iter().map(Vec::len).sum::<usize>();
        if number < FEWEST || number <= batches.len() {
            return best;
        }
        let found = interval(&batches, length, number);
        best = Some(found);
        if found.lag1 < INDEPENDENT {
            return best;
        }
        length *= 2;
    }
}

fn interval(rounds: &[Vec<f64>], length: usize, number: usize) -> Batches {
    let mut mean = 0.0;
    let (mut squares, mut neighbours, mut pairs) = (0.0, 0.0, 0.0);
    for round in rounds.iter().filter(|round| !round.is_empty()) {
        let k = round.len() as f64;
        let own = round.iter().sum::<f64>() / k;
        mean += own * k / number as f64;
        squares += round.iter().map(|x| (x - own).powi(2)).sum::<f64>();
        neighbours += round.windows(2).map(|w| (w[0] - own) * (w[1] - own)).sum::<f64>();
        pairs += k - 1.0;
    }
    let freedom = (number - rounds.len()) as f64;
    let variance = squares / freedom;
    // The mean that is taken off is a mean of the same values: it makes neighbours look less alike by one in
    // the round's length.
    let bias = rounds.len() as f64 / number as f64;
    let lag1 = if variance > 0.0 { neighbours / pairs / variance + bias } else { 0.0 };
    let left = lag1.clamp(0.0, 0.9);
    let error = (variance / number as f64 * (1.0 + left) / (1.0 - left)).sqrt();
    let half = student_quantile(0.025, freedom) * error;
    Batches { interval: Interval { low: mean - half, high: mean + half }, length, lag1 }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::stats::testing::{autoregressive, share};

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(means(&[vec![1.0; 19]]), None);
        assert!(means(&[vec![1.0; 20]]).is_some());
        assert_eq!(means(&[]), None);
    }

    #[test]
    fn batches_grow_where_neighbours_resemble_each_other() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let alike: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, 0.8, 200)).collect();
        let apart: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, 0.0, 200)).collect();
        assert!(means(&alike).unwrap().length >= 8);
        assert!(means(&apart).unwrap().length <= 2);
    }

    #[test]
    fn differences_between_rounds_do_not_count() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut rounds: Vec<Vec<f64>> = (0..4).map(|_| autoregressive(&mut random, 0.0, 40)).collect();
        let width = |rounds: &[Vec<f64>]| {
            let found = means(rounds).unwrap().interval;
            found.high - found.low
        };
        let before = width(&rounds);
        rounds[3].iter_mut().for_each(|x| *x += 1_000.0);
        assert!((width(&rounds) - before).abs() < 1e-6);
    }

    /// The mean of the process is 0. Six rounds of 40 stretches, as the driver makes them, from independent
    /// to very alike.
    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        for phi in [0.0, 0.3, 0.6] {
            let mut random = ChaCha8Rng::seed_from_u64(3);
            let covered = share(1_000, |_| {
                let rounds: Vec<Vec<f64>> = (0..6).map(|_| autoregressive(&mut random, phi, 40)).collect();
                let found = means(&rounds).unwrap().interval;
                found.low <= 0.0 && 0.0 <= found.high
            });
            assert!((0.93..=0.97).contains(&covered), "autocorrelation {phi}: {covered}");
        }
    }
}
