//! The few distributions that intervals need: normal, Student's t, the incomplete beta function below it.

/// The upper tail of the normal distribution (Abramowitz and Stegun 26.2.17; absolute error below 1e-7).
pub(super) fn normal_tail(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let coefficients = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let series = coefficients.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    density * series
}

/// Two-sided p-value of Student's t with so many degrees of freedom.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The value that Student's t exceeds with probability `tail` (0 to 0.5).
pub(super) fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    // 1e4 halved 50 times is below 1e-11.
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if student_two_sided(middle, freedom) > 2.0 * tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function by its continued fraction, evaluated as Lentz does (Numerical Recipes, 6.4).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges fast on one side of the mean only; the other side is its mirror image.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    let tiny = 1e-300;
    let guard = |v: f64| if v.abs() < tiny { tiny } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / guard(1.0 + step * d);
            c = guard(1.0 + step / c);
            sum *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * sum / a
}

/// Lanczos' approximation with five terms (relative error below 2e-10 for positive arguments).
fn ln_gamma(x: f64) -> f64 {
    let coefficients = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let shifted = x + 5.5;
    let mut series = 1.000_000_000_190_015;
    for (n, c) in (1..).zip(coefficients) {
        series += c / (x + f64::from(n));
    }
    (x + 0.5) * shifted.ln() - shifted + (2.506_628_274_631_000_5 * series / x).ln()
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
