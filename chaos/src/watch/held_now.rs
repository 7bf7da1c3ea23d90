//! Looks once at who holds which lock: SCAN, then type, end and value of each key that may be one.

use std::time::Duration;

use cluster_config::{External, Role};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};
use results::watch::WatchReport;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::snapshot::{KeyValue, find_endless, holder_of_key};
use super::watcher::WatchedTraffic;
use crate::run::RunError;

/// Keys of one step of SCAN.
const STEP: usize = 500;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// A value beyond this is no lock's.
const VALUE_MAX: usize = 256;
/// So many fields at most has a lock that is a hash.
const FIELDS_MAX: i64 = 16;

/// Every master, key by key; a server is left alone between two steps for as long as one took.
///
/// # Errors
/// A server that does not answer.
pub async fn look_once(
    servers: &External,
    show_values: bool,
    cancel: &watch::Receiver<bool>,
) -> Result<WatchedTraffic, RunError> {
    let mut report = WatchReport {
        source: "once".to_owned(),
        ..WatchReport::default()
    };
    let all = servers.data_servers().into_iter();
    for (address, _) in all.filter(|one| one.1 == Role::Master) {
        let missing = |why: String| RunError::Missing(format!("{address}: {why}"));
        let unanswered = |error: redis::RedisError| missing(error.to_string());
        let mut connection = servers.connection(address, ANSWER).await.map_err(missing)?;
        report.servers.push(address.to_string());
        let mut cursor = "0".to_owned();
        loop {
            let began = Instant::now();
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("COUNT").arg(STEP);
            let scanned = scan.query_async(&mut connection).await;
            let (next, keys): (String, Vec<Vec<u8>>) = scanned.map_err(unanswered)?;
            report.commands += 1 + keys.len() as u64;
            let mut kinds = redis::pipe();
            for key in &keys {
                kinds.cmd("TYPE").arg(key).cmd("PTTL").arg(key);
            }
            let kinds = kinds.query_async(&mut connection).await;
            let kinds: Vec<(String, i64)> = kinds.map_err(unanswered)?;
            for (key, (kind, left_ms)) in keys.iter().zip(kinds) {
                let value = value_of(key, &kind, &mut connection).await;
                let name = String::from_utf8_lossy(key);
                let holder =
                    value.and_then(|value| holder_of_key(&name, &value, left_ms, show_values));
                report.holders.extend(holder);
            }
            cursor = next;
            if cursor == "0" || *cancel.borrow() {
                break;
            }
            sleep(began.elapsed().min(Duration::from_millis(100))).await;
        }
    }
    let holders = &mut report.holders;
    holders.sort_by(|a, b| (a.left_ms.is_some(), &a.lock).cmp(&(b.left_ms.is_some(), &b.lock)));
    find_endless(&mut report);
    Ok(WatchedTraffic {
        report,
        ..WatchedTraffic::default()
    })
}

/// What a key holds that may be a lock; `None`: it is none.
async fn value_of(
    key: &[u8],
    kind: &str,
    connection: &mut MultiplexedConnection,
) -> Option<KeyValue> {
    async fn asked<T: FromRedisValue>(
        command: &mut Cmd,
        connection: &mut MultiplexedConnection,
    ) -> Option<T> {
        command.query_async(connection).await.ok()
    }
    match kind {
        "string" => {
            let mut range = cmd("GETRANGE");
            let range = range.arg(key).arg(0).arg(VALUE_MAX);
            asked(range, connection).await.map(KeyValue::Text)
        }
        "hash" => {
            let length: i64 = asked(cmd("HLEN").arg(key), connection).await?;
            match (1..=FIELDS_MAX).contains(&length) {
                true => asked(cmd("HKEYS").arg(key), connection)
                    .await
                    .map(KeyValue::Fields),
                false => None,
            }
        }
        _ => None,
    }
}
