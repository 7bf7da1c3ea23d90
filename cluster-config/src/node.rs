//! The words for the parts of a running topology: nodes, their roles, and the two ends of a link.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::access::Dial;
use crate::input::named_choices::words;

words! {
    /// The job of a node when it was started; failovers change who is master (see
    /// [`Deployment::roles`](crate::Deployment::roles)).
    pub enum Role {
        /// Accepts writes.
        Master = "master",
        /// Copies a master.
        Replica = "replica",
        /// Watches masters and promotes replicas.
        Sentinel = "sentinel",
    }
}

/// One running server. `n1` is the first master; masters first, then replicas, then sentinels (`s1`…).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `n1`, `s1`.
    pub name: String,
    /// Role at start.
    pub role: Role,
    /// Where it really listens.
    pub address: SocketAddr,
    /// What it announces: `address`, or its proxy.
    pub announced: SocketAddr,
    /// Its log file.
    pub log: PathBuf,
    /// How the harness reaches it.
    pub dial: Dial,
}

/// What a restart does with the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The disk survived: the server loads whatever its configuration made it write.
    Keep,
    /// The disk is lost: data files are gone. Who the node is survives (its configuration, `nodes.conf`),
    /// since an operator who swaps a disk brings the same node back.
    Lose,
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// A server by name.
    Node(String),
    /// A client process by number, from 1. 0 is a client whose process nobody named.
    Client(u32),
}
