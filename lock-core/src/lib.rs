//! Distributed locks on Redis, in the wire format of the Redisson family.
mod acquire;
mod background;
mod client;
mod durability;
mod error;
mod gate;
mod guard;
mod hold;
mod kind;
mod lock;
mod names;
mod options;
mod quorum;
mod release;
mod servers;
mod target;
mod topology;
mod watchdog;

pub use client::{AddressMap, Client, ClientOptions, ClientStats};
pub use durability::{Durability, UnknownDurability};
pub use error::{ErrorKind, LockError};
pub use guard::{Guard, GuardEvent, GuardEvents, LostReason, Released};
pub use kind::{Kind, UnknownKind};
pub use lock::{Acquire, Lease, Lock, Owner, Wait};
pub use target::{Endpoint, Shape, Target, TargetError};
pub use topology::slot;
