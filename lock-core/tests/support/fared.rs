//! What each party to a lock got, and whether all of them had their share.

use std::time::Duration;

/// How one party fared.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Fared {
    pub grants: u32,
    /// The longest of its waits, one that goes on at the end included.
    pub longest: Duration,
    /// All of them.
    pub waited: Duration,
}

impl Fared {
    pub fn waited(&mut self, wait: Duration) {
        self.longest = self.longest.max(wait);
        self.waited += wait;
    }
}

/// Whether everybody had at least half of an equal share of a run, and nobody waited for many times as long
/// as a whole round takes when all take turns.
pub fn all_had_their_share(all: &[Fared], run: Duration) {
    let total: u32 = all.iter().map(|one| one.grants).sum();
    let parties = u32::try_from(all.len()).expect("few");
    assert!(total > 0, "nobody entered: {all:?}");
    let round = run * parties / total;
    for one in all {
        assert!(2 * parties * one.grants >= total, "half a share: {all:?}");
        assert!(one.longest <= round * 10, "a round is {round:?}: {all:?}");
    }
}
