//! What happened over one axis of time: grants, how long they took, holds, faults and overlaps.

use std::collections::BTreeSet;
use std::fmt::Write;

use itertools::Itertools;

use super::axis::Axis;
use super::canvas::{self, Canvas, color};
use super::{Chart, WIDTH};
use crate::record::over_time::OverTime;
use crate::record::timeline::{FaultBar, HoldBar, OperationBar, Span, TimelineData};
use crate::wording::units;

/// Names of lanes have so much room at least, and so much at most.
const LEFT: f64 = 110.0;
const LEFT_MAX: f64 = 190.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const LANE: f64 = 30.0;
const CURVE: f64 = 46.0;
/// Over a whole run so many owners have a lane: those of the overlap, and their neighbours.
const OWNERS_MAX: usize = 4;
/// The share of acquires that were faster; of few grants only the longest is known.
const TAILS: [(f64, &str); 2] = [(0.99, "p99"), (1.0, "longest")];

/// What is drawn over one axis.
#[derive(Debug, Clone, Default)]
pub struct TimeAxis<'a> {
    /// The picture's title.
    pub title: String,
    /// The time that it shows.
    pub window: Span,
    /// What was done to servers, links and clients.
    pub faults: &'a [FaultBar],
    /// Grants, and how long each took.
    pub over_time: Option<&'a OverTime>,
    /// Holds and operations, as far as they are known.
    pub held: Option<&'a TimelineData>,
}

/// The chart of who held when around an anomaly.
pub fn timeline(data: &TimelineData) -> Chart {
    time_axis(&TimeAxis {
        title: format!("Who held {} around the worst anomaly", data.lock),
        window: Span { from_ns: data.from_ns, to_ns: data.to_ns },
        faults: &data.faults,
        over_time: None,
        held: Some(data),
    })
}

/// All of it, aligned. Clients have a colour each, and lanes of their own, so that colour is only a help.
pub fn time_axis(data: &TimeAxis<'_>) -> Chart {
    let (from_ns, to_ns) = (data.window.from_ns, data.window.to_ns);
    let waits = data.over_time.and_then(|over| over.acquire.as_ref());
    let tail = waits.and_then(|waits| {
        let curves = TAILS.map(|(share, name)| (waits.interval_ns, name, waits.quantile(share)));
        curves.into_iter().find(|(_, _, values)| values.iter().flatten().nth(2).is_some())
    });
    let owners = owners(data);
    let curves = f64::from(u8::from(data.over_time.is_some()) + u8::from(tail.is_some()));
    let holds_top = TOP + CURVE * curves;
    let bottom = holds_top + LANE * owners.len() as f64 + 6.0;
    let left = room_for(&owners);
    let axis = Axis::exact(from_ns as f64, to_ns as f64, (left, WIDTH - RIGHT));
    let span = |start_ns: u64, end_ns: Option<u64>| {
        let x1 = axis.at(start_ns.max(from_ns) as f64);
        let x2 = axis.at(end_ns.unwrap_or(to_ns).min(to_ns) as f64);
        (x1, x2 - x1)
    };
    let mut canvas = Canvas::default();
    for fault in data.faults {
        let (x, width) = span(fault.from_ns, fault.to_ns);
        canvas.rect("c-fault", (x, TOP), (width.max(2.0), bottom - TOP), &fault_tip(fault));
    }
    axis.draw_below(&mut canvas, TOP, bottom, |ns| format!("{} s", (ns / 1e3).round() / 1e6));
    labels_of_faults(&mut canvas, left, data.faults, |ns| axis.at(ns.max(from_ns) as f64));
    let mut values = String::new();
    if let Some(over) = data.over_time {
        grants(&mut canvas, &axis, over, (left, TOP));
        let _ = write!(
            values,
            " data-part=\"{}\" data-grants=\"{}\"",
            over.part_ns,
            over.grants.iter().format(" ")
        );
    }
    if let Some((interval_ns, name, tail)) = &tail {
        tail_curve(&mut canvas, &axis, *interval_ns, tail, ((left, TOP + CURVE), *name));
        let words = tail.iter().map(|ns| ns.map_or("–".to_owned(), units::duration));
        let _ = write!(
            values,
            " data-name=\"{name}\" data-interval=\"{interval_ns}\" data-tail=\"{}\"",
            words.format("|")
        );
    }
    for (index, (client, owner)) in owners.iter().enumerate() {
        let y = holds_top + LANE * index as f64;
        lane_label(&mut canvas, (left, y), client, owner);
        let before = owners.iter().map(|(name, _)| name).unique();
        let color = color(before.take_while(|name| *name != client).count());
        let own = |c: &str, o: &str| (c, o) == (*client, *owner);
        for hold in data.held.iter().flat_map(|held| &held.holds).filter(|one| own(&one.client, &one.owner)) {
            let (x, width) = span(hold.from_ns, hold.to_ns);
            canvas.rect(&format!("c-{color}"), (x, y + 7.0), (width.max(1.5), LANE - 14.0), &tip(hold));
        }
        let operations = data.held.iter().flat_map(|held| &held.operations);
        for operation in operations.filter(|one| own(&one.client, &one.owner) && data.over_time.is_none()) {
            let (x, width) = span(operation.from_ns, operation.to_ns);
            let class = match operation.end.as_str() {
                "" | "unknown" => "c-op-unknown",
                _ => "c-op",
            };
            let (at, size) = ((x, y + LANE - 6.0), (width.max(1.5), 3.0));
            canvas.rect(class, at, size, &operation_tip(operation));
        }
    }
    let overlaps = data.held.map_or(&[][..], |held| &held.overlaps);
    for overlap in overlaps {
        let (x, width) = span(overlap.from_ns, Some(overlap.to_ns));
        let long = units::duration(overlap.to_ns.saturating_sub(overlap.from_ns));
        let from = units::instant(overlap.from_ns);
        let tip = format!("two at once for {long}, from {from}");
        canvas.rect("c-over", (x, TOP), (width.max(2.0), bottom - TOP), &tip);
    }
    canvas.text("c-muted", (left, bottom + 36.0), &note(data));
    let holds = data.held.map_or(0, |held| held.holds.len());
    let [from, to] = [from_ns, to_ns].map(units::instant);
    let described = format!(
        "{holds} holds by {} owners from {from} to {to}, {} overlaps, {} faults.",
        owners.len(),
        overlaps.len(),
        data.faults.len()
    );
    let values = match values.as_str() {
        "" => values,
        some => format!(" data-to=\"{to_ns}\" data-left=\"{left}\" data-right=\"{}\"{some}", WIDTH - RIGHT),
    };
    Chart::new(&data.title, described, bottom + 44.0, canvas).with_values(values)
}

/// Client and caller as one line, or as two where they are longer.
fn lane_lines(client: &str, owner: &str) -> Vec<String> {
    let whole = units::enclosed(&format!("{client} / "), owner, "");
    match () {
        () if owner.is_empty() => vec![client.to_owned()],
        () if whole.chars().count() as f64 * canvas::CHARACTER <= LEFT - 12.0 => vec![whole],
        () => vec![client.to_owned(), owner.to_owned()],
    }
}

/// Names of lanes as wide as they are, within bounds.
fn room_for(owners: &[(&str, &str)]) -> f64 {
    let lines = owners.iter().flat_map(|(client, owner)| lane_lines(client, owner));
    let most = lines.map(|line| line.chars().count()).max().unwrap_or(0);
    (most as f64 * canvas::CHARACTER + 12.0).clamp(LEFT, LEFT_MAX)
}

fn lane_label(canvas: &mut Canvas, (left, top): (f64, f64), client: &str, owner: &str) {
    let lines = lane_lines(client, owner);
    let first = if lines.len() > 1 { 13.0 } else { 20.0 };
    for (line, y) in lines.iter().zip([first, 26.0]) {
        canvas.text("c-end", (left - 10.0, top + y), &canvas::fit(line, left - 12.0));
    }
}

/// Client and caller of each lane; over a whole run those of the longest overlap first.
fn owners<'a>(data: &TimeAxis<'a>) -> Vec<(&'a str, &'a str)> {
    let Some(held) = data.held else {
        return Vec::new();
    };
    if data.over_time.is_none() {
        return held.owners().into_iter().collect();
    }
    let all = held.holds.iter().map(|hold| (hold.client.as_str(), hold.owner.as_str()));
    let two =
        held.two_owners().map(|(holds, _)| holds.map(|hold| (hold.client.as_str(), hold.owner.as_str())));
    let shown = two.into_iter().flatten().chain(all).unique().take(OWNERS_MAX);
    shown.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A tick for each part of the time with a grant, as high as it has grants.
fn grants(canvas: &mut Canvas, axis: &Axis, over: &OverTime, (left, top): (f64, f64)) {
    let most = over.grants.iter().max().copied().unwrap_or(1).max(1);
    let bottom = top + CURVE - 8.0;
    let ticks = over.grants.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, count)| {
        let x = axis.at((at as f64 + 0.5) * over.part_ns as f64);
        let high = 4.0 + (CURVE - 16.0) * f64::from(*count) / f64::from(most);
        [(x, bottom), (x, bottom - high)]
    });
    canvas.lines("c-tick", &ticks.collect::<Vec<_>>());
    label_of_curve(canvas, (left, top), "grants", &format!("to {most} in {}", units::duration(over.part_ns)));
}

/// How long the slowest of a hundred grants took.
fn tail_curve(
    canvas: &mut Canvas,
    axis: &Axis,
    interval_ns: u64,
    tail: &[Option<u64>],
    ((left, top), name): ((f64, f64), &str),
) {
    let most = tail.iter().flatten().max().copied().unwrap_or(1).max(1);
    let bottom = top + CURVE - 8.0;
    let points = tail.iter().enumerate().map(|(at, ns)| {
        let x = axis.at((at as f64 + 0.5) * interval_ns as f64);
        ns.map(|ns| (x, bottom - (CURVE - 12.0) * ns as f64 / most as f64))
    });
    let points = points.collect::<Vec<_>>();
    for stretch in points.split(Option::is_none) {
        let line: Vec<_> = stretch.iter().flatten().copied().collect();
        canvas.polyline("c-line c-line-1", &line, "time to a grant");
    }
    let dots = points.iter().flatten().map(|(x, y)| [(*x - 1.5, *y), (*x + 1.5, *y)]);
    canvas.lines("c-tick", &dots.collect::<Vec<_>>());
    label_of_curve(canvas, (left, top), name, &format!("to {}", units::duration(most)));
}

fn label_of_curve(canvas: &mut Canvas, (left, top): (f64, f64), name: &str, range: &str) {
    canvas.text("c-end", (left - 10.0, top + 18.0), name);
    canvas.text("c-muted c-end", (left - 10.0, top + 34.0), range);
}

fn note(data: &TimeAxis<'_>) -> String {
    let Some(held) = data.held else {
        return "seconds since the run began".to_owned();
    };
    let mut note = match held.lock.as_str() {
        "" => "the longest holds of the busiest locks, seconds since the watch began".to_owned(),
        lock => format!("lock {lock}, {} intervals, seconds since the run began", held.class),
    };
    if data.over_time.is_some() && !held.lock.is_empty() {
        let [from, to] = [held.from_ns, held.to_ns].map(units::instant);
        note += &format!("; holds are those from {from} to {to}");
    } else if held.omitted > 0 {
        note += &format!("; {} further holds are not drawn", units::count(held.omitted));
    }
    note
}

fn fault_tip(fault: &FaultBar) -> String {
    let healed = fault
        .to_ns
        .map_or("not healed in this run".to_owned(), |ns| format!("healed at {}", units::instant(ns)));
    format!("{}, from {}, {healed}", fault.label, units::instant(fault.from_ns))
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
fn labels_of_faults(canvas: &mut Canvas, left: f64, faults: &[FaultBar], at: impl Fn(u64) -> f64) {
    let mut free = left;
    for fault in faults {
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
