//! The RReadWriteLock format: readers share, a writer is alone, and a writer may read and then write no more.

use std::borrow::Cow;

use redis::Value;

use super::format::{Counting, LockFormat, LockRequest, counting, of_lock, script, with_holds};
use super::hash::{REENTRANT, with_record_life};
use crate::names::{Names, companion};
use crate::topology::{Request, Script};

static ACQUIRE_READ: Counting =
    counting!("acquire_read", "rw").given_back_by(&RELEASE_READ.once, &RELEASE_READ.several);
static ACQUIRE_WRITE: Counting =
    counting!("acquire_write", "rw").given_back_by(&RELEASE_WRITE.once, &RELEASE_WRITE.several);
static RELEASE_READ: Counting = counting!("release_read", "speak", "rw");
static RELEASE_WRITE: Counting = counting!("release_write", "speak", "rw");
static EXTEND: Counting = counting!("extend_rw", "rw");
static LOOK: Script = script!("look_rw", "rw");
static LEAVE: Script = script!("leave_write", "speak");
static FORCE_RELEASE: Script = script!("force_release_rw", "speak", "rw");

#[derive(Debug)]
pub(crate) enum AccessMode {
    /// Shared among readers.
    Read,
    /// Alone, but for what the writer itself reads.
    Write,
}

impl AccessMode {
    /// The mode in which the lock is when this side holds it.
    fn mode(&self) -> &'static [u8] {
        match self {
            AccessMode::Read => b"read",
            AccessMode::Write => b"write",
        }
    }

    /// Where the lock counts the holds of an owner.
    fn field<'a>(&self, ask: &LockRequest<'a>) -> Cow<'a, str> {
        match self {
            AccessMode::Read => Cow::Borrowed(ask.owner),
            AccessMode::Write => Cow::Owned(format!("{}:write", ask.owner)),
        }
    }
}

/// The key that ends with an owner's first read hold.
fn first_ending(names: &Names, owner: &str) -> String {
    names.suffixed(&format!("{owner}:rwlock_timeout:1"))
}

/// The writers that wait, each until then. Ours: no peer knows of it, and without writers it is not there.
fn writers(names: &Names) -> String {
    companion("locklab_writers_latch", &names.key)
}

impl LockFormat for AccessMode {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        let script = match self {
            AccessMode::Read => &ACQUIRE_READ,
            AccessMode::Write => &ACQUIRE_WRITE,
        };
        let request = of_lock(script.of(ask), ask.names).key(writers(ask.names));
        let request = with_holds(request, ask, &self.field(ask)).arg_ms(ask.lease).arg(ask.owner);
        match (self, ask.writers_first) {
            (AccessMode::Read, Some(first)) => {
                let patient = ask.place.is_none_or(|place| place.waited < first);
                request.arg(if patient { b"1" } else { b"2" })
            }
            (AccessMode::Write, Some(first)) if ask.place.is_some() => request.arg_ms(first),
            _ => request.arg(b"0"),
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        let script = match self {
            AccessMode::Read => &RELEASE_READ,
            AccessMode::Write => &RELEASE_WRITE,
        };
        let request = with_holds(of_lock(script.of(ask), ask.names), ask, &self.field(ask))
            .arg(ask.owner)
            .telling(ask.names);
        with_record_life(request, ask)
    }

    fn leave(&self, ask: &LockRequest<'_>) -> Option<Request> {
        (ask.writers_first).filter(|_| matches!(self, AccessMode::Write))?;
        Some(Request::new(&LEAVE).key(writers(ask.names)).arg(ask.owner).telling(ask.names))
    }

    fn listeners(&self, value: &Value) -> u32 {
        match self {
            AccessMode::Read => 0,
            AccessMode::Write => REENTRANT.listeners(value),
        }
    }

    fn extend_script(&self) -> &'static Script {
        &EXTEND.once
    }

    fn extend_keys(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        let request = request.key(&ask.names.key);
        match self {
            // Named, so that a server that has only one of them while their slot moves says so.
            AccessMode::Read => request.key(first_ending(ask.names, ask.owner)),
            AccessMode::Write => request,
        }
    }

    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.arg(&*self.field(ask))
    }

    fn extend_counted(&self, ask: &LockRequest<'_>) -> Request {
        let request = with_holds(self.extend_keys(ask, Request::new(EXTEND.of(ask))), ask, &self.field(ask));
        self.extend_arg(ask, request.arg_ms(ask.lease))
    }

    fn look(&self, names: &Names) -> Request {
        of_lock(&LOOK, names).arg(self.mode())
    }

    fn why_own(&self) -> &'static str {
        "reads it, and a reader becomes no writer: two who tried would wait for each other; release the read lock first"
    }

    fn force_release(&self, names: &Names) -> Request {
        of_lock(&FORCE_RELEASE, names).telling(names).arg(self.mode())
    }

    fn is_shared(&self) -> bool {
        matches!(self, AccessMode::Read)
    }

    fn opens(&self) -> bool {
        self.is_shared()
    }

    fn naming(&self) -> fn(&str) -> Names {
        Names::of_read_write
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Holder;

    #[test]
    fn of_several_readers_the_one_with_the_longest_lease_is_named() {
        let reader =
            |ms, owner: &str| [Value::Int(ms), Value::BulkString(owner.as_bytes().to_vec()), Value::Int(1)];
        let all = [reader(10, "u:1"), reader(30, "u:2"), reader(20, "u:3")];
        let answer = Value::Array(all.concat());
        assert_eq!(AccessMode::Read.read_holders(&answer).map(|all| all.len()), Some(3));
        let longest = AccessMode::Read.read_holders(&answer).and_then(Holder::longest);
        assert_eq!(longest.map(|held| held.owner).as_deref(), Some("u:2"));
        assert_eq!(AccessMode::Read.read_holders(&Value::Nil), Some(Vec::new()));
        assert_eq!(AccessMode::Read.read_holders(&Value::Array(reader(10, "u:1")[..2].to_vec())), None);
    }
}
