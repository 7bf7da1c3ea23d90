//! A lock on one key as data: taking, giving back, extending, renewing, waiting. The correct recipe is first.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquireStep {
    /// `SET key value NX PX lease`: one step.
    SetNxPx,
    /// `SETNX`, then `PEXPIRE`, so long apart.
    SetNxThenExpire(Duration),
    /// As `SetNxPx`, but a busy answer is followed by a plain `SET`.
    Steal,
    /// As `SetNxPx`, with a lease on the server of so many times less.
    ShortLease(u32),
    /// As `SetNxPx`, then `WAIT` for one replica, whose answer nobody reads.
    ThenWait,
    /// `WATCH`, a look, then `SET … PX` in a transaction that fails if somebody was faster.
    Watch,
    /// `BLPOP` of a token from a list: the asking itself waits, in a line that the server keeps.
    Token,
    /// RLock's script, as this project's library sends it, and nothing around it.
    Script,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// A script: delete only if the value is ours.
    CompareAndDelete,
    /// As `CompareAndDelete`, by `WATCH` and a transaction.
    Watch,
    /// `RPUSH` of the token; the server hands it to the first who waits.
    Token,
    /// RLock's script, its word to waiters included.
    Script,
    /// `DEL`, without a comparison.
    Delete,
    /// As `CompareAndDelete`; later by the digest alone, and a script that is not there is taken for done.
    LoadedOnce,
    /// `GET`, compare here, so long apart, `DEL`.
    GetThenDelete(Duration),
    /// Nothing is sent, and it worked.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extend {
    /// A script: only if the value is ours.
    CompareAndExpire,
    Script,
    /// `PEXPIRE`, without a comparison.
    Expire,
    /// As `CompareAndExpire`, but a lock that is gone is taken anew, though others may have had it since.
    OrTakeAgain,
    /// Nothing is sent, and it worked.
    Nothing,
}

/// What a lock that is asked to renew itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Extends each third of the lease, and says lost when it cannot.
    Thirds,
    ThirdsByWallClock,
    /// As `Thirds`, until the first error of any command of this client: then nothing is renewed or said.
    UntilFirstError,
    /// As `Thirds`, until the first error of a hold's own renewal: it ends, and its holder is not notified.
    UntilOwnError,
    /// As `Thirds`, and tries again for ever where it cannot, without a word to the holder.
    NeverSaysLost,
    /// Sets the lease once and believes in it for ever.
    Never,
    /// As `Never`, and says that it renews a lease of 3 s, whatever is wished.
    Claimed,
}

pub(super) const CLAIMED: Duration = Duration::from_secs(3);

impl Renewal {
    pub(super) fn happens(self) -> bool {
        !matches!(self, Renewal::Never | Renewal::Claimed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryRule {
    Nobody,
    /// The owner that holds it, as often as it likes; the last release gives it back.
    Owner,
    /// As `Owner`, but the first release gives it back.
    OwnerOnce,
    Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BusyWait {
    /// It is asked for again each 1 to 3 ms.
    Polling,
    /// It is asked for again so often, with a tenth of it as jitter.
    Every(Duration),
    WhenNotifiedOnly,
    /// In a line on the server, out of which nobody is taken who does not leave it.
    InLine,
    /// Once found busy, it is not asked for again for so long, by anybody of this client.
    Remembering(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tokens {
    None,
    /// A counter on the server, so many at a time for each client.
    Batches(u64),
    WallClock,
    OwnCounter,
}

/// What is said of a try whose answer did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// That it may have worked, after so long.
    Unknown,
    /// That the lock is busy, after so long; whatever was sent may still take it.
    Busy(Duration),
    /// That the lock is held: any error counts as a grant.
    Granted,
}

pub(super) const READERS_UNSEEN: &[&str] = &["write", "read"];

#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Kinds of lock that it says it is, its default first.
    pub(super) kinds: &'static [&'static str],
    pub(super) take: AcquireStep,
    pub(super) give: ReleaseStep,
    pub(super) extend: Extend,
    pub(super) renewal: Renewal,
    /// The lease is taken to begin when its reply came, too late by as much as that took.
    pub(super) from_reply: bool,
    pub(super) enters: EntryRule,
    pub(super) waits: BusyWait,
    pub(super) tokens: Tokens,
    pub(super) silence: Silence,
    /// An acquire that its caller gives up goes on, takes the lock for nobody, and renews it.
    pub(super) goes_on: bool,
    /// A release by another caller than the one that acquired finds nothing, and says that it is done.
    pub(super) bound: bool,
    /// The name of its server is looked up once, and kept as an address for ever.
    pub(super) resolves_once: bool,
    /// All holds of a client write one value, by which none of them knows its own key.
    pub(super) one_value: bool,
}

/// The usual correct recipe; the others differ from it in what they name.
pub(super) const SET_NX_PX: Recipe = Recipe {
    name: "",
    about: "",
    kinds: &["plain"],
    take: AcquireStep::SetNxPx,
    give: ReleaseStep::CompareAndDelete,
    extend: Extend::CompareAndExpire,
    renewal: Renewal::Thirds,
    from_reply: false,
    enters: EntryRule::Nobody,
    waits: BusyWait::Polling,
    tokens: Tokens::None,
    silence: Silence::Unknown,
    goes_on: false,
    bound: false,
    resolves_once: false,
    one_value: false,
};

/// Locks that people write by hand.
pub(super) static BASELINES: &[Recipe] = rows! { Recipe;
    "baseline:set-nx-px": SET_NX_PX {}
        "SET NX PX and a compare-and-delete script, polled each 1 to 3 ms: what most people write"
    "baseline:setnx-expire": SET_NX_PX { take: AcquireStep::SetNxThenExpire(Duration::ZERO) }
        "SETNX, then PEXPIRE at once, and a compare-and-delete script: the old recipe, in two steps"
    "baseline:poll-1ms": SET_NX_PX { waits: BusyWait::Every(Duration::from_millis(1)) }
        "as baseline:set-nx-px, asked again each millisecond"
    "baseline:poll-10ms": SET_NX_PX { waits: BusyWait::Every(Duration::from_millis(10)) }
        "as baseline:set-nx-px, asked again each 10 ms"
    "baseline:poll-100ms": SET_NX_PX { waits: BusyWait::Every(Duration::from_millis(100)) }
        "as baseline:set-nx-px, asked again each 100 ms"
    "baseline:watch-multi": SET_NX_PX { take: AcquireStep::Watch, give: ReleaseStep::Watch }
        "WATCH, a look and a transaction instead of SET NX and scripts, a connection for each try; polled each 1 to 3 ms"
    "baseline:blpop": SET_NX_PX {
        take: AcquireStep::Token, give: ReleaseStep::Token, extend: Extend::Nothing, renewal: Renewal::Never
    }
        "BLPOP of a token that the release pushes back, a connection for each waiter; no lease: who dies keeps it for ever"
    "baseline:raw-scripts": SET_NX_PX {
        take: AcquireStep::Script, give: ReleaseStep::Script, extend: Extend::Script
    }
        "RLock's two scripts over one connection and nothing around them, polled each 1 to 3 ms: the ceiling of a library"
};
