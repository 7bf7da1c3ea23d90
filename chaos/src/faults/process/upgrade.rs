//! A server is shut down in order and started again as another binary, with its data: an upgrade, or a change
//! to another make.
//!
//! SHUTDOWN lets replicas catch up and writes what the configuration keeps. What it does not keep is gone, as
//! with any restart.

use std::time::Duration;

use cluster_config::{Data, ProvisionerKind, Server};

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, HookEvidence, Proof, SettingKind, SettingSpec};
use crate::polling::is_so;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "upgrade",
    about: "SHUTDOWN and start again as another server, with the same data, once",
    settings: &[SettingSpec::required("server", SettingKind::Text)
        .about("what it becomes: a name of `locklab list servers`, or the path of a server binary")],
    one_shot: true,
    shows: HookEvidence::Gone,
    recovers: true,
    allowed: |topology, _, _| match topology.provisioner {
        ProvisionerKind::Process => Ok(()),
        ProvisionerKind::Container => Err(
            "`upgrade` needs servers that are processes of this machine: a container runs what its image has"
                .to_owned(),
        ),
    },
    ..FaultKind::of(&Upgrade)
};

/// A server waits up to ten seconds for replicas that lag; one that is slower is killed.
const DOWN_WITHIN: Duration = Duration::from_secs(11);

struct Upgrade;

impl OnEach for Upgrade {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (name, deployment) = (at.node()?, &at.deployment());
        let server = Server::find(at.text("server").unwrap_or_default())?;
        let before = deployment.serves(name).await?;
        deployment.upgrade(name, &server)?;
        // Its answer is the end of the connection, if it obeys.
        let _ = deployment.command(name, &["SHUTDOWN"]).await;
        let is_down = || async { deployment.pid(name).is_none() };
        if !is_so(DOWN_WITHIN, Duration::from_millis(10), is_down).await {
            deployment.kill(name).await?;
        }
        deployment.start(name, Data::Keep).await?;
        let after = deployment.serves(name).await?;
        Ok(proof!(before != after, "{name}: {before} became {after}"))
    }
}
