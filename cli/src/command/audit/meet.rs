//! Learns what a lock has before anything is asked of it: its hello, and what `conform` finds of its driver.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bench::abilities::Abilities;
use bench::exec::conform::{ConformOptions, Outcome, Step, conform};
use bench::subject::{ConnectTo, Subject, SubjectError};
use chaos::scenario::misplaced;
use cluster_config::{Process, Provisioner as _, Topology, TopologyKind, UpOptions};
use results::audit::{AuditOutcome, AuditedSubject, Conformance, Finding};

use super::super::chaos::in_processes;
use super::super::conform::paragraph;
use crate::exit;

/// Where a lock is met: the shapes by what they cost.
const SHAPES: [TopologyKind; 4] = [
    TopologyKind::Single,
    TopologyKind::Masters,
    TopologyKind::Sentinel,
    TopologyKind::Cluster,
];

/// How long a driver's reply may take beyond its wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all steps of `conform` may take: a driver that hangs in each is not waited for.
const CONFORM_WITHIN: Duration = Duration::from_secs(120);

/// A lock that was met.
pub(super) struct Met {
    /// What the scorecard says of it before any scenario.
    pub(super) audited: AuditedSubject,
    /// The driver program of somebody else's lock.
    program: Option<Vec<String>>,
    /// The lock, each of its clients a process.
    pub(super) subject: Arc<dyn Subject>,
    /// What it has, or what that makes of every scenario: it did not say hello, or has nothing to lock with anywhere.
    pub(super) abilities: Result<Abilities, (AuditOutcome, String)>,
    /// The servers on which it said hello.
    pub(super) met_on: Option<TopologyKind>,
}

impl Met {
    /// Whether the workloads of the short bench are about a lock of this kind.
    pub(super) fn is_measurable(&self) -> bool {
        let shared = ["read", "semaphore", "permits", "latch"];
        let kinds = self.abilities.as_ref().map(|has| has.kinds.as_slice());
        let first = kinds.unwrap_or_default().first();
        first.is_some_and(|kind| !shared.contains(&kind.as_str()) && kind != "multi")
    }
}

/// Meets a lock on the target, or on the first kind of servers that it works on.
pub(super) async fn meet(
    name: &str,
    target: Option<&str>,
    prefix: &str,
    logs: &Path,
) -> anyhow::Result<Met> {
    let found = bench::subjects::find(name).map_err(exit::usage)?;
    let program = found.program().map(<[String]>::to_vec);
    let subject = in_processes(found)?;
    let mut met = Met {
        program,
        audited: AuditedSubject {
            name: name.to_owned(),
            ..AuditedSubject::default()
        },
        subject,
        abilities: Err((AuditOutcome::Unknown, "it was not asked".to_owned())),
        met_on: None,
    };
    std::fs::create_dir_all(logs)?;
    // Of a driver no kind is known yet, and nothing is misplaced.
    let fits = |shape: &TopologyKind| target.is_some() || misplaced(name, None, *shape).is_none();
    for shape in SHAPES.into_iter().filter(fits) {
        let work = tempfile::tempdir()?;
        let mut up = UpOptions::new(work.path());
        up.in_memory = true;
        let deployment = match target {
            Some(_) => None,
            None => {
                let up = Process.up(&Topology::of(shape), &up).await;
                Some(up.map_err(exit::missing)?)
            }
        };
        let own = deployment.as_ref().map(|deployment| deployment.url());
        let url = own.as_deref().or(target).unwrap_or_default();
        let works = met.on(url, prefix, logs, deployment.is_some()).await;
        if let Some(deployment) = deployment {
            deployment.down().await?;
        }
        if works {
            met.met_on = met.abilities.is_ok().then_some(shape);
            break;
        }
        if target.is_some() {
            break;
        }
    }
    Ok(met)
}

impl Met {
    /// Says hello on these servers, and tries a driver on them; false if it has nothing to lock with there.
    async fn on(&mut self, url: &str, prefix: &str, logs: &Path, ours: bool) -> bool {
        let log = logs.join("hello.log");
        let to = ConnectTo {
            target: url.to_owned(),
            client: "c1".to_owned(),
            seed: 7,
            durability: "none".to_owned(),
            watchdog: None,
            log: Some(log),
            env: Vec::new(),
        };
        let answer = Abilities::of(self.subject.as_ref(), &to).await;
        if let Err(SubjectError::NotApplicable(why)) = answer {
            self.abilities = Err((AuditOutcome::NotApplicable, why));
            return false;
        }
        self.abilities = answer.map_err(|error| (AuditOutcome::Unknown, error.to_string()));
        if let Some(command) = self.program.clone() {
            let library = self.abilities.as_ref().map(|has| has.library.clone());
            self.audited.library = library.unwrap_or_default();
            self.audited.conform = Some(conformance(command, url, prefix, logs, ours).await);
        }
        true
    }
}

/// What `conform` finds, in so far as it ended in time.
async fn conformance(
    command: Vec<String>,
    url: &str,
    prefix: &str,
    logs: &Path,
    ours: bool,
) -> Conformance {
    let options = ConformOptions {
        command,
        target: url.to_owned(),
        prefix: prefix.to_owned(),
        kind: None,
        patience: PATIENCE,
        may_flush: ours,
        log: Some(logs.join("conform.log")),
    };
    let steps = Arc::new(Mutex::new(Vec::<Step>::new()));
    let told = steps.clone();
    let tell = move |step: &Step| {
        let mut steps = told.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step.clone());
    };
    let in_time = tokio::time::timeout(CONFORM_WITHIN, conform(&options, tell)).await;
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
        paragraph: paragraph(step),
    }
}
