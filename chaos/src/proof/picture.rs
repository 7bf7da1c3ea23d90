//! The holds, operations and faults around an anomaly, to be drawn.

use results::timeline::{FaultBar, HoldBar, OperationBar, Span, TimelineData};
use results::verdict::Anomaly;

use crate::checkers::record::holds::{Grant, Record, Step};
use crate::checkers::{CheckReport, belief, confirmed, contract};

/// The picture around an anomaly of a class; `None` if its lock is not on record. Classes without intervals
/// of their own (effect, liveness) are drawn over what holders believed.
pub(super) fn around(
    report: &CheckReport,
    class: &str,
    anomaly: &Anomaly,
    drift: f64,
) -> Option<TimelineData> {
    let record = &report.record;
    let lock = record.locks.position(&anomaly.lock)?;
    let (class, intervals) = match class {
        "contract" => ("contract", contract::intervals(record, drift)),
        "confirmed" => ("confirmed", confirmed::intervals(record)),
        _ => ("belief", belief::intervals(record)),
    };
    let grants = record.grants.iter().zip(intervals);
    let holds: Vec<HoldBar> = grants
        .filter(|(grant, _)| is_of(record, grant, lock))
        .filter_map(|(grant, interval)| Some(hold_bar(record, grant, interval?)))
        .collect();
    let span = |anomaly: &Anomaly| Span { from_ns: anomaly.from_ns, to_ns: anomaly.to_ns };
    let of_lock = report.locks.get(&anomaly.lock);
    let same_kind = of_lock.and_then(|verdicts| verdicts.get(class)).filter(|_| anomaly.what == "overlap");
    let same_kind = same_kind.map_or(&[][..], |verdict| &verdict.anomalies);
    let mut spans: Vec<Span> = same_kind.iter().map(span).collect();
    if !spans.contains(&span(anomaly)) {
        spans.push(span(anomaly));
    }
    let faults = record.faults.iter().map(|fault| FaultBar {
        label: format!("{} {}", fault.fault, fault.targets.join(", ")),
        from_ns: fault.injected_ns,
        to_ns: fault.healed_ns,
    });
    let faults: Vec<FaultBar> = faults.collect();
    let picture = TimelineData::around(&anomaly.lock, class, span(anomaly), &holds, &spans, &faults);
    Some(picture.with_operations(operations(record, lock)))
}

fn is_of(record: &Record, grant: &Grant, lock: u32) -> bool {
    record.locks_of(record.acquire_of(grant)).contains(&lock)
}

/// The caller's own name: owners on record are `client/owner`.
fn caller(record: &Record, owner: u32) -> String {
    record.owners.get(owner).rsplit('/').next().unwrap_or_default().to_owned()
}

/// A hold, from and until when.
pub(crate) fn hold_bar(record: &Record, grant: &Grant, (from_ns, to_ns): (u64, u64)) -> HoldBar {
    let ended_by = if record.died_ns(grant) == Some(to_ns) {
        "crash"
    } else if grant.lost_ns() == Some(to_ns) {
        "lost"
    } else if record.releases(grant).any(|step| step.called_ns == to_ns) {
        "release"
    } else {
        "lease"
    };
    HoldBar {
        client: record.clients.get(record.acquire_of(grant).client).to_owned(),
        owner: caller(record, grant.owner),
        grant: record.name_of(grant).to_owned(),
        from_ns,
        to_ns: (to_ns < record.end_ns).then_some(to_ns),
        ended_by: ended_by.to_owned(),
    }
}

fn operations(record: &Record, lock: u32) -> Vec<OperationBar> {
    let asks = record.acquires(lock as usize).map(|ask| OperationBar {
        client: record.clients.get(ask.client).to_owned(),
        owner: caller(record, ask.owner),
        op: "acquire".to_owned(),
        grant: record.grant_of(ask).map_or(String::new(), |grant| record.name_of(grant).to_owned()),
        from_ns: ask.called_ns,
        to_ns: ask.returned_ns(),
        end: match ask.ending {
            refused if refused.is_refusal() => "refused",
            other => other.word(),
        }
        .to_owned(),
    });
    let steps = record.grants.iter().filter(|grant| is_of(record, grant, lock)).flat_map(|grant| {
        let step = move |op: &str, step: &Step| OperationBar {
            client: record.clients.get(record.acquire_of(grant).client).to_owned(),
            owner: caller(record, grant.owner),
            op: op.to_owned(),
            grant: record.name_of(grant).to_owned(),
            from_ns: step.called_ns,
            to_ns: step.returned_ns(),
            end: step.ending.word().to_owned(),
        };
        let extends = record.extends(grant).map(move |one| step("extend", one));
        extends.chain(record.releases(grant).map(move |one| step("release", one)))
    });
    asks.chain(steps).collect()
}
