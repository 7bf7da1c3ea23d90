//! A server is killed and started again, with its data or without, once.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::Data;

use super::{
    Done, Fault, FaultError, FaultKind, Hits, Injected, Injection, Proof, SettingKind, SettingSpec,
    Shows, World, nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "restart",
    about: "SIGKILL and start again, once; by default its configuration decides what survives",
    hits: Hits::NODE,
    settings: &[
        SettingSpec::optional(
            "data",
            SettingKind::OneOf(&["keep", "lose"]),
            "`keep` the data directory, or `lose` it; default keep",
        ),
        SettingSpec::optional(
            "after",
            SettingKind::Duration,
            "how long it stays away; default 0s",
        ),
    ],
    one_shot: true,
    shows: Shows::Gone,
    recovers: true,
    ..FaultKind::of(&Restart)
};

struct Restart;

/// A process for a person to read.
fn number(pid: Option<u32>) -> String {
    pid.map_or("nobody's".to_owned(), |pid| pid.to_string())
}

#[async_trait]
impl Fault for Restart {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let data = match settings::text(&injection.with, "data") {
            Some("lose") => Data::Lose,
            _ => Data::Keep,
        };
        let away = settings::time(&injection.with, "after").unwrap_or_default();
        let deployment = &world.deployment;
        let restarts = nodes(injection).map(|name| async move {
            let before = deployment.pid(name);
            deployment.kill(name).await?;
            tokio::time::sleep(away).await;
            deployment.start(name, data).await?;
            let after = deployment.pid(name);
            Ok::<_, FaultError>(proof!(
                before.is_some() && after.is_some() && before != after,
                "{name}: process {} became {}",
                number(before),
                number(after)
            ))
        });
        let proofs: Result<Vec<Proof>, FaultError> = futures_util::future::join_all(restarts)
            .await
            .into_iter()
            .collect();
        Ok(Box::new(Done(Proof::all(proofs?))))
    }
}
