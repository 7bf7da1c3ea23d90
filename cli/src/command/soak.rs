//! `locklab soak`: a short run with random faults for each seed, on configurations that must stay clean; it remembers what is done.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};

use chaos::builtin::SOAK;
use chaos::scenario::Scenario;
use clap::Args;
use futures_util::StreamExt as _;
use results::limits;
use results::run::ScenarioResult;
use serde::{Deserialize, Serialize};

use super::chaos::{PlanOutcome, Planned, ScenarioRunOptions, code_of, planned_one, run_each};
use super::part_number::{PartArgs, PartNumber};
use super::tally::{Count, render};
use crate::cancel::Cancel;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `soak`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seeds to run: --seed (default 1) and those that follow it; each takes one of the topologies in turn
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    seeds: u64,
    #[command(flatten)]
    part: PartArgs,
    /// Runs at a time
    #[arg(long, default_value_t = 2, value_parser = crate::args::count, value_name = "N")]
    jobs: u32,
    /// The file of the seeds that are done, which are not run again
    #[arg(long, default_value = "runs/soak.jsonl", value_name = "FILE")]
    state: PathBuf,
}

/// One line of the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SoakLine {
    seed: u64,
    scenario: String,
    exit_code: u8,
    /// What came out, by verdict.
    verdicts: BTreeMap<String, String>,
    /// Why it is not as expected, and where the run is; absent for a clean one, whose files are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finding: Option<String>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let first = terminal.common.seed.unwrap_or(1);
    let seeds = first..first.saturating_add(options.seeds);
    let mut done = read(&options.state)?;
    let slice = options.part.slice()?;
    let planned = plans(seeds.clone(), &done, slice)?;
    let mine = |done: &SoakLine| slice.is_none_or(|slice| slice.has(&done.scenario, done.seed));
    done.retain(|done| seeds.contains(&done.seed) && mine(done));
    let seeds = planned.len() + done.len();
    let mut state = open(&options.state)?;
    let runs = std::path::absolute(options.state.with_extension(""))?;
    let cancel = Cancel::listen()?;
    let bar = terminal.bar(planned.len() as u64, "seeds");
    let planned = planned.into_iter().map(|planned| {
        let name = format!("{}-{}", planned.plan.name, planned.plan.seed);
        // What an interrupted run left there.
        let _ = std::fs::remove_dir_all(runs.join(&name));
        (name, planned)
    });
    let how = ScenarioRunOptions::side_by_side(options.jobs as usize);
    let mut running = run_each(planned.collect(), &how, &runs, &cancel)?;
    while let Some(ended) = running.next().await {
        if let Some(outcome) = outcome(ended, &runs) {
            if let Some(finding) = &outcome.finding {
                terminal.warn(&format!("seed {}: {finding}", outcome.seed));
            }
            writeln!(state, "{}", serde_json::to_string(&outcome)?)?;
            done.push(outcome);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(running);
    // Gone if nothing was found.
    let _ = std::fs::remove_dir(&runs);
    report(&options, seeds, &done, terminal)?;
    if cancel.is_wanted() {
        return Ok(exit::INTERRUPTED);
    }
    Ok(done.iter().fold(exit::AS_EXPECTED, |code, done| {
        exit::worse(code, done.exit_code)
    }))
}

/// What is left to do, each seed on the topology whose turn it is.
fn plans(
    seeds: std::ops::Range<u64>,
    done: &[SoakLine],
    slice: Option<PartNumber>,
) -> anyhow::Result<Vec<Planned>> {
    let scenarios: Vec<Scenario> = SOAK
        .iter()
        .map(|builtin| Scenario::parse(builtin.path, builtin.text))
        .collect::<Result<_, _>>()?;
    let mut planned = Vec::new();
    for seed in seeds {
        let scenario = &scenarios[usize::try_from(seed % scenarios.len() as u64)?];
        let mine = slice.is_none_or(|slice| slice.has(&scenario.name, seed));
        if mine && !done.iter().any(|done| done.seed == seed) {
            planned.push(planned_one(scenario, seed)?);
        }
    }
    Ok(planned)
}

/// What one seed came to. `None`: it was interrupted, and is to be run again.
fn outcome(ended: PlanOutcome, runs: &Path) -> Option<SoakLine> {
    let PlanOutcome {
        dir, plan, result, ..
    } = ended;
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
            let why = format!("{}; see {}", words(&run.result), dir.display());
            (run.result.exit_code, verdicts(&run.result), Some(why))
        }
        Err(error) => (code_of(&error), BTreeMap::new(), Some(error.to_string())),
    };
    Some(SoakLine {
        seed: plan.seed,
        scenario: plan.name,
        exit_code,
        verdicts,
        finding,
    })
}

fn verdicts(result: &ScenarioResult) -> BTreeMap<String, String> {
    let verdicts = result.verdicts.iter();
    verdicts
        .map(|(class, verdict)| (class.to_owned(), verdict.state.word().to_owned()))
        .collect()
}

/// Which verdicts are not clean, and which faults are without proof.
fn words(result: &ScenarioResult) -> String {
    let mut parts: Vec<String> = verdicts(result)
        .into_iter()
        .filter(|(_, state)| state != "clean")
        .map(|(class, state)| format!("{class} {state}"))
        .collect();
    for fault in &result.faults {
        if !fault.bit {
            parts.push(format!(
                "no evidence that {} took effect: {}",
                fault.fault, fault.proof
            ));
        }
    }
    format!("{}: {}", result.name, parts.join(", "))
}

fn read(path: &Path) -> anyhow::Result<Vec<SoakLine>> {
    let unread =
        |error: std::io::Error| exit::input(format!("cannot read {}: {error}", path.display()));
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
                return Err(exit::input(format!(
                    "{}:{number}: no line of a seed that is done: {error}; remove the line, or name another --state",
                    path.display()
                )));
            }
        }
    }
    Ok(done)
}

/// Opens the state file for more, on a line of its own.
fn open(path: &Path) -> anyhow::Result<File> {
    let problem =
        |error: std::io::Error| exit::input(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(problem)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path);
    let file = file.map_err(problem)?;
    let length = file.metadata().map_err(problem)?.len();
    let end = limits::tail(path, limits::LINE).map_err(problem)?;
    // A torn line is no line: cut it off, so that the next one can be read. A whole file is left alone, since another process may be adding to it.
    let torn = end
        .rsplit(|byte| *byte == b'\n')
        .next()
        .map_or(0, <[u8]>::len);
    if torn > 0 {
        file.set_len(length - torn as u64).map_err(problem)?;
    }
    Ok(file)
}

fn report(
    options: &Options,
    seeds: usize,
    done: &[SoakLine],
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for done in done {
        let count = counts.entry(&done.scenario).or_default();
        match done.exit_code {
            exit::AS_EXPECTED => {
                count.clean += 1;
                count.as_expected += 1;
            }
            exit::NOT_AS_EXPECTED => count.convicted += 1,
            _ => count.unknown += 1,
        }
    }
    let findings: Vec<&SoakLine> = done.iter().filter(|done| done.finding.is_some()).collect();
    let document = serde_json::json!({
        "schema": 1,
        "seeds": seeds,
        "done": done.len(),
        "as_expected": findings.is_empty(),
        "findings": findings,
    });
    terminal.answer(&document, || {
        let mut text = render(counts);
        text.push_str(&format!(
            "{} of {} seeds done, {} findings; state in {}",
            done.len(),
            seeds,
            findings.len(),
            options.state.display()
        ));
        for done in &findings {
            let finding = done.finding.as_deref().unwrap_or_default();
            text.push_str(&format!("\n  seed {}: {finding}", done.seed));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(seed: u64) -> SoakLine {
        SoakLine {
            seed,
            scenario: "soak-single".to_owned(),
            exit_code: 0,
            verdicts: BTreeMap::new(),
            finding: None,
        }
    }

    #[test]
    fn a_line_that_is_torn_in_the_middle_of_a_letter_is_cut_off_alone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("state.jsonl");
        std::fs::write(&path, b"{\"seed\":1}\n{\"scenario\":\"\xc3").expect("a file");
        drop(open(&path).expect("it can be written"));
        let kept = std::fs::read_to_string(&path).expect("text again");
        assert_eq!(kept, "{\"seed\":1}\n");
    }

    #[test]
    fn seeds_that_are_done_are_not_planned_again_and_topologies_take_turns() {
        let planned = plans(1..9, &[done(2), done(7)], None).expect("the files are good");
        let seeds: Vec<u64> = planned.iter().map(|planned| planned.plan.seed).collect();
        assert_eq!(seeds, [1, 3, 4, 5, 6, 8]);
        let kinds: std::collections::BTreeSet<&str> = planned
            .iter()
            .map(|planned| planned.plan.topology.kind.name())
            .collect();
        assert_eq!(kinds.len(), 4);
        assert!(
            planned
                .iter()
                .all(|planned| !planned.plan.faults.is_empty())
        );
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_a_bad_one_elsewhere_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state.jsonl");
        let line = serde_json::to_string(&done(1)).expect("plain JSON");
        std::fs::write(&path, format!("{line}\n{{\"seed\":2")).expect("written");
        assert_eq!(read(&path).expect("readable"), [done(1)]);
        let mut file = open(&path).expect("writable");
        writeln!(
            file,
            "{}",
            serde_json::to_string(&done(3)).expect("plain JSON")
        )
        .expect("written");
        assert_eq!(read(&path).expect("readable"), [done(1), done(3)]);
        for (text, place) in [
            (format!("nonsense\n{line}\n"), "state.jsonl:1: "),
            (format!("{line}\nnonsense\n"), "state.jsonl:2: "),
        ] {
            std::fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("a whole line that says nothing");
            assert_eq!(exit::code_of(&error), exit::INPUT);
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}
