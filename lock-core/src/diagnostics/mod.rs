//! For tools: what is said on the wire ([`Tracer`]), what is dangerous about servers' settings
//! ([`ServerReport`], [`Concern`]), and a handshake beside the client's connections ([`TlsHandshake`]).
//!
//! ```
//! use lock_core::{Client, ClientOptions, Kind, diagnostics::Tracer};
//! # #[path = "../../tests/support/mod.rs"]
//! # mod support;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = support::Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
//! # let target = server.url().parse()?;
//!
//! let (tell, said) = std::sync::mpsc::channel();
//! let tracer = Tracer::new(move |event| drop(tell.send(event.command)));
//! let client = Client::connect(&target, ClientOptions::default().tracer(tracer)).await?;
//! for concern in client.concerns() {
//!     println!("{concern}"); // 127.0.0.1:6379: maxmemory-policy allkeys-lru: a full server …
//! }
//! # assert!(!client.concerns().is_empty());
//! client.lock(Kind::Plain, "orders")?.acquire().await?.release().await?;
//! assert!(said.iter().any(|command| command == "SET"));
//! client.close().await;
//! # Ok(()) }
//! ```

pub(crate) mod concern;
pub(crate) mod trace;

use std::{fmt, io};

use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use self::concern::{Concern, ConcernKind, ServerReport, Severity};
pub use self::trace::{Traced, Tracer};

use crate::client::Client;
use crate::clock::Instant;
use crate::topology::{Secure, survey};
use crate::{KeyTracking, Target};

impl Client {
    /// Asks every master that is known now about itself, and those that do not answer within the connect
    /// timeout stand in the result too, as silent.
    pub async fn survey(&self) -> Vec<ServerReport> {
        let options = &self.shared().options;
        let deadline = Instant::now() + options.connect_timeout + options.response_timeout;
        let routes = self.shared().routes.iter();
        let masters =
            routes.flat_map(|route| route.masters().into_iter().map(|node| (node, route.down_after_ms())));
        let reports = masters.map(|(node, down_after_ms)| async move {
            let mut report = survey::ask_any(&node, &options.name_prefix, deadline).await;
            let said = down_after_ms.map(|ms| (ServerReport::DOWN_AFTER.to_owned(), ms.to_string()));
            report.settings.extend(said);
            if options.key_tracking == KeyTracking::Off {
                report.refused_tracking = None;
            }
            report
        });
        join_all(reports).await
    }
}

/// TLS for a connection beside the client's, for tools that talk to servers themselves: how a target's
/// servers are trusted, with the files that its URL names. Cheap to clone.
#[derive(Clone)]
pub struct TlsHandshake {
    secure: Secure,
    any_address: bool,
}

impl TlsHandshake {
    /// Reads the files that the URL names; `None` if the target does not speak TLS.
    ///
    /// # Errors
    /// A file that cannot be read, or no authority to trust.
    pub fn of(target: &Target) -> Result<Option<Self>, String> {
        if !target.tls {
            return Ok(None);
        }
        let options = &target.parameters.tls;
        Ok(Some(TlsHandshake {
            secure: Secure::new(options)?,
            any_address: options.server_name.is_some() || options.insecure,
        }))
    }

    /// Whether certificates are not held against the dialled address, so that a proxy may stand elsewhere.
    pub fn any_address(&self) -> bool {
        self.any_address
    }

    /// Shakes hands; the certificate must be for `host`, unless the URL gives another name.
    ///
    /// # Errors
    /// The peer is not trusted, or does not speak TLS.
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
        let shaken = self.secure.handshake(host, stream).await;
        shaken.map_err(|error| io::Error::other(error.message))
    }
}

impl fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsHandshake").finish_non_exhaustive()
    }
}
