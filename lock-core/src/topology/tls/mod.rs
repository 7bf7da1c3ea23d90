//! TLS: the feature `tls`, or what stands in its place without it.
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
