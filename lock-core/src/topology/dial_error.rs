//! Why no connection could be had.
use redis::RedisError;

use super::refusal::MAX_CLIENTS;

/// Certainly nothing was done by any request.
#[derive(Debug, Clone)]
pub(crate) struct DialError {
    /// The server's error code, if it answered one.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    /// Whether another try cannot help: a wrong password, an untrusted certificate.
    pub(crate) fatal: bool,
}

impl DialError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        DialError { code: None, message: message.into(), fatal: false }
    }
}

impl From<RedisError> for DialError {
    fn from(error: RedisError) -> Self {
        let code = match error.detail() {
            Some(detail) if detail.starts_with("max number of clients") => Some(MAX_CLIENTS),
            _ => error.code(),
        };
        let code = code.map(str::to_owned);
        let refused = code.as_deref().is_some_and(|code| ["WRONGPASS", "NOAUTH", "NOPERM"].contains(&code));
        let fatal = refused || error.kind() == redis::ErrorKind::AuthenticationFailed;
        DialError { code, message: error.to_string(), fatal }
    }
}
