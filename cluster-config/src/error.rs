//! Turns what went wrong with servers into one message: which node, what, the end of its log, and the remedy.

/// An error of a provisioner or of a running deployment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ClusterError {
    /// The whole message, ready to print; several lines when a log is quoted.
    pub message: String,
    /// A package, a binary or an engine is missing or too old (exit code 69).
    pub missing: bool,
    /// Nobody listens at the node's address: what was to be sent there was certainly not.
    pub refused: bool,
}

impl ClusterError {
    /// An error of any other kind than a missing package.
    pub fn new(message: impl Into<String>) -> Self {
        ClusterError {
            message: message.into(),
            missing: false,
            refused: false,
        }
    }

    /// A package, a binary or an engine that this machine lacks.
    pub fn missing(message: impl Into<String>) -> Self {
        ClusterError {
            missing: true,
            ..ClusterError::new(message)
        }
    }
}
