//! Plain connections to a target: to the server that has a key, or to every server there is.
//!
//! This is as little as a naive lock can do with: it follows MOVED and asks a sentinel, and keeps one
//! connection per server. It never resends a command that may have run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use lock_core::{Endpoint, Target, TopologyKind, machine};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo as _, RedisConnectionInfo,
    RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::servers::consent;
use crate::subject::{AcquireEnd, ReleaseEnd, SubjectError};

/// What a server without the script says: it did not run, and can be sent in full.
pub(crate) const NO_SCRIPT: &str = "the server does not have the script";

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CommandError {
    /// It certainly did not run.
    #[error("{0}")]
    Refused(String),
    /// It may have run.
    #[error("{0}")]
    Lost(String),
}

#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
impl CommandError {
    /// The same of what leaves nothing behind, whether it ran or not.
    pub(crate) fn refused(self) -> Self {
        CommandError::Refused(self.to_string())
    }
}

impl From<CommandError> for AcquireEnd {
    fn from(trouble: CommandError) -> Self {
        match trouble {
            CommandError::Refused(why) => AcquireEnd::Failed(why),
            CommandError::Lost(why) => AcquireEnd::Unknown(why),
        }
    }
}

impl From<CommandError> for ReleaseEnd {
    fn from(trouble: CommandError) -> Self {
        match trouble {
            CommandError::Refused(why) => ReleaseEnd::Failed(why),
            CommandError::Lost(why) => ReleaseEnd::Unknown(why),
        }
    }
}

pub(crate) fn cmd(words: &[&str]) -> Cmd {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]);
    cmd
}

/// A script, sent by its digest and in full only to a server that does not have it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) digest: String,
    source: &'static str,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Script { digest: redis::Script::new(source).get_hash().to_owned(), source }
    }
}

#[derive(Default)]
struct ServerDirectory {
    connections: BTreeMap<String, MultiplexedConnection>,
    master: Option<String>,
    /// Cluster: first slot, last slot, master; sorted.
    slots: Vec<(u16, u16, String)>,
}

pub(crate) struct ExclusiveConnection {
    address: String,
    connection: MultiplexedConnection,
}

pub(crate) struct Links {
    target: Target,
    /// `host:port`, or the path of a socket.
    endpoints: Vec<String>,
    response_timeout: Duration,
    known: RwLock<ServerDirectory>,
    /// Connections of one caller at a time that nobody uses now, by address.
    spare: Mutex<BTreeMap<String, Vec<MultiplexedConnection>>>,
    commands: AtomicU64,
}

impl Links {
    /// Reads the URL; connects to nothing yet.
    pub(crate) fn parse(target: &str, response_timeout: Duration) -> Result<Self, SubjectError> {
        let url = target.strip_prefix("unix://").map(|path| format!("redis+unix://{path}"));
        let target: Target =
            url.as_deref().unwrap_or(target).parse().map_err(|error| usage!("the target's URL: {error}"))?;
        Ok(Links {
            endpoints: target.endpoints().iter().map(Endpoint::to_string).collect(),
            target,
            response_timeout,
            known: RwLock::default(),
            spare: Mutex::default(),
            commands: AtomicU64::new(0),
        })
    }

    pub(crate) fn topology_kind(&self) -> TopologyKind {
        self.target.topology_kind()
    }

    fn master_name(&self) -> &str {
        self.target.master_name().unwrap_or_default()
    }

    /// Puts addresses in the place of names, as far as these resolve now.
    pub(crate) async fn resolve(&mut self) {
        for endpoint in &mut self.endpoints {
            if let Some(address) = machine::lookup(endpoint).await {
                *endpoint = address;
            }
        }
    }

    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, key: &str, cmd: &Cmd) -> Result<T, CommandError> {
        const REDIRECTIONS: usize = 3;
        for _ in 0..=REDIRECTIONS {
            let address = self.owner_of(key).await.map_err(refused)?;
            match self.query_at(&address, cmd).await {
                // A redirection says that nothing ran, so asking elsewhere is no resending.
                Err(e) if e.redirect_node().is_some() => {
                    self.learn_slots().await.map_err(refused)?;
                }
                answer => return self.understood(&address, answer),
            }
        }
        Err(CommandError::Refused(format!("the cluster redirected {REDIRECTIONS} times for `{key}`")))
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<T, CommandError> {
        self.script_at(None, script, keys, args).await
    }

    /// A connection to the server that has `key`, for this caller alone until it is given back with
    /// [`Links::keep`]; dropped instead it is closed, whatever it was waiting for.
    pub(crate) async fn alone(&self, key: &str) -> Result<ExclusiveConnection, CommandError> {
        let address = self.owner_of(key).await.map_err(refused)?;
        let spare = |all: &mut BTreeMap<_, Vec<_>>| all.get_mut(&address)?.pop();
        let spare = spare(&mut self.spare.lock().expect("no panic"));
        let connection = match spare {
            Some(connection) => connection,
            None => {
                let why = |e| CommandError::Refused(format!("{address}: cannot connect: {e}"));
                self.dial(&address).await.map_err(why)?
            }
        };
        Ok(ExclusiveConnection { address, connection })
    }

    /// Takes back a connection on which nothing is under way.
    pub(crate) fn keep(&self, alone: ExclusiveConnection) {
        self.spare.lock().expect("no panic").entry(alone.address).or_default().push(alone.connection);
    }

    /// Sends a command over a connection of the caller's own.
    pub(crate) async fn over(
        &self,
        alone: &mut ExclusiveConnection,
        cmd: &Cmd,
    ) -> Result<Option<Value>, CommandError> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let sent = alone.connection.send_packed_command(cmd).await;
        match sent.and_then(|value| value.extract_error()) {
            Ok(Value::Nil) => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(e) => Err(self.trouble(&alone.address, e)),
        }
    }

    /// Sends a command as a transaction; false if it was called off, because what was watched has changed.
    pub(crate) async fn commit(
        &self,
        alone: &mut ExclusiveConnection,
        cmd: Cmd,
    ) -> Result<bool, CommandError> {
        // MULTI and EXEC are commands too.
        self.commands.fetch_add(3, Ordering::Relaxed);
        let mut transaction = redis::pipe();
        transaction.atomic().add_command(cmd);
        let done: Result<Value, RedisError> = transaction.query_async(&mut alone.connection).await;
        match done {
            Ok(value) => Ok(value != Value::Nil),
            Err(e) => Err(self.trouble(&alone.address, e)),
        }
    }

    /// Sends a command to one address of [`Links::endpoints`].
    pub(crate) async fn ask<T: FromRedisValue>(&self, address: &str, cmd: &Cmd) -> Result<T, CommandError> {
        self.understood(address, self.query_at(address, cmd).await)
    }

    fn understood<T: FromRedisValue>(
        &self,
        address: &str,
        answer: Result<Value, RedisError>,
    ) -> Result<T, CommandError> {
        redis::from_redis_value(answer.map_err(|e| self.trouble(address, e))?)
            .map_err(|e| CommandError::Lost(format!("{address} gave a strange answer: {e}")))
    }

    /// Runs a script at one address, else at the server that has its keys.
    pub(crate) async fn script_at<T: FromRedisValue>(
        &self,
        address: Option<&str>,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<T, CommandError> {
        let with = |verb: &str, script: &str| {
            let mut cmd = cmd(&[verb, script]);
            cmd.arg(keys.len()).arg(keys).arg(args);
            cmd
        };
        let mut cmd = with("EVALSHA", &script.digest);
        loop {
            let answer = match address {
                Some(address) => self.ask(address, &cmd).await,
                None => self.query(keys[0], &cmd).await,
            };
            match answer {
                Err(CommandError::Refused(why)) if why == NO_SCRIPT => cmd = with("EVAL", script.source),
                answer => return answer,
            }
        }
    }

    /// Every server that stores data: masters and replicas.
    pub(crate) async fn data_nodes(&self) -> Result<Vec<String>, RedisError> {
        match self.topology_kind() {
            TopologyKind::Sentinel => {
                let mut nodes = vec![self.find_master().await?];
                let cmd = cmd(&["SENTINEL", "REPLICAS", self.master_name()]);
                let replicas = self.first_answer(&cmd).await?;
                let replicas: Vec<BTreeMap<String, String>> = redis::from_redis_value(replicas)?;
                let address =
                    |r: &BTreeMap<String, String>| Some(format!("{}:{}", r.get("ip")?, r.get("port")?));
                nodes.extend(replicas.iter().filter_map(address));
                Ok(nodes)
            }
            TopologyKind::Cluster => {
                let ranges = self.slot_ranges().await?;
                let mut nodes: Vec<String> = ranges.into_iter().flat_map(|(_, _, n)| n).collect();
                nodes.sort_unstable();
                nodes.dedup();
                Ok(nodes)
            }
            _ => Ok(self.endpoints.clone()),
        }
    }

    async fn query_at(&self, address: &str, cmd: &Cmd) -> Result<Value, RedisError> {
        // Not connected means not sent, whatever the connecting itself ran into.
        let not_sent = |e| nowhere("cannot connect", format!("{address}: {e}"));
        let mut connection = self.connection(address).await.map_err(not_sent)?;
        self.commands.fetch_add(1, Ordering::Relaxed);
        connection.send_packed_command(cmd).await.and_then(|value| value.extract_error())
    }

    async fn connection(&self, address: &str) -> Result<MultiplexedConnection, RedisError> {
        let known = |known: &ServerDirectory| known.connections.get(address).cloned();
        if let Some(connection) = known(&self.known.read().expect("no panic")) {
            return Ok(connection);
        }
        let fresh = self.dial(address).await?;
        let mut known = self.known.write().expect("no panic");
        // Two callers may have dialled at once: the first one's connection is everybody's.
        Ok(known.connections.entry(address.to_owned()).or_insert(fresh).clone())
    }

    async fn dial(&self, address: &str) -> Result<MultiplexedConnection, RedisError> {
        let scheme = match (&self.target.endpoints()[0], self.target.tls()) {
            (Endpoint::Unix(_), _) => "redis+unix",
            (_, true) => "rediss",
            (_, false) => "redis",
        };
        let mut settings = RedisConnectionInfo::default();
        let target = &self.target;
        let sentinel =
            self.topology_kind() == TopologyKind::Sentinel && self.endpoints.iter().any(|own| own == address);
        // A sentinel has users of its own and no databases.
        let (username, password) = match sentinel {
            true => (target.sentinel_user(), target.sentinel_password()),
            false => (target.username(), target.password()),
        };
        if let Some(username) = username {
            settings = settings.set_username(username);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        if !sentinel {
            settings = settings.set_db(i64::from(target.database()));
        }
        let info = format!("{scheme}://{address}").into_connection_info()?;
        if let redis::ConnectionAddr::Tcp(host, port) = info.addr()
            && let Some(dialled) = machine::dial(host, *port).await
        {
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.response_timeout));
            let (connection, driver) =
                MultiplexedConnection::new_with_config(&settings, dialled?, config).await?;
            machine::spawn(driver);
            return Ok(connection);
        }
        let mut info = info.set_redis_settings(settings);
        if let redis::ConnectionAddr::Tcp(host, port) = info.addr()
            && consent::is_for_named_alone()
            && !self.endpoints.iter().any(|own| own == address)
        {
            let here = machine::addresses_here(host, *port).await?;
            let first = here.first().map(|first| first.ip().to_string());
            let first = redis::ConnectionAddr::Tcp(first.unwrap_or_default(), *port);
            info = info.set_addr(first);
        }
        let client = redis::Client::open(info)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.response_timeout))
            .set_response_timeout(Some(self.response_timeout));
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// What an error means, and what is to be forgotten because of it.
    fn trouble(&self, address: &str, error: RedisError) -> CommandError {
        // What kind of error the client library takes it for says nothing to a reader.
        let text = format!("{address}: {error}").replace(" - InvalidClientConfig:", ":");
        let kind = error.kind();
        let broken = error.is_connection_dropped() || error.is_unrecoverable_error();
        let elsewhere = matches!(kind, ErrorKind::Extension | ErrorKind::InvalidClientConfig);
        let mut known = self.known.write().expect("no panic");
        if broken {
            known.connections.remove(address);
        }
        if broken || elsewhere {
            known.slots.clear();
        }
        if broken || elsewhere || kind == ErrorKind::Server(ServerErrorKind::ReadOnly) {
            known.master = None;
        }
        match kind {
            ErrorKind::Server(ServerErrorKind::NoScript) => CommandError::Refused(NO_SCRIPT.into()),
            ErrorKind::Server(_) => CommandError::Refused(text),
            _ if elsewhere => CommandError::Refused(text),
            _ => CommandError::Lost(text),
        }
    }

    async fn owner_of(&self, key: &str) -> Result<String, RedisError> {
        match self.topology_kind() {
            TopologyKind::Sentinel => {
                if let Some(master) = &self.known.read().expect("no panic").master {
                    return Ok(master.clone());
                }
                self.find_master().await
            }
            TopologyKind::Cluster => {
                let slot = lock_core::slot(key.as_bytes());
                if let Some(owner) = self.slot_owner(slot) {
                    return Ok(owner);
                }
                self.learn_slots().await?;
                self.slot_owner(slot).ok_or_else(|| nowhere("no server has the slot", slot.to_string()))
            }
            _ => Ok(self.endpoints[0].clone()),
        }
    }

    fn slot_owner(&self, slot: u16) -> Option<String> {
        let known = self.known.read().expect("no panic");
        let (first, _, owner) = known.slots.get(known.slots.partition_point(|(_, last, _)| *last < slot))?;
        (*first <= slot).then(|| owner.clone())
    }

    async fn find_master(&self) -> Result<String, RedisError> {
        let cmd = cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master_name()]);
        let (host, port): (String, String) = redis::from_redis_value(self.first_answer(&cmd).await?)?;
        let master = format!("{host}:{port}");
        self.known.write().expect("no panic").master = Some(master.clone());
        Ok(master)
    }

    async fn learn_slots(&self) -> Result<(), RedisError> {
        let masters = self.slot_ranges().await?.into_iter();
        let mut slots: Vec<(u16, u16, String)> = masters
            .filter_map(|(first, last, nodes)| Some((first, last, nodes.into_iter().next()?)))
            .collect();
        slots.sort_unstable();
        self.known.write().expect("no panic").slots = slots;
        Ok(())
    }

    /// CLUSTER SLOTS: first, last, and the servers, master first.
    async fn slot_ranges(&self) -> Result<Vec<(u16, u16, Vec<String>)>, RedisError> {
        let answer = self.first_answer(&cmd(&["CLUSTER", "SLOTS"])).await?;
        let answer: Vec<Vec<Value>> = redis::from_redis_value(answer)?;
        let mut ranges = Vec::new();
        for range in answer {
            let mut parts = range.into_iter();
            let (Some(first), Some(last)) = (parts.next(), parts.next()) else { continue };
            let mut nodes = Vec::new();
            for node in parts {
                let node: Vec<Value> = redis::from_redis_value(node)?;
                let [host, port, ..] = node.as_slice() else { continue };
                let host: String = redis::from_redis_value_ref(host)?;
                let port: u16 = redis::from_redis_value_ref(port)?;
                nodes.push(format!("{host}:{port}"));
            }
            ranges.push((redis::from_redis_value(first)?, redis::from_redis_value(last)?, nodes));
        }
        Ok(ranges)
    }

    /// The first answer that is no error, asking the URL's addresses in turn, then those that are known.
    async fn first_answer(&self, cmd: &Cmd) -> Result<Value, RedisError> {
        let mut addresses = self.endpoints.clone();
        if self.topology_kind() == TopologyKind::Cluster {
            let known = self.known.read().expect("no panic");
            let others = known.connections.keys().filter(|a| !self.endpoints.contains(a));
            addresses.extend(others.cloned());
        }
        let mut last = None;
        for address in addresses {
            match self.query_at(&address, cmd).await {
                Ok(Value::Nil) => {
                    let why = format!("{address} does not know `{}`", self.master_name());
                    last = Some(nowhere("no such master", why));
                }
                Ok(value) => return Ok(value),
                Err(e) => {
                    if e.is_connection_dropped() || e.is_unrecoverable_error() {
                        self.known.write().expect("no panic").connections.remove(&address);
                    }
                    last = Some(e);
                }
            }
        }
        Err(last.expect("a target has at least one address"))
    }
}

fn nowhere(what: &'static str, why: String) -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, what, why))
}

/// Finding the server failed: the command was not sent.
fn refused(error: RedisError) -> CommandError {
    CommandError::Refused(format!("cannot tell which server has it: {error}"))
}
