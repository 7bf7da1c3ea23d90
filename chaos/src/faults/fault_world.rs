//! What faults act on: the deployment, and the client processes as far as faults may know them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::exec::Member;
use cluster_config::{ClusterError, Deployment};

use super::{FaultError, Target};
use crate::polling::until;
use crate::servers::names::Names;
use crate::servers::shim::{Page, Shims};

/// What a fault may do to client processes. Clients count from 1.
#[async_trait]
pub trait ClientControl: Send + Sync {
    /// First process of a client; `None` if it is dead.
    fn pid(&self, client: u32) -> Option<u32>;
    /// All of its processes that run.
    fn members(&self, client: u32) -> Vec<Member>;
    /// Stops its tasks at their next step, then its processes; a second time those started meanwhile.
    fn pause(&self, client: u32) -> Result<(), FaultError>;
    /// The undo of `pause`: the processes go on, then its tasks. Nothing happens to a dead client.
    fn resume(&self, client: u32);
    /// SIGKILL; its tasks end. Returns when its processes are gone.
    async fn kill(&self, client: u32) -> Result<(), FaultError>;
    /// A new process under the same name, with the same tasks.
    async fn restart(&self, client: u32) -> Result<(), FaultError>;
    /// Blocks what its library's own work runs on for so long, and says how long nothing ran there.
    async fn block(&self, client: u32, time: Duration) -> Result<Duration, FaultError>;
    /// The client that has held a lock for longest; `None` while nobody holds.
    fn holder(&self) -> Option<u32>;
    /// Lets its writes to the protected resource arrive so much later; zero: at once again.
    fn delay_writes(&self, client: u32, latency: Duration) -> Result<(), FaultError>;
    /// How many of its writes have arrived late so far.
    fn late_writes(&self, client: u32) -> u64;
    /// How many commands named a lock, and could have been of several roles.
    fn unclear(&self) -> u64;
    /// How many clients there are.
    fn count(&self) -> u32;
}

/// Everything that faults act on.
pub struct FaultWorld {
    /// The servers.
    pub deployment: Arc<Deployment>,
    /// The clients.
    pub clients: Arc<dyn ClientControl>,
    /// The locks of the load.
    pub locks: Vec<String>,
    /// Control pages of servers and clients, where the plan has a fault that needs them.
    pub shims: Option<Arc<Shims>>,
    /// What the names of servers mean to clients, where the plan has a fault that needs them.
    pub names: Option<Arc<Names>>,
}

/// A server that is started again may take so long to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);

impl FaultWorld {
    /// One command to a server, as [`Deployment::command`]. A server that refuses connections, because
    /// another fault has just started it again, is waited for; one that goes on refusing is an error as ever.
    pub(super) async fn command(&self, node: &str, args: &[&str]) -> Result<String, FaultError> {
        // With the command itself: a connection that only tries could be counted among the clients.
        let ask = || async {
            let answer = self.deployment.command(node, args).await;
            (!matches!(answer, Err(ClusterError::Refused(_)))).then_some(answer)
        };
        match until(LISTENS_WITHIN, Duration::from_millis(20), ask).await {
            Some(answer) => Ok(answer?),
            None => Ok(self.deployment.command(node, args).await?),
        }
    }

    /// The control page of a target that is a process with the shim in it.
    pub(super) fn page(&self, target: &Target) -> Result<&Page, FaultError> {
        let page = self
            .shims
            .as_ref()
            .and_then(|shims| shims.page(&target.to_string()))
            .ok_or_else(|| failed!("{target} was started without the shim"))?;
        match page.attached() {
            Ok(0) => Err(failed!(
                "{target} has not loaded the shim: its program is linked statically, or the system forbids preloading"
            )),
            Ok(_) => Ok(page),
            Err(error) => Err(unwritable(target, &error)),
        }
    }
}

pub(super) fn unwritable(target: &Target, error: &std::io::Error) -> FaultError {
    failed!("the control page of {target}: {error}")
}
