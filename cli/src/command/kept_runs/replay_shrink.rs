//! `locklab replay --shrink`: finds the smallest plan that still convicts, runs each candidate, and writes it
//! as a scenario file.

use chaos::kept_plan::{self, KeptPlan};
use chaos::plan::Plan;
use chaos::shrink_search::{self, GRAVEST_FIRST, SmallestPlanSearch};
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
    let (kept, class) = plan_to_shrink(run, options)?;
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
    let done = shrinker.is_done() && !cancel.is_wanted();
    let document = serde_json::json!({
        "schema": 1, "name": kept.plan.name, "seed": kept.plan.seed, "verdict": class, "tries": shrinker.tries(), "smallest": done,
        "before": size(&kept.plan), "after": size(shrinker.smallest()), "scenario": scenario.to_string(), "plan": plan.to_string(),
    });
    terminal.answer(&document, || {
        format!(
            "{}\nbefore  {}\nafter   {}{}\nwrote {scenario}, to be run with `locklab --seed {} chaos {scenario}`",
            shrinker.smallest().to_text().trim_end(),
            shrink_search::size(&kept.plan),
            shrink_search::size(shrinker.smallest()),
            if done { ": no smaller step convicts" } else { ": the search was ended early" },
            kept.plan.seed
        )
    })?;
    Ok(if cancel.is_wanted() { exit::INTERRUPTED } else { exit::AS_EXPECTED })
}

/// The plan to shrink, and the verdict that must stay violated.
fn plan_to_shrink(run: &str, options: &ShrinkArgs) -> anyhow::Result<(KeptPlan, String)> {
    let wanted = options.scenario.as_deref();
    let mut plans = kept_plan::of_run(run, &store())?;
    plans.retain(|kept| wanted.is_none_or(|name| kept.plan.name == name));
    let class_of = |kept: &KeptPlan| -> Option<String> {
        let violated = kept.violated();
        match (&options.verdict, &kept.result) {
            // A plan without a result may convict: running it shows.
            (Some(class), None) => Some(class.clone()),
            (Some(class), Some(_)) => violated.contains(&class.as_str()).then(|| class.clone()),
            (None, _) => GRAVEST_FIRST.into_iter().find(|class| violated.contains(class)).map(str::to_owned),
        }
    };
    let found = plans.into_iter().find_map(|kept| class_of(&kept).map(|class| (kept, class)));
    found.ok_or_else(|| {
        let of = options.verdict.as_deref().unwrap_or("anything");
        exit::input(format!(
            "no plan of {} is known to violate {of}, so there is nothing to shrink{}",
            run,
            if options.verdict.is_none() { "; a plan.json by itself needs --verdict" } else { "" }
        ))
    })
}

fn size(plan: &Plan) -> serde_json::Value {
    serde_json::json!({
        "faults": plan.faults.len(),
        "clients": plan.load.clients.len(),
        "tasks": shrink_search::tasks(plan),
        "locks": plan.load.locks.len(),
        "duration_ns": plan.load.does.duration.ns(),
    })
}
