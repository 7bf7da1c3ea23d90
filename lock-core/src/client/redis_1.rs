//! Conversions of redis-rs 1's targets and credential providers, behind the feature `redis-1`.

use std::time::Duration;

use futures_util::StreamExt;
use redis::{ConnectionAddr, ConnectionInfo, StreamingCredentialsProvider};

use crate::client::credentials::{Credentials, CredentialsProvider};
use crate::client::target::{Endpoint, Target, TargetError, TopologyKind};

/// One server, from redis-rs's connection info.
///
/// ```
/// use redis::IntoConnectionInfo as _;
///
/// let theirs = "redis://app:secret@cache:6380/2".into_connection_info()?;
/// let target = lock_core::Target::try_from(&theirs)?;
/// assert_eq!(target.to_string(), "redis://app:***@cache:6380/2");
/// # let (host, tls_params) = ("cache".to_owned(), None);
/// # let over_tls = redis::ConnectionAddr::TcpTls { host, port: 6380, insecure: true, tls_params };
/// # let target = lock_core::Target::try_from(&over_tls.into_connection_info()?)?;
/// # assert_eq!(target.to_string(), "rediss://cache:6380?tls-insecure=true");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Errors: certificates, which redis-rs shows to nobody ([`TlsOptions`](crate::TlsOptions) takes them), a
/// database beyond 65535, and an unknown kind of address.
impl TryFrom<&ConnectionInfo> for Target {
    type Error = TargetError;

    fn try_from(info: &ConnectionInfo) -> Result<Self, TargetError> {
        let tcp = |host: &String, port: &u16| Endpoint::Tcp { host: host.clone(), port: *port };
        let (endpoint, tls, is_insecure) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (tcp(host, port), false, false),
            ConnectionAddr::TcpTls { host, port, insecure, tls_params: None } => {
                (tcp(host, port), true, *insecure)
            }
            ConnectionAddr::TcpTls { .. } => {
                return Err(TargetError::new(
                    "redis-rs shows its certificates to nobody: give them in ClientOptions::tls too, and connect by an address without them",
                ));
            }
            ConnectionAddr::Unix(path) => (Endpoint::Unix(path.clone()), false, false),
            _ => return Err(TargetError::new("this kind of address is not known")),
        };
        let mut target = Target::from_parts(TopologyKind::Single, vec![endpoint])?;
        let settings = info.redis_settings();
        let database = u16::try_from(settings.db());
        target.database = database.map_err(|_| TargetError::new("a database is a number from 0 to 65535"))?;
        target.username = settings.username().map(str::to_owned);
        target.password = settings.password().map(str::to_owned);
        target.tls = tls;
        target.parameters.tls.insecure = is_insecure;
        Ok(target)
    }
}

impl CredentialsProvider {
    /// Wraps a provider of redis-rs, such as its `EntraIdCredentialsProvider`. A new stream must begin with
    /// the current credentials: one is opened when a connection is made, and once a minute for each open
    /// connection. Old credentials must stay valid for a minute beside new ones.
    ///
    /// ```
    /// # fn options(theirs: impl redis::StreamingCredentialsProvider + 'static) -> lock_core::ClientOptions {
    /// use lock_core::{ClientOptions, CredentialsProvider};
    ///
    /// ClientOptions::default().credentials(CredentialsProvider::streaming(theirs))
    /// # }
    /// ```
    pub fn streaming(provider: impl StreamingCredentialsProvider + 'static) -> Self {
        const ASKED_EVERY: Duration = Duration::from_secs(60);
        CredentialsProvider::new(move || {
            let mut stream = provider.subscribe();
            async move {
                let told = stream.next().await.ok_or("its stream has ended")??;
                let of_now = Credentials::new(told.password()).valid_for(ASKED_EVERY);
                Ok(match told.username() {
                    "" => of_now,
                    user => of_now.user(user),
                })
            }
        })
    }
}
