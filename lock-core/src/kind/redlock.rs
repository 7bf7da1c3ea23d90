//! One master's vote: RLock's format, with requests that are bound to the acquire that they belong to.
//!
//! Of several masters some may answer long after the others: one that was silent, or down, gets a release again when the same owner has
//! had the lock anew, and a release by the owner's name alone would take that away. So of an owner that may ask again each vote is given
//! back and lengthened only where its own acquire is remembered, and that is remembered for as long as the lock can last. A master that
//! has forgotten the acquire has forgotten the lock with it.

use std::time::Duration;

use redis::Value;

use super::{
    form::{Ask, Extended, Form, Given, Held, Reply},
    hash::{REENTRANT, acquire_latch},
};
use crate::{
    names::Names,
    topology::{Request, Script, What},
};

static EXTEND: Script = Script::new("extend_vote", include_str!("../../scripts/extend_vote.lua"));

/// RLock's format for a part of a quorum.
#[derive(Debug)]
pub(crate) struct Redlock;

impl Form for Redlock {
    fn acquire(&self, ask: &Ask<'_>) -> Request {
        let Some(ids) = ask.ids else {
            return REENTRANT.acquire(ask);
        };
        REENTRANT
            .acquire_remembered(ask, ids, remembered(ask.lease))
            .arg(b"vote")
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        REENTRANT.read_acquire(value)
    }

    fn release(&self, ask: &Ask<'_>) -> Request {
        REENTRANT.undo(ask)
    }

    fn undo(&self, ask: &Ask<'_>) -> Request {
        REENTRANT.undo(ask)
    }

    fn read_release(&self, value: &Value) -> Option<Given> {
        REENTRANT.read_release(value)
    }

    fn extend_script(&self) -> &'static Script {
        REENTRANT.extend_script()
    }

    fn extend_arg(&self, ask: &Ask<'_>, request: Request) -> Request {
        REENTRANT.extend_arg(ask, request)
    }

    fn extend(&self, ask: &Ask<'_>) -> Request {
        let Some(ids) = ask.ids else {
            return REENTRANT.extend(ask);
        };
        Request::new(What::Script(&EXTEND))
            .key(ask.names.key.as_bytes())
            .key(&acquire_latch(ask.names, ids))
            .arg_ms(ask.lease)
            .arg(ask.owner.as_bytes())
            .arg_ms(remembered(ask.lease))
    }

    fn renews_alone(&self) -> bool {
        true
    }

    fn read_extend(&self, value: &Value) -> Option<Extended> {
        REENTRANT.read_extend(value)
    }

    fn look(&self, names: &Names) -> Request {
        REENTRANT.look(names)
    }

    fn read_holder(&self, value: &Value) -> Option<Option<Held>> {
        REENTRANT.read_holder(value)
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        REENTRANT.force_release(names, publish)
    }
}

/// For how long a master remembers an acquire: a little longer than the lock can last without a renewal, which is remembered anew.
fn remembered(lease: Duration) -> Duration {
    const LONGER: Duration = Duration::from_secs(1);
    lease.max(LONGER) + LONGER
}
