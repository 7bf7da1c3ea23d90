//! Writes of a client to the protected resource arrive late: packets that overtake nobody and are held up on their way.
//!
//! The resource is in the harness's memory, so no proxy lies before it: the way from each client to it is told to take longer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::each::{Evidence, OnEach};
use super::{
    FaultError, FaultKind, Hits, Injection, Proof, SettingKind, SettingSpec, Target, World,
    settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "late-writes",
    about: "what a client writes to the protected resource arrives later, also when its hold is over by then",
    hits: Hits::CLIENT,
    settings: &[SettingSpec::required(
        "latency",
        SettingKind::Duration,
        "how much later",
    )],
    colour: "#ca6f1e",
    ..FaultKind::of(&LateWrites)
};

struct LateWrites;

/// A client, and how many of its writes had been late before.
struct Slowed {
    client: u32,
    late_before: u64,
}

#[async_trait]
impl OnEach for LateWrites {
    type Kept = Slowed;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<Slowed, FaultError> {
        let latency = settings::time(&injection.with, "latency").unwrap_or_default();
        let Target::Client(client) = *target else {
            return Err(FaultError(format!("{target} writes to no resource")));
        };
        let late_before = world.clients.late_writes(client);
        world.clients.delay_writes(client, latency)?;
        Ok(Slowed {
            client,
            late_before,
        })
    }

    fn undo_now(world: &World, _: &Target, kept: &Slowed) -> Result<(), FaultError> {
        // One that died writes no more.
        let _ = world.clients.delay_writes(kept.client, Duration::ZERO);
        Ok(())
    }
}

impl Evidence for Slowed {
    fn proof(&self, world: &World, target: &Target) -> Proof {
        let late = world.clients.late_writes(self.client);
        let late = late.saturating_sub(self.late_before);
        Proof::of(late > 0, format!("{late} writes of {target} arrived late"))
    }

    fn comes_late(&self) -> bool {
        true
    }
}
