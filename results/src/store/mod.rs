//! Keeps a run in a directory under `runs/`, and reads it back.
//!
//! What is written is whole or absent: `run.json` is replaced in one step after every benchmark and scenario,
//! so that a crash leaves everything measured until then. What is read may come from anywhere: a damaged file
//! is an error that names the file, the place and the field, never a panic.
//!
//! | file | what it is for |
//! |---|---|
//! | `atomic.rs` | writes a file as a whole or not at all |
//! | `limits.rs` | how much of what comes from elsewhere is taken in |

pub(crate) mod atomic;
pub mod limits;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use itertools::Itertools;
use serde::Deserialize;

pub use self::atomic::write as write_whole;
use crate::answer;
use crate::record::run::{BenchRow, Outcome, Run, SCHEMA, ScenarioResult};
use crate::wording::spelling;
use crate::wording::units::enclosed;

/// The file of a run directory that makes it one.
pub const RUN_FILE: &str = "run.json";
/// The summary as text.
pub const SUMMARY_FILE: &str = "summary.txt";
/// The report for a browser.
pub const REPORT_FILE: &str = "report.html";
/// The link to the newest run.
pub const LATEST: &str = "latest";
/// The page that lists all runs.
pub const INDEX_FILE: &str = "index.html";
/// The plan of one scenario.
pub const PLAN_FILE: &str = "plan.json";
/// The record of one scenario.
pub const HISTORY_FILE: &str = "history.jsonl";

/// Why a run could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system said no.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `create`, `list`.
        verb: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The words name neither a directory nor a run under the store's root.
    #[error("there is no run '{name}'{remedy}; `locklab list runs` shows what there is in {}", root.display())]
    NoSuchRun {
        /// The words.
        name: String,
        /// Where runs are looked for.
        root: PathBuf,
        /// The nearest name as a question; empty without one.
        remedy: String,
    },
    /// There is no run at all, so that none is the latest.
    #[error("there is no run in {} yet", .0.display())]
    Empty(PathBuf),
    /// A directory without `run.json`.
    #[error("{} is no run: it holds no {RUN_FILE}", .0.display())]
    NotARun(PathBuf),
    /// The file is no run of this form.
    #[error("{}:{line}:{column}: {}{message}", path.display(), enclosed("field `", field, "`: "))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// The field, such as `scenarios[0].seed`; empty at the top level.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// The records are said to lie elsewhere than in the run.
    #[error("{}: `dir` is {dir:?}, which is no plain name of a directory of the run: it is damaged, or was made to reach other files", path.display())]
    Outside {
        /// The run's file.
        path: PathBuf,
        /// What it says.
        dir: String,
    },
    /// A file or a directory of the run leads elsewhere.
    #[error("{} is a symbolic link, and those of a run are not followed: it may lead anywhere", .0.display())]
    Link(PathBuf),
    /// A later version of this program wrote the file.
    #[error("{} has schema {found}, and this version reads up to {known}: use a newer locklab", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that this build reads.
        known: u32,
    },
    /// The directory given for a new run holds one already.
    #[error("{} already holds a run; give another directory", .0.display())]
    Occupied(PathBuf),
}

impl StoreError {
    fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}

/// A directory of runs.
#[derive(Debug, Clone)]
pub struct RunStore {
    root: PathBuf,
}

/// One run's own directory, to be written to.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

/// One line of [`RunStore::list`].
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The directory's name under the root.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// Start in RFC 3339, as the run says; empty for a damaged one.
    pub started_at: String,
    /// The command; empty for a damaged one.
    pub command: String,
    /// The machine; empty for a damaged one.
    pub host: String,
    /// Every subject that was measured or judged, without repeats.
    pub subjects: BTreeSet<String>,
    /// The same of topologies.
    pub topologies: BTreeSet<String>,
    /// Benchmark rows.
    pub rows: usize,
    /// Scenarios.
    pub scenarios: usize,
    /// In how many configurations or scenarios the lock was lost.
    pub lost: usize,
    /// What it answers; empty for a damaged one.
    pub answer: String,
    /// What came out, or why the run cannot be read.
    pub outcome: Result<Outcome, String>,
    /// Nanoseconds since 1970 by which runs are ordered: the start as the run says, else the file's own time.
    order_ns: i128,
}

impl RunStore {
    /// A store over `root`, usually `runs`. Nothing is created or read until asked for.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where runs are kept.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates `<root>/<date>-<host>-<name>`, of characters of file names, with `-2`, `-3` … if it is taken.
    pub fn create(&self, date: &str, host: &str, name: &str) -> Result<RunDir, StoreError> {
        fs::create_dir_all(&self.root).map_err(StoreError::io("create", &self.root))?;
        let mut base = [date, host, name].into_iter().map(plain).filter(|part| !part.is_empty()).join("-");
        if base.is_empty() {
            base.push_str("run");
        }
        let mut path = self.root.join(&base);
        let mut number = 1_u32;
        // The creation itself is the test, so that two runs that start together cannot both have the name.
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(StoreError::io("create", &path)(error));
            }
            number += 1;
            path = self.root.join(format!("{base}-{number}"));
        }
        Ok(RunDir { path })
    }

    /// All runs, newest first; a damaged one is listed as such. An absent root is an empty store.
    pub fn list(&self) -> Result<Vec<Listing>, StoreError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("list", &self.root)(error)),
        };
        let mut listings = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io("list", &self.root))?;
            // `latest` is a link to a run that is listed by its own name.
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !is_link && entry.path().join(RUN_FILE).is_file() {
                listings.push(listing(&entry.path()));
            }
        }
        listings.sort_by_cached_key(|entry| Reverse((entry.order_ns, natural(&entry.name))));
        Ok(listings)
    }

    /// Lets the link `latest` lead to a run, and writes the page of all runs. A directory `latest` stays.
    pub fn publish(&self, run: &Path) -> Result<(), StoreError> {
        let (link, name) = (self.root.join(LATEST), run.file_name().unwrap_or_default());
        let new = self.root.join(format!(".{LATEST}-{}", std::process::id()));
        let linked = std::os::unix::fs::symlink(name, &new).and_then(|()| fs::rename(&new, &link));
        if let Err(error) = linked {
            let _ = fs::remove_file(&new);
            return Err(StoreError::io("write", &link)(error));
        }
        let (page, all) = (self.root.join(INDEX_FILE), self.list()?);
        let text = crate::report::index(&all);
        write_whole(&page, text.as_bytes()).map_err(StoreError::io("write", &page))
    }

    /// The newest run before this one that the same command made, whatever its seed and its directory.
    pub fn last_alike(&self, run: &Run) -> Option<Run> {
        let words = crate::wording::command_line::question(run);
        let all = self.list().ok()?.into_iter();
        let alike = all.filter(|one| one.command == run.command && one.started_at < run.meta.started_at);
        let mut runs = alike.filter_map(|one| load_dir(&one.path).ok());
        runs.find(|one| !one.partial && crate::wording::command_line::question(one) == words)
    }

    /// The directory of the newest run, by the start that it states.
    pub fn latest(&self) -> Result<PathBuf, StoreError> {
        let newest = self.list()?.into_iter().next();
        Ok(newest.ok_or_else(|| StoreError::Empty(self.root.clone()))?.path)
    }

    /// The directory that `run` means: `latest`, a directory, its `run.json`, or a name under the root.
    pub fn resolve(&self, run: &str) -> Result<PathBuf, StoreError> {
        if run == LATEST {
            return self.latest();
        }
        let path = Path::new(run);
        if path.is_file() && path.file_name().is_some_and(|name| name == RUN_FILE) {
            return Ok(atomic::folder(path).to_owned());
        }
        for candidate in [path.to_owned(), self.root.join(run)] {
            if !run.is_empty() && candidate.is_dir() {
                return RunDir::open(candidate).map(|dir| dir.path);
            }
        }
        let listings = self.list()?;
        let nearest = spelling::word(run, listings.iter().map(|listing| listing.name.as_str()));
        Err(StoreError::NoSuchRun {
            name: run.to_owned(),
            root: self.root.clone(),
            remedy: enclosed(" (did you mean '", nearest.unwrap_or_default(), "'?)"),
        })
    }

    /// The run that `run` means (see [`RunStore::resolve`]).
    pub fn load(&self, run: &str) -> Result<Run, StoreError> {
        load_dir(&self.resolve(run)?)
    }
}

/// The run in a directory.
pub fn load_dir(directory: &Path) -> Result<Run, StoreError> {
    let path = directory.join(RUN_FILE);
    let bytes = match limits::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.is_dir() => {
            return Err(StoreError::NotARun(directory.to_owned()));
        }
        Err(error) => return Err(StoreError::io("read", &path)(error)),
    };
    let mut run = parse(&path, &bytes)?;
    refuse_links(directory)?;
    let dirs: BTreeSet<String> = run.dirs_mut().map(|dir| dir.clone()).collect();
    for dir in dirs.into_iter().filter(|dir| !dir.is_empty()) {
        if Path::new(&dir).file_name() != Some(dir.as_ref()) {
            return Err(StoreError::Outside { path, dir });
        }
        refuse_links(&directory.join(dir))?;
    }
    Ok(run)
}

/// Refuses a directory in which something leads elsewhere: what a run holds is read and copied.
///
/// # Errors
/// The first symbolic link that is found. A directory that is not there has none.
pub fn refuse_links(directory: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            return Err(StoreError::Link(entry.path()));
        }
    }
    Ok(())
}

/// The JSON schema of `run.json` as this build writes it; `results/run.schema.json` in the repository.
pub fn schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(Run)).unwrap_or_default() + "\n"
}

/// A run from the contents of a `run.json`; `path` is only for the message.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Run, StoreError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let mut last_first = valid.rsplit(|byte| *byte == b'\n');
        StoreError::Damaged {
            path: path.to_owned(),
            column: last_first.next().unwrap_or_default().len() + 1,
            line: last_first.count() + 1,
            field: String::new(),
            message: "not UTF-8".to_owned(),
        }
    })?;
    // The version first: a file of a later form is not damaged, whatever else is new in it.
    let stated: SchemaVersion = read(path, text)?;
    if stated.schema > u64::from(SCHEMA) {
        return Err(StoreError::Newer { path: path.to_owned(), found: stated.schema, known: SCHEMA });
    }
    read(path, text)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, StoreError> {
    let damaged = |field: String, error: serde_json::Error| {
        let message = error.to_string();
        // The place is said once, in front, as compilers do.
        let place = format!(" at line {} column {}", error.line(), error.column());
        StoreError::Damaged {
            path: path.to_owned(),
            line: error.line().max(1),
            column: error.column().max(1),
            field: if field == "." { String::new() } else { field },
            message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    };
    let json = &mut serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut *json);
    let read = read.map_err(|error| damaged(error.path().to_string(), error.into_inner()))?;
    json.end().map_err(|error| damaged(String::new(), error))?;
    Ok(read)
}

#[derive(Deserialize)]
struct SchemaVersion {
    schema: u64,
}

impl RunDir {
    /// Takes `path` itself as a new run's directory, created if need be. One that holds a run is refused.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(StoreError::io("create", &path))?;
        if path.join(RUN_FILE).exists() {
            return Err(StoreError::Occupied(path));
        }
        Ok(Self { path })
    }

    /// Opens the directory of a run that was kept before, to write a report beside it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        if path.join(RUN_FILE).is_file() { Ok(Self { path }) } else { Err(StoreError::NotARun(path)) }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory as text, for [`Run::run`].
    pub fn label(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Replaces `run.json` in one step. To be called after every benchmark and scenario.
    pub fn save(&self, run: &Run) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec_pretty(run).map_err(|error| StoreError::Io {
            verb: "write",
            path: self.path.join(RUN_FILE),
            source: error.into(),
        })?;
        text.push(b'\n');
        self.write(RUN_FILE, &text)
    }

    /// Replaces `summary.txt` in one step.
    pub fn save_summary(&self, text: &str) -> Result<(), StoreError> {
        self.write(SUMMARY_FILE, text.as_bytes())
    }

    /// Replaces `report.html` in one step.
    pub fn save_report(&self, html: &str) -> Result<(), StoreError> {
        self.write(REPORT_FILE, html.as_bytes())
    }

    /// Replaces a file of the run in one step; directories in `name` are created.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
        }
        atomic::write(&path, bytes).map_err(StoreError::io("write", &path))
    }

    /// Creates a directory inside the run's. A name that is taken gets `-2`, `-3` … appended.
    pub fn create_dir(&self, name: &str) -> Result<RunDir, StoreError> {
        RunStore::new(&self.path).create("", "", name)
    }
}

fn listing(path: &Path) -> Listing {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own_ns = || {
        let modified = fs::metadata(path.join(RUN_FILE)).and_then(|data| data.modified());
        Some(modified.ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos() as i128)
    };
    let loaded = load_dir(path);
    let outcome = match &loaded {
        Ok(run) => Ok(run.outcome()),
        Err(error) => Err(error.to_string()),
    };
    let run = loaded.unwrap_or_default();
    let started = run.meta.started_at.parse::<jiff::Timestamp>();
    Listing {
        name: name.into_owned(),
        path: path.to_owned(),
        order_ns: started.map_or_else(|_| own_ns().unwrap_or(0), |at| at.as_nanosecond()),
        lost: answer::lost(&run),
        answer: match &outcome {
            Ok(_) => answer::answer(&run),
            Err(_) => String::new(),
        },
        outcome,
        subjects: of_all(&run, |row| &row.subject, |result| &result.subject),
        topologies: of_all(&run, |row| &row.topology, |result| &result.topology),
        rows: run.rows.len(),
        scenarios: run.scenarios.len(),
        started_at: run.meta.started_at,
        command: run.command,
        host: run.meta.environment.host,
    }
}

fn of_all(
    run: &Run,
    of_row: impl Fn(&BenchRow) -> &String,
    of_scenario: impl Fn(&ScenarioResult) -> &String,
) -> BTreeSet<String> {
    run.rows.iter().map(of_row).chain(run.scenarios.iter().map(of_scenario)).cloned().collect()
}

/// Letters, digits, `.`, `_` and `-` of a name, at most 80; the rest becomes `-`. Never hidden, never `..`.
fn plain(name: &str) -> String {
    let other = |c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c);
    let short: String = name.chars().take(80).collect();
    short.replace(other, "-").trim_matches(['.', '-']).to_owned()
}

/// A name with its last number apart, so that `x-10` comes after `x-9`.
fn natural(name: &str) -> (String, u64) {
    let numbered =
        name.rsplit_once('-').and_then(|(base, number)| Some((base.to_owned(), number.parse().ok()?)));
    numbered.unwrap_or_else(|| (name.to_owned(), 1))
}
