//! Servers in simulated time for work without a plan, which breaks them itself.

use std::{sync::Arc, time::Duration};

use bench::subject::{ConnectTo, Connected, SubjectError, counted_durability};
use bench::subjects;
use cluster_config::Topology;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::network::Network;
use crate::runtime::process::Process;
use crate::runtime::system;
use crate::server::Loss;
use crate::{client, run};

/// How long a message is under way: in one room.
const LATENCY: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(900));
/// Sentinels ask again so often who is there: a replica that came after the first time is known then.
const KNOWN: Duration = Duration::from_secs(11);

/// Servers that run, and the network between them and clients.
pub struct SimulatedServers {
    network: Arc<Network>,
    topology: Topology,
}

/// Does work with servers of its own. As of [`run::run`], process and thread are of no use afterwards: see
/// [`swarm`](crate::swarm).
pub fn run<T>(topology: &Topology, seed: u64, work: impl AsyncFnOnce(SimulatedServers) -> T) -> T {
    system::enter(seed);
    let runtime = system::runtime();
    let done = runtime.block_on(async {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let hosts = run::hosts(topology, &mut random);
        let network = Network::new(random.random(), LATENCY, hosts, None);
        tokio::spawn(Arc::clone(&network).carry());
        let _left = run::begin(&network, topology.kind).await;
        tokio::time::sleep(KNOWN).await;
        let topology = topology.clone();
        work(SimulatedServers { network, topology }).await
    });
    system::leave();
    // What is left goes with the process.
    std::mem::forget(runtime);
    done
}

impl SimulatedServers {
    /// Connects a client of a subject, as a process of its own.
    pub async fn connect(&self, subject: &str, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let target = run::target(&self.topology, false);
        let durability = counted_durability(&to.durability, &target, self.topology.replicas);
        let to = ConnectTo::new(&target, &to.client, to.seed, &durability);
        client::connect(&subjects::find(subject)?, &to, &Process::new(&to.client)).await
    }

    /// Everything from one server to another arrives later from now on.
    pub fn be_late(&self, from: &str, to: &str, by: Duration) {
        let way = (from.into(), to.into());
        (self.network).with(|state| state.delay(&way, (by, Duration::ZERO), true));
    }

    /// Nothing from one server to another arrives any more.
    pub fn cut(&self, from: &str, to: &str) {
        (self.network).with(|state| state.cut(&(from.into(), to.into()), true));
    }

    /// Kills a server.
    pub fn kill(&self, node: &str) {
        (self.network).with(|state| state.end_process(node, Loss::Process));
    }

    /// Starts it again.
    pub fn start(&self, node: &str) {
        (self.network).with(|state| state.start_process(node));
    }
}
