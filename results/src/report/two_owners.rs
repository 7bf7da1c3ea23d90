//! The picture of two owners: two holds of a lock as bars over one axis, with their common time.

use crate::record::timeline::{HoldBar, TimelineData};
use crate::wording::units;

#[derive(Clone)]
pub(super) struct TwoOwners {
    pub(super) of: String,
    pub(super) words: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) overlap: Lane,
    pub(super) faults: Vec<Lane>,
}

/// A stretch of the axis, in percent.
#[derive(Clone)]
pub(super) struct Lane {
    pub(super) label: String,
    /// Its values, said on pointing.
    pub(super) about: String,
    pub(super) left: f64,
    pub(super) width: f64,
}

pub(super) fn two_owners(of: String, data: &TimelineData) -> Option<TwoOwners> {
    let (holds, overlap) = data.two_owners()?;
    let words = data.in_words()?;
    let length = data.to_ns.saturating_sub(data.from_ns).max(1) as f64;
    let lane = |label: String, from_ns: u64, to_ns: Option<u64>| {
        let percent = |ns: u64| {
            let inside = ns.min(data.to_ns).saturating_sub(data.from_ns);
            (inside as f64 / length * 1e4).round() / 100.0
        };
        let left = percent(from_ns);
        let width = (percent(to_ns.unwrap_or(data.to_ns)) - left).max(0.5);
        let to = to_ns.map_or("no end".to_owned(), units::instant);
        let about = format!("{label}, from {} to {to}", units::instant(from_ns));
        Lane { label, about, left, width }
    };
    let hold = |hold: &HoldBar, name: String| lane(name, hold.from_ns, hold.to_ns);
    let lanes = holds.into_iter().zip(data.names_of(holds)).map(|(one, name)| hold(one, name));
    let faults = data.faults.iter().map(|fault| lane(fault.label.clone(), fault.from_ns, fault.to_ns));
    let long = units::duration(overlap.to_ns.saturating_sub(overlap.from_ns));
    let together = format!("two owners for {long}");
    Some(TwoOwners {
        of,
        words,
        lanes: lanes.collect(),
        overlap: lane(together, overlap.from_ns, Some(overlap.to_ns)),
        faults: faults.collect(),
    })
}
