//! Learns what a lock has before anything is asked of it: its hello, and what `conform` finds of its driver.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bench::abilities::Abilities;
use bench::exec::conform::{ConformOptions, LineFault, LineFaults, Outcome, Step, conform};
use bench::subject::{ConnectTo, Subject, SubjectError};
use cluster_config::{
    LinkFault, LinkGuard, LinkTable, Links, Node, Party, Process, Provisioner as _, Topology, TopologyKind,
    UpOptions,
};
use results::audit::{AuditOutcome, AuditedSubject, Conformance, Finding};

use super::place;
use crate::batch::in_processes;
use crate::checkers::record::kinds::is_alone;
use crate::run::RunError;
use crate::servers::bench_servers::delay;

/// How long a driver's reply may take beyond its wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all steps of `conform` may take: a driver that hangs in each is not waited for.
const CONFORM_WITHIN: Duration = Duration::from_secs(180);
/// How late bytes are on average on a slow line: less than a client of several masters waits for one.
const LATE_BY: Duration = Duration::from_millis(10);
/// Half of the answers come late, for they are lost once or twice.
const LOST_PACKETS: LinkFault = LinkFault::Loss { rate: 0.5, burst: 1 };
/// A lease no longer than any scenario's: what is answered instead shows a lock that follows no wish.
const WATCHDOG: Duration = Duration::from_millis(300);

/// What a lock has on servers of one shape, or why it did not say so.
pub(crate) type Answer = Result<Abilities, SubjectError>;

/// What an answer says in view of those elsewhere: a lock that works on servers of another shape, and refuses
/// these, does not know them.
pub(crate) fn in_view_of<'a>(answer: &Answer, mut elsewhere: impl Iterator<Item = &'a Answer>) -> Answer {
    match answer {
        Err(SubjectError::Refused(why) | SubjectError::Unreachable(why))
            if elsewhere.any(|one| one.is_ok()) =>
        {
            Err(SubjectError::NotApplicable(why.clone()))
        }
        other => other.clone(),
    }
}

/// A lock that was asked what it has.
pub struct ProbedLock {
    /// What the scorecard says of it before any scenario.
    pub audited: AuditedSubject,
    /// The lock, each of its clients a process.
    pub(super) subject: Arc<dyn Subject>,
    abilities: Vec<(TopologyKind, Answer)>,
    /// The version of the servers that were started for it.
    pub server: Option<String>,
    /// The first servers on which it said hello.
    pub met_on: Option<TopologyKind>,
}

impl ProbedLock {
    pub(super) fn on(&self, shape: TopologyKind) -> Result<&Abilities, (AuditOutcome, String)> {
        let not_asked = || (AuditOutcome::Unknown, "it was not asked".to_owned());
        let mut all = self.abilities.iter();
        let (_, has) = all.find(|(on, _)| *on == shape).ok_or_else(not_asked)?;
        has.as_ref().map_err(|error| match error {
            SubjectError::NotApplicable(why) => (AuditOutcome::NotApplicable, why.clone()),
            other => (AuditOutcome::Unknown, other.to_string()),
        })
    }

    /// Whether the workloads of a short bench are about a lock of this kind.
    pub fn is_measurable(&self) -> bool {
        let has = self.met_on.and_then(|shape| self.on(shape).ok());
        has.and_then(|has| has.kinds.first()).is_some_and(|kind| is_alone(kind))
    }
}

/// Servers that a lock is asked on.
pub struct AskedServers<'a> {
    pub(super) url: &'a str,
    /// A directory that is removed afterwards.
    pub(super) work: &'a Path,
    /// Faults to the lines to them, where they are ours.
    pub(super) line_faults: Option<LineFaults>,
}

/// Does `then` on servers of this shape, or on the target. Gives the version of our servers too.
pub(super) async fn on_servers<T>(
    shape: TopologyKind,
    target: Option<&str>,
    then: impl AsyncFnOnce(AskedServers<'_>) -> T,
) -> Result<(T, Option<String>), RunError> {
    let missing = |error: cluster_config::ClusterError| RunError::Missing(error.to_string());
    let work = tempfile::tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        RunError::Missing(format!(
            "cannot make a directory in {}: {error}; set TMPDIR to one that can be written",
            place.display()
        ))
    })?;
    if let Some(url) = target {
        return Ok((then(AskedServers { url, work: work.path(), line_faults: None }).await, None));
    }
    let mut up = UpOptions::new(work.path());
    (up.in_memory, up.links) = (true, Links::Proxied);
    let ours = Process.up(&Topology::of(shape), &up).await.map_err(missing)?;
    let (links, nodes) = (ours.links().map_err(missing)?.clone(), ours.nodes().to_vec());
    let line_faults: LineFaults = Arc::new(move |fault| {
        Box::new(match fault {
            LineFault::SlowLines => delay(&links, &nodes, LATE_BY, LATE_BY),
            LineFault::LostPackets => from_servers(&links, &nodes, &LOST_PACKETS),
            LineFault::OneServerAway => {
                from_servers(&links, &nodes[nodes.len().saturating_sub(1)..], &LinkFault::Refuse)
            }
        })
    });
    let servers = AskedServers { url: &ours.url(), work: work.path(), line_faults: Some(line_faults) };
    let done = then(servers).await;
    let version = ours.server_version().to_owned();
    ours.down().await.map_err(missing)?;
    Ok((done, Some(version)))
}

/// A fault to what servers send their clients.
fn from_servers(links: &LinkTable, nodes: &[Node], fault: &LinkFault) -> Vec<LinkGuard> {
    let apply = |node: &Node| links.apply(&Party::Node(node.name.clone()), &Party::Client(0), fault.clone());
    nodes.iter().map(apply).collect()
}

/// Says hello as one client of `subject`, on servers of this shape or on the target, and does `then` with the
/// answer while they are there. Gives the version of our servers too.
pub async fn ask<T>(
    subject: &dyn Subject,
    shape: TopologyKind,
    target: Option<&str>,
    log: Option<PathBuf>,
    then: impl AsyncFnOnce(Answer, AskedServers<'_>) -> T,
) -> Result<(T, Option<String>), RunError> {
    let hello = async |servers: AskedServers<'_>| {
        let to = ConnectTo {
            log: Some(log.unwrap_or_else(|| servers.work.join("hello.log"))),
            watchdog: Some(WATCHDOG),
            ..ConnectTo::new(servers.url, "c1", 7, "none")
        };
        then(Abilities::of(subject, &to).await, servers).await
    };
    on_servers(shape, target, hello).await
}

/// Meets a lock on servers of each shape, or on the target, where `conform` is tried on the first.
pub(super) async fn meet(
    name: &str,
    shapes: &[TopologyKind],
    target: Option<&str>,
    prefix: &str,
    logs: &Path,
) -> Result<ProbedLock, RunError> {
    let found = bench::subjects::find(name)?;
    let program = found.program().map(<[String]>::to_vec);
    let assumed = Abilities::assumed(found.kinds());
    let subject = in_processes(found)?;
    let mut met = ProbedLock {
        audited: AuditedSubject { name: name.to_owned(), ..AuditedSubject::default() },
        subject,
        abilities: Vec::new(),
        met_on: None,
        server: None,
    };
    std::fs::create_dir_all(logs).map_err(|error| RunError::io("create", logs, &error))?;
    for shape in shapes.iter().copied() {
        let last = met.abilities.last().map(|(_, has)| has.clone());
        let has = match last {
            // One that does not answer is not asked again, nor where it says that it does not work.
            Some(Err(SubjectError::Usage(_))) => last,
            Some(Err(SubjectError::Refused(_) | SubjectError::Unreachable(_))) if target.is_some() => last,
            Some(Ok(_)) if target.is_some() => last,
            Some(Ok(has)) if place(shape, name, &has).is_err() && has.topologies.is_some() => Some(Ok(has)),
            _ => match place(shape, name, &assumed) {
                Err(why) if target.is_none() => Some(Err(SubjectError::NotApplicable(why))),
                _ => None,
            },
        };
        if let Some(has) = has {
            met.abilities.push((shape, has));
            continue;
        }
        let subject = met.subject.clone();
        let (log, audited) = (logs.join(format!("hello-{shape}.log")), &mut met.audited);
        let then = async |has: Answer, servers: AskedServers<'_>| -> Answer {
            let not = !matches!(has, Ok(_) | Err(SubjectError::Usage(_)));
            if let (Some(command), None, false) = (program.clone(), &audited.conform, not) {
                let library = has.as_ref().map(|has| has.library.clone());
                audited.library = library.unwrap_or_default();
                let options = ConformOptions {
                    command,
                    target: servers.url.to_owned(),
                    prefix: prefix.to_owned(),
                    kind: None,
                    patience: PATIENCE,
                    // Its keys can be deleted on one deployment only.
                    may_flush: target.is_none() && shape != TopologyKind::Masters,
                    line_faults: servers.line_faults,
                    log: Some(logs.join("conform.log")),
                };
                audited.conform = Some(conformance(&options).await);
            }
            has
        };
        let (has, version) = ask(subject.as_ref(), shape, target, Some(log), then).await?;
        met.server = version;
        met.met_on = met.met_on.or(has.is_ok().then_some(shape));
        met.abilities.push((shape, has));
    }
    if target.is_none() {
        let all = met.abilities.clone();
        for (_, has) in &mut met.abilities {
            *has = in_view_of(has, all.iter().map(|(_, has)| has));
        }
    }
    Ok(met)
}

/// What `conform` finds, in so far as it ended in time. Where a promise is broken the steps are tried once
/// more: what does not come again, such as an answer that a busy machine delayed, is not counted.
async fn conformance(options: &ConformOptions) -> Conformance {
    let mut found = conform_once(options).await;
    if found.broken_promises().next().is_some() {
        let again = conform_once(options).await;
        let comes_again = |name: &str| again.broken_promises().any(|one| one.name == name);
        found.findings.retain(|finding| !finding.is_promise || comes_again(&finding.name));
        found.conforms = found.findings.is_empty();
    }
    found
}

async fn conform_once(options: &ConformOptions) -> Conformance {
    let steps = Arc::new(Mutex::new(Vec::<Step>::new()));
    let told = steps.clone();
    let tell = move |step: &Step| {
        let mut steps = told.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step.clone());
    };
    let in_time = tokio::time::timeout(CONFORM_WITHIN, conform(options, tell)).await;
    let steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |outcome: Outcome| steps.iter().filter(move |step| step.outcome == outcome);
    let mut findings: Vec<Finding> = of(Outcome::Broken).map(finding).collect();
    if in_time.is_err() {
        findings.push(Finding {
            name: "time".to_owned(),
            rule: "The steps come to an end.".to_owned(),
            found: format!(
                "after {} s the step behind `{}` had not ended",
                CONFORM_WITHIN.as_secs(),
                steps.last().map_or("", |step| step.name)
            ),
            remedy: "Answer each request, or end.".to_owned(),
            paragraph: "docs/src/driver-protocol.md#what-goes-wrong".to_owned(),
            is_promise: false,
        });
    }
    Conformance {
        conforms: findings.is_empty(),
        kept: u32::try_from(of(Outcome::Kept).count()).unwrap_or(u32::MAX),
        findings,
    }
}

fn finding(step: &Step) -> Finding {
    Finding {
        name: step.name.to_owned(),
        rule: step.rule.to_owned(),
        found: step.found.clone(),
        remedy: step.remedy.to_owned(),
        paragraph: step.protocol_reference(),
        is_promise: step.is_promise,
    }
}
