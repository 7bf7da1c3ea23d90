//! What a kind of lock says to a server, and how it reads the answers: requests and replies, no network.

use std::{borrow::Cow, fmt, time::Duration};

use redis::Value;

use crate::names::Names;
use crate::topology::{KeyCheck, Message, Request, RequestCommand, Script};

/// A script by its name, which is its file's too, and the names of the texts in front of its own; or by a name and all of its texts.
macro_rules! script {
    ($name:expr; $($text:expr),+) => {
        $crate::topology::Script::new(
            $name,
            concat!($(include_str!(concat!("../../scripts/", $text, ".lua"))),+),
        )
    };
    ($name:literal $(, $before:literal)*) => {
        script!($name; $($before,)* $name)
    };
}
pub(super) use script;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) names: &'a Names,
    /// `<client uuid>:<number>`.
    pub(crate) owner: &'a str,
    pub(crate) lease: Duration,
    /// How many permits, where a kind counts them.
    pub(crate) count: u32,
    /// What tells one acquire of an owner that may hold several times from its others, over all repetitions of it and of its release; a
    /// fresh owner holds once, which costs the server less.
    pub(crate) id: Option<u128>,
    /// How long a counter of tokens outlives its last use; `None` is for ever.
    pub(crate) token_life: Option<Duration>,
    /// `PUBLISH`, `SPUBLISH` or `BOTH`.
    pub(crate) publish: &'static str,
    /// An earlier acquire of the same identity was not answered.
    pub(crate) repeated: bool,
    /// An owner that does not get it takes a place in the line; of a kind without a line only that somebody waits.
    pub(crate) place: Option<QueuePlace<'a>>,
    /// Writers who wait come before new readers, each for so long after it has asked.
    pub(crate) writers_first: Option<Duration>,
    /// By the server's clock in ms, when nobody waits for an answer any more; `None` if the clock is not known. For what has no lease.
    pub(crate) not_after: Option<u64>,
    /// Who of the same client waits, as far as a release has to know.
    pub(crate) successors: &'a [Successor],
}

impl Ask<'_> {
    /// Whether a release that names neither channel nor way says so where and how it should.
    pub(super) fn tells_by_rule(&self) -> bool {
        self.publish == "PUBLISH" && self.names.tells_by_rule()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuePlace<'a> {
    pub(crate) client: &'a str,
    /// The client hears what is said to it.
    pub(crate) subscribed: bool,
    pub(crate) waited: Duration,
}

/// Somebody to whom a release of the same client may give the lock, or the client's place in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Successor {
    /// As [`ServerLine::owner`] calls it.
    pub(crate) owner: String,
    pub(crate) lease: Duration,
    pub(crate) token_life: Option<Duration>,
    pub(crate) waited: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted {
        token: Option<u64>,
    },
    /// One of several that may hold at once.
    Admitted {
        more: bool,
        /// The server's clock when it said so, in ms.
        server_ms: Option<u64>,
    },
    /// The request came later than it asked to be taken, by this clock of the server in ms, and took nothing.
    Late {
        server_ms: u64,
    },
    /// Another holds it, for so long at least if nothing is done.
    Busy {
        left: Option<Duration>,
    },
    /// Another holds it; this owner has a place in the line, if it asked for one.
    Queued {
        left: Option<Duration>,
        /// The server's clock when it said so, in microseconds.
        server_us: u64,
    },
    /// This very acquire was granted before and that hold is over: ask with new ids.
    Settled,
    /// The owner has it already, and this kind does not give it to its owner again.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseAnswer {
    Freed,
    /// As `Freed`, and the first successor has it.
    Passed {
        token: u64,
    },
    /// As `Absent`, and the first successor has it.
    Inherited {
        token: u64,
    },
    /// The same owner holds it still.
    Kept,
    /// This owner did not have it.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendAnswer {
    Held,
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CurrentHolder {
    pub(crate) owner: String,
    pub(crate) count: u64,
    pub(crate) token: Option<u64>,
    /// `None` for a key without an end.
    pub(crate) left: Option<Duration>,
}

/// A kind of lock on one server set; what it does not say itself is as RLock has it. All requests must be safe to repeat: the same request again, with the
/// same ids, is answered alike and changes nothing more, whatever became of the first one's reply.
pub(crate) trait Form: fmt::Debug + Send + Sync {
    /// Takes the lock, or says for how long it is another's.
    fn acquire(&self, ask: &Ask<'_>) -> Request;
    /// Reads the answer to `acquire`; `None` if it is none.
    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        acquired(value)
    }
    /// Gives the lock back.
    fn release(&self, ask: &Ask<'_>) -> Request;
    /// Gives back what `acquire` may have taken, and nothing else.
    fn undo(&self, ask: &Ask<'_>) -> Request {
        self.release(ask)
    }
    /// Reads the answer to `release` and `undo`.
    fn read_release(&self, value: &Value) -> Option<ReleaseAnswer> {
        released(value)
    }
    /// How many have heard the message of a release that was answered so, as far as the server knows: those who listen. Such an
    /// answer is 1, and as many more as listened.
    fn listeners(&self, value: &Value) -> u32 {
        match value {
            Value::Int(answer) => u32::try_from(*answer).map_or(0, |n| n.saturating_sub(1)),
            _ => 0,
        }
    }
    /// The script that extends leases; never shortens one and never makes a hold. Its keys are what `extend_keys` adds for each
    /// hold, its arguments the lease and what `extend_arg` adds for each; it answers for each.
    fn extend_script(&self) -> &'static Script {
        &EXTEND
    }
    fn extend_keys(&self, ask: &Ask<'_>, request: Request) -> Request {
        request.key(self.extend_key(ask.names).as_bytes())
    }
    /// Adds what identifies one hold to `extend_script`.
    fn extend_arg(&self, ask: &Ask<'_>, request: Request) -> Request {
        request.arg(ask.owner.as_bytes())
    }
    fn extend(&self, ask: &Ask<'_>) -> Request {
        if let Some(request) = self.extend_counted(ask) {
            return request;
        }
        let request = Request::new(RequestCommand::Script(self.extend_script()));
        let request = self.extend_keys(ask, request);
        self.extend_arg(ask, request.arg_ms(ask.lease))
    }
    /// As `extend`, of an owner that may have several holds, each identified by its acquire; `None` where its owner identifies it.
    fn extend_counted(&self, _ask: &Ask<'_>) -> Option<Request> {
        None
    }
    fn read_extend(&self, value: &Value) -> Option<ExtendAnswer> {
        match value {
            Value::Int(1) => Some(ExtendAnswer::Held),
            Value::Int(0) => Some(ExtendAnswer::Missing),
            _ => None,
        }
    }
    /// What a renewal names the hold by, where that is one key.
    fn extend_key<'a>(&self, names: &'a Names) -> Cow<'a, str> {
        Cow::Borrowed(&names.key)
    }
    /// Whether a renewal of one hold is a request of its own. The script that renews many knows holds by their owners alone.
    fn renews_alone(&self, ask: &Ask<'_>) -> bool {
        self.extend_counted(ask).is_some()
    }
    /// What a hold's key is asked to learn of a loss, and the answer while it stands; a hint, since of several holds of an owner it knows
    /// no one from the others. Not for what several hold at once, whose key changes with each of them.
    fn key_check(&self, ask: &Ask<'_>) -> KeyCheck {
        let request = of_lock(RequestCommand::Command("HEXISTS"), ask.names);
        KeyCheck::new(&self.extend_arg(ask, request), Value::Int(1))
    }
    fn look(&self, names: &Names) -> Request {
        of_lock(RequestCommand::Script(&LOOK), names)
    }
    /// Reads who holds it from the answer to `look`; that of permits names nobody.
    fn read_holder(&self, value: &Value) -> Option<Option<CurrentHolder>> {
        held(value)
    }
    fn read_holders(&self, value: &Value) -> Option<Vec<CurrentHolder>> {
        Some(self.read_holder(value)?.into_iter().collect())
    }
    /// Asks whether anybody holds it, answered by a number; `None` where only `look` can tell.
    fn count(&self, names: &Names) -> Option<Request> {
        Some(of_lock(RequestCommand::Command("EXISTS"), names))
    }
    fn why_own(&self) -> &'static str {
        "holds it already, and this kind of lock is not re-entrant"
    }
    /// Takes it away from its holder; answered 1 if somebody did.
    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        delete(names, None, publish)
    }
    /// Whether the server keeps the answers to this hold's acquire and release, so that a repetition differs
    /// from a first time, and a late acquire is kept out.
    fn has_records(&self, ask: &Ask<'_>) -> bool {
        ask.id.is_some()
    }
    /// For how long an undo finds what its acquire took, where what is taken has no lease to end by itself.
    fn undo_life(&self) -> Option<Duration> {
        None
    }
    /// Takes back that its owner waits, where that keeps others back.
    fn leave(&self, _ask: &Ask<'_>) -> Option<Request> {
        None
    }
    /// The channels that a release speaks on; none where waiters only poll.
    fn channels<'a>(&self, names: &'a Names) -> Vec<&'a str> {
        vec![&names.channel]
    }
    /// Its line, if its releases call the next one by themselves.
    fn line(&self) -> Option<&dyn ServerLine> {
        None
    }
    /// Whether several may hold at once, so that the next waiter may find room too.
    fn is_shared(&self) -> bool {
        false
    }
    /// Whether a grant leaves room for all who wait in the same way, so that they need not look one after the other.
    fn opens(&self) -> bool {
        false
    }
    /// How the keys and channel of a name are called.
    fn naming(&self) -> fn(&str) -> Names {
        Names::new
    }
    /// Why it was not given, for messages.
    fn taken(&self) -> &'static str {
        "another holds it"
    }
    /// The pause before look number `look`, from 1 on, where there is no channel.
    fn pace(&self, _look: u32) -> Option<Duration> {
        None
    }
}

pub(crate) trait ServerLine: fmt::Debug + Send + Sync {
    /// How many of those who wait in one client a release names as successors: they share one place, and only the first of them asks for
    /// it. 0: each has a place of its own.
    fn successors(&self) -> usize {
        0
    }
    /// Whether a client has one place for all of its waiters.
    fn shares_place(&self) -> bool {
        self.successors() > 0
    }
    /// For how long a place lasts that nobody gives back, as far as that is its client's to say.
    fn place_life(&self) -> Duration;
    /// Where a client hears who was called, all its owners in one place.
    fn channel_spec(&self, names: &Names, client: &str) -> ChannelSpec;
    /// Where one owner hears it, if `channel_spec` is a pattern and there are none.
    fn own_channel(&self, _names: &Names, _owner: &str) -> Option<String> {
        None
    }
    fn owner<'a>(&self, ask: &Ask<'a>) -> Cow<'a, str>;
    /// Says that a client's waiters are alive, and asks how things stand.
    fn heartbeat(&self, waiting: &Waiting<'_>) -> Request;
    fn read_heartbeat(&self, value: &Value) -> Option<Heartbeat>;
    /// Reads a message; `None` if it is none of ours.
    fn read_message(&self, names: &Names, message: &Message) -> Option<LineMessage>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelSpec {
    Channel(String),
    Pattern(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting<'a> {
    pub(crate) names: &'a Names,
    pub(crate) client: &'a str,
    /// In the order in which they came.
    pub(crate) owners: &'a [String],
    pub(crate) waited: Duration,
    /// The client hears what is said to it.
    pub(crate) subscribed: bool,
    pub(crate) publish: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LineMessage {
    Called(HandedGrant),
    /// This owner gets the lock if it asks.
    Turn(String),
}

/// Somebody in the line was given the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandedGrant {
    pub(crate) owner: String,
    pub(crate) token: u64,
    /// When, by the server's clock in microseconds.
    pub(crate) server_us: u64,
    /// For how long from then on, if it is not claimed.
    pub(crate) lease: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The server's clock in microseconds, where it matters.
    pub(crate) server_us: u64,
    pub(crate) absent: MissingWaiters,
    pub(crate) left: Option<Duration>,
    /// What was said last, if it still holds.
    pub(crate) news: Option<LineMessage>,
}

/// Which waiters have no place, although they should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MissingWaiters {
    /// All but this one, if it is anybody.
    AllBut(Option<String>),
    /// These, by their place among the owners.
    These(Vec<usize>),
}

pub(super) fn of_lock(what: RequestCommand, names: &Names) -> Request {
    Request::new(what).key(names.key.as_bytes())
}

/// The answer to an acquire in RLock's format.
pub(super) fn acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Nil => Some(Reply::Granted { token: None }),
        // It was settled before.
        Value::Int(-3) => Some(Reply::Settled),
        // The owner has the lock already, where that is not re-entry.
        Value::Int(-4) => Some(Reply::Own),
        Value::Int(pttl_ms) => Some(Reply::Busy {
            left: left(*pttl_ms),
        }),
        _ => None,
    }
}

/// The answer to a release in RLock's format.
pub(super) fn released(value: &Value) -> Option<ReleaseAnswer> {
    match value {
        Value::Nil => Some(ReleaseAnswer::Absent),
        Value::Int(0) => Some(ReleaseAnswer::Kept),
        Value::Int(1..) => Some(ReleaseAnswer::Freed),
        _ => None,
    }
}

/// The answer of the scripts that look at a lock: `{time left in ms, owner, count}`, or nothing.
pub(super) fn held(value: &Value) -> Option<Option<CurrentHolder>> {
    match value {
        Value::Nil => Some(None),
        Value::Array(parts) => Some(Some(holder(parts)?)),
        _ => None,
    }
}

pub(super) fn holder(parts: &[Value]) -> Option<CurrentHolder> {
    match parts {
        [
            Value::Int(pttl_ms),
            Value::BulkString(owner),
            Value::Int(count),
        ] => Some(CurrentHolder {
            owner: String::from_utf8_lossy(owner).into_owned(),
            count: u64::try_from(*count).ok()?,
            token: None,
            left: left(*pttl_ms),
        }),
        _ => None,
    }
}

/// For how long a server knows a repetition of a request that has no lease, and what an acquire took: longer than anybody sends it again. What
/// was answered is forgotten within a quarter of a second, since nobody asks for it again (`FinishedRecords`). A client that is killed leaves the
/// records of that time: a server cannot tell an answer that came from one that is on its way.
pub(super) const ANSWER_LIFE: Duration = Duration::from_secs(3_600);

/// For how long a server keeps out an acquire that was undone. It takes nothing later than a few seconds after somebody waited for it.
pub(super) const UNDONE_LIFE: Duration = Duration::from_secs(60);

/// A request that is safe to repeat, and the record by which the server knows it, if any.
#[derive(Debug)]
pub(crate) struct Once {
    pub(crate) request: Request,
    pub(crate) record: Option<Vec<u8>>,
}

impl From<Request> for Once {
    fn from(request: Request) -> Self {
        Once {
            request,
            record: None,
        }
    }
}

/// A request with a record of its own: the key that remembers the answer to it. It is done once, however often it is sent.
pub(super) fn with_record(names: &Names, request: impl FnOnce(&[u8]) -> Request) -> Once {
    let record = names.record("locklab_answer_latch", rand::random());
    Once {
        request: request(&record),
        record: Some(record),
    }
}

/// A script about one lock and a record.
pub(super) fn of_record(script: &'static Script, names: &Names, record: &[u8]) -> Request {
    of_lock(RequestCommand::Script(script), names).key(record)
}

static EXTEND: Script = script!("extend");
pub(super) static LOOK: Script = script!("look");
static FORCE_RELEASE: Script = script!("force_release", "speak");

/// Deletes a lock and what goes with it, and says so.
pub(super) fn delete(names: &Names, with: Option<&str>, publish: &'static str) -> Request {
    let mut request = of_lock(RequestCommand::Script(&FORCE_RELEASE), names);
    if let Some(with) = with {
        request = request.key(with.as_bytes());
    }
    (request.arg(publish.as_bytes())).arg(names.channel.as_bytes())
}

/// PTTL as a waiter's hint: nothing for a key without an end.
pub(crate) fn left(pttl_ms: i64) -> Option<Duration> {
    u64::try_from(pttl_ms).ok().map(Duration::from_millis)
}

/// A script for owners that hold once, and for those that may hold several times, in front of which stands how their holds are counted.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) once: Script,
    pub(super) several: Script,
}

impl Counting {
    pub(super) const fn given_back_by(
        mut self,
        once: &'static Script,
        several: &'static Script,
    ) -> Self {
        self.once.release = Some(once);
        self.several.release = Some(several);
        self
    }

    pub(super) fn of(&'static self, ask: &Ask<'_>) -> RequestCommand {
        RequestCommand::Script(match ask.id {
            None => &self.once,
            Some(_) => &self.several,
        })
    }
}

/// A script for both sorts of owner, by its name and the texts in front of its own.
macro_rules! counting {
    ($name:literal $(, $before:literal)*) => {
        $crate::kind::form::Counting {
            once: script!($name $(, $before)*),
            several: script!(concat!($name, "_counted"); "counted" $(, $before)*, $name),
        }
    };
}
pub(super) use counting;
