//! Locks on one key that are known to be wrong, each in one thing: controls that a judge must convict.

use std::time::Duration;

use super::recipe::{
    AcquireStep, BusyWait, EntryRule, Extend, READERS_UNSEEN, Recipe, ReleaseStep, Renewal, SET_NX_PX,
    Silence, Tokens,
};

/// Each differs from the correct recipe only in the line that makes it wrong.
pub(super) static BROKEN: &[Recipe] = rows! { Recipe;
    // A late holder, whose lease ran out, deletes the key of another; a third one gets in.
    "broken:release-without-owner-check": SET_NX_PX { give: ReleaseStep::Delete }
        "releases with a plain DEL, so a late holder frees somebody else's lock"
    // A late holder finds the value of another hold of its own client, takes it for its own, and deletes it.
    "broken:value-per-client": SET_NX_PX { one_value: true }
        "writes one value for all holds of a client, so a late holder frees the lock of another task of it"
    // The key can change hands between the look and the deletion: the comparison proves nothing by then.
    "broken:get-compare-del": SET_NX_PX { give: ReleaseStep::GetThenDelete(Duration::from_millis(10)) }
        "releases by GET, a comparison in the client, and DEL 10 ms later: not one step"
    // A client that dies in the gap leaves a key that never expires: nobody gets the lock again.
    "broken:setnx-expire": SET_NX_PX { take: AcquireStep::SetNxThenExpire(Duration::from_millis(25)) }
        "SETNX, then PEXPIRE 25 ms later: a client that dies in between locks everybody out for ever"
    // A holder paused past its lease extends the new holder's key and takes that for its own success.
    "broken:renew-without-owner-check": SET_NX_PX { extend: Extend::Expire }
        "renews and extends with a plain PEXPIRE, so a late holder renews somebody else's lock and believes in it"
    // No fault is needed: two callers at once are enough.
    "broken:steal": SET_NX_PX { take: AcquireStep::Steal }
        "answers a busy lock with a plain SET: every caller gets it"
    // The server's clock has run since the request came: after a slow reply the trusted lease is over.
    "broken:lease-from-reply": SET_NX_PX { from_reply: true }
        "counts its lease from the reply instead of from the request"
    // Asked to keep the lock, it sets the lease once; a longer hold is two, and nobody is notified.
    "broken:ignores-expiry": SET_NX_PX { renewal: Renewal::Never }
        "asked for a renewed lock, sets the lease once, never renews it and never says lost"
    // Asked to give back, it said yes and sent nothing: by every answer the lock is free, and nobody gets it.
    "broken:release-says-ok": SET_NX_PX { give: ReleaseStep::Nothing }
        "answers a release with yes and sends nothing: the lock stays taken until its lease ends"
    // A server forgets its scripts when it is started again, fails over, or is asked to.
    "broken:script-loaded-once": SET_NX_PX { give: ReleaseStep::LoadedOnce }
        "loads the script of its release once, and takes a server that has forgotten it for one that has released"
    "broken:extend-says-ok": SET_NX_PX { extend: Extend::Nothing }
        "answers an extend with yes and sends nothing: the lease ends all the same"
    // After a lapse in which somebody else came and went it works again; the holder never hears of the lapse.
    "broken:extend-takes-again": SET_NX_PX { extend: Extend::OrTakeAgain }
        "an extend of a lock that is gone takes it anew by SET NX, even if another held it in between"
    // Seconds for milliseconds, an old default: the server was asked for less than the caller was promised.
    "broken:lease-too-short": SET_NX_PX { take: AcquireStep::ShortLease(4) }
        "asks the server for a quarter of the lease that its caller asked for"
    "broken:wait-ignored": SET_NX_PX { take: AcquireStep::ThenWait }
        "waits for one replica by WAIT and does not look how many have it"
    "broken:wait-error-is-granted": SET_NX_PX { take: AcquireStep::ThenWait, silence: Silence::Granted }
        "waits for one replica by WAIT and takes any error of its server for a grant"
    // A clock that is set back makes the next renewal come too late by as much.
    "broken:renews-by-wall-clock": SET_NX_PX { renewal: Renewal::ThirdsByWallClock }
        "decides by the wall clock when to renew"
    "broken:reentrant-releases-at-once": SET_NX_PX { kinds: &["reentrant"], enters: EntryRule::OwnerOnce }
        "a re-entrant lock whose inner release frees it while the outer hold goes on"
    "broken:reentrant-per-client": SET_NX_PX { kinds: &["reentrant"], enters: EntryRule::Client }
        "a re-entrant lock that takes all tasks of a client for one owner"
    "broken:non-reentrant-enters-again": SET_NX_PX { kinds: &["non-reentrant"], enters: EntryRule::Owner }
        "a lock that is said not to be re-entrant and lets its holder in once more"
    "broken:spin-remembers-busy": SET_NX_PX {
        kinds: &["spin"], waits: BusyWait::Remembering(Duration::from_secs(5))
    }
        "a spinning lock that remembers for five seconds that it found the lock busy, and does not look again"
    // A holder that dies notifies nobody, and messages get lost: who waits for nothing else waits for ever.
    "broken:waits-for-word-only": SET_NX_PX { waits: BusyWait::WhenNotifiedOnly }
        "a waiter asks again only when it is notified of a release, not when the lease ends"
    "broken:queued-without-order": SET_NX_PX { kinds: &["queued"] }
        "is said to serve waiters in order, and gives the lock to the first caller after a release"
    "broken:fair-without-order": SET_NX_PX {
        kinds: &["fair"], waits: BusyWait::Every(Duration::from_secs(1))
    }
        "is said to be fair, and once found busy looks again only after a second: newcomers are first"
    // The way many draw unique numbers. Unique they are; in the order of the holds they are not.
    "broken:token-in-batches": SET_NX_PX { kinds: &["fenced"], tokens: Tokens::Batches(10) }
        "draws its fencing tokens ten at a time and uses them up one by one, each client for itself"
    "broken:token-from-wall-clock": SET_NX_PX { kinds: &["fenced"], tokens: Tokens::WallClock }
        "takes the client's wall clock for its fencing token"
    "broken:token-per-client": SET_NX_PX { kinds: &["fenced", "queued"], tokens: Tokens::OwnCounter }
        "counts fencing tokens in the client, each client for itself"
    // What was sent still arrives: the key is taken by nobody who knows of it, and stays so for a lease.
    "broken:silence-is-busy": SET_NX_PX { silence: Silence::Busy(Duration::from_millis(100)) }
        "takes an answer that did not come within 100 ms for busy, and gives nothing back"
    // The renewer starves, or its messages do; the holder works on and never hears that it has nothing left.
    "broken:believes-on": SET_NX_PX { renewal: Renewal::NeverSaysLost }
        "renews for as long as it is held and never says lost, whether the renewals work or not"
    // Its loop stood still for longer than the lease, and what it renews afterwards is its successor's.
    "broken:renews-on": SET_NX_PX { extend: Extend::Expire, renewal: Renewal::NeverSaysLost }
        "renews with a plain PEXPIRE for as long as it is held, also when the key is another's, and never says lost"
    // One bad minute of the server, and no later lock of this client is ever renewed.
    "broken:renewer-ends-at-an-error": SET_NX_PX { renewal: Renewal::UntilFirstError }
        "one renewer for all locks of a client, which ends at the first error: no later lock is renewed, and nobody is notified"
    // As teams write it: a thread that sends PEXPIRE each second, and ends at its first error.
    "broken:renewer-dies": SET_NX_PX { renewal: Renewal::UntilOwnError }
        "each hold has a renewer, which ends at its first error: the lease ends while its holder works on, and is not notified"
    "broken:never-renews": SET_NX_PX { renewal: Renewal::Claimed }
        "says that it renews a lease of 3 s, whatever is wished, and renews nothing"
    // Who died in the line stays in it, before everybody who came later.
    "broken:line-keeps-the-dead": SET_NX_PX { kinds: &["fair"], waits: BusyWait::InLine }
        "a fair lock with a line on the server, out of which a waiter that died is never taken"
    // The caller's task is gone, and what it began takes the lock for nobody and keeps it for ever.
    "broken:cancelled-goes-on": SET_NX_PX { goes_on: true }
        "an acquire that its caller gave up goes on by itself, takes the lock for nobody and renews it"
    // The hold is in a variable of its thread: another thread has nothing to do, and the renewal goes on.
    "broken:bound-to-its-thread": SET_NX_PX { bound: true }
        "keeps a hold for the thread that acquired it: a release by another thread says yes, sends nothing, and the renewal goes on"
    // The server is back under another address, and its clients go on asking the old one.
    "broken:resolves-once": SET_NX_PX { resolves_once: true }
        "looks the name of its server up when it is connected, and dials that address for ever"
    "broken:error-is-granted": SET_NX_PX { silence: Silence::Granted }
        "takes any error of its server for a grant"
    "broken:readers-unseen": SET_NX_PX { kinds: READERS_UNSEEN }
        "a lock for readers and writers whose readers leave no trace: a writer enters beside them"
};
