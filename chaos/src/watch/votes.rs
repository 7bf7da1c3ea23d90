//! Makes holds of a set of independent masters of what happens on each: a lock is granted once a majority of members has granted it.

use hashbrown::HashMap;

use super::lock_state::{AcquireAttempt, HoldChange, LockOwner};

/// The group under which the locks of the whole set are followed.
pub(super) const WHOLE_SET: usize = usize::MAX;
/// Owners whose votes are remembered.
const OWNERS_MAX: usize = 50_000;

/// What one member did.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemberVote {
    Granted(AcquireAttempt),
    /// It had granted before the watch.
    Adopted(AcquireAttempt),
    Refused(AcquireAttempt),
    Renewed(HoldChange, Option<u64>),
    Released(HoldChange),
    Lapsed(LockOwner),
}

/// The votes of one owner for one lock, a bit for each member.
#[derive(Debug, Default)]
struct OwnerVotes {
    granted: u64,
    /// Members that have not given back yet what the owner has given back elsewhere.
    to_be_released: u64,
    is_held: bool,
    refused: u64,
    renewed: u64,
}

impl OwnerVotes {
    /// Whether this one is of the majority that grants.
    fn grant(&mut self, member: u64, quorum: u32) -> bool {
        self.to_be_released &= !member;
        self.granted |= member;
        let is_new = !self.is_held && self.granted.count_ones() >= quorum;
        self.is_held |= is_new;
        is_new
    }

    /// Whether it is the first of those by which a hold ends.
    fn release(&mut self, member: u64) -> bool {
        if self.to_be_released & member != 0 {
            self.to_be_released &= !member;
            return false;
        }
        self.granted &= !member;
        let was_held = std::mem::take(&mut self.is_held);
        if was_held {
            self.to_be_released = std::mem::take(&mut self.granted);
        }
        was_held
    }

    /// Its lease is over.
    fn lapse(&mut self, member: u64) {
        self.to_be_released &= !member;
        self.granted &= !member;
        self.is_held &= self.granted != 0;
    }
}

/// Whether a majority has voted so just now; who votes once more begins anew.
fn is_majority(votes: &mut u64, member: u64, quorum: u32) -> bool {
    if *votes & member != 0 {
        *votes = 0;
    }
    *votes |= member;
    votes.count_ones() == quorum
}

/// The votes for all locks.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// Members that make a majority; 0: servers are none of a set.
    quorum: u32,
    by_owner: HashMap<(Box<[u8]>, u64), OwnerVotes>,
}

impl Votes {
    pub(super) fn of_members(members: usize) -> Self {
        Votes {
            quorum: u32::try_from(members / 2 + 1).unwrap_or(0),
            ..Votes::default()
        }
    }

    /// Whether the servers of a group are one member of a set.
    pub(super) fn is_member(&self, group: usize) -> bool {
        self.quorum > 0 && group != WHOLE_SET
    }

    /// Adds the vote of a member; whether a majority has voted so just now.
    pub(super) fn add(&mut self, group: usize, key: &[u8], vote: &MemberVote) -> bool {
        let owner = match vote {
            MemberVote::Granted(attempt)
            | MemberVote::Adopted(attempt)
            | MemberVote::Refused(attempt) => Some(attempt.owner),
            MemberVote::Renewed(change, _) | MemberVote::Released(change) => change.owner,
            MemberVote::Lapsed(owner) => Some(*owner),
        };
        let Some(owner) = owner else {
            return false;
        };
        if self.by_owner.len() > OWNERS_MAX {
            self.by_owner.clear();
        }
        let votes = self.by_owner.entry((key.into(), owner.value));
        let votes = votes.or_default();
        let (member, quorum) = (1 << (group % 64), self.quorum);
        match vote {
            MemberVote::Granted(_) | MemberVote::Adopted(_) => votes.grant(member, quorum),
            MemberVote::Released(_) => votes.release(member),
            MemberVote::Refused(_) => is_majority(&mut votes.refused, member, quorum),
            MemberVote::Renewed(..) => is_majority(&mut votes.renewed, member, quorum),
            MemberVote::Lapsed(_) => {
                votes.lapse(member);
                false
            }
        }
    }
}
