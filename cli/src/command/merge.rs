//! `locklab merge`: joins runs of one plan, made by several machines, into one run, histories included.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bench::driver::BenchOutcome;
use chaos::kept_plan::PLAN_FILE;
use clap::Args;
use results::merge::{beside, merge, same_plan};
use results::parts::{WholeOutcome, whole};
use results::report::text;
use results::run::Run;
use results::store::{REPORT_FILE, RUN_FILE, SUMMARY_FILE, StoreError, load_dir};

use super::run::{NOTHING_TRIED, as_expected, made, save_all, store};
use super::{bench_part, chaos_part};
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directories, or their names under runs/
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    runs: Vec<String>,
    /// Join runs of different plans, too; a warning is kept
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let (mut runs, dirs) = given(&options.runs, terminal)?;
    let parts = whole(&runs).map_err(exit::input)?;
    let warning = match parts {
        // What parts have in common was just compared.
        Some(_) => None,
        None => of_one_plan(&runs, &dirs, options.force)?,
    };
    let measured = match parts.is_some() && runs[0].command == "bench" {
        true => Some(bench_part::merged(&runs, &dirs)?),
        false => None,
    };
    let meta = &runs[0].meta;
    let started = meta.started_at.get(..10).unwrap_or_default();
    let target = made(&terminal.common, started, &meta.environment.host, "merge")?;
    let judged = match parts.is_some() && chaos_part::are(&runs, &dirs) {
        true => Some(chaos_part::merged(&runs, &dirs, target.path())?),
        false => None,
    };
    let copies = records(&mut runs, &dirs);
    let mut joined = merge(runs, &target.label()).map_err(exit::input)?;
    for dir in joined.dirs_mut() {
        *dir = place(dir);
    }
    joined.warnings.extend(warning);
    if let Some(judged) = judged {
        for warning in judged.warnings {
            terminal.warn(&warning);
            joined.warnings.push(warning);
        }
        joined.scenarios = vec![judged.result];
    }
    let code = match parts {
        Some(parts) => make_whole(parts, measured, &mut joined, terminal),
        None => exit::AS_EXPECTED,
    };
    for (from, to) in copies {
        let to = target.path().join(to);
        copy_dir(&from, &to).map_err(|error| {
            exit::input(format!(
                "cannot copy {} to {}: {error}",
                from.display(),
                to.display()
            ))
        })?;
    }
    save_all(&target, &joined)?;
    terminal.answer_painted(&joined, || text::summary(&joined, terminal.text_options()))?;
    terminal.note(&format!("merged: {}", target.path().display()));
    Ok(code)
}

/// The runs that are to be joined, and where they are, without parts that were killed at once.
fn given(names: &[String], terminal: &Terminal) -> anyhow::Result<(Vec<Run>, Vec<PathBuf>)> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut said_nothing: Vec<String> = Vec::new();
    for name in names {
        let dir = match store().resolve(name) {
            // A part that was killed at once has a directory and nothing in it.
            Err(StoreError::NotARun { path }) => {
                said_nothing.push(path.display().to_string());
                continue;
            }
            dir => dir.map_err(exit::input)?,
        };
        let same = |other: &PathBuf| {
            let real = |path: &Path| std::fs::canonicalize(path).ok();
            real(other) == real(&dir)
        };
        if dirs.iter().any(same) {
            return Err(exit::usage(format!(
                "{name} is given twice: a run joined with itself would count twice"
            )));
        }
        runs.push(load_dir(&dir).map_err(exit::input)?);
        dirs.push(dir);
    }
    said_nothing.extend(killed_at_once(&mut runs, &mut dirs));
    let parted = runs.iter().any(|run| run.part.is_some());
    if let (Some(path), false) = (said_nothing.first(), parted) {
        let path = PathBuf::from(path);
        return Err(exit::input(StoreError::NotARun { path }));
    }
    for name in said_nothing {
        terminal.warn(&format!("{name} was ended before it said which part it is"));
    }
    Ok((runs, dirs))
}

/// Refuses whole runs that are not of one plan; by force, what is to be said of them instead.
fn of_one_plan(runs: &[Run], dirs: &[PathBuf], force: bool) -> anyhow::Result<Option<String>> {
    if runs.len() < 2 {
        return Err(exit::usage(
            "merge joins at least two runs, or the parts of a plan",
        ));
    }
    let alike = same_plan(runs).map_err(|error| error.to_string());
    match alike.and_then(|()| same_plan_files(runs, dirs)) {
        Ok(()) => Ok(None),
        Err(error) if force => Ok(Some(format!(
            "joined by force: {}",
            error.replace('\n', " ")
        ))),
        Err(error) => Err(exit::input(format!("{error}\njoin them with --force"))),
    }
}

/// The directory of a record in the joined run: one plain name, as in every run.
fn place(dir: &str) -> String {
    dir.replace('/', "-")
}

/// Gives the records of each of several runs a directory of its own, so that `check` and `replay` find them: from where to where they are copied.
fn records(runs: &mut [Run], dirs: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut copies = Vec::new();
    let several = runs.len() > 1;
    for (index, (run, dir)) in runs.iter_mut().zip(dirs).enumerate() {
        let name = dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        run.run = format!("{:02}-{name}", index + 1);
        for result in &run.scenarios {
            let to = match several {
                true => place(&beside(&run.run, &result.dir)),
                false => result.dir.clone(),
            };
            copies.push((dir.join(&result.dir), to));
        }
    }
    copies
}

/// Judges parts of one plan as the whole that they make; gives the exit code.
fn make_whole(
    parts: WholeOutcome,
    measured: Option<BenchOutcome>,
    joined: &mut Run,
    terminal: &Terminal,
) -> u8 {
    let mut code = match measured {
        Some(measured) => bench_part::put(measured, joined),
        None => {
            // Those of parts that judge nothing say nothing of a conviction.
            let judged = joined.scenarios.iter().map(|result| result.exit_code);
            (parts.exit_codes.into_iter().chain(judged)).fold(exit::AS_EXPECTED, exit::worse)
        }
    };
    if !parts.missing.is_empty() {
        code = exit::worse(code, exit::UNKNOWN);
        joined.partial = true;
    } else if nothing_tried(joined) {
        terminal.warn(NOTHING_TRIED);
        code = exit::worse(code, exit::INPUT);
    }
    let expects = joined.command != "bench";
    joined.as_expected = expects.then(|| match joined.audit {
        Some(_) => code == exit::AS_EXPECTED,
        None => as_expected(joined, code),
    });
    for missing in parts.missing {
        terminal.warn(&missing);
        joined.warnings.push(missing);
    }
    code
}

fn nothing_tried(joined: &Run) -> bool {
    match &joined.audit {
        Some(audit) => audit.score().worst().is_none(),
        None => joined.scenarios.is_empty() && !joined.not_applicable.is_empty(),
    }
}

/// Takes out, where the others are parts, runs that were killed before they said which part they are; their names.
fn killed_at_once(runs: &mut Vec<Run>, dirs: &mut Vec<PathBuf>) -> Vec<String> {
    let blank = |run: &Run| {
        let empty = run.rows.is_empty() && run.scenarios.is_empty() && run.audit.is_none();
        run.part.is_none() && run.partial && empty
    };
    let mut names = Vec::new();
    if runs.iter().any(|run| run.part.is_some()) {
        let (gone, kept) = std::mem::take(runs)
            .into_iter()
            .zip(std::mem::take(dirs))
            .partition::<Vec<_>, _>(|(run, _)| blank(run));
        names.extend(gone.into_iter().map(|(run, _)| run.run));
        (*runs, *dirs) = kept.into_iter().unzip();
    }
    names
}

/// Whether the saved plans are the same where both are there: a scenario file may have been edited and kept its name.
fn same_plan_files(runs: &[Run], dirs: &[PathBuf]) -> Result<(), String> {
    let plan = |dir: &Path, of: &str| -> Option<serde_json::Value> {
        let bytes = results::limits::read(&dir.join(of).join(PLAN_FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    let (base, base_dir) = (&runs[0], &dirs[0]);
    for (other, dir) in runs.iter().zip(dirs).skip(1) {
        for result in &other.scenarios {
            let twin = base.scenarios.iter().find(|twin| {
                (&twin.name, twin.seed, &twin.subject)
                    == (&result.name, result.seed, &result.subject)
            });
            let (Some(twin), Some(own)) = (twin, plan(dir, &result.dir)) else {
                continue;
            };
            if plan(base_dir, &twin.dir).is_some_and(|base| base != own) {
                return Err(format!(
                    "{} was not made from the plan of {}: {PLAN_FILE} of {} differs",
                    other.run, base.run, result.name
                ));
            }
        }
    }
    Ok(())
}

/// A directory with all that is in it but a run's own summary. One that is not there was lost before, and is no reason to lose the rest.
fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = entry.file_name();
        if [RUN_FILE, SUMMARY_FILE, REPORT_FILE]
            .map(OsStr::new)
            .contains(&&*name)
        {
            continue;
        }
        let to = to.join(name);
        if kind.is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
