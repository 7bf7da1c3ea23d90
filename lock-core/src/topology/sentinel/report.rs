//! What the sentinels say, and from it the addresses that may be the master's, the likeliest first.
use std::collections::BTreeMap;

use redis::Value;

use crate::client::target::Endpoint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) master: Endpoint,
    /// Rises with every failover.
    pub(super) epoch: u64,
    /// After how much silence of the master this sentinel votes for another one.
    pub(super) down_after_ms: Option<u64>,
}

impl Report {
    /// Reads the answers to `SENTINEL GET-MASTER-ADDR-BY-NAME` and `MASTER`.
    pub(super) fn read(answers: &[Value]) -> Option<Report> {
        let [Value::Array(address), Value::Array(master)] = answers else {
            return None;
        };
        let [host, port] = address.as_slice() else {
            return None;
        };
        let master = fields(master);
        Some(Report {
            master: Endpoint::Tcp { host: text(host)?.to_owned(), port: text(port)?.parse().ok()? },
            epoch: master.get("config-epoch")?.parse().ok()?,
            down_after_ms: (master.get("down-after-milliseconds")).and_then(|text| text.parse().ok()),
        })
    }
}

fn fields(flat: &[Value]) -> BTreeMap<&str, &str> {
    flat.chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect()
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// The epoch to go by and its addresses, most votes first.
///
/// The newest epoch wins over any number of older ones, since a majority of sentinels had to elect its
/// leader. A sentinel that lags behind what was `seen` before is not heard, unless it is with a majority of
/// all `sentinels`: then the group was set up anew.
pub(super) fn candidates(reports: &[Report], seen: u64, sentinels: usize) -> Option<(u64, Vec<Endpoint>)> {
    let epoch = reports.iter().map(|report| report.epoch).max()?;
    if epoch < seen && reports.len() <= sentinels / 2 {
        return None;
    }
    let mut votes: BTreeMap<&Endpoint, usize> = BTreeMap::new();
    for report in reports.iter().filter(|report| report.epoch == epoch) {
        *votes.entry(&report.master).or_default() += 1;
    }
    let mut ranked: Vec<_> = votes.into_iter().collect();
    ranked.sort_by_key(|&(_, votes)| std::cmp::Reverse(votes));
    Some((epoch, ranked.into_iter().map(|(endpoint, _)| endpoint.clone()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(port: u16, epoch: u64) -> Report {
        Report { master: at(port), epoch, down_after_ms: None }
    }

    fn at(port: u16) -> Endpoint {
        Endpoint::Tcp { host: "h".to_owned(), port }
    }

    #[test]
    fn the_newest_epoch_wins_over_the_majority() {
        assert_eq!(candidates(&[report(1, 3), report(1, 3), report(2, 4)], 3, 3), Some((4, vec![at(2)])));
    }

    #[test]
    fn within_an_epoch_votes_decide_the_order() {
        let reports = [report(1, 3), report(2, 3), report(2, 3)];
        assert_eq!(candidates(&reports, 3, 3), Some((3, vec![at(2), at(1)])));
    }

    #[test]
    fn a_stale_minority_is_not_heard_and_a_stale_majority_is() {
        assert_eq!(candidates(&[report(1, 3)], 4, 3), None);
        assert_eq!(candidates(&[report(1, 3), report(1, 3)], 4, 3), Some((3, vec![at(1)])));
        assert_eq!(candidates(&[], 0, 3), None);
    }
}
