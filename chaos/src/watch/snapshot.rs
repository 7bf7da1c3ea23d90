//! Knows a lock by its key alone: name, value and end, as a look at a server finds them.

use results::watch::{Certainty, WatchFinding, WatchReport, WatchedHolder};

use super::finding_kinds::FindingKind;
use super::key_reads::KeyValue;
use super::patterns::{LibraryTrace, library, pattern_of};
use super::recipes::{is_token, sounds_like_a_lock};
use super::units::hash;

/// Who holds a lock; `None`: the key is none, as far as it shows. `left_ms` is what PTTL says.
pub(super) fn holder_of_key(
    name: &str,
    value: &KeyValue,
    left_ms: i64,
    show_values: bool,
) -> Option<WatchedHolder> {
    let (owner, recipe) = match value {
        KeyValue::Text(value) => (value, "SET NX"),
        KeyValue::Fields(fields) => (
            fields
                .iter()
                .step_by(2)
                .find(|field| field.as_slice() != b"mode")?,
            "hash with owner",
        ),
    };
    let trace = LibraryTrace {
        value: owner,
        takes: true,
        ..LibraryTrace::default()
    };
    let library = library(name, &trace);
    let is_named = sounds_like_a_lock(name.as_bytes());
    let is_lock = match value {
        KeyValue::Text(_) => {
            (is_named && owner.len() <= 80)
                || (is_token(owner) && !library.is_empty() && left_ms >= 0)
        }
        KeyValue::Fields(_) => {
            ["Redisson", "lock-core"].contains(&library) || is_named && is_token(owner)
        }
    };
    // Keys beside a lock are named after what they are beside.
    if !is_lock || name.starts_with("redisson_") || left_ms == -2 {
        return None;
    }
    Some(WatchedHolder {
        lock: name.to_owned(),
        owner: match show_values {
            true => String::from_utf8_lossy(owner).into_owned(),
            false => format!("#{:08x}", hash(owner) as u32),
        },
        left_ms: (left_ms >= 0).then_some(left_ms as f64),
        recipe: recipe.to_owned(),
        library: library.to_owned(),
    })
}

/// Says which of the holders have no end.
pub(super) fn find_endless(report: &mut WatchReport) {
    let endless: Vec<&WatchedHolder> = report
        .holders
        .iter()
        .filter(|one| one.left_ms.is_none())
        .collect();
    let Some(first) = endless.first() else {
        return;
    };
    let certainty = match first.library.as_str() {
        "" => Certainty::Likely,
        _ => Certainty::Sure,
    };
    report.findings.push(WatchFinding {
        certainty,
        pattern: pattern_of(&first.lock),
        lock: first.lock.clone(),
        count: endless.len() as u64,
        first: endless
            .iter()
            .take(3)
            .map(|one| format!("{} is held by {} without an end", one.lock, one.owner))
            .collect(),
        ..FindingKind::NoExpiry.finding()
    });
}
