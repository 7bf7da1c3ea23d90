//! SIGKILL to servers or clients; they come back when the fault ends, with the data that their configuration saved.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Data;
use tokio::net::TcpStream;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Shows, Target, World};

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
impl OnEach for Kill {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        let process =
            |pid: Option<u32>| pid.map_or("its process".to_owned(), |pid| format!("process {pid}"));
        match target {
            Target::Node(name) => {
                let pid = process(world.deployment.pid(name));
                let address = world.deployment.node(name)?.address;
                world.deployment.kill(name).await?;
                let gone = world.deployment.pid(name).is_none();
                let refused = refuses(address).await;
                let is = if gone { "gone" } else { "still there" };
                let does = if refused {
                    "refuses"
                } else {
                    "does not refuse"
                };
                Ok(Proof::of(
                    gone && refused,
                    format!("{name}: {pid} is {is}, and {address} {does} connections"),
                ))
            }
            Target::Client(number) => {
                let pid = process(world.clients.pid(*number));
                world.clients.kill(*number).await?;
                let gone = world.clients.pid(*number).is_none();
                Ok(Proof::of(gone, format!("{target}: {pid} is gone")))
            }
            Target::Link(..) => Err(FaultError("a link has no process".to_owned())),
        }
    }

    async fn undo(world: &World, target: &Target, _: &mut Proof) -> Result<(), FaultError> {
        start_again(world, target).await
    }
}

/// Brings back a process that is gone.
pub(super) async fn start_again(world: &World, target: &Target) -> Result<(), FaultError> {
    match target {
        Target::Node(name) => Ok(world.deployment.start(name, Data::Keep).await?),
        Target::Client(number) => world.clients.restart(*number).await,
        Target::Link(..) => Ok(()),
    }
}

/// Whether nobody listens at an address.
async fn refuses(address: SocketAddr) -> bool {
    let attempt = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address));
    matches!(attempt.await, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}
