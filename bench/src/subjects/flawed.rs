//! Locks on one key that are known to be wrong, each in one thing: controls that a judge must convict.

use std::time::Duration;

use super::naive::{Begins, Give, Lengthen, Recipe, Renewal, SET_NX_PX, Take};

/// Each differs from the correct recipe only in the line that makes it wrong.
pub(super) static BROKEN: &[Recipe] = &[
    // A holder that was late (its lease ran out, somebody else has the key) deletes the other's key; a third one gets in.
    Recipe {
        name: "broken:release-without-owner-check",
        about: "releases with a plain DEL, so a late holder frees somebody else's lock",
        give: Give::Delete,
        ..SET_NX_PX
    },
    // The key can change hands between the look and the deletion: the comparison proves nothing by then.
    Recipe {
        name: "broken:get-compare-del",
        about: "releases by GET, a comparison in the client, and DEL 10 ms later: not one step",
        give: Give::GetThenDelete(Duration::from_millis(10)),
        ..SET_NX_PX
    },
    // A client that dies in the gap leaves a key that never expires: nobody gets the lock again.
    Recipe {
        name: "broken:setnx-expire",
        about: "SETNX, then PEXPIRE 25 ms later: a client that dies in between locks everybody out for ever",
        take: Take::SetNxThenExpire(Duration::from_millis(25)),
        ..SET_NX_PX
    },
    // A holder paused past its lease wakes up, lengthens the new holder's key and takes that for its own success.
    Recipe {
        name: "broken:renew-without-owner-check",
        about: "renews and extends with a plain PEXPIRE, so a late holder renews somebody else's lock and believes in it",
        lengthen: Lengthen::Expire,
        ..SET_NX_PX
    },
    // No fault is needed: two callers at once are enough.
    Recipe {
        name: "broken:steal",
        about: "answers a busy lock with a plain SET: whoever asks, gets it",
        take: Take::Steal,
        ..SET_NX_PX
    },
    // The server's clock has run since the request reached it. With slow replies the holder trusts a lease that is over.
    Recipe {
        name: "broken:lease-from-reply",
        about: "counts its lease from the reply instead of from the request",
        begins: Begins::AtReply,
        ..SET_NX_PX
    },
    // Asked to keep the lock, it sets the lease once; a hold longer than that is two holds, and nobody is told.
    Recipe {
        name: "broken:ignores-expiry",
        about: "asked for a renewed lock, sets the lease once, never renews it and never says lost",
        renewal: Renewal::Never,
        ..SET_NX_PX
    },
];
