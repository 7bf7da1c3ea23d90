//! Every sync of a server's files is late, as on a disk that is slow or busy.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::each::{Evidence, OnEach};
use super::world::unwritable;
use super::{
    FaultError, FaultKind, Hits, Injection, Proof, SettingKind, SettingSpec, Target, World,
    settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "disk",
    about: "every fsync and fdatasync of the server takes so much longer",
    hits: Hits::NODE,
    settings: &[SettingSpec::required(
        "fsync",
        SettingKind::Duration,
        "how much longer, such as 200ms",
    )],
    colour: "#935116",
    needs_shim: true,
    ..FaultKind::of(&Disk)
};

struct Disk;

/// How many syncs of a server had been late before.
struct LateBefore(u64);

#[async_trait]
impl OnEach for Disk {
    type Kept = LateBefore;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<LateBefore, FaultError> {
        let delay = settings::time(&injection.with, "fsync").unwrap_or_default();
        let page = world.page(target)?;
        let before = page.late_syncs();
        let before = before.map_err(|error| unwritable(target, &error))?;
        page.set_sync_delay(delay)
            .map_err(|error| unwritable(target, &error))?;
        Ok(LateBefore(before))
    }

    fn undo_now(world: &World, target: &Target, _: &LateBefore) -> Result<(), FaultError> {
        // A process that has gone has no delay any more.
        let page = world.page(target).ok();
        let set = page.map_or(Ok(()), |page| page.set_sync_delay(Duration::ZERO));
        set.map_err(|error| unwritable(target, &error))
    }
}

impl Evidence for LateBefore {
    fn proof(&self, world: &World, target: &Target) -> Proof {
        let page = world.page(target).ok();
        let late = page.and_then(|page| page.late_syncs().ok());
        let late = late.map_or(0, |now| now.saturating_sub(self.0));
        Proof::of(late > 0, format!("{target}: {late} syncs were late"))
    }

    fn comes_late(&self) -> bool {
        true
    }
}
