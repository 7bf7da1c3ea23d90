//! The RFencedLock format: RLock's, and a counter beside it that gives each hold a rising token.

use redis::Value;

use super::{
    form::{Ask, Counting, Extended, Form, Given, Held, Reply, counting, script_of},
    hash::{self, REENTRANT},
};
use crate::{
    names::{Names, companion},
    topology::{Request, Script},
};

static ACQUIRE: Counting = counting!("acquire_fenced", "acquire_fenced.lua");

/// RFencedLock's format. The counter has no end, as Redisson's, unless the caller gives it one.
#[derive(Debug)]
pub(crate) struct Fenced;

impl Form for Fenced {
    fn acquire(&self, ask: &Ask<'_>) -> Request {
        let counter = companion("redisson_lock_token", &ask.names.key);
        let request = Request::new(ACQUIRE.of(ask))
            .key(ask.names.key.as_bytes())
            .key(counter.as_bytes());
        let request = hash::with_holds(request, ask, ask.owner)
            .arg_ms(ask.lease)
            .arg(ask.owner.as_bytes());
        // A counter that ends before the lease would start over under its holder.
        match ask.token_life {
            Some(life) => request.arg_ms(life.max(ask.lease)),
            None => request.arg(b"0"),
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value {
            Value::Array(items) => match items.as_slice() {
                [Value::Int(token)] => Some(Reply::Granted {
                    token: Some(u64::try_from(*token).ok()?),
                }),
                _ => None,
            },
            Value::Nil => None,
            other => REENTRANT.read_acquire(other),
        }
    }

    fn release(&self, ask: &Ask<'_>) -> Request {
        REENTRANT.release(ask)
    }

    fn undo(&self, ask: &Ask<'_>) -> Request {
        REENTRANT.undo(ask)
    }

    fn read_release(&self, value: &Value) -> Option<Given> {
        REENTRANT.read_release(value)
    }

    fn listeners(&self, value: &Value) -> u32 {
        REENTRANT.listeners(value)
    }

    fn extend_script(&self) -> &'static Script {
        REENTRANT.extend_script()
    }

    fn extend_arg(&self, ask: &Ask<'_>, request: Request) -> Request {
        REENTRANT.extend_arg(ask, request)
    }

    fn extend_counted(&self, ask: &Ask<'_>) -> Option<Request> {
        hash::extend_counted(ask)
    }

    fn read_extend(&self, value: &Value) -> Option<Extended> {
        REENTRANT.read_extend(value)
    }

    fn read_holder(&self, value: &Value) -> Option<Option<Held>> {
        REENTRANT.read_holder(value)
    }

    fn look(&self, names: &Names) -> Request {
        REENTRANT.look(names)
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        REENTRANT.force_release(names, publish)
    }
}
