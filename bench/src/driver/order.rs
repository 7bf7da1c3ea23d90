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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(order(7, 4, 9), order(7, 4, 9));
        let others = (0..20).filter(|seed| order(*seed, 4, 9) != order(7, 4, 9));
        assert!(others.count() >= 18);
    }

    #[test]
    fn every_second_round_is_the_reverse_of_the_one_before() {
        let orders = order(3, 5, 6);
        for pair in orders.chunks_exact(2) {
            let mut back = pair[1].clone();
            back.reverse();
            assert_eq!(pair[0], back);
            back.sort_unstable();
            assert_eq!(back, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn either_of_two_arms_comes_first_sometimes() {
        let first = (0..40).filter(|seed| order(*seed, 2, 1)[0][0] == 0).count();
        assert!((5..=35).contains(&first), "{first} of 40");
    }
}
