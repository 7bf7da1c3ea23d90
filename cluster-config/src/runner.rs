//! The seam between a deployment and what its servers run in: processes of this machine, containers of an engine.

use std::fmt::Debug;
use std::path::PathBuf;

use async_trait::async_trait;
use nix::sys::signal::Signal;

use crate::layout::PlannedNode;
use crate::{ClusterError, ProcessId};

/// What starts, signals and ends the servers of one deployment. Names are those of its planned nodes.
#[async_trait]
pub(crate) trait Runner: Debug + Send + Sync {
    /// Starts the server of a node that is not running; returns its process where this machine can see it.
    async fn start(&self, node: &PlannedNode) -> Result<Option<ProcessId>, ClusterError>;

    /// Another program for a node, from its next start on.
    fn run_from_now_on(&self, node: &str, _program: PathBuf) -> Result<(), ClusterError> {
        Err(failed!(
            "{node} is a container, which runs what its image has; only servers that are processes of this machine can change"
        ))
    }

    /// How the server of a node ended, by itself or by a signal; `None` while it runs, and before it was started.
    fn ended(&self, node: &str) -> Option<String>;

    /// The process number of a running server.
    fn pid(&self, node: &str) -> Option<u32>;

    /// The state letter of `/proc/<pid>/stat` of a running server.
    fn state(&self, node: &str) -> Option<char>;

    /// Sends SIGSTOP or SIGCONT; returns when it was sent.
    fn signal(&self, node: &str, signal: Signal) -> Result<(), ClusterError>;

    /// Sends SIGKILL; returns when it was sent.
    async fn kill(&self, node: &str) -> Result<(), ClusterError>;

    /// Takes a server off its network, or puts it back: only where it has a network of its own.
    async fn plug(&self, node: &str, _in_again: bool) -> Result<(), ClusterError> {
        Err(failed!(
            "{node} has no network of its own that it could be taken off; only containers with published ports have, one by one"
        ))
    }

    /// Ends every server and waits until all are gone. Afterwards nothing can be started any more.
    fn end(&self) -> Result<(), ClusterError>;
}
