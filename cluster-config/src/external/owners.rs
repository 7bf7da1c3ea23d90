//! Refuses to run servers that are somebody else's.

use async_trait::async_trait;
use nix::sys::signal::Signal;

use crate::layout::PlannedNode;
use crate::runner::Runner;
use crate::{ClusterError, ProcessId};

/// Their owner runs them; from here they can only be talked to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owners;

fn refused(node: &str) -> ClusterError {
    ClusterError::new(format!(
        "{node} is somebody else's server: it is neither started nor stopped from here; give a command for it in [hooks]"
    ))
}

#[async_trait]
impl Runner for Owners {
    async fn start(&self, node: &PlannedNode) -> Result<Option<ProcessId>, ClusterError> {
        Err(refused(&node.name))
    }

    fn ended(&self, _node: &str) -> Option<String> {
        None
    }

    fn pid(&self, _node: &str) -> Option<u32> {
        None
    }

    fn state(&self, _node: &str) -> Option<char> {
        None
    }

    fn signal(&self, node: &str, _signal: Signal) -> Result<(), ClusterError> {
        Err(refused(node))
    }

    async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        Err(refused(node))
    }

    fn end(&self) -> Result<(), ClusterError> {
        Ok(())
    }
}
