//! The lock of the Redis documentation: `SET name value NX PX lease` in, compare and delete out by a script.
//!
//! Redis 8.4 and Valkey 9 have commands of their own for the latter (`DELEX key IFEQ value`,
//! `DELIFEQ key value`). They spare the server some of a release, and are not used: each would be a second
//! form of it, to be found out per connection and proved for itself.

use std::borrow::Cow;

use redis::Value;

use super::format::{Holder, LockFormat, LockRequest, Reply, holders, left, of_lock, script};
use crate::names::Names;
use crate::topology::{KeyCheck, Request, Script};

static ACQUIRE: Script = script!("acquire_plain");
static RELEASE: Script = script!("release_plain").alone();
static LOOK: Script = script!("look_plain");
static EXTEND: Script = script!("extend_plain");

/// A string whose value nobody else has. Not re-entrant: an equal owner finds it busy.
#[derive(Debug)]
pub(crate) struct Plain;

/// The value of one hold: the owner, and where that may come again, what tells its holds apart.
pub(super) fn value<'a>(ask: &LockRequest<'a>) -> Cow<'a, str> {
    ask.id.map_or_else(|| ask.owner.into(), |id| format!("{}:{id:032x}", ask.owner).into())
}

/// The owner is what stands before the number of the hold, where there is one.
pub(super) fn read_numbered_holders(value: &Value) -> Option<Vec<Holder>> {
    let mut found = holders(value)?;
    for holder in &mut found {
        if let [client, number, _] = holder.owner.split(':').collect::<Vec<_>>()[..] {
            holder.owner = format!("{client}:{number}");
        }
    }
    Some(found)
}

impl LockFormat for Plain {
    /// One native command. A script asks only for who waits, since it says when the lease ends, which SET
    /// does not, and after a lost answer, since it knows its own value again.
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        if ask.repeated || ask.place.is_some() {
            return of_lock(&ACQUIRE, ask.names).arg_ms(ask.lease).arg(&*value(ask));
        }
        of_lock("SET", ask.names).arg(&*value(ask)).arg(b"NX").arg(b"PX").arg_ms(ask.lease)
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value {
            Value::Okay => Some(Reply::Granted { token: None }),
            Value::Int(HELD) => Some(Reply::Granted { token: None }),
            // SET does not say for how long.
            Value::Nil => Some(Reply::Busy { left: None }),
            Value::Int(pttl_ms) => Some(Reply::Busy { left: left(*pttl_ms) }),
            _ => None,
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        ask.telling_if_unusual(of_lock(&RELEASE, ask.names).arg(&*value(ask)))
    }

    fn extend_script(&self) -> &'static Script {
        &EXTEND
    }

    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.arg(&*value(ask))
    }

    fn key_check(&self, ask: &LockRequest<'_>) -> KeyCheck {
        KeyCheck::new(&of_lock("GET", ask.names), Value::BulkString(value(ask).as_bytes().to_vec()))
    }

    fn look(&self, names: &Names) -> Request {
        of_lock(&LOOK, names)
    }

    fn read_holders(&self, value: &Value) -> Option<Vec<Holder>> {
        read_numbered_holders(value)
    }

    fn has_records(&self, _ask: &LockRequest<'_>) -> bool {
        false
    }
}

/// What the script that asks again answers for a hold; SET answers nothing for the opposite.
const HELD: i64 = -3;
