//! Dials an announced address and sets the connection up.
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis::{Pipeline, RedisError, Value};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

use super::conn::Conn;
use super::dial_error::DialError;
use super::info_field;
use super::refusal::{MAX_CLIENTS, UNREADABLE, is_passing, unreadable};
use super::shared_connection::{IdleProbe, Socket};
use super::subscriber::Subscriber;
use super::tls::Secure;
use super::vote::Voter;
use crate::client::credentials::{Credentials, CredentialsProvider};
use crate::client::target::{Endpoint, Target};
use crate::clock::Instant;
use crate::diagnostics::trace::Tracer;
use crate::machine::{self, ClientRuntime};
use crate::{AddressMap, ClientOptions};

/// The code of a server that is no master.
const READONLY: &str = "READONLY";

/// Between two questions to a server that is not ready, or to a provider of credentials.
const PAUSE: Duration = Duration::from_millis(50);

/// What a new connection must prove before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Any answer to PING, LOADING included: the peer is a live server.
    Answers,
    /// ROLE says master: a demoted or restarted node must not be taken for one.
    IsMaster,
}

/// How connections of one client are made. Counts every command that is written over them.
#[derive(Clone)]
pub(crate) struct Dialer {
    username: Option<String>,
    password: Option<String>,
    provider: Option<CredentialsProvider>,
    /// For servers that may want the password: whether the last answer said so. `None` sends it always.
    wants_password: Option<Arc<AtomicBool>>,
    database: u16,
    tls: Option<Secure>,
    address_map: AddressMap,
    /// The only addresses beyond this machine that may be dialled; `None`: all may.
    only: Option<Arc<[Endpoint]>>,
    client_name: Option<String>,
    restart_delay: Option<Duration>,
    /// Which of several masters it dials.
    pub(super) voter: Option<Voter>,
    /// How many replicas each master has, where the caller says so.
    pub(crate) replicas: Option<u32>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    link_timeout: Duration,
    pub(crate) runtime: ClientRuntime,
    commands: Arc<AtomicU64>,
}

impl Dialer {
    /// `tls` where the target asks for it.
    pub(crate) fn new(
        target: &Target,
        options: &ClientOptions,
        tls: Option<Secure>,
        runtime: &ClientRuntime,
    ) -> Self {
        Dialer {
            username: target.username.clone(),
            password: target.password.clone(),
            provider: options.credentials.clone(),
            wants_password: None,
            database: target.database,
            tls,
            address_map: options.address_map.clone(),
            only: (options.only_named_addresses).then(|| target.endpoints.as_slice().into()),
            client_name: options.client_name.clone(),
            restart_delay: options.restart_delay,
            voter: None,
            replicas: options.replicas,
            tracer: options.tracer.clone(),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            link_timeout: options.link_timeout,
            runtime: runtime.clone(),
            commands: Arc::default(),
        }
    }

    /// The same for one sentinel of a target. It has no databases, and gets a password once it asks for one:
    /// that of the sentinels, or the data nodes' where they have none of their own.
    pub(crate) fn for_sentinel(&self, target: &Target) -> Self {
        let own = target.parameters.sentinel_password.is_some();
        let parameters = own.then_some(&target.parameters);
        let user = parameters.map_or(&self.username, |own| &own.sentinel_user);
        let password = parameters.map_or(&self.password, |own| &own.sentinel_password);
        Dialer {
            username: user.clone(),
            password: password.clone(),
            provider: None,
            wants_password: Some(Arc::default()),
            database: 0,
            restart_delay: None,
            replicas: None,
            // Sentinels are asked for masters, not for locks.
            tracer: None,
            ..self.clone()
        }
    }

    async fn credentials(&self) -> Result<Option<Credentials>, DialError> {
        if let Some(provider) = &self.provider {
            let end = Instant::now() + self.connect_timeout * 3 / 4;
            loop {
                let left = end.saturating_duration_since(Instant::now());
                match provider.ask(left).await {
                    Ok(told) => return Ok(Some(told)),
                    Err(why) if Instant::now() + PAUSE >= end => return Err(DialError::new(why)),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        }
        let password = self.password.as_ref().filter(|_| self.sends_password());
        Ok(password.map(|password| Credentials {
            user: self.username.clone(),
            password: password.clone(),
            valid_for: None,
        }))
    }

    /// Authenticates an open connection anew before what it was made with ends, as long as it lives.
    fn keep_authenticated(self: &Arc<Self>, conn: &Arc<Conn>, mut valid_for: Option<Duration>) {
        let (Some(provider), Some(_)) = (self.provider.clone(), valid_for) else {
            return;
        };
        let (dialer, conn) = (Arc::clone(self), Arc::downgrade(conn));
        self.runtime.spawn(async move {
            while let Some(life) = valid_for {
                let end = Instant::now() + life;
                loop {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    sleep((left * 4 / 5).max(PAUSE)).await;
                    let told = provider.ask(dialer.connect_timeout).await;
                    let Some(conn) = conn.upgrade().filter(|conn| !conn.is_dead()) else {
                        return;
                    };
                    if let Ok(told) = told
                        && let Ok(Value::Okay) = conn.command(&auth(&told)).await
                    {
                        valid_for = told.valid_for;
                        break;
                    }
                }
            }
        });
    }

    fn sends_password(&self) -> bool {
        self.wants_password.as_ref().is_none_or(|wanted| wanted.load(Ordering::Relaxed))
    }

    /// Notes an answer by which a server wants the password after all, or has none; whether to redial who has
    /// `sent` it, or not.
    fn learns_from(&self, error: &DialError, sent: bool) -> bool {
        let (Some(wanted), Some(_)) = (&self.wants_password, &self.password) else {
            return false;
        };
        let wants = match error.code.as_deref() {
            Some("NOAUTH") => true,
            Some("ERR") if error.message.contains("without any password") => false,
            _ => return false,
        };
        wanted.store(wants, Ordering::Relaxed);
        wants != sent
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// How an idle connection is probed.
    pub(super) fn idle_probe(&self) -> IdleProbe {
        let (quiet, patience) = (self.link_timeout, self.response_timeout);
        IdleProbe { quiet, patience, commands: Arc::clone(&self.commands) }
    }

    pub(crate) fn count(&self, commands: u64) {
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }

    /// Connects for requests; never takes longer than the connect timeout.
    pub(crate) async fn dial(self: &Arc<Self>, to: &Endpoint, proof: Proof) -> Result<Arc<Conn>, DialError> {
        self.bounded(to, |socket| self.set_up(socket, proof)).await
    }

    /// Connects for subscriptions, or to be told when read keys change; within the connect timeout.
    pub(super) async fn dial_for_subscriptions(
        &self,
        to: &Endpoint,
        keys: bool,
    ) -> Result<Subscriber, DialError> {
        self.bounded(to, |socket| self.set_up_for_subscriptions(socket, keys)).await
    }

    async fn bounded<T, F>(&self, to: &Endpoint, set_up: impl Fn(Socket) -> F) -> Result<T, DialError>
    where
        F: Future<Output = Result<T, DialError>>,
    {
        let failed = |mut error: DialError| {
            error.message = format!("could not connect to {to}: {}", error.message);
            error
        };
        let mut passing = None;
        let connect = async {
            loop {
                let socket = self.socket(to).await?;
                let sent = self.sends_password();
                match set_up(socket).await {
                    Err(error) if self.learns_from(&error, sent) => {}
                    // A script that runs there ends, a file has been read. A replica stays one for long:
                    // the search for the master asks again which server that is.
                    Err(error)
                        if error.code.as_deref() != Some(READONLY) && is_passing(error.code.as_deref()) =>
                    {
                        passing = Some(error);
                        sleep(PAUSE).await;
                    }
                    connected => return connected,
                }
            }
        };
        let began = Instant::now();
        match timeout(self.connect_timeout, connect).await {
            Ok(connected) => connected.map_err(failed),
            Err(_) => Err(failed(passing.unwrap_or_else(|| {
                let guess = if began.elapsed() < self.connect_timeout / 2 {
                    "; Tokio's clock is paused (start_paused), and jumps over the time that an answer takes"
                } else if self.tls.is_some() {
                    // A plain port takes the first half of a handshake for a command that has not ended.
                    "; does it speak TLS?"
                } else {
                    ""
                };
                DialError::new(format!("no answer within {:?}{guess}", self.connect_timeout))
            }))),
        }
    }

    /// A stream on which nothing is said yet; the caller sees to the time.
    pub(super) async fn socket(&self, to: &Endpoint) -> Result<Socket, DialError> {
        Ok(match to {
            Endpoint::Unix(path) => Socket::Unix(UnixStream::connect(path).await.map_err(io_error)?),
            Endpoint::Tcp { host, port } => {
                if let Some(dialled) = machine::dial(host, *port).await {
                    return dialled.map(Socket::Simulated).map_err(io_error);
                }
                let unnamed = |only: &Arc<[Endpoint]>| !only.contains(to);
                let stream = match self.address_map.get(&(host.clone(), *port)) {
                    Some(address) => TcpStream::connect::<SocketAddr>(*address).await,
                    None if self.only.as_ref().is_some_and(unnamed) => {
                        let here = machine::addresses_here(host, *port).await;
                        let here = here.map_err(|error| DialError { fatal: true, ..io_error(error) })?;
                        TcpStream::connect(&*here).await
                    }
                    None => TcpStream::connect((host.as_str(), *port)).await,
                }
                .map_err(io_error)?;
                stream.set_nodelay(true).map_err(io_error)?;
                watch_link(&stream, self.link_timeout).map_err(io_error)?;
                match &self.tls {
                    None => Socket::Tcp(stream),
                    Some(tls) => Socket::Tls(Box::new(tls.handshake(host, stream).await?)),
                }
            }
        })
    }

    /// Who this is: user and password, database, name.
    pub(super) async fn greeting(&self) -> Result<(Pipeline, Option<Credentials>), DialError> {
        let mut greeting = redis::pipe();
        let credentials = self.credentials().await?;
        if let Some(credentials) = &credentials {
            greeting.add_command(auth(credentials));
        }
        if self.database != 0 {
            greeting.cmd("SELECT").arg(self.database);
        }
        if let Some(name) = &self.client_name {
            greeting.cmd("CLIENT").arg("SETNAME").arg(name);
        }
        Ok((greeting, credentials))
    }

    /// Everything that is to be said first, in one write.
    async fn set_up(self: &Arc<Self>, socket: Socket, proof: Proof) -> Result<Arc<Conn>, DialError> {
        let (mut greeting, credentials) = self.greeting().await?;
        let conn = Conn::over(socket, self.clone());
        let asks = self.restart_delay.is_some() || self.voter.is_some();
        if asks {
            greeting.cmd("INFO").arg("server");
        }
        let asked = asks.then(|| greeting.len() - 1);
        greeting.cmd(if proof == Proof::IsMaster { "ROLE" } else { "PING" });
        let answers = conn.pipeline(&greeting, greeting.len()).await?;
        // A user that may not ask cannot be told which server it is.
        let optional = asked.filter(|_| self.restart_delay.is_none());
        self.check_greeting(&greeting, &answers, credentials.is_some(), optional)?;
        let info = asked.and_then(|at| answers.get(at));
        if let Some(delay) = self.restart_delay {
            let _ = conn.grants_from.set(Instant::now() + delay.saturating_sub(age(info)?));
        }
        if let (Some(voter), Some(Value::BulkString(info))) = (&self.voter, info)
            && let Some(run_id) = info_field(&String::from_utf8_lossy(info), "run_id")
        {
            let _ = conn.vote.set(voter.is(run_id)?);
        }
        if proof == Proof::IsMaster {
            is_master(answers.last())?;
        }
        self.keep_authenticated(&conn, credentials.and_then(|told| told.valid_for));
        Ok(conn)
    }

    async fn set_up_for_subscriptions(&self, socket: Socket, keys: bool) -> Result<Subscriber, DialError> {
        let (mut greeting, credentials) = self.greeting().await?;
        if keys {
            greeting.cmd("HELLO").arg(3);
            greeting.cmd("CLIENT").arg("TRACKING").arg("ON");
        }
        let mut connection = Subscriber::new(socket);
        greeting.cmd("PING");
        self.count(greeting.len() as u64);
        let written = connection.write(&greeting.get_packed_pipeline()).await;
        written.map_err(io_error)?;
        let mut answers = Vec::new();
        while answers.len() < greeting.len() {
            answers.push(connection.next().await.map_err(io_error)?);
        }
        self.check_greeting(&greeting, &answers, credentials.is_some(), None)?;
        Ok(connection)
    }

    /// Refuses a connection whose greeting was refused, or not answered as by a server, but for what is
    /// `optional` in it.
    fn check_greeting(
        &self,
        greeting: &Pipeline,
        answers: &[Value],
        authenticates: bool,
        optional: Option<usize>,
    ) -> Result<(), DialError> {
        // The name is for people who look at the server: one without CLIENT for this user serves too.
        let before_name = usize::from(authenticates) + usize::from(self.database != 0);
        let named = self.client_name.as_ref().map(|_| before_name);
        for (position, (command, answer)) in greeting.cmd_iter().zip(answers).enumerate() {
            let last = position + 1 == answers.len();
            let word = command_word(command);
            let mut error = match (answer, &*word) {
                _ if [optional, named].contains(&Some(position)) => continue,
                (Value::ServerError(error), _) if last && ["LOADING", "BUSY"].contains(&error.code()) => {
                    continue;
                }
                (Value::ServerError(error), _) => DialError::from(RedisError::from(error.clone())),
                (Value::Okay, "AUTH" | "SELECT" | "CLIENT") | (_, "PING" | "ROLE" | "INFO") => continue,
                (Value::Array(parts), "HELLO") if parts.len() > 2 => continue,
                _ => DialError { code: Some(UNREADABLE.to_owned()), ..DialError::new(unreadable(answer)) },
            };
            error.message = format!("{word}: {}", error.message);
            // Asked again with the same password, the server says the same again.
            let too_many = error.code.as_deref() == Some(MAX_CLIENTS);
            error.fatal |= position == 0 && authenticates && !too_many;
            // The provider may tell another one the next time.
            error.fatal &= self.provider.is_none();
            return Err(error);
        }
        Ok(())
    }
}

/// What a command is called.
fn command_word(command: &redis::Cmd) -> String {
    match command.args_iter().next() {
        Some(redis::Arg::Simple(word)) => String::from_utf8_lossy(word).into_owned(),
        _ => String::new(),
    }
}

/// By which a connection authenticates.
fn auth(as_whom: &Credentials) -> redis::Cmd {
    let mut auth = redis::cmd("AUTH");
    auth.arg(&as_whom.user).arg(&as_whom.password);
    auth
}

/// Lets the system end a connection whose other end has gone without a word, also while it is idle. It counts
/// in whole seconds.
fn watch_link(stream: &TcpStream, link_timeout: Duration) -> io::Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(link_timeout.max(SECOND));
    socket.set_tcp_keepalive(&keepalive.with_interval((link_timeout / 3).max(SECOND)).with_retries(3))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(link_timeout))?;
    Ok(())
}

fn io_error(error: io::Error) -> DialError {
    DialError::new(error.to_string())
}

/// For how long a server has run at least, when it said so. It counts from one whole second of its clock to
/// another, which may be a second more than passed.
fn age(info: Option<&Value>) -> Result<Duration, DialError> {
    let said = match info {
        Some(Value::BulkString(text)) => info_field(&String::from_utf8_lossy(text), "uptime_in_seconds")
            .and_then(|seconds| seconds.parse::<u64>().ok()),
        _ => None,
    };
    said.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)))
        .ok_or_else(|| DialError::new("INFO server does not say for how long it has run"))
}

fn is_master(role: Option<&Value>) -> Result<(), DialError> {
    let refused =
        |code: &str, message: String| Err(DialError { code: Some(code.to_owned()), message, fatal: false });
    match role {
        Some(Value::Array(parts)) => match parts.first() {
            Some(Value::BulkString(role)) if role == b"master" => Ok(()),
            Some(Value::BulkString(role)) => {
                refused(READONLY, format!("its role is {}, not master", String::from_utf8_lossy(role)))
            }
            _ => Err(DialError::new("ROLE was answered without a role")),
        },
        Some(Value::ServerError(error)) => refused(error.code(), error.to_string()),
        _ => Err(DialError::new("ROLE was not answered")),
    }
}
