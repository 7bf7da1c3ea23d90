//! Series whose truth is known, for the tests of the methods.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A normal deviate (Box and Muller).
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (random.random_range(0.0..1.0), random.random_range(0.0..1.0));
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A stationary series of mean 0 and variance 1 whose neighbours are correlated by `phi`.
pub(crate) fn autoregressive(random: &mut ChaCha8Rng, phi: f64, length: usize) -> Vec<f64> {
    let fresh = (1.0 - phi * phi).sqrt();
    let mut value = normal(random);
    (0..length)
        .map(|_| {
            value = phi * value + fresh * normal(random);
            value
        })
        .collect()
}

pub(crate) fn share(trials: u64, mut held: impl FnMut(u64) -> bool) -> f64 {
    (0..trials).filter(|trial| held(*trial)).count() as f64 / trials as f64
}
