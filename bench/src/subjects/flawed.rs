//! Locks on one key that are known to be wrong, each in one thing: controls that a judge must convict.

use std::time::Duration;

use super::recipe::{
    AcquireStep, BusyWait, EntryRule, Extend, READERS_UNSEEN, Recipe, ReleaseStep, Renewal, SET_NX_PX,
    Silence, Tokens,
};

/// Each differs from the correct recipe only in the line that makes it wrong.
pub(super) static BROKEN: &[Recipe] = &[
    // A holder that was late (its lease ran out, somebody else has the key) deletes the other's key; a third
    // one gets in.
    Recipe {
        name: "broken:release-without-owner-check",
        about: "releases with a plain DEL, so a late holder frees somebody else's lock",
        give: ReleaseStep::Delete,
        ..SET_NX_PX
    },
    // A late holder finds the value of another hold of its own client, takes it for its own, and deletes it.
    Recipe {
        name: "broken:value-per-client",
        about: "writes one value for all holds of a client, so a late holder frees the lock of another task of it",
        one_value: true,
        ..SET_NX_PX
    },
    // The key can change hands between the look and the deletion: the comparison proves nothing by then.
    Recipe {
        name: "broken:get-compare-del",
        about: "releases by GET, a comparison in the client, and DEL 10 ms later: not one step",
        give: ReleaseStep::GetThenDelete(Duration::from_millis(10)),
        ..SET_NX_PX
    },
    // A client that dies in the gap leaves a key that never expires: nobody gets the lock again.
    Recipe {
        name: "broken:setnx-expire",
        about: "SETNX, then PEXPIRE 25 ms later: a client that dies in between locks everybody out for ever",
        take: AcquireStep::SetNxThenExpire(Duration::from_millis(25)),
        ..SET_NX_PX
    },
    // A holder paused past its lease wakes up, extends the new holder's key and takes that for its own
    // success.
    Recipe {
        name: "broken:renew-without-owner-check",
        about: "renews and extends with a plain PEXPIRE, so a late holder renews somebody else's lock and believes in it",
        extend: Extend::Expire,
        ..SET_NX_PX
    },
    // No fault is needed: two callers at once are enough.
    Recipe {
        name: "broken:steal",
        about: "answers a busy lock with a plain SET: every caller gets it",
        take: AcquireStep::Steal,
        ..SET_NX_PX
    },
    // The server's clock has run since the request reached it. With slow replies the holder trusts a lease
    // that is over.
    Recipe {
        name: "broken:lease-from-reply",
        about: "counts its lease from the reply instead of from the request",
        from_reply: true,
        ..SET_NX_PX
    },
    // Asked to keep the lock, it sets the lease once; a hold longer than that is two holds, and nobody is
    // notified.
    Recipe {
        name: "broken:ignores-expiry",
        about: "asked for a renewed lock, sets the lease once, never renews it and never says lost",
        renewal: Renewal::Never,
        ..SET_NX_PX
    },
    // It was asked to give back, said yes, and sent nothing: by every answer the lock is free, and nobody
    // gets it.
    Recipe {
        name: "broken:release-says-ok",
        about: "answers a release with yes and sends nothing: the lock stays taken until its lease ends",
        give: ReleaseStep::Nothing,
        ..SET_NX_PX
    },
    // A server forgets its scripts when it is started again, fails over, or is asked to.
    Recipe {
        name: "broken:script-loaded-once",
        about: "loads the script of its release once, and takes a server that has forgotten it for one that has released",
        give: ReleaseStep::LoadedOnce,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:extend-says-ok",
        about: "answers an extend with yes and sends nothing: the lease ends all the same",
        extend: Extend::Nothing,
        ..SET_NX_PX
    },
    // After a lapse in which somebody else came and went, the extend works again, and the holder is never
    // notified of the lapse.
    Recipe {
        name: "broken:extend-takes-again",
        about: "an extend of a lock that is gone takes it anew by SET NX, even if another held it in between",
        extend: Extend::OrTakeAgain,
        ..SET_NX_PX
    },
    // Seconds for milliseconds, an old default left in place: the server was asked for less than the caller
    // was promised.
    Recipe {
        name: "broken:lease-too-short",
        about: "asks the server for a quarter of the lease that its caller asked for",
        take: AcquireStep::ShortLease(4),
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:wait-ignored",
        about: "waits for one replica by WAIT and does not look how many have it",
        take: AcquireStep::ThenWait,
        ..SET_NX_PX
    },
    // A clock that is set back makes the next renewal come too late by as much.
    Recipe {
        name: "broken:renews-by-wall-clock",
        about: "decides by the wall clock when to renew",
        renewal: Renewal::ThirdsByWallClock,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:reentrant-releases-at-once",
        about: "a re-entrant lock whose inner release frees it while the outer hold goes on",
        kinds: &["reentrant"],
        enters: EntryRule::OwnerOnce,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:reentrant-per-client",
        about: "a re-entrant lock that takes all tasks of a client for one owner",
        kinds: &["reentrant"],
        enters: EntryRule::Client,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:non-reentrant-enters-again",
        about: "a lock that is said not to be re-entrant and lets its holder in once more",
        kinds: &["non-reentrant"],
        enters: EntryRule::Owner,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:spin-remembers-busy",
        about: "a spinning lock that remembers for five seconds that it found the lock busy, and does not look again",
        kinds: &["spin"],
        waits: BusyWait::Remembering(Duration::from_secs(5)),
        ..SET_NX_PX
    },
    // A holder that dies notifies nobody, and a message can get lost: a waiter that waits for nothing else
    // waits for ever.
    Recipe {
        name: "broken:waits-for-word-only",
        about: "a waiter asks again only when it is notified of a release, not when the lease ends",
        waits: BusyWait::WhenNotifiedOnly,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:queued-without-order",
        about: "is said to serve waiters in order, and gives the lock to the first caller after a release",
        kinds: &["queued"],
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:fair-without-order",
        about: "is said to be fair, and once found busy looks again only after a second: newcomers are first",
        kinds: &["fair"],
        waits: BusyWait::Every(Duration::from_secs(1)),
        ..SET_NX_PX
    },
    // The way many draw unique numbers. Unique they are; in the order of the holds they are not.
    Recipe {
        name: "broken:token-in-batches",
        about: "draws its fencing tokens ten at a time and uses them up one by one, each client for itself",
        kinds: &["fenced"],
        tokens: Tokens::Batches(10),
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:token-from-wall-clock",
        about: "takes the client's wall clock for its fencing token",
        kinds: &["fenced"],
        tokens: Tokens::WallClock,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:token-per-client",
        about: "counts fencing tokens in the client, each client for itself",
        kinds: &["fenced", "queued"],
        tokens: Tokens::OwnCounter,
        ..SET_NX_PX
    },
    // What was sent still arrives: the key is taken by nobody who knows of it, and stays so for a lease.
    Recipe {
        name: "broken:silence-is-busy",
        about: "takes an answer that did not come within 100 ms for busy, and gives nothing back",
        silence: Silence::Busy(Duration::from_millis(100)),
        ..SET_NX_PX
    },
    // The renewer starves, or its messages do; the holder works on, and is never notified that it has nothing
    // left.
    Recipe {
        name: "broken:believes-on",
        about: "renews for as long as it is held and never says lost, whether the renewals work or not",
        renewal: Renewal::NeverSaysLost,
        ..SET_NX_PX
    },
    // Its loop stood still for longer than the lease, and what it renews afterwards is its successor's.
    Recipe {
        name: "broken:renews-on",
        about: "renews with a plain PEXPIRE for as long as it is held, also when the key is another's, and never says lost",
        extend: Extend::Expire,
        renewal: Renewal::NeverSaysLost,
        ..SET_NX_PX
    },
    // One bad minute of the server, and no later lock of this client is ever renewed.
    Recipe {
        name: "broken:renewer-ends-at-an-error",
        about: "one renewer for all locks of a client, which ends at the first error: no later lock is renewed, and nobody is notified",
        renewal: Renewal::UntilFirstError,
        ..SET_NX_PX
    },
    // As teams write it: a thread that sends PEXPIRE each second, and ends at its first error.
    Recipe {
        name: "broken:renewer-dies",
        about: "each hold has a renewer, which ends at its first error: the lease ends while its holder works on, and is not notified",
        renewal: Renewal::UntilOwnError,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:never-renews",
        about: "says that it renews a lease of 3 s, whatever is wished, and renews nothing",
        renewal: Renewal::Claimed,
        ..SET_NX_PX
    },
    // Who died in the line stays in it, before everybody who came later.
    Recipe {
        name: "broken:line-keeps-the-dead",
        about: "a fair lock with a line on the server, out of which a waiter that died is never taken",
        kinds: &["fair"],
        waits: BusyWait::InLine,
        ..SET_NX_PX
    },
    // The caller's task is gone, and what it began takes the lock for nobody and keeps it for ever.
    Recipe {
        name: "broken:cancelled-goes-on",
        about: "an acquire that its caller gave up goes on by itself, takes the lock for nobody and renews it",
        goes_on: true,
        ..SET_NX_PX
    },
    // The hold is kept in a variable of its thread: another thread finds none there, has nothing to do, and
    // the renewal goes on.
    Recipe {
        name: "broken:bound-to-its-thread",
        about: "keeps a hold for the thread that acquired it: a release by another thread says yes, sends nothing, and the renewal goes on",
        bound: true,
        ..SET_NX_PX
    },
    // The server is back under another address, and its clients go on asking the old one.
    Recipe {
        name: "broken:resolves-once",
        about: "looks the name of its server up when it is connected, and dials that address for ever",
        resolves_once: true,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:error-is-granted",
        about: "takes any error of its server for a grant",
        silence: Silence::Granted,
        ..SET_NX_PX
    },
    Recipe {
        name: "broken:readers-unseen",
        about: "a lock for readers and writers whose readers leave no trace: a writer enters beside them",
        kinds: READERS_UNSEEN,
        ..SET_NX_PX
    },
];
