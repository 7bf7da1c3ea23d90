//! `locklab check`: judges a run, or a history from elsewhere, again.

use std::collections::BTreeMap;
use std::time::Duration;

use chaos::checkers::{self, CheckOptions, porcupine};
use chaos::judged_history::{JudgedHistory, JudgedNote};
use chaos::proof;
use clap::Args;
use results::report::text;
use results::verdict::{State, Verdicts};
use serde::Serialize;

use crate::exit;
use crate::run::store;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A run (a directory, its name under runs/, or `latest`), a history file, or `-` for a history on
    /// standard input; several files are the parts of one history, each recorded on a clock of its own
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    runs: Vec<String>,
    /// How far apart the clocks of the parts of a history may be at most; needed where they do not say how
    /// they stand to a reference
    #[arg(long, value_parser = crate::args::duration, value_name = "DURATION")]
    clock_uncertainty: Option<Duration>,
    /// Share of a lease by which clocks may disagree; it shortens contract intervals and nothing else
    #[arg(long, value_parser = drift, default_value = "1%", value_name = "PERCENT")]
    drift: f64,
    /// Judge a short history as it is, without asking whether enough happened
    #[arg(long)]
    no_floors: bool,
    /// Print the operations of the history in place of judging it, a line of JSON for each, for another
    /// judge: drivers/porcupine has a lock model for Porcupine
    #[arg(long, value_name = "JUDGE")]
    export: Option<OtherJudge>,
}

/// A judge that is not ours.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum OtherJudge {
    /// A checker of linearizability, in Go
    Porcupine,
}

/// A share of the lease, of which something must be left.
fn drift(text: &str) -> Result<f64, String> {
    let share = crate::args::share(text).ok();
    share
        .filter(|share| *share < 1.0)
        .ok_or_else(|| crate::args::invalid("drift", text, "a share of the lease under 100%, such as 1%"))
}

/// What is printed with `--json`. Of many locks it is made only then.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    verdicts: &'a Verdicts,
    locks: &'a BTreeMap<String, Verdicts>,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let histories = match options.runs.as_slice() {
        [run] if options.clock_uncertainty.is_none() => JudgedHistory::all_of(run, &store())?,
        files => vec![JudgedHistory::of_parts(files, options.clock_uncertainty)?],
    };
    if let Some(OtherJudge::Porcupine) = options.export {
        return export(&histories, terminal);
    }
    let mut all: Vec<Verdicts> = Vec::new();
    let mut locks: BTreeMap<String, Verdicts> = BTreeMap::new();
    let usual = CheckOptions::default();
    let how =
        CheckOptions { drift: options.drift, floors: usual.floors.filter(|_| !options.no_floors), ..usual };
    for judged in &histories {
        let report = judged.judge(&how, &mut |said| match said {
            JudgedNote::Warning(said) => terminal.warn(&said),
            JudgedNote::Note(said) => terminal.note(&said),
        })?;
        for (name, verdicts) in report.locks {
            locks.insert(format!("{}{name}", judged.prefix), verdicts);
        }
        all.push(report.verdicts);
    }
    let verdicts = checkers::join(all);
    if let Some(dir) = &terminal.common.out {
        proof::write(&verdicts, dir)
            .map_err(|error| exit::usage(format!("cannot write the proofs in {}: {error}", dir.display())))?;
        terminal.note(&format!("proofs: {}", dir.display()));
    }
    let document = Document { schema: 1, verdicts: &verdicts, locks: &locks };
    terminal.answer(&document, || text::verdicts(&verdicts, &locks))?;
    Ok(verdicts
        .iter()
        .map(|(_, verdict)| match verdict.state {
            State::Clean => exit::AS_EXPECTED,
            State::Violated => exit::NOT_AS_EXPECTED,
            State::Unknown => exit::UNKNOWN,
        })
        .fold(exit::AS_EXPECTED, exit::worse))
}

fn export(histories: &[JudgedHistory], terminal: &Terminal) -> anyhow::Result<u8> {
    let [judged] = histories else {
        return Err(exit::usage(format!(
            "--export takes one history, and the run has {}: name the history.jsonl of one scenario",
            histories.len()
        )));
    };
    let (record, warning) = judged.record()?;
    if let Some(warning) = warning {
        terminal.warn(&warning);
    }
    for operation in porcupine::operations(&record) {
        terminal.data(&(serde_json::to_string(&operation)? + "\n"));
    }
    Ok(exit::AS_EXPECTED)
}
