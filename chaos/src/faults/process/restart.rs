//! A server is killed and started again, with its data or without, once.

use cluster_config::Data;

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, HookEvidence, Proof, SettingKind, SettingSpec};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "restart",
    about: "SIGKILL and start again, once; by default its configuration decides what survives",
    settings: &[
        SettingSpec::optional("data", SettingKind::OneOf(&["keep", "lose"]))
            .about("`keep` the data directory, or `lose` it; default keep"),
        SettingSpec::optional("after", SettingKind::Duration).about("how long it stays away; default 0s"),
    ],
    any_system: true,
    one_shot: true,
    shows: HookEvidence::Gone,
    recovers: true,
    ..FaultKind::of(&Restart)
};

struct Restart;

impl OnEach for Restart {
    type Kept = Proof;
    const TOGETHER: bool = true;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (name, deployment) = (at.node()?, at.deployment());
        let data = if at.text("data") == Some("lose") { Data::Lose } else { Data::Keep };
        let before = deployment.pid(name);
        deployment.kill(name).await?;
        tokio::time::sleep(at.time("after").unwrap_or_default()).await;
        deployment.start(name, data).await?;
        let after = deployment.pid(name);
        let number = |pid: Option<u32>| pid.map_or("nobody's".to_owned(), |pid| pid.to_string());
        Ok(proof!(
            before.is_some() && after.is_some() && before != after,
            "{name}: process {} became {}",
            number(before),
            number(after)
        ))
    }
}
