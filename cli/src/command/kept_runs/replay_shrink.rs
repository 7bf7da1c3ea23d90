//! `locklab replay --shrink`: finds the smallest plan that still convicts, runs each candidate, and writes it
//! as a scenario file.

use chaos::shrink_search::{self, PlanSize, SmallestPlanSearch};
use clap::Args;
use clap::builder::PossibleValuesParser;
use results::verdict::CLASSES;

use crate::cancel::Cancel;
use crate::exit;
use crate::files;
use crate::plan_trust::TrustArgs;
use crate::run::store;
use crate::terminal::Terminal;

const SHRINK_HEADING: &str = "With --shrink";

#[derive(Debug, Args)]
pub(super) struct ShrinkArgs {
    /// The scenario of that name, where the run has several [default: the first that convicts]
    #[arg(help_heading = SHRINK_HEADING, requires = "shrink", long, value_name = "NAME")]
    scenario: Option<String>,
    /// The verdict that must go on convicting [default: the gravest that was violated]
    #[arg(help_heading = SHRINK_HEADING, requires = "shrink", long, value_name = "VERDICT", value_parser = PossibleValuesParser::new(CLASSES))]
    verdict: Option<String>,
    /// Smaller plans to try at most; each is run
    #[arg(help_heading = SHRINK_HEADING, requires = "shrink", long, default_value_t = 40, value_parser = crate::args::count, value_name = "N")]
    tries: u32,
}

pub(super) async fn run(
    run: &str,
    options: &ShrinkArgs,
    trust: TrustArgs,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let (kept, class) = shrink_search::plan_to_shrink(
        run,
        &store(),
        options.scenario.as_deref(),
        options.verdict.as_deref(),
    )?;
    trust.check(std::slice::from_ref(&kept), terminal)?;
    let cancel = Cancel::listen()?;
    let dir = files::work_dir()?;
    let search =
        SmallestPlanSearch { dir: dir.path().to_owned(), class: class.clone(), cancel: cancel.flag() };
    terminal.note(&format!(
        "{} (seed {}): looking for the smallest plan that violates {class}, in at most {} runs",
        kept.plan.name, kept.plan.seed, options.tries
    ));
    let tell = |line: &str| terminal.note(line);
    let found = search.run(&kept.plan, options.tries, None, tell).await?;
    let Some(shrinker) = found else {
        if cancel.is_wanted() {
            return Ok(exit::INTERRUPTED);
        }
        terminal.warn(&format!("the plan did not violate {class} this time; another try may"));
        return Ok(exit::UNKNOWN);
    };
    // Never beside the user's own files.
    let dir = terminal.common.out.as_ref().unwrap_or(&kept.dir);
    let written = shrink_search::write(dir, shrinker.smallest()).map_err(exit::unwritable)?;
    let (scenario, plan) = (written.0.display(), written.1.display());
    let sizes = [&kept.plan, shrinker.smallest()].map(PlanSize::of);
    let done = shrinker.is_done() && !cancel.is_wanted();
    let document = serde_json::json!({
        "schema": 1, "name": kept.plan.name, "seed": kept.plan.seed, "verdict": class, "tries": shrinker.tries(), "smallest": done,
        "before": sizes[0], "after": sizes[1], "scenario": scenario.to_string(), "plan": plan.to_string(),
    });
    terminal.answer(&document, || {
        format!(
            "{}\nbefore  {}\nafter   {}{}\nwrote {scenario}, to be run with `locklab --seed {} chaos {scenario}`",
            shrinker.smallest().to_text().trim_end(),
            sizes[0],
            sizes[1],
            if done { ": no smaller step convicts" } else { ": the search was ended early" },
            kept.plan.seed
        )
    })?;
    Ok(if cancel.is_wanted() { exit::INTERRUPTED } else { exit::AS_EXPECTED })
}
