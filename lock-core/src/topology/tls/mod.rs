//! TLS: the feature `tls`, or what stands in its place without it.
//!
//! | file | what it is for |
//! |---|---|
//! | `secure.rs` | whom a connection trusts, and the handshake |
//! | `session.rs` | a session after its handshake |
//! | `without_tls.rs` | both without the feature |

#[cfg(feature = "tls")]
mod secure;
#[cfg(feature = "tls")]
mod session;
#[cfg(any(test, not(feature = "tls")))]
#[cfg_attr(feature = "tls", expect(dead_code))]
mod without_tls;

#[cfg(feature = "tls")]
pub(crate) use self::secure::Secure;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without_tls::Secure;
#[cfg(not(feature = "tls"))]
pub(super) use self::without_tls::{Session, TlsStream};
#[cfg(feature = "tls")]
pub(super) use self::{secure::TlsStream, session::Session};
