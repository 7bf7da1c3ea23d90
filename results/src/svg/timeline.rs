//! Holds around an anomaly as bars, one lane per owner, with overlaps marked and faults shaded.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::canvas::{self, Canvas};
use super::{Chart, WIDTH};
use crate::timeline::{HoldBar, OperationBar, TimelineData};
use crate::units;

const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const LANE: f64 = 30.0;

/// The chart of who held when. Clients have a colour each, and lanes of their own, so that colour is only a help.
pub fn timeline(data: &TimelineData) -> Chart {
    let owners = data.owners();
    let clients: BTreeSet<&str> = owners.iter().map(|(client, _)| *client).collect();
    let bottom = TOP + LANE * owners.len().max(1) as f64 + 6.0;
    let axis = Axis::exact(
        data.from_ns as f64,
        data.to_ns as f64,
        (LEFT, WIDTH - RIGHT),
    );
    let span = |from_ns: u64, to_ns: Option<u64>| {
        let x1 = axis.at(from_ns.max(data.from_ns) as f64);
        let x2 = axis.at(to_ns.unwrap_or(data.to_ns).min(data.to_ns) as f64);
        (x1, x2 - x1)
    };
    let mut canvas = Canvas::default();
    for fault in &data.faults {
        let (x, width) = span(fault.from_ns, fault.to_ns);
        canvas.rect("c-fault", (x, TOP), (width, bottom - TOP), &fault.label);
    }
    axis.draw_below(&mut canvas, TOP, bottom, |ns| seconds(ns, data));
    labels_of_faults(&mut canvas, data, |ns| axis.at(ns.max(data.from_ns) as f64));
    for (index, (client, owner)) in owners.iter().enumerate() {
        let y = TOP + LANE * index as f64;
        canvas.text(
            "c-end",
            (LEFT - 10.0, y + 20.0),
            &canvas::fit(&format!("{client} / {owner}"), LEFT - 12.0),
        );
        let color = clients
            .iter()
            .position(|name| name == client)
            .unwrap_or_default()
            % 6
            + 1;
        for hold in data
            .holds
            .iter()
            .filter(|hold| (hold.client.as_str(), hold.owner.as_str()) == (*client, *owner))
        {
            let (x, width) = span(hold.from_ns, hold.to_ns);
            canvas.rect(
                &format!("c-{color}"),
                (x, y + 7.0),
                (width.max(1.5), LANE - 14.0),
                &tip(hold),
            );
        }
        let own = data.operations.iter().filter(|operation| {
            (operation.client.as_str(), operation.owner.as_str()) == (*client, *owner)
        });
        for operation in own {
            let (x, width) = span(operation.from_ns, operation.to_ns);
            let class = match operation.end.as_str() {
                "" | "unknown" => "c-op-unknown",
                _ => "c-op",
            };
            canvas.rect(
                class,
                (x, y + LANE - 6.0),
                (width.max(1.5), 3.0),
                &operation_tip(operation),
            );
        }
    }
    for overlap in &data.overlaps {
        let (x, width) = span(overlap.from_ns, Some(overlap.to_ns));
        let tip = format!(
            "two at once for {}, from {}",
            units::duration(overlap.to_ns.saturating_sub(overlap.from_ns)),
            units::instant(overlap.from_ns)
        );
        canvas.rect("c-over", (x, TOP), (width.max(2.0), bottom - TOP), &tip);
    }
    let mut note = format!(
        "lock {}, {} intervals, seconds since the run began",
        data.lock, data.class
    );
    if data.omitted > 0 {
        note.push_str(&format!(
            "; {} further holds are not drawn",
            units::count(data.omitted)
        ));
    }
    canvas.text("c-muted", (LEFT, bottom + 36.0), &note);
    Chart::new(
        &format!("Who held {} around the worst anomaly", data.lock),
        format!(
            "{} holds by {} owners from {} to {}, {} overlaps, {} faults.",
            data.holds.len(),
            owners.len(),
            units::instant(data.from_ns),
            units::instant(data.to_ns),
            data.overlaps.len(),
            data.faults.len()
        ),
        bottom + 44.0,
        canvas,
    )
}

fn tip(hold: &HoldBar) -> String {
    let end = match hold.to_ns {
        Some(to_ns) => format!(
            "to {} ({})",
            units::instant(to_ns),
            units::duration(to_ns.saturating_sub(hold.from_ns))
        ),
        None => "without an end in this history".to_owned(),
    };
    let by = if hold.ended_by.is_empty() {
        String::new()
    } else {
        format!(", ended by {}", hold.ended_by)
    };
    format!(
        "{} {}/{} from {} {end}{by}",
        hold.grant,
        hold.client,
        hold.owner,
        units::instant(hold.from_ns)
    )
}

fn operation_tip(operation: &OperationBar) -> String {
    let grant = if operation.grant.is_empty() {
        String::new()
    } else {
        format!(" {}", operation.grant)
    };
    let end = match operation.to_ns {
        Some(to_ns) => format!("answered {} at {}", operation.end, units::instant(to_ns)),
        None => "without an answer in this history".to_owned(),
    };
    format!(
        "{}{grant} by {}/{} called at {}, {end}",
        operation.op,
        operation.client,
        operation.owner,
        units::instant(operation.from_ns)
    )
}

/// Names of faults above the lanes, as far as they do not run into each other: the rest show on pointing.
fn labels_of_faults(canvas: &mut Canvas, data: &TimelineData, at: impl Fn(u64) -> f64) {
    let mut free = LEFT;
    for fault in &data.faults {
        let x = at(fault.from_ns).max(free);
        let room = WIDTH - RIGHT - x;
        if room < 60.0 {
            continue;
        }
        let label = canvas::fit(&fault.label, room.min(300.0));
        canvas.text("c-muted", (x, TOP - 8.0), &label);
        free = x + label.chars().count() as f64 * canvas::CHARACTER + 16.0;
    }
}

/// As many decimals as the window needs.
fn seconds(ns: f64, data: &TimelineData) -> String {
    let length_ns = data.to_ns.saturating_sub(data.from_ns);
    let decimals = match length_ns {
        0..5_000_000 => 5,
        5_000_000..50_000_000 => 4,
        50_000_000..500_000_000 => 3,
        500_000_000..5_000_000_000 => 2,
        _ => 1,
    };
    format!("{:.decimals$} s", ns / 1e9)
}
