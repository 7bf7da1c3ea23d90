//! `bench --part K/N`: one target, loaded by several generators that begin and end each round together. `merge` makes one run of theirs.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::driver::{BenchOutcome, Source};
use bench::parts::{Barrier, BarrierError, GeneratorShare};
use chaos::plan_parts::{digest, record_load};
use results::run::Run;

use super::bench::{Options, judge, plan};
use super::bench_run::{Ended, GeneratorPart, measure_at};
use super::run::Keeper;
use super::target::Servers;
use crate::exit;
use crate::terminal::Terminal;

/// What a part measured, a line for each round.
const ROUNDS_FILE: &str = "rounds.jsonl";

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
    let has = |part| clients_of(part, clients);
    keeper.is_part(Some(record_load(share, seed, &digest(&common), has)))?;

    let within = options.parts_within;
    keeper.terminal.note(&format!(
        "part {} of {}: {}",
        share.index,
        share.of,
        clients_of(share, clients)
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

pub(super) fn clients_of(share: GeneratorShare, clients: u32) -> String {
    const SHOWN: u32 = 4;
    let count = share.count(clients);
    let name = |own: u32| format!("c{}", share.number(own) + 1);
    let mut names: Vec<String> = (0..count.min(SHOWN)).map(name).collect();
    if count > SHOWN {
        names.push(format!("… {} ({count} in all)", name(count - 1)));
    }
    format!("clients {}", names.join(", "))
}

/// What all parts measured, from what each wrote down; in the order of `runs`.
pub(super) fn merged(runs: &[Run], dirs: &[PathBuf]) -> anyhow::Result<BenchOutcome> {
    let mut sources: Vec<Source> = Vec::new();
    for (run, dir) in runs.iter().zip(dirs) {
        // One that was killed before its first line has measured nothing.
        if let Ok(file) = results::limits::open(&dir.join(ROUNDS_FILE)) {
            sources.push((run.run.clone(), Box::new(BufReader::new(file))));
        }
    }
    bench::driver::merged(sources).map_err(exit::input)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_is_named_with_one_part() {
        let share = |index| GeneratorShare { index, of: 2 };
        assert_eq!(clients_of(share(0), 4), "clients c1, c3");
        assert_eq!(clients_of(share(1), 4), "clients c2, c4");
        assert_eq!(
            clients_of(share(1), 100),
            "clients c2, c4, c6, c8, … c100 (50 in all)"
        );
    }
}
