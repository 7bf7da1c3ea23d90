//! What everything of one client shares: identity, connections, what holds and waiters have in common.

use std::fmt;
use std::sync::{Arc, Weak};

use tokio_util::task::TaskTracker;

use crate::client::background::Background;
use crate::client::options::ClientOptions;
use crate::client::target::TopologyKind;
use crate::diagnostics::concern::Concern;
use crate::hold::Hold;
use crate::hold::acquire_options::Owner;
use crate::hold::guarded::Guarded;
use crate::hold::pending_releases::PendingReleases;
use crate::hold::renewals::RenewalQueue;
use crate::locks::lock_inner::LockInner;
use crate::servers::server_clock::ServerClock;
use crate::topology::Route;
use crate::waiting::contended_locks::ContendedLocks;
use crate::waiting::gate::Gates;
use crate::waiting::queue::WaitQueues;

pub(crate) struct ClientCore {
    pub(crate) id: String,
    pub(crate) options: ClientOptions,
    pub(crate) shape: TopologyKind,
    /// Which servers, named alike by clients that name them alike.
    pub(crate) set: String,
    pub(crate) concerns: Vec<Concern>,
    pub(crate) routes: Arc<[Arc<Route>]>,
    pub(crate) gates: Gates,
    pub(crate) turns: ContendedLocks,
    pub(crate) wait_queues: WaitQueues,
    pub(crate) renewals: Arc<RenewalQueue<Hold>>,
    /// Holds and permits of semaphores for which a guard is responsible, which alone keeps them alive.
    pub(crate) guarded: Guarded<Weak<Hold>>,
    pub(crate) guarded_permits: Guarded<(Weak<LockInner>, u32)>,
    /// Undos under way of what no lease ends.
    pub(crate) undos: TaskTracker,
    pub(crate) background: Background,
    pub(crate) returns: Arc<PendingReleases>,
    pub(crate) server_clock: ServerClock,
}

/// Every guard, lock and hold has it, so that it says no more than which client it is.
impl fmt::Debug for ClientCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("servers", &self.set).finish_non_exhaustive()
    }
}

impl ClientCore {
    pub(crate) fn owner_text(&self, owner: Owner) -> String {
        [&self.id, ":", itoa::Buffer::new().format(owner.number())].concat()
    }

    /// Where everything of one server set lives.
    pub(crate) fn route(&self) -> &Arc<Route> {
        &self.routes[0]
    }
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        self.renewals.close();
    }
}
