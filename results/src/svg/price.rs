//! The chart of what safety costs: throughput upwards, violations per minute to the right.
//!
//! Configurations without a violation, which no logarithmic axis can hold, have a lane of their own.

use itertools::Itertools;

use super::axis::Axis;
use super::canvas::{self, CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::wording::units;

/// One configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PricePoint {
    /// Its name.
    pub label: String,
    /// Cycles or grants per second.
    pub throughput: f64,
    /// Violations of the contract per minute.
    pub violations_per_min: f64,
}

const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 390.0;
/// Where the lane without violations ends and the logarithmic axis begins.
const LANE: f64 = 400.0;
/// Two labels nearer than this would touch.
const LINE: f64 = 17.0;

/// The chart; `upright` says which throughput it is. Points without one are left out.
pub fn price(points: &[PricePoint], upright: &str) -> Chart {
    let points = points
        .iter()
        .filter(|point| point.throughput.is_finite())
        .sorted_by(|a, b| b.throughput.total_cmp(&a.throughput).then_with(|| a.label.cmp(&b.label)));
    let points: Vec<&PricePoint> = points.collect();
    let up = Axis::from_zero(points.iter().map(|point| point.throughput), (BOTTOM - 8.0, TOP + 8.0));
    let across = Axis::log(points.iter().map(|point| point.violations_per_min), (LANE + 20.0, WIDTH - 30.0));
    // Without a violation there is nothing beyond the lane, and it has the room for whole labels.
    let all_clean = points.iter().all(|point| point.violations_per_min <= 0.0);
    let lane = if all_clean { WIDTH - 10.0 } else { LANE };
    let mut canvas = Canvas::default();
    canvas.rect("c-lane", (LEFT, TOP), (lane - LEFT, BOTTOM - TOP), "");
    up.draw_left(&mut canvas, LEFT, WIDTH - 10.0, units::figure);
    canvas.line("c-axis", (LEFT, BOTTOM), (lane, BOTTOM));
    let level = "contract violations per minute (logarithmic)";
    let (in_lane, right) = ((LEFT + lane) / 2.0, (LANE + WIDTH) / 2.0);
    canvas.text("c-muted", (0.0, 14.0), upright);
    canvas.text("c-muted c-mid", (in_lane, BOTTOM + 16.0), "0");
    if !all_clean {
        across.draw_below(&mut canvas, TOP, BOTTOM, units::figure);
        canvas.text("c-muted c-mid", (right, BOTTOM + 38.0), level);
    }
    canvas.text("c-strong c-mid", (in_lane, BOTTOM + 38.0), "no violation seen");
    for clean in [true, false] {
        let mut lowest = f64::MIN;
        for point in points.iter().filter(|point: &&&PricePoint| (point.violations_per_min <= 0.0) == clean) {
            let y = up.at(point.throughput);
            let x = if clean { LEFT + 24.0 } else { across.at(point.violations_per_min) };
            let tip = words(point, "contract violations");
            // Labels go down where they would touch the one before; a thin line leads back to the point.
            let label_y = y.max(lowest + LINE);
            lowest = label_y;
            let room = if clean { lane - LEFT - 60.0 } else { 260.0 };
            let label = canvas::fit(&point.label, room);
            let width = label.chars().count() as f64 * CHARACTER;
            let leftwards = !clean && x + 14.0 + width > WIDTH;
            let (class, way) = if leftwards { ("c-end", -1.0) } else { ("", 1.0) };
            if label_y - y > 2.0 {
                canvas.line("c-leader", (x, y), (x + 11.0 * way, label_y));
            }
            match clean {
                true => canvas.circle("c-1", (x, y), 6.0, &tip),
                false => canvas.diamond("c-bad", (x, y), 7.0, &tip),
            }
            canvas.text(class, (x + 14.0 * way, label_y + 4.0), &label);
        }
    }
    let described = points.iter().map(|point| words(point, "violations")).format("; ");
    let described = format!("Throughput against contract violations. {described}.");
    Chart::new("The price of safety", described, BOTTOM + 48.0, canvas)
}

fn words(point: &PricePoint, what: &str) -> String {
    let (label, grants) = (&point.label, units::figure(point.throughput));
    let count = units::figure(point.violations_per_min);
    format!("{label}: {grants} grants per second, {count} {what} per minute")
}
