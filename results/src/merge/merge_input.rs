//! Runs to be joined, with their directories: read, checked for one plan, copied below the whole.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::merge::{MergeError, beside, merge, same_plan};
use crate::record::run::Run;
use crate::store::limits;
use crate::store::{PLAN_FILE, REPORT_FILE, RUN_FILE, RunDir, RunStore, SUMMARY_FILE, StoreError, load_dir};

/// Runs that are to be joined.
#[derive(Debug)]
pub struct MergeInput {
    /// The runs.
    pub runs: Vec<Run>,
    /// The directory of each.
    pub dirs: Vec<PathBuf>,
    /// Beside parts of a plan, those that were killed before they said which part they are.
    pub killed_at_once: Vec<String>,
}

impl MergeInput {
    /// Reads runs by their names.
    ///
    /// # Errors
    /// A run that cannot be read, or is given twice.
    pub fn load(names: &[String], store: &RunStore) -> Result<Self, MergeError> {
        let unreadable = |error: StoreError| MergeError::Unreadable(error.to_string());
        let (mut found, mut empty): (Vec<(Run, PathBuf)>, Vec<PathBuf>) = (Vec::new(), Vec::new());
        for name in names {
            let dir = match store.resolve(name) {
                // A part that was killed at once has a directory and nothing in it.
                Err(StoreError::NotARun(path)) => {
                    empty.push(path);
                    continue;
                }
                dir => dir.map_err(unreadable)?,
            };
            let real = |path: &Path| fs::canonicalize(path).ok();
            if found.iter().any(|(_, other)| real(other) == real(&dir)) {
                return Err(MergeError::Usage(format!(
                    "{name} is given twice: a run joined with itself would count twice"
                )));
            }
            found.push((load_dir(&dir).map_err(unreadable)?, dir));
        }
        let mut killed: Vec<String> = empty.iter().map(|path| path.display().to_string()).collect();
        if found.iter().any(|(run, _)| run.part.is_some()) {
            let (blank, kept): (Vec<_>, _) = found.into_iter().partition(|(run, _)| {
                let has_nothing = run.rows.is_empty() && run.scenarios.is_empty() && run.audit.is_none();
                run.part.is_none() && run.partial && has_nothing
            });
            killed.extend(blank.into_iter().map(|(run, _)| run.run));
            found = kept;
        } else if let Some(path) = empty.into_iter().next() {
            return Err(unreadable(StoreError::NotARun(path)));
        }
        let (runs, dirs) = found.into_iter().unzip();
        Ok(Self { runs, dirs, killed_at_once: killed })
    }

    /// Whether whole runs were made from one plan: as they say themselves, and by their saved plans where
    /// both are there, since a scenario file may have been edited and kept its name.
    ///
    /// # Errors
    /// Fewer than two runs, or the first that was made from another plan.
    pub fn of_one_plan(&self) -> Result<(), MergeError> {
        if self.runs.len() < 2 {
            let why = "merge joins at least two runs, or the parts of a plan";
            return Err(MergeError::Usage(why.to_owned()));
        }
        same_plan(&self.runs)?;
        let plan = |dir: &Path, of: &str| -> Option<serde_json::Value> {
            serde_json::from_slice(&limits::read(&dir.join(of).join(PLAN_FILE)).ok()?).ok()
        };
        let (base, base_dir) = (&self.runs[0], &self.dirs[0]);
        for (other, dir) in self.runs.iter().zip(&self.dirs).skip(1) {
            for result in &other.scenarios {
                let key = (&result.name, result.seed, &result.subject);
                let twin = base.scenarios.iter().find(|twin| (&twin.name, twin.seed, &twin.subject) == key);
                let plans = twin.map(|twin| (plan(base_dir, &twin.dir), plan(dir, &result.dir)));
                if let Some((Some(base_plan), Some(own))) = plans
                    && base_plan != own
                {
                    return Err(MergeError::Unreadable(format!(
                        "{} was not made from the plan of {}: {PLAN_FILE} of {} differs",
                        other.run, base.run, result.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Joins the runs into one in this directory, with the records of each under one plain name there.
    ///
    /// # Errors
    /// Runs that cannot be joined, and records that cannot be copied.
    pub fn join(mut self, target: &RunDir) -> Result<Run, MergeError> {
        let several = self.runs.len() > 1;
        let plain = |dir: &str| dir.replace('/', "-");
        for (number, (run, dir)) in (1..).zip(self.runs.iter_mut().zip(&self.dirs)) {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            run.run = format!("{number:02}-{name}");
            for result in &run.scenarios {
                let to = if several { plain(&beside(&run.run, &result.dir)) } else { result.dir.clone() };
                let (from, to) = (dir.join(&result.dir), target.path().join(to));
                copy_dir(&from, &to).map_err(|error| {
                    let (from, to) = (from.display(), to.display());
                    MergeError::Unreadable(format!("cannot copy {from} to {to}: {error}"))
                })?;
            }
        }
        let mut joined = merge(self.runs, &target.label())?;
        for dir in joined.dirs_mut() {
            *dir = plain(dir);
        }
        Ok(joined)
    }
}

/// Copies a directory but for a run's own summary. One that was lost is no reason to lose the rest.
fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let to = to.join(&name);
        if [RUN_FILE, SUMMARY_FILE, REPORT_FILE].map(OsStr::new).contains(&&*name) {
            continue;
        } else if kind.is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
