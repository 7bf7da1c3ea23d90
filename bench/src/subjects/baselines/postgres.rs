//! PostgreSQL's two locks: a session's advisory lock, and a row whose holder and end are columns.
//!
//! - **Advisory**: `pg_advisory_lock` on a hash of the name, a connection for each hold and each waiter,
//!   because a session may take its own lock again. Token: a sequence, asked after the grant. Session: the
//!   connection, which the server ends when it was idle for the session's time (`idle_session_timeout`,
//!   PostgreSQL 14 and newer). Loss: heard at once where the connection breaks, else by heartbeats.
//! - **Row**: an upsert that takes over what is over by the server's clock, and counts a fence up in the same
//!   statement; asked again each 1 to 3 ms. Token: that fence. Loss: an update of a renewal that finds no
//!   such row. A clock of the server that is set forward ends leases early.

use std::sync::{Arc, Mutex as Plain};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Row};

use super::{
    ANSWER, Fence, Hold, IdleConnections, RowKey, RowStore, Rows, Store, SystemAcquire, SystemClientParts,
    SystemGrant, answered,
};
use crate::{links::CommandError, protocol::whole_ms, subject::SubjectError};

/// Made once per client, alone: two at once would both try.
const TABLES: &str = "BEGIN; SELECT pg_advisory_xact_lock(hashtext('locklab')); \
    CREATE TABLE IF NOT EXISTS locklab_locks (name text PRIMARY KEY, owner text, expires timestamptz, fence bigint NOT NULL); \
    CREATE SEQUENCE IF NOT EXISTS locklab_fence; COMMIT";
/// Who had the row before is known by the owner's name, so the statement may be sent again.
const TAKE: &str = "INSERT INTO locklab_locks AS held (name, owner, expires, fence) \
    VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', 1) ON CONFLICT (name) DO UPDATE \
    SET owner = excluded.owner, expires = excluded.expires, fence = held.fence + 1 \
    WHERE held.owner IS NULL OR held.owner = excluded.owner OR held.expires <= clock_timestamp() RETURNING fence";
/// As `TAKE`, with any owner.
const TAKE_AFTER_READ: &str = "INSERT INTO locklab_locks AS held (name, owner, expires, fence) \
    VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', 1) ON CONFLICT (name) DO UPDATE \
    SET owner = excluded.owner, expires = excluded.expires, fence = held.fence + 1 RETURNING fence";
const READ: &str =
    "SELECT 1 FROM locklab_locks WHERE name = $1 AND owner IS NOT NULL AND expires > clock_timestamp()";
const KEEP: &str = "UPDATE locklab_locks SET expires = clock_timestamp() + $3 * interval '1 millisecond' \
    WHERE name = $1 AND owner = $2 AND expires > clock_timestamp()";
const GIVE: &str =
    "UPDATE locklab_locks SET owner = NULL WHERE name = $1 AND owner = $2 AND expires > clock_timestamp()";

type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

struct Connection {
    client: Client,
    task: AbortHandle,
    /// Its sender is dropped when the connection ends.
    ended: watch::Receiver<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A statement that the server refused has not run, unless the server itself was about to end.
impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        let said = error.as_db_error().map(|said| said.message().to_owned());
        let text = said.unwrap_or_else(|| error.to_string());
        match error.code() {
            Some(code) if !code.code().starts_with("57") => CommandError::Refused(text),
            _ => CommandError::Lost(text),
        }
    }
}

impl Connection {
    async fn query(&self, statement: &str, with: Parameters<'_>) -> Result<Option<Row>, CommandError> {
        Ok(answered(ANSWER, self.client.query_typed_opt(statement, with)).await??)
    }
}

struct Server {
    target: String,
    session: Duration,
    spare: IdleConnections<Connection>,
}

impl Server {
    async fn dial(&self) -> Result<Connection, Error> {
        let (client, connection) = tokio_postgres::connect(&self.target, NoTls).await?;
        let (alive, ended) = watch::channel(());
        let task = tokio::spawn(async move {
            let _alive = alive;
            let _ = connection.await;
        });
        let connection = Connection { client, task: task.abort_handle(), ended };
        let session = format!("SET idle_session_timeout = {}", whole_ms(self.session));
        connection.client.batch_execute(&session).await?;
        Ok(connection)
    }

    async fn connection(&self) -> Result<Connection, CommandError> {
        if let Some(spare) = self.spare.take(self.session / 2)
            && !spare.client.is_closed()
        {
            return Ok(spare);
        }
        match timeout(ANSWER, self.dial()).await {
            Ok(dialled) => dialled.map_err(|error| CommandError::Refused(error.to_string())),
            Err(_) => Err(CommandError::Refused(format!("no connection within {ANSWER:?}"))),
        }
    }

    async fn changes(&self, statement: &str, with: Parameters<'_>) -> Result<u64, CommandError> {
        let connection = self.connection().await?;
        let changed = answered(ANSWER, connection.client.execute_typed(statement, with)).await??;
        self.spare.keep(connection);
        Ok(changed)
    }
}

async fn server(own: &SystemClientParts) -> Result<Arc<Server>, SubjectError> {
    let server =
        Server { target: own.target.clone(), session: own.session, spare: IdleConnections(Plain::default()) };
    if let Err(error) = own.target.parse::<tokio_postgres::Config>() {
        bail!("the target's URL: {error}");
    }
    let first = own.reached(server.connection().await)?;
    let made = first.client.batch_execute(TABLES).await;
    own.reached(made.map_err(CommandError::from))?;
    server.spare.keep(first);
    Ok(Arc::new(server))
}

pub(super) async fn remove(own: &SystemClientParts, prefix: &str) -> Result<(), SubjectError> {
    let remove = "DELETE FROM locklab_locks WHERE starts_with(name, $1)";
    let removed = server(own).await?.changes(remove, &[(&prefix, Type::TEXT)]).await;
    own.reached(removed.map(drop))
}

/// Advisory locks, on one connection for all holds of the client where it `shares`.
pub(super) async fn advisory(own: SystemClientParts, shares: bool) -> Result<Arc<dyn Store>, SubjectError> {
    let server = server(&own).await?;
    let shared = if shares { Some(Arc::new(own.reached(server.connection().await)?)) } else { None };
    Ok(Arc::new(Advisory { server, shared }))
}

/// A row, which is looked at and written in two statements where it `reads_first`.
pub(super) async fn row(own: SystemClientParts, reads_first: bool) -> Result<Arc<dyn Store>, SubjectError> {
    let server = server(&own).await?;
    Ok(Arc::new(RowStore { rows: Arc::new(Table { server, reads_first }), jitter: own.jitter }))
}

struct Advisory {
    server: Arc<Server>,
    /// One connection for all holds of the client, each of which the server then takes for the same holder.
    shared: Option<Arc<Connection>>,
}

#[async_trait]
impl Store for Advisory {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let connection = match &self.shared {
            Some(shared) => shared.clone(),
            None => Arc::new(self.server.connection().await?),
        };
        let key = want.key;
        // Zero would be without bound.
        let left_ms = whole_ms(want.left()).clamp(1, 1 << 30);
        let (statement, wait) = match want.is_one_try() {
            true => ("SELECT pg_try_advisory_lock(hashtextextended($1, 0)), $2", "0".to_owned()),
            false => (
                "SELECT pg_advisory_lock(hashtextextended($1, 0)) IS NOT NULL, bound FROM set_config('lock_timeout', $2, false) AS bound",
                left_ms.to_string(),
            ),
        };
        let with: Parameters<'_> = &[(&key, Type::TEXT), (&wait, Type::TEXT)];
        let asked = connection.client.query_typed_one(statement, with);
        // A server that says nothing keeps the lock for a connection that is gone by then.
        let patience = Duration::from_millis(left_ms) + ANSWER;
        let sent = Instant::now();
        let granted = match timeout(patience, asked).await {
            Ok(Ok(row)) => row.get::<_, bool>(0),
            Ok(Err(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => false,
            Ok(Err(error)) => return Err(CommandError::from(error).refused()),
            Err(_) => return Err(CommandError::Refused("no answer within the wait".to_owned())),
        };
        let hold = AdvisoryHold {
            server: self.server.clone(),
            ended: connection.ended.clone(),
            is_shared: self.shared.is_some(),
            key: key.to_owned(),
            connection: Mutex::new(Some(connection)),
        };
        if !granted {
            hold.spare(hold.connection.lock().await.take());
            return Ok(None);
        }
        // The session was heard of at the grant, which after a long wait is later than the asking.
        let sent = if want.is_one_try() { sent } else { Instant::now() };
        let token = hold.query("SELECT nextval('locklab_fence')", &[]).await?;
        let token = token.and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok());
        Ok(Some(SystemGrant { hold: Box::new(hold), token, sent }))
    }
}

struct AdvisoryHold {
    server: Arc<Server>,
    ended: watch::Receiver<()>,
    is_shared: bool,
    key: String,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl AdvisoryHold {
    fn spare(&self, connection: Option<Arc<Connection>>) {
        if let (Some(connection), false) = (connection.and_then(Arc::into_inner), self.is_shared) {
            self.server.spare.keep(connection);
        }
    }

    /// What the connection answers; nothing where it was given back.
    async fn query(&self, statement: &str, with: Parameters<'_>) -> Result<Option<Row>, CommandError> {
        match &*self.connection.lock().await {
            Some(connection) => connection.query(statement, with).await,
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Hold for AdvisoryHold {
    async fn keep(&self, _lease: Duration) -> Result<bool, CommandError> {
        if self.ended.has_changed().is_err() {
            return Ok(false);
        }
        Ok(self.query("SELECT 1", &[]).await?.is_some())
    }

    async fn give(&self) -> Result<bool, CommandError> {
        let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
        let given = match self.ended.has_changed() {
            Err(_) => return Ok(false),
            Ok(_) => self.query(unlock, &[(&self.key, Type::TEXT)]).await,
        };
        // One that does not answer is closed, which gives it back too.
        let connection = self.connection.lock().await.take();
        let given = given?.is_some_and(|row| row.get(0));
        self.spare(connection);
        Ok(given)
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        let mut ended = self.ended.clone();
        Box::pin(async move { while ended.changed().await.is_ok() {} })
    }
}

struct Table {
    server: Arc<Server>,
    reads_first: bool,
}

#[async_trait]
impl Rows for Table {
    async fn take(&self, row: &RowKey, lease: Duration) -> Result<Option<Fence>, CommandError> {
        let connection = self.server.connection().await?;
        let lease_ms = whole_ms(lease) as f64;
        let key = (&row.lock as &(dyn ToSql + Sync), Type::TEXT);
        if self.reads_first && connection.query(READ, std::slice::from_ref(&key)).await?.is_some() {
            self.server.spare.keep(connection);
            return Ok(None);
        }
        let statement = if self.reads_first { TAKE_AFTER_READ } else { TAKE };
        let sent = Instant::now();
        let with: Parameters<'_> = &[key, (&row.owner, Type::TEXT), (&lease_ms, Type::FLOAT8)];
        let found = connection.query(statement, with).await?;
        self.server.spare.keep(connection);
        Ok(found.map(|found| (sent, u64::try_from(found.get::<_, i64>(0)).ok())))
    }

    async fn keep(&self, row: &RowKey, lease: Duration) -> Result<bool, CommandError> {
        let lease_ms = whole_ms(lease) as f64;
        let with: Parameters<'_> =
            &[(&row.lock, Type::TEXT), (&row.owner, Type::TEXT), (&lease_ms, Type::FLOAT8)];
        Ok(self.server.changes(KEEP, with).await? == 1)
    }

    async fn give(&self, row: &RowKey) -> Result<bool, CommandError> {
        let with: Parameters<'_> = &[(&row.lock, Type::TEXT), (&row.owner, Type::TEXT)];
        Ok(self.server.changes(GIVE, with).await? == 1)
    }
}
