//! The RLock format: a hash `{owner: count}` with the lease as its time to live.

use std::time::Duration;

use redis::Value;

use super::form::{Ask, Extended, Form, Given, Held, Ids, Reply, delete, held, left};
use crate::{
    names::Names,
    topology::{Request, Script, What},
};

static ACQUIRE: Script = Script::new("acquire", include_str!("../../scripts/acquire.lua"));
static RELEASE: Script = Script::new("release", include_str!("../../scripts/release.lua"));
static RELEASE_COUNTED: Script = Script::new(
    "release_counted",
    include_str!("../../scripts/release_counted.lua"),
);
static EXTEND: Script = Script::new("extend", include_str!("../../scripts/extend.lua"));
static EXTEND_VOTE: Script =
    Script::new("extend_vote", include_str!("../../scripts/extend_vote.lua"));
pub(super) static LOOK: Script = Script::new("look", include_str!("../../scripts/look.lua"));

/// What the acquire script answers for an acquire that was settled before.
const SETTLED: i64 = -3;
/// What it answers for an owner that has the lock already, where that is not re-entry.
const OWN: i64 = -4;

/// RLock's format.
#[derive(Debug)]
pub(crate) struct Hash {
    /// An equal owner may hold several times.
    reentrant: bool,
    /// A release speaks on the channel.
    speaks: bool,
    /// Of an owner that may ask again, a hold is given back and lengthened only by its own acquire.
    bound: bool,
}

/// Re-entrant, and waiters are woken.
pub(crate) static REENTRANT: Hash = Hash {
    reentrant: true,
    speaks: true,
    bound: false,
};
/// An owner that has the lock is told so instead of getting it again.
pub(crate) static NON_REENTRANT: Hash = Hash {
    reentrant: false,
    speaks: true,
    bound: false,
};
/// Re-entrant, without messages: waiters ask again and again.
pub(crate) static SPIN: Hash = Hash {
    reentrant: true,
    speaks: false,
    bound: false,
};
/// One master's vote: re-entrant, with requests that are bound to the acquire that they belong to.
///
/// Of several masters some may answer long after the others: one that was silent, or down, gets a release again when the same owner has
/// had the lock anew, and a release by the owner's name alone would take that away. So of an owner that may ask again each vote is given
/// back and lengthened only where its own acquire is remembered, and that is remembered for as long as the lock lasts by it, to the
/// millisecond: what outlived the lock would stand for the owner's next hold. A master that has forgotten the acquire has forgotten the
/// lock with it.
pub(crate) static REDLOCK: Hash = Hash {
    reentrant: true,
    speaks: true,
    bound: true,
};

/// First and longest pause of a waiter that is not woken.
const SPIN_PAUSE_MS: (u64, u64) = (1, 128);

impl Form for Hash {
    fn acquire(&self, ask: &Ask<'_>) -> Request {
        let Some(ids) = ask.ids else {
            let request = lock_alone(&ACQUIRE, ask.names);
            return request.arg_ms(ask.lease).arg(ask.owner.as_bytes());
        };
        let request = lock_alone(&ACQUIRE, ask.names)
            .key(&acquire_latch(ask.names, ids))
            .arg_ms(ask.lease)
            .arg(ask.owner.as_bytes())
            .arg_ms(match self.bound {
                true => ask.lease,
                false => remembered(ask.lease),
            });
        match (self.bound, self.reentrant) {
            (true, _) => request.arg(b"vote"),
            (false, false) => request.arg(b"once"),
            (false, true) => request,
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value {
            Value::Nil => Some(Reply::Granted { token: None }),
            Value::Int(SETTLED) => Some(Reply::Settled),
            Value::Int(OWN) => Some(Reply::Own),
            Value::Int(pttl_ms) => Some(Reply::Busy {
                left: left(*pttl_ms),
            }),
            _ => None,
        }
    }

    fn release(&self, ask: &Ask<'_>) -> Request {
        match ask.ids {
            None => self.release_single(ask),
            Some(ids) => release_counted(ask, ids, self.bound),
        }
    }

    fn undo(&self, ask: &Ask<'_>) -> Request {
        match ask.ids {
            None => self.release_single(ask),
            Some(ids) => release_counted(ask, ids, true),
        }
    }

    fn read_release(&self, value: &Value) -> Option<Given> {
        match value {
            Value::Nil => Some(Given::Absent),
            Value::Int(0) => Some(Given::Kept),
            Value::Int(1) => Some(Given::Freed),
            _ => None,
        }
    }

    fn extend_script(&self) -> &'static Script {
        &EXTEND
    }

    fn extend_arg(&self, ask: &Ask<'_>, request: Request) -> Request {
        request.arg(ask.owner.as_bytes())
    }

    fn extend(&self, ask: &Ask<'_>) -> Request {
        match ask.ids {
            Some(ids) if self.bound => lock_alone(&EXTEND_VOTE, ask.names)
                .key(&acquire_latch(ask.names, ids))
                .arg_ms(ask.lease)
                .arg(ask.owner.as_bytes()),
            _ => self.extend_arg(ask, lock_alone(&EXTEND, ask.names).arg_ms(ask.lease)),
        }
    }

    /// One that is bound names its own acquire, for which the script that renews many has no place.
    fn renews_alone(&self) -> bool {
        self.bound
    }

    fn read_extend(&self, value: &Value) -> Option<Extended> {
        match value {
            Value::Int(1) => Some(Extended::Held),
            Value::Int(0) => Some(Extended::Missing),
            _ => None,
        }
    }

    fn look(&self, names: &Names) -> Request {
        lock_alone(&LOOK, names)
    }

    fn read_holder(&self, value: &Value) -> Option<Option<Held>> {
        held(value)
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        delete(names, None, publish)
    }

    fn channels<'a>(&self, names: &'a Names) -> Vec<&'a str> {
        let channel: &str = &names.channel;
        self.speaks.then_some(channel).into_iter().collect()
    }

    fn pace(&self, look: u32) -> Option<Duration> {
        if self.speaks {
            return None;
        }
        let (first, longest) = SPIN_PAUSE_MS;
        let pause_ms = (first << look.min(16)).min(longest);
        Some(Duration::from_micros(rand::random_range(
            pause_ms * 500..=pause_ms * 1000,
        )))
    }
}

impl Hash {
    fn release_single(&self, ask: &Ask<'_>) -> Request {
        if !self.speaks {
            // No way to tell it by: it is told to nobody.
            let request = lock_alone(&RELEASE, ask.names);
            return request.arg(ask.owner.as_bytes()).arg(b"QUIET");
        }
        let request = lock_and_channel(&RELEASE, ask.names);
        request
            .arg(ask.owner.as_bytes())
            .arg(ask.publish.as_bytes())
            .tells_by_rule(ask.tells_by_rule())
    }
}

/// An owner with several holds is rare where waiters spin; it speaks there too, to nobody.
fn release_counted(ask: &Ask<'_>, ids: Ids, bound: bool) -> Request {
    let mut request = lock_and_channel(&RELEASE_COUNTED, ask.names)
        .key(&ask.names.latch("redisson_unlock_latch", ids.release));
    if bound {
        request = request.key(&acquire_latch(ask.names, ids));
    }
    request
        .arg(ask.owner.as_bytes())
        .arg(ask.publish.as_bytes())
        .arg_ms(latch_life(ask.lease))
}

fn lock_alone(script: &'static Script, names: &Names) -> Request {
    Request::new(What::Script(script)).key(names.key.as_bytes())
}

fn lock_and_channel(script: &'static Script, names: &Names) -> Request {
    lock_alone(script, names).key(names.channel.as_bytes())
}

/// The key that remembers one acquire.
pub(super) fn acquire_latch(names: &Names, ids: Ids) -> Vec<u8> {
    names.latch("redisson_acquire_latch", ids.acquire)
}

/// A lease of an hour is no reason to keep a key for each acquire and release that long.
const LATCH_MOST: Duration = Duration::from_secs(30);

/// For how long a server remembers that an acquire was granted: never longer than the lock lasts by it. If the latch stayed when the lock
/// has ended, an undo that comes late would take away what the same owner has been given since.
pub(super) fn remembered(lease: Duration) -> Duration {
    lease.min(LATCH_MOST)
}

/// For how long a server keeps the answer to a release, and a late acquire out. A latch must outlive the repetitions of its request, and
/// those end with the lease.
pub(crate) fn latch_life(lease: Duration) -> Duration {
    lease.clamp(Duration::from_secs(1), LATCH_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_acquire_is_remembered_for_longer_than_its_lock_lasts() {
        for lease_ms in [1, 200, 2_000, 60_000] {
            let lease = Duration::from_millis(lease_ms);
            assert!(remembered(lease) <= lease);
        }
    }

    fn ask(names: &Names, ids: Option<Ids>) -> Ask<'_> {
        Ask {
            names,
            owner: "u:7",
            lease: Duration::from_secs(30),
            count: 1,
            ids,
            token_life: None,
            publish: "PUBLISH",
            repeated: false,
            place: None,
            writers_first: None,
            heirs: &[],
        }
    }

    #[test]
    fn a_fresh_owner_sends_no_latch() {
        let names = Names::new("n");
        let (keys, args) = REENTRANT.acquire(&ask(&names, None)).parts();
        assert_eq!(keys, ["n"]);
        assert_eq!(args, ["30000", "u:7"]);
        let (keys, _) = REENTRANT.release(&ask(&names, None)).parts();
        assert_eq!(keys, ["n"], "the script knows the channel");
        let braced = Names::new("a{b}");
        let (keys, _) = REENTRANT.release(&ask(&braced, None)).parts();
        assert_eq!(keys, ["a{b}", "redisson_lock__channel:a{b}"]);
        assert!(include_str!("../../scripts/release.lua").contains(&rule(&names)));
        assert!(include_str!("../../scripts/release_plain.lua").contains(&rule(&names)));
    }

    /// The channel of a name without braces, as a script puts it together.
    fn rule(names: &Names) -> String {
        let (before, after) = names.channel.rsplit_once(&*names.key).expect("its name");
        format!("'{before}' .. KEYS[1] .. '{after}'")
    }

    #[test]
    fn a_repeated_request_of_a_counted_owner_is_the_same_request() {
        let names = Names::new("n");
        let ids = Ids {
            acquire: 1,
            release: 2,
        };
        let (first, again) = (
            REENTRANT.release(&ask(&names, Some(ids))),
            REENTRANT.release(&ask(&names, Some(ids))),
        );
        assert_eq!(first.parts(), again.parts());
        assert_eq!(
            first.parts().0[2],
            "redisson_unlock_latch:{n}:00000000000000000000000000000002"
        );
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(
            REENTRANT.read_acquire(&Value::Int(250)),
            Some(Reply::Busy {
                left: Some(Duration::from_millis(250))
            })
        );
        assert_eq!(
            REENTRANT.read_acquire(&Value::Int(-1)),
            Some(Reply::Busy { left: None })
        );
        assert_eq!(REENTRANT.read_acquire(&Value::Okay), None);
        assert_eq!(REENTRANT.read_release(&Value::Nil), Some(Given::Absent));
    }
}
