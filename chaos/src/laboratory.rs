//! Judges a lock of one's own from a test, without the command line.
//!
//! Faults stop and kill clients, so that each client must be a process. The test program is therefore started
//! again for each: the test that [`Laboratory::new`] names calls [`serve_client`], which in such a process
//! answers for the lock, and does nothing in any other.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bench::abilities::Abilities;
use bench::exec::{ExecSubject, guard};
use bench::serve::{ServeError, serve};
use bench::subject::Subject;
use tokio::sync::watch;

use crate::audit::fitted;
use crate::batch::{BatchOptions, PlannedRun, run_options, this_program};
use crate::planning::plan::Plan;
use crate::run::{RunError, ScenarioRun, run_scenario};
use crate::scenario::Scenario;

/// Says to a process of a test program that it is a client.
const CLIENT: &str = "LOCKLAB_TEST_CLIENT";

/// What it says to the one that ends the clients' processes when the tests' process was killed.
const GUARD: &str = "guard";

/// Where such a process answers: its standard output is the test runner's.
const ANSWERS: &str = "/dev/fd/3";

/// Starts a client: its answers go to standard output, what a test runner prints to its errors.
const AS_CLIENT: &str = "exec 3>&1 1>&2; exec \"$@\"";

/// Runs scenarios against one lock, each on servers of its own that end with the run.
pub struct Laboratory {
    lock: Arc<dyn Subject>,
    in_processes: Arc<dyn Subject>,
    root: PathBuf,
}

impl Laboratory {
    /// For `lock`, whose clients are this program with the test `client` alone. Plans, histories and logs go
    /// below `root`, a directory for each scenario and seed; `env!("CARGO_TARGET_TMPDIR")` is one for a test.
    pub fn new(lock: Arc<dyn Subject>, client: &str, root: impl Into<PathBuf>) -> Result<Self, RunError> {
        let program = this_program()?;
        let runner = [&program, client, "--exact", "--nocapture"];
        let started_as = |role: &str, shell: &[&str]| {
            let variable = format!("{CLIENT}={role}");
            let words = ["/usr/bin/env", &variable].into_iter();
            words.chain(shell.iter().copied()).chain(runner).map(str::to_owned).collect::<Vec<_>>()
        };
        guard::install(started_as(GUARD, &[]));
        let command = started_as("1", &["/bin/sh", "-c", AS_CLIENT, "sh"]).into_iter();
        let in_processes = ExecSubject::for_subject(lock.as_ref(), command.collect());
        Ok(Self { lock, in_processes: Arc::new(in_processes), root: root.into() })
    }

    /// Runs a scenario with one seed, and judges the lock by what was recorded. [`ScenarioResult::is_lost`]
    /// says whether the lock was lost, the verdicts say by which promise, and a fault without evidence that
    /// it took effect leaves them unknown.
    ///
    /// Servers and clients end with the run, and when this process ends before, however it does.
    ///
    /// # Errors
    /// A scenario that the lock does not fit, servers that are missing, and files that cannot be written.
    ///
    /// [`ScenarioResult::is_lost`]: results::run::ScenarioResult::is_lost
    pub async fn judge(&self, scenario: &Scenario, seed: u64) -> Result<ScenarioRun, RunError> {
        let has = Abilities::assumed(self.lock.kinds());
        let fitting = fitted(scenario, self.lock.name(), &has).map_err(RunError::NotApplicable)?;
        let planned = PlannedRun { plan: Plan::new(&fitting, seed), subject: self.in_processes.clone() };
        let name = format!("{}-{}-{seed}", self.lock.name(), planned.plan.name);
        let dir = self.root.join(name.replace(['/', ':'], "-"));
        // A history is never added to: what an earlier test left goes.
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|error| RunError::io("remove", &dir, &error))?;
        }
        let never = watch::channel(false).1;
        let options = run_options(dir, &planned, &BatchOptions::new(1, never))?;
        run_scenario(&planned.plan, &options).await
    }
}

/// In a process that was started as a client: answers for the lock until the harness says goodbye. In any
/// other it returns at once.
pub async fn serve_client(lock: Arc<dyn Subject>) -> Result<(), ServeError> {
    let Some(role) = std::env::var_os(CLIENT) else { return Ok(()) };
    if role == GUARD {
        // A test runner takes the marks of the clients, its last word, for one more name of a test.
        guard::run(std::io::stdin(), &std::env::args().next_back().unwrap_or_default());
        return Ok(());
    }
    bench::consent::inherit();
    let answers = fs::OpenOptions::new().write(true).open(ANSWERS)?;
    serve(lock, tokio::io::stdin(), tokio::fs::File::from_std(answers)).await
}
