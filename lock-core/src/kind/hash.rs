//! The RLock format: a hash `{owner: count}` with the lease as its time to live.

use std::time::Duration;

use super::format::{LockFormat, LockRequest, of_lock, script, with_holds, with_keys};
use crate::bounds::RECORD_LIFE;
use crate::names::Names;
use crate::topology::{Request, RequestCommand, Script};

static ACQUIRE: Script = script!("acquire").given_back_by(&RELEASE);
pub(super) static RELEASE: Script = script!("release");
static ACQUIRE_COUNTED: Script =
    script!("acquire_counted"; "acquire_alone", "counted", "acquire_all").given_back_by(&RELEASE_COUNTED);
pub(super) static RELEASE_COUNTED: Script =
    script!("release_counted"; "speak", "release_alone", "counted", "release_all");

/// RLock's format.
#[derive(Debug)]
pub(crate) struct Hash {
    /// An equal owner may hold several times.
    reentrant: bool,
    speaks: bool,
}

/// Re-entrant, and waiters are woken.
pub(crate) static REENTRANT: Hash = Hash { reentrant: true, speaks: true };
/// An owner that has the lock is refused instead of getting it again.
pub(crate) static NON_REENTRANT: Hash = Hash { reentrant: false, speaks: true };
/// Re-entrant, without messages: waiters ask again and again.
pub(crate) static SPIN: Hash = Hash { reentrant: true, speaks: false };
/// First and longest pause of a waiter that is not woken.
const SPIN_PAUSE_MS: (u64, u64) = (1, 128);

impl LockFormat for Hash {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        if ask.id.is_none() {
            return of_lock(&ACQUIRE, ask.names).arg_ms(ask.lease).arg(ask.owner);
        }
        let request = acquire_by(&ACQUIRE_COUNTED, ask);
        if self.reentrant { request } else { request.arg(b"once") }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        match ask.id {
            None => {
                let request = of_lock(&RELEASE, ask.names).arg(ask.owner);
                // Where waiters ask again and again nobody is notified.
                if self.speaks { ask.telling_if_unusual(request) } else { request.arg(b"QUIET") }
            }
            // Such an owner is rare where waiters spin; it speaks there too, to nobody.
            Some(_) => release_by(&RELEASE_COUNTED, ask),
        }
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
        Some(Duration::from_micros(rand::random_range(pause_ms * 500..=pause_ms * 1000)))
    }
}

/// Takes all locks of the names.
pub(super) fn acquire_by(script: impl Into<RequestCommand>, ask: &LockRequest<'_>) -> Request {
    with_holds(with_keys(Request::new(script), ask.names), ask, ask.owner)
        .arg_ms(ask.lease)
        .arg(ask.owner)
        .arg(ask.names.all().count().to_string())
}

pub(super) fn release_by(script: impl Into<RequestCommand>, ask: &LockRequest<'_>) -> Request {
    let request = with_holds(with_keys(Request::new(script), ask.names), ask, ask.owner)
        .arg(ask.owner)
        .arg(ask.names.publish)
        .arg(ask.names.all().count().to_string());
    with_record_life(with_channels(request, ask.names), ask)
}

pub(super) fn with_channels(request: Request, names: &Names) -> Request {
    names.all().map(|each| each.channel.as_bytes()).fold(request, Request::arg)
}

/// Adds for how long the answer to a release is kept, and a late acquire out, where it is.
pub(super) fn with_record_life(request: Request, ask: &LockRequest<'_>) -> Request {
    match ask.id {
        // It must outlive the repetitions of its request, and those end with the lease.
        Some(_) => request.arg_ms(ask.lease.clamp(Duration::from_secs(1), RECORD_LIFE)),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_names_the_channel_only_where_its_script_cannot() {
        let names = Names::new("a{b}");
        let ask = LockRequest {
            names: &names,
            owner: "u:7",
            lease: Duration::from_secs(30),
            count: 1,
            id: None,
            token_life: None,
            repeated: false,
            place: None,
            writers_first: None,
            not_after: None,
            successors: &[],
        };
        let (keys, args) = REENTRANT.release(&ask).parts();
        // A channel is no key, which would have to exist.
        assert_eq!(keys, ["a{b}"]);
        assert_eq!(args, ["u:7", "PUBLISH", "redisson_lock__channel:a{b}"]);
        let rule = rule(&Names::new("n"));
        assert!(include_str!("../../scripts/release.lua").contains(&rule));
        assert!(include_str!("../../scripts/release_plain.lua").contains(&rule));
    }

    /// The channel of a name without braces, as a script puts it together.
    fn rule(names: &Names) -> String {
        let (before, after) = names.channel.rsplit_once(&*names.key).expect("its name");
        format!("'{before}' .. KEYS[1] .. '{after}'")
    }
}
