//! MySQL's and MariaDB's three locks: a row whose holder and end are columns, a named lock of the connection,
//! and a locked row of a transaction.
//!
//! - **Row**: a unique row that one update takes over where it is free or over by the server's clock, which
//!   counts a fence up; asked again each 1 to 3 ms. Token: that fence. Loss: an update of a renewal that
//!   finds no such row. A clock of the server that is set forward ends leases early.
//! - **GET_LOCK**, **SELECT … FOR UPDATE**: a connection for each hold and each waiter, because a connection
//!   may take its own lock again. Token: none; a counter would have to be asked after the grant and be
//!   written to disk by itself. Session: the connection, which the server ends when it was idle for the
//!   session's time (`wait_timeout`, whole seconds). Loss: a heartbeat that is not answered, or answered that
//!   the lock is not there.
//!
//! A restart of the server frees the locks of connections and keeps the row.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as Plain};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params, prelude::Queryable};
use tokio::{sync::Mutex, time::timeout};

use super::{
    ANSWER, Fence, Hold, IdleConnections, RowKey, RowStore, Rows, Store, SystemAcquire, SystemClientParts,
    SystemGrant, poll,
};
use crate::{links::CommandError, subject::SubjectError, subjects::common::Jitter};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS locklab_locks (name VARCHAR(191) PRIMARY KEY, owner VARCHAR(191), \
    expires DATETIME(6) NOT NULL, fence BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB";
const ROW: &str = "INSERT IGNORE INTO locklab_locks VALUES (?, NULL, NOW(6), 0)";
/// Who has it already is known by the owner's name, so the statement may be sent again.
pub(super) const TAKE: &str = "UPDATE locklab_locks SET fence = LAST_INSERT_ID(fence + 1), expires = NOW(6) + INTERVAL ? MICROSECOND, owner = ? \
    WHERE name = ? AND (owner IS NULL OR owner = ? OR expires <= NOW(6))";
/// As `TAKE`, without the condition that the lease of the last holder is over.
pub(super) const TAKE_ANY: &str = "UPDATE locklab_locks SET fence = LAST_INSERT_ID(fence + 1), expires = NOW(6) + INTERVAL ? MICROSECOND, owner = ? \
    WHERE name = ? AND (owner IS NULL OR owner = ? OR expires IS NOT NULL)";
const KEEP: &str = "UPDATE locklab_locks SET expires = NOW(6) + INTERVAL ? MICROSECOND WHERE name = ? AND owner = ? AND expires > NOW(6)";
pub(super) const GIVE: &str =
    "UPDATE locklab_locks SET owner = NULL WHERE name = ? AND owner = ? AND expires > NOW(6)";
pub(super) const GIVE_ANY: &str = "UPDATE locklab_locks SET owner = NULL WHERE name = ? AND ? IS NOT NULL";

/// The server gave up waiting: MariaDB and MySQL, then MySQL's NOWAIT, then a deadlock.
const BUSY: [u16; 3] = [1205, 3572, 1213];

/// The server is not asked to wait longer than a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What the server refused has not run.
impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match error {
            Error::Server(said) => CommandError::Refused(said.message),
            other => CommandError::Lost(other.to_string()),
        }
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Server(said) if BUSY.contains(&said.code))
}

async fn within<T>(patience: Duration, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let silent =
        |_| std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {patience:?}"));
    timeout(patience, asked).await.map_err(silent)?
}

async fn answer<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    within(ANSWER, asked).await
}

struct Server {
    opts: Opts,
    session: Duration,
    spare: IdleConnections<Conn>,
    rows: Plain<BTreeSet<String>>,
}

impl Server {
    async fn connection(&self) -> Result<Conn, CommandError> {
        if let Some(spare) = self.spare.take(self.session / 2) {
            return Ok(spare);
        }
        answer(Conn::new(self.opts.clone())).await.map_err(|error| CommandError::Refused(error.to_string()))
    }

    async fn row(&self, connection: &mut Conn, name: &str) -> Result<(), Error> {
        let known = self.rows.lock().expect("no panic").contains(name);
        if !known {
            // Looked at without a lock first: an insert would wait until the row is not locked.
            let look = "SELECT 1 FROM locklab_locks WHERE name = ?";
            let found: Option<i64> = answer(connection.exec_first(look, (name,))).await?;
            if found.is_none() {
                answer(connection.exec_drop(ROW, (name,))).await?;
            }
            answer(connection.query_drop("COMMIT")).await?;
            self.rows.lock().expect("no panic").insert(name.to_owned());
        }
        Ok(())
    }

    async fn changes(&self, statement: &str, with: Params) -> Result<u64, CommandError> {
        let mut connection = self.connection().await?;
        answer(connection.exec_drop(statement, with)).await?;
        let changed = connection.affected_rows();
        self.spare.keep(connection);
        Ok(changed)
    }
}

/// `setup` runs on each new connection.
async fn server(own: &SystemClientParts, setup: Option<&str>) -> Result<Arc<Server>, SubjectError> {
    let opts = Opts::from_url(&own.target).map_err(|error| usage!("the target's URL: {error}"))?;
    let seconds = own.session.as_secs_f64().ceil();
    let session = format!("SET SESSION wait_timeout = {seconds}");
    let first: Vec<String> = setup.map(str::to_owned).into_iter().chain([session]).collect();
    let server = Server {
        // By TCP, as the URL says, also where the server has a socket in the file system.
        opts: OptsBuilder::from_opts(opts).prefer_socket(false).init(first).into(),
        session: own.session,
        spare: IdleConnections(Plain::default()),
        rows: Plain::default(),
    };
    let mut first = own.reached(server.connection().await)?;
    own.reached(answer(first.query_drop(TABLE)).await)?;
    server.spare.keep(first);
    Ok(Arc::new(server))
}

pub(super) async fn remove(own: &SystemClientParts, prefix: &str) -> Result<(), SubjectError> {
    let remove = "DELETE FROM locklab_locks WHERE LEFT(name, CHAR_LENGTH(?)) = ?";
    let removed = server(own, None).await?.changes(remove, (prefix, prefix).into()).await;
    own.reached(removed.map(drop))
}

/// A row, with the statements by which it is taken and given back.
pub(super) async fn row(
    own: SystemClientParts,
    take: &'static str,
    give: &'static str,
) -> Result<Arc<dyn Store>, SubjectError> {
    let server = server(&own, None).await?;
    Ok(Arc::new(RowStore { rows: Arc::new(Table { server, take, give }), jitter: own.jitter }))
}

/// Named locks, on one connection for all holds of the client where it `shares`.
pub(super) async fn get_lock(own: SystemClientParts, shares: bool) -> Result<Arc<dyn Store>, SubjectError> {
    let server = server(&own, None).await?;
    let shared = if shares { Some(own.reached(server.connection().await)?) } else { None };
    Ok(Arc::new(GetLock {
        server,
        jitter: own.jitter,
        shared: shared.map(|connection| Arc::new(Mutex::new(Some(connection)))),
    }))
}

/// Locked rows, on connections that `setup` has made ready.
pub(super) async fn for_update(
    own: SystemClientParts,
    setup: Option<&str>,
) -> Result<Arc<dyn Store>, SubjectError> {
    let server = server(&own, setup).await?;
    Ok(Arc::new(ForUpdate { server }))
}

fn microseconds(lease: Duration) -> u64 {
    u64::try_from(lease.as_micros()).unwrap_or(u64::MAX)
}

struct Table {
    server: Arc<Server>,
    take: &'static str,
    give: &'static str,
}

#[async_trait]
impl Rows for Table {
    async fn take(&self, row: &RowKey, lease: Duration) -> Result<Option<Fence>, CommandError> {
        let mut connection = self.server.connection().await?;
        self.server.row(&mut connection, &row.lock).await?;
        let sent = Instant::now();
        let with = (microseconds(lease), &row.owner, &row.lock, &row.owner);
        match answer(connection.exec_drop(self.take, with)).await {
            Err(error) if !is_busy(&error) => return Err(error.into()),
            _ => {}
        }
        let taken = (connection.affected_rows() == 1).then(|| connection.last_insert_id());
        self.server.spare.keep(connection);
        Ok(taken.map(|token| (sent, token)))
    }

    async fn keep(&self, row: &RowKey, lease: Duration) -> Result<bool, CommandError> {
        Ok(self.server.changes(KEEP, (microseconds(lease), &row.lock, &row.owner).into()).await? == 1)
    }

    async fn give(&self, row: &RowKey) -> Result<bool, CommandError> {
        Ok(self.server.changes(self.give, (&row.lock, &row.owner).into()).await? == 1)
    }
}

/// A connection, until what it holds is given back.
type Holding = Arc<Mutex<Option<Conn>>>;

struct GetLock {
    server: Arc<Server>,
    jitter: Jitter,
    /// One connection for all holds of the client, each of which the server then takes for the same holder.
    shared: Option<Holding>,
}

#[async_trait]
impl Store for GetLock {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let taken = match self.shared {
            None => self.ask(want.key, want.until()).await,
            // A wait would keep the connection from those who want to give back.
            Some(_) => poll(&self.jitter, want, || self.ask(want.key, want.called)).await,
        };
        // Without an answer it is closed, and what it has or gets is freed with it.
        taken.map_err(CommandError::refused)
    }
}

impl GetLock {
    async fn ask(&self, key: &str, until: Instant) -> Result<Option<SystemGrant>, CommandError> {
        let holding = match &self.shared {
            Some(shared) => shared.clone(),
            None => Arc::new(Mutex::new(Some(self.server.connection().await?))),
        };
        let left = until.saturating_duration_since(Instant::now()).min(LONGEST);
        let mut connection = holding.lock().await;
        let Some(asked) = &mut *connection else {
            return Err(CommandError::Refused("the connection is gone".to_owned()));
        };
        let granted = asked.exec_first("SELECT GET_LOCK(SHA1(?), ?)", (key, left.as_secs_f64()));
        let granted: Option<Option<i64>> = within(left + ANSWER, granted).await?;
        if granted.flatten() != Some(1) {
            if self.shared.is_none()
                && let Some(idle) = connection.take()
            {
                self.server.spare.keep(idle);
            }
            return Ok(None);
        }
        drop(connection);
        Ok(Some(taken(ConnectionHold {
            server: self.server.clone(),
            is_shared: self.shared.is_some(),
            holding,
            alive: "SELECT IS_USED_LOCK(SHA1(?)) = CONNECTION_ID()",
            give: "SELECT RELEASE_LOCK(SHA1(?))",
            name: key.to_owned(),
        })))
    }
}

fn taken(hold: ConnectionHold) -> SystemGrant {
    SystemGrant { hold: Box::new(hold), token: None, sent: Instant::now() }
}

struct ForUpdate {
    server: Arc<Server>,
}

#[async_trait]
impl Store for ForUpdate {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        self.ask(want).await.map_err(CommandError::refused)
    }
}

impl ForUpdate {
    async fn ask(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let mut connection = self.server.connection().await?;
        let left = want.left().min(LONGEST);
        self.server.row(&mut connection, want.key).await?;
        // The server counts whole seconds; the connection goes before that where the wait is over.
        let mut lock = "SELECT 1 FROM locklab_locks WHERE name = ? FOR UPDATE".to_owned();
        let patience = if want.is_one_try() { ANSWER } else { left };
        if want.is_one_try() {
            lock += " NOWAIT";
        } else {
            let bound = format!("SET innodb_lock_wait_timeout = {}", left.as_secs() + 1);
            answer(connection.query_drop(bound)).await?;
        }
        let asked = connection.exec_drop(lock, (want.key,));
        match within(patience, asked).await {
            Ok(()) => {}
            Err(Error::Io(_)) if !want.is_one_try() && want.left().is_zero() => return Ok(None),
            Err(error) if is_busy(&error) => {
                answer(connection.query_drop("ROLLBACK")).await?;
                self.server.spare.keep(connection);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Some(taken(ConnectionHold {
            server: self.server.clone(),
            is_shared: false,
            holding: Arc::new(Mutex::new(Some(connection))),
            alive: "SELECT 1 FROM DUAL WHERE ? IS NOT NULL",
            give: "COMMIT",
            name: want.key.to_owned(),
        })))
    }
}

struct ConnectionHold {
    server: Arc<Server>,
    is_shared: bool,
    holding: Holding,
    /// Asks whether it is there: 1.
    alive: &'static str,
    give: &'static str,
    name: String,
}

#[async_trait]
impl Hold for ConnectionHold {
    async fn keep(&self, _lease: Duration) -> Result<bool, CommandError> {
        let mut holding = self.holding.lock().await;
        let Some(connection) = &mut *holding else { return Ok(false) };
        let alive: Result<Option<Option<i64>>, Error> =
            answer(connection.exec_first(self.alive, (&self.name,))).await;
        match alive {
            Ok(alive) => Ok(alive.flatten() == Some(1)),
            // The lock went with it.
            Err(Error::Io(error)) if !is_silence(&error) => {
                *holding = None;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn give(&self) -> Result<bool, CommandError> {
        let mut holding = self.holding.lock().await;
        let mut own = None;
        let connection = match self.is_shared {
            true => holding.as_mut(),
            false => {
                own = holding.take();
                own.as_mut()
            }
        };
        let Some(connection) = connection else { return Ok(false) };
        let given = match self.give {
            "COMMIT" => answer(connection.query_drop("COMMIT")).await.map(|()| true),
            give => answer(connection.exec_first(give, (&self.name,)))
                .await
                .map(|given: Option<Option<i64>>| given.flatten() == Some(1)),
        };
        // One that does not answer is closed, which gives it back too.
        let given = given.map_err(|error| CommandError::Lost(error.to_string()))?;
        if let Some(own) = own {
            self.server.spare.keep(own);
        }
        Ok(given)
    }
}

/// Whether an answer did not come, on a connection that may still be there.
fn is_silence(error: &mysql_async::IoError) -> bool {
    matches!(error, mysql_async::IoError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}
