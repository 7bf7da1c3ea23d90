//! Looks once at who holds which lock: SCAN, then type, end and value of each key that may be one.

use std::time::Duration;

use cluster_config::{External, Role};
use redis::{Value, cmd};
use results::watch::WatchReport;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::key_reads::{value_command, value_of};
use super::snapshot::{find_endless, holder_of_key};
use super::watcher::WatchedTraffic;
use crate::run::RunError;

/// Keys of one step of SCAN.
const STEP: usize = 500;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Every master, key by key; a server is left alone between two steps for as long as one took. Of those that do not answer `note` is told.
///
/// # Errors
/// None answers, or one of them no longer.
pub async fn look_once(
    servers: &External,
    show_values: bool,
    cancel: &watch::Receiver<bool>,
    note: &(dyn Fn(&str) + Sync),
) -> Result<WatchedTraffic, RunError> {
    let mut report = WatchReport {
        source: "once".to_owned(),
        ..WatchReport::default()
    };
    let all = servers.data_servers().into_iter();
    let mut silent = None;
    for (address, _) in all.filter(|one| one.1 == Role::Master) {
        let missing = |why: String| RunError::Missing(format!("{address}: {why}"));
        let unanswered = |error: redis::RedisError| missing(error.to_string());
        let mut connection = match servers.connection(address, ANSWER).await {
            Ok(connection) => connection,
            Err(why) => {
                note(&format!("{address} is left out: {why}"));
                silent.get_or_insert(missing(why));
                continue;
            }
        };
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
            let kinds: Vec<(String, i64)> = match keys.is_empty() {
                true => Vec::new(),
                false => kinds
                    .query_async(&mut connection)
                    .await
                    .map_err(unanswered)?,
            };
            let (mut values, mut asked) = (redis::pipe(), Vec::new());
            for (key, (kind, left_ms)) in keys.iter().zip(kinds) {
                if let Some(command) = value_command(&kind, key) {
                    values.add_command(command);
                    asked.push((key, left_ms));
                }
            }
            let values = values.ignore_errors();
            let answers: Vec<Value> = match asked.is_empty() {
                true => Vec::new(),
                false => values
                    .query_async(&mut connection)
                    .await
                    .map_err(unanswered)?,
            };
            for ((key, left_ms), answer) in asked.into_iter().zip(answers) {
                let name = String::from_utf8_lossy(key);
                let holder = value_of(answer)
                    .and_then(|value| holder_of_key(&name, &value, left_ms, show_values));
                report.holders.extend(holder);
            }
            cursor = next;
            if cursor == "0" || *cancel.borrow() {
                break;
            }
            sleep(began.elapsed().min(Duration::from_millis(100))).await;
        }
    }
    if let Some(why) = silent.filter(|_| report.servers.is_empty()) {
        return Err(why);
    }
    let holders = &mut report.holders;
    holders.sort_by(|a, b| (a.left_ms.is_some(), &a.lock).cmp(&(b.left_ms.is_some(), &b.lock)));
    find_endless(&mut report);
    Ok(WatchedTraffic {
        report,
        ..WatchedTraffic::default()
    })
}
