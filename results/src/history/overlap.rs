//! Finds overlaps among hold intervals: exact, by sorting and sweeping, in O(n log n).
//!
//! As a specification, for one lock:
//!
//! 1. A hold is the closed interval `from_ns ..= to_ns`; one that ends before it begins is empty and is
//!    ignored.
//! 2. Holds of one owner in re-entrant modes nest: those that touch are one hold.
//! 3. Two holds conflict unless both are [`Mode::Read`], or both are [`Mode::Permit`], or rule 2 joins their
//!    owners.
//! 4. Two conflicting holds that share an instant are an overlap, equal stamps included.
//! 5. Permits that are held together beyond the lock's limit are an overlap too.
//!
//! Why this is enough: in any sequential account of an owner-aware mutex the lock is held at least from the
//! return of an acquire to the call of its release. Two such intervals that intersect admit no account; if
//! all are disjoint, each acquire at its return and each release at its call is one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// How a hold shares its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone, even against its own owner.
    Exclusive,
    /// Alone, but for holds of its own owner: a re-entrant mutex, or the writing side.
    Reentrant,
    /// With other readers, and with holds of its own owner.
    Read,
    /// With other permits, up to the lock's limit.
    Permit,
}

impl Mode {
    /// Whether holds of one owner nest.
    pub fn nests(self) -> bool {
        matches!(self, Self::Reentrant | Self::Read)
    }
}

/// One hold of one lock. A hold of several locks is one of these per lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The lock, as a number that the caller chose.
    pub lock: u32,
    /// The owner, as a number that the caller chose; meaningful for nesting modes only.
    pub owner: u32,
    /// The first nanosecond.
    pub from_ns: u64,
    /// The last nanosecond, included.
    pub to_ns: u64,
    /// How it shares.
    pub mode: Mode,
    /// Permits held; 1 for the other modes.
    pub weight: u32,
    /// The grant, as a number that the caller chose; comes back in [`Overlap`].
    pub grant: u32,
}

impl Hold {
    fn owner_in(&self, mode: Mode) -> u64 {
        u64::from(self.owner) << 2 | mode as u64
    }
}

/// A hold that began while a conflicting one lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The lock.
    pub lock: u32,
    /// When the later hold began.
    pub from_ns: u64,
    /// When the first of the two ended; for permits, when the limit was kept again.
    pub to_ns: u64,
    /// A grant of the hold that was there, the longest of several; of nested holds, the first grant.
    pub earlier: u32,
    /// The grant that should have waited.
    pub later: u32,
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlaps {
    /// Pairs of conflicting holds that share an instant, and grants of permits beyond the limit.
    pub count: u64,
    /// The same count, by lock; a lock without any is absent.
    pub count_by_lock: BTreeMap<u32, u64>,
    /// The longest time that two of them lasted together, in nanoseconds.
    pub worst_ns: u64,
    /// One per hold that began in conflict, in order of lock and time: the longest of its pairs.
    pub list: Vec<Overlap>,
}

/// Finds every overlap. `limit` gives a lock's permits; `None` leaves its permits uncounted.
pub fn overlaps(mut holds: Vec<Hold>, limit: impl Fn(u32) -> Option<u64>) -> Overlaps {
    join(&mut holds);
    let mut found = Overlaps::default();
    for holds in holds.chunk_by(|a, b| a.lock == b.lock) {
        let sweep = Sweep { holds, limit: limit(holds[0].lock), ..Sweep::default() };
        sweep.run(&mut found);
    }
    found
}

/// Sorts holds by lock and time, without empty ones, and joins those of one owner and mode that touch.
pub fn join(holds: &mut Vec<Hold>) {
    let order = |hold: &Hold| (hold.lock, hold.from_ns, hold.to_ns, hold.grant);
    holds.retain(|hold| hold.from_ns <= hold.to_ns);
    holds.sort_unstable_by_key(order);
    if holds.iter().any(|hold| hold.mode.nests()) {
        join_touching(holds);
        // Joined holds end later, which moves them at most among those that began with them.
        holds.sort_by_key(order);
    }
}

fn join_touching(holds: &mut Vec<Hold>) {
    let mut latest = OfOwners::default();
    let mut lock = None;
    let mut kept = 0;
    for at in 0..holds.len() {
        let hold = holds[at];
        if lock.replace(hold.lock) != Some(hold.lock) {
            latest.clear();
        }
        if hold.mode.nests()
            && let Some(before) = latest.insert(hold.owner_in(hold.mode), kept)
            && let before_ns = holds[before].to_ns
            && hold.from_ns <= before_ns
        {
            latest.insert(hold.owner_in(hold.mode), before);
            holds[before].to_ns = before_ns.max(hold.to_ns);
            continue;
        }
        holds[kept] = hold;
        kept += 1;
    }
    holds.truncate(kept);
}

/// Something per owner and mode. The numbers are small and no secret: a multiplication is hash enough.
type OfOwners<T> = HashMap<u64, T, BuildHasherDefault<Multiplied>>;

#[derive(Default)]
struct Multiplied(u64);

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's bits, as in Fibonacci hashing; the table looks at the highest and the lowest.
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}

/// The holds of one lock that last at the sweep's instant, by class, ordered by their ends.
#[derive(Default)]
struct Sweep<'a> {
    holds: &'a [Hold],
    limit: Option<u64>,
    alone: BTreeSet<(u64, usize)>,
    reading: BTreeSet<(u64, usize)>,
    permits: BTreeSet<(u64, usize)>,
    permits_held: u64,
    /// Until when an owner holds in a nesting mode: one hold per mode, since touching ones were joined.
    own: OfOwners<u64>,
}

impl Sweep<'_> {
    fn run(mut self, found: &mut Overlaps) {
        for (index, hold) in self.holds.iter().enumerate() {
            self.expire(hold.from_ns);
            // Most holds meet nobody: they are over before the next begins.
            let is_last = self.holds.get(index + 1).is_none_or(|next| next.from_ns > hold.to_ns);
            let are_none = self.alone.is_empty() && self.reading.is_empty() && self.permits.is_empty();
            if is_last && are_none && hold.mode != Mode::Permit {
                continue;
            }
            let (pairs, longest) = self.conflicts(hold);
            if let Some((to_ns, other)) = longest {
                self.note(found, hold, other, to_ns.min(hold.to_ns), pairs);
            }
            if let Some((to_ns, other)) = self.beyond_limit(hold) {
                self.note(found, hold, other, to_ns.min(hold.to_ns), 1);
            }
            let entry = (hold.to_ns, index);
            match hold.mode {
                Mode::Exclusive | Mode::Reentrant => self.alone.insert(entry),
                Mode::Read => self.reading.insert(entry),
                Mode::Permit => {
                    self.permits_held += u64::from(hold.weight);
                    self.permits.insert(entry)
                }
            };
            if hold.mode.nests() {
                self.own.insert(hold.owner_in(hold.mode), hold.to_ns);
            }
        }
    }

    fn note(&self, found: &mut Overlaps, hold: &Hold, other: usize, to_ns: u64, pairs: u64) {
        found.count += pairs;
        *found.count_by_lock.entry(hold.lock).or_default() += pairs;
        found.worst_ns = found.worst_ns.max(to_ns - hold.from_ns);
        found.list.push(Overlap {
            lock: hold.lock,
            from_ns: hold.from_ns,
            to_ns,
            earlier: self.holds.get(other).unwrap_or(hold).grant,
            later: hold.grant,
        });
    }

    /// Forgets the holds that ended before an instant; intervals are closed, so one that ends at it stays.
    fn expire(&mut self, now_ns: u64) {
        for set in [&mut self.alone, &mut self.reading] {
            while set.first().is_some_and(|(to_ns, _)| *to_ns < now_ns) {
                set.pop_first();
            }
        }
        while let Some((to_ns, index)) = self.permits.first().copied()
            && to_ns < now_ns
        {
            self.permits.pop_first();
            self.permits_held -= self.weight(index);
        }
    }

    fn weight(&self, index: usize) -> u64 {
        u64::from(self.holds[index].weight)
    }

    fn conflicts(&self, hold: &Hold) -> (u64, Option<(u64, usize)>) {
        let mut pairs = 0;
        let mut longest: Option<(u64, usize)> = None;
        let mut look = |set: &BTreeSet<(u64, usize)>, own: u64| {
            pairs += set.len() as u64 - own;
            let other = set.iter().rev().find(|(_, index)| !nest(hold, &self.holds[*index]));
            longest = longest.max(other.copied());
        };
        if !self.alone.is_empty() {
            look(&self.alone, self.owned(hold, Mode::Reentrant));
        }
        if hold.mode != Mode::Read && !self.reading.is_empty() {
            look(&self.reading, self.owned(hold, Mode::Read));
        }
        if hold.mode != Mode::Permit && !self.permits.is_empty() {
            look(&self.permits, 0);
        }
        (pairs, longest)
    }

    /// Whether the owner of a new hold already has one in a mode that it nests with: 0 or 1.
    fn owned(&self, hold: &Hold, mode: Mode) -> u64 {
        let until = self.own.get(&hold.owner_in(mode));
        u64::from(hold.mode.nests() && until.is_some_and(|to_ns| *to_ns >= hold.from_ns))
    }

    /// Where a new permit passes the limit: until when, and with which other hold.
    fn beyond_limit(&self, hold: &Hold) -> Option<(u64, usize)> {
        let limit = self.limit.filter(|_| hold.mode == Mode::Permit)?;
        let mut held = self.permits_held + u64::from(hold.weight);
        if held <= limit {
            return None;
        }
        let last = self.permits.last().copied();
        for (to_ns, index) in &self.permits {
            held -= self.weight(*index);
            if held <= limit {
                return Some((*to_ns, *index));
            }
        }
        // The new hold alone asks for more than there is.
        Some((hold.to_ns, last.map_or(usize::MAX, |(_, index)| index)))
    }
}

fn nest(a: &Hold, b: &Hold) -> bool {
    a.owner == b.owner && a.mode.nests() && b.mode.nests()
}
