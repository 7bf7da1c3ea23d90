//! The plans that a kept run was made from, with what came out, and whether this machine made them.
//!
//! A plan that was made here has a seal beside it: a code of its text under a key that this machine drew once
//! and keeps outside of every run. Whoever does not have the key can make no seal, and one that was copied
//! fits no other text.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench::subject::Subject;
use hmac_sha256::HMAC;
use results::limits;
use results::run::ScenarioResult;
pub use results::store::PLAN_FILE;
use results::store::{RUN_FILE, RunStore, load_dir, refuse_links};
use results::verdict::State;

use crate::planning::plan::Plan;
use crate::run::RunError;

/// A plan as it was kept.
#[derive(Debug, Clone)]
pub struct KeptPlan {
    /// What was decided.
    pub plan: Plan,
    /// What came out; `None` where the run was ended before that was known.
    pub result: Option<ScenarioResult>,
    /// This machine made it, and nobody changed it since.
    pub is_own: bool,
    /// The directory of its file, where what is made of it belongs.
    pub dir: PathBuf,
}

/// What of a plan is a program of this machine, or told to one, each in words: what a plan from elsewhere
/// could do harm by.
pub fn programs(plan: &Plan) -> Result<Vec<String>, RunError> {
    let mut found = Vec::new();
    let topology = &plan.topology;
    let is_path = |text: &str| text.contains('/');
    if is_path(&topology.server) {
        found.push(format!("the server {}", topology.server));
    }
    found.extend(topology.image.iter().map(|image| format!("the image {image}")));
    for (key, value) in &topology.config {
        // Whatever a server is to load has a path, and what it refuses by itself is enabled.
        if is_path(value) || key.starts_with("enable-") || key.contains("module") {
            found.push(format!("the server's setting {key} {value}"));
        }
    }
    for fault in &plan.faults {
        let with = serde_json::to_string(&fault.with).unwrap_or_default();
        if matches!(fault.fault.as_str(), "command" | "config-set") || is_path(&with) {
            found.push(format!("the fault {} {with}", fault.fault));
        }
    }
    let subject = bench::subjects::find(&plan.lock.subject)
        .map_err(|error| RunError::Input(format!("{}: {error}", plan.name)))?;
    let mut subjects: Vec<&Arc<dyn Subject>> = vec![&subject];
    while let Some(subject) = subjects.pop() {
        subjects.extend(subject.parts());
        let command = subject.program();
        let command = command.map(results::command_line::shell_line);
        found.extend(command.map(|command| format!("the lock {command}")));
    }
    let hooks = serde_json::to_value(&plan.hooks).unwrap_or_default();
    let hooks = hooks.as_object().into_iter().flatten();
    found.extend(hooks.map(|(name, words)| format!("the hook {name} {words}")));
    Ok(found)
}

/// Where this machine's key is: it outlives what is forgotten at a restart.
fn key_file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = named("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(named("HOME")?).join(".local/state")));
    Some(state?.join("locklab/plan-key"))
}

/// This machine's key, drawn where there is none. `None`: it has no place that others cannot read.
fn key() -> Option<Vec<u8>> {
    let path = key_file()?;
    if !path.exists() {
        let dir = path.parent()?;
        fs::create_dir_all(dir).ok()?;
        let mut file = tempfile::NamedTempFile::new_in(dir).ok()?;
        file.write_all(&rand::random::<[u8; 32]>()).ok()?;
        // Another process may have been first: then its key counts.
        let _ = file.persist_noclobber(&path);
    }
    let found = fs::symlink_metadata(&path).ok()?;
    let mine = found.uid() == nix::unistd::getuid().as_raw();
    if !found.is_file() || !mine || found.mode() & 0o077 != 0 {
        return None;
    }
    fs::read(&path).ok().filter(|bytes| bytes.len() == 32)
}

fn seal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

/// Puts this machine's seal beside a plan that it is about to write. Without one, as where the seal cannot be
/// written, the plan is as from elsewhere.
pub fn seal(path: &Path, text: &str) {
    let put = || {
        let tag = HMAC::mac(text, key()?);
        fs::create_dir_all(path.parent()?).ok()?;
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true);
        let mut file = file.mode(0o644).open(seal_of(path)).ok()?;
        file.write_all(&tag).ok()
    };
    let _ = put();
}

fn is_sealed(path: &Path, text: &str) -> bool {
    let check = || {
        let tag = limits::read(&seal_of(path)).ok()?.try_into().ok()?;
        Some(HMAC::verify(text, key()?, &tag))
    };
    check().unwrap_or(false)
}

impl KeptPlan {
    /// The classes that were violated.
    pub fn violated(&self) -> Vec<&'static str> {
        self.result.as_ref().map(violated).unwrap_or_default()
    }
}

/// The classes that a result has violated, in their order.
pub fn violated(result: &ScenarioResult) -> Vec<&'static str> {
    let verdicts = result.verdicts.iter();
    verdicts.filter(|(_, verdict)| verdict.state == State::Violated).map(|(class, _)| class).collect()
}

/// The plans of a run: a directory, its name in the store, `latest`, or a `plan.json` itself.
pub fn of_run(run: &str, store: &RunStore) -> Result<Vec<KeptPlan>, RunError> {
    let path = Path::new(run);
    if path.is_file() && path.file_name().is_some_and(|name| name != RUN_FILE) {
        return Ok(vec![kept(path, None)?]);
    }
    // A run that was ended early: the plan was saved before anything started.
    if path.is_dir() && !path.join(RUN_FILE).is_file() && path.join(PLAN_FILE).is_file() {
        refuse_links(path).map_err(input)?;
        return Ok(vec![kept(&path.join(PLAN_FILE), None)?]);
    }
    let dir = store.resolve(run).map_err(input)?;
    let whole = load_dir(&dir).map_err(input)?;
    let mut plans = Vec::new();
    for result in whole.scenarios {
        plans.push(kept(&dir.join(&result.dir).join(PLAN_FILE), Some(result))?);
    }
    if plans.is_empty() {
        for path in plans_below(&dir)? {
            plans.push(kept(&path, None)?);
        }
    }
    if plans.is_empty() {
        return Err(RunError::Input(format!(
            "{} has no scenario, so there is no plan to run again",
            dir.display()
        )));
    }
    Ok(plans)
}

/// Plans of a run that was ended before it had a result, by place.
fn plans_below(dir: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut paths = vec![dir.join(PLAN_FILE)];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            refuse_links(&entry.path()).map_err(input)?;
            paths.push(entry.path().join(PLAN_FILE));
        }
    }
    paths.retain(|path| path.is_file());
    paths.sort_unstable();
    Ok(paths)
}

fn kept(path: &Path, result: Option<ScenarioResult>) -> Result<KeptPlan, RunError> {
    let text = limits::read_text(path).map_err(RunError::Input)?;
    let plan =
        Plan::from_json(&text).map_err(|error| RunError::Input(format!("{}: {error}", path.display())))?;
    Ok(KeptPlan {
        plan,
        result,
        is_own: is_sealed(path, &text),
        dir: path.parent().unwrap_or(Path::new("")).to_owned(),
    })
}

fn input(error: impl std::fmt::Display) -> RunError {
    RunError::Input(error.to_string())
}
