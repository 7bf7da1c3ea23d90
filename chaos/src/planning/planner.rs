//! Plans the scenarios that were asked for: each on the servers, with the lock in it, on each server of a
//! matrix, with each seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bench::abilities::Abilities;
use bench::subject::{Subject, SubjectError};
use cluster_config::TopologyKind;
use results::run::NotApplicable;

use crate::audit::probe::{Answer, AskedServers, ask, in_view_of};
use crate::audit::{fitted, place};
use crate::batch::{PlannedRun, in_processes};
use crate::planning::plan::Plan;
use crate::planning::plan_parts::Digest;
use crate::run::{RunError, missing_server};
use crate::scenario::Scenario;
use crate::scenario::builtin;
use crate::scenario::scenario_source::{FitServers, MatrixServer, ScenarioSource, digest, on_server};

/// What is planned for all scenarios alike.
pub struct Planner<'a> {
    /// Another lock in the scenarios' place.
    pub subject: Option<&'a str>,
    /// Scenarios that do not fit are left out, and are no wrong usage.
    pub all: bool,
    /// Nothing is started, so that no lock is asked what it has.
    pub dry_run: bool,
    /// Somebody's own servers.
    pub target: Option<&'a str>,
    /// The seeds of each scenario.
    pub seeds: Vec<u64>,
    /// The servers on each of which everything is run.
    pub matrix: Vec<Option<MatrixServer>>,
    /// What puts scenarios on the servers.
    pub fit: &'a FitServers<'a>,
}

/// What came of the planning.
#[derive(Default)]
pub struct PlannedScenarios {
    /// What is to be run, and what parts must have in common of it.
    pub runs: Vec<(PlannedRun, Digest)>,
    /// What is not for this lock, or whose server is not here.
    pub not_applicable: Vec<NotApplicable>,
}

/// Why a scenario is not planned.
enum Refusal {
    /// It cannot be carried out as it stands.
    Wrong(String),
    /// It is left out; the others are run.
    LeftOut(NotApplicable),
    /// Nothing can be planned.
    Failed(RunError),
}

impl<E: Into<RunError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What locks said of themselves, on servers of each shape.
type KnownAbilities = BTreeMap<(String, TopologyKind), Answer>;

impl Planner<'_> {
    /// Plans all; what is wrong is said together.
    ///
    /// # Errors
    /// Scenarios or locks that cannot be used.
    pub async fn plan(&self, sources: &[ScenarioSource]) -> Result<PlannedScenarios, RunError> {
        let (mut planned, mut wrong) = (PlannedScenarios::default(), Vec::new());
        let mut known = KnownAbilities::new();
        for source in sources {
            match self.runs(source, sources, &mut known).await {
                Ok(runs) => planned.runs.extend(runs),
                Err(Refusal::Wrong(why)) => wrong.push(why),
                Err(Refusal::LeftOut(skipped)) => planned.not_applicable.push(skipped),
                Err(Refusal::Failed(error)) => return Err(error),
            }
        }
        match wrong.is_empty() {
            true => Ok(planned),
            false => Err(RunError::Input(wrong.join("\n"))),
        }
    }

    async fn runs(
        &self,
        source: &ScenarioSource,
        sources: &[ScenarioSource],
        known: &mut KnownAbilities,
    ) -> Result<Vec<(PlannedRun, Digest)>, Refusal> {
        let given = source.scenario.clone().map_err(Refusal::Wrong)?;
        let scenario = (self.fit)(source, given.clone()).map_err(Refusal::Wrong)?;
        let name = self.subject.unwrap_or(&given.lock.subject);
        let left_out = |why| {
            Refusal::LeftOut(NotApplicable {
                name: given.name.clone(),
                topology: scenario.topology.kind.to_string(),
                subject: name.to_owned(),
                why,
            })
        };
        if self.all
            && self.target.is_none()
            && let Some(why) = missing_server(&scenario.topology, &scenario.faults)
        {
            return Err(left_out(why));
        }
        let shapes = sources.iter().filter_map(|one| one.scenario.as_ref().ok());
        let shapes = shapes.map(|scenario| scenario.topology.kind).collect();
        let (fitting, subject) = self.with_lock(&scenario, name, &shapes, known, &left_out).await?;
        // Parts may each have servers of their own, and what is found there is no part of what was asked for.
        let asked = if self.target.is_some() { &given } else { &scenario };
        let mut planned = Vec::new();
        let declared_at = source.declared_at();
        for server in &self.matrix {
            let mut scenario = fitting.clone();
            on_server(&mut scenario.topology, server.as_ref());
            for seed in &self.seeds {
                let digest = digest(asked, server.as_ref(), *seed, name)?;
                let mut plan = Plan::new(&scenario, *seed);
                plan.declared_at.clone_from(&declared_at);
                let subject = subject.clone();
                planned.push((PlannedRun { plan, subject }, digest));
            }
        }
        Ok(planned)
    }

    /// The scenario with the lock in it, and that lock. Servers of another shape are wrong usage where the
    /// scenario was named, and the suite goes on with those that fit.
    async fn with_lock(
        &self,
        scenario: &Scenario,
        name: &str,
        shapes: &BTreeSet<TopologyKind>,
        known: &mut KnownAbilities,
        left_out: &dyn Fn(String) -> Refusal,
    ) -> Result<(Scenario, Arc<dyn Subject>), Refusal> {
        let found = match self.dry_run {
            true => bench::subjects::find(name)?,
            false => bench::subjects::startable(name)?,
        };
        let control = builtin::find(&scenario.name).is_some_and(|builtin| builtin.control);
        let own = &scenario.lock.subject;
        if self.all && control && own != name {
            return Err(left_out(format!("it is a control, which shows that `{own}` is convicted")));
        }
        let shape = scenario.topology.kind;
        let assumed = Abilities::assumed(found.kinds());
        // What a file says of a lock of ours was looked at when it was read.
        let read = self.subject.is_none() && found.program().is_none() && found.parts().is_empty();
        if let (Err(why), false, false) = (place(shape, name, &assumed), self.all, read) {
            return Err(RunError::Usage(format!("{}: {why}", scenario.name)).into());
        }
        let subject = in_processes(found)?;
        let has = match read || self.dry_run {
            true => assumed,
            false => match self.ask(name, &subject, shape, shapes, known).await? {
                Ok(has) => has,
                Err(SubjectError::NotApplicable(why)) => return Err(left_out(why)),
                // The run says what is wrong, and goes on with the next.
                Err(_) => assumed,
            },
        };
        match fitted(scenario, name, &has) {
            Ok(fitting) => Ok((fitting, subject)),
            Err(why) if read => Err(RunError::Input(format!("{}: {why}", scenario.name)).into()),
            Err(why) => Err(left_out(why)),
        }
    }

    /// What the lock has on servers of this shape. One that refuses them is asked on others, until it works.
    async fn ask(
        &self,
        name: &str,
        subject: &Arc<dyn Subject>,
        shape: TopologyKind,
        shapes: &BTreeSet<TopologyKind>,
        known: &mut KnownAbilities,
    ) -> Result<Answer, RunError> {
        let may_differ = self.all && self.target.is_none();
        let elsewhere = shapes.iter().filter(|other| may_differ && **other != shape && other.is_redis());
        let mut own: Option<Answer> = None;
        for shape in std::iter::once(&shape).chain(elsewhere) {
            let key = (name.to_owned(), *shape);
            let has = match known.get(&key) {
                Some(known) => known.clone(),
                None => {
                    ask(subject.as_ref(), *shape, self.target, None, async |has, _: AskedServers<'_>| has)
                        .await?
                        .0
                }
            };
            known.insert(key, has.clone());
            let answer = own.get_or_insert_with(|| has.clone());
            *answer = in_view_of(answer, std::iter::once(&has));
            if !matches!(answer, Err(SubjectError::Refused(_) | SubjectError::Unreachable(_))) {
                break;
            }
        }
        Ok(own.expect("its own shape was asked about"))
    }
}
