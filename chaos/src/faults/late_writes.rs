//! Writes of a client to the protected resource arrive late: packets that overtake nobody and are held up on their way.
//!
//! The resource is in the harness's memory, so no proxy lies before it: the way from each client to it is told to take longer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof,
    SettingKind, SettingSpec, Target, World, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "late-writes",
    about: "what a client writes to the protected resource arrives later, also when its hold is over by then",
    hits: Hits::CLIENT,
    settings: &[SettingSpec {
        name: "latency",
        about: "how much later",
        kind: SettingKind::Duration,
        required: true,
    }],
    colour: "#ca6f1e",
    ..FaultKind::of(&LateWrites)
};

struct LateWrites;

#[async_trait]
impl Fault for LateWrites {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let latency = settings::time(&injection.with, "latency").unwrap_or_default();
        let mut guard = Slow {
            world: world.clone(),
            clients: Vec::new(),
        };
        for target in &injection.targets {
            let Target::Client(client) = target else {
                return Err(FaultError(format!("{target} writes to no resource")));
            };
            let before = world.clients.late_writes(*client);
            world.clients.delay_writes(*client, latency)?;
            guard.clients.push((*client, before));
        }
        Ok(Box::new(guard))
    }
}

struct Slow {
    world: Arc<World>,
    /// Each client, and how many of its writes had been late before.
    clients: Vec<(u32, u64)>,
}

impl Slow {
    fn undo(&self) {
        for (client, _) in &self.clients {
            // One that died writes no more.
            let _ = self.world.clients.delay_writes(*client, Duration::ZERO);
        }
    }
}

#[async_trait]
impl FaultGuard for Slow {
    fn proof(&self) -> Proof {
        Proof::all(self.clients.iter().map(|(client, before)| {
            let late = self.world.clients.late_writes(*client);
            let late = late.saturating_sub(*before);
            Proof::of(late > 0, format!("{late} writes of c{client} arrived late"))
        }))
    }

    fn awaits_evidence(&self) -> bool {
        !self.proof().bit
    }

    async fn heal(self: Box<Self>) -> Healed {
        self.undo();
        Healed {
            proof: self.proof(),
            failed: None,
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.undo();
    }
}
