//! What went wrong, on which node, and whether it is certain.
use std::fmt;
/// The class of a [`LockError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not acquired within the wait: certainly not held.
    Busy,
    /// Release or extend of a lock that this hold does not have (any more).
    NotHeld,
    /// The server refused, or could not be reached at all: certainly not done.
    Failed,
    /// The answer was lost: it may or may not have been done.
    Unknown,
    /// Fewer replicas or masters agreed than asked for; whatever was taken is being given back.
    NotDurable,
    /// A name, option or URL that cannot work.
    Invalid,
}
/// An error of a lock operation: the lock, the node, the attempt, and whether it is definite.
#[derive(Debug, Clone)]
pub struct LockError { pub(crate) kind: ErrorKind, pub(crate) lock: String, pub(crate) node: Option<String>, pub(crate) attempt: u32, pub(crate) message: String }
impl LockError { /// The class.
    pub fn kind(&self) -> ErrorKind { self.kind }
    /// True if the operation certainly had no effect.
    pub fn is_definite(&self) -> bool { self.kind != ErrorKind::Unknown } }
impl fmt::Display for LockError { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.message) } }
impl std::error::Error for LockError {}
