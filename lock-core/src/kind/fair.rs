//! The RFairLock format: RLock's hash, a list of waiters, their deadlines, and a channel for each.

use std::{borrow::Cow, time::Duration};

use redis::Value;

use super::format::{
    ChannelSpec, Counting, Heartbeat, LineMessage, LockFormat, LockRequest, MissingWaiters, Reply,
    ServerLine, Waiting, acquired, counting, left, script, with_holds,
};
use super::hash::with_record_life;
use crate::bounds::RECORD_LIFE;
use crate::names::{Names, companion};
use crate::topology::{Message, Request, RequestCommand, Script};

/// How long a place in the line lasts without a heartbeat, beside what RFairLock's scripts take from it for
/// each peer ahead (`fair.lua`). A Java peer whose clock is ahead by more evicts us, and we queue again; one
/// that finds a dead place of ours at the head of a free lock waits for so long. Ours pass it over as soon as
/// it did not come when it was called, those who only try, too. A dead peer is passed over by those of ours
/// who stand behind it alone: others could not tell it from one that came and is back.
const PLACE: Duration = Duration::from_secs(30);

static ACQUIRE: Counting = counting!("acquire_fair", "fair").given_back_by(&RELEASE.once, &RELEASE.several);
static RELEASE: Counting = counting!("release_fair", "fair");
static HEARTBEAT: Script = script!("heartbeat_fair", "fair");
static FORCE_RELEASE: Script = script!("force_release_fair", "fair");

/// RFairLock's format.
#[derive(Debug)]
pub(crate) struct Fair;

fn request(script: impl Into<RequestCommand>, names: &Names) -> Request {
    Request::new(script)
        .key(&names.key)
        .key(companion("redisson_lock_queue", &names.key))
        .key(companion("redisson_lock_timeout", &names.key))
        .key(companion("locklab_fair_latch", &names.key))
        .key(&names.channel)
}

fn give(ask: &LockRequest<'_>, undo: bool) -> Request {
    let request = with_holds(request(RELEASE.of(ask), ask.names), ask, ask.owner);
    // Who asked for no place gives none up: one that stands there is somebody else's of the same name.
    let leaves = undo && ask.place.is_some();
    let request = request.arg(ask.owner).arg(ask.names.publish).arg(if leaves { b"1" } else { b"0" });
    match ask.id {
        // A question for it may come late, and a place lasts longer than its lease.
        Some(_) if leaves => request.arg_ms(RECORD_LIFE),
        _ => with_record_life(request, ask),
    }
}

impl LockFormat for Fair {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        let request = with_holds(request(ACQUIRE.of(ask), ask.names), ask, ask.owner)
            .arg_ms(ask.lease)
            .arg(ask.owner)
            .arg(ask.names.publish);
        match ask.place {
            Some(_) => request.arg_ms(PLACE),
            None => request.arg(b"0"),
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value.as_sequence() {
            Some([Value::Int(0), Value::Int(pttl_ms), Value::Int(at)]) => {
                Some(Reply::Queued { left: left(*pttl_ms), server_us: us(*at)? })
            }
            _ => acquired(value),
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        give(ask, false)
    }

    fn undo(&self, ask: &LockRequest<'_>) -> Request {
        give(ask, true)
    }

    fn force_release(&self, names: &Names) -> Request {
        request(&FORCE_RELEASE, names).arg(names.publish)
    }

    fn line(&self) -> Option<&dyn ServerLine> {
        Some(self)
    }
}

impl ServerLine for Fair {
    fn place_life(&self) -> Duration {
        PLACE
    }

    fn channel_spec(&self, names: &Names, client: &str) -> ChannelSpec {
        ChannelSpec::Pattern(format!("{}:{client}:*", escaped(&names.channel)))
    }

    fn own_channel(&self, names: &Names, owner: &str) -> Option<String> {
        Some(format!("{}:{owner}", names.channel))
    }

    fn owner<'a>(&self, ask: &LockRequest<'a>) -> Cow<'a, str> {
        ask.owner.into()
    }

    fn heartbeat(&self, waiting: &Waiting<'_>) -> Request {
        let request = request(&HEARTBEAT, waiting.names).arg(waiting.names.publish).arg_ms(PLACE);
        waiting.owners.iter().fold(request, |request, owner| request.arg(owner))
    }

    fn read_heartbeat(&self, value: &Value) -> Option<Heartbeat> {
        let [Value::Int(now), Value::Int(pttl_ms), Value::BulkString(head), Value::Int(free), absent @ ..] =
            value.as_sequence()?
        else {
            return None;
        };
        let absent = absent.iter().map(|number| match number {
            Value::Int(number) => usize::try_from(*number).ok()?.checked_sub(1),
            _ => None,
        });
        let head = std::str::from_utf8(head).ok()?;
        Some(Heartbeat {
            server_us: us(*now)?,
            absent: MissingWaiters::These(absent.collect::<Option<_>>()?),
            left: left(*pttl_ms),
            last_message: (*free == 1).then(|| LineMessage::Turn(head.to_owned())),
        })
    }

    fn read_message(&self, names: &Names, message: &Message) -> Option<LineMessage> {
        let owner = message.channel.strip_prefix(&names.channel)?;
        Some(LineMessage::Turn(owner.strip_prefix(':')?.to_owned()))
    }
}

/// A name as a pattern that fits nothing else.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The server's ms as µs.
fn us(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_a_client_fits_its_owners_alone() {
        let ChannelSpec::Pattern(pattern) = Fair.channel_spec(&Names::new("a*[b]?"), "u") else {
            panic!("a pattern");
        };
        assert_eq!(pattern, r"redisson_lock__channel:{a\*\[b\]\?}:u:*");
    }

    #[test]
    fn a_message_names_its_owner_by_its_channel() {
        let names = Names::new("n");
        let read = |channel: &str| {
            let message = Message { channel: channel.to_owned(), payload: b"0".to_vec() };
            Fair.read_message(&names, &message)
        };
        assert_eq!(read("redisson_lock__channel:{n}:u:7"), Some(LineMessage::Turn("u:7".to_owned())));
        assert_eq!(read("redisson_lock__channel:{n}"), None);
    }
}
