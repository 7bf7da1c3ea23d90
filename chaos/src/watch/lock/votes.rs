//! Makes holds of a set of independent masters of what happens on each: a lock is granted once a majority of
//! members has granted it.

use hashbrown::HashMap;

use crate::watch::lock::lock_state::{AcquireAttempt, HoldChange, LockOwner};

/// The group under which the locks of the whole set are followed.
pub(crate) const WHOLE_SET: usize = usize::MAX;
/// Owners whose votes are remembered; as many again may wait to be forgotten.
const OWNERS_MAX: usize = 25_000;

/// What one member did.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemberVote {
    Granted(AcquireAttempt),
    /// It had granted before the watch.
    Adopted(AcquireAttempt),
    Refused(AcquireAttempt),
    Renewed(HoldChange, Option<u64>),
    Released(HoldChange),
    Lapsed(LockOwner),
}

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
    fn grant(&mut self, member: usize, from_us: u64, quorum: u32) -> Option<Majority> {
        self.grants.retain(|one| one.member != member);
        self.grants.push(MemberGrant { member, from_us, to_us: u64::MAX });
        if self.is_held {
            return None;
        }
        let at = |us: u64| self.grants.iter().filter(move |one| one.from_us <= us && us < one.to_us);
        let begins = self.grants.iter().map(|one| one.from_us);
        let from_us = begins.filter(|us| at(*us).count() >= quorum as usize).min()?;
        let over_us = at(from_us).map(|one| one.to_us).min();
        let over_us = over_us.filter(|us| *us < u64::MAX);
        match over_us {
            Some(_) => self.grants.clear(),
            None => self.is_held = true,
        }
        Some(Majority { from_us, over_us })
    }

    /// Whether it is the first release of those by which a hold ends.
    fn release(&mut self, member: usize, now_us: u64) -> bool {
        let grant = self.grants.iter_mut().find(|one| one.member == member);
        let is_first = self.is_held && grant.is_some();
        match grant {
            Some(_) if is_first => {
                self.is_held = false;
                self.grants.clear();
            }
            Some(grant) => grant.to_us = now_us,
            None => {}
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
fn is_majority(votes: &mut u64, member: usize, quorum: u32) -> bool {
    let member = 1 << (member % 64);
    if *votes & member != 0 {
        *votes = 0;
    }
    *votes |= member;
    votes.count_ones() == quorum
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

    /// Adds the vote of a member: what a majority has done by it.
    pub(crate) fn add(
        &mut self,
        member: usize,
        key: &[u8],
        vote: &MemberVote,
        now_us: u64,
    ) -> Option<Majority> {
        let owner = match vote {
            MemberVote::Granted(attempt) | MemberVote::Adopted(attempt) | MemberVote::Refused(attempt) => {
                attempt.owner
            }
            MemberVote::Renewed(change, _) | MemberVote::Released(change) => change.owner?,
            MemberVote::Lapsed(owner) => *owner,
        };
        if self.by_owner.len() >= OWNERS_MAX {
            self.earlier = std::mem::take(&mut self.by_owner);
        }
        let of = (key.into(), owner.value);
        let earlier = &mut self.earlier;
        let votes = match self.by_owner.entry(of) {
            hashbrown::hash_map::Entry::Occupied(known) => known.into_mut(),
            hashbrown::hash_map::Entry::Vacant(new) => {
                let votes = earlier.remove(new.key()).unwrap_or_default();
                new.insert(votes)
            }
        };
        let quorum = u32::try_from(self.members / 2 + 1).unwrap_or(u32::MAX);
        let is_done = match vote {
            MemberVote::Granted(attempt) | MemberVote::Adopted(attempt) => {
                return votes.grant(member, attempt.time_us, quorum);
            }
            MemberVote::Released(_) => votes.release(member, now_us),
            MemberVote::Refused(_) => is_majority(&mut votes.refused, member, quorum),
            MemberVote::Renewed(..) => is_majority(&mut votes.renewed, member, quorum),
            MemberVote::Lapsed(_) => {
                votes.lapse(member, now_us);
                false
            }
        };
        is_done.then(Majority::default)
    }
}
