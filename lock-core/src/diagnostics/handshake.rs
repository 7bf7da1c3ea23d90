//! A TLS handshake beside the client's connections, for tools that reach a target's servers themselves.

use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Target;
use crate::topology::Secure;

/// How a target's servers are trusted, with the files that its URL names. Cheap to clone.
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
