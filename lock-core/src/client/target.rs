//! A target URL: what a client connects to.
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

use crate::client::parameters::Parameters;
use crate::{ClientOptions, PubSub};

const NO_PORT: &str =
    "is no port: 1 to 65535 is allowed; a user and a password stand before the host: user:password@host";
/// The port of a Redis server, where a URL names none.
const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// What every message about a bad scheme offers instead.
const ALLOWED: &str = "redis://, redis-sentinel://, redis-cluster://, redlock://, the same with TLS \
    (rediss://, rediss-sentinel://, rediss-cluster://, redlocks://), or redis+unix://";
/// Each scheme with its shape, and whether it means TLS; of synonyms the one that is shown first.
const SCHEMES: &[(&str, TopologyKind, bool)] = &[
    ("redis", TopologyKind::Single, false),
    ("rediss", TopologyKind::Single, true),
    ("valkey", TopologyKind::Single, false),
    ("valkeys", TopologyKind::Single, true),
    ("redis+ssl", TopologyKind::Single, true),
    ("redis+tls", TopologyKind::Single, true),
    ("redis-sentinel", TopologyKind::Sentinel, false),
    ("rediss-sentinel", TopologyKind::Sentinel, true),
    ("rediss+sentinel", TopologyKind::Sentinel, true),
    ("redis+sentinel", TopologyKind::Sentinel, false),
    ("redis-cluster", TopologyKind::Cluster, false),
    ("rediss-cluster", TopologyKind::Cluster, true),
    ("redis+cluster", TopologyKind::Cluster, false),
    ("rediss+cluster", TopologyKind::Cluster, true),
    ("redlock", TopologyKind::Masters, false),
    ("redlocks", TopologyKind::Masters, true),
    ("rediss-redlock", TopologyKind::Masters, true),
];
/// The scheme of a socket in the file system, and what redis-rs, redis-py and Lettuce also call it.
const UNIX: &str = "redis+unix";
const UNIX_TOO: &[&str] = &["unix", "valkey+unix", "redis-socket", "redis+socket"];

/// The shape of a deployment, by its URL's scheme. Exhaustive: each match on it has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyKind {
    /// `redis://`, `rediss://`, `redis+unix://`
    Single,
    /// `redis-sentinel://`
    Sentinel,
    /// `redis-cluster://`
    Cluster,
    /// `redlock://`: independent masters
    Masters,
}

/// One address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Endpoint {
    /// TCP.
    Tcp {
        /// Host name or address; an IPv6 address stands here without its brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    fn is_loopback(&self) -> bool {
        match self {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

pub(crate) fn addresses(endpoints: &[Endpoint]) -> String {
    let each: Vec<_> = endpoints.iter().map(Endpoint::to_string).collect();
    each.join(",")
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What a client connects to. `Display` and `Debug` never show a password.
///
/// | URL | connects to |
/// |---|---|
/// | `redis://[[user]:password@]host[:port][/database]` | one server |
/// | `redis-sentinel://[[user]:password@]host[:port],…/master-name[/database]` | the master that the sentinels name |
/// | `redis-cluster://[[user]:password@]host[:port],…` | the cluster that any of the addresses knows |
/// | `redlock://[[user]:password@]host[:port],…` | independent masters, each with a vote |
/// | `redis+unix://[[user]:password@]/path` | one server by its Unix socket |
///
/// `rediss`, `rediss-sentinel`, `rediss-cluster` and `redlocks` are the same with TLS. What redis-rs,
/// redis-py and Lettuce write is read too: `unix://`, `valkey://`, `redis+sentinel://`, `redis+cluster://`,
/// `redis-socket://` and their like, `#insecure` behind a URL with TLS, and the master's name behind `#` with
/// the database alone in the path. An IPv6 address stands in brackets. User and password are percent-encoded
/// (a password may have `@`, `:` and `,` as they are, but no `/`) and belong to the data nodes. Sentinels get
/// them too, once they ask for a password, unless the URL has `sentinel-password`.
///
/// Each may end with settings, `?name=value&…`, that [`ClientOptions`] has too (and overrides):
///
/// | setting | means |
/// |---|---|
/// | `tls-ca=FILE` | trust the authorities in this PEM file instead of the operating system's |
/// | `tls-cert=FILE`, `tls-key=FILE` | show this certificate, with its private key; both PEM |
/// | `tls-server-name=NAME` | the servers' certificates are for this name, whatever their addresses are |
/// | `tls-insecure=true` | trust every peer that answers |
/// | `pubsub=plain`, `sharded` or `both` | how releases are announced and heard: see [`PubSub`] |
/// | `sentinel-user=USER`, `sentinel-password=PASSWORD` | the sentinels have a user or a password of their own |
/// | `replicas=N` | each master has so many replicas: see [`ClientOptions::replicas`] |
/// | `db=N`, `username=USER`, `password=PASSWORD`, `master-name=NAME` | the same elsewhere in the URL, where that names none; `database`, `user`, `pass` and `sentinelMasterId`, too |
/// | `protocol=2` or `3`, `resp2` or `resp3` | nothing: a client speaks what its server knows |
///
/// ```
/// let target: lock_core::Target = "redis-sentinel://127.0.0.1:26379/m".parse()?;
/// assert!(target.is_loopback());
/// assert_eq!(target.to_string(), "redis-sentinel://127.0.0.1:26379/m");
///
/// // Sentinels with a password of their own; neither is ever shown.
/// let url = "redis-sentinel://app:secret@127.0.0.1:26379/m?sentinel-password=another";
/// let target: lock_core::Target = url.parse()?;
/// assert!(!target.to_string().contains("another"));
/// # Ok::<(), lock_core::TargetError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) shape: TopologyKind,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) master_name: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u16,
    pub(crate) tls: bool,
    pub(crate) parameters: Parameters,
}

impl Target {
    /// A target by its parts, for who has them apart: nothing is percent-encoded. The default user, database
    /// 0, no TLS, and no name of a master, which sentinels need.
    ///
    /// ```
    /// use lock_core::{Endpoint, Target, TopologyKind};
    ///
    /// let sentinel = |host: &str| Endpoint::Tcp { host: host.to_owned(), port: 26379 };
    /// let target = Target::from_parts(TopologyKind::Sentinel, vec![sentinel("a"), sentinel("b")])?;
    /// let target = target.with_master_name("m").with_password(Some("app"), "p/@:").with_database(2);
    /// assert_eq!(target.to_string(), "redis-sentinel://app:***@a:26379,b:26379/m/2");
    /// # Ok::<(), lock_core::TargetError>(())
    /// ```
    ///
    /// # Errors
    /// No address, one that is given twice, several of a single server, or a Unix socket among several.
    pub fn from_parts(kind: TopologyKind, endpoints: Vec<Endpoint>) -> Result<Self, TargetError> {
        let target = Target {
            shape: kind,
            endpoints,
            master_name: None,
            username: None,
            password: None,
            database: 0,
            tls: false,
            parameters: Parameters::default(),
        };
        checked(target).map_err(|fault| fault.error(false))
    }

    /// Sets the name under which the sentinels know the master.
    pub fn with_master_name(mut self, name: impl Into<String>) -> Self {
        self.master_name = Some(name.into());
        self
    }

    /// Sets the password of the data nodes, and their user if it is not the default one.
    pub fn with_password(mut self, user: Option<&str>, password: impl Into<String>) -> Self {
        (self.username, self.password) = (user.map(str::to_owned), Some(password.into()));
        self
    }

    /// Sets the password that the sentinels have of their own, and their user if it is not the default one.
    pub fn with_sentinel_password(mut self, user: Option<&str>, password: impl Into<String>) -> Self {
        self.parameters.sentinel_user = user.map(str::to_owned);
        self.parameters.sentinel_password = Some(password.into());
        self
    }

    /// Sets the database of one server, or of those behind sentinels.
    pub fn with_database(mut self, database: u16) -> Self {
        self.database = database;
        self
    }

    /// Speaks TLS, as [`ClientOptions::tls`] says.
    pub fn with_tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// What its parts lack together, if so. A URL that was read lacks nothing.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        match self.shape {
            TopologyKind::Sentinel if self.master_name.as_deref().is_none_or(str::is_empty) => {
                Some("sentinels are asked for a master by its name")
            }
            _ if self.password.as_deref() == Some("") || self.username.as_deref() == Some("") => {
                Some("a user or a password that is given is not empty")
            }
            TopologyKind::Sentinel => None,
            _ if self.master_name.is_some() || self.parameters.sentinel_password.is_some() => Some(
                "a master's name and a password of sentinels are for redis-sentinel:// and rediss-sentinel://",
            ),
            _ if self.tls && matches!(self.endpoints.first(), Some(Endpoint::Unix(_))) => {
                Some("a Unix socket speaks no TLS")
            }
            shape if self.database != 0 && !has_databases(shape) => {
                Some("a cluster and independent masters have no databases here")
            }
            _ => None,
        }
    }

    /// The shape.
    pub fn topology_kind(&self) -> TopologyKind {
        self.shape
    }

    /// The addresses of the URL, in its order.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Which servers it means, whatever else it says about them and in whatever order it names them.
    pub(crate) fn set(&self) -> String {
        let mut endpoints = self.endpoints.clone();
        endpoints.sort_by_key(Endpoint::to_string);
        let master = self.master_name.as_deref().unwrap_or_default();
        format!("{} {master} {}", addresses(&endpoints), self.database)
    }

    /// The name under which the sentinels know the master.
    pub fn master_name(&self) -> Option<&str> {
        self.master_name.as_deref()
    }

    /// The user of the data nodes; `None`: the default user.
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password of the data nodes. The caller takes care that it is shown to nobody.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// User of the sentinels, where they have a password of their own.
    pub fn sentinel_user(&self) -> Option<&str> {
        self.parameters.sentinel_user.as_deref()
    }

    /// The password that the sentinels have of their own; as [`password`](Target::password).
    pub fn sentinel_password(&self) -> Option<&str> {
        self.parameters.sentinel_password.as_deref()
    }

    /// The database that every connection selects; 0 in a cluster.
    pub fn database(&self) -> u16 {
        self.database
    }

    /// Whether the URL asks for TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// Whether every address is a loopback address, a Unix socket or `localhost`.
    pub fn is_loopback(&self) -> bool {
        self.endpoints.iter().all(Endpoint::is_loopback)
    }

    /// How releases are announced: as the options say, else as the URL says.
    pub(crate) fn pub_sub(&self, options: &ClientOptions) -> PubSub {
        match options.pub_sub {
            PubSub::Auto => self.parameters.pub_sub,
            way => way,
        }
    }

    fn scheme(&self) -> &'static str {
        if matches!(self.endpoints.first(), Some(Endpoint::Unix(_))) {
            return UNIX;
        }
        let ours = SCHEMES.iter().find(|(_, shape, tls)| (*shape, *tls) == (self.shape, self.tls));
        ours.expect("each shape has a scheme, with TLS and without").0
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, TargetError> {
        read(url).map_err(|fault| fault.error(may_hold_password(url)))
    }
}

fn read(url: &str) -> Result<Target, Fault> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return bad(format!("a target is a URL that starts with {ALLOWED}"));
    };
    let lower = scheme.to_ascii_lowercase();
    let is_socket = lower == UNIX || UNIX_TOO.contains(&lower.as_str());
    let known = SCHEMES.iter().find(|(name, ..)| *name == if is_socket { "redis" } else { &lower });
    let Some(&(_, shape, tls)) = known else {
        return refuse(scheme, format!("is no scheme: allowed are {ALLOWED}"));
    };
    let (credentials, rest) = split_credentials(rest)?;
    let (rest, mut parameters) = split_parameters(rest, shape, tls)?;
    let (username, password) = parameters.credentials(credentials)?;
    let (hosts, path) = rest.split_once('/').filter(|_| !is_socket).unwrap_or((rest, ""));
    let port = if shape == TopologyKind::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
    let endpoints = match is_socket {
        true => vec![Endpoint::Unix(decode(hosts, "path")?.into())],
        false => hosts.split(',').map(|host| endpoint(host, port)).collect::<Result<_, _>>()?,
    };
    let (master_name, database) = match parameters.master_name.take() {
        None => path_parts(shape, path)?,
        Some(_) if path.contains(|c: char| !c.is_ascii_digit()) => {
            return bad(
                "the master's name is given twice: in the path, and again as master-name or behind `#`",
            );
        }
        name => (name, database(path)?),
    };
    let database = match (database, parameters.database.take()) {
        (0, given) => given.unwrap_or(0),
        (_, Some(_)) => return bad("the database stands in the path, and again as db"),
        (database, None) => database,
    };
    let target =
        checked(Target { shape, endpoints, master_name, username, password, database, tls, parameters })?;
    target.mistake().map_or(Ok(target), bad)
}

fn has_databases(shape: TopologyKind) -> bool {
    matches!(shape, TopologyKind::Single | TopologyKind::Sentinel)
}

/// A target whose addresses fit its shape.
fn checked(target: Target) -> Result<Target, Fault> {
    let Target { shape, endpoints, .. } = &target;
    if endpoints.is_empty() {
        return bad("a target needs an address");
    }
    if *shape == TopologyKind::Single && endpoints.len() > 1 {
        return bad(
            "redis:// takes one address; several belong to redis-sentinel://, redis-cluster:// or redlock://",
        );
    }
    let is_socket = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Unix(_));
    if *shape != TopologyKind::Single && endpoints.iter().any(is_socket) {
        return bad("a Unix socket is the address of one server alone");
    }
    for endpoint in endpoints {
        dialable(endpoint)?;
    }
    let mut seen = BTreeSet::new();
    match endpoints.iter().find(|endpoint| !seen.insert(*endpoint)) {
        Some(twice) => refuse(twice.to_string(), "is given twice"),
        None => Ok(target),
    }
}

fn dialable(endpoint: &Endpoint) -> Result<(), Fault> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match endpoint {
        Endpoint::Unix(path) if path.is_absolute() && path.as_os_str().len() > 1 => Ok(()),
        Endpoint::Unix(_) => bad("a Unix socket is given by its full path: redis+unix:///run/redis.sock"),
        Endpoint::Tcp { host, .. } if host.is_empty() => {
            bad("an address is missing: write host:port, with commas between several")
        }
        Endpoint::Tcp { port: 0, .. } => refuse("0", NO_PORT),
        Endpoint::Tcp { host, .. } if host.parse::<Ipv6Addr>().is_err() && !host.chars().all(allowed) => {
            refuse(host, "is no host name: letters, digits and - . _ can stand there")
        }
        Endpoint::Tcp { .. } => Ok(()),
    }
}

fn split_parameters(rest: &str, shape: TopologyKind, tls: bool) -> Result<(&str, Parameters), Fault> {
    let (rest, fragment) = match rest.split_once('#') {
        None => (rest, None),
        Some((rest, fragment)) => (rest, Some(fragment)),
    };
    let (rest, text) = rest.split_once('?').map_or((rest, None), |(rest, text)| (rest, Some(text)));
    // Contradicts `tls-insecure=false`, as a second one would.
    let insecure = fragment.filter(|fragment| tls && *fragment == "insecure").map(|_| "tls-insecure=true");
    let texts: Vec<_> = text.into_iter().chain(insecure).collect();
    let mut parameters = match texts.is_empty() {
        true => Parameters::default(),
        false => Parameters::read(&texts.join("&"), tls)?,
    };
    match fragment {
        _ if insecure.is_some() || fragment.is_none() => {}
        Some(name)
            if shape == TopologyKind::Sentinel && !name.is_empty() && parameters.master_name.is_none() =>
        {
            parameters.master_name = Some(decode(name, "master name")?);
        }
        _ => {
            return bad(
                "behind `#` may stand insecure, in a URL with TLS, or the master's name, in one of sentinels that has it nowhere else",
            );
        }
    }
    Ok((rest, parameters))
}

/// What is wrong with a URL, apart from the part of it that is.
#[derive(Debug)]
pub(crate) struct Fault {
    part: Option<String>,
    /// Never a word of the URL.
    says: String,
}

impl Fault {
    /// Of a URL that may hold a password no part is repeated: any may be of a miswritten one.
    fn error(self, may_hold_password: bool) -> TargetError {
        let Fault { part, says } = self;
        let message = match part {
            _ if may_hold_password && !says.contains(ENCODED) => {
                let what = part.map_or(says.clone(), |_| format!("a part of the URL {says}"));
                format!("{what}; {ENCODED}, and no part of such a URL is shown here")
            }
            Some(part) => format!("`{part}` {says}"),
            None => says,
        };
        TargetError { message, may_hold_password }
    }
}

/// Whether it has an `@` or a password setting, or what is no port where one belongs: its host was forgotten.
fn may_hold_password(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', '#']).next();
    let addresses = authority.into_iter().flat_map(|all| all.split(','));
    let mut ports = addresses.filter_map(|address| address.split(']').next_back()?.split_once(':'));
    url.contains('@') || url.contains("pass") || ports.any(|(_, port)| port.parse::<u16>().is_err())
}

/// How a user and a password are written.
const ENCODED: &str = "in a user and a password these are percent-encoded: / as %2F, ? as %3F, # as %23, @ as %40, % as %25, \
    in a user also : as %3A";

/// A fault of the URL as a whole.
pub(crate) fn bad<T>(says: impl Into<String>) -> Result<T, Fault> {
    let says = says.into();
    Err(Fault { part: None, says })
}

/// A fault of a part, which stands before what is said of it.
pub(crate) fn refuse<T>(part: impl Into<String>, says: impl Into<String>) -> Result<T, Fault> {
    let part = Some(part.into());
    let says = says.into();
    Err(Fault { part, says })
}

pub(crate) type Credentials = (Option<String>, Option<String>);

/// Splits `user:password@` off; the last `@` before the path counts, so that a password may hold one.
fn split_credentials(rest: &str) -> Result<(Credentials, &str), Fault> {
    // The path of a socket that has neither user nor password.
    if rest.starts_with('/') {
        return Ok(((None, None), rest));
    }
    let authority = rest.find('/').map_or(rest, |end| &rest[..end]);
    let at = authority.rfind('@');
    if rest[at.map_or(0, |at| at + 1)..].contains('@') {
        return bad(format!("an `@` stands behind the addresses; {ENCODED}"));
    }
    let Some(at) = at else {
        return Ok(((None, None), rest));
    };
    let Some((user, password)) = authority[..at].split_once(':') else {
        return bad("a user needs a password: user:password@host, or :password@host without a user");
    };
    if password.is_empty() {
        return bad("the password before `@` is empty".to_owned());
    }
    let user = if user.is_empty() { None } else { Some(decode(user, "user")?) };
    Ok(((user, Some(decode(password, "password")?)), &rest[at + 1..]))
}

fn endpoint(text: &str, default_port: u16) -> Result<Endpoint, Fault> {
    let (host, port) = if let Some(inside) = text.strip_prefix('[') {
        let Some((host, after)) = inside.split_once(']') else {
            return refuse(text, "has no closing bracket: an IPv6 address is written [::1]:6379");
        };
        if host.parse::<Ipv6Addr>().is_err() {
            return refuse(
                host,
                "in brackets is no IPv6 address; one with a zone (%) is dialled by a name of it",
            );
        }
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return refuse(after, "stands after a bracket: only :port may follow"),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return refuse(text, "has too many colons: an IPv6 address is written [::1]:6379");
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        None => default_port,
        Some(port) => match port.parse::<u16>() {
            Ok(number) if port.bytes().all(|b| b.is_ascii_digit()) => number,
            _ => return refuse(port, NO_PORT),
        },
    };
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

fn path_parts(shape: TopologyKind, path: &str) -> Result<(Option<String>, u16), Fault> {
    match shape {
        TopologyKind::Single => Ok((None, database(path)?)),
        TopologyKind::Sentinel => {
            let (name, rest) = path.split_once('/').unwrap_or((path, ""));
            if name.is_empty() {
                return bad("the master's name is missing: redis-sentinel://host:26379,host:26379/mymaster");
            }
            Ok((Some(decode(name, "master name")?), database(rest)?))
        }
        TopologyKind::Cluster | TopologyKind::Masters if ["", "0"].contains(&path) => Ok((None, 0)),
        TopologyKind::Cluster => refuse(path, "stands after the addresses: a cluster has no databases"),
        TopologyKind::Masters => refuse(path, "stands after the addresses: redlock:// takes addresses only"),
    }
}

pub(crate) fn database(text: &str) -> Result<u16, Fault> {
    if text.is_empty() {
        return Ok(0);
    }
    match text.parse() {
        Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ => refuse(text, "is no database: a number from 0 to 65535 is allowed"),
    }
}

/// Undoes percent-encoding. The text is not repeated in the message: it may be a password.
pub(crate) fn decode(text: &str, what: &'static str) -> Result<String, Fault> {
    let digits = |after: &str| (after.bytes().take(2)).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(digits) {
        return bad(format!(
            "the {what} has a bad percent sign: write %XX with two hexadecimal digits, %25 for `%`"
        ));
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => bad(format!("the {what} is not UTF-8 after decoding")),
    }
}

pub(crate) fn encode(text: &str) -> PercentEncode<'_> {
    const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, PLAIN)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        if self.password.is_some() {
            let user = encode(self.username.as_deref().unwrap_or(""));
            write!(f, "{user}:***@")?;
        }
        if let Some(Endpoint::Unix(path)) = self.endpoints.first() {
            for part in path.to_string_lossy().split('/').skip(1) {
                write!(f, "/{}", encode(part))?;
            }
            let database = Some(self.database).filter(|number| *number != 0);
            return write!(f, "{}", Parameters { database, ..self.parameters.clone() });
        }
        f.write_str(&addresses(&self.endpoints))?;
        if let Some(name) = &self.master_name {
            write!(f, "/{}", encode(name))?;
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        write!(f, "{}", self.parameters)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// A URL that is no target, and what would be right. One that may hold a password is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    message: String,
    /// Whether a password may stand in the URL, which is then to be shown to nobody.
    pub may_hold_password: bool,
}

#[cfg(feature = "redis-1")]
impl TargetError {
    pub(crate) fn new(message: &str) -> Self {
        TargetError { message: message.to_owned(), may_hold_password: true }
    }
}
