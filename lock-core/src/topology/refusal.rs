//! Refusals by their codes, and which pass by themselves.

use super::NodeError;
use crate::machine;

/// The code of a refusal of our own: nothing was sent, since the server lost its memory just now.
pub(crate) const RESTARTED: &str = "RESTARTED";

/// The code that this client gives to "max number of clients reached", for which a server has none.
pub(crate) const MAX_CLIENTS: &str = "MAXCLIENTS";

/// A server's code for a key that holds something else than what is asked for.
pub(crate) const WRONG_TYPE: &str = "WRONGTYPE";

/// The code of another: the client was closed.
pub(crate) const CLOSED: &str = "CLOSED";

/// The code that this client gives to an answer that nothing it asks gets: something else is at work there.
pub(crate) const UNREADABLE: &str = "UNREADABLE";

/// What is said of such an answer, which may be as long as a list of permits.
pub(crate) fn unreadable(answer: &redis::Value) -> String {
    let shown: String = format!("{answer:?}").chars().take(200).collect();
    format!("an answer that cannot be read: {shown}")
}

/// What a request is for, which decides after which refusals it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// An answer: the caller learns of a refusal at once, and decides.
    Answer,
    /// A deed, as giving back: until it is done, something stays taken that nobody uses.
    Deed,
}

/// Whether the trouble may pass by itself: no answer, no connection, or a server that says that it is not
/// ready. A deed is also tried again after what somebody has to correct at the server: replicas, disk,
/// memory, connections, users. Anything else stays so.
pub(crate) fn passes(error: &NodeError, need: RequestPurpose) -> bool {
    use RequestPurpose::{Answer, Deed};
    const PASSING: &[(&str, RequestPurpose)] = &[
        ("ASK", Answer),
        ("BUSY", Answer),
        ("CLUSTERDOWN", Answer),
        ("DENIED", Deed),
        ("LOADING", Answer),
        ("MASTERDOWN", Answer),
        (MAX_CLIENTS, Deed),
        ("MISCONF", Deed),
        ("MOVED", Answer),
        ("NOAUTH", Deed),
        ("NOPERM", Deed),
        ("NOREPLICAS", Deed),
        ("NOSCRIPT", Answer),
        ("OOM", Deed),
        ("READONLY", Answer),
        (RESTARTED, Answer),
        ("TRYAGAIN", Answer),
        ("UNBLOCKED", Answer),
        ("WRONGPASS", Deed),
    ];
    match &error.code {
        Some(code) => {
            (PASSING.iter()).any(|(passing, of)| code == passing && (*of == Answer || need == Deed))
        }
        // A server that may not be asked stays so.
        None => !error.message.contains(machine::ELSEWHERE),
    }
}

/// Whether this user may not have a request's keys, also where a script asked for one.
pub(crate) fn is_about_keys(code: &str, message: &str) -> bool {
    code == "NOPERM" && message.contains(" key")
}

/// Whether a server's word is about a state that ends by itself.
pub(crate) fn is_passing(code: Option<&str>) -> bool {
    let refusal = code.map(|code| NodeError { code: Some(code.to_owned()), ..NodeError::local("") });
    refusal.is_some_and(|refusal| passes(&refusal, RequestPurpose::Answer))
}
