//! Writes of a client to the protected resource arrive late: packets that overtake nobody and are held up on
//! their way.
//!
//! The resource is in the harness's memory, so no proxy lies before it: the way from each client to it takes
//! longer by itself.

use std::time::Duration;

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof, SettingKind, SettingSpec, TargetKind};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "late-writes",
    about: "what a client writes to the protected resource arrives later, also when its hold is over by then",
    hits: TargetKind::Client,
    settings: &[SettingSpec::required("latency", SettingKind::Duration).about("how much later")],
    ..FaultKind::of(&LateWrites)
};

struct LateWrites;

struct LateBefore(u64);

impl OnEach for LateWrites {
    type Kept = LateBefore;

    async fn harm(at: TargetContext<'_>) -> Result<LateBefore, FaultError> {
        let (client, clients) = (at.target.client()?, &at.world.clients);
        let late_before = clients.late_writes(client);
        clients.delay_writes(client, at.time("latency").unwrap_or_default())?;
        Ok(LateBefore(late_before))
    }

    fn undo_now(at: TargetContext<'_>, _: &LateBefore) -> Result<(), FaultError> {
        // One that died writes no more.
        let _ = (at.world.clients).delay_writes(at.target.client()?, Duration::ZERO);
        Ok(())
    }
}

impl Evidence for LateBefore {
    fn proof(&self, at: TargetContext<'_>) -> Proof {
        let late = at.target.client().map(|client| at.world.clients.late_writes(client));
        let late = late.unwrap_or(0).saturating_sub(self.0);
        proof!(late > 0, "{late} writes of {} arrived late", at.target)
    }

    fn comes_late(&self) -> bool {
        true
    }
}
