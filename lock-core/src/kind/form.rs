//! What a kind of lock says to a server, and how it reads the answers: requests and replies, no network.

use std::{fmt, time::Duration};

use crate::{names::Names, topology::Request};

/// What every request of a hold is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) names: &'a Names,
    /// `<client uuid>:<number>`.
    pub(crate) owner: &'a str,
    pub(crate) lease: Duration,
    /// Set if the owner may hold several times; a fresh owner holds once, which costs the server less.
    pub(crate) ids: Option<Ids>,
    /// `PUBLISH` or `SPUBLISH`.
    pub(crate) publish: &'static str,
    /// An earlier acquire of the same identity was not answered.
    pub(crate) repeated: bool,
}

/// What tells one acquire and one release of an owner from its others, over all their repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) acquire: u128,
    pub(crate) release: u128,
}

/// The answer to an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted {
        token: Option<u64>,
    },
    /// Another holds it, for so long at least if nothing is done.
    Busy {
        left: Option<Duration>,
    },
    /// This very acquire was granted before and that hold is over: ask with new ids.
    Settled,
    /// The owner has it already, and this kind is not re-entrant.
    Own,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    Freed,
    /// The same owner holds it still.
    Kept,
    /// This owner did not have it.
    Absent,
}

/// The answer to an extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extended {
    Held,
    Missing,
}

/// A kind of lock on one server set. All requests must be safe to repeat: the same request again, with the
/// same ids, is answered alike and changes nothing more, whatever became of the first one's reply.
pub(crate) trait Form: fmt::Debug + Send + Sync {
    /// Takes the lock, or says for how long it is another's.
    fn acquire(&self, ask: &Ask<'_>) -> Request;
    /// Reads the answer to `acquire`; `None` if it is none.
    fn read_acquire(&self, value: &redis::Value) -> Option<Reply>;
    /// Gives the lock back.
    fn release(&self, ask: &Ask<'_>) -> Request;
    /// Gives back what `acquire` may have taken, and nothing else.
    fn undo(&self, ask: &Ask<'_>) -> Request;
    /// Reads the answer to `release` and `undo`.
    fn read_release(&self, value: &redis::Value) -> Option<Given>;
    /// Lengthens the lease to `ask.lease` from now; never shortens it and never makes a hold.
    fn extend(&self, ask: &Ask<'_>) -> Request;
    /// Reads the answer to `extend`.
    fn read_extend(&self, value: &redis::Value) -> Option<Extended>;
    /// Takes it away from whoever holds it; answered 1 if somebody did.
    fn force_release(&self, names: &Names, publish: &'static str) -> Request;
    /// Whether the server keeps the answers to this hold's acquire and release, so that a repetition is told
    /// from a first time, and a late acquire is kept out.
    fn has_latches(&self, ask: &Ask<'_>) -> bool {
        ask.ids.is_some()
    }
    /// The channel that a release speaks on; `None` where waiters only poll.
    fn channel<'a>(&self, names: &'a Names) -> Option<&'a str> {
        Some(&names.channel)
    }
    /// The pause before look number `look`, from 1 on, where there is no channel.
    fn pace(&self, _look: u32) -> Option<Duration> {
        None
    }
}

/// PTTL as a waiter's hint: nothing for a key without an end.
pub(crate) fn left(pttl_ms: i64) -> Option<Duration> {
    u64::try_from(pttl_ms).ok().map(Duration::from_millis)
}
