//! A lock with a line: its release calls the next waiter. Our own format; it and RLock exclude each other.

use std::{borrow::Cow, time::Duration};

use redis::Value;

use super::format::{
    ChannelSpec, HandedGrant, Heartbeat, Holder, LineMessage, LockFormat, LockRequest, MissingWaiters,
    ReleaseAnswer, Reply, ServerLine, Waiting, left, released, script,
};
use super::plain;
use crate::names::{Names, companion};
use crate::topology::{Message, Request, Script};

/// The longest lease of a hold that its owner has not claimed: it was called while it waited, and for all
/// that the server knows it may be gone. After that the next one is called.
const UNCLAIMED: Duration = Duration::from_secs(2);
/// How long a client counts as alive after it was heard.
const ALIVE: Duration = Duration::from_secs(3);

/// The next one, and the one who has the place after it.
const SUCCESSORS: usize = 2;

static ACQUIRE: Script = script!("acquire_queued", "queue").given_back_by(&RELEASE);
static RELEASE: Script = script!("release_queued", "queue");
static HEARTBEAT: Script = script!("heartbeat_queued", "queue");
static LOOK: Script = script!("look_queued");
static FORCE_RELEASE: Script = script!("force_release_queued", "queue");

/// The queued lock. Not re-entrant: an equal owner waits behind itself.
#[derive(Debug)]
pub(crate) struct Queued;

fn line(names: &Names) -> String {
    companion("locklab_queue", &names.key)
}

/// One with the fenced kind: who changes from one to the other sees no token fall, also if it has had an end.
fn counter(names: &Names) -> String {
    companion("redisson_lock_token", &names.key)
}

fn request(script: &'static Script, names: &Names) -> Request {
    Request::new(script)
        .key(&names.key)
        .key(counter(names))
        .key(line(names))
        .key(companion("locklab_queue_order", &names.key))
}

impl LockFormat for Queued {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        let request = request(&ACQUIRE, ask.names)
            .arg(terms(ask.lease, ask.token_life))
            .arg(&*hold(ask))
            .arg(ask.names.publish)
            .arg_ms(UNCLAIMED);
        match ask.place {
            None => request,
            Some(place) => {
                request.arg(place.client).arg_ms(ALIVE).arg(flag(place.subscribed)).arg_us(place.waited)
            }
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value.as_sequence()? {
            [Value::Int(1), Value::Int(token), Value::Int(_)] => {
                Some(Reply::Granted { token: Some(u64::try_from(*token).ok()?) })
            }
            [Value::Int(0), Value::Int(pttl_ms), Value::Int(at)] => {
                Some(Reply::Queued { left: left(*pttl_ms), server_us: u64::try_from(*at).ok()? })
            }
            _ => None,
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        let mut request =
            request(&RELEASE, ask.names).arg(&*hold(ask)).arg(ask.names.publish).arg_ms(UNCLAIMED);
        if let Some(place) = ask.place {
            request = request.arg(place.client);
            if !ask.successors.is_empty() {
                request = request.arg_ms(ALIVE).arg(flag(place.subscribed));
            }
            for successor in ask.successors {
                request = (request.arg_us(successor.waited))
                    .arg(terms(successor.lease, successor.token_life))
                    .arg(&successor.owner);
            }
        }
        request
    }

    fn read_release(&self, value: &Value) -> Option<ReleaseAnswer> {
        let token = |token: &i64| u64::try_from(*token).ok();
        match value.as_sequence() {
            Some([Value::Int(now)]) => Some(ReleaseAnswer::Passed { token: token(now)? }),
            Some([Value::Int(before), Value::Int(0)]) => {
                Some(ReleaseAnswer::Inherited { token: token(before)? })
            }
            _ => released(value),
        }
    }

    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.arg(&*hold(ask))
    }

    fn look(&self, names: &Names) -> Request {
        Request::new(&LOOK).key(&names.key).key(counter(names))
    }

    /// The token stands in the place of the count, and is less than 1 if its counter is gone.
    fn read_holders(&self, value: &Value) -> Option<Vec<Holder>> {
        let found = plain::read_numbered_holders(value)?.into_iter();
        let token = |held: &Holder| Some(held.holds).filter(|token| *token > 0);
        Some(found.map(|held| Holder { token: token(&held), holds: 1, ..held }).collect())
    }

    fn force_release(&self, names: &Names) -> Request {
        request(&FORCE_RELEASE, names).arg(names.publish).arg_ms(UNCLAIMED)
    }

    /// A hold has an owner of its own on the server, so a repetition is known without one.
    fn has_records(&self, _ask: &LockRequest<'_>) -> bool {
        false
    }

    fn line(&self) -> Option<&dyn ServerLine> {
        Some(self)
    }
}

impl ServerLine for Queued {
    fn successors(&self) -> usize {
        SUCCESSORS
    }

    fn place_life(&self) -> Duration {
        ALIVE
    }

    fn channel_spec(&self, names: &Names, client: &str) -> ChannelSpec {
        ChannelSpec::Channel(format!("{}:{client}", line(names)))
    }

    fn owner<'a>(&self, ask: &LockRequest<'a>) -> Cow<'a, str> {
        hold(ask)
    }

    fn heartbeat(&self, waiting: &Waiting<'_>) -> Request {
        request(&HEARTBEAT, waiting.names)
            .arg(waiting.client)
            .arg_ms(ALIVE)
            .arg(flag(waiting.subscribed))
            .arg(waiting.names.publish)
            .arg_ms(UNCLAIMED)
            .arg(waiting.owners.first().map_or("", String::as_str))
            .arg_us(waiting.waited)
    }

    fn read_heartbeat(&self, value: &Value) -> Option<Heartbeat> {
        let [Value::Int(now), Value::BulkString(standing), Value::Int(pttl_ms), holder @ ..] =
            value.as_sequence()?
        else {
            return None;
        };
        let server_us = u64::try_from(*now).ok()?;
        let standing = String::from_utf8(standing.clone()).ok()?;
        let last_message = match (holder, left(*pttl_ms)) {
            ([Value::BulkString(owner), Value::Int(token)], Some(lease)) => {
                Some(LineMessage::Called(HandedGrant {
                    owner: String::from_utf8(owner.clone()).ok()?,
                    token: u64::try_from(*token).ok()?,
                    server_us,
                    lease,
                }))
            }
            _ => None,
        };
        Some(Heartbeat {
            server_us,
            absent: MissingWaiters::AllBut(Some(standing).filter(|owner| !owner.is_empty())),
            left: left(*pttl_ms),
            last_message,
        })
    }

    fn read_message(&self, _names: &Names, message: &Message) -> Option<LineMessage> {
        let mut words = std::str::from_utf8(&message.payload).ok()?.split(' ');
        let mut next = || words.next();
        Some(LineMessage::Called(HandedGrant {
            owner: next()?.to_owned(),
            token: next()?.parse().ok()?,
            server_us: next()?.parse().ok()?,
            lease: Duration::from_millis(next()?.parse().ok()?),
        }))
    }
}

/// The owner of one hold: the caller's owner, and where that may come again, what tells holds apart.
fn hold<'a>(ask: &LockRequest<'a>) -> Cow<'a, str> {
    plain::value(ask)
}

/// By what any client's script grants a hold: the lease and, if asked for, the counter's life, in ms.
fn terms(lease: Duration, life: Option<Duration>) -> String {
    let ms = |duration: Duration| duration.as_millis().max(1);
    life.map_or_else(|| ms(lease).to_string(), |life| format!("{}:{}", ms(lease), ms(life)))
}

fn flag(yes: bool) -> &'static [u8] {
    if yes { b"1" } else { b"0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_and_a_foreign_one_is_not() {
        let names = Names::new("n");
        let read = |payload: &[u8]| {
            let message = Message { channel: String::new(), payload: payload.to_vec() };
            Queued.read_message(&names, &message)
        };
        let called = HandedGrant {
            owner: "u:7".to_owned(),
            token: 42,
            server_us: 1_700_000_000_000_000,
            lease: Duration::from_secs(2),
        };
        assert_eq!(read(b"u:7 42 1700000000000000 2000"), Some(LineMessage::Called(called)));
        for foreign in [&b"0"[..], b"", b"u:7 x 1 1", b"\xff 1 1 1"] {
            assert_eq!(read(foreign), None);
        }
    }

    #[test]
    fn the_line_lies_in_the_slot_of_its_lock() {
        for name in ["n", "a{b}c"] {
            let names = Names::new(name);
            let slot = crate::slot;
            assert_eq!(slot(name.as_bytes()), slot(line(&names).as_bytes()));
            let ChannelSpec::Channel(channel) = Queued.channel_spec(&names, "c") else {
                panic!("one channel for a client");
            };
            assert_eq!(slot(name.as_bytes()), slot(channel.as_bytes()));
        }
    }
}
