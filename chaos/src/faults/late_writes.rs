//! Writes of a client to the protected resource arrive late: packets that overtake nobody and are held up on their way.
//!
//! The resource is in the harness's memory, so no proxy lies before it: the way from each client to it is told to take longer.

use std::time::Duration;

use super::each::{At, Evidence, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, SettingKind, SettingSpec, Target};

pub(super) const KIND: FaultKind = FaultKind {
    name: "late-writes",
    about: "what a client writes to the protected resource arrives later, also when its hold is over by then",
    hits: Hits::CLIENT,
    settings: &[SettingSpec::required(
        "latency",
        SettingKind::Duration,
        "how much later",
    )],
    ..FaultKind::of(&LateWrites)
};

struct LateWrites;

/// A client, and how many of its writes had been late before.
struct Slowed {
    client: u32,
    late_before: u64,
}

impl OnEach for LateWrites {
    type Kept = Slowed;

    async fn harm(at: At<'_>) -> Result<Slowed, FaultError> {
        let latency = at.time("latency").unwrap_or_default();
        let Target::Client(client) = *at.target else {
            return Err(failed!("{} writes to no resource", at.target));
        };
        let late_before = at.world.clients.late_writes(client);
        at.world.clients.delay_writes(client, latency)?;
        Ok(Slowed {
            client,
            late_before,
        })
    }

    fn undo_now(at: At<'_>, kept: &Slowed) -> Result<(), FaultError> {
        // One that died writes no more.
        let _ = at.world.clients.delay_writes(kept.client, Duration::ZERO);
        Ok(())
    }
}

impl Evidence for Slowed {
    fn proof(&self, at: At<'_>) -> Proof {
        let late = at.world.clients.late_writes(self.client);
        let late = late.saturating_sub(self.late_before);
        proof!(late > 0, "{late} writes of c{} arrived late", self.client)
    }

    fn comes_late(&self) -> bool {
        true
    }
}
