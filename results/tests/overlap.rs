//! Overlaps of hold intervals, compared with the definition, pair by pair.

use proptest::prelude::*;
use results::overlap::{Hold, Mode, Overlaps, overlaps};

/// Overlaps among holds `(lock, from_ns, to_ns)` that exclude each other; the grant is the position.
fn exclusive_overlaps(holds: &[(u32, u64, u64)]) -> Overlaps {
    let holds = holds.iter().zip(0..).map(|(hold, grant)| Hold {
        lock: hold.0,
        owner: grant,
        from_ns: hold.1,
        to_ns: hold.2,
        mode: Mode::Exclusive,
        weight: 1,
        grant,
    });
    overlaps(holds.collect(), |_| None)
}

fn hold(owner: u32, from_ns: u64, to_ns: u64, mode: Mode) -> Hold {
    Hold { lock: 0, owner, from_ns, to_ns, mode, weight: 1, grant: owner }
}

#[test]
fn intervals_are_closed() {
    // |--a--|        equal stamps share an instant
    //       |--b--|
    let found = exclusive_overlaps(&[(0, 1, 5), (0, 5, 9)]);
    assert_eq!((found.count, found.worst_ns), (1, 0));
    assert_eq!(exclusive_overlaps(&[(0, 1, 5), (0, 6, 9)]).count, 0);
    assert_eq!(exclusive_overlaps(&[(0, 1, 5), (1, 1, 5)]).count, 0);
}

#[test]
fn an_empty_interval_is_ignored() {
    assert_eq!(exclusive_overlaps(&[(0, 1, 9), (0, 5, 4)]).count, 0);
    assert_eq!(exclusive_overlaps(&[(0, 1, 9), (0, 5, 5)]).count, 1);
}

#[test]
fn the_longest_pair_of_each_newcomer_is_listed() {
    // |------a------|
    //   |--b--|
    //      |------c------|
    let found = exclusive_overlaps(&[(7, 0, 100), (7, 20, 50), (7, 40, 150)]);
    assert_eq!((found.count, found.worst_ns), (3, 60));
    let pairs: Vec<_> = found.list.iter().map(|o| (o.earlier, o.later)).collect();
    assert_eq!(pairs, [(0, 1), (0, 2)]);
}

#[test]
fn one_owner_nests_in_re_entrant_modes_only() {
    for (mode, count) in [(Mode::Exclusive, 1), (Mode::Reentrant, 0), (Mode::Read, 0)] {
        let holds = vec![hold(1, 0, 10, mode), hold(1, 3, 5, mode)];
        assert_eq!(overlaps(holds, |_| None).count, count, "{mode:?}");
    }
    // A writer may read, and a nested pair is one hold for others.
    let holds = vec![
        hold(1, 0, 10, Mode::Reentrant),
        hold(1, 3, 12, Mode::Read),
        hold(1, 4, 9, Mode::Reentrant),
        hold(2, 8, 9, Mode::Read),
    ];
    assert_eq!(overlaps(holds, |_| None).count, 1);
}

#[test]
fn permits_count_to_the_limit() {
    let holds: Vec<Hold> = (0..4).map(|n| hold(n, 10 * u64::from(n), 100, Mode::Permit)).collect();
    assert_eq!(overlaps(holds.clone(), |_| Some(4)).count, 0);
    assert_eq!(overlaps(holds.clone(), |_| None).count, 0);
    let found = overlaps(holds, |_| Some(2));
    assert_eq!((found.count, found.worst_ns), (2, 80));
}

/// The definition, written down: pairs of joined holds that conflict and share an instant.
fn by_definition(holds: &[Hold]) -> u64 {
    let mut joined: Vec<Hold> = holds.iter().copied().filter(|h| h.from_ns <= h.to_ns).collect();
    while let Some((a, b)) = touching(&joined) {
        let gone = joined.remove(b);
        joined[a].from_ns = joined[a].from_ns.min(gone.from_ns);
        joined[a].to_ns = joined[a].to_ns.max(gone.to_ns);
    }
    let mut count = 0;
    for (n, a) in joined.iter().enumerate() {
        for b in &joined[..n] {
            let share = a.lock == b.lock && a.from_ns <= b.to_ns && b.from_ns <= a.to_ns;
            let nest = a.owner == b.owner && a.mode.nests() && b.mode.nests();
            let mild = a.mode == b.mode && matches!(a.mode, Mode::Read | Mode::Permit);
            count += u64::from(share && !nest && !mild);
        }
    }
    count
}

fn touching(holds: &[Hold]) -> Option<(usize, usize)> {
    for (b, y) in holds.iter().enumerate() {
        for (a, x) in holds[..b].iter().enumerate() {
            let same = (x.lock, x.owner, x.mode) == (y.lock, y.owner, y.mode) && x.mode.nests();
            if same && x.from_ns <= y.to_ns && y.from_ns <= x.to_ns {
                return Some((a, b));
            }
        }
    }
    None
}

fn any_hold() -> impl Strategy<Value = Hold> {
    let mode =
        prop_oneof![Just(Mode::Exclusive), Just(Mode::Reentrant), Just(Mode::Read), Just(Mode::Permit)];
    (0u32..2, 0u32..3, 0u64..30, 0u64..8, mode).prop_map(|(lock, owner, from_ns, length, mode)| Hold {
        lock,
        owner,
        from_ns,
        to_ns: (from_ns + length).saturating_sub(1),
        mode,
        weight: 1,
        grant: 0,
    })
}

proptest! {
    #[test]
    fn the_sweep_finds_what_the_definition_finds(holds in prop::collection::vec(any_hold(), 0..14)) {
        let found = overlaps(holds.clone(), |_| None);
        prop_assert_eq!(found.count, by_definition(&holds));
        prop_assert_eq!(found.list.is_empty(), found.count == 0);
    }
}
