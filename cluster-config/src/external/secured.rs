//! The seam to the code that knows how somebody else's servers are trusted: a plain connection in, a secured one out.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection over which nobody else listens.
pub trait SecureStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> SecureStream for T {}

/// Shakes hands with servers that speak TLS.
#[async_trait]
pub trait Handshake: Debug + Send + Sync {
    /// Secures a connection to `host`.
    ///
    /// # Errors
    /// The peer is not trusted, or does not speak TLS.
    async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn SecureStream>>;

    /// Whether certificates are not held against the address that is dialled, so that a proxy may stand at another one.
    fn any_address(&self) -> bool;
}

/// A way to shake hands, shared by all connections of a target. Two are equal if they are the same one.
#[derive(Debug, Clone)]
pub struct Secured(pub Arc<dyn Handshake>);

impl PartialEq for Secured {
    fn eq(&self, other: &Secured) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Secured {}
