//! Random scenarios by the thousand: a short run with drawn faults for each seed, on configurations that must
//! stay clean, and a file of the seeds that are done.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;

use results::limits;
use results::run::ScenarioResult;
use results::verdict::State;
use serde::{Deserialize, Serialize};

use crate::batch::{PlanOutcome, PlannedRun};
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::scenario::builtin::SOAK;

/// A seed that is done: one line of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakedSeed {
    /// The seed.
    pub seed: u64,
    /// The scenario whose turn it was.
    pub scenario: String,
    /// 0, 1 or 2 as of a scenario; more where it came to nothing.
    pub exit_code: u8,
    /// What came out, by verdict.
    pub verdicts: BTreeMap<String, String>,
    /// Why it is not as expected, and where the run is; absent for a clean one, whose files are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
}

/// What is left to do of these seeds, each on the topology whose turn it is; `mine` says which name and seed
/// are this caller's.
pub fn plans(
    seeds: Range<u64>,
    done: &[SoakedSeed],
    mine: impl Fn(&str, u64) -> bool,
) -> Result<Vec<PlannedRun>, RunError> {
    let scenarios = SOAK.iter().map(|builtin| Scenario::parse(builtin.path, builtin.text));
    let scenarios: Vec<Scenario> =
        scenarios.collect::<Result<_, _>>().map_err(|error| RunError::Input(error.to_string()))?;
    let turn = |seed: u64| usize::try_from(seed % scenarios.len() as u64).unwrap_or_default();
    let left = seeds.map(|seed| (seed, &scenarios[turn(seed)])).filter(|(seed, scenario)| {
        mine(&scenario.name, *seed) && !done.iter().any(|done| done.seed == *seed)
    });
    left.map(|(seed, scenario)| PlannedRun::of_scenario(scenario, seed)).collect()
}

/// What one seed came to, and its files are removed where they show nothing. `None`: it was interrupted, and
/// is to be run again. `code_of` gives the exit code of a run that came to nothing.
pub fn outcome(ended: PlanOutcome, runs: &Path, code_of: impl Fn(&RunError) -> u8) -> Option<SoakedSeed> {
    let PlanOutcome { dir, plan, result, .. } = ended;
    let dir = runs.join(dir);
    let (exit_code, verdicts, finding) = match result {
        Ok(run) if run.partial => {
            let _ = std::fs::remove_dir_all(&dir);
            return None;
        }
        Ok(run) if run.result.as_expected => {
            // A clean run has nothing to show; a thousand of them would fill a disk.
            let _ = std::fs::remove_dir_all(&dir);
            (run.result.exit_code, verdicts(&run.result), None)
        }
        Ok(run) => {
            let why = format!("{}; see {}", finding(&run.result), dir.display());
            (run.result.exit_code, verdicts(&run.result), Some(why))
        }
        Err(error) => (code_of(&error), BTreeMap::new(), Some(error.to_string())),
    };
    Some(SoakedSeed { seed: plan.seed, scenario: plan.name, exit_code, verdicts, finding })
}

fn verdicts(result: &ScenarioResult) -> BTreeMap<String, String> {
    let verdicts = result.verdicts.iter();
    verdicts.map(|(class, verdict)| (class.to_owned(), verdict.state.word().to_owned())).collect()
}

/// How often each scenario came out how.
pub fn tally(done: &[SoakedSeed]) -> String {
    let outcomes = done.iter().map(|done| {
        let state = match done.exit_code {
            0 => State::Clean,
            1 => State::Violated,
            _ => State::Unknown,
        };
        (&*done.scenario, state, done.exit_code == 0)
    });
    results::report::text::tally(outcomes)
}

/// Which verdicts are not clean, and which faults are without proof.
fn finding(result: &ScenarioResult) -> String {
    let mut parts: Vec<String> = verdicts(result)
        .into_iter()
        .filter(|(_, state)| state != "clean")
        .map(|(class, state)| format!("{class} {state}"))
        .collect();
    for fault in &result.faults {
        if !fault.bit {
            parts.push(format!("no evidence that {} took effect: {}", fault.fault, fault.proof));
        }
    }
    format!("{}: {}", result.name, parts.join(", "))
}

/// The seeds that are done; none where there is no file.
pub fn read(path: &Path) -> Result<Vec<SoakedSeed>, RunError> {
    let unread = |error: std::io::Error| RunError::Input(format!("cannot read {}: {error}", path.display()));
    let mut text = match limits::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
    };
    let (mut done, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        if limits::read_line(&mut text, &mut line).map_err(unread)? == 0 {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(one) => done.push(one),
            // The last line may be torn: then its seed is run again.
            Err(_) if !line.ends_with(b"\n") => {}
            Err(error) => {
                return Err(RunError::Input(format!(
                    "{}:{number}: no line of a seed that is done: {error}; remove the line, or name another --state",
                    path.display()
                )));
            }
        }
    }
    Ok(done)
}

/// Opens the state file for more, on a line of its own.
pub fn open(path: &Path) -> Result<File, RunError> {
    let problem =
        |error: std::io::Error| RunError::Input(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(problem)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path);
    let file = file.map_err(problem)?;
    let length = file.metadata().map_err(problem)?.len();
    let end = limits::tail(path, limits::LINE).map_err(problem)?;
    // A torn line is no line: cut it off, so that the next one can be read. A whole file is left alone, since
    // another process may be adding to it.
    let torn = end.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
    if torn > 0 {
        file.set_len(length - torn as u64).map_err(problem)?;
    }
    Ok(file)
}
