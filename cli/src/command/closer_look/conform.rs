//! `locklab conform`: tries a driver against the driver protocol, step by step, and says how to fix what
//! fails.

use std::path::PathBuf;
use std::time::Duration;

use bench::exec::conform::{ConformOptions, Conformity, NotTried, Step, conform};
use bench::subjects::startable;
use clap::Args;
use cluster_config::{Process, Provisioner as _, Topology, TopologyKind, UpOptions};
use results::secrets;

use crate::args::{TargetConsent, duration};
use crate::exit;
use crate::files;
use crate::target::Servers;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The driver, split like a shell line, e.g. 'python3 driver.py --fast'; or a peer that
    /// `locklab list subjects` names
    #[arg(value_name = "PROGRAM ARG…")]
    driver: String,
    /// Servers to try it on [default: some are started for it, of the first topology on which it says that it
    /// works]
    #[arg(long, value_name = "URL", value_parser = crate::args::target_url)]
    target: Option<String>,
    #[command(flatten)]
    mine: TargetConsent,
    /// The kind of lock to try [default: the first that the driver lists]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// How long a reply may take beyond the wait that was asked for, or a `lost` after its lease; the reply
    /// to hello four times as long
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "DURATION")]
    patience: Duration,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let (command, system) = command_and_system(&options.driver)?;
    if let Some(target) = &options.target {
        // That nobody answers there is no fault of the driver.
        Servers::of(target, options.mine.yes_this_is_mine)?.ask().await?;
    }
    let own = |kind: &TopologyKind| kind.system_name() == system.as_deref();
    let kind = TopologyKind::ALL.into_iter().find(own);
    let mut tried = vec![kind.unwrap_or(TopologyKind::Single)];
    let mut first_refusal = None;
    let found = loop {
        let kind = tried[tried.len() - 1];
        let found = try_on(&options, &command, kind, terminal).await?;
        match next_topology(&found, &tried) {
            Some(next) if options.target.is_none() => tried.push(next),
            // One that knows no servers at all is judged by its first answer.
            _ => break first_refusal.filter(|_| found.is_refused).unwrap_or(found),
        }
        if found.is_refused {
            first_refusal.get_or_insert(found);
        }
    };
    let driver = &options.driver;
    match &found.not_tried {
        Some(NotTried::Kind(why)) => {
            return Err(exit::usage(format!("--kind: {driver} was not tried: {why}")));
        }
        Some(NotTried::Topology { why, .. }) => {
            return Err(exit::input(format!(
                "{driver} was not tried: {why}; name servers on which it works by --target, or none"
            )));
        }
        None => {}
    }
    if let Some(path) = &options.junit {
        files::write(path, found.junit(driver)?)?;
    }
    terminal.answer(&found.to_json(driver), || found.text(driver))?;
    Ok(exit::of(found.conforms()))
}

/// Where a driver is to be tried that was not, since it works elsewhere: where it says, or on whatever Redis
/// has. One that answers hello with `failed` may know other servers.
fn next_topology(found: &Conformity, tried: &[TopologyKind]) -> Option<TopologyKind> {
    let listed = match &found.not_tried {
        Some(NotTried::Topology { listed, .. }) => listed.as_slice(),
        None if found.is_refused => &[],
        _ => return None,
    };
    let works = |kind: &TopologyKind| match listed.is_empty() {
        true => kind.system_name().is_none(),
        false => listed.iter().any(|name| name == kind.name()),
    };
    let mut all = TopologyKind::ALL.into_iter();
    all.find(|kind| works(kind) && !tried.contains(kind))
}

/// Tries a driver on the target, or on servers of this kind.
async fn try_on(
    options: &Options,
    command: &[String],
    kind: TopologyKind,
    terminal: &Terminal,
) -> anyhow::Result<Conformity> {
    let work = crate::files::work_dir()?;
    let (target, deployment) = match &options.target {
        Some(target) => (target.clone(), None),
        None => {
            let mut up = UpOptions::new(work.path());
            up.in_memory = true;
            let topology = Topology::of(kind);
            let deployment = Process.up(&topology, &up).await.map_err(exit::missing)?;
            (deployment.url(), Some(deployment))
        }
    };
    let log = terminal.common.out.clone().unwrap_or_else(|| work.path().to_owned()).join("driver.log");
    let trial = ConformOptions {
        command: command.to_vec(),
        target,
        prefix: format!("locklab:conform-{}:", std::process::id()),
        kind: options.kind.clone(),
        patience: options.patience,
        may_flush: deployment.is_some(),
        log: Some(log.clone()),
    };
    // A log that is gone afterwards is quoted and not named.
    let gone = match terminal.common.out {
        Some(_) => String::new(),
        None => format!(" {}", log.display()),
    };
    let quoted = |step: &Step| Step {
        found: match gone.is_empty() {
            true => secrets::hide(&step.found).into_owned(),
            false => secrets::hide(&step.found).replace(&gone, ""),
        },
        ..step.clone()
    };
    let bar = terminal.bar(0, "hello");
    let mut found = conform(&trial, |step| bar.set_message(step.name)).await;
    bar.finish_and_clear();
    found.steps = found.steps.iter().map(quoted).collect();
    if let Some(left) = bench::exec::escaped_processes() {
        terminal.warn(&left);
    }
    found.library = secrets::hide(&found.library).into_owned();
    if let Some(deployment) = deployment {
        deployment.down().await?;
    }
    Ok(found)
}

/// The words of the driver's line, by the subject's own rules for them, and the system that it is a lock on,
/// if that is not Redis.
fn command_and_system(line: &str) -> anyhow::Result<(Vec<String>, Option<String>)> {
    let name = match line.starts_with("peer:") || line.starts_with("exec:") {
        true => line.to_owned(),
        false => format!("exec:{line}"),
    };
    let subject = startable(&name)?;
    match subject.missing() {
        Some(why) => Err(exit::missing(why)),
        None => Ok((subject.program().unwrap_or_default().to_vec(), subject.system().map(str::to_owned))),
    }
}
