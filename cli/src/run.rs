//! A run that is being made or that was kept: its directory, the machine, its reports, saved as they arrive.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use results::audit::Audit;
use results::compare::against_last;
use results::report::answered;
use results::report::text::{self, ScreenOptions, TextOptions};
use results::report::{AuditDocument, WatchDocument};
use results::run::{Meta, PlanPart, Run};
use results::secrets;
use results::store::{REPORT_FILE, RUN_FILE, RunDir, RunStore, load_dir};

use crate::args::{Common, ResultArgs};
use crate::cancel::Cancel;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// Where runs are kept, relative to the working directory.
pub(crate) const RUNS: &str = "runs";

/// Why a run does not pass in which all was left out; 65.
pub(super) const NOTHING_TRIED: &str = "nothing was tried: no scenario is applicable to this lock";

/// The commit that this program was built from; cargo gives none for an installed one.
const COMMIT: Option<&str> = option_env!("LOCKLAB_COMMIT");

/// A run that is being made. Everything that was measured so far is on disk after each `save`.
pub(crate) struct Keeper {
    pub(crate) run: Run,
    pub(crate) terminal: Terminal,
    pub(crate) cancel: Cancel,
    pub(crate) shown: ResultArgs,
    dir: RunDir,
    started: Instant,
    machine: bench::environment::EnvironmentReading,
    /// The directory did not exist before.
    is_new_dir: bool,
    random_id: u32,
}

pub(crate) fn store() -> RunStore {
    RunStore::new(RUNS)
}

/// The directory of a run: a path, its name under `runs/`, or `latest`.
pub(crate) fn dir_of(run: &str) -> anyhow::Result<PathBuf> {
    store().resolve(run).map_err(exit::input)
}

pub(crate) fn load(run: &str) -> anyhow::Result<Run> {
    load_dir(&dir_of(run)?).map_err(exit::input)
}

pub(crate) fn make_dir(common: &Common, date: &str, host: &str, name: &str) -> anyhow::Result<RunDir> {
    let Some(path) = &common.out else {
        return store().create(date, host, name).map_err(|error| {
            exit::unwritable(format!(
                "{error}; a run is kept in a directory: name one that can be written with --out DIR"
            ))
        });
    };
    RunDir::at(path).map_err(exit::unwritable)
}

pub(crate) fn save_all(dir: &RunDir, run: &Run) -> anyhow::Result<()> {
    dir.save(run)?;
    dir.save_summary(&text::summary(run, TextOptions::default()))?;
    Ok(dir.save_report(&results::report::HTML.render(run)?)?)
}

pub(crate) fn seed(common: &Common) -> u64 {
    // Fresh seeds stay short, so that a person can type one again.
    common.seed.unwrap_or_else(|| rand::random_range(1..1_000_000))
}

/// Whether all came out as files expect. A lock of the user's own may end with 1 in a run that did, and with
/// 0 in one that did not.
pub(crate) fn as_expected(run: &Run, code: u8) -> bool {
    let mut results = run.scenarios.iter();
    code <= exit::NOT_AS_EXPECTED
        && (code == exit::AS_EXPECTED || !run.scenarios.is_empty())
        && results.all(|result| result.as_expected)
}

/// A run for a person: one screen, or with `--verbose` all that its summary says.
pub(crate) fn run_text(run: &Run, terminal: &Terminal, shown: &ScreenOptions) -> String {
    let options = terminal.text_options();
    match terminal.common.verbose {
        0 => text::screen(run, options, shown),
        _ => format!("{}\npage: {}\n", text::summary(run, options), shown.page),
    }
}

pub(crate) fn file_url(path: &Path) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'+')
        .remove(b',')
        .remove(b'@');
    let bytes = path.as_os_str().as_encoded_bytes();
    format!("file://{}", percent_encode(bytes, ENCODED))
}

fn open(page: &str, terminal: &Terminal) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = std::process::Command::new(opener);
    let null = std::process::Stdio::null;
    if let Err(error) = command.arg(page).stdout(null()).stderr(null()).spawn() {
        terminal.warn(&format!("cannot open the page with {opener}: {error}"));
    }
}

impl Keeper {
    /// Makes the run's directory: `--out`, or `runs/<date>-<host>-<name>`. From now on the first Ctrl-C asks
    /// for an orderly end.
    pub(crate) fn begin(terminal: &Terminal, command: &str, name: &str, seed: u64) -> anyhow::Result<Self> {
        let (common, cancel) = (&terminal.common, Cancel::listen()?);
        let now = jiff::Timestamp::now();
        let machine = bench::environment::read_machine();
        let host = machine.clone().finish().host;
        let is_new_dir = common.out.as_ref().is_none_or(|path| !path.exists());
        let date = now.strftime("%Y-%m-%d").to_string();
        let dir = make_dir(common, &date, &host, name)?;
        let arguments = std::env::args_os();
        let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
        let meta = Meta {
            started_at: now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            command_line: secrets::redact_all(arguments),
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: COMMIT.unwrap_or("unknown").to_owned(),
            ..Meta::default()
        };
        let mut keeper = Keeper {
            run: Run::new(dir.label(), command, meta),
            terminal: terminal.clone(),
            cancel,
            shown: ResultArgs::default(),
            dir,
            started: Instant::now(),
            machine,
            is_new_dir,
            random_id: rand::random(),
        };
        // Partial until the end says otherwise, so that a killed run says so by itself.
        keeper.run.partial = true;
        keeper.save()?;
        Ok(keeper)
    }

    /// The run's directory, absolute, for servers that change theirs.
    pub(crate) fn path(&self) -> PathBuf {
        std::path::absolute(self.dir.path()).unwrap_or_else(|_| self.dir.path().to_owned())
    }

    /// What every key of this run begins with: its name, and a random number, since another machine may use
    /// the same name.
    pub(crate) fn key_prefix(&self) -> String {
        let name = self.dir.path().file_name().unwrap_or_default().to_string_lossy();
        format!("locklab:{name}:{:08x}:", self.random_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let audited = self.run.audit.as_deref();
        let tried = |audit: &Audit| audit.worst().is_some();
        self.run.rows.is_empty() && self.run.scenarios.is_empty() && !audited.is_some_and(tried)
    }

    /// Removes a run that came to nothing, so that `latest` and `list runs` do not show it. In a directory
    /// that existed before, only `run.json` is removed.
    pub(crate) fn discard(self) {
        let path = self.dir.path();
        // What cannot be removed is listed as a partial run, which is what it is.
        let _ = if self.is_new_dir {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path.join(RUN_FILE))
        };
    }

    /// Records which part of a plan this run is. It is saved at once, so that a killed run has it too.
    pub(crate) fn set_part(&mut self, part: Option<PlanPart>) -> anyhow::Result<()> {
        self.run.part = part;
        match self.run.part {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Ends a run of scenarios; one that came to nothing and is no part is not kept.
    pub(crate) fn finish_scenarios(
        mut self,
        code: u8,
        then: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<u8> {
        if let Some(part) = &mut self.run.part {
            part.exit_code = Some(code);
        } else if self.is_empty() {
            self.run.as_expected = Some(false);
            then(&self)?;
            self.run.run.clear();
            self.terminal.json(&answered(&self.run)?)?;
            self.discard();
            return Ok(code);
        }
        self.run.as_expected = Some(as_expected(&self.run, code));
        self.finish(code > exit::UNKNOWN)?;
        then(&self)?;
        Ok(code)
    }

    pub(crate) fn write_junit(&self, path: &Path) -> anyhow::Result<()> {
        let junit = results::report::by_name("junit").context("there is no such format")?;
        files::write(path, junit.render(&self.run)?)
    }

    pub(crate) fn save(&mut self) -> anyhow::Result<()> {
        self.run.meta.elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let servers = std::mem::take(&mut self.run.meta.environment.servers);
        self.run.meta.environment = self.machine.clone().finish();
        self.run.meta.environment.servers = servers;
        // Drivers, servers and libraries may have repeated a password: everything that is written of a run is
        // made from this one.
        self.run = secrets::hidden(std::mem::take(&mut self.run));
        self.dir.save(&self.run)?;
        Ok(())
    }

    /// Writes another document into the run's directory.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        Ok(self.dir.write(name, text.as_bytes())?)
    }

    /// Writes everything: the run, its summary, its page; prints the summary, or the JSON.
    pub(crate) fn finish(&mut self, cancelled: bool) -> anyhow::Result<()> {
        self.run.partial = cancelled;
        self.save()?;
        save_all(&self.dir, &self.run)?;
        let terminal = &self.terminal;
        let listed = terminal.common.out.is_none();
        let last = if listed && !terminal.common.json { store().last_alike(&self.run) } else { None };
        let shown = ScreenOptions {
            all_reasons: self.shown.all_reasons,
            changes: last.map_or_else(Vec::new, |last| against_last(&last, &self.run)),
            page: file_url(&self.path().join(REPORT_FILE)),
        };
        let text = || run_text(&self.run, terminal, &shown);
        match (AuditDocument::of(&self.run), WatchDocument::of(&self.run)) {
            (Some(document), _) => terminal.answer_painted(&document, text)?,
            (None, Some(document)) => terminal.answer_painted(&document, text)?,
            (None, None) => terminal.answer_painted(&answered(&self.run)?, text)?,
        };
        if listed && let Err(error) = store().publish(self.dir.path()) {
            terminal.warn(&error.to_string());
        }
        if self.shown.open {
            open(&shown.page, terminal);
        }
        Ok(())
    }
}
