//! `locklab check`: judges a run, or a history from elsewhere, again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chaos::checkers::{self, CheckOptions, CheckReport, Reader};
use chaos::kept_plan::PLAN_FILE;
use chaos::plan::Plan;
use chaos::proof;
use clap::Args;
use nix::sys::resource::{Resource, getrlimit};
use results::history::{History, Line};
use results::history_file;
use results::history_parts::Parts;
use results::limits;
use results::run::{FaultSpan, ScenarioResult};
use results::store::{HISTORY_FILE, RUN_FILE, refuse_links};
use results::verdict::{CLASSES, State, Verdict, Verdicts};
use serde::Serialize;

use super::run::dir_of;
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A run (a directory, its name under runs/, or `latest`), a history file, or `-` for a history on standard input; several files are
    /// the parts of one history, each recorded on a clock of its own
    #[arg(required = true, num_args = 1.., value_name = "RUN")]
    runs: Vec<String>,
    /// How far apart the clocks of the parts of a history may be at most; needed where they do not say how they stand to a reference
    #[arg(long, value_parser = crate::args::duration, value_name = "DURATION")]
    clock_uncertainty: Option<Duration>,
    /// Share of a lease by which clocks may disagree; it shortens contract intervals and nothing else
    #[arg(long, value_parser = drift, default_value = "1%", value_name = "PERCENT")]
    drift: f64,
    /// Judge a short history as it is, without asking whether enough happened
    #[arg(long)]
    no_floors: bool,
}

/// A history that needs less memory than this is judged without a word.
const SAID_FROM_MB: u64 = 512;

/// Where standard input is a file.
const STDIN: &str = "/dev/stdin";

/// A share of the lease, of which something must be left.
fn drift(text: &str) -> Result<f64, String> {
    let share = crate::args::share(text).ok();
    share.filter(|share| *share < 1.0).ok_or_else(|| {
        crate::args::invalid("drift", text, "a share of the lease under 100%, such as 1%")
    })
}

/// What is printed with `--json`. Of many locks it is made only then.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    verdicts: &'a Verdicts,
    locks: &'a BTreeMap<String, Verdicts>,
}

struct JudgedHistory {
    /// `scenario/` before its locks' names where a run has several, else empty.
    prefix: String,
    history: PathBuf,
    /// The parts that it is to be put together from, in its place.
    parts: Option<Parts>,
    faults: Option<Vec<FaultSpan>>,
    masters: Vec<String>,
    /// Why the history may be incomplete.
    doubts: Vec<String>,
}

impl JudgedHistory {
    fn of(history: PathBuf) -> Self {
        JudgedHistory {
            prefix: String::new(),
            history,
            parts: None,
            faults: None,
            masters: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// Hands over its lines; what is to be said of a file that ends early.
    fn read(&self, take: impl FnMut(Line)) -> anyhow::Result<Option<String>> {
        let Some(parts) = &self.parts else {
            return history_file::read_lines(&self.history, take).map_err(exit::input);
        };
        let warnings = parts.read(take).map_err(exit::input)?;
        Ok((!warnings.is_empty()).then(|| warnings.join("; ")))
    }
}

fn parts(files: &[String], uncertainty: Option<Duration>) -> anyhow::Result<JudgedHistory> {
    let mut paths = Vec::new();
    for file in files {
        let path = PathBuf::from(file);
        let history = history_file::of_dir(&path).unwrap_or(path);
        if !history.is_file() {
            return Err(exit::input(format!(
                "{file} is no history file: several files are the parts of one history, and runs are judged one by one"
            )));
        }
        paths.push(history);
    }
    let declared_ns =
        uncertainty.map(|uncertainty| u64::try_from(uncertainty.as_nanos()).unwrap_or(u64::MAX));
    let parts = Parts::open(&paths, declared_ns);
    Ok(JudgedHistory {
        parts: Some(
            parts.map_err(|error| exit::input(format!("{error}; see --clock-uncertainty")))?,
        ),
        ..JudgedHistory::of(PathBuf::new())
    })
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let histories = match options.runs.as_slice() {
        [run] if options.clock_uncertainty.is_none() => histories(run)?,
        files => vec![parts(files, options.clock_uncertainty)?],
    };
    let mut all: Vec<Verdicts> = Vec::new();
    let mut locks: BTreeMap<String, Verdicts> = BTreeMap::new();
    for judged in &histories {
        let report = judge(judged, &options, terminal)?;
        for (name, verdicts) in report.locks {
            locks.insert(format!("{}{name}", judged.prefix), verdicts);
        }
        all.push(report.verdicts);
    }
    let verdicts = join(all);
    if let Some(dir) = &terminal.common.out {
        proof::write(&verdicts, dir).map_err(|error| {
            exit::usage(format!(
                "cannot write the proofs in {}: {error}",
                dir.display()
            ))
        })?;
        terminal.note(&format!("proofs: {}", dir.display()));
    }
    let document = Document {
        schema: 1,
        verdicts: &verdicts,
        locks: &locks,
    };
    terminal.answer(&document, || text(&verdicts, &locks))?;
    Ok(verdicts
        .iter()
        .map(|(_, verdict)| match verdict.state {
            State::Clean => exit::AS_EXPECTED,
            State::Violated => exit::NOT_AS_EXPECTED,
            State::Unknown => exit::UNKNOWN,
        })
        .fold(exit::AS_EXPECTED, exit::worse))
}

/// The verdicts of several histories as one: counts add up, the worst state stands, the first proof is shown.
fn join(mut all: Vec<Verdicts>) -> Verdicts {
    if all.len() == 1 {
        return all.remove(0);
    }
    let mut joined = Verdicts::default();
    for class in CLASSES {
        let Some(one) = joined.get_mut(class) else {
            continue;
        };
        let of_class = || all.iter().filter_map(|verdicts| verdicts.get(class));
        one.state = checkers::worst(of_class().map(|verdict| verdict.state));
        for verdict in of_class() {
            one.count += verdict.count;
            one.worst_ns = one.worst_ns.max(verdict.worst_ns);
            one.why.extend(verdict.why.iter().cloned());
            one.anomalies.extend(verdict.anomalies.iter().cloned());
            one.proof = one.proof.take().or_else(|| verdict.proof.clone());
        }
    }
    joined
}

/// Says how much memory a large history takes, before it is read.
fn foretell(path: &Path, terminal: &Terminal) -> anyhow::Result<()> {
    let bytes = path.metadata().map_or(0, |found| found.len());
    let compressed = path.extension().is_some_and(|name| name == "zst");
    // What was recorded is a twentieth of itself when it is compressed.
    let text_mb = (bytes >> 20) * if compressed { 20 } else { 1 };
    let needed_mb = 64 + 2 * text_mb;
    if needed_mb < SAID_FROM_MB {
        return Ok(());
    }
    let said = format!(
        "{}: to judge {text_mb} MB of lines takes about {needed_mb} MB of memory, and 8 kB for each lock",
        path.display()
    );
    let free = bench::environment::available_memory_bytes().unwrap_or(u64::MAX);
    let (limit, _) = getrlimit(Resource::RLIMIT_AS)?;
    let free_mb = free.min(limit) >> 20;
    match needed_mb > free_mb {
        true => Err(exit::missing(format!(
            "{said}, and this machine has {free_mb} MB free"
        ))),
        false => {
            terminal.note(&said);
            Ok(())
        }
    }
}

fn judge(
    judged: &JudgedHistory,
    options: &Options,
    terminal: &Terminal,
) -> anyhow::Result<CheckReport> {
    let path = &judged.history;
    // Lines are judged as they come, and only a proof needs them again; what can be read only once is kept.
    let (mut kept, mut lines) = (Vec::new(), 0);
    foretell(path, terminal)?;
    let mut once = judged.parts.is_none() && (!path.is_file() || path == Path::new(STDIN));
    let mut reader = Reader::default();
    let warning = judged.read(|line| {
        reader.line(&line);
        lines += 1;
        // More than that are lines without a proof.
        once &= lines <= limits::PROOF_LINES;
        match once {
            true => kept.push(line),
            false => kept = Vec::new(),
        }
    })?;
    if let Some(warning) = &warning {
        terminal.warn(warning);
    }
    let record = reader.finish(warning.is_some(), &BTreeMap::new());
    let mut how = CheckOptions {
        drift: options.drift,
        masters: judged.masters.clone(),
        doubts: judged.doubts.clone(),
        proofs: judged.faults.as_deref(),
        ..CheckOptions::default()
    };
    if options.no_floors {
        how.floors = None;
    }
    let mut report = checkers::judge(record, &how);
    let is_violated = |(_, verdict): (&str, &Verdict)| verdict.state == State::Violated;
    if report.verdicts.iter().any(is_violated) {
        if lines <= limits::PROOF_LINES {
            if !once {
                judged.read(|line| kept.push(line))?;
            }
        } else {
            terminal.note(&format!(
                "a history of {lines} lines is not kept in memory, so the proofs are pictures without lines; those of {} would be",
                limits::PROOF_LINES
            ));
        }
        let history = History {
            torn: warning.is_some(),
            ..History::from_lines(kept)
        };
        proof::attach(&mut report, &history, &how);
    }
    for note in &report.notes {
        terminal.note(&format!("note: {}{note}", judged.prefix));
    }
    Ok(report)
}

fn histories(run: &str) -> anyhow::Result<Vec<JudgedHistory>> {
    let path = Path::new(if run == "-" { STDIN } else { run });
    // Anything that can be read, a pipe too.
    let is_file = path.exists() && !path.is_dir();
    if is_file && path.file_name().is_some_and(|name| name != RUN_FILE) {
        return Ok(vec![JudgedHistory::of(path.to_owned())]);
    }
    // A recording from elsewhere, or what was left of a run that was killed early: a directory with nothing but a history.
    if path.is_dir()
        && !path.join(RUN_FILE).is_file()
        && let Some(history) = history_file::of_dir(path)
    {
        refuse_links(path).map_err(exit::input)?;
        return Ok(vec![JudgedHistory::of(history)]);
    }
    let dir = dir_of(run)?;
    let kept = results::store::load_dir(&dir).map_err(exit::input)?;
    let several = kept.scenarios.len() > 1;
    let unended = match kept.partial {
        true => unended(&dir, &kept.scenarios),
        false => Vec::new(),
    };
    let mut found: Vec<JudgedHistory> = kept
        .scenarios
        .into_iter()
        .map(|scenario| JudgedHistory {
            prefix: match several {
                true => format!("{}@{}/", scenario.name, scenario.seed),
                false => String::new(),
            },
            masters: masters(&dir.join(&scenario.dir)),
            doubts: scenario.incomplete,
            faults: Some(scenario.faults),
            ..JudgedHistory::of(history_of(&dir.join(&scenario.dir)))
        })
        .collect();
    found.extend(unended);
    if found.is_empty() {
        return Err(exit::input(format!(
            "{} has no scenario, so there is no history to judge",
            dir.display()
        )));
    }
    Ok(found)
}

/// Histories of scenarios that a run was killed in: they have no result, and nothing says what their faults did.
fn unended(dir: &Path, ended: &[ScenarioResult]) -> Vec<JudgedHistory> {
    let inside = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut places: Vec<String> = inside
        .filter(|entry| entry.path().is_dir() && refuse_links(&entry.path()).is_ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    places.sort();
    places.insert(0, String::new());
    places.retain(|place| ended.iter().all(|scenario| scenario.dir != *place));
    places
        .into_iter()
        .filter_map(|place| {
            let history = history_file::of_dir(&dir.join(&place))?;
            Some(JudgedHistory {
                masters: masters(&dir.join(&place)),
                prefix: match place.is_empty() {
                    true => place,
                    false => format!("{place}/"),
                },
                doubts: vec!["the run did not end: what was recorded until then".to_owned()],
                ..JudgedHistory::of(history)
            })
        })
        .collect()
}

/// What the plan beside a history says of its servers; nothing without a plan.
fn masters(dir: &Path) -> Vec<String> {
    let text = results::limits::read_text(dir.join(PLAN_FILE)).unwrap_or_default();
    Plan::from_json(&text).map_or(Vec::new(), |plan| plan.masters())
}

/// The scenario's history; where there is none, the name under which it is missed.
fn history_of(dir: &Path) -> PathBuf {
    history_file::of_dir(dir).unwrap_or_else(|| dir.join(HISTORY_FILE))
}

fn text(verdicts: &Verdicts, locks: &BTreeMap<String, Verdicts>) -> String {
    let mut out = String::new();
    for (class, verdict) in verdicts.iter() {
        out.push_str(&format!("{class:<10} {}\n", describe(verdict)));
        for why in &verdict.why {
            out.push_str(&format!("           {why}\n"));
        }
    }
    for (name, verdicts) in locks {
        for (class, verdict) in verdicts.iter() {
            for anomaly in &verdict.anomalies {
                out.push_str(&format!("{name}: {class}: {}\n", anomaly.proof));
            }
        }
    }
    for (class, verdict) in verdicts.iter() {
        if let Some(proof) = &verdict.proof {
            out.push_str(&format!("\nproof, {class}\n{}", proof.text()));
        }
    }
    out
}

fn describe(verdict: &Verdict) -> String {
    match verdict.state {
        State::Clean => "clean".to_owned(),
        State::Unknown => "unknown".to_owned(),
        State::Violated => format!(
            "violated, {}",
            results::report::rates(verdict).unwrap_or_default()
        ),
    }
}
