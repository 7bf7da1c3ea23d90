//! Reads what a key holds when it first appears, so that a holder from before the watch is known. The read is
//! a part of the traffic itself, whose order says what came before it.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::External;
use memchr::memmem::Finder;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value, cmd};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::watch::recognition::recipe_table::{HASH, Recipe, SET_NX};

/// Longest wait for a connection, and for an answer whose command the traffic has shown.
const ANSWER: Duration = Duration::from_secs(1);
/// What PTTL says of a key that is not there.
const ABSENT: i64 = -2;

/// A value beyond this is no lock's.
const VALUE_MAX: usize = 256;
/// So many fields at most has a lock that is a hash.
const FIELDS_MAX: usize = 16;

/// The owners that a key names, and how often each has the lock, in the key's own words.
pub(crate) type KeyOwners = Vec<(Vec<u8>, Vec<u8>)>;

/// The only owner of a lock, and how often it has it; `None`: nobody, or several.
fn sole_owner(owners: KeyOwners) -> Option<(Vec<u8>, u32)> {
    let [(owner, depth)] = <[_; 1]>::try_from(owners).ok()?;
    let depth = std::str::from_utf8(&depth).ok()?.parse().unwrap_or(1);
    (!owner.is_empty()).then_some((owner, depth))
}

#[derive(Debug, Clone)]
pub(crate) struct WantedKey {
    pub(crate) source: usize,
    pub(crate) database: u32,
    pub(crate) key: Box<[u8]>,
    /// The type by which it is taken, as `TYPE` calls it.
    pub(crate) kind: &'static str,
}

/// What a server says of a key.
#[derive(Debug)]
pub(crate) struct KeyState {
    pub(crate) wanted: WantedKey,
    /// As PTTL says it.
    pub(crate) left_ms: i64,
    /// Who has it, and how often; `None`: nobody.
    pub(crate) holder: Option<(Vec<u8>, u32)>,
}

/// Reads of keys of one server, each of which the traffic shows by its number.
pub(crate) struct KeyReads {
    /// What is before the number: it tells these reads from those of others.
    mark: Finder<'static>,
    states: mpsc::UnboundedReceiver<(u64, Option<KeyState>)>,
}

impl KeyReads {
    /// Reads the keys that come, one after the other, over a connection that is kept.
    pub(crate) fn of(servers: External, address: SocketAddr, keys: mpsc::Receiver<WantedKey>) -> Self {
        let mark = format!("locklab-watch:{:x}:", RandomState::new().hash_one(address));
        let (send, states) = mpsc::unbounded_channel();
        let in_quotes = Finder::new(&format!("\"{mark}")).into_owned();
        tokio::spawn(read_keys(servers, address, mark, keys, send));
        Self { mark: in_quotes, states }
    }

    /// What was read by the command of this line; `None`: it is none of these reads, or no lock's.
    pub(crate) async fn read_at(&mut self, line: &[u8]) -> Option<KeyState> {
        let number = &line[self.mark.find(line)? + self.mark.needle().len()..];
        let number = number.split(|byte| *byte == b'"').next()?;
        let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
        loop {
            // The traffic has not shown those before it.
            let (of, state) = timeout(ANSWER, self.states.recv()).await.ok()??;
            if of >= number {
                return state;
            }
        }
    }
}

async fn read_keys(
    servers: External,
    address: SocketAddr,
    mark: String,
    mut keys: mpsc::Receiver<WantedKey>,
    states: mpsc::UnboundedSender<(u64, Option<KeyState>)>,
) {
    let (mut kept, mut number) = (None, 0);
    while let Some(wanted) = keys.recv().await {
        if kept.is_none() {
            kept = servers.dial(address).connection(ANSWER).await.ok();
        }
        let Some(connection) = &mut kept else { continue };
        number += 1;
        let read = read(connection, &format!("{mark}{number}"), wanted).await;
        match &read {
            // The server does not let this user read.
            Err(error) if !error.is_io_error() && !error.is_timeout() => return,
            Err(_) => kept = None,
            Ok(_) => {}
        }
        if states.send((number, read.ok().flatten())).is_err() {
            return;
        }
    }
}

/// Reads a key in one step, which the marker shows in the traffic; `None`: its value is no lock's.
async fn read(
    connection: &mut MultiplexedConnection,
    marker: &str,
    wanted: WantedKey,
) -> Result<Option<KeyState>, RedisError> {
    let key = &*wanted.key;
    let Some(value) = value_command(wanted.kind, key) else { return Ok(None) };
    let mut step = redis::pipe();
    step.atomic().cmd("SELECT").arg(wanted.database);
    step.cmd("ECHO").arg(marker).cmd("PTTL").arg(key);
    step.add_command(value).ignore_errors();
    let answers: Vec<Value> = step.query_async(connection).await?;
    let Ok([_, _, Value::Int(left_ms), value]) = <[Value; 4]>::try_from(answers) else { return Ok(None) };
    let holder = owners_of(value).and_then(sole_owner);
    let is_clear = holder.is_some() || left_ms == ABSENT;
    Ok(is_clear.then_some(KeyState { wanted, left_ms, holder }))
}

/// Asks for what a key of a type holds; `None`: it is no lock.
pub(crate) fn value_command(kind: &str, key: &[u8]) -> Option<Cmd> {
    match kind {
        "string" => Some(cmd("GETRANGE").arg(key).arg(0).arg(VALUE_MAX).take()),
        "hash" => Some(cmd("HSCAN").arg(key).arg(0).arg("COUNT").arg(FIELDS_MAX).take()),
        _ => None,
    }
}

/// Reads the answer to it; `None`: it is no lock, or an error.
pub(crate) fn owners_of(answer: Value) -> Option<KeyOwners> {
    if let Value::BulkString(text) = answer {
        return (text.len() <= VALUE_MAX).then(|| vec![(text, b"1".to_vec())]);
    }
    let (_, mut fields): (String, KeyOwners) = redis::from_redis_value(answer).ok()?;
    let is_short = fields.len() <= FIELDS_MAX;
    fields.retain(|(field, _)| field != b"mode");
    is_short.then_some(fields)
}

/// How a lock is taken whose key has this type.
pub(crate) fn recipe_of(kind: &str) -> &'static Recipe {
    if kind == "hash" { HASH } else { SET_NX }
}
