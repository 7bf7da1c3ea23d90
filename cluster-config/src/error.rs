//! Errors of servers, sorted by what a caller does about them.

/// An error of a provisioner or of a running deployment. Its text is the whole message, ready to print: which
/// node, what happened, the remedy, and several lines when a log is quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A package, a binary or an engine is missing or too old (exit code 69).
    #[error("{0}")]
    Missing(String),
    /// The request cannot work anywhere: no such port, a directory that is a file (exit code 64).
    #[error("{0}")]
    Invalid(String),
    /// A server does not know a line of its configuration (exit code 65 where the line is from a file).
    #[error("{message}")]
    Setting {
        /// The line, as the server shows it: a key and what is behind it.
        line: String,
        /// The whole message.
        message: String,
    },
    /// Nobody listens at the node's address, so the request was certainly not sent.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl ClusterError {
    /// An error of which a caller can only print the message.
    pub fn new(message: impl Into<String>) -> Self {
        ClusterError::Other(message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        ClusterError::Invalid(message.into())
    }

    /// A package, a binary or an engine that this machine lacks.
    pub fn missing(message: impl Into<String>) -> Self {
        ClusterError::Missing(message.into())
    }
}

/// An error of which a caller can only print the message, which is given as to `format!`.
macro_rules! failed {
    ($($message:tt)+) => { $crate::ClusterError::new(format!($($message)+)) };
}

macro_rules! missing {
    ($($message:tt)+) => { $crate::ClusterError::missing(format!($($message)+)) };
}

/// Returns the error that [`failed!`] makes of the same.
macro_rules! bail {
    ($($message:tt)+) => { return Err(failed!($($message)+)) };
}
