//! Turns a target URL into what a client connects to.
use std::{fmt, str::FromStr};

/// The shape of a deployment, as its URL's scheme says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape { /// `redis://`, `rediss://`, `redis+unix://`
    Single, /// `redis-sentinel://`
    Sentinel, /// `redis-cluster://`
    Cluster, /// `redlock://`: independent masters
    Masters }

/// One address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Endpoint { /// TCP.
    Tcp { /// Host name or address.
        host: String, /// Port.
        port: u16 }, /// A Unix socket.
    Unix(std::path::PathBuf) }

/// What a client connects to. `Display` and `Debug` never show a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Target { pub(crate) shape: Shape, pub(crate) endpoints: Vec<Endpoint>, pub(crate) master_name: Option<String>,
    pub(crate) username: Option<String>, pub(crate) password: Option<String>, pub(crate) database: u16, pub(crate) tls: bool }
impl Target { /// The shape.
    pub fn shape(&self) -> Shape { self.shape } /// The addresses of the URL, in its order.
    pub fn endpoints(&self) -> &[Endpoint] { &self.endpoints }
    /// Whether every address is a loopback address, a Unix socket or `localhost`.
    pub fn is_loopback(&self) -> bool { todo!() } }
impl FromStr for Target { type Err = TargetError; fn from_str(_s: &str) -> Result<Self, TargetError> { todo!() } }
impl fmt::Display for Target { fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result { todo!() } }
impl fmt::Debug for Target { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "Target({self})") } }
/// A URL that is no target, with what is wrong and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError { pub(crate) message: String }
