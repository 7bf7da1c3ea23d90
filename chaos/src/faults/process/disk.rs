//! Every sync of a server's files is late, as on a disk that is slow or busy.

use std::time::Duration;

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof, SettingKind, SettingSpec};
use crate::servers::shim::Page;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "disk",
    about: "every fsync and fdatasync of the server takes so much longer",
    settings: &[SettingSpec::required("fsync", SettingKind::Duration).about("how much longer, such as 200ms")],
    any_system: true,
    needs_shim: true,
    ..FaultKind::of(&Disk)
};

struct Disk;

struct LateBefore(u64);

impl OnEach for Disk {
    type Kept = LateBefore;

    async fn harm(at: TargetContext<'_>) -> Result<LateBefore, FaultError> {
        let delay = at.time("fsync").unwrap_or_default();
        let before = at.on_page(Page::late_syncs)?;
        at.on_page(|page| page.set_sync_delay(delay))?;
        Ok(LateBefore(before))
    }

    fn undo_now(at: TargetContext<'_>, _: &LateBefore) -> Result<(), FaultError> {
        // A process that has gone has no delay any more.
        at.world.page(at.target).map_or(Ok(()), |_| at.on_page(|page| page.set_sync_delay(Duration::ZERO)))
    }
}

impl Evidence for LateBefore {
    fn proof(&self, at: TargetContext<'_>) -> Proof {
        let (target, late) = (at.target, at.on_page(Page::late_syncs));
        let late = late.map_or(0, |now| now.saturating_sub(self.0));
        proof!(late > 0, "{target}: {late} syncs were late")
    }

    fn comes_late(&self) -> bool {
        true
    }
}
