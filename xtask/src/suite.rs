//! Runs the tests: `cargo test` runs one program after another, while most of them wait for servers and
//! leases; this runs several at a time, and shows what each printed in one piece, as `cargo test` does.

use std::collections::VecDeque;
use std::io::{BufReader, Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, bail};
use cargo_metadata::{Artifact, Message, TargetKind};

use crate::report;

/// What takes longest, so that nothing is left to wait for at the end.
const FIRST: [&str; 4] = ["swarm", "kube", "lock_orders", "conform"];

struct Suite {
    title: String,
    command: Command,
    again: String,
}

struct SuiteOutcome {
    suite: Suite,
    status: ExitStatus,
    output: Vec<u8>,
    took: Duration,
}

/// Builds and runs all tests that `cargo test ARGUMENTS` would, whatever fails. Whether all passed.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let suites = Mutex::new(build(arguments)?);
    let started = Instant::now();
    // One more than processors: where all wait, one works.
    let workers = thread::available_parallelism().map_or(1, usize::from) + 1;
    let (send, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, suites) = (send.clone(), &suites);
            scope.spawn(move || {
                while let Some(suite) = next(suites) {
                    if send.send(carry_out(suite)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let (mut failed, mut slowest) = (Vec::new(), Vec::new());
        for done in done {
            let done = done?;
            report(&format!("\n     Running {}", done.suite.title));
            report(String::from_utf8_lossy(&done.output).trim_end());
            if !done.status.success() {
                // The words of cargo, by which scripts/try-again.sh finds it.
                report(&format!("error: {}, to rerun pass `{}`", done.status, done.suite.again));
                failed.push(done.suite.again);
            }
            slowest.push((done.took, done.suite.title));
        }
        slowest.sort_by(|one, other| other.cmp(one));
        report(&format!("\nall in {} s; the longest:", started.elapsed().as_secs()));
        for (took, title) in slowest.iter().take(8) {
            report(&format!("{:5} s  {title}", took.as_secs()));
        }
        for again in &failed {
            report(&format!("failed: `{again}`"));
        }
        Ok(failed.is_empty())
    })
}

fn next(suites: &Mutex<VecDeque<Suite>>) -> Option<Suite> {
    let mut suites = suites.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    suites.pop_front()
}

/// The programs, built: first those that take longest.
fn build(arguments: &[String]) -> anyhow::Result<VecDeque<Suite>> {
    let mut build = cargo()
        .args(["test", "--no-run", "--message-format=json-render-diagnostics"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let messages = build.stdout.take().context("cargo has an output")?;
    let mut suites = VecDeque::new();
    // Another program is already running when its tests in the documentation are compiled: they wait for
    // nothing else.
    let mut docs = cargo();
    docs.args(["test", "--doc", "--no-fail-fast"]).args(arguments);
    suites.push_back(Suite {
        title: "the examples in the documentation".to_owned(),
        command: docs,
        again: "--doc".to_owned(),
    });
    let mut first = FIRST.map(|_| None);
    for message in Message::parse_stream(BufReader::new(messages)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(suite) = suite(&artifact)? else { continue };
        match FIRST.iter().position(|name| *name == artifact.target.name) {
            Some(place) => first[place] = Some(suite),
            None => suites.push_back(suite),
        }
    }
    let status = build.wait()?;
    if !status.success() {
        bail!("the tests do not build ({status})");
    }
    for (name, suite) in FIRST.into_iter().zip(first).rev() {
        let suite = suite.with_context(|| format!("no program of tests is called {name}"))?;
        suites.push_front(suite);
    }
    Ok(suites)
}

/// Cargo as from a shell. What `cargo run` told this program of its package would make build scripts run anew
/// (that of `ring` asks for it), and with them the build of nearly everything; the next call from a shell
/// once more.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    for (name, _) in env::vars_os() {
        let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if own.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes())) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn suite(artifact: &Artifact) -> anyhow::Result<Option<Suite>> {
    let Some(program) = artifact.executable.as_ref().filter(|_| artifact.profile.test) else {
        return Ok(None);
    };
    let folder = artifact.manifest_path.parent().context("a folder")?;
    let package = folder.file_name().context("a name")?;
    let name = &artifact.target.name;
    let target = match artifact.target.kind.first() {
        Some(TargetKind::Test) => format!("--test {name}"),
        Some(TargetKind::Bin) => format!("--bin {name}"),
        Some(TargetKind::Bench) => format!("--bench {name}"),
        Some(TargetKind::Example) => format!("--example {name}"),
        _ => "--lib".to_owned(),
    };
    let mut command = Command::new(program);
    // What cargo gives them, too.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    Ok(Some(Suite { title: format!("{package} {target}"), command, again: format!("-p {package} {target}") }))
}

/// Runs it to its end; both of its outputs in the order in which it wrote them. By a file: a pipe would stay
/// open for as long as anything that a test left behind.
fn carry_out(mut suite: Suite) -> anyhow::Result<SuiteOutcome> {
    let started = Instant::now();
    let mut file = tempfile::tempfile()?;
    let status = suite
        .command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .status()
        .with_context(|| format!("{} cannot be started", suite.title))?;
    let mut output = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut output)?;
    Ok(SuiteOutcome { suite, status, output, took: started.elapsed() })
}
