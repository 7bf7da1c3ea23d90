//! What scenarios need of servers beyond what `cluster-config` starts.
//!
//! | file | what it is for |
//! |---|---|
//! | `shim.rs`, `names.rs` | how clocks and disks of processes are wrong; what the names of servers mean |
//! | `members.rs`, `replica_lag.rs` | what a cluster node says of the others; how far replicas are behind |
//! | `bench_servers.rs`, `target_servers.rs` | servers of our own for a benchmark; somebody's servers by URL |
//! | `hooks.rs`, `external.rs`, `other_system.rs` | commands of a user for faults; servers of somebody else; servers that are not Redis |

pub mod bench_servers;
pub mod external;
pub mod hooks;
pub(crate) mod members;
pub mod names;
pub mod other_system;
pub mod replica_lag;
pub mod shim;
pub mod target_servers;
