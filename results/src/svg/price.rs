//! The chart of what safety costs, configuration by configuration: throughput upwards, violations per minute to the right.
//!
//! Most good configurations have no violation at all, which no logarithmic axis can hold; they have a lane of their own.

use super::axis::Axis;
use super::canvas::{self, CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::units;

/// One configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PricePoint {
    /// Its name.
    pub label: String,
    /// Grants per second.
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

/// The chart. Points without a throughput are left out.
pub fn price(points: &[PricePoint]) -> Chart {
    let mut points: Vec<&PricePoint> = points
        .iter()
        .filter(|point| point.throughput.is_finite())
        .collect();
    points.sort_by(|a, b| {
        b.throughput
            .total_cmp(&a.throughput)
            .then_with(|| a.label.cmp(&b.label))
    });
    let up = Axis::from_zero(
        points.iter().map(|point| point.throughput),
        (BOTTOM - 8.0, TOP + 8.0),
    );
    let across = Axis::log(
        points.iter().map(|point| point.violations_per_min),
        (LANE + 20.0, WIDTH - 30.0),
    );
    let mut canvas = Canvas::default();
    canvas.rect("c-lane", (LEFT, TOP), (LANE - LEFT, BOTTOM - TOP), "");
    up.draw_left(&mut canvas, LEFT, WIDTH - 10.0, units::figure);
    across.draw_below(&mut canvas, TOP, BOTTOM, units::figure);
    canvas.line("c-axis", (LEFT, BOTTOM), (LANE, BOTTOM));
    canvas.text(
        "c-muted",
        (0.0, 14.0),
        "grants per second under the faults of the scenario",
    );
    canvas.text("c-muted c-mid", ((LEFT + LANE) / 2.0, BOTTOM + 16.0), "0");
    canvas.text(
        "c-muted c-mid",
        ((LANE + WIDTH) / 2.0, BOTTOM + 38.0),
        "contract violations per minute (logarithmic)",
    );
    canvas.text(
        "c-strong c-mid",
        ((LEFT + LANE) / 2.0, BOTTOM + 38.0),
        "no violation seen",
    );
    for clean in [true, false] {
        let mut lowest = f64::MIN;
        for point in points
            .iter()
            .filter(|point| (point.violations_per_min <= 0.0) == clean)
        {
            let y = up.at(point.throughput);
            let x = if clean {
                LEFT + 24.0
            } else {
                across.at(point.violations_per_min)
            };
            let tip = format!(
                "{}: {} grants per second, {} contract violations per minute",
                point.label,
                units::figure(point.throughput),
                units::figure(point.violations_per_min)
            );
            // Labels go downwards where they would touch the one before; a thin line then leads back to the point.
            let label_y = y.max(lowest + LINE);
            lowest = label_y;
            let (label, width) = if clean {
                (canvas::fit(&point.label, LANE - LEFT - 60.0), 0.0)
            } else {
                let label = canvas::fit(&point.label, 260.0);
                let width = label.chars().count() as f64 * CHARACTER;
                (label, width)
            };
            let leftwards = !clean && x + 14.0 + width > WIDTH;
            let label_x = if leftwards { x - 14.0 } else { x + 14.0 };
            if label_y - y > 2.0 {
                let end = if leftwards {
                    label_x + 3.0
                } else {
                    label_x - 3.0
                };
                canvas.line("c-leader", (x, y), (end, label_y));
            }
            if clean {
                canvas.circle("c-1", (x, y), 6.0, &tip);
            } else {
                canvas.diamond("c-bad", (x, y), 7.0, &tip);
            }
            canvas.text(
                if leftwards { "c-end" } else { "" },
                (label_x, label_y + 4.0),
                &label,
            );
        }
    }
    let described: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "{}: {} grants per second, {} violations per minute",
                point.label,
                units::figure(point.throughput),
                units::figure(point.violations_per_min)
            )
        })
        .collect();
    Chart::new(
        "The price of safety",
        format!(
            "Throughput against contract violations. {}.",
            described.join("; ")
        ),
        BOTTOM + 48.0,
        canvas,
    )
}
