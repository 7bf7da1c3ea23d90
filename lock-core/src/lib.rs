//! Distributed locks on Redis, in the wire format of the Redisson family.
mod client;
mod durability;
mod error;
mod guard;
mod kind;
mod lock;
mod target;
mod topology;

pub use client::{AddressMap, Client, ClientOptions, ClientStats};
pub use durability::Durability;
pub use error::{ErrorKind, LockError};
pub use guard::{Guard, GuardEvent, GuardEvents, LostReason, Released};
pub use kind::Kind;
pub use lock::{Acquire, Lease, Lock, Owner, Wait};
pub use target::{Endpoint, Shape, Target, TargetError};
pub use topology::slot;
