//! `chaos --part K/N --share clients`: one scenario whose clients several machines run. Each records; `merge`
//! judges the whole.

use std::sync::Arc;
use std::time::Duration;

use bench::parts::GeneratorShare;
use bench::parts::clock::Reference;
use chaos::batch::PlannedRun;
use chaos::kept_plan::{self, PLAN_FILE};
use chaos::plan_parts::{digest_of_plan, record_load};
use chaos::run::RunOptions;
use chaos::run::shared_clients::{PartBarrier, harms_servers, not_shareable, record_part};
use chaos::target_servers::TargetServers;
use clap::{Args, ValueEnum};

use crate::args::duration;
use crate::exit;
use crate::parts::{PARTS_HEADING, join, leave};
use crate::run::Keeper;
use crate::terminal::Terminal;

/// What parts have of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartSharing {
    /// Each scenario is one part's.
    Scenarios,
    /// All parts run the one scenario, each some of its clients.
    Clients,
}

/// Flags of a scenario that is shared by client.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShareArgs {
    /// With --part: each part runs scenarios of its own, or the clients K modulo N of the one scenario, all
    /// at one --target [default: scenarios]
    #[arg(hide_short_help = true, help_heading = PARTS_HEADING, long, value_enum, requires = "target", value_name = "WHAT")]
    share: Option<PartSharing>,
    /// With --share clients: a server that no fault touches, where the parts meet and whose clock they are
    /// set beside [default: the target, where no fault is on its servers]
    #[arg(hide_short_help = true, help_heading = PARTS_HEADING, long, requires = "share", value_name = "URL", value_parser = crate::args::target_url)]
    reference: Option<String>,
    /// With --share clients: how long parts wait for each other
    #[arg(hide_short_help = true, help_heading = PARTS_HEADING, long, value_parser = duration, default_value = "2m", value_name = "DURATION")]
    parts_within: Duration,
}

impl ShareArgs {
    /// Whether one scenario is shared, and not several.
    pub(super) fn by_client(&self) -> bool {
        self.share == Some(PartSharing::Clients)
    }

    /// Runs this part's clients in step with the others, and records what they do.
    pub(super) async fn run(
        &self,
        share: Option<GeneratorShare>,
        mut planned: Vec<PlannedRun>,
        servers: &mut TargetServers,
        terminal: &Terminal,
    ) -> anyhow::Result<u8> {
        let no = |why: &str| exit::usage(format!("--share clients: {why}"));
        let share = share.ok_or_else(|| no("which of the parts is this? name it with --part K/N"))?;
        let (Some(PlannedRun { mut plan, subject }), true) = (planned.pop(), planned.is_empty()) else {
            return Err(no("the parts run one scenario with one seed together"));
        };
        if let Some(why) = not_shareable(&plan, share.of) {
            return Err(no(&why));
        }
        let engine = servers.engine.clone();
        let reference = match &self.reference {
            Some(reference) => reference,
            None if servers.are_redis() && !harms_servers(&plan, engine.is_some()) => servers.url(),
            None => {
                return Err(no(
                    "the parts meet at a Redis server that no fault touches, and the target is none; name one with --reference",
                ));
            }
        };
        TargetServers::of(reference, servers.has_consent())?;
        let reference = reference.to_owned();
        let prefix = format!("locklab:parts-{}-{}-{}:", share.of, plan.name, plan.seed);
        plan.prefix_locks(&prefix);

        let name = format!("chaos-{}", plan.name);
        let mut keeper = Keeper::begin(terminal, "chaos", &name, plan.seed)?;
        let clients = u32::try_from(plan.load.clients.len()).unwrap_or(u32::MAX);
        let has = |part: GeneratorShare| format!("{} of {}", part.client_names(clients), plan.name);
        let digest = digest_of_plan(&plan, &plan.lock.subject)?;
        keeper.set_part(Some(record_load(share, plan.seed, &digest, has)))?;
        let (index, of) = (share.index, share.of);
        terminal.note(&format!("part {index} of {of}: {}", has(share)));
        let common = serde_json::to_value(&plan)?;
        let barrier = join(&reference, &prefix, share, common, self.parts_within, &mut keeper).await?;
        let provisioner = servers.for_run(&prefix);
        let provisioner = provisioner.ok_or_else(|| anyhow::anyhow!("the servers were not asked"))?;
        let mut options = RunOptions::new(keeper.path(), subject, provisioner);
        options.cancel = keeper.cancel.flag();
        options.engine = engine;
        options.together = Some(PartBarrier {
            share,
            barrier: barrier.clone(),
            reference: Arc::new(Reference::of(&reference).map_err(exit::usage)?),
        });
        kept_plan::seal(&options.dir.join(PLAN_FILE), &plan.to_json());
        let code = match record_part(&plan, &options).await {
            Ok((partial, incomplete)) => {
                keeper.run.warnings.extend(incomplete);
                match (partial, keeper.run.warnings.is_empty()) {
                    (true, _) => exit::INTERRUPTED,
                    (false, true) => exit::AS_EXPECTED,
                    (false, false) => exit::UNKNOWN,
                }
            }
            Err(error) => {
                keeper.run.warnings.push(error.to_string());
                exit::of_run(&error)
            }
        };
        for warning in &keeper.run.warnings {
            terminal.warn(warning);
        }
        let ended = code <= exit::UNKNOWN;
        leave(&barrier, ended, servers, &prefix, terminal).await;
        if let Some(part) = &mut keeper.run.part {
            part.exit_code = Some(code);
        }
        keeper.finish(code > exit::UNKNOWN)?;
        Ok(code)
    }
}
