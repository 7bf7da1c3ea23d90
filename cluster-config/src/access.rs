//! Decides how a deployment is entered: the run's password and certificates, and how a node is dialled.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

#[cfg(feature = "tls")]
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};

use crate::topology::OWN_USER;
use crate::{ClusterError, Role, Secret, Secured, Topology};

/// A Unix socket's path has 108 bytes, the last of which is zero.
const SOCKET_PATH_MAX: usize = 107;

/// Who is admitted, and whether in the clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub(crate) password: Option<Secret>,
    /// Of the sentinels, which know no user of the data nodes.
    pub(crate) sentinel_password: Option<Secret>,
    pub(crate) tls: bool,
}

impl Access {
    /// What a topology asks for. Passwords are made up, others each time.
    pub fn of(topology: &Topology) -> Access {
        Access {
            password: topology.acl.then(Secret::random),
            sentinel_password: (topology.acl && topology.sentinels > 0).then(Secret::random),
            tls: topology.tls,
        }
    }

    /// How the harness reaches a node: past TLS by the socket in its directory.
    pub(crate) fn dial(&self, role: Role, address: SocketAddr, dir: &Path) -> Dial {
        Dial {
            address,
            socket: self.tls.then(|| dir.join("socket")),
            tls: None,
            user: (role != Role::Sentinel).then(|| OWN_USER.to_owned()),
            password: match role {
                Role::Sentinel => self.sentinel_password.clone(),
                Role::Master | Role::Replica => self.password.clone(),
            },
            database: 0,
        }
    }
}

/// How the harness reaches one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dial {
    /// Where the node listens for others.
    pub address: SocketAddr,
    /// A Unix socket that is used instead.
    pub(crate) socket: Option<PathBuf>,
    /// How the connection is secured, where that is not left out by way of a socket.
    pub(crate) tls: Option<Secured>,
    /// Whose password it is; `None`: the server's default user's.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u16,
}

impl Dial {
    pub(crate) fn info(&self) -> redis::RedisResult<redis::ConnectionInfo> {
        use redis::IntoConnectionInfo as _;
        let address = match &self.socket {
            Some(path) => redis::ConnectionAddr::Unix(path.clone()),
            None => redis::ConnectionAddr::Tcp(self.address.ip().to_string(), self.address.port()),
        };
        let info = address.into_connection_info()?;
        let mut settings = info.redis_settings().clone().set_db(i64::from(self.database));
        if let Some(password) = &self.password {
            if let Some(user) = &self.user {
                settings = settings.set_username(user);
            }
            settings = settings.set_password(password.reveal());
        }
        Ok(info.set_redis_settings(settings))
    }

    /// The socket's path fits into what the system takes for one.
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        match &self.socket {
            Some(path) if path.as_os_str().len() > SOCKET_PATH_MAX => Err(failed!(
                "{} is too long for a Unix socket, by which servers with TLS are administered; choose a directory \
                     whose path is shorter by {} bytes",
                path.display(),
                path.as_os_str().len() - SOCKET_PATH_MAX
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The authority's certificate: what clients trust.
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsFiles {
    pub(crate) fn below(data: &Path) -> TlsFiles {
        let dir = data.join("tls");
        TlsFiles { ca: dir.join("ca.crt"), cert: dir.join("node.crt"), key: dir.join("node.key") }
    }

    /// Makes an authority for this run, whose key is not kept, and one certificate for all these addresses.
    pub(crate) fn make(&self, addresses: &[IpAddr]) -> Result<(), ClusterError> {
        let failed = |what: &dyn std::fmt::Display| failed!("cannot make certificates: {what}");
        let [ca, cert, key] = certificates(addresses).map_err(|error| failed(&error))?;
        let dir = self.ca.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(dir)
            .and_then(|()| write_private(&self.ca, &ca))
            .and_then(|()| write_private(&self.cert, &cert))
            .and_then(|()| write_private(&self.key, &key))
            .map_err(|error| failed(&format!("{}: {error}", dir.display())))
    }
}

#[cfg(not(feature = "tls"))]
fn certificates(_: &[IpAddr]) -> Result<[String; 3], &'static str> {
    Err("this program was built without the feature `tls`")
}

/// The authority's certificate, the nodes' and its key.
#[cfg(feature = "tls")]
fn certificates(addresses: &[IpAddr]) -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(rcgen::DnType::CommonName, "locklab, one run");
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?;
    let mut node = CertificateParams::new(vec!["localhost".to_owned()])?;
    node.subject_alt_names.extend(addresses.iter().map(|ip| SanType::IpAddress(*ip)));
    let key = KeyPair::generate()?;
    let cert = node.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok([ca.pem(), cert.pem(), key.serialize_pem()])
}

pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}
