//! The order in which arms are measured, drawn from a seed before anything runs.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// The order of `arms` in each of `rounds`: a random permutation, then its reverse (ABBA), then the next one.
///
/// A drift of the machine that is steady over two rounds then touches all arms alike.
pub fn order(seed: u64, arms: usize, rounds: u32) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut orders: Vec<Vec<usize>> = Vec::new();
    for round in 0..rounds {
        let order = match orders.last() {
            Some(last) if round % 2 == 1 => last.iter().rev().copied().collect(),
            _ => {
                let mut order: Vec<usize> = (0..arms).collect();
                order.shuffle(&mut random);
                order
            }
        };
        orders.push(order);
    }
    orders
}
