//! Looks once at who holds which lock: SCAN, then type, end and value of each key that may be one.

use std::time::Duration;

use chaos::watch::{KeyValue, WatchedTraffic, holder_of_key};
use cluster_config::{External, Role};
use redis::Value;
use results::watch::WatchReport;

use crate::cancel::Cancel;
use crate::exit;

/// Keys of one step of SCAN.
const STEP: usize = 500;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// A value beyond this is no lock's.
const VALUE_MAX: usize = 256;

/// Every master, key by key; a server is left alone between two steps for as long as one took.
pub(super) async fn look(
    servers: &External,
    show_values: bool,
    cancel: &Cancel,
) -> anyhow::Result<WatchedTraffic> {
    let mut report = WatchReport {
        source: "once".to_owned(),
        ..WatchReport::default()
    };
    let masters = servers
        .data_servers()
        .into_iter()
        .filter(|one| one.1 == Role::Master);
    for (address, _) in masters {
        let missing = |why: String| exit::missing(format!("{address}: {why}"));
        let mut connection = servers.connection(address, ANSWER).await.map_err(missing)?;
        report.servers.push(address.to_string());
        let mut cursor = "0".to_owned();
        loop {
            let began = tokio::time::Instant::now();
            let scan = redis::cmd("SCAN")
                .arg(&cursor)
                .arg("COUNT")
                .arg(STEP)
                .to_owned();
            let (next, keys): (String, Vec<Vec<u8>>) = scan
                .query_async(&mut connection)
                .await
                .map_err(|error| missing(error.to_string()))?;
            report.commands += 1 + keys.len() as u64;
            let mut kinds = redis::pipe();
            for key in &keys {
                kinds.cmd("TYPE").arg(key).cmd("PTTL").arg(key);
            }
            let kinds: Vec<Value> = kinds
                .query_async(&mut connection)
                .await
                .map_err(|error| missing(error.to_string()))?;
            for (key, pair) in keys.iter().zip(kinds.chunks_exact(2)) {
                let [Value::SimpleString(kind), Value::Int(left_ms)] = pair else {
                    continue;
                };
                let value = match kind.as_str() {
                    "string" => {
                        let ranged = redis::cmd("GETRANGE")
                            .arg(key)
                            .arg(0)
                            .arg(VALUE_MAX)
                            .query_async(&mut connection)
                            .await;
                        ranged.ok().map(KeyValue::Text)
                    }
                    "hash" => {
                        let length: i64 = redis::cmd("HLEN")
                            .arg(key)
                            .query_async(&mut connection)
                            .await
                            .unwrap_or(0);
                        match (1..=16).contains(&length) {
                            true => redis::cmd("HKEYS")
                                .arg(key)
                                .query_async(&mut connection)
                                .await
                                .ok()
                                .map(KeyValue::Fields),
                            false => None,
                        }
                    }
                    _ => None,
                };
                let name = String::from_utf8_lossy(key);
                report.holders.extend(
                    value.and_then(|value| holder_of_key(&name, &value, *left_ms, show_values)),
                );
            }
            cursor = next;
            if cursor == "0" || cancel.is_wanted() {
                break;
            }
            tokio::time::sleep(began.elapsed().min(Duration::from_millis(100))).await;
        }
    }
    report
        .holders
        .sort_by(|a, b| (a.left_ms.is_some(), &a.lock).cmp(&(b.left_ms.is_some(), &b.lock)));
    chaos::watch::find_endless(&mut report);
    Ok(WatchedTraffic {
        report,
        ..WatchedTraffic::default()
    })
}
