//! The kinds of findings of a watch: why each matters, what helps, and the scenario that shows it.

use results::watch::{Certainty, WatchFinding};

/// A kind of finding, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingKind {
    Overlap,
    LostByServer,
    ReleasedByAnother,
    ExtendedByAnother,
    Revived,
    NoExpiry,
    ExpirySetLater,
    ReleaseWithoutOwnerCheck,
    TwoRecipes,
    OutlivedItsLease,
    LeaseNearlyUsed,
    NeverReleased,
    HeldLong,
    HotPolling,
    Unfair,
    ScriptSentWhole,
}

/// Of each kind, in their order: its name, a scenario that shows it, why it matters, and the remedy.
const KINDS: [(&str, &str, &str, &str); 16] = [
    (
        "overlap",
        "late-releases",
        "Two holders at once: the second was granted before the end that the server had promised to the first.",
        "Release by a script that compares the owner; guard writes with a fencing token.",
    ),
    (
        "lost-by-server",
        "evicted",
        "The server lost a key that was held: a flush, an eviction or a failover.",
        "No eviction on the server of locks (maxmemory-policy noeviction), no FLUSH; wait for replicas before a grant counts.",
    ),
    (
        "released-by-another",
        "late-releases",
        "A client deleted the key of another's hold: the next one gets in beside the holder.",
        "Release by a script that compares the owner's value and deletes in one step.",
    ),
    (
        "extended-by-another",
        "short-lease",
        "A client renewed the hold of another: it believes in a lock that it lost.",
        "Renew by a script that compares the owner's value first.",
    ),
    (
        "revived",
        "watchdog-client-paused",
        "A renewal wrote a lock anew that its owner had lost: others may have had it in between.",
        "Renew with PEXPIRE behind a comparison, never with SET without a condition.",
    ),
    (
        "no-expiry",
        "killed-while-acquiring",
        "The key has no end: a holder that dies keeps everybody out for ever.",
        "SET key value NX PX lease.",
    ),
    (
        "expiry-set-later",
        "killed-while-acquiring",
        "The end is set by a second command: a client that dies in between leaves a lock for ever.",
        "Take it in one step: SET key value NX PX lease.",
    ),
    (
        "release-without-owner-check",
        "late-releases",
        "The release deletes the key without comparing: a late holder frees the lock of the next.",
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end, or DELEX key IFEQ value.",
    ),
    (
        "two-recipes",
        "",
        "Two ways of locking use one name: neither keeps the other out, or both fail.",
        "One library per name, or names of their own.",
    ),
    (
        "outlived-its-lease",
        "short-lease",
        "A holder came back after its lease had ended and another had been granted: it may have worked beside it.",
        "A longer lease, or renewal; a fencing token at what the lock guards.",
    ),
    (
        "lease-nearly-used",
        "short-lease",
        "Holds use over 80 % of their lease: a pause of the client will let the next one in.",
        "A lease of three times the longest hold, or renewal.",
    ),
    (
        "never-released",
        "never-released",
        "No hold was released: each keeps others out until its lease ends.",
        "Release in a finally block; see whether the release fails.",
    ),
    (
        "held-long",
        "never-released",
        "A hold went on for far longer than the others: a lost release, or work that hangs.",
        "A bound for the work; look at the client of the example.",
    ),
    (
        "hot-polling",
        "thousand-contenders",
        "Waiters ask again and again: most commands of this lock are refusals.",
        "A pause with jitter between attempts, or a library that is notified of releases.",
    ),
    (
        "unfair",
        "wins-after-failover",
        "One client was granted nearly always while others waited.",
        "A pause after a release, or a lock with a queue.",
    ),
    (
        "script-sent-whole",
        "script-flush",
        "The text of a script is sent with each call.",
        "EVALSHA, with EVAL or SCRIPT LOAD when the server answers NOSCRIPT.",
    ),
];

impl FindingKind {
    /// A finding of this kind that says nothing yet of where it was made.
    pub(crate) fn finding(self) -> WatchFinding {
        let (kind, scenario, why, remedy) = KINDS[self as usize];
        let [kind, scenario, why, remedy] = [kind, scenario, why, remedy].map(str::to_owned);
        let certainty = match self {
            FindingKind::Overlap => Certainty::Violated,
            shown if shown <= FindingKind::TwoRecipes => Certainty::Sure,
            _ => Certainty::Likely,
        };
        WatchFinding { certainty, kind, why, remedy, scenario, ..WatchFinding::default() }
    }
}
