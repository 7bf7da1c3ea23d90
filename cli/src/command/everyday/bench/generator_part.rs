//! `bench --part K/N`: one target, loaded by several generators that begin and end each round together.
//! `merge` makes one run of theirs.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use bench::driver::{OnRound, ROUNDS_FILE};
use bench::parts::GeneratorShare;
use chaos::plan_parts::{digest, record_load};
use chaos::target_servers::TargetServers;

use super::{Options, plan};
use crate::bench_run::{EarlyEnd, measure_at};
use crate::exit;
use crate::parts::{join, leave};
use crate::run::Keeper;

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
) -> anyhow::Result<Option<EarlyEnd>> {
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
    keeper.set_part(Some(record_load(share, seed, &digest(&common), has)))?;

    let within = options.parts_within;
    keeper.terminal.note(&format!("part {} of {}: {}", share.index, share.of, share.client_names(clients)));
    let barrier = join(url, &plan.key_prefix, share, common, within, keeper).await?;
    let mut file = File::create(keeper.path().join(ROUNDS_FILE))?;
    writeln!(file, "{}", plan.head())?;
    let file = Mutex::new(file);
    let record = move |line: &str| {
        let mut file = file.lock().expect("no panic");
        // In one piece; a torn one is no round to `merge`.
        let line = format!("{line}\n");
        let _ = file.write_all(results::secrets::hide(&line).as_bytes());
    };
    let together = (barrier.clone(), Box::new(record) as OnRound);
    let measured = measure_at(&plan, None, Some(together), keeper).await;
    let ended = matches!(measured, Ok(None));
    let mut servers = TargetServers::of(url, options.mine.yes_this_is_mine)?;
    let terminal = &keeper.terminal;
    leave(&barrier, ended, &mut servers, &plan.key_prefix, terminal).await;
    measured
}
