//! How a client behaves, with a setter for each setting.

use std::{collections::HashMap, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use crate::bounds::{ANSWERS, ENDLESS, RECORD_LIFE, SHORTEST_LEASE};
use crate::client::credentials::CredentialsProvider;
use crate::diagnostics::trace::Tracer;
use crate::durability::Durability;
use crate::named_enum::named;

const MS: Duration = Duration::from_millis(1);
/// A request is repeated for so many response timeouts; the servers' latches end after this.
const LONGEST_ANSWER: Duration = Duration::from_millis(RECORD_LIFE.as_millis() as u64 / ANSWERS as u64);
/// What is waited for longer than a day is not waited for. A bound is needed, since instants have an end.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// Setters that take the whole and give it back, so that settings are written in a row.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $of:ty $(=> $some:path)?;)+) => {
        $(
            #[doc = concat!("Sets the field `", stringify!($name), "`.")]
            $(#[$doc])*
            pub fn $name(mut self, $name: $of) -> Self {
                self.$name = $($some)?($name);
                self
            }
        )+
    };
}
pub(crate) use setters;

fn some<T>(value: impl Into<T>) -> Option<T> {
    Some(value.into())
}

/// Announced address to the address to dial instead (a proxy, a published port).
pub type AddressMap = HashMap<(String, u16), SocketAddr>;

/// Certificates or a key in PEM, in memory; shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem(pub(crate) Vec<u8>);

impl<T: Into<Vec<u8>>> From<T> for Pem {
    fn from(text: T) -> Self {
        Pem(text.into())
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({} bytes)", self.0.len())
    }
}

/// How TLS connections are made. What is not set here is taken from the target's URL.
///
/// ```no_run
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{Client, ClientOptions, TlsOptions};
///
/// let tls = TlsOptions::default().ca_pem(std::env::var("REDIS_CA")?);
/// let options = ClientOptions::default().tls(tls);
/// let client = Client::connect(&"rediss://redis.example:6380".parse()?, options).await?;
/// client.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
#[must_use = "it does nothing until a client connects with it"]
pub struct TlsOptions {
    /// PEM file of the authorities to trust; otherwise those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the certificate, with its chain, that this client shows.
    pub cert_file: Option<PathBuf>,
    /// PEM file of that certificate's private key.
    pub key_file: Option<PathBuf>,
    /// The authorities to trust, in place of those of a file: a secret of a vault or of the environment.
    pub ca_pem: Option<Pem>,
    /// The certificate, with its chain, that this client shows, and its private key, instead of files.
    pub client_pem: Option<(Pem, Pem)>,
    /// The name that the servers' certificates are for; otherwise each server's address.
    pub server_name: Option<String>,
    /// Trusts every peer that answers: no protection against somebody in between.
    pub insecure: bool,
}

impl TlsOptions {
    setters! {
        ca_file: impl Into<PathBuf> => some;
        ca_pem: impl Into<Pem> => some;
        server_name: impl Into<String> => some;
    }

    /// Shows a certificate to servers that ask for one; PEM files of the certificate and its private key.
    pub fn client_certificate(mut self, cert_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.cert_file = Some(cert_file.into());
        self.key_file = Some(key_file.into());
        self
    }

    /// As [`client_certificate`](TlsOptions::client_certificate), from memory.
    pub fn client_certificate_pem(mut self, cert: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        self.client_pem = Some((cert.into(), key.into()));
        self
    }

    /// Trusts every peer that answers.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// Each setting, or the other's where it is not made. A certificate goes with its key.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let pick = |own: bool| if own { self } else { other };
        let trusts = pick(self.ca_file.is_some() || self.ca_pem.is_some());
        let shows = pick(self.cert_file.is_some() || self.client_pem.is_some());
        TlsOptions {
            ca_file: trusts.ca_file.clone(),
            ca_pem: trusts.ca_pem.clone(),
            cert_file: shows.cert_file.clone(),
            key_file: shows.key_file.clone(),
            client_pem: shows.client_pem.clone(),
            server_name: self.server_name.clone().or_else(|| other.server_name.clone()),
            insecure: self.insecure || other.insecure,
        }
    }
}

named! {
    /// How releases are announced to waiters, and how waiters hear of them. All clients of a lock must agree;
    /// those that do not still get in, by looking at the lock again, but later.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub enum PubSub {
        /// As Redisson chooses: sharded on a cluster whose servers know it (Redis 7.0), plain anywhere else.
        /// What the target's URL says comes before that.
        #[default]
        Auto = "auto",
        /// PUBLISH and SUBSCRIBE: reaches every client; a cluster carries each message to all its nodes.
        Plain = "plain",
        /// SPUBLISH and SSUBSCRIBE: a message stays at the shard of its lock.
        Sharded = "sharded",
        /// Announces and listens in both ways: for a fleet in which some clients do one and some the other.
        Both = "both",
    }
}

named! {
    /// Whether a holder is told by its server, at once, when its key is deleted or overwritten by somebody
    /// else; without it, it learns that at its next renewal, after a third of its lease. By
    /// `CLIENT TRACKING`, over a connection of its own for each server.
    ///
    /// It begins with the first renewal, which comes after 1 s then: holds that are shorter cost nothing.
    /// What is followed costs one short read for each renewal. What the server says is only a reason to renew
    /// at once: a hold is lost when that finds nothing.
    ///
    /// ```
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// # use lock_core::{Client, ClientOptions, Kind, KeyTracking, LostReason};
    /// let options = ClientOptions::default().key_tracking(KeyTracking::On);
    /// let client = Client::connect(&server.url().parse()?, options).await?;
    /// let guard = client.lock(Kind::Reentrant, "orders")?.acquire().await?;
    /// # server.wait_for(&["INFO", "stats"], |info| info.contains("tracking_total_keys:1"));
    /// # server.ok(&["DEL", "orders"]);
    /// // Somebody deletes the key: told within milliseconds, and not by the renewal after 10 s.
    /// assert_eq!(guard.lost().await, LostReason::Missing);
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub enum KeyTracking {
        /// Never.
        Off = "off",
        /// For renewed leases of 3 s and more; a server that has it not (before Redis 6.0), or refuses it, is
        /// among the [`concerns`](crate::Client::concerns).
        #[default]
        Auto = "auto",
        /// For each renewed lease, else as `Auto`.
        On = "on",
    }
}

/// Words that name no [`PubSub`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no way to publish; it is auto, plain, sharded or both")]
pub struct UnknownPubSub {
    text: String,
}

impl FromStr for PubSub {
    type Err = UnknownPubSub;

    fn from_str(text: &str) -> Result<Self, UnknownPubSub> {
        let all = [PubSub::Auto, PubSub::Plain, PubSub::Sharded, PubSub::Both];
        all.into_iter().find(|way| way.name() == text).ok_or_else(|| UnknownPubSub { text: text.to_owned() })
    }
}

/// How a client behaves; `Default` suits a lease of tens of seconds on a local network.
///
/// [`Client::connect`](crate::Client::connect) refuses what cannot work as `Invalid`, before it dials
/// anybody: it names the setting, its value and what is allowed.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use = "it does nothing until a client connects with it"]
pub struct ClientOptions {
    /// Longest wait for one reply before it counts as lost; also the bound of
    /// [`Wait::Try`](crate::Wait::Try). 1 ms to 7.5 s: a request is asked again for four times as long, and a
    /// server knows it again for 30 s. Default 1 s.
    pub response_timeout: Duration,
    /// Longest wait for a connection, 1 ms to a day. Default 1 s.
    pub connect_timeout: Duration,
    /// After so long a silence what lies in between may forget a link, 100 ms to an hour: before that PING is
    /// asked on it; then the system asks the other end. As long a packet may be unacknowledged. Default 15 s.
    pub link_timeout: Duration,
    /// Lease of a renewed lock, 3 ms to a hundred years; renewed each third of it. Default 30 s.
    pub watchdog_lease: Duration,
    /// A waiter looks at the lock at least this often, whatever it misses; 1 ms to a day. Default 1 s.
    pub poll_bound: Duration,
    /// Durability of every acquire that does not say otherwise. Default none.
    pub durability: Durability,
    /// Longest wait for the replicas, 1 ms to a day; servers round it up to their tick. Default 500 ms.
    pub durability_timeout: Duration,
    /// How many replicas each master has, 1 or more: what [`Durability::WaitAll`] and
    /// [`Durability::WaitMajority`] go by, which are `Invalid` without it. What the target's URL says
    /// (`?replicas=N`) is used where this is `None`.
    ///
    /// No server knows the number: a master that is cut off from its replicas forgets them, and they are
    /// promoted. A set that is made larger needs clients with the new number before its new replica can be
    /// promoted; [`Client::concerns`](crate::Client::concerns) names a master that has more.
    pub replicas: Option<u32>,
    /// Longest wait for one of several independent masters, 1 ms to a day; `None` is a twentieth of the
    /// lease, at least 50 ms, at most `response_timeout` and half the lease.
    pub node_timeout: Option<Duration>,
    /// A server that has run for less than this grants nothing: what it had granted before may have been lost
    /// with its memory. As long as the longest lease, it makes Redlock safe over masters without persistence
    /// (antirez's delayed restart). All clients of a lock must set it; releases and renewals go on. A hundred
    /// years at most. Default none.
    ///
    /// The server says itself since when it runs, by its own clock in whole seconds, so that it may be kept
    /// waiting a second longer; servers that were just installed are kept waiting too. Costs one INFO for
    /// each connection.
    pub restart_delay: Option<Duration>,
    /// Where to dial instead of announced addresses.
    pub address_map: AddressMap,
    /// Dials beyond this machine only the addresses of the target's URL and of
    /// [`address_map`](ClientOptions::address_map), wherever sentinels, a cluster or a redirection lead: for
    /// a tool whose user consented to these servers and no others. Default false.
    pub only_named_addresses: bool,
    /// CLIENT SETNAME of each connection: printable ASCII without spaces, as servers want it.
    pub client_name: Option<String>,
    /// Tells user and password of data nodes, instead of the target's URL, where they change. Default none.
    pub credentials: Option<CredentialsProvider>,
    /// Stands before every name of a lock, semaphore, permits or latch, as `app:`. Default nothing.
    pub name_prefix: String,
    /// How connections to a `rediss` target are made.
    pub tls: TlsOptions,
    /// On a cluster, names whose braces would part the lock from its companion keys are put in braces as a
    /// whole: the lock `a}b` then is the key `{a}b}`, `}b` is `{:}b}`, and other names stay as they are. All
    /// clients of such a lock must do the same. Default false: such names are refused.
    pub retag_names: bool,
    /// Who gets each command and message as an event. Default nobody; passwords are not among them.
    pub tracer: Option<Tracer>,
    /// How releases are announced and heard. Default `Auto`.
    pub pub_sub: PubSub,
    /// Whether a holder is told at once when its key is deleted or overwritten. Only of renewed leases, and
    /// not of what several hold at once (readers, permits, several locks as one). Default `Auto`.
    pub key_tracking: KeyTracking,
    /// Of a read-write lock, writers who wait come before new readers; an owner who reads or writes already
    /// may always read again, but not as another owner, who would wait behind the writer that waits for it. A
    /// writer counts as waiting for one and a half poll bounds after it has looked, or until it gives up. A
    /// reader that has stood back for as long takes a lock that is free like any writer, so that a stream of
    /// writers keeps no reader out for ever. Clients that do not ask for it, Java peers among them, neither
    /// keep readers out for it nor are kept out. Default true: else readers who overlap keep every writer out
    /// for ever. Beside Java peers it costs nothing but that our readers let our writers pass.
    pub writer_preference: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            link_timeout: Duration::from_secs(15),
            watchdog_lease: Duration::from_secs(30),
            poll_bound: Duration::from_secs(1),
            durability: Durability::None,
            durability_timeout: Duration::from_millis(500),
            replicas: None,
            node_timeout: None,
            restart_delay: None,
            address_map: AddressMap::new(),
            only_named_addresses: false,
            client_name: None,
            credentials: None,
            name_prefix: String::new(),
            tls: TlsOptions::default(),
            retag_names: false,
            tracer: None,
            pub_sub: PubSub::Auto,
            key_tracking: KeyTracking::Auto,
            writer_preference: true,
        }
    }
}

impl ClientOptions {
    setters! {
        response_timeout: Duration;
        connect_timeout: Duration;
        link_timeout: Duration;
        watchdog_lease: Duration;
        poll_bound: Duration;
        durability: Durability;
        durability_timeout: Duration;
        replicas: u32 => Some;
        node_timeout: Duration => Some;
        restart_delay: Duration => Some;
        address_map: AddressMap;
        only_named_addresses: bool;
        client_name: impl Into<String> => some;
        credentials: CredentialsProvider => Some;
        tls: TlsOptions;
        retag_names: bool;
        tracer: Tracer => Some;
        pub_sub: PubSub;
        key_tracking: KeyTracking;
        writer_preference: bool;
        ///
        /// ```
        /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
        /// # use lock_core::{Client, ClientOptions, Kind};
        /// let options = ClientOptions::default().name_prefix("shop:");
        /// let client = Client::connect(&server.url().parse()?, options).await?;
        /// assert_eq!(client.lock(Kind::Reentrant, "orders")?.name(), "shop:orders");
        /// client.close().await;
        /// # Ok(()) });
        /// ```
        name_prefix: impl Into<String> => Into::into;
    }

    /// What cannot work: the setting, its value, what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: Option<Duration>, least: Duration, most: Duration| match value
            .filter(|value| !(least..=most).contains(value))
        {
            None => Ok(()),
            Some(value) => Err(format!("{name} is {value:?}, and {least:?} to {most:?} is allowed")),
        };
        let (answer, dial) = (self.response_timeout, self.connect_timeout);
        let (lease, acknowledged) = (self.watchdog_lease, self.durability_timeout);
        within("response_timeout", Some(answer), MS, LONGEST_ANSWER)?;
        within("connect_timeout", Some(dial), MS, LONGEST_WAIT)?;
        within("link_timeout", Some(self.link_timeout), 100 * MS, Duration::from_secs(3600))?;
        within("watchdog_lease", Some(lease), SHORTEST_LEASE, ENDLESS)?;
        within("poll_bound", Some(self.poll_bound), MS, LONGEST_WAIT)?;
        within("durability_timeout", Some(acknowledged), MS, LONGEST_WAIT)?;
        within("node_timeout", self.node_timeout, MS, LONGEST_WAIT)?;
        within("restart_delay", self.restart_delay, Duration::ZERO, ENDLESS)?;
        if let Some(why) = self.durability.mistake(self.replicas) {
            return Err(format!("durability is {}: {why}", self.durability));
        }
        if self.replicas == Some(0) {
            return Err("replicas is 0, and 1 or more is allowed".to_owned());
        }
        let name = self.client_name.as_deref().unwrap_or_default();
        if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("client_name is {name:?}, and printable ASCII without spaces is allowed"));
        }
        Ok(())
    }

    /// For how long a writer that has looked comes before new readers; longer than until it looks again.
    pub(crate) fn writers_first(&self) -> Option<Duration> {
        self.writer_preference.then(|| self.poll_bound * 3 / 2)
    }

    /// How long one request may take, acknowledgements of replicas included.
    pub(crate) fn request_timeout(&self, durability: Durability) -> Duration {
        match durability {
            Durability::None => self.response_timeout,
            _ => self.response_timeout + self.durability_timeout,
        }
    }

    /// How long one of several masters may take.
    pub(crate) fn quorum_node_timeout(&self, lease: Duration) -> Duration {
        self.node_timeout
            .unwrap_or_else(|| (lease / 20).max(Duration::from_millis(50)))
            .min(self.response_timeout)
            .min(lease / 2)
    }
}
