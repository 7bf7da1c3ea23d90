//! The few distributions that intervals need: normal and Student's t.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;

pub(super) fn normal_tail(x: f64) -> f64 {
    erfc(x / std::f64::consts::SQRT_2) / 2.0
}

/// Two-sided p-value of Student's t with so many degrees of freedom.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The value that Student's t exceeds with probability `tail` (0 to 0.5).
pub(super) fn student_quantile(tail: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are above 0").inverse_cdf(1.0 - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, tail, wanted) in [
            (1.0, 0.025, 12.706),
            (2.0, 0.025, 4.303),
            (5.0, 0.025, 2.571),
            (19.0, 0.025, 2.093),
            (5.0, 0.2, 0.920),
            (200.0, 0.025, 1.972),
        ] {
            let t = student_quantile(tail, freedom);
            assert!((t - wanted).abs() < 6e-4, "{freedom}, {tail}: {t}");
        }
    }

    #[test]
    fn p_values_are_those_of_the_tables() {
        assert!((student_two_sided(2.571, 5.0) - 0.05).abs() < 1e-4);
        assert!((student_two_sided(0.0, 7.0) - 1.0).abs() < 1e-9);
        assert!((normal_tail(1.959_964) - 0.025).abs() < 1e-5);
    }
}
