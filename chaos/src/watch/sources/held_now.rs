//! Looks once at who holds which lock: SCAN, then type, end and value of each key that may be one.

use std::time::Duration;

use cluster_config::{External, Role};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd};
use results::watch::{Certainty, WatchFinding, WatchReport, WatchedHolder};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::run::RunError;
use crate::watch::lock::finding_kinds::FindingKind;
use crate::watch::recognition::patterns::{LibraryTrace, library, pattern_of};
use crate::watch::recognition::recipe_table::{Recipe, SET_NX};
use crate::watch::recognition::recipes::{is_token, sounds_like_a_lock};
use crate::watch::recognition::units::hash;
use crate::watch::sources::key_reads::{KeyOwners, owners_of, recipe_of, value_command};
use crate::watch::watcher::WatchedTraffic;

/// Keys of one step of SCAN.
const STEP: usize = 500;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Every database of every master, key by key; a server is left alone between two steps for as long as one
/// took. Of servers that do not answer `note` is told.
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
    let (mut silent, mut warnings) = (None, Vec::new());
    for (address, _) in all.filter(|one| one.1 == Role::Master) {
        let missing = |why: String| RunError::Missing(format!("{address}: {why}"));
        let unanswered = |error: RedisError| missing(error.to_string());
        let mut connection = match servers.dial(address).connection(ANSWER).await {
            Ok(connection) => connection,
            Err(why) => {
                note(&format!("{address} is left out: {why}"));
                silent.get_or_insert(missing(why));
                continue;
            }
        };
        report.servers.push(address.to_string());
        if cmd("CLIENT").arg("NO-TOUCH").arg("ON").exec_async(&mut connection).await.is_err() {
            note(&format!(
                "{address} does not know CLIENT NO-TOUCH, as Redis 7.2 does: keys with an end, hashes and keys with the name of a lock count as just used there"
            ));
        }
        let keyspace = cmd("INFO").arg("keyspace").query_async::<String>(&mut connection).await;
        let databases = match keyspace {
            Ok(keyspace) => keyspace.lines().filter_map(database_of).map(Some).collect(),
            Err(_) => {
                let warning = "does not say which databases it has: that of the URL alone was looked at";
                warnings.push(format!("{address} {warning}"));
                vec![None]
            }
        };
        for database in databases {
            if let Some(number) = database {
                let selected = cmd("SELECT").arg(number).exec_async(&mut connection).await;
                selected.map_err(unanswered)?;
            }
            let number = database.unwrap_or(0);
            let looking = scan_database(&mut connection, number, show_values, cancel, &mut report);
            looking.await.map_err(unanswered)?;
        }
    }
    if let Some(why) = silent.filter(|_| report.servers.is_empty()) {
        return Err(why);
    }
    let holders = &mut report.holders;
    holders.sort_by(|a, b| (a.left_ms.is_some(), &a.lock).cmp(&(b.left_ms.is_some(), &b.lock)));
    find_endless(&mut report);
    Ok(WatchedTraffic { report, warnings, ..WatchedTraffic::default() })
}

/// The number of a database in a line such as `db0:keys=1,expires=0`.
fn database_of(line: &str) -> Option<u32> {
    line.strip_prefix("db")?.split(':').next()?.parse().ok()
}

/// The keys of the database that a connection has selected.
async fn scan_database(
    connection: &mut MultiplexedConnection,
    database: u32,
    show_values: bool,
    cancel: &watch::Receiver<bool>,
    report: &mut WatchReport,
) -> Result<(), RedisError> {
    let mut cursor = "0".to_owned();
    loop {
        let began = Instant::now();
        let scan = cmd("SCAN").arg(&cursor).arg("COUNT").arg(STEP).take();
        let (next, keys): (String, Vec<Vec<u8>>) = scan.query_async(connection).await?;
        report.commands += 1 + keys.len() as u64;
        let mut kinds = redis::pipe();
        for key in &keys {
            kinds.cmd("TYPE").arg(key).cmd("PTTL").arg(key);
        }
        let kinds: Vec<(String, i64)> = match keys.is_empty() {
            true => Vec::new(),
            false => kinds.query_async(connection).await?,
        };
        let (mut values, mut asked) = (redis::pipe(), Vec::new());
        for (key, (kind, left_ms)) in keys.iter().zip(kinds) {
            // Without an end, only its name tells that a string is a lock.
            let is_none = kind == "string" && left_ms < 0 && !sounds_like_a_lock(key);
            if let Some(command) = value_command(&kind, key).filter(|_| !is_none) {
                values.add_command(command);
                asked.push((key, kind, left_ms));
            }
        }
        let values = values.ignore_errors();
        let answers: Vec<Value> = match asked.is_empty() {
            true => Vec::new(),
            false => values.query_async(connection).await?,
        };
        for ((key, kind, left_ms), answer) in asked.into_iter().zip(answers) {
            let name = String::from_utf8_lossy(key);
            let owners = owners_of(answer).unwrap_or_default();
            let holder = holder_of_key(&name, recipe_of(&kind), owners, left_ms, show_values);
            report.holders.extend(holder.map(|holder| WatchedHolder { database, ..holder }));
        }
        cursor = next;
        if cursor == "0" || *cancel.borrow() {
            return Ok(());
        }
        sleep(began.elapsed().min(Duration::from_millis(100))).await;
    }
}

/// Who holds a lock; `None`: the key is none, as far as it shows. `left_ms` is what PTTL says.
fn holder_of_key(
    name: &str,
    recipe: &Recipe,
    owners: KeyOwners,
    left_ms: i64,
    show_values: bool,
) -> Option<WatchedHolder> {
    let (owner, _) = owners.into_iter().next()?;
    let library = library(name, &LibraryTrace { value: &owner, takes: true, ..LibraryTrace::default() });
    let (is_named, is_token) = (sounds_like_a_lock(name.as_bytes()), is_token(&owner));
    let is_lock = match recipe == SET_NX {
        true => is_named && owner.len() <= 80 || is_token && !library.is_empty() && left_ms >= 0,
        false => ["Redisson", "lock-core"].contains(&library) || is_named && is_token,
    };
    // Keys beside a lock are named after what they are beside.
    if !is_lock || name.starts_with("redisson_") || left_ms == -2 {
        return None;
    }
    Some(WatchedHolder {
        lock: name.to_owned(),
        owner: match show_values {
            true => String::from_utf8_lossy(&owner).into_owned(),
            false => format!("#{:08x}", hash(&owner) as u32),
        },
        left_ms: (left_ms >= 0).then_some(left_ms as f64),
        recipe: recipe.name.to_owned(),
        library: library.to_owned(),
        database: 0,
    })
}

/// Says which of the holders have no end.
fn find_endless(report: &mut WatchReport) {
    let endless: Vec<&WatchedHolder> = report.holders.iter().filter(|one| one.left_ms.is_none()).collect();
    let Some(first) = endless.first() else { return };
    let line = |one: &&WatchedHolder| format!("{} is held by {} without an end", one.place(), one.owner);
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
