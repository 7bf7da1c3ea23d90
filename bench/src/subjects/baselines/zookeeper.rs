//! ZooKeeper's lock recipe as Curator writes it: an ephemeral sequential node for each who asks, in a
//! container node per lock; the lowest holds the lock, and each other watches the one before it.
//!
//! - **Fencing token**: the `czxid` of the holder's node, which the answer to its creation has. Transactions
//!   of a later leader are above all those of an earlier one.
//! - **Session**: one per client, for all of its holds. The library's pings keep it, and where no member has
//!   heard of it for its time, the leader ends it and removes its nodes.
//! - **Loss**: the library says `Disconnected` within milliseconds of a broken connection, which is no loss
//!   yet, and `Expired` only once a server says so, which may be seconds after the successor was let in. So a
//!   holder asks for a sign of life each ninth of the session by `sync`, which the leader answers (a member
//!   that is cut off from the leader answers reads on), and stops believing after two thirds without one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::{sleep, sleep_until, timeout};
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

use super::{ANSWER, Hold, Store, SystemAcquire, SystemClientParts, SystemGrant, addresses};
use crate::{links::CommandError, subject::SubjectError};

/// Before the next try after a lost connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Ephemeral nodes, in which a holder believes until the library says `Expired` where it `acts_on_expired`.
pub(super) async fn ephemeral(
    own: SystemClientParts,
    acts_on_expired: bool,
) -> Result<Arc<dyn Store>, SubjectError> {
    let store = ZooKeeper {
        cluster: addresses(&own.target).join(","),
        session: own.session,
        client: Mutex::default(),
        acts_on_expired,
    };
    let client = timeout(ANSWER * 3, store.client()).await;
    let granted = own.reached(client.unwrap_or(Err(Error::Timeout)))?.session_timeout();
    if granted < own.session {
        bail!("this ZooKeeper grants sessions of {granted:?} at most, and {:?} was asked for", own.session);
    }
    Ok(Arc::new(store))
}

/// Removes a run's directories, and that of all if it is empty; one with a session's node is waited for.
pub(super) async fn remove(own: &SystemClientParts, prefix: &str) -> Result<(), SubjectError> {
    let until = Instant::now() + own.session * 2;
    loop {
        match removed(own, prefix).await {
            Ok(()) | Err(Error::NoNode) => return Ok(()),
            Err(_) if Instant::now() < until => sleep(PAUSE).await,
            Err(error) => return Err(own.unreachable(error)),
        }
    }
}

async fn removed(own: &SystemClientParts, prefix: &str) -> Result<(), Error> {
    let client = Client::connect(&addresses(&own.target).join(",")).await?;
    let (all, prefix) = (client.list_children("/locklab").await?, directory(prefix));
    for path in all.iter().map(|name| directory(name)) {
        if path.starts_with(&prefix) {
            client.delete(&path, None).await?;
        }
    }
    match client.delete("/locklab", None).await {
        // Somebody else's.
        Err(Error::NotEmpty) => Ok(()),
        deleted => deleted,
    }
}

struct ZooKeeper {
    cluster: String,
    session: Duration,
    client: Mutex<Option<Client>>,
    /// A holder believes until the library says `Expired`.
    acts_on_expired: bool,
}

/// The directory of a lock, in which a node's name has no slash.
fn directory(key: &str) -> String {
    format!("/locklab/{}", key.replace('/', "|"))
}

/// The number that the server gave a node.
fn sequence(node: &str) -> i64 {
    node.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(i64::MAX)
}

fn is_over(error: &Error) -> bool {
    matches!(error, Error::SessionExpired | Error::ClientClosed)
}

/// The answer; where there is none in time the connection is taken for lost.
async fn answer<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWER, asked).await.unwrap_or(Err(Error::ConnectionLoss))
}

impl ZooKeeper {
    /// The client of the session, a new one where the last has ended.
    async fn client(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client
            && !matches!(client.state(), SessionState::Expired | SessionState::Closed)
        {
            return Ok(client.clone());
        }
        let connector = Client::connector().with_session_timeout(self.session).with_fail_eagerly();
        let connected = connector.connect(&self.cluster).await?;
        *client = Some(connected.clone());
        Ok(connected)
    }

    /// In one session: a node, and the wait until it is the lowest.
    async fn queue(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, Error> {
        let client = self.client().await?;
        let mut own = RemoveOnDrop(Node {
            client: client.clone(),
            directory: directory(want.key),
            name: format!("_c_{}-lock-", want.value),
            path: None,
        });
        let node = &mut own.0;
        let mut sent = Instant::now();
        let created = match node.create().await {
            // It may be there: its name is nobody else's.
            Err(Error::ConnectionLoss) => None,
            created => Some(created?),
        };
        let until = want.until();
        let mut waited = created.is_none();
        loop {
            let children = answer(client.list_children(&node.directory)).await?;
            let Some(name) = children.iter().find(|child| child.starts_with(&node.name)) else {
                return Err(Error::ConnectionLoss);
            };
            let path = format!("{}/{name}", node.directory);
            node.path = Some(path.clone());
            let before = children.iter().filter(|child| sequence(child) < sequence(name));
            let Some(before) = before.max_by_key(|child| sequence(child)) else {
                // A member that the leader has left behind may show an old line.
                if waited {
                    sent = Instant::now();
                    answer(client.sync(&node.directory)).await?;
                }
                let czxid = match created {
                    Some(czxid) => czxid,
                    None => answer(client.check_stat(&path)).await?.ok_or(Error::NoNode)?.czxid,
                };
                return Ok(Some(SystemGrant {
                    token: u64::try_from(czxid).ok(),
                    sent,
                    hold: Box::new(ZooKeeperHold { node: own, path, acts_on_expired: self.acts_on_expired }),
                }));
            };
            if want.is_one_try() || Instant::now() >= until {
                return Ok(None);
            }
            let before = format!("{}/{before}", node.directory);
            let watcher = match answer(client.get_and_watch_data(&before)).await {
                Ok((_, _, watcher)) => watcher,
                Err(Error::NoNode) => continue,
                Err(error) => return Err(error),
            };
            waited = true;
            tokio::select! {
                _ = watcher.changed() => {}
                () = sleep_until(until.into()) => return Ok(None),
            }
        }
    }
}

#[async_trait]
impl Store for ZooKeeper {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        loop {
            let why = match self.queue(want).await {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            };
            let refused =
                matches!(why, Error::NoAuth | Error::AuthFailed | Error::InvalidAcl | Error::BadArguments(_));
            // One try is not over because a connection is.
            let until = want.until() + if want.is_one_try() { ANSWER } else { PAUSE };
            // Its node goes with the session, if not before: nobody here believes in it.
            if refused || Instant::now() + PAUSE >= until {
                return Err(CommandError::Refused(why.to_string()));
            }
            sleep(PAUSE).await;
        }
    }
}

#[derive(Clone)]
struct Node {
    client: Client,
    directory: String,
    name: String,
    path: Option<String>,
}

impl Node {
    /// Its czxid.
    async fn create(&mut self) -> Result<i64, Error> {
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        let prefix = format!("{}/{}", self.directory, self.name);
        loop {
            match answer(self.client.create(&prefix, b"", &ephemeral)).await {
                Ok((stat, number)) => {
                    self.path = Some(format!("{prefix}{number}"));
                    return Ok(stat.czxid);
                }
                // The server removes a container that was left empty.
                Err(Error::NoNode) => {
                    answer(self.client.mkdir(&self.directory, &container)).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn remove(&self) -> Result<(), Error> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => {
                let children = self.client.list_children(&self.directory).await?;
                let mut own = children.iter().filter(|child| child.starts_with(&self.name));
                format!("{}/{}", self.directory, own.next().ok_or(Error::NoNode)?)
            }
        };
        self.client.delete(&path, None).await
    }
}

struct RemoveOnDrop(Node);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let node = self.0.clone();
        runtime.spawn(async move {
            while let Err(Error::ConnectionLoss) = node.remove().await {
                sleep(PAUSE).await;
            }
        });
    }
}

struct ZooKeeperHold {
    node: RemoveOnDrop,
    path: String,
    acts_on_expired: bool,
}

#[async_trait]
impl Hold for ZooKeeperHold {
    async fn keep(&self, _lease: Duration) -> Result<bool, CommandError> {
        let client = &self.node.0.client;
        if self.acts_on_expired {
            return Ok(client.state() != SessionState::Expired);
        }
        // Sent in this order, and answered in it.
        let (sync, stat) = (client.sync(&self.path), client.check_stat(&self.path));
        match answer(async { sync.await.and(stat.await) }).await {
            Ok(stat) => Ok(stat.is_some()),
            Err(error) if is_over(&error) => Ok(false),
            Err(error) => Err(CommandError::Lost(error.to_string())),
        }
    }

    async fn give(&self) -> Result<bool, CommandError> {
        match answer(self.node.0.client.delete(&self.path, None)).await {
            Ok(()) => Ok(true),
            Err(error) if is_over(&error) || error == Error::NoNode => Ok(false),
            Err(error) => Err(CommandError::Lost(error.to_string())),
        }
    }
}
