//! Judges a history again: of a run, of what a killed run left, or a recording from elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use results::history::{History, Line};
use results::history_file;
use results::history_parts::Parts;
use results::limits;
use results::run::{FaultSpan, ScenarioResult};
use results::store::{HISTORY_FILE, RUN_FILE, RunStore, refuse_links};
use results::verdict::{State, Verdict};

use crate::checkers::{self, CheckOptions, CheckReport, Reader, Record};
use crate::planning::kept_plan::PLAN_FILE;
use crate::planning::plan::Plan;
use crate::proof;
use crate::run::RunError;

/// A history that needs less memory than this is judged without a word.
const SAID_FROM_MB: u64 = 512;

/// Where standard input is a file.
const STDIN: &str = "/dev/stdin";

fn input(why: impl std::fmt::Display) -> RunError {
    RunError::Input(why.to_string())
}

/// What a user should know of the judging.
pub enum JudgedNote {
    /// The history ends early.
    Warning(String),
    /// Anything else.
    Note(String),
}

/// A history that is to be judged again.
pub struct JudgedHistory {
    /// `scenario/` before its locks' names where a run has several, else empty.
    pub prefix: String,
    history: PathBuf,
    /// The parts that it is to be put together from, in its place.
    parts: Option<Parts>,
    faults: Option<Vec<FaultSpan>>,
    masters: Vec<String>,
    doubts: Vec<String>,
}

impl JudgedHistory {
    /// A recording of which nothing else is known.
    pub(crate) fn of(history: PathBuf) -> Self {
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
    fn read(&self, take: impl FnMut(Line)) -> Result<Option<String>, RunError> {
        let Some(parts) = &self.parts else {
            return history_file::read_lines(&self.history, take).map_err(input);
        };
        let warnings = parts.read(take).map_err(input)?;
        Ok((!warnings.is_empty()).then(|| warnings.join("; ")))
    }

    /// The parts of one history, each recorded on a clock of its own; at most so far apart, where they do not
    /// say themselves.
    pub fn of_parts(files: &[String], uncertainty: Option<Duration>) -> Result<Self, RunError> {
        let mut paths = Vec::new();
        for file in files {
            let path = PathBuf::from(file);
            let history = history_file::of_dir(&path).unwrap_or(path);
            if !history.is_file() {
                return Err(input(format!(
                    "{file} is no history file: several files are the parts of one history, and runs are judged one by one"
                )));
            }
            paths.push(history);
        }
        let declared_ns =
            uncertainty.map(|uncertainty| u64::try_from(uncertainty.as_nanos()).unwrap_or(u64::MAX));
        let parts = Parts::open(&paths, declared_ns);
        Ok(Self {
            parts: Some(parts.map_err(|error| input(format!("{error}; see --clock-uncertainty")))?),
            ..Self::of(PathBuf::new())
        })
    }

    /// Those of a run, by its directory or name, or of a file or directory that holds a history alone; `-`:
    /// of standard input.
    pub fn all_of(run: &str, store: &RunStore) -> Result<Vec<Self>, RunError> {
        let path = Path::new(if run == "-" { STDIN } else { run });
        // Anything that can be read, a pipe too.
        let is_file = path.exists() && !path.is_dir();
        if is_file && path.file_name().is_some_and(|name| name != RUN_FILE) {
            return Ok(vec![Self::of(path.to_owned())]);
        }
        // A recording from elsewhere, or what was left of a run that was killed early.
        if path.is_dir()
            && !path.join(RUN_FILE).is_file()
            && let Some(history) = history_file::of_dir(path)
        {
            refuse_links(path).map_err(input)?;
            return Ok(vec![Self::of(history)]);
        }
        Self::of_run(&store.resolve(run).map_err(input)?)
    }

    /// Those of a run that was kept, also of scenarios that it was killed in.
    fn of_run(dir: &Path) -> Result<Vec<Self>, RunError> {
        let kept = results::store::load_dir(dir).map_err(input)?;
        let several = kept.scenarios.len() > 1;
        let unended = if kept.partial { unended(dir, &kept.scenarios) } else { Vec::new() };
        let mut found: Vec<JudgedHistory> = kept
            .scenarios
            .into_iter()
            .map(|scenario| JudgedHistory {
                prefix: if several { format!("{}@{}/", scenario.name, scenario.seed) } else { String::new() },
                masters: masters(&dir.join(&scenario.dir)),
                doubts: scenario.incomplete,
                faults: Some(scenario.faults),
                ..JudgedHistory::of(history_of(&dir.join(&scenario.dir)))
            })
            .collect();
        found.extend(unended);
        if found.is_empty() {
            return Err(input(format!("{} has no scenario, so there is no history to judge", dir.display())));
        }
        Ok(found)
    }

    /// What its lines say, unjudged, and what is to be said of a file that ends early.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no history.
    pub fn record(&self) -> Result<(Record, Option<String>), RunError> {
        let mut reader = Reader::default();
        let warning = self.read(|line| reader.line(&line))?;
        Ok((reader.finish(warning.is_some(), &BTreeMap::new()), warning))
    }

    /// Judges it, with proofs of what is violated. What a user should know of that is said, and a warning
    /// where it ends early.
    pub fn judge(
        &self,
        how: &CheckOptions<'_>,
        say: &mut dyn FnMut(JudgedNote),
    ) -> Result<CheckReport, RunError> {
        let path = &self.history;
        // Lines are judged as they come, and only a proof needs them again: then they are kept.
        let (mut kept, mut lines) = (Vec::new(), 0);
        if let Some(said) = foretell(path)? {
            say(JudgedNote::Note(said));
        }
        let mut once = self.parts.is_none() && (!path.is_file() || path == Path::new(STDIN));
        let mut reader = Reader::default();
        let warning = self.read(|line| {
            reader.line(&line);
            lines += 1;
            // More than that are lines without a proof.
            once &= lines <= limits::PROOF_LINES;
            match once {
                true => kept.push(line),
                false => kept = Vec::new(),
            }
        })?;
        let torn = warning.is_some();
        if let Some(warning) = warning {
            say(JudgedNote::Warning(warning));
        }
        let record = reader.finish(torn, &BTreeMap::new());
        let how = CheckOptions {
            masters: self.masters.clone(),
            doubts: self.doubts.clone(),
            proofs: self.faults.as_deref(),
            ..how.clone()
        };
        let mut report = checkers::judge(record, &how);
        let is_violated = |(_, verdict): (&str, &Verdict)| verdict.state == State::Violated;
        if report.verdicts.iter().any(is_violated) {
            if lines <= limits::PROOF_LINES {
                if !once {
                    self.read(|line| kept.push(line))?;
                }
            } else {
                say(JudgedNote::Note(format!(
                    "a history of {lines} lines is not kept in memory, so the proofs are pictures without lines; those of {} would be",
                    limits::PROOF_LINES
                )));
            }
            let history = History { torn, ..History::from_lines(kept) };
            proof::attach(&mut report, &history, &how);
        }
        for note in &report.notes {
            say(JudgedNote::Note(format!("note: {}{note}", self.prefix)));
        }
        Ok(report)
    }
}

/// Says how much memory a large history takes, before it is read.
fn foretell(path: &Path) -> Result<Option<String>, RunError> {
    let bytes = path.metadata().map_or(0, |found| found.len());
    let compressed = path.extension().is_some_and(|name| name == "zst");
    // What was recorded is a twentieth of itself when it is compressed.
    let text_mb = (bytes >> 20) * if compressed { 20 } else { 1 };
    let needed_mb = 64 + 2 * text_mb;
    if needed_mb < SAID_FROM_MB {
        return Ok(None);
    }
    let said = format!(
        "{}: to judge {text_mb} MB of lines takes about {needed_mb} MB of memory, and 8 kB for each lock",
        path.display()
    );
    let free = bench::environment::available_memory_bytes().unwrap_or(u64::MAX);
    let (limit, _) = getrlimit(Resource::RLIMIT_AS).map_err(|error| RunError::Other(error.to_string()))?;
    let free_mb = free.min(limit) >> 20;
    match needed_mb > free_mb {
        true => Err(RunError::Missing(format!("{said}, and this machine has {free_mb} MB free"))),
        false => Ok(Some(said)),
    }
}

/// Histories of scenarios that a run was killed in: nothing says what their faults did.
fn unended(dir: &Path, ended: &[ScenarioResult]) -> Vec<JudgedHistory> {
    let inside = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut places: Vec<String> = inside
        .filter(|entry| entry.path().is_dir() && refuse_links(&entry.path()).is_ok())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    places.sort_unstable();
    places.insert(0, String::new());
    places.retain(|place| ended.iter().all(|scenario| scenario.dir != *place));
    places
        .into_iter()
        .filter_map(|place| {
            let history = history_file::of_dir(&dir.join(&place))?;
            Some(JudgedHistory {
                masters: masters(&dir.join(&place)),
                prefix: if place.is_empty() { place } else { format!("{place}/") },
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
