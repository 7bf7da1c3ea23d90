//! A `load` request: a round of one of our own workloads on this driver's client.

use std::{sync::Arc, time::Duration};

use crate::driver_loop::{LoadReport, LoadRequest};
use crate::load::{Connector, Load, LoadTiming, SharedClient};
use crate::round::{self, Clients};
use crate::subject::{ConnectTo, Subject, is_shared};
use crate::workload::{self, CycleShape};

/// How long an acquire waits at most: in a chain of a thousand a turn takes long, and nothing waits for ever.
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
    let plan = round::Plan {
        load: Load {
            workload,
            seed: connect.seed,
            tasks: asked.tasks,
            locks: (0..asked.locks).map(|n| format!("{own}{n}")).collect(),
            mix: CycleShape::One.mix(&kind),
            together: 1,
            lease: asked.lease,
            wait: Some(WAIT),
            hold: (asked.hold, asked.hold),
            think: (asked.think, asked.think),
            ..Load::default()
        },
        asks: CycleShape::One,
        connector: Connector::new(subject, connect),
        warmup: asked.warmup,
        duration: asked.measure,
        meeting: None,
    };
    let mut clients = Clients { clients: vec![client], events: Vec::new() };
    let round = round::run(plan, &mut clients, None, || false).await;
    if let Some(why) = round.cut_short {
        return Err(why);
    }
    let mut handoff = round.passed.handoff.clone();
    handoff.merge(&round.passed.again);
    Ok(LoadReport {
        cycles: round.cycles,
        failed: round.samples.errors - round.samples.unknown,
        unknown: round.samples.unknown,
        elapsed_ns: u64::try_from(round.elapsed.as_nanos()).unwrap_or(u64::MAX),
        client_cpu_ns: round.spent.client_cpu_us.map(|us| (us * 1e3) as u64),
        per_task: round.per_task,
        acquire: round.samples[LoadTiming::Acquire].pairs(),
        release: round.samples[LoadTiming::Release].pairs(),
        handoff: handoff.pairs(),
        handoff_other: round.passed.handoff.pairs(),
        overlap: round.judge.overlap.filter(|_| exclusive).map(|overlap| {
            let length = Duration::from_nanos(overlap.to_ns - overlap.from_ns);
            format!("two holds of lock {} overlapped for {length:?}", overlap.lock)
        }),
    })
}
