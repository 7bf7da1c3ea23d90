//! Turns a `load` request into a round of one of our own workloads on this driver's client, and what it came to into the answer.

use std::{sync::Arc, time::Duration};

use crate::{
    inside::{LoadReport, LoadRequest},
    subject::{ConnectTo, Subject, is_shared},
    workload::{
        self, Asks,
        record::{merge, pairs},
        round::{self, Crew, Load, SharedClient},
    },
};

/// How long an acquire waits at most: in a chain of a thousand somebody's turn may take long, and no call waits for ever.
const WAIT: Duration = Duration::from_secs(60);

/// Runs the loop; what ended it before its time is an error.
pub(super) async fn run(
    subject: Arc<dyn Subject>,
    connect: ConnectTo,
    client: SharedClient,
    asked: LoadRequest,
) -> Result<LoadReport, String> {
    let workload = workload::find(&asked.workload).map_err(|e| e.to_string())?;
    let kinds = subject.kinds();
    let kind = match asked.kind.as_str() {
        "" => kinds.first().cloned().unwrap_or_default(),
        known if kinds.iter().any(|kind| kind == known) => known.to_owned(),
        other => return Err(format!("{} has no kind `{other}`", subject.name())),
    };
    let exclusive = !is_shared(&kind);
    // Names of this client and this moment: an earlier loop's leftovers are not met.
    let own = format!("{}{}:{}:", asked.prefix, connect.client, std::process::id());
    let load = Load {
        workload,
        seed: connect.seed,
        subject,
        connect,
        tasks: asked.tasks,
        locks: (0..asked.locks).map(|n| format!("{own}{n}")).collect(),
        asks: Asks::One,
        kind,
        lease: asked.lease,
        wait: WAIT,
        hold: asked.hold,
        think: asked.think,
        warmup: asked.warmup,
        duration: asked.measure,
        pace: None,
    };
    let mut crew = Crew {
        clients: vec![client],
        events: Vec::new(),
    };
    let round = round::run(load, &mut crew, None, || false).await;
    if let Some(why) = round.cut_short {
        return Err(why);
    }
    let mut handoff = round.passed.handoff.clone();
    merge(&mut handoff, &round.passed.again);
    let seconds_of = |us: f64| Duration::from_secs_f64(us / 1e6);
    Ok(LoadReport {
        cycles: round.cycles,
        failed: round.samples.errors - round.samples.unknown,
        unknown: round.samples.unknown,
        elapsed: round.elapsed,
        client_cpu: round.spent.client_cpu_us.map(seconds_of),
        per_task: round.per_task,
        acquire: pairs(&round.samples.acquire),
        release: pairs(&round.samples.release),
        handoff: pairs(&handoff),
        handoff_other: pairs(&round.passed.handoff),
        overlap: round.judge.overlap.filter(|_| exclusive).map(|overlap| {
            let length = Duration::from_nanos(overlap.to_ns - overlap.from_ns);
            format!(
                "two holds of lock {} overlapped for {length:?}",
                overlap.lock
            )
        }),
    })
}
