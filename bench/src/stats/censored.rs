//! Quantiles of right-censored waits: one that gave up lasted longer than watched (Kaplan and Meier 1958).

use hdrhistogram::Histogram;

/// The `q`-quantile of waits that ended in a grant, `granted`, and of waits that gave up, `gave_up`.
///
/// `None` where the quantile lies beyond what was watched: all that is known is "longer than the timeout".
pub fn quantile(granted: &Histogram<u64>, gave_up: &Histogram<u64>, q: f64) -> Option<u64> {
    let mut lost = gave_up.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).peekable();
    let mut watched = granted.len() + gave_up.len();
    let mut still_waiting = 1.0;
    for at in granted.iter_recorded() {
        let value = at.value_iterated_to();
        // Of waits of one length the grants came first: a wait that gives up was watched to its end.
        while let Some((_, count)) = lost.next_if(|(given_up, _)| *given_up < value) {
            watched -= count;
        }
        let count = at.count_at_value();
        still_waiting *= 1.0 - count as f64 / watched as f64;
        watched -= count;
        if still_waiting <= 1.0 - q + 1e-12 {
            return Some(value);
        }
    }
    None
}
