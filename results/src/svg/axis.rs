//! Axes: where values lie in pixels, and at which of them ticks stand; linear or logarithmic.

use itertools::Itertools;

use super::canvas::Canvas;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// From zero or below to a maximum.
    Linear,
    /// By powers of ten; values must be greater than zero.
    Log,
}

/// One axis: values from `min` to `max` over the pixels `from` to `to` (which may run backwards).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    scale: Scale,
    min: f64,
    max: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(scale: Scale, (min, max): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { scale, min, max, from, to }
    }

    /// An axis from zero to at least the largest of `values`, rounded up to a whole tick.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let max = if largest > 0.0 { largest } else { 1.0 };
        let step = step(0.0, max);
        Self::new(Scale::Linear, (0.0, (max / step).ceil() * step), pixels)
    }

    /// A linear axis over exactly `min` to `max`.
    pub(crate) fn exact(min: f64, max: f64, pixels: (f64, f64)) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        Self::new(Scale::Linear, (min, max), pixels)
    }

    /// A logarithmic axis over exactly `min` to `max`, both greater than zero.
    pub(crate) fn log_exact(min: f64, max: f64, pixels: (f64, f64)) -> Self {
        let min = min.max(f64::MIN_POSITIVE);
        let max = if max > min { max } else { min * 10.0 };
        Self::new(Scale::Log, (min, max), pixels)
    }

    /// A logarithmic axis that holds all `values` that are greater than zero, over at least a decade.
    pub(crate) fn log(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let (min, max) = values.minmax_by(f64::total_cmp).into_option().unwrap_or((1.0, 10.0));
        let low = half_decade_below(min);
        let high = half_decade_above(max);
        let high = if high / low < 9.9 { low * 10.0 } else { high };
        Self::new(Scale::Log, (low, high), pixels)
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value.max(f64::MIN_POSITIVE) / self.min).log10() / (self.max / self.min).log10(),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.min, self.max);
                let first = (self.min / step).ceil() as i64;
                let last = (self.max / step + 1e-9).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.max / self.min).log10();
                let factors: &[f64] = match decades {
                    ..1.6 => &[1.0, 2.0, 5.0],
                    ..3.2 => &[1.0, 3.0],
                    _ => &[1.0],
                };
                let first = self.min.log10().floor() as i32;
                let last = self.max.log10().ceil() as i32;
                let all = (first..=last).cartesian_product(factors);
                let all = all.map(|(power, factor)| factor * 10_f64.powi(power));
                let within = self.min * 0.999..=self.max * 1.001;
                all.filter(|tick| within.contains(tick)).collect()
            }
        }
    }

    /// Draws upright grid lines from `top` to `bottom`, with labels below.
    pub(crate) fn draw_below(
        &self,
        canvas: &mut Canvas,
        top: f64,
        bottom: f64,
        label: impl Fn(f64) -> String,
    ) {
        let ticks = self.ticks().into_iter().map(|tick| (self.at(tick), label(tick)));
        draw_ticks(canvas, top, bottom, ticks.collect());
        canvas.line("c-axis", (self.from, bottom), (self.to, bottom));
    }

    /// Says below an upright axis's labels what it shows.
    pub(crate) fn name_below(&self, canvas: &mut Canvas, bottom: f64, name: &str) {
        canvas.text("c-muted c-mid", ((self.from + self.to) / 2.0, bottom + 36.0), name);
    }

    /// Draws level grid lines from `left` to `right`, with labels at their left.
    pub(crate) fn draw_left(
        &self,
        canvas: &mut Canvas,
        left: f64,
        right: f64,
        label: impl Fn(f64) -> String,
    ) {
        let ticks = self.ticks().into_iter().map(|tick| (self.at(tick), label(tick)));
        let ticks: Vec<(f64, String)> = ticks.collect();
        let grid: Vec<_> = (ticks.iter().map(|(y, _)| [(left, *y), (right, *y)])).collect();
        canvas.lines("c-grid", &grid);
        let labels = ticks.into_iter().map(|(y, label)| ((left - 8.0, y + 4.0), label));
        canvas.texts("c-muted c-end", &labels.collect::<Vec<_>>());
    }
}

/// Draws upright grid lines with labels below, which may be empty.
pub(crate) fn draw_ticks(canvas: &mut Canvas, top: f64, bottom: f64, ticks: Vec<(f64, String)>) {
    let grid: Vec<_> = (ticks.iter().map(|(x, _)| [(*x, top), (*x, bottom)])).collect();
    canvas.lines("c-grid", &grid);
    let labels = ticks.into_iter().filter(|(_, label)| !label.is_empty());
    let labels = labels.map(|(x, label)| ((x, bottom + 16.0), label));
    canvas.texts("c-muted c-mid", &labels.collect::<Vec<_>>());
}

/// A step of 1, 2 or 5 times a power of ten that makes four to nine ticks.
fn step(min: f64, max: f64) -> f64 {
    let rough = (max - min) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = rough / power;
    let round = match factor {
        ..1.5 => 1.0,
        ..3.5 => 2.0,
        ..7.5 => 5.0,
        _ => 10.0,
    };
    round * power
}

fn half_decade_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    power * if value >= power * 3.0 { 3.0 } else { 1.0 }
}

fn half_decade_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    power * if value <= power * 3.0 { 3.0 } else { 10.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_cover_the_values() {
        let axis = Axis::from_zero([71_020.0, 744.0].into_iter(), (0.0, 100.0));
        assert_eq!(axis.ticks(), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
        assert_eq!(axis.at(0.0), 0.0);
        assert_eq!(axis.at(80_000.0), 100.0);
    }

    #[test]
    fn log_axes_hold_every_value() {
        let axis = Axis::log([0.4, 84.0].into_iter(), (0.0, 100.0));
        assert!(axis.at(0.4) > 0.0 && axis.at(84.0) < 100.0);
        assert!(axis.ticks().iter().any(|tick| (tick - 1.0).abs() < 1e-9));
    }

    #[test]
    fn axes_of_nothing_still_have_ticks() {
        assert!(Axis::from_zero([].into_iter(), (0.0, 1.0)).ticks().len() > 2);
        let nothing = Axis::log([f64::NAN, 0.0].into_iter(), (0.0, 1.0));
        assert!(nothing.ticks().len() > 1);
        assert!(Axis::exact(5.0, 5.0, (0.0, 1.0)).at(5.0).is_finite());
    }

    proptest::proptest! {
        #[test]
        fn a_tick_lies_inside_and_there_are_not_too_many(a in 1e-6..1e9_f64, b in 1e-6..1e9_f64) {
            for axis in [Axis::log([a, b].into_iter(), (0.0, 100.0)), Axis::from_zero([a, b].into_iter(), (0.0, 100.0))] {
                let ticks = axis.ticks();
                proptest::prop_assert!((2..=20).contains(&ticks.len()), "{ticks:?}");
                for tick in ticks {
                    proptest::prop_assert!((0.0..=100.0).contains(&axis.at(tick)));
                }
            }
        }
    }
}
