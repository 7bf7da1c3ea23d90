//! `locklab merge`: joins runs of one plan, made by several machines, into one run, histories included.

use bench::driver::{BenchOutcome, merged_runs};
use chaos::run::shared_clients::judge_parts;
use clap::Args;
use results::merge::MergeError;
use results::merge_input::MergeInput;
use results::parts::{WholeOutcome, whole};
use results::report::text;
use results::run::Run;

use crate::bench_run::code_of_rows;
use crate::exit;
use crate::run::{NOTHING_TRIED, as_expected, make_dir, save_all, store};
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
    let input = MergeInput::load(&options.runs, &store())?;
    for name in &input.killed_at_once {
        terminal.warn(&format!("{name} was ended before it said which part it is"));
    }
    let parts = whole(&input.runs)?;
    let warning = match parts {
        // What parts have in common was just compared.
        Some(_) => None,
        None => of_one_plan(&input, options.force)?,
    };
    let (first, is_whole) = (&input.runs[0], parts.is_some());
    let measured = (is_whole && first.command == "bench")
        .then(|| merged_runs(&input.runs, &input.dirs).map_err(exit::input));
    let measured = measured.transpose()?;
    let started = first.meta.started_at.get(..10).unwrap_or_default();
    let target = make_dir(&terminal.common, started, &first.meta.environment.host, "merge")?;
    let judged = if is_whole { judge_parts(&input.runs, &input.dirs, target.path())? } else { None };
    let mut joined = input.join(&target)?;
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
    save_all(&target, &joined)?;
    terminal.answer_painted(&joined, || text::summary(&joined, terminal.text_options()))?;
    terminal.note(&format!("merged: {}", target.path().display()));
    Ok(code)
}

/// Refuses whole runs that are not of one plan; by force, what is to be said of them instead.
fn of_one_plan(input: &MergeInput, force: bool) -> anyhow::Result<Option<String>> {
    match input.of_one_plan() {
        Ok(()) => Ok(None),
        Err(error @ MergeError::Usage(_)) => Err(error.into()),
        Err(error) if force => {
            let error = error.to_string().replace('\n', " ");
            Ok(Some(format!("joined by force: {error}")))
        }
        Err(error) => Err(exit::input(format!("{error}\njoin them with --force"))),
    }
}

/// Judges parts of one plan as the whole that they make; gives the exit code.
fn make_whole(
    parts: WholeOutcome,
    measured: Option<BenchOutcome>,
    joined: &mut Run,
    terminal: &Terminal,
) -> u8 {
    let mut code = match measured {
        Some(measured) => put_rows(measured, joined),
        None => {
            // Parts of one scenario judge nothing: the verdict on the whole was made here.
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
        Some(audit) => audit.worst().is_none(),
        None => joined.scenarios.is_empty() && !joined.not_applicable.is_empty(),
    }
}

/// Puts what all parts measured in the place of what each of them could know; the exit code.
fn put_rows(outcome: BenchOutcome, joined: &mut Run) -> u8 {
    joined.rows = outcome.rows;
    joined.comparisons = outcome.comparisons;
    let said = |warning: &String| outcome.warnings.iter().any(|own| warning.ends_with(own.as_str()));
    joined.warnings.retain(|warning| !said(warning));
    joined.warnings.extend(outcome.warnings.iter().cloned());
    code_of_rows(&joined.rows)
}
