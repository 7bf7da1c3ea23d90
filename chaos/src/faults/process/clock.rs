//! The wall clock of a server or a client is wrong: it jumps, or runs too fast or too slow. The monotonic
//! clock stays right, and so does the record, which is stamped with it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{
    FaultError, FaultKind, FaultWorld, Proof, SettingKind, SettingSpec, Target, TargetKind, settings,
};
use crate::servers::shim::{Page, Skew};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "clock",
    about: "the wall clock jumps, or runs too fast or too slow, until `for` ends; then it is set right again",
    hits: TargetKind::Process,
    settings: &[
        SettingSpec::optional("jump", SettingKind::Shift)
            .about("how far, forwards or backwards, such as `5s` or `-5s`"),
        SettingSpec::optional("drift", SettingKind::Percent)
            .about("how much too fast, such as `2%` or `-0.5%`"),
    ],
    any_system: true,
    needs_shim: true,
    allowed: |_, _, with| match with.is_empty() {
        true => Err("`clock` needs `jump`, `drift` or both, such as with = { jump = \"-5s\" }".to_owned()),
        false => Ok(()),
    },
    ..FaultKind::of(&Clock)
};

struct Clock;

struct SkewedClock {
    skew: Skew,
    since: Instant,
    /// How often its wrong clock had been read before.
    reads: u64,
    shimmed: bool,
    seen: Option<Proof>,
}

impl OnEach for Clock {
    type Kept = SkewedClock;

    async fn harm(at: TargetContext<'_>) -> Result<SkewedClock, FaultError> {
        let skew = Skew {
            offset_ns: settings::shift_ns(&at.injection.with, "jump").unwrap_or(0),
            drift_ppb: settings::percent_ppb(&at.injection.with, "drift").unwrap_or(0),
        };
        let page = at.world.page(at.target)?;
        let mut wrong = SkewedClock {
            skew,
            since: Instant::now(),
            reads: at.on_page(Page::skewed_reads)?,
            shimmed: has_shim(at.world, at.target, page),
            seen: None,
        };
        at.on_page(|page| page.set_skew(skew))?;
        if skew.offset_ns != 0 {
            wrong.seen = seen(at.world, at.target, skew, wrong.since).await;
        }
        Ok(wrong)
    }

    async fn undo(at: TargetContext<'_>, kept: &mut SkewedClock) -> Result<(), FaultError> {
        if kept.skew.offset_ns == 0 {
            // A drift shows only after a while.
            kept.seen = seen(at.world, at.target, kept.skew, kept.since).await;
        }
        Self::undo_now(at, kept)
    }

    fn undo_now(at: TargetContext<'_>, _: &SkewedClock) -> Result<(), FaultError> {
        // A process that has gone has no clock any more.
        at.world.page(at.target).map_or(Ok(()), |_| at.on_page(|page| page.set_skew(Skew::default())))
    }
}

impl Evidence for SkewedClock {
    fn proof(&self, at: TargetContext<'_>) -> Proof {
        let (target, reads) = (at.target, at.on_page(Page::skewed_reads));
        let reads = reads.map_or(0, |now| now.saturating_sub(self.reads));
        // A lock that never reads the clock is a good one, and its clock was wrong all the same.
        let bit = reads > 0 || self.shimmed;
        let why = match bit {
            true => "",
            false => {
                ", and the shim is not in its process: its program is linked statically, or its environment was changed"
            }
        };
        let read = proof!(bit, "{target}: the wrong clock was read {reads} times{why}");
        Proof::all(self.seen.iter().cloned().chain([read]))
    }
}

/// Whether the process that is a client was seen with the shim in it; a server is asked for the time.
fn has_shim(world: &FaultWorld, target: &Target, page: &Page) -> bool {
    match target {
        Target::Client(number) => world.clients.pid(*number).is_some_and(|pid| page.is_with(pid)),
        _ => false,
    }
}

/// Asks a server of Redis what time it is. Others have no command for it, and a client cannot be asked: that
/// its process has loaded the shim must do.
pub(crate) async fn seen(world: &FaultWorld, target: &Target, skew: Skew, since: Instant) -> Option<Proof> {
    let Target::Node(name) = target else { return None };
    if !world.deployment.topology().kind.is_redis() {
        return None;
    }
    let wanted_ns = wanted_ns(skew, since);
    let answer = world.deployment.command(name, &["TIME"]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(match answer.map(|answer| microseconds(&answer)) {
        Ok(Some(us)) => {
            let off_ns = us * 1000 - i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
            // Asking takes a while, on a busy machine a long one; a jump not made is further off.
            let bit = (off_ns - wanted_ns).abs() < wanted_ns.abs() / 2;
            proof!(bit, "{name}: its clock is {} ms off", off_ns / 1_000_000)
        }
        Ok(None) => proof!(false, "{name} does not say what time it is"),
        Err(error) => proof!(false, "{name} was not asked for the time: {error}"),
    })
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
