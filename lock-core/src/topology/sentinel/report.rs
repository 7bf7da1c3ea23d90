//! What the sentinels say, and from it the addresses that may be the master's, the likeliest first.
use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::target::Endpoint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) master: Endpoint,
    /// Rises with every failover.
    pub(super) epoch: u64,
    /// Replicas that this sentinel has not been made to forget, reachable or not: whom one sentinel takes for down may be promoted by
    /// others, and takes itself for a master if it is cut off together with them.
    pub(super) replicas: u32,
}

impl Report {
    /// Reads the answers to `SENTINEL GET-MASTER-ADDR-BY-NAME`, `MASTER` and `REPLICAS`.
    pub(super) fn read(answers: &[Value]) -> Option<Report> {
        let [Value::Array(address), Value::Array(master), replicas] = answers else {
            return None;
        };
        let [host, port] = address.as_slice() else {
            return None;
        };
        let master = fields(master);
        let replicas: &[Value] = match replicas {
            Value::Array(replicas) => replicas,
            _ => &[],
        };
        // One process may stand there by two addresses, also by one beside its own as the master.
        let mut runs = BTreeSet::from([run_id(&master)]);
        let mut count = 0;
        for replica in replicas {
            let Value::Array(replica) = replica else {
                continue;
            };
            let run = run_id(&fields(replica));
            if run.is_none() || runs.insert(run) {
                count += 1;
            }
        }
        Some(Report {
            master: Endpoint::Tcp {
                host: text(host)?.to_owned(),
                port: text(port)?.parse().ok()?,
            },
            epoch: master.get("config-epoch")?.parse().ok()?,
            replicas: count,
        })
    }
}

/// Which process it is; `None` for one that this sentinel has never reached.
fn run_id<'a>(server: &BTreeMap<&str, &'a str>) -> Option<&'a str> {
    server.get("runid").copied().filter(|id| !id.is_empty())
}

fn fields(flat: &[Value]) -> BTreeMap<&str, &str> {
    flat.chunks_exact(2)
        .filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
        .collect()
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
/// The newest epoch wins over any number of older ones, since a majority of sentinels had to elect its leader. A
/// sentinel that lags behind what was `seen` before is not heard, unless it is with a majority of all `sentinels`:
/// then the group was set up anew.
pub(super) fn candidates(
    reports: &[Report],
    seen: u64,
    sentinels: usize,
) -> Option<(u64, Vec<Endpoint>)> {
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
    Some((
        epoch,
        ranked
            .into_iter()
            .map(|(endpoint, _)| endpoint.clone())
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(port: u16, epoch: u64) -> Report {
        Report {
            master: at(port),
            epoch,
            replicas: 1,
        }
    }

    fn at(port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: "h".to_owned(),
            port,
        }
    }

    #[test]
    fn a_replica_counts_once_whatever_its_state() {
        let texts = |texts: &[&str]| {
            let text = |text: &&str| Value::BulkString(text.as_bytes().to_vec());
            Value::Array(texts.iter().map(text).collect())
        };
        let replica = |run: &str, flags: &str| texts(&["runid", run, "flags", flags]);
        let count = |replicas: &[Value]| {
            let master = texts(&["runid", "m", "config-epoch", "3"]);
            let replicas = Value::Array(replicas.to_vec());
            let report = Report::read(&[texts(&["h", "1"]), master, replicas]);
            report.expect("a good answer").replicas
        };
        let down = replica("a", "s_down,slave,disconnected");
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[down.clone(), replica("b", "slave")]), 2);
        let twice = [down, replica("a", "slave"), replica("m", "slave")];
        assert_eq!(
            count(&twice),
            1,
            "by two addresses, and the master by its old one"
        );
        let never_reached = [replica("", "s_down,slave"), replica("", "s_down,slave")];
        assert_eq!(count(&never_reached), 2);
    }

    #[test]
    fn the_newest_epoch_wins_over_the_majority() {
        let reports = [report(1, 3), report(1, 3), report(2, 4)];
        assert_eq!(candidates(&reports, 3, 3), Some((4, vec![at(2)])));
    }

    #[test]
    fn within_an_epoch_votes_decide_the_order() {
        let reports = [report(1, 3), report(2, 3), report(2, 3)];
        assert_eq!(candidates(&reports, 3, 3), Some((3, vec![at(2), at(1)])));
    }

    #[test]
    fn a_stale_minority_is_not_heard_and_a_stale_majority_is() {
        assert_eq!(candidates(&[report(1, 3)], 4, 3), None);
        assert_eq!(
            candidates(&[report(1, 3), report(1, 3)], 4, 3),
            Some((3, vec![at(1)]))
        );
        assert_eq!(candidates(&[], 0, 3), None);
    }
}
