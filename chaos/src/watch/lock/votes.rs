//! Makes holds of a set of independent masters of what happens on each: a lock is granted once a majority of
//! members has granted it.

use hashbrown::HashMap;

use crate::watch::lock::lock_state::{AttemptOutcome, LockAct};

/// The group under which the locks of the whole set are followed.
pub(crate) const WHOLE_SET: usize = usize::MAX;
/// Owners whose votes are remembered; as many again may wait to be forgotten.
const OWNERS_MAX: usize = 25_000;

/// What a majority has done; of a grant made out late: when it began, and when it was over.
#[derive(Debug, Default)]
pub(crate) struct Majority {
    pub(crate) from_us: u64,
    pub(crate) over_us: Option<u64>,
}

/// From when to when a member has granted a lock to an owner.
#[derive(Debug)]
struct MemberGrant {
    member: usize,
    from_us: u64,
    to_us: u64,
}

/// The votes of one owner for one lock. What a member did may become known only when the owner gives back, so
/// grants count by their own times.
#[derive(Debug, Default)]
struct OwnerVotes {
    /// The last grant of each member that is of no hold of the set that is over.
    grants: Vec<MemberGrant>,
    is_held: bool,
    refused: u64,
    renewed: u64,
}

impl OwnerVotes {
    /// The majority that this grant makes, unless there was one.
    fn grant(&mut self, member: usize, from_us: u64, quorum: usize) -> Option<Majority> {
        self.grants.retain(|one| one.member != member);
        self.grants.push(MemberGrant { member, from_us, to_us: u64::MAX });
        if self.is_held {
            return None;
        }
        let at = |us: u64| self.grants.iter().filter(move |one| one.from_us <= us && us < one.to_us);
        let begins = self.grants.iter().map(|one| one.from_us);
        let from_us = begins.filter(|us| at(*us).count() >= quorum).min()?;
        let over_us = at(from_us).map(|one| one.to_us).min().filter(|us| *us < u64::MAX);
        self.is_held = over_us.is_none();
        if !self.is_held {
            self.grants.clear();
        }
        Some(Majority { from_us, over_us })
    }

    /// Whether it is the first release of those by which a hold ends.
    fn release(&mut self, member: usize, now_us: u64) -> bool {
        let Some(grant) = self.grants.iter_mut().find(|one| one.member == member) else { return false };
        grant.to_us = now_us;
        let is_first = std::mem::take(&mut self.is_held);
        if is_first {
            self.grants.clear();
        }
        is_first
    }

    /// Its lease is over at a member.
    fn lapse(&mut self, member: usize, now_us: u64) {
        for grant in self.grants.iter_mut().filter(|one| one.member == member) {
            grant.to_us = now_us;
        }
        self.is_held &= self.grants.iter().any(|grant| grant.to_us == u64::MAX);
    }
}

/// Whether a majority has voted so just now; who votes once more begins anew.
fn is_majority(votes: &mut u64, member: usize, quorum: usize) -> bool {
    let member = 1 << (member % 64);
    if *votes & member != 0 {
        *votes = 0;
    }
    *votes |= member;
    votes.count_ones() as usize == quorum
}

type VotesByOwner = HashMap<(Box<[u8]>, u64), OwnerVotes>;

#[derive(Debug, Default)]
pub(crate) struct Votes {
    /// 0: servers are none of a set.
    pub(crate) members: usize,
    by_owner: VotesByOwner,
    /// Those of owners that did nothing since `by_owner` was begun.
    earlier: VotesByOwner,
}

impl Votes {
    /// Whether the servers of a group are one member of a set.
    pub(crate) fn is_member(&self, group: usize) -> bool {
        self.members > 0 && group != WHOLE_SET
    }

    /// Adds what a member did: what a majority has done by it.
    pub(crate) fn add(&mut self, member: usize, key: &[u8], act: &LockAct, now_us: u64) -> Option<Majority> {
        let owner = match act {
            LockAct::Attempt(attempt, _) | LockAct::Adopt(attempt) => attempt.owner,
            LockAct::Renew(change, _) | LockAct::Release(change) => change.owner?,
            LockAct::Lapse(owner) => *owner,
        };
        if self.by_owner.len() >= OWNERS_MAX {
            self.earlier = std::mem::take(&mut self.by_owner);
        }
        let votes = self.by_owner.entry((key.into(), owner.value));
        let votes = votes.or_insert_with_key(|of| self.earlier.remove(of).unwrap_or_default());
        let quorum = self.members / 2 + 1;
        let is_done = match act {
            LockAct::Attempt(_, AttemptOutcome::Refused) => is_majority(&mut votes.refused, member, quorum),
            LockAct::Attempt(attempt, _) | LockAct::Adopt(attempt) => {
                return votes.grant(member, attempt.time_us, quorum);
            }
            LockAct::Renew(..) => is_majority(&mut votes.renewed, member, quorum),
            LockAct::Release(_) => votes.release(member, now_us),
            LockAct::Lapse(_) => {
                votes.lapse(member, now_us);
                false
            }
        };
        is_done.then(Majority::default)
    }
}
