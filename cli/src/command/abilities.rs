//! Asks a lock what it has, on small servers of the shape that is asked about, or on somebody's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench::abilities::Abilities;
use bench::subject::{ConnectTo, Subject, SubjectError};
use cluster_config::{Process, Provisioner as _, Topology, TopologyKind, UpOptions};

use crate::exit;

/// A lease to renew that is no longer than any scenario's: what is answered instead shows a lock that follows no wish.
const WATCHDOG: Duration = Duration::from_millis(300);

/// Says hello as one client of `subject`, and does `then` with the answer while the servers are there. Gives the version of ours too.
pub(super) async fn ask<T>(
    subject: &dyn Subject,
    shape: TopologyKind,
    target: Option<&str>,
    log: PathBuf,
    then: impl AsyncFnOnce(Result<Abilities, SubjectError>, &str) -> T,
) -> anyhow::Result<(T, Option<String>)> {
    let work = crate::files::work_dir()?;
    let mut up = UpOptions::new(work.path());
    up.in_memory = true;
    let ours = match target {
        Some(_) => None,
        None => {
            let up = Process.up(&Topology::of(shape), &up).await;
            Some(up.map_err(exit::missing)?)
        }
    };
    let own = ours.as_ref().map(|deployment| deployment.url());
    let url = own.as_deref().or(target).unwrap_or_default();
    let to = ConnectTo {
        log: Some(log),
        watchdog: Some(WATCHDOG),
        ..ConnectTo::new(url, "c1", 7, "none")
    };
    let done = then(Abilities::of(subject, &to).await, url).await;
    let version = ours.as_ref().map(|ours| ours.server_version().to_owned());
    if let Some(deployment) = ours {
        deployment.down().await?;
    }
    Ok((done, version))
}

/// The lock of that name. A driver that cannot be started is said before anything else is begun.
pub(crate) fn startable(name: &str) -> anyhow::Result<Arc<dyn Subject>> {
    let subject = bench::subjects::find(name).map_err(exit::usage)?;
    let mut parts = std::iter::once(&subject).chain(subject.parts());
    let started = parts.try_for_each(|part| match (part.missing(), part.program()) {
        (None, Some(command)) => bench::exec::check_program(command),
        _ => Ok(()),
    });
    started.map_err(exit::usage)?;
    Ok(subject)
}
