//! `locklab replay --shrink`: finds the smallest plan that still convicts, runs each candidate, and writes it as a scenario file.

use std::path::Path;
use std::time::Instant;

use chaos::plan::Plan;
use chaos::run::{RunOptions, run_scenario};
use chaos::scenario::scenario_text;
use chaos::shrink::Shrinker;
use clap::Args;
use clap::builder::PossibleValuesParser;
use results::verdict::{CLASSES, State};

use super::chaos::subject_of;
use super::plans::{self, KeptPlan, Trust};
use crate::cancel::Cancel;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// The gravest first: what a plan is shrunk for, if nothing else is said.
pub(super) const GRAVEST_FIRST: [&str; 5] =
    ["contract", "confirmed", "effect", "liveness", "belief"];

const SHRINK: &str = "With --shrink";

/// How `replay --shrink` looks for a smaller plan.
#[derive(Debug, Args)]
pub(super) struct Smaller {
    /// The scenario of that name, where the run has several [default: the first that convicts]
    #[arg(help_heading = SHRINK, requires = "shrink", long, value_name = "NAME")]
    scenario: Option<String>,
    /// The verdict that must go on convicting [default: the gravest that was violated]
    #[arg(help_heading = SHRINK, requires = "shrink", long, value_name = "VERDICT", value_parser = PossibleValuesParser::new(CLASSES))]
    verdict: Option<String>,
    /// Smaller plans to try at most; each is run
    #[arg(help_heading = SHRINK, requires = "shrink", long, default_value_t = 40, value_parser = crate::args::count, value_name = "N")]
    tries: u32,
    /// A smaller plan is kept if one of this many runs of it convicts
    #[arg(help_heading = SHRINK, requires = "shrink", long, default_value_t = 1, value_parser = crate::args::count, value_name = "K")]
    reruns: u32,
}

pub(super) async fn run(
    run: &str,
    options: &Smaller,
    trust: Trust,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let (kept, class) = chosen(run, options)?;
    trust.check(std::slice::from_ref(&kept), terminal)?;
    let cancel = Cancel::listen()?;
    let mut runner = Runner::new(&class, options.reruns, &cancel)?;
    terminal.note(&format!(
        "{} (seed {}): looking for the smallest plan that violates {class}, in at most {} runs",
        kept.plan.name,
        kept.plan.seed,
        options.tries * options.reruns
    ));
    let tell = |line: &str| terminal.note(line);
    let found = runner
        .smallest(&kept.plan, options.tries, None, tell)
        .await?;
    let Some(shrinker) = found else {
        if cancel.is_wanted() {
            return Ok(exit::INTERRUPTED);
        }
        terminal.warn(&format!(
            "the plan did not violate {class} this time; --reruns K runs each plan up to K times"
        ));
        return Ok(exit::UNKNOWN);
    };
    let dir = terminal.common.out.clone().unwrap_or_else(|| ".".into());
    let (scenario, plan) = write(&dir, shrinker.smallest())?;
    let done = shrinker.is_done() && !cancel.is_wanted();
    let document = serde_json::json!({
        "schema": 1, "name": kept.plan.name, "seed": kept.plan.seed, "verdict": class, "tries": shrinker.tries(), "smallest": done,
        "before": size(&kept.plan), "after": size(shrinker.smallest()), "scenario": scenario, "plan": plan,
    });
    terminal.answer(&document, || {
        format!(
            "{}\nbefore  {}\nafter   {}{}\nwrote {scenario}, to be run with `locklab --seed {} chaos {scenario}`",
            shrinker.smallest().to_text().trim_end(),
            words(&kept.plan),
            words(shrinker.smallest()),
            if done { ": no smaller step convicts" } else { ": the search was ended early" },
            kept.plan.seed
        )
    })?;
    Ok(if cancel.is_wanted() {
        exit::INTERRUPTED
    } else {
        exit::AS_EXPECTED
    })
}

/// The plan to shrink, and the verdict that must stay violated.
fn chosen(run: &str, options: &Smaller) -> anyhow::Result<(KeptPlan, String)> {
    let wanted = options.scenario.as_deref();
    let mut plans = plans::of_run(run)?;
    plans.retain(|kept| wanted.is_none_or(|name| kept.plan.name == name));
    let class_of = |kept: &KeptPlan| -> Option<String> {
        let violated = kept.violated();
        match (&options.verdict, &kept.result) {
            // A plan without a result may convict: running it shows.
            (Some(class), None) => Some(class.clone()),
            (Some(class), Some(_)) => violated.contains(&class.as_str()).then(|| class.clone()),
            (None, _) => GRAVEST_FIRST
                .into_iter()
                .find(|class| violated.contains(class))
                .map(str::to_owned),
        }
    };
    let found = plans
        .into_iter()
        .find_map(|kept| class_of(&kept).map(|class| (kept, class)));
    found.ok_or_else(|| {
        let of = options.verdict.as_deref().unwrap_or("anything");
        exit::input(format!(
            "no plan of {} is known to violate {of}, so there is nothing to shrink{}",
            run,
            if options.verdict.is_none() {
                "; a plan.json by itself needs --verdict"
            } else {
                ""
            }
        ))
    })
}

/// Runs smaller and smaller plans.
pub(super) struct Runner<'a> {
    work: tempfile::TempDir,
    class: &'a str,
    reruns: u32,
    runs: u32,
    cancel: &'a Cancel,
}

impl<'a> Runner<'a> {
    /// For plans that violate `class` in one of `reruns` runs.
    pub(super) fn new(class: &'a str, reruns: u32, cancel: &'a Cancel) -> anyhow::Result<Self> {
        Ok(Self {
            work: files::work_dir()?,
            class,
            reruns,
            runs: 0,
            cancel,
        })
    }

    /// The smallest plan found by so many tries, or until then; `None`: the plan itself did not convict this time.
    pub(super) async fn smallest(
        &mut self,
        plan: &Plan,
        tries: u32,
        until: Option<Instant>,
        mut tell: impl FnMut(&str),
    ) -> anyhow::Result<Option<Shrinker>> {
        if !self.convicts(plan).await? {
            return Ok(None);
        }
        let mut shrinker = Shrinker::new(plan.clone(), tries);
        while until.is_none_or(|until| Instant::now() < until)
            && let Some(reduction) = shrinker.next()
        {
            let convicts = self.convicts(&reduction.plan).await?;
            if self.cancel.is_wanted() {
                break;
            }
            let word = if convicts {
                "convicts"
            } else {
                "does not convict"
            };
            let (number, what) = (shrinker.tries(), &reduction.what);
            tell(&format!("  {number:>3}  {what}: {word}"));
            shrinker.tell(convicts);
        }
        Ok(Some(shrinker))
    }

    /// Whether one of the reruns of a plan violates the class.
    async fn convicts(&mut self, plan: &Plan) -> anyhow::Result<bool> {
        for _ in 0..self.reruns {
            self.runs += 1;
            let dir = self.work.path().join(self.runs.to_string());
            let mut options = RunOptions::new(
                &dir,
                subject_of(plan)?,
                super::provisioner::of(&plan.topology)?,
            );
            options.cancel = self.cancel.flag();
            let run = run_scenario(plan, &options)
                .await
                .map_err(|error| anyhow::anyhow!("{}: {error}", plan.name))?;
            // A long search must not fill the disk.
            let _ = std::fs::remove_dir_all(&dir);
            let verdict = run.result.verdicts.get(self.class);
            if verdict.is_some_and(|verdict| verdict.state == State::Violated) {
                return Ok(true);
            }
            if self.cancel.is_wanted() {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

/// Writes the scenario and the plan; gives their names.
pub(super) fn write(dir: &Path, plan: &Plan) -> anyhow::Result<(String, String)> {
    std::fs::create_dir_all(dir)
        .map_err(|error| exit::usage(format!("cannot make {}: {error}", dir.display())))?;
    let put = |end: &str, text: &str| -> anyhow::Result<String> {
        let path = dir.join(format!("{}-small.{end}", plan.name));
        files::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let scenario = put("toml", &scenario_text(plan))?;
    let file = put("plan.json", &plan.to_json())?;
    plans::seal(file.as_ref(), &plan.to_json());
    Ok((scenario, file))
}

fn size(plan: &Plan) -> serde_json::Value {
    serde_json::json!({
        "faults": plan.faults.len(),
        "clients": plan.load.clients.len(),
        "tasks": plan.load.clients.first().map_or(0, |client| client.task_seeds.len()),
        "locks": plan.load.locks.len(),
        "duration_ns": plan.load.does.duration.ns(),
    })
}

pub(super) fn words(plan: &Plan) -> String {
    format!(
        "{} faults, {} clients × {} tasks, {} locks, {}",
        plan.faults.len(),
        plan.load.clients.len(),
        plan.load
            .clients
            .first()
            .map_or(0, |client| client.task_seeds.len()),
        plan.load.locks.len(),
        results::units::duration(plan.load.does.duration.ns())
    )
}
