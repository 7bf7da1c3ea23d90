//! Tries a driver against the driver protocol on servers on which it says that it works.

use std::path::Path;
use std::time::Duration;

use bench::exec::conform::{ConformOptions, Conformity, NotTried, conform};
use bench::subject::Subject;
use cluster_config::TopologyKind;
use results::secrets;

use super::probe::{AskedServers, on_servers};
use crate::run::RunError;

/// How a driver is tried.
pub struct DriverTrial<'a> {
    /// The driver: a subject that is a program.
    pub subject: &'a dyn Subject,
    /// Somebody's servers; `None`: some are started for it, of the first topology on which it works.
    pub target: Option<&'a str>,
    /// The kind of lock to try; `None`: the driver's first.
    pub kind: Option<String>,
    /// How long a reply may take beyond the wait that was asked for.
    pub patience: Duration,
    /// Where its standard error is kept; `None`: it is quoted only.
    pub log_dir: Option<&'a Path>,
}

impl DriverTrial<'_> {
    /// Tries all steps, and says each as it begins.
    ///
    /// # Errors
    /// Servers that cannot be started.
    pub async fn run(&self, step: impl Fn(&'static str) + Sync) -> Result<Conformity, RunError> {
        let own = |kind: &TopologyKind| kind.system_name() == self.subject.system();
        let kind = TopologyKind::ALL.into_iter().find(own);
        let mut tried = vec![kind.unwrap_or(TopologyKind::Single)];
        let mut first_refusal = None;
        loop {
            let found = self.on_kind(tried[tried.len() - 1], &step).await?;
            match next_topology(&found, &tried) {
                Some(next) if self.target.is_none() => tried.push(next),
                // One that knows no servers at all is judged by its first answer.
                _ => return Ok(first_refusal.filter(|_| found.is_refused).unwrap_or(found)),
            }
            if found.is_refused {
                first_refusal.get_or_insert(found);
            }
        }
    }

    async fn on_kind(
        &self,
        kind: TopologyKind,
        step: &(impl Fn(&'static str) + Sync),
    ) -> Result<Conformity, RunError> {
        let then = async |servers: AskedServers<'_>| {
            let log = self.log_dir.unwrap_or(servers.work).join("driver.log");
            // A log that is gone afterwards is quoted and not named.
            let gone = format!(" {}", log.display());
            let options = ConformOptions {
                command: self.subject.program().unwrap_or_default().to_vec(),
                target: servers.url.to_owned(),
                prefix: format!("locklab:conform-{}:", std::process::id()),
                kind: self.kind.clone(),
                patience: self.patience,
                may_flush: self.target.is_none(),
                line_faults: servers.line_faults,
                log: Some(log),
            };
            let mut found = conform(&options, |tried| step(tried.name)).await;
            for tried in &mut found.steps {
                tried.found = secrets::hide(&tried.found).into_owned();
                if self.log_dir.is_none() {
                    tried.found = tried.found.replace(&gone, "");
                }
            }
            found.library = secrets::hide(&found.library).into_owned();
            found
        };
        Ok(on_servers(kind, self.target, then).await?.0)
    }
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
