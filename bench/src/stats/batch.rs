//! The interval of the mean of counts per stretch of time, although neighbours resemble each other.

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
    // The mean taken off is one of the same values: neighbours look less alike by one in the round's length.
    let bias = rounds.len() as f64 / number as f64;
    let lag1 = if variance > 0.0 { neighbours / pairs / variance + bias } else { 0.0 };
    let left = lag1.clamp(0.0, 0.9);
    let error = (variance / number as f64 * (1.0 + left) / (1.0 - left)).sqrt();
    let half = student_quantile(0.025, freedom) * error;
    Batches { interval: Interval { low: mean - half, high: mean + half }, length, lag1 }
}
