//! Looks once at who holds which lock: SCAN, then type, end and value of each key that may be one.

use std::time::Duration;

use cluster_config::{External, Role};
use redis::{Value, cmd};
use results::watch::{Certainty, WatchFinding, WatchReport, WatchedHolder};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::run::RunError;
use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::recognition::patterns::{LibraryTrace, library, pattern_of};
use crate::watch::recognition::recipe_table::{HASH, SET_NX};
use crate::watch::recognition::recipes::{is_token, sounds_like_a_lock};
use crate::watch::recognition::units::hash;
use crate::watch::sources::key_reads::{KeyValue, value_command, value_of};
use crate::watch::watcher::WatchedTraffic;

/// Keys of one step of SCAN.
const STEP: usize = 500;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Every master, key by key; a server is left alone between two steps for as long as one took. Of those that
/// do not answer `note` is told.
///
/// # Errors
/// None answers, or one of them no longer.
pub async fn look_once(
    servers: &External,
    show_values: bool,
    cancel: &watch::Receiver<bool>,
    note: &(dyn Fn(&str) + Sync),
) -> Result<WatchedTraffic, RunError> {
    let mut report = WatchReport { source: "once".to_owned(), ..WatchReport::default() };
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
                false => kinds.query_async(&mut connection).await.map_err(unanswered)?,
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
                false => values.query_async(&mut connection).await.map_err(unanswered)?,
            };
            for ((key, left_ms), answer) in asked.into_iter().zip(answers) {
                let name = String::from_utf8_lossy(key);
                let holder =
                    value_of(answer).and_then(|value| holder_of_key(&name, &value, left_ms, show_values));
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
    Ok(WatchedTraffic { report, ..WatchedTraffic::default() })
}

/// Who holds a lock; `None`: the key is none, as far as it shows. `left_ms` is what PTTL says.
fn holder_of_key(name: &str, value: &KeyValue, left_ms: i64, show_values: bool) -> Option<WatchedHolder> {
    let is_owner = |field: &&Vec<u8>| *field != b"mode";
    let (owner, recipe) = match value {
        KeyValue::Text(value) => (value, SET_NX),
        KeyValue::Fields(fields) => (fields.iter().step_by(2).find(is_owner)?, HASH),
    };
    let library = library(name, &LibraryTrace { value: owner, takes: true, ..LibraryTrace::default() });
    let is_named = sounds_like_a_lock(name.as_bytes());
    let is_lock = match value {
        KeyValue::Text(_) => {
            (is_named && owner.len() <= 80) || (is_token(owner) && !library.is_empty() && left_ms >= 0)
        }
        KeyValue::Fields(_) => ["Redisson", "lock-core"].contains(&library) || is_named && is_token(owner),
    };
    // Keys beside a lock are named after what they are beside.
    if !is_lock || name.starts_with("redisson_") || left_ms == -2 {
        return None;
    }
    Some(WatchedHolder {
        lock: name.to_owned(),
        owner: match show_values {
            true => String::from_utf8_lossy(owner).into_owned(),
            false => format!("#{:08x}", hash(owner) as u32),
        },
        left_ms: (left_ms >= 0).then_some(left_ms as f64),
        recipe: recipe.name.to_owned(),
        library: library.to_owned(),
    })
}

/// Says which of the holders have no end.
fn find_endless(report: &mut WatchReport) {
    let endless: Vec<&WatchedHolder> = report.holders.iter().filter(|one| one.left_ms.is_none()).collect();
    let Some(first) = endless.first() else { return };
    let line = |one: &&WatchedHolder| format!("{} is held by {} without an end", one.lock, one.owner);
    let certainty = match first.library.as_str() {
        "" => Certainty::Likely,
        _ => Certainty::Sure,
    };
    report.findings.push(WatchFinding {
        certainty,
        pattern: pattern_of(&first.lock),
        lock: first.lock.clone(),
        count: endless.len() as u64,
        first: endless.iter().take(3).map(line).collect(),
        ..FindingKind::NoExpiry.finding()
    });
}
