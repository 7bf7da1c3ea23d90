//! Prints how long something took, and whether that is what is aimed at.

use std::time::{Duration, Instant};

/// Does it once, against what is aimed at.
pub(crate) fn goal(name: &str, most: Duration, what: impl FnOnce()) {
    let begun = Instant::now();
    what();
    let took = begun.elapsed();
    let verdict = if took <= most { "reached" } else { "NOT reached" };
    eprintln!("goal: {name}: {took:.3?}, at most {most:?}: {verdict}");
}
