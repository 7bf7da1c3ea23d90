//! Runs a scenario's text with real servers and clients that are processes, for the tests of this crate.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::PathBuf;
use std::sync::Arc;

use bench::exec::ExecSubject;
use chaos::plan::Plan;
use chaos::run::{RunError, RunOptions, ScenarioRun, run_scenario};
use chaos::scenario::Scenario;
use cluster_config::Process;

/// The example program whose processes are the clients.
pub(crate) fn driver() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let target = test.parent().and_then(|deps| deps.parent()).expect("tests are in target/<profile>/deps");
    let driver = target.join("examples").join("driver");
    assert!(
        driver.exists(),
        "{} is missing: `cargo test -p chaos` builds it, `cargo test --test …` does not; build it with `cargo build -p chaos --example driver`",
        driver.display()
    );
    driver
}

/// Whether a server of that name is here; what a test leaves out without it is said straight to the stream.
pub(crate) fn has_server(name: &str) -> bool {
    let found = cluster_config::Server::find(name);
    if let Err(why) = &found {
        use std::io::Write as _;
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
    }
    found.is_ok()
}

/// A subject whose clients are processes.
pub(crate) fn subject(name: &str) -> Arc<ExecSubject> {
    let inner = bench::subjects::find(name).expect("a known subject");
    let command = vec![driver().display().to_string(), name.to_owned()];
    Arc::new(ExecSubject::for_subject(&*inner, command))
}

pub(crate) fn plan(text: &str, seed: u64) -> Plan {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    Plan::new(&scenario, seed)
}

/// Runs a scenario in a directory of its own.
pub(crate) async fn run(text: &str, seed: u64) -> (ScenarioRun, tempfile::TempDir) {
    let subject = subject(&plan(text, seed).lock.subject);
    run_on(subject, text, seed).await
}

/// As [`run`], with clients that are a shell's command: `DRIVER` in it is the driver program.
pub(crate) async fn run_by(command: &str, text: &str, seed: u64) -> (ScenarioRun, tempfile::TempDir) {
    let inner = bench::subjects::find(&plan(text, seed).lock.subject).expect("a known subject");
    let command = command.replace("DRIVER", &driver().display().to_string());
    let command = vec!["sh".to_owned(), "-c".to_owned(), command];
    let subject = ExecSubject::for_subject(&*inner, command);
    run_on(Arc::new(subject), text, seed).await
}

async fn run_on(subject: Arc<ExecSubject>, text: &str, seed: u64) -> (ScenarioRun, tempfile::TempDir) {
    let ran = run_plan(subject, &plan(text, seed)).await;
    ran.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a plan in a directory of its own.
pub(crate) async fn run_plan(
    subject: Arc<ExecSubject>,
    plan: &Plan,
) -> Result<(ScenarioRun, tempfile::TempDir), RunError> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = RunOptions::new(dir.path().join("run"), subject, Arc::new(Process));
    let run = run_scenario(plan, &options).await?;
    Ok((run, dir))
}

/// What to print when a run did not come out as it should.
pub(crate) fn told(run: &ScenarioRun) -> String {
    serde_json::to_string_pretty(&run.result).expect("a result is plain JSON")
}
