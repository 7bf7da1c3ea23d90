//! Commands that start and stop servers: *Servers*.
//!
//! | file | what it is for |
//! |---|---|
//! | `up.rs`, `ps.rs`, `down.rs` | servers by themselves: started, listed, stopped |
//! | `proxy.rs` | the fault proxy by itself |
//! | `kube/` | parts of a plan on Kubernetes |

pub(crate) mod down;
#[cfg(feature = "kube")]
pub(crate) mod kube;
pub(crate) mod proxy;
pub(crate) mod ps;
pub(crate) mod up;
