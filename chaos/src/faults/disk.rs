//! Every sync of a server's files is late, as on a disk that is slow or busy.

use std::sync::Arc;

use async_trait::async_trait;

use super::world::unwritable;
use super::{
    Fault, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, SettingKind,
    SettingSpec, Target, World, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "disk",
    about: "every fsync and fdatasync of the server takes so much longer",
    hits: Hits::NODE,
    settings: &[SettingSpec {
        name: "fsync",
        about: "how much longer, such as 200ms",
        kind: SettingKind::Duration,
        required: true,
    }],
    colour: "#935116",
    ..FaultKind::of(&Disk)
};

struct Disk;

#[async_trait]
impl Fault for Disk {
    fn needs_shim(&self) -> bool {
        true
    }

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let delay = settings::time(&injection.with, "fsync").unwrap_or_default();
        // From here on the guard sets right what an error leaves half done.
        let mut guard = Slow {
            world: world.clone(),
            since: Vec::new(),
        };
        for target in &injection.targets {
            let page = world.page(target)?;
            let before = page
                .late_syncs()
                .map_err(|error| unwritable(target, &error))?;
            guard.since.push((target.clone(), before));
            page.set_sync_delay(delay)
                .map_err(|error| unwritable(target, &error))?;
        }
        Ok(Box::new(guard))
    }
}

struct Slow {
    world: Arc<World>,
    /// Whom, and how many syncs had been late before.
    since: Vec<(Target, u64)>,
}

impl Slow {
    fn undo(&self) -> Vec<String> {
        self.since
            .iter()
            .filter_map(|(target, _)| {
                let page = self.world.page(target).ok()?;
                let error = page.set_sync_delay(std::time::Duration::ZERO).err()?;
                Some(unwritable(target, &error).to_string())
            })
            .collect()
    }
}

#[async_trait]
impl FaultGuard for Slow {
    fn proof(&self) -> Proof {
        Proof::all(self.since.iter().map(|(target, before)| {
            let late = self
                .world
                .page(target)
                .ok()
                .and_then(|page| page.late_syncs().ok())
                .map_or(0, |now| now.saturating_sub(*before));
            Proof::of(late > 0, format!("{target}: {late} syncs were late"))
        }))
    }

    fn awaits_evidence(&self) -> bool {
        !self.proof().bit
    }

    async fn heal(self: Box<Self>) -> Healed {
        let failed = self.undo();
        Healed::with(self.proof(), &failed)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.undo();
    }
}
