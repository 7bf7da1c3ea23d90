//! Grants over the time of a history, and how evenly clients got them.

use results::over_time::{AcquireSpan, OverTime, jain, share_min};

/// Acquires that were granted at once.
fn over(grants: &[(u64, &str)]) -> Option<OverTime> {
    let end_ns = grants.last().map_or(0, |(t_ms, _)| t_ms * 1_000_000);
    let asked = grants.iter().map(|(t_ms, owner)| AcquireSpan {
        owner,
        called_ns: t_ms * 1_000_000,
        granted_ns: Some(t_ms * 1_000_000),
    });
    OverTime::of(end_ns, asked)
}

#[test]
fn grants_fall_into_the_part_of_their_answer() {
    let over = over(&[(0, "c1/t0"), (10, "c1/t1"), (25, "c1/t0")]).expect("grants");
    assert_eq!(over.part_ns, 20_000_000, "no part is shorter");
    assert_eq!(over.grants, [2, 1]);
    assert_eq!(over.owners["c1/t0"], 2);
    let took = over.acquire.as_ref().expect("grants");
    assert_eq!(took.histograms, [[(0, 3)]]);
    let jain = jain(over.owners.values().map(|count| f64::from(*count))).expect("owners");
    assert!((jain - 0.9).abs() < 1e-12, "{jain}");
}

#[test]
fn the_least_share_is_that_of_a_client() {
    assert_eq!(share_min(&[(30, 1), (10, 1)]), Some(0.5));
    assert_eq!(share_min(&[(30, 3), (10, 1)]), Some(1.0));
    assert_eq!(share_min(&[(30, 1), (0, 1)]), Some(0.0));
    assert_eq!(share_min(&[(30, 1)]), None);
    assert_eq!(share_min(&[(0, 1), (0, 1)]), None);
    let owners = [("c1/t0", 4), ("c1/t1", 5), ("c2/t0", 1), ("c2/t1", 2)];
    let grants = owners.iter().flat_map(|(owner, grants)| vec![(1, *owner); *grants]);
    let over = over(&grants.collect::<Vec<_>>()).expect("grants");
    assert_eq!(over.share_min, Some(0.5));
}

#[test]
fn a_history_without_a_grant_has_nothing_to_draw() {
    assert_eq!(over(&[]), None);
    let asked = AcquireSpan { owner: "c1/t0", called_ns: 1, granted_ns: None };
    assert_eq!(OverTime::of(9, std::iter::once(asked)), None);
}

#[test]
fn many_owners_are_counted_together() {
    let names: Vec<String> = (0..100).map(|n| format!("c1/t{n}")).collect();
    let grants: Vec<(u64, &str)> = names.iter().map(|name| (1, name.as_str())).collect();
    let over = over(&grants).expect("grants");
    assert_eq!(over.owners.len(), 64);
    assert_eq!(over.owners.values().sum::<u32>(), 100);
}
