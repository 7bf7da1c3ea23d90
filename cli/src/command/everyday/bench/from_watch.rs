//! The workload of somebody's application, as `watch` has seen it: names, hold, lease and rate of its busiest
//! lock.

use std::time::Duration;

use bench::driver::Leasing;

use super::Options;
use crate::exit;
use crate::run::load;

/// Sets what the command line leaves open, and says what that is.
pub(super) fn fill(options: &mut Options, run: &str) -> anyhow::Result<String> {
    let kept = load(run)?;
    let watch = kept.watch.filter(|watch| watch.seconds > 0.0);
    let busiest = watch.as_ref().and_then(|watch| watch.locks.first());
    let (Some(watch), Some(lock)) = (&watch, busiest) else {
        return Err(exit::input(format!(
            "{run} has not seen a lock at work: `locklab watch` makes a run that has"
        )));
    };
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let lease = match (lock.renewals, lock.lease_ms) {
        (0, Some(lease_ms)) => Leasing::Fixed(ms(lease_ms)),
        (0, None) => Leasing::Usual,
        _ => Leasing::Renewed,
    };
    if options.workload.is_empty() {
        options.workload = vec!["uniform".to_owned()];
    }
    let names = u32::try_from(lock.names).unwrap_or(u32::MAX);
    let locks = *options.locks.get_or_insert(names);
    let hold = lock.hold_ms.p50.map(ms).unwrap_or_default();
    let hold = *options.hold.get_or_insert(hold);
    options.lease.get_or_insert(lease);
    let grants_per_s = lock.grants as f64 / watch.seconds;
    let rate = *options.rate.get_or_insert(grants_per_s);
    Ok(format!("as {}: {locks} names, held for {hold:?}, {rate:.1} cycles/s", lock.pattern))
}
