//! The lock of the Redis documentation: `SET name value NX PX lease` in, compare and delete out.

use redis::Value;

use super::form::{Ask, Extended, Form, Given, Reply, left, ms, script};
use crate::{
    names::Names,
    topology::{Request, Script, What},
};

static ACQUIRE: Script = Script::new(
    "acquire_plain",
    include_str!("../../scripts/acquire_plain.lua"),
);
static RELEASE: Script = Script::new(
    "release_plain",
    include_str!("../../scripts/release_plain.lua"),
);
static EXTEND: Script = Script::new(
    "extend_plain",
    include_str!("../../scripts/extend_plain.lua"),
);

/// A string whose value nobody else has. Not re-entrant: an equal owner finds it busy.
#[derive(Debug)]
pub(crate) struct Plain;

/// The value of one hold: the owner, and where the owner may come again, what tells this time from the others.
fn value(ask: &Ask<'_>) -> Vec<u8> {
    match ask.ids {
        None => ask.owner.into(),
        Some(ids) => format!("{}:{:032x}", ask.owner, ids.acquire).into_bytes(),
    }
}

fn lock(names: &Names) -> Vec<u8> {
    names.key.as_bytes().to_vec()
}

impl Form for Plain {
    /// One native command; only after a lost answer a script, which knows its own value again.
    fn acquire(&self, ask: &Ask<'_>) -> Request {
        if ask.repeated {
            let args = vec![ms(ask.lease), value(ask)];
            return script(&ACQUIRE, vec![lock(ask.names)], args);
        }
        Request {
            what: What::Command("SET"),
            keys: vec![lock(ask.names)],
            args: vec![value(ask), b"NX".into(), b"PX".into(), ms(ask.lease)],
            wait: None,
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value {
            Value::Okay => Some(Reply::Granted { token: None }),
            Value::Int(HELD) => Some(Reply::Granted { token: None }),
            // SET does not say for how long.
            Value::Nil => Some(Reply::Busy { left: None }),
            Value::Int(pttl_ms) => Some(Reply::Busy {
                left: left(*pttl_ms),
            }),
            _ => None,
        }
    }

    fn release(&self, ask: &Ask<'_>) -> Request {
        let channel = ask.names.channel.as_bytes().to_vec();
        let args = vec![value(ask), ask.publish.into()];
        script(&RELEASE, vec![lock(ask.names), channel], args)
    }

    fn undo(&self, ask: &Ask<'_>) -> Request {
        self.release(ask)
    }

    fn read_release(&self, value: &Value) -> Option<Given> {
        match value {
            Value::Nil => Some(Given::Absent),
            Value::Int(1) => Some(Given::Freed),
            _ => None,
        }
    }

    fn extend(&self, ask: &Ask<'_>) -> Request {
        let args = vec![ms(ask.lease), value(ask)];
        script(&EXTEND, vec![lock(ask.names)], args)
    }

    fn read_extend(&self, value: &Value) -> Option<Extended> {
        match value {
            Value::Int(1) => Some(Extended::Held),
            Value::Int(0) => Some(Extended::Missing),
            _ => None,
        }
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        super::hash::REENTRANT.force_release(names, publish)
    }

    fn has_latches(&self, _ask: &Ask<'_>) -> bool {
        false
    }
}

/// What the script that asks again answers for a hold; SET answers nothing for the opposite.
const HELD: i64 = -3;
