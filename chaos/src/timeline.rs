//! Turns a judged history into the picture of its worst overlap.

use results::timeline::{FaultBar, HoldBar, Span, TimelineData};
use results::verdict::Anomaly;

use results::run::FaultSpan;

use crate::checkers::{CheckReport, belief, confirmed, contract};

/// The picture around the longest overlap of the gravest class that has one; `None` where nothing overlapped.
pub(crate) fn worst(
    report: &CheckReport,
    drift: f64,
    faults: &[FaultSpan],
) -> Option<TimelineData> {
    let (class, anomaly) = ["contract", "confirmed", "belief"]
        .into_iter()
        .find_map(|class| {
            let anomalies = &report.verdicts.get(class)?.anomalies;
            let overlap = anomalies
                .iter()
                .filter(|anomaly| anomaly.what == "overlap")
                .max_by_key(|anomaly| anomaly.to_ns.saturating_sub(anomaly.from_ns))?;
            Some((class, overlap))
        })?;
    let record = &report.record;
    let lock = record.locks.iter().position(|name| *name == anomaly.lock)?;
    let lock = u32::try_from(lock).ok()?;
    let intervals = match class {
        "contract" => contract::intervals(record, drift),
        "confirmed" => confirmed::intervals(record),
        _ => belief::intervals(record),
    };
    let name =
        |names: &[String], index: u32| names.get(index as usize).cloned().unwrap_or_default();
    let holds: Vec<HoldBar> = record
        .grants
        .iter()
        .zip(intervals)
        .filter(|(grant, _)| grant.locks.contains(&lock))
        .filter_map(|(grant, interval)| {
            let (from_ns, to_ns) = interval?;
            let owner = name(&record.owners, grant.owner);
            let ended_by = if grant.died_ns == Some(to_ns) {
                "crash"
            } else if grant.lost_ns == Some(to_ns) {
                "lost"
            } else if grant.releases.iter().any(|step| step.called_ns == to_ns) {
                "release"
            } else {
                "lease"
            };
            Some(HoldBar {
                client: name(&record.clients, grant.client),
                owner: owner.rsplit('/').next().unwrap_or_default().to_owned(),
                grant: grant.name.clone(),
                from_ns,
                to_ns: (to_ns < record.end_ns).then_some(to_ns),
                ended_by: ended_by.to_owned(),
            })
        })
        .collect();
    let span = |anomaly: &Anomaly| Span {
        from_ns: anomaly.from_ns,
        to_ns: anomaly.to_ns,
    };
    let overlaps: Vec<Span> = report
        .locks
        .get(&anomaly.lock)
        .and_then(|verdicts| verdicts.get(class))
        .into_iter()
        .flat_map(|verdict| verdict.anomalies.iter().map(span))
        .collect();
    let faults: Vec<FaultBar> = faults
        .iter()
        .map(|fault| FaultBar {
            label: format!("{} {}", fault.fault, fault.targets.join(", ")),
            from_ns: fault.injected_ns,
            to_ns: fault.healed_ns,
        })
        .collect();
    Some(TimelineData::around(
        &anomaly.lock,
        class,
        span(anomaly),
        &holds,
        &overlaps,
        &faults,
    ))
}
