//! What a kind of lock says to a server, and how it reads the answers: requests and replies, no network.

use std::{borrow::Cow, fmt, time::Duration};

use redis::Value;

use crate::names::{Names, companion};
use crate::topology::{KeyCheck, Message, Request, RequestCommand, Script};

/// A script by its name, which is its file's, and the texts before it; or by a name and all texts.
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
pub(crate) struct LockRequest<'a> {
    pub(crate) names: &'a Names,
    /// `<client uuid>:<number>`.
    pub(crate) owner: &'a str,
    pub(crate) lease: Duration,
    /// Permits asked for, where the kind counts them.
    pub(crate) count: u32,
    /// Tells apart the acquires of an owner that may hold several times. Repetitions and the release share
    /// it. `None`: the owner is fresh and holds once, which costs the server less.
    pub(crate) id: Option<u128>,
    /// How long a counter of tokens outlives its last use; `None` is for ever.
    pub(crate) token_life: Option<Duration>,
    /// An earlier acquire of the same identity was not answered.
    pub(crate) repeated: bool,
    /// Where the owner queues if the lock is taken. A kind without a queue only notes that somebody waits.
    pub(crate) place: Option<QueuePlace<'a>>,
    /// Waiting writers come before new readers, each for this long after its request.
    pub(crate) writers_first: Option<Duration>,
    /// For permits without a lease: no grant after this server time in ms; `None`: its clock is unknown.
    pub(crate) not_after: Option<u64>,
    /// The waiters of the same client that a release may have to name.
    pub(crate) successors: &'a [Successor],
}

impl LockRequest<'_> {
    /// Adds how a release's script tells waiters, which it knows by itself where that is as usual: reading it
    /// would cost the server a tenth of a release.
    pub(super) fn telling_if_unusual(&self, release: Request) -> Request {
        match self.names.publish == "PUBLISH" && self.names.tells_by_rule() {
            true => release,
            false => release.telling(self.names),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuePlace<'a> {
    pub(crate) client: &'a str,
    /// The client hears what is said to it.
    pub(crate) subscribed: bool,
    pub(crate) waited: Duration,
}

/// A waiter of the same client that a release may hand the lock, or the client's place in the queue, to.
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
    /// Granted, beside others that may hold at once.
    Admitted {
        more: bool,
        /// The server's clock when it said so, in ms.
        server_ms: Option<u64>,
    },
    /// The request arrived after its `not_after`, by the server's clock in ms, and took nothing.
    Late {
        server_ms: u64,
    },
    /// Another holds it, for at least `left` unless it is released.
    Busy {
        left: Option<Duration>,
    },
    /// Another holds it. This owner has a place in the queue, if it asked for one.
    Queued {
        left: Option<Duration>,
        /// The server's clock when it said so, in microseconds.
        server_us: u64,
    },
    /// This very acquire was granted before and that hold is over: ask with new ids.
    Settled,
    /// The owner holds it already, and this kind is not re-entrant.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseAnswer {
    Freed,
    /// As `Freed`, and the first successor was granted it.
    Passed {
        token: u64,
    },
    /// As `Absent`, and the first successor was granted it.
    Inherited {
        token: u64,
    },
    /// Released once; the same owner holds it still.
    Kept,
    /// This owner did not hold it.
    Absent,
}

/// Who holds a lock, as the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// As written on the server: `<client id>:<number>`, of a Java peer `<client id>:<thread>`.
    pub owner: String,
    /// How many times; more than once only where a kind is re-entrant.
    pub holds: u64,
    /// Its fencing token, where the kind tells it to others: [`Kind::Queued`](crate::Kind::Queued) does.
    pub token: Option<u64>,
    /// What is left of its lease if not renewed, in whole milliseconds; `None` for a key without an end.
    pub remaining: Option<Duration>,
}

impl Holder {
    pub(crate) fn lasts(&self) -> Duration {
        self.remaining.unwrap_or(Duration::MAX)
    }

    /// The one with the longest lease.
    pub(crate) fn longest(all: Vec<Self>) -> Option<Self> {
        all.into_iter().max_by_key(Holder::lasts)
    }
}

/// A kind of lock on one server set. Defaults are RLock's. Every request must be safe to repeat: sent again
/// with the same ids, it gets the same answer and changes nothing more, whatever became of the first reply.
pub(crate) trait LockFormat: fmt::Debug + Send + Sync {
    /// Takes the lock, or learns how long another holds it.
    fn acquire(&self, ask: &LockRequest<'_>) -> Request;
    /// Reads the answer to `acquire`; `None` if the value is no such answer.
    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        acquired(value)
    }
    /// Gives the lock back.
    fn release(&self, ask: &LockRequest<'_>) -> Request;
    /// Gives back what `acquire` may have taken, and nothing else.
    fn undo(&self, ask: &LockRequest<'_>) -> Request {
        self.release(ask)
    }
    /// Reads the answer to `release` and `undo`.
    fn read_release(&self, value: &Value) -> Option<ReleaseAnswer> {
        released(value)
    }
    /// Subscribers that received a release's message, as far as known. Its answer is 1 plus their number.
    fn listeners(&self, value: &Value) -> u32 {
        match value {
            Value::Int(answer) => u32::try_from(*answer).map_or(0, |n| n.saturating_sub(1)),
            _ => 0,
        }
    }
    /// The script that extends leases. It never shortens a lease and never makes a hold. Each hold adds keys
    /// by `extend_keys` and an argument by `extend_arg` behind the lease, and gets an answer of its own.
    fn extend_script(&self) -> &'static Script {
        &EXTEND
    }
    fn extend_keys(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.key(&ask.names.key)
    }
    /// Adds what identifies one hold to `extend_script`.
    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.arg(ask.owner)
    }
    fn extend(&self, ask: &LockRequest<'_>) -> Request {
        if self.has_records(ask) {
            return self.extend_counted(ask);
        }
        let request = self.extend_keys(ask, Request::new(self.extend_script()));
        self.extend_arg(ask, request.arg_ms(ask.lease))
    }
    /// As `extend`, for one hold of an owner that may have several. By its own acquire alone such a hold is
    /// given back and extended: a late release is none of the owner's next hold.
    fn extend_counted(&self, ask: &LockRequest<'_>) -> Request {
        let request = with_keys(Request::new(&EXTEND_COUNTED), ask.names);
        with_holds(request, ask, ask.owner).arg_ms(ask.lease).arg(ask.owner)
    }
    /// Whether the hold was there to be extended.
    fn read_extend(&self, value: &Value) -> Option<bool> {
        yes(value)
    }
    /// Whether a hold needs a renewal of its own: the batch script knows holds by their owners alone.
    fn renews_alone(&self, ask: &LockRequest<'_>) -> bool {
        self.has_records(ask)
    }
    /// The request that checks a hold's key for a loss, and its answer while the hold stands. It is a hint:
    /// it cannot tell one owner's holds apart. Not for shared kinds, whose key changes with each hold.
    fn key_check(&self, ask: &LockRequest<'_>) -> KeyCheck {
        KeyCheck::new(&self.extend_arg(ask, of_lock("HEXISTS", ask.names)), Value::Int(1))
    }
    fn look(&self, names: &Names) -> Request {
        of_lock(&LOOK, names)
    }
    /// Reads who holds it from the answer to `look`.
    fn read_holders(&self, value: &Value) -> Option<Vec<Holder>> {
        holders(value)
    }
    fn why_own(&self) -> &'static str {
        "holds it already, and this kind of lock is not re-entrant"
    }
    /// Takes the lock away from its holder. Answered 1 if there was a holder.
    fn force_release(&self, names: &Names) -> Request {
        delete(names, None)
    }
    /// Whether the server keeps the answers to this hold's acquire and release, so that a repetition differs
    /// from a first time, and a late acquire is kept out.
    fn has_records(&self, ask: &LockRequest<'_>) -> bool {
        ask.id.is_some()
    }
    /// How long an undo can find what its acquire took, for grants without a lease.
    fn undo_life(&self) -> Option<Duration> {
        None
    }
    /// Withdraws a waiting owner, where its waiting holds others back.
    fn leave(&self, _ask: &LockRequest<'_>) -> Option<Request> {
        None
    }
    /// The channels that a release publishes on; none where waiters only poll.
    fn channels<'a>(&self, names: &'a Names) -> Vec<&'a str> {
        vec![&names.channel]
    }
    /// Its queue at the server, if a release calls the next waiter.
    fn line(&self) -> Option<&dyn ServerLine> {
        None
    }
    /// Whether several may hold at once, so that the next waiter may find room too.
    fn is_shared(&self) -> bool {
        false
    }
    /// Whether a grant leaves room for all waiters of the same mode, so that they attempt side by side.
    fn opens(&self) -> bool {
        false
    }
    /// Makes the keys and the channel of a lock's name.
    fn naming(&self) -> fn(&str) -> Names {
        Names::new
    }
    /// Why an acquire was refused, for messages.
    fn taken(&self) -> &'static str {
        "another holds it"
    }
    /// The pause before attempt number `look`, from 1 on, where there is no channel.
    fn pace(&self, _look: u32) -> Option<Duration> {
        None
    }
}

pub(crate) trait ServerLine: fmt::Debug + Send + Sync {
    /// How many waiters of one client a release names as successors. They share one place in the queue, and
    /// only the first asks for it. 0: each waiter has a place of its own.
    fn successors(&self) -> usize {
        0
    }
    /// Whether a client has one place for all of its waiters.
    fn shares_place(&self) -> bool {
        self.successors() > 0
    }
    /// How long a place lasts that nobody gives back, where the client decides that.
    fn place_life(&self) -> Duration;
    /// The channel on which a client hears the calls to all of its owners.
    fn channel_spec(&self, names: &Names, client: &str) -> ChannelSpec;
    /// The channel of one owner, if `channel_spec` is a pattern and patterns cannot be subscribed to.
    fn own_channel(&self, _names: &Names, _owner: &str) -> Option<String> {
        None
    }
    fn owner<'a>(&self, ask: &LockRequest<'a>) -> Cow<'a, str>;
    /// Tells the server that a client's waiters are alive, and asks for the state of the queue.
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
    /// In order of arrival.
    pub(crate) owners: &'a [String],
    pub(crate) waited: Duration,
    /// The client hears what is said to it.
    pub(crate) subscribed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LineMessage {
    Called(HandedGrant),
    /// This owner gets the lock if it asks.
    Turn(String),
}

/// A waiter in the queue was granted the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandedGrant {
    pub(crate) owner: String,
    pub(crate) token: u64,
    /// When it was granted, by the server's clock in microseconds.
    pub(crate) server_us: u64,
    /// How long the grant lasts from then on, if the waiter does not claim it.
    pub(crate) lease: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The server's clock in microseconds, where it matters.
    pub(crate) server_us: u64,
    pub(crate) absent: MissingWaiters,
    pub(crate) left: Option<Duration>,
    /// The last message, if it still holds.
    pub(crate) last_message: Option<LineMessage>,
}

/// The waiters without a place in the queue that should have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MissingWaiters {
    /// All but this owner; `None`: all.
    AllBut(Option<String>),
    /// The waiters at these indices of `Waiting::owners`.
    These(Vec<usize>),
}

impl Request {
    /// By which command, and on which channel, its script tells waiters.
    pub(super) fn telling(self, names: &Names) -> Self {
        self.arg(names.publish).arg(&names.channel)
    }
}

pub(super) fn of_lock(what: impl Into<RequestCommand>, names: &Names) -> Request {
    Request::new(what).key(&names.key)
}

pub(super) fn with_keys(request: Request, names: &Names) -> Request {
    names.all().map(|each| each.key.as_bytes()).fold(request, Request::key)
}

/// Adds what a server keeps of an owner that may have several holds: for each lock the list of them, which it
/// counts in `field`, and the record of this one.
pub(super) fn with_holds(request: Request, ask: &LockRequest<'_>, field: &str) -> Request {
    let Some(id) = ask.id else {
        return request;
    };
    let list = |each: &Names| format!("{}:{field}", companion("locklab_holds_latch", &each.key));
    let request = ask.names.all().map(list).fold(request, |request, list| request.key(list));
    request.key(ask.names.record("redisson_acquire_latch", id))
}

/// The answer to an acquire in RLock's format.
pub(super) fn acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Nil => Some(Reply::Granted { token: None }),
        // This acquire was granted before, and that hold is over.
        Value::Int(-3) => Some(Reply::Settled),
        // The owner holds the lock already, and may not re-enter it.
        Value::Int(-4) => Some(Reply::Own),
        Value::Int(pttl_ms) => Some(Reply::Busy { left: left(*pttl_ms) }),
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

/// 1 or 0.
pub(crate) fn yes(value: &Value) -> Option<bool> {
    match value {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    }
}

/// The answer of the scripts that look at a lock: time left in ms, owner, count of each holder, or nothing.
pub(super) fn holders(value: &Value) -> Option<Vec<Holder>> {
    let holder = |parts: &[Value]| match parts {
        [Value::Int(pttl_ms), Value::BulkString(owner), Value::Int(count)] => Some(Holder {
            owner: String::from_utf8_lossy(owner).into_owned(),
            holds: u64::try_from(*count).unwrap_or(0),
            token: None,
            remaining: left(*pttl_ms),
        }),
        _ => None,
    };
    value.as_sequence()?.chunks(3).map(holder).collect()
}

/// How long a server keeps the record of a request without a lease, and of what an acquire took: longer than
/// anybody sends it again. A server cannot tell whether an answer arrived, and a client that an outage or a
/// failover cuts off cannot prolong a record: after a life of seconds it could neither repeat a release nor
/// give back what it may have taken, and the permits would be gone. So the records of a killed client's last
/// requests stay this long, and those of answered requests go with the next request (`FinishedRecords`).
pub(super) const ANSWER_LIFE: Duration = Duration::from_secs(3_600);

/// How long a server refuses an undone acquire: none arrives more than seconds after its caller's wait.
pub(super) const UNDONE_LIFE: Duration = Duration::from_secs(60);

/// A request that is safe to repeat, and its idempotency record at the server, if any.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) request: Request,
    pub(crate) record: Option<Vec<u8>>,
}

impl From<Request> for RecordedRequest {
    fn from(request: Request) -> Self {
        RecordedRequest { request, record: None }
    }
}

/// A request with a record of its own: a key that keeps the answer, so that a repetition has no effect.
pub(super) fn with_record(names: &Names, request: impl FnOnce(&[u8]) -> Request) -> RecordedRequest {
    let record = names.record("locklab_answer_latch", rand::random());
    RecordedRequest { request: request(&record), record: Some(record) }
}

/// A script about one lock and a record.
pub(super) fn of_record(script: &'static Script, names: &Names, record: &[u8]) -> Request {
    of_lock(script, names).key(record)
}

static EXTEND: Script = script!("extend");
static EXTEND_COUNTED: Script = script!("extend_counted", "counted");
pub(super) static LOOK: Script = script!("look");
static FORCE_RELEASE: Script = script!("force_release", "speak");

/// Deletes a lock and its companion key, and publishes that.
pub(super) fn delete(names: &Names, with: Option<&str>) -> Request {
    let mut request = of_lock(&FORCE_RELEASE, names);
    if let Some(with) = with {
        request = request.key(with);
    }
    request.telling(names)
}

/// PTTL as a waiter's hint: nothing for a key without an end.
pub(crate) fn left(pttl_ms: i64) -> Option<Duration> {
    u64::try_from(pttl_ms).ok().map(Duration::from_millis)
}

/// A script in two forms: for owners that hold once, and for those that may hold several times.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) once: Script,
    pub(super) several: Script,
}

impl Counting {
    pub(super) const fn given_back_by(mut self, once: &'static Script, several: &'static Script) -> Self {
        self.once.release = Some(once);
        self.several.release = Some(several);
        self
    }

    pub(super) fn of(&'static self, ask: &LockRequest<'_>) -> RequestCommand {
        RequestCommand::Script(ask.id.map_or(&self.once, |_| &self.several))
    }
}

/// A `Counting` of both forms, by the script's name and the texts that precede it.
macro_rules! counting {
    ($name:literal $(, $before:literal)*) => {
        $crate::kind::format::Counting {
            once: script!($name $(, $before)*),
            several: script!(concat!($name, "_counted"); "counted" $(, $before)*, $name),
        }
    };
}
pub(super) use counting;
