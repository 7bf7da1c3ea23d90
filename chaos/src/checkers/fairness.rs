//! How evenly the clients of a run were granted since its last fault was over.
//!
//! 1. The window begins with the latest heal or injection of all faults; without a fault, with the history.
//! 2. Counted are the clients that asked in the window and had not died for good by its end.
//! 3. Whoever asked and got nothing counts with 0.

use std::collections::BTreeMap;

use results::over_time::jain;

use super::holds::Record;

/// Jain's index; `None` with fewer than two clients, or where nobody was granted.
pub(super) fn of(record: &Record) -> Option<f64> {
    let over = record.faults.iter();
    let over = over.map(|fault| fault.healed_ns.unwrap_or(fault.injected_ns));
    let from_ns = over.max().unwrap_or(0);
    let mut grants: BTreeMap<u32, f64> = BTreeMap::new();
    let dead = |client: u32| {
        let deaths = record.deaths.iter().filter(|(dead, _)| *dead == client);
        let died_ns = deaths.map(|(_, at_ns)| *at_ns).max();
        let asks = || record.asks.iter().filter(|ask| ask.client == client);
        died_ns.is_some_and(|died_ns| asks().all(|ask| ask.called_ns <= died_ns))
    };
    for ask in record.asks.iter().filter(|ask| ask.called_ns >= from_ns) {
        let granted = ask
            .grant
            .is_some_and(|grant| !record.grants[grant as usize].unknown);
        *grants.entry(ask.client).or_default() += f64::from(u8::from(granted));
    }
    grants.retain(|client, _| !dead(*client));
    (grants.len() > 1).then(|| jain(grants.into_values()))?
}

#[cfg(test)]
mod tests {
    use results::history::History;

    use super::*;

    /// Grants of clients in turn, and a fault on a node after so many of them.
    fn record(clients: &str, fault_after: usize) -> Record {
        let mut lines = String::new();
        for (n, client) in clients.chars().enumerate() {
            let (id, at_ns) = (n + 1, (n + 1) * 1_000_000);
            if n == fault_after {
                lines += &format!(
                    "{{\"t_ns\":{},\"event\":\"fault\",\"fault\":\"pause\",\"targets\":[\"n1\"],\"span\":1,\"phase\":\"inject\"}}\n",
                    at_ns - 2
                );
            }
            lines += &format!(
                "{{\"t_ns\":{at_ns},\"id\":{id},\"client\":\"c{client}\",\"owner\":\"t0\",\"op\":\"acquire\",\"kind\":\"plain\",\"lease_ms\":1,\"wait_ms\":0,\"lock\":\"a\"}}\n"
            );
            lines += &format!(
                "{{\"t_ns\":{},\"id\":{id},\"end\":\"ok\",\"grant\":\"g{n}\"}}\n",
                at_ns + 1
            );
        }
        Record::of(&History::parse(&lines).expect("lines of a history"))
    }

    #[test]
    fn only_what_came_after_the_last_fault_counts() {
        assert_eq!(of(&record("1212", 99)), Some(1.0));
        // c2 got all that was granted before, and of four afterwards one.
        let uneven = of(&record("22222112111", 5)).expect("two clients");
        assert!((uneven - 36.0 / 52.0).abs() < 1e-9, "{uneven}");
        assert_eq!(of(&record("1111", 99)), None);
    }
}
