//! `locklab gate`: decides on a kept run by conditions. 0: all are met; 1: one is not; 2: one cannot be
//! decided.

use std::path::PathBuf;

use clap::Args;
use results::gate::{self, Outcome};
use results::report::text;

use crate::exit;
use crate::project::Project;
use crate::run::{dir_of, load};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    /// The run (a directory, its name under runs/, or `latest`, which may be left out), then conditions such
    /// as 'p99(acquire) < 5ms'; two runs: the first is the base, as in `compare`
    #[arg(value_name = "RUN|CONDITION")]
    words: Vec<String>,
    /// A file of conditions, one per line; # begins a comment [default without conditions: the budget of
    /// locklab.toml]
    #[arg(long, value_name = "FILE")]
    budget: Vec<PathBuf>,
    /// The run that `base` means in conditions such as 'cycles >= 0.95 * base'
    #[arg(long, value_name = "RUN")]
    base: Option<String>,
}

fn after_help() -> String {
    format!(
        "Conditions: VALUE <|<=|>|>=|==|!= BOUND [where FIELD == PATTERN, …]\n  \
         'p99(acquire) < 5ms'  'contract == clean where scenario == failover-*'  'cycles >= 0.95 * base'\n{}",
        gate::help()
    )
}

/// A condition holds a sign of comparison, which no sensible name of a run does.
fn is_condition(word: &str) -> bool {
    word.contains(['<', '>', '=']) && !std::path::Path::new(word).exists()
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let (conditions, runs): (Vec<&String>, Vec<&String>) =
        options.words.iter().partition(|word| is_condition(word));
    let mut budgets = options.budget.clone();
    if budgets.is_empty() && conditions.is_empty() {
        budgets.extend(Project::here()?.budget);
    }
    let mut conditions = gate::parse_all(&conditions).map_err(exit::usage)?;
    conditions.extend(gate::read_budgets(&budgets).map_err(exit::input)?);
    // Two words may be a run and its base; without a condition one is more likely a mistyped condition.
    let no_run = |word: &&&String| dir_of(word).is_err();
    if conditions.is_empty()
        && let Some(word) = runs.iter().find(no_run)
    {
        return Err(exit::usage(format!(
            "`{word}` is neither a run nor a condition; write a condition as 'p99(acquire) < 5ms'"
        )));
    }
    if conditions.is_empty() {
        return Err(exit::usage("no conditions: give some such as 'p99(acquire) < 5ms', or --budget FILE"));
    }
    let (base, run) = match (runs.as_slice(), &options.base) {
        ([], base) => (base.as_ref(), "latest"),
        ([run], base) => (base.as_ref(), run.as_str()),
        ([base, run], None) => (Some(*base), run.as_str()),
        (more, _) => {
            return Err(exit::usage(format!(
                "one run and its base at most; {} are given: {}",
                more.len(),
                more.iter().map(|run| run.as_str()).collect::<Vec<_>>().join(", ")
            )));
        }
    };
    if base.is_none()
        && let Some(condition) = conditions.iter().find(|one| one.asks_for_base())
    {
        return Err(exit::usage(format!("'{}' needs a base: name the run with --base RUN", condition.text)));
    }
    let run = load(run)?;
    let base = base.map(|base| load(base)).transpose()?;
    let decision = gate::decide(&run, base.as_ref(), &conditions);
    terminal.answer_painted(&decision, || text::decision(&decision, terminal.text_options()))?;
    Ok(match decision.outcome {
        Outcome::Passed => exit::AS_EXPECTED,
        Outcome::Unknown => exit::UNKNOWN,
        Outcome::Failed => exit::NOT_AS_EXPECTED,
    })
}
