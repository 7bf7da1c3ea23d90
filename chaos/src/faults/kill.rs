//! SIGKILL to servers or clients; they come back when the fault ends, with the data that their configuration saved.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Data;
use tokio::net::TcpStream;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injection, Proof, Shows, Target, World,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "kill",
    about: "SIGKILL; comes back when `for` ends, with the data that its configuration saved",
    hits: Hits::PROCESS,
    colour: "#c0392b",
    stays_down: true,
    shows: Shows::Gone,
    ..FaultKind::of(&Kill)
};

struct Kill;

#[async_trait]
impl Fault for Kill {
    async fn inject(
        &self,
        world: &Arc<World>,
        injection: &Injection,
    ) -> Result<Box<dyn FaultGuard>, FaultError> {
        let mut guard = Killed {
            world: world.clone(),
            dead: Vec::new(),
            proofs: Vec::new(),
        };
        for target in &injection.targets {
            match kill(world, target).await {
                Ok(proof) => {
                    guard.dead.push(target.clone());
                    guard.proofs.push(proof);
                }
                // The others are to be killed all the same: what failed leaves the fault without proof.
                Err(error) => guard
                    .proofs
                    .push(Proof::of(false, format!("{target}: {error}"))),
            }
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

struct Killed {
    world: Arc<World>,
    dead: Vec<Target>,
    proofs: Vec<Proof>,
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
        Healed {
            proof: self.proof(),
            failed: (!failed.is_empty()).then(|| failed.join("; ")),
        }
    }
}
