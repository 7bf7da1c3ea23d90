//! A lock by name: how it is asked for.
use std::time::Duration;
use crate::{durability::Durability, error::LockError, guard::Guard, kind::Kind};
/// Who holds. The same owner may hold a re-entrant lock several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub(crate) u64);
impl Owner { /// A fresh owner, never used before in this process.
    pub fn fresh() -> Self { todo!() } /// An owner that the caller numbers (`<client id>:<number>` on the wire).
    pub fn numbered(n: u64) -> Self { Owner(n) } }
/// How long an acquired lock lasts without a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease { /// Renewed by the client until released.
    Renewed, /// Exactly this long.
    Fixed(Duration) }
/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait { /// One try.
    Try, /// At most this long.
    AtMost(Duration), /// Without bound.
    Forever }
/// How a lock is asked for. Default: wait for ever, renewed lease, a fresh owner, the client's durability.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Acquire { #[allow(missing_docs)] pub wait: Wait, #[allow(missing_docs)] pub lease: Lease, #[allow(missing_docs)] pub owner: Option<Owner>, #[allow(missing_docs)] pub durability: Option<Durability> }
impl Default for Acquire { fn default() -> Self { Acquire { wait: Wait::Forever, lease: Lease::Renewed, owner: None, durability: None } } }
impl Acquire { #[allow(missing_docs)] pub fn wait(mut self, w: Wait) -> Self { self.wait = w; self }
 #[allow(missing_docs)] pub fn lease(mut self, l: Lease) -> Self { self.lease = l; self }
 #[allow(missing_docs)] pub fn owner(mut self, o: Owner) -> Self { self.owner = Some(o); self }
 #[allow(missing_docs)] pub fn durability(mut self, d: Durability) -> Self { self.durability = Some(d); self } }
/// A lock by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lock { #[allow(dead_code)] pub(crate) name: String, pub(crate) kind: Kind }
impl Lock {
    /// Its kind.
    pub fn kind(&self) -> Kind { self.kind }
    /// Acquires; `ErrorKind::Busy` when the wait ran out.
    pub async fn acquire(&self, _how: Acquire) -> Result<Guard, LockError> { todo!() }
    /// Whether anybody holds it.
    pub async fn is_locked(&self) -> Result<bool, LockError> { todo!() }
    /// Takes it away from whoever holds it; true if somebody did.
    pub async fn force_release(&self) -> Result<bool, LockError> { todo!() }
}
