//! What a hostile reader is shown of the gravest anomaly: a picture of it, and the few lines that prove it.

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::history::{Call, End, Entry, Event, Line, Phase};
use crate::record::timeline::{FaultBar, TimelineData};
use crate::wording::units;

/// What shows that a verdict is right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Proof {
    /// The holds, operations and faults around it.
    pub timeline: TimelineData,
    /// Lines of the history that convict by themselves, a valid history file; empty where none was found.
    pub slice: Vec<String>,
    /// How many lines the whole history has.
    pub of_lines: u64,
    /// Nothing of the slice can be left out; false where the search was ended before that was certain.
    pub shortest: bool,
}

/// Columns of the drawing, labels aside.
const WIDTH: usize = 72;
/// Columns of a label.
const LABEL: usize = 18;
/// Lanes and lines beyond these are counted, not shown: the picture and the file have them all.
const MOST: usize = 12;

impl Proof {
    /// The slice as the text of a history file.
    pub fn history(&self) -> String {
        let mut text = self.slice.join("\n");
        text.push('\n');
        text
    }

    /// Where in the subject's own source the grants of the slice were given, the last first.
    pub fn source_places(&self) -> Vec<String> {
        let lines = self.slice.iter().rev().filter_map(|line| Line::parse(line).ok());
        let places = lines.filter_map(|line| match line.entry {
            Entry::End { end: End::Ok { at, .. }, .. } => at,
            _ => None,
        });
        places.unique().collect()
    }

    /// The picture and the slice for a terminal, at most 100 columns wide.
    pub fn text(&self) -> String {
        let mut out = drawn(&self.timeline);
        if !self.slice.is_empty() {
            let most = if self.shortest { ", none of which can be left out" } else { "" };
            let (shown, all) = (self.slice.len(), units::count(self.of_lines));
            out += &format!("what convicts: {shown} of {all} lines{most}\n");
            for line in self.slice.iter().take(MOST) {
                out += &format!("  {}\n", in_words(line));
            }
            more(&mut out, self.slice.len(), "lines");
        }
        out
    }
}

fn more(out: &mut String, all: usize, what: &str) {
    if all > MOST {
        out.push_str(&format!("  … and {} further {what}\n", all - MOST));
    }
}

/// One lane per owner: `█` holds, `·` asks, `▾` extends or gives back, `*` marks the anomaly, `!` a fault.
fn drawn(data: &TimelineData) -> String {
    let [from, to] = [data.from_ns, data.to_ns].map(units::instant);
    let (lock, class) = (&data.lock, &data.class);
    let mut out = format!("lock {lock}, {class} intervals, {from} to {to}\n");
    let owners = data.owners();
    for (client, owner) in owners.iter().take(MOST) {
        let mut lane = Lane::new(data);
        let own = |c: &str, o: &str| c == *client && o == *owner;
        let own_operations = data.operations.iter();
        let (asks, others): (Vec<_>, Vec<_>) =
            own_operations.filter(|op| own(&op.client, &op.owner)).partition(|op| op.op == "acquire");
        for op in asks {
            lane.fill(op.from_ns, op.to_ns, '·');
        }
        let mut grants = Vec::new();
        for hold in data.holds.iter().filter(|h| own(&h.client, &h.owner)) {
            lane.fill(hold.from_ns, hold.to_ns, '█');
            grants.push(hold.grant.as_str());
        }
        for op in others {
            lane.fill(op.from_ns, Some(op.from_ns), '▾');
        }
        let named = match grants.as_slice() {
            [] => String::new(),
            [one] => format!("  {one}"),
            [first, .., last] => format!("  {first} … {last}"),
        };
        out.push_str(&lane.labelled(&format!("{client}/{owner}"), &named));
    }
    more(&mut out, owners.len(), "owners");
    if !data.overlaps.is_empty() {
        let mut lane = Lane::new(data);
        for overlap in &data.overlaps {
            lane.fill(overlap.from_ns, Some(overlap.to_ns), '*');
        }
        out.push_str(&lane.labelled("violated", ""));
    }
    for fault in data.faults.iter().take(MOST) {
        let mut lane = Lane::new(data);
        lane.fill(fault.from_ns, fault.to_ns, '!');
        out.push_str(&lane.labelled(&fault.label, &when(fault)));
    }
    more(&mut out, data.faults.len(), "faults");
    out
}

fn when(fault: &FaultBar) -> String {
    let healed = match fault.to_ns {
        Some(to_ns) => format!("healed {}", units::instant(to_ns)),
        None => "not healed".to_owned(),
    };
    format!("  {}, {healed}", units::instant(fault.from_ns))
}

/// One line of the drawing.
struct Lane<'a> {
    data: &'a TimelineData,
    cells: Vec<char>,
}

impl<'a> Lane<'a> {
    fn new(data: &'a TimelineData) -> Self {
        Self { data, cells: vec![' '; WIDTH] }
    }

    fn column(&self, t_ns: u64) -> usize {
        let length_ns = self.data.to_ns.saturating_sub(self.data.from_ns).max(1);
        // A damaged run may say that the window ends before it begins.
        let at_ns = t_ns.saturating_sub(self.data.from_ns).min(length_ns);
        usize::try_from(u128::from(at_ns) * (WIDTH as u128 - 1) / u128::from(length_ns)).unwrap_or(WIDTH - 1)
    }

    /// Marks a stretch by one column at least; what lies outside of the window is not drawn.
    fn fill(&mut self, from_ns: u64, to_ns: Option<u64>, mark: char) {
        let to_ns = to_ns.unwrap_or(u64::MAX);
        if to_ns < self.data.from_ns || from_ns > self.data.to_ns {
            return;
        }
        let (from, to) = (self.column(from_ns), self.column(to_ns));
        for cell in self.cells.iter_mut().take(to + 1).skip(from) {
            *cell = mark;
        }
    }

    fn labelled(&self, label: &str, after: &str) -> String {
        let label: String = label.chars().take(LABEL).collect();
        let line: String = self.cells.iter().collect();
        let text = format!("  {label:<LABEL$} |{line}|{after}");
        format!("{}\n", text.trim_end())
    }
}

/// A line of a history in words; one that cannot be read, as it is.
fn in_words(line: &str) -> String {
    let Ok(Line { t_ns, entry }) = Line::parse(line) else {
        return line.to_owned();
    };
    let what = match entry {
        Entry::Call { id, call } => match call {
            Call::Acquire(ask) => {
                let (client, owner, kind) = (&ask.client, &ask.owner, &ask.kind);
                let lease = ask.lease_ms.map(|ms| format!("{ms} ms")).unwrap_or("renewed".to_owned());
                let names = ask.names().join(", ");
                format!("{client}/{owner} asks for {names} ({kind}, lease {lease})  [{id}]")
            }
            Call::Extend { grant, lease_ms, .. } => format!("{grant} is extended by {lease_ms} ms  [{id}]"),
            Call::Release { grant } => format!("{grant} is released  [{id}]"),
        },
        Entry::End { id, end } => format!("answered {}  [{id}]", end.words()),
        Entry::Event(event) => match event {
            Event::Lost { grant, .. } => format!("{grant} is notified that it is lost"),
            Event::Write { grant, token, read, wrote, accepted, .. } => {
                let token = token.map(|token| format!(" with token {token}"));
                let wrote = wrote.zip(read);
                let wrote = wrote.map(|(wrote, read)| format!(" {wrote}, having read {read}"));
                let said = token.into_iter().chain(wrote).format("");
                let ending = if accepted { "accepted" } else { "refused" };
                format!("{grant} writes{said}: {ending}")
            }
            Event::Fault { fault, targets, phase, .. } => {
                let verb = match phase {
                    Phase::Inject => "begins",
                    Phase::Heal => "is healed",
                };
                format!("{fault} on {} {verb}", targets.join(", "))
            }
            Event::Crash { client } => format!("{client} dies"),
            Event::Probe { lock, ok } => {
                let verb = if ok { "take" } else { "refuse" };
                format!("the servers {verb} the probe of {lock}")
            }
            _ => line.to_owned(),
        },
    };
    format!("{:>12}  {what}", format!("{:.6} s", t_ns as f64 / 1e9))
}
