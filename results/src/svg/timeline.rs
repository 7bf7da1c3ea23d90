//! Holds around an anomaly as bars, one lane per owner, with overlaps marked and faults shaded.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::canvas::{self, Canvas};
use super::lines::color;
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
    let pixels = (LEFT, WIDTH - RIGHT);
    let axis = Axis::exact(data.from_ns as f64, data.to_ns as f64, pixels);
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
        let name = canvas::fit(&format!("{client} / {owner}"), LEFT - 12.0);
        canvas.text("c-end", (LEFT - 10.0, y + 20.0), &name);
        let color = color(clients.iter().take_while(|name| *name < client).count());
        let own = |c: &str, o: &str| (c, o) == (*client, *owner);
        for hold in data.holds.iter().filter(|one| own(&one.client, &one.owner)) {
            let (x, width) = span(hold.from_ns, hold.to_ns);
            let size = (width.max(1.5), LANE - 14.0);
            canvas.rect(&format!("c-{color}"), (x, y + 7.0), size, &tip(hold));
        }
        let operations = data.operations.iter();
        for operation in operations.filter(|one| own(&one.client, &one.owner)) {
            let (x, width) = span(operation.from_ns, operation.to_ns);
            let class = match operation.end.as_str() {
                "" | "unknown" => "c-op-unknown",
                _ => "c-op",
            };
            let (at, size) = ((x, y + LANE - 6.0), (width.max(1.5), 3.0));
            canvas.rect(class, at, size, &operation_tip(operation));
        }
    }
    for overlap in &data.overlaps {
        let (x, width) = span(overlap.from_ns, Some(overlap.to_ns));
        let long = units::duration(overlap.to_ns.saturating_sub(overlap.from_ns));
        let from = units::instant(overlap.from_ns);
        let tip = format!("two at once for {long}, from {from}");
        canvas.rect("c-over", (x, TOP), (width.max(2.0), bottom - TOP), &tip);
    }
    let (lock, class) = (&data.lock, &data.class);
    let mut note = format!("lock {lock}, {class} intervals, seconds since the run began");
    if data.omitted > 0 {
        let holds = units::count(data.omitted);
        note += &format!("; {holds} further holds are not drawn");
    }
    canvas.text("c-muted", (LEFT, bottom + 36.0), &note);
    let [from, to] = [data.from_ns, data.to_ns].map(units::instant);
    let described = format!(
        "{} holds by {} owners from {from} to {to}, {} overlaps, {} faults.",
        data.holds.len(),
        owners.len(),
        data.overlaps.len(),
        data.faults.len()
    );
    let title = format!("Who held {lock} around the worst anomaly");
    Chart::new(&title, described, bottom + 44.0, canvas)
}

fn tip(hold: &HoldBar) -> String {
    let end = match hold.to_ns {
        Some(to_ns) => {
            let long = units::duration(to_ns.saturating_sub(hold.from_ns));
            format!("to {} ({long})", units::instant(to_ns))
        }
        None => "without an end in this history".to_owned(),
    };
    let by = units::enclosed(", ended by ", &hold.ended_by, "");
    let (grant, client, owner) = (&hold.grant, &hold.client, &hold.owner);
    let from = units::instant(hold.from_ns);
    format!("{grant} {client}/{owner} from {from} {end}{by}")
}

fn operation_tip(operation: &OperationBar) -> String {
    let grant = units::enclosed(" ", &operation.grant, "");
    let end = match operation.to_ns {
        Some(to_ns) => format!("answered {} at {}", operation.end, units::instant(to_ns)),
        None => "without an answer in this history".to_owned(),
    };
    let (op, client, owner) = (&operation.op, &operation.client, &operation.owner);
    let called = units::instant(operation.from_ns);
    format!("{op}{grant} by {client}/{owner} called at {called}, {end}")
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
