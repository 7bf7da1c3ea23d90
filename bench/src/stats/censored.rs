//! Quantiles of right-censored waits: one that gave up lasted longer than it was watched (Kaplan and Meier
//! 1958).

use hdrhistogram::Histogram;

/// The `q`-quantile of waits that ended in a grant, `granted`, and of waits that gave up, `gave_up`.
///
/// `None` where the quantile lies beyond what was watched: then all that can be said is "longer than the
/// timeout".
pub fn quantile(granted: &Histogram<u64>, gave_up: &Histogram<u64>, q: f64) -> Option<u64> {
    let mut lost = gave_up.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).peekable();
    let mut watched = granted.len() + gave_up.len();
    let mut still_waiting = 1.0;
    for at in granted.iter_recorded() {
        let value = at.value_iterated_to();
        // Of waits that ended at the same length, the grants came first: a wait that gives up was watched to
        // its end.
        while let Some((_, count)) = lost.next_if(|(given_up, _)| *given_up < value) {
            watched -= count;
        }
        let count = at.count_at_value();
        still_waiting *= 1.0 - count as f64 / watched as f64;
        watched -= count;
        if still_waiting <= 1.0 - q + 1e-12 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values.iter().for_each(|v| histogram.record(*v).unwrap());
        histogram
    }

    #[test]
    fn without_timeouts_it_is_the_plain_quantile() {
        let granted = histogram(&(1..=1_000).collect::<Vec<_>>());
        let none = histogram(&[]);
        assert_eq!(quantile(&granted, &none, 0.5), Some(500));
        assert_eq!(quantile(&granted, &none, 0.99), Some(990));
    }

    #[test]
    fn the_example_of_the_textbooks() {
        // Granted at 6 (three times), 7, 10, 13, 16, 22, 23; given up at 6, 9, 10, 11, 17, 19, 20, 25, 32,
        // 32, 34, 35: the remission times of Freireich et al. 1963, whose estimate is 0.448 at 23, so that
        // the median is 23.
        let granted = histogram(&[6, 6, 6, 7, 10, 13, 16, 22, 23]);
        let gave_up = histogram(&[6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]);
        assert_eq!(quantile(&granted, &gave_up, 0.5), Some(23));
        assert_eq!(quantile(&granted, &gave_up, 0.3), Some(13));
        assert_eq!(quantile(&granted, &gave_up, 0.9), None, "nobody waited so long");
    }

    #[test]
    fn waits_that_gave_up_pull_the_quantile_to_the_truth() {
        // Exponential waits of mean 1,000 whose patience is uniform up to 2,000; the true median is 693.
        let mut random = ChaCha8Rng::seed_from_u64(4);
        let (mut granted, mut gave_up) = (histogram(&[]), histogram(&[]));
        for _ in 0..20_000 {
            let wait = -1_000.0 * (1.0 - random.random_range(0.0..1.0_f64)).ln();
            let patience = random.random_range(0.0..2_000.0);
            let kept = if wait <= patience { &mut granted } else { &mut gave_up };
            kept.record(wait.min(patience) as u64).unwrap();
        }
        let median = quantile(&granted, &gave_up, 0.5).unwrap();
        assert!((670..720).contains(&median), "{median}");
        assert!(granted.value_at_quantile(0.5) < 500, "leaving them out would be far off");
    }
}
