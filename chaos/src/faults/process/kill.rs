//! SIGKILL to servers or clients; they come back when the fault ends, with the data that their configuration
//! saved.

use std::net::SocketAddr;
use std::time::Duration;

use cluster_config::{Data, process_state};
use tokio::net::TcpStream;

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, HookEvidence, Proof, Target, TargetKind};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "kill",
    about: "SIGKILL; comes back when `for` ends, with the data that its configuration saved",
    hits: TargetKind::Process,
    any_system: true,
    stays_down: true,
    shows: HookEvidence::Gone,
    recovers: true,
    ..FaultKind::of(&Kill)
};

struct Kill;

impl OnEach for Kill {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let process = |pid: Option<u32>| pid.map_or("its process".to_owned(), |pid| format!("process {pid}"));
        match at.target {
            Target::Node(name) => {
                let pid = process(at.deployment().pid(name));
                let address = at.deployment().node(name)?.address;
                at.deployment().kill(name).await?;
                let gone = at.deployment().pid(name).is_none();
                let refused = refuses(address).await;
                let is = if gone { "gone" } else { "still there" };
                let does = if refused { "refuses" } else { "does not refuse" };
                Ok(proof!(gone && refused, "{name}: {pid} is {is}, and {address} {does} connections"))
            }
            Target::Client(number) => {
                let pid = process(at.world.clients.pid(*number));
                let members = at.world.clients.members(*number);
                at.world.clients.kill(*number).await?;
                let left = members.iter().filter(|member| process_state(member.pid).is_some());
                let gone = at.world.clients.pid(*number).is_none() && left.count() == 0;
                let are = match members.len() {
                    0 | 1 => "is".to_owned(),
                    all => format!("and {} that it started are", all - 1),
                };
                Ok(proof!(gone, "c{number}: {pid} {are} gone"))
            }
            Target::Link(..) => Err(failed!("a link has no process")),
        }
    }

    async fn undo(at: TargetContext<'_>, _: &mut Proof) -> Result<(), FaultError> {
        start_again(at.world, at.target).await
    }
}

pub(crate) async fn start_again(world: &FaultWorld, target: &Target) -> Result<(), FaultError> {
    match target {
        Target::Node(name) => Ok(world.deployment.start(name, Data::Keep).await?),
        Target::Client(number) => world.clients.restart(*number).await,
        Target::Link(..) => Ok(()),
    }
}

async fn refuses(address: SocketAddr) -> bool {
    let attempt = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address));
    matches!(attempt.await, Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}
