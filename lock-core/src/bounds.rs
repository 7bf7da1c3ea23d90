//! Bounds of leases, waits and repetitions that several files go by.

use std::time::Duration;

/// A look that begins within the caller's bound has this long for its answer, even if that is a little beyond
/// it: cut off sooner it would turn a plain "busy" into "unknown".
pub(crate) const LAST_LOOK: Duration = Duration::from_millis(20);

/// A lease that nobody lives to see the end of: that of what has none, and the longest that can be asked for.
pub(crate) const ENDLESS: Duration = Duration::from_secs(100 * 366 * 86_400);

/// What is kept back for clocks that differ leaves something of it.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(3);

/// A lease of an hour is no reason to keep a key for each acquire and release that long.
pub(crate) const RECORD_LIFE: Duration = Duration::from_secs(30);

/// How many times the response timeout a release or an extend may take. One answer may be lost, and a silent
/// connection is known for dead only after another timeout; then there is time for a new one.
pub(crate) const ANSWERS: u32 = 4;
