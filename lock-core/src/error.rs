//! What went wrong: the lock, the node, the attempt, and whether it is certain.

use std::fmt;

use crate::clock;
use crate::machine;
use crate::named_enum::named;
use crate::topology::{CLOSED, MAX_CLIENTS, NodeError, RESTARTED, UNREADABLE, WRONG_TYPE};

named! {
    /// The class of a [`LockError`]. Its [name](ErrorKind::name) stays what it is over all versions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// Not acquired within the wait: certainly not held.
        Busy = "busy",
        /// Release or extend of a lock that this hold does not have (any more).
        NotHeld = "not-held",
        /// The server refused, or could not be reached at all: certainly not done.
        Failed = "failed",
        /// The answer was lost: it may or may not have been done.
        Unknown = "unknown",
        /// Fewer replicas acknowledged than asked for. What was taken has been given back, and that was
        /// acknowledged: the lock is certainly not held.
        NotDurable = "not-durable",
        /// A name, option or URL that cannot work.
        Invalid = "invalid",
    }
}

/// An error of a lock operation: the lock, the node, the attempt, and whether it is definite.
///
/// Its text reads like
/// `could not extend the lease on orders at 127.0.0.1:7002: no answer within 50 ms (attempt 2)`. Passwords
/// never appear in it. The text may change with any version; [`code`](LockError::code) does not.
#[derive(Debug, Clone)]
pub struct LockError {
    kind: ErrorKind,
    action: &'static str,
    lock: String,
    node: Option<String>,
    attempt: u32,
    server_code: Option<String>,
    why: String,
}

impl LockError {
    pub(crate) fn local(kind: ErrorKind, action: &'static str, lock: &str, why: impl Into<String>) -> Self {
        LockError {
            kind,
            action,
            lock: lock.to_owned(),
            node: None,
            attempt: 0,
            server_code: None,
            why: why.into(),
        }
    }

    /// The request cannot work; nothing was sent.
    pub(crate) fn invalid(action: &'static str, lock: &str, why: impl Into<String>) -> Self {
        LockError::local(ErrorKind::Invalid, action, lock, why)
    }

    /// An error from a node, or from the way to it.
    pub(crate) fn at_node(kind: ErrorKind, action: &'static str, lock: &str, error: NodeError) -> Self {
        let kind = match error.message.contains(machine::ELSEWHERE) && error.definite {
            true => ErrorKind::Invalid,
            false => kind,
        };
        let mut why = error.message;
        if let Some(code) = error.code.as_ref().filter(|code| !why.contains(*code)) {
            why = format!("{code}: {why}");
        }
        // The text names the node once.
        if let Some(node) = &error.node
            && let Some(rest) = why.strip_prefix(node.as_str())
            && let Some(rest) = rest.strip_prefix(": ")
        {
            why = rest.to_owned();
        }
        if error.code.as_deref() == Some(WRONG_TYPE) {
            why.push_str("; the name is in use, by another kind of lock or by what is none: choose another, or look with TYPE whose it is");
        }
        LockError {
            kind,
            action,
            lock: lock.to_owned(),
            node: error.node,
            attempt: error.attempt,
            server_code: error.code.filter(|code| is_of_a_server(code)),
            why,
        }
    }

    /// As `at_node`; failed or unknown, as the node's error says.
    pub(crate) fn from_write(action: &'static str, lock: &str, error: NodeError) -> Self {
        let kind = if error.definite { ErrorKind::Failed } else { ErrorKind::Unknown };
        LockError::at_node(kind, action, lock, error)
    }

    /// As `from_write`, for a read-only request: without an answer it has failed, and nothing is unknown.
    pub(crate) fn from_read(action: &'static str, lock: &str, error: NodeError) -> Self {
        LockError::at_node(ErrorKind::Failed, action, lock, error)
    }

    /// The worst of several errors, of two alike the first: unknown before all others, `least` last.
    pub(crate) fn worst(errors: impl IntoIterator<Item = Self>, least: ErrorKind) -> Option<Self> {
        errors.into_iter().min_by_key(|error| match error.kind {
            ErrorKind::Unknown => 0,
            kind => 1 + u8::from(kind == least),
        })
    }

    /// The name of the [class](LockError::kind), for logs, metrics and other languages: `busy`, `not-held`,
    /// `failed`, `unknown`, `not-durable` or `invalid`. New versions may add others, and never change these.
    pub fn code(&self) -> &'static str {
        self.kind.name()
    }

    /// The first word of the server's refusal, where a server refused: `NOREPLICAS`, `OOM`, `NOAUTH`,
    /// `READONLY` …
    pub fn server_code(&self) -> Option<&str> {
        self.server_code.as_deref()
    }

    /// The class.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if the operation certainly had no lasting effect.
    pub fn is_definite(&self) -> bool {
        self.kind != ErrorKind::Unknown
    }

    /// The lock's name; empty where no lock is concerned (connecting).
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// The node, where one is concerned.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// How many times it was tried, from 1; 0 if nothing was sent.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// `Invalid` outside of a Tokio runtime.
pub(crate) fn refuse_outside_of_tokio(action: &'static str, lock: &str) -> Result<(), LockError> {
    clock::outside_of_tokio().map_or(Ok(()), |why| Err(LockError::invalid(action, lock, why)))
}

/// What is given back although nobody can wait for the answer.
pub(crate) fn in_the_background(action: &'static str, lock: &str, why: &str) -> LockError {
    let why = format!("{why}; it is given back in the background");
    LockError::local(ErrorKind::Unknown, action, lock, why)
}

/// Whether a server sends this code. The other codes are this crate's own, for errors without a reply.
fn is_of_a_server(code: &str) -> bool {
    ![CLOSED, MAX_CLIENTS, RESTARTED, UNREADABLE].contains(&code)
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}", self.action)?;
        if !self.lock.is_empty() {
            write!(f, " {:.200}", self.lock)?;
        }
        if let Some(node) = &self.node {
            write!(f, " at {node}")?;
        }
        write!(f, ": {}", self.why)?;
        if self.attempt > 1 {
            write!(f, " (attempt {})", self.attempt)?;
        }
        Ok(())
    }
}

impl std::error::Error for LockError {}
