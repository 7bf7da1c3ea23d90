//! The wall clock of a server or a client is wrong: it jumps, or runs too fast or too slow. The monotonic clock stays right, and so does
//! the record, which is stamped with it.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use cluster_config::Topology;

use super::world::unwritable;
use super::{
    Fault, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, SettingKind,
    SettingSpec, Target, World, settings,
};
use crate::scenario::{On, Settings};
use crate::shim::{Page, Skew};

pub(super) const KIND: FaultKind = FaultKind {
    name: "clock",
    about: "the wall clock jumps, or runs too fast or too slow, until `for` ends; then it is set right again",
    hits: Hits::PROCESS,
    settings: &[
        SettingSpec {
            name: "jump",
            about: "how far, forwards or backwards, such as `5s` or `-5s`",
            kind: SettingKind::Shift,
            required: false,
        },
        SettingSpec {
            name: "drift",
            about: "how much too fast, such as `2%` or `-0.5%`",
            kind: SettingKind::Percent,
            required: false,
        },
    ],
    colour: "#b7950b",
    ..FaultKind::of(&Clock)
};

struct Clock;

#[async_trait]
impl Fault for Clock {
    fn allowed(&self, _topology: &Topology, _on: &On, with: &Settings) -> Result<(), String> {
        if with.is_empty() {
            return Err(
                "`clock` needs `jump`, `drift` or both, such as with = { jump = \"-5s\" }"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn needs_shim(&self) -> bool {
        true
    }

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let skew = Skew {
            offset_ns: settings::shift_ns(&injection.with, "jump").unwrap_or(0),
            drift_ppb: settings::percent_ppb(&injection.with, "drift").unwrap_or(0),
        };
        // From here on the guard sets right what an error leaves half done.
        let mut guard = Wrong {
            world: world.clone(),
            skew,
            since: Instant::now(),
            targets: Vec::new(),
            proofs: Vec::new(),
        };
        for target in &injection.targets {
            let page = world.page(target)?;
            let reads = page
                .skewed_reads()
                .map_err(|error| unwritable(target, &error))?;
            guard.targets.push(Wronged {
                target: target.clone(),
                reads,
                shimmed: has_shim(world, target, page),
            });
            page.set_skew(skew)
                .map_err(|error| unwritable(target, &error))?;
        }
        if skew.offset_ns != 0 {
            for wronged in &guard.targets {
                guard
                    .proofs
                    .push(seen(world, &wronged.target, skew, guard.since).await);
            }
        }
        Ok(Box::new(guard))
    }
}

/// Whether the process that is a client was seen with the shim in it. A server is asked for the time instead.
fn has_shim(world: &World, target: &Target, page: &Page) -> bool {
    match target {
        Target::Client(number) => world
            .clients
            .pid(*number)
            .is_some_and(|pid| page.is_with(pid)),
        _ => false,
    }
}

/// Asks a server what time it is. A client cannot be asked: that its process has loaded the shim must do.
async fn seen(world: &World, target: &Target, skew: Skew, since: Instant) -> Proof {
    let Target::Node(name) = target else {
        return Proof::of(true, String::new());
    };
    let wanted_ns = wanted_ns(skew, since);
    let answer = world.deployment.command(name, &["TIME"]).await;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match answer.map(|answer| microseconds(&answer)) {
        Ok(Some(us)) => {
            let off_ns = us * 1000 - i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
            // Asking takes a while, and on a busy machine a long one; a jump that was not made is further off than that.
            let bit = (off_ns - wanted_ns).abs() < wanted_ns.abs() / 2;
            Proof::of(
                bit,
                format!("{name}: its clock is {} ms off", off_ns / 1_000_000),
            )
        }
        Ok(None) => Proof::of(false, format!("{name} does not say what time it is")),
        Err(error) => Proof::of(false, format!("{name} was not asked for the time: {error}")),
    }
}

fn microseconds(answer: &str) -> Option<i128> {
    let mut lines = answer.lines();
    let seconds: i128 = lines.next()?.trim().parse().ok()?;
    let us: i128 = lines.next()?.trim().parse().ok()?;
    Some(seconds * 1_000_000 + us)
}

fn wanted_ns(skew: Skew, since: Instant) -> i128 {
    let passed_ns = i128::try_from(since.elapsed().as_nanos()).unwrap_or(i128::MAX);
    i128::from(skew.offset_ns) + passed_ns * i128::from(skew.drift_ppb) / 1_000_000_000
}

struct Wrong {
    world: Arc<World>,
    skew: Skew,
    since: Instant,
    targets: Vec<Wronged>,
    proofs: Vec<Proof>,
}

/// Whose clock is wrong.
struct Wronged {
    target: Target,
    /// How often its wrong clock had been read before.
    reads: u64,
    /// The shim was seen in its process.
    shimmed: bool,
}

impl Wrong {
    fn set_right(&self) -> Vec<String> {
        self.targets
            .iter()
            .filter_map(|Wronged { target, .. }| {
                let page = self.world.page(target).ok()?;
                let error = page.set_skew(Skew::default()).err()?;
                Some(unwritable(target, &error).to_string())
            })
            .collect()
    }
}

#[async_trait]
impl FaultGuard for Wrong {
    fn proof(&self) -> Proof {
        let mut parts = self.proofs.clone();
        for wronged in &self.targets {
            let target = &wronged.target;
            let reads = self
                .world
                .page(target)
                .ok()
                .and_then(|page| page.skewed_reads().ok())
                .map_or(0, |now| now.saturating_sub(wronged.reads));
            // A server reads the clock all the time. A lock that never does is a good one, and its clock was wrong all the same.
            let bit = reads > 0 || wronged.shimmed;
            let why = match bit {
                true => "",
                false => {
                    ", and the shim is not in its process: its program is linked statically, or its environment was changed"
                }
            };
            parts.push(Proof::of(
                bit,
                format!("{target}: the wrong clock was read {reads} times{why}"),
            ));
        }
        parts.retain(|part| !part.words.is_empty());
        Proof::all(parts)
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        if self.skew.offset_ns == 0 {
            // A drift shows only after a while.
            for Wronged { target, .. } in &self.targets {
                let proof = seen(&self.world, target, self.skew, self.since).await;
                self.proofs.push(proof);
            }
        }
        let proof = self.proof();
        let failed = self.set_right();
        Healed::with(proof, &failed)
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        self.set_right();
    }
}
