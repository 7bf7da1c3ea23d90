//! Waiting: the line of a client's own waiters (`gate`, made of `line`; it hears by `subscriptions`), its waiters in a line at the server (`queue`), the
//! hand-off from a release to them, and the turns that it leaves to other clients.

pub(crate) mod contended_locks;
pub(crate) mod gate;
pub(crate) mod handoff;
pub(crate) mod line;
pub(crate) mod queue;
pub(crate) mod subscriptions;
