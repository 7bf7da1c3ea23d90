//! The front of a line that waits for a latch.

use crate::clock::Instant;
use crate::waiting::subscriptions::Subscriptions;

/// What the first in the line has, and leaves to the next: one looks for all of them.
#[derive(Default)]
pub(crate) struct LatchFront {
    pub(crate) subscriptions: Option<Subscriptions>,
    /// A look that was sent then saw it open.
    pub(crate) open_at: Option<Instant>,
}
