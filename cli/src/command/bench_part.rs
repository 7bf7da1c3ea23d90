//! `bench --part K/N`: one target, loaded by several generators that begin and end each round together. `merge` makes one run of theirs.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::driver::{BenchOutcome, ROUNDS_FILE};
use bench::parts::{Barrier, BarrierError, GeneratorShare};
use chaos::plan_parts::{digest, record_load};
use results::run::Run;

use super::bench::{Options, plan};
use super::bench_run::{Ended, GeneratorPart, judge, measure_at};
use super::run::Keeper;
use super::target::Servers;
use crate::exit;
use crate::terminal::Terminal;

pub(super) fn check(options: &Options) -> anyhow::Result<()> {
    let Some(url) = &options.target else {
        return Err(exit::usage(
            "--part: the parts of a benchmark load one target together; name it with --target",
        ));
    };
    if bench::subjects::system_of(url).is_some() {
        return Err(exit::usage(
            "--part: the parts of a benchmark meet at servers of Redis, and this target is another system",
        ));
    }
    if options.sweep.is_some() || options.precision.is_some() || options.own_loop {
        return Err(exit::usage(
            "--part: parts make the same rounds of one load; --sweep, --precision and --own-loop are for one generator",
        ));
    }
    Ok(())
}

/// Measures this part's share, in step with the others.
pub(super) async fn run(
    share: GeneratorShare,
    options: &Options,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<Ended>> {
    let url = options.target.as_deref().unwrap_or_default();
    let mut plan = plan(options, url, "external", keeper);
    (plan.share, plan.generators) = (share, share.of);
    plan.clients = options.clients.max(share.of);
    plan.client_processes = options.clients > share.of;
    plan.key_prefix = format!("locklab:parts-{}-{}:", share.of, plan.seed);
    let (clients, seed) = (plan.clients, plan.seed);
    bench::driver::check_plan(&plan).map_err(exit::usage)?;
    let common = plan.in_common();
    let has = |part: GeneratorShare| part.client_names(clients);
    keeper.is_part(Some(record_load(share, seed, &digest(&common), has)))?;

    let within = options.parts_within;
    keeper.terminal.note(&format!(
        "part {} of {}: {}",
        share.index,
        share.of,
        share.client_names(clients)
    ));
    let barrier = join(url, &plan.key_prefix, share, common, within, keeper).await?;
    let mut file = File::create(keeper.path().join(ROUNDS_FILE))?;
    writeln!(file, "{}", plan.head())?;
    let file = Mutex::new(file);
    let together = GeneratorPart {
        barrier: barrier.clone(),
        record: Box::new(move |line| {
            let mut file = file.lock().expect("no panic");
            // In one piece; a torn one is no round to `merge`.
            let line = format!("{line}\n");
            let _ = file.write_all(results::secrets::hide(&line).as_bytes());
        }),
    };
    let measured = measure_at(&plan, None, Some(together), keeper).await;
    let ended = matches!(measured, Ok(None));
    let mut servers = Servers::of(url, options.mine.yes_this_is_mine)?;
    part_ways(
        &barrier,
        ended,
        &mut servers,
        &plan.key_prefix,
        &keeper.terminal,
    )
    .await;
    measured
}

/// Leaves the other parts; the last of those that came to the end removes the keys.
pub(super) async fn part_ways(
    barrier: &Barrier,
    ended: bool,
    servers: &mut Servers,
    prefix: &str,
    terminal: &Terminal,
) {
    if !ended {
        return barrier.leave().await;
    }
    match barrier.end().await {
        Ok(true) => servers.remove_keys(prefix, terminal).await,
        Ok(false) => {}
        Err(error) => terminal.warn(&format!("at the end: {error}")),
    }
}

/// Comes to the parts that have this plan in common, and the version. The run says from now on which meeting it was: another one, at
/// whatever target, is of another load.
pub(super) async fn join(
    url: &str,
    prefix: &str,
    share: GeneratorShare,
    mut common: serde_json::Value,
    within: Duration,
    keeper: &mut Keeper,
) -> anyhow::Result<Arc<Barrier>> {
    common["version"] = keeper.run.meta.version.as_str().into();
    common["commit"] = keeper.run.meta.commit.as_str().into();
    let joined = Barrier::join(url, prefix, share, &common.to_string(), within).await;
    let barrier = joined.map_err(|error| match error {
        BarrierError::OtherPlan(_) => exit::input(error),
        _ => exit::missing(error),
    })?;
    let mut part = keeper.run.part.take();
    for share in part.iter_mut().flat_map(|part| &mut part.plan) {
        let (word, meeting) = ("meeting".to_owned(), barrier.meeting().to_owned());
        share.digest.insert(word, meeting);
    }
    keeper.is_part(part)?;
    Ok(Arc::new(barrier))
}

/// Puts what all parts measured in the place of what each of them could know; the exit code.
pub(super) fn put(outcome: BenchOutcome, joined: &mut Run) -> u8 {
    joined.rows = outcome.rows;
    joined.comparisons = outcome.comparisons;
    let said = |warning: &String| {
        outcome
            .warnings
            .iter()
            .any(|own| warning.ends_with(own.as_str()))
    };
    joined.warnings.retain(|warning| !said(warning));
    joined.warnings.extend(outcome.warnings.iter().cloned());
    judge(&joined.rows)
}
