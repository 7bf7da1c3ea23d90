//! SIGKILL to servers or clients; they come back when the fault ends, with the data that their configuration saved.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Data;
use tokio::net::TcpStream;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, Shows,
    Target, World,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "kill",
    about: "SIGKILL; comes back when `for` ends, with the data that its configuration saved",
    hits: Hits::PROCESS,
    colour: "#c0392b",
    stays_down: true,
    shows: Shows::Gone,
    recovers: true,
    ..FaultKind::of(&Kill)
};

struct Kill;

#[async_trait]
impl Fault for Kill {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut guard = Killed::none(world);
        for target in &injection.targets {
            guard.add(target, kill(world, target).await);
        }
        Ok(Box::new(guard))
    }
}

async fn kill(world: &World, target: &Target) -> Result<Proof, FaultError> {
    match target {
        Target::Node(name) => {
            let pid = world.deployment.pid(name);
            let address = world.deployment.node(name)?.address;
            world.deployment.kill(name).await?;
            let gone = world.deployment.pid(name).is_none();
            let refused = refuses(address).await;
            let pid = pid.map_or("its process".to_owned(), |pid| format!("process {pid}"));
            Ok(Proof::of(
                gone && refused,
                format!(
                    "{name}: {pid} is {}, and {address} {} connections",
                    if gone { "gone" } else { "still there" },
                    if refused {
                        "refuses"
                    } else {
                        "does not refuse"
                    }
                ),
            ))
        }
        Target::Client(number) => {
            let pid = world.clients.pid(*number);
            world.clients.kill(*number).await?;
            let gone = world.clients.pid(*number).is_none();
            let pid = pid.map_or("its process".to_owned(), |pid| format!("process {pid}"));
            Ok(Proof::of(gone, format!("c{number}: {pid} is gone")))
        }
        Target::Link(..) => Err(FaultError("a link has no process".to_owned())),
    }
}

/// Whether nobody listens at an address.
async fn refuses(address: SocketAddr) -> bool {
    let attempt = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address));
    matches!(attempt.await, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Processes that are gone until the heal.
pub(super) struct Killed {
    world: Arc<World>,
    dead: Vec<Target>,
    proofs: Vec<Proof>,
}

impl Killed {
    pub(super) fn none(world: &Arc<World>) -> Self {
        Self {
            world: world.clone(),
            dead: Vec::new(),
            proofs: Vec::new(),
        }
    }

    /// What failed on one target leaves the fault without proof, and the others are killed all the same.
    pub(super) fn add(&mut self, target: &Target, outcome: Result<Proof, FaultError>) {
        match outcome {
            Ok(proof) => {
                self.dead.push(target.clone());
                self.proofs.push(proof);
            }
            Err(error) => {
                let why = format!("{target}: {error}");
                self.proofs.push(Proof::of(false, why));
            }
        }
    }
}

#[async_trait]
impl FaultGuard for Killed {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(self: Box<Self>) -> Healed {
        let back = self.dead.iter().map(|target| async {
            match target {
                Target::Node(name) => self
                    .world
                    .deployment
                    .start(name, Data::Keep)
                    .await
                    .map_err(FaultError::from),
                Target::Client(number) => self.world.clients.restart(*number).await,
                Target::Link(..) => Ok(()),
            }
        });
        let failed: Vec<String> = futures_util::future::join_all(back)
            .await
            .into_iter()
            .filter_map(|outcome| outcome.err().map(|error| error.to_string()))
            .collect();
        Healed::with(self.proof(), &failed)
    }
}
