//! The RSemaphore format: a number of free permits that belong to nobody.

use std::time::Duration;

use redis::Value;

use super::form::{ANSWER_LIFE, Ask, Extended, Form, Given, Reply, answer_latch, delete};
use crate::{
    names::Names,
    topology::{Request, Script, What},
};

static TAKE: Script = Script::new(
    "take_semaphore",
    include_str!("../../scripts/take_semaphore.lua"),
);
static ADD: Script = Script::new(
    "add_semaphore",
    include_str!("../../scripts/add_semaphore.lua"),
);
static UNDO: Script = Script::new(
    "undo_semaphore",
    include_str!("../../scripts/undo_semaphore.lua"),
);
static SET: Script = Script::new(
    "set_semaphore",
    include_str!("../../scripts/set_semaphore.lua"),
);
static DRAIN: Script = Script::new(
    "drain_semaphore",
    include_str!("../../scripts/drain_semaphore.lua"),
);
/// Permits of a number have no lease, and nobody may believe that he lengthened one.
static ENDLESS: Script = Script::new(
    "endless",
    "return redis.error_reply('ENDLESS permits of a semaphore have no lease')",
);

/// What the acquire script answers for an acquire that was undone before.
const SETTLED: i64 = -3;

/// RSemaphore's format.
#[derive(Debug)]
pub(crate) struct Semaphore;

impl Form for Semaphore {
    fn acquire(&self, ask: &Ask<'_>) -> Request {
        let request = Request::new(What::Script(&TAKE))
            .key(ask.names.key.as_bytes())
            .key(&taken_latch(ask))
            .arg(ask.count.to_string().as_bytes())
            .arg_ms(ANSWER_LIFE);
        match ask.repeated {
            true => request.arg(b"again"),
            false => request,
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value {
            Value::Array(left) => match left.as_slice() {
                [Value::Int(left)] => Some(Reply::Admitted { more: *left > 0 }),
                _ => None,
            },
            Value::Int(SETTLED) => Some(Reply::Settled),
            Value::Int(-1) => Some(Reply::Busy { left: None }),
            _ => None,
        }
    }

    fn release(&self, ask: &Ask<'_>) -> Request {
        let id = ask.ids.map_or(0, |ids| ids.release);
        add(ask.names, i64::from(ask.count), ask.publish, id)
    }

    fn undo(&self, ask: &Ask<'_>) -> Request {
        Request::new(What::Script(&UNDO))
            .key(ask.names.key.as_bytes())
            .key(ask.names.channel.as_bytes())
            .key(&taken_latch(ask))
            .arg(ask.count.to_string().as_bytes())
            .arg(ask.publish.as_bytes())
            .arg_ms(ANSWER_LIFE)
    }

    fn read_release(&self, value: &Value) -> Option<Given> {
        match value {
            Value::Nil => Some(Given::Absent),
            Value::Int(_) => Some(Given::Freed),
            _ => None,
        }
    }

    fn extend_script(&self) -> &'static Script {
        &ENDLESS
    }

    fn extend_arg(&self, _: &Ask<'_>, request: Request) -> Request {
        request
    }

    fn read_extend(&self, _: &Value) -> Option<Extended> {
        None
    }

    fn look(&self, names: &Names) -> Request {
        Request::new(What::Command("GET")).key(names.key.as_bytes())
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        delete(names, None, publish)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn taken(&self) -> &'static str {
        "too few permits are free"
    }
}

fn taken_latch(ask: &Ask<'_>) -> Vec<u8> {
    let id = ask.ids.map_or(0, |ids| ids.acquire);
    ask.names.latch("redisson_acquire_latch", id)
}

/// Adds so many permits once, however often it is sent with this id.
pub(crate) fn add(names: &Names, count: i64, publish: &'static str, id: u128) -> Request {
    with_latch(&ADD, names, id)
        .arg(count.to_string().as_bytes())
        .arg(publish.as_bytes())
        .arg_ms(ANSWER_LIFE)
}

/// Begins a semaphore once, however often it is sent with this id.
pub(crate) fn set(
    names: &Names,
    count: u32,
    life: Option<Duration>,
    publish: &'static str,
    id: u128,
) -> Request {
    let request = with_latch(&SET, names, id)
        .arg(count.to_string().as_bytes())
        .arg(publish.as_bytes())
        .arg_ms(ANSWER_LIFE);
    match life {
        Some(life) => request.arg_ms(life),
        None => request,
    }
}

/// Takes what there is once, however often it is sent with this id.
pub(crate) fn drain(names: &Names, id: u128) -> Request {
    Request::new(What::Script(&DRAIN))
        .key(names.key.as_bytes())
        .key(&answer_latch(names, id))
        .arg_ms(ANSWER_LIFE)
}

fn with_latch(script: &'static Script, names: &Names, id: u128) -> Request {
    Request::new(What::Script(script))
        .key(names.key.as_bytes())
        .key(names.channel.as_bytes())
        .key(&answer_latch(names, id))
}
