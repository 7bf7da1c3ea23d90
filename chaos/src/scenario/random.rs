//! What faults may be drawn, on whom, how often and for how long; the plan draws them.

use bench::workload::CycleShape;
use cluster_config::Topology;
use cluster_config::input::{Section, nearest, one_of};

use super::faults::{self, ScenarioServers, Settings};
use super::file::{DrawnOperation, Load, OneOrMore, RandomTable};
use super::parse::require;
use super::target::{self, FaultSite};
use super::values::Range;
use crate::faults::names;
use crate::faults::{FaultKind, allowed};

/// What may be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomSpec {
    /// Every fault with its weight, its settings, and on what it may be put; of each of these there is one at
    /// least. Empty where only operations are drawn.
    pub faults: Vec<Candidate>,
    /// What is drawn of the load and the lock.
    pub operations: Vec<DrawnOperation>,
    /// From one injection to the next.
    pub every: Range,
    /// How long each lasts.
    pub lasts: Range,
    /// Never more of them than this at the same time. Faults of `[[faults]]` do not count.
    pub at_once: u32,
}

/// One fault that may be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its kind, a name of the registry.
    pub fault: String,
    /// How often it is drawn, against the sum of all weights.
    pub weight: u32,
    /// With which settings.
    pub with: Settings,
    /// On one of these.
    pub on: Vec<FaultSite>,
}

/// What a `[random]` section means on a topology and under a load.
pub(super) fn check(
    section: Section<'_>,
    table: &RandomTable,
    topology: Option<&Topology>,
    load: &Load,
) -> Option<RandomSpec> {
    let draws_kinds = table.operations.contains(&DrawnOperation::Kind);
    if draws_kinds && load.workload().asks != CycleShape::One {
        let problem = format!(
            "`operations` has `kind`, and `{}` asks for a kind of its own: leave out one of the two",
            load.workload().name
        );
        section.complain("operations", problem);
    }
    let spec = |faults: Vec<Candidate>| RandomSpec {
        faults,
        operations: table.operations.clone(),
        every: table.every,
        lasts: table.r#for,
        at_once: table.at_once,
    };
    if section.get("faults").is_none() && !table.operations.is_empty() {
        return Some(spec(Vec::new()));
    }
    if section.get("faults").is_none() {
        let allowed = one_of(names());
        let problem =
            format!("[random] needs `faults`, such as faults = [\"pause\", \"kill\"]; allowed are {allowed}");
        section.complain("faults", problem);
        return None;
    }
    require(section, "faults", !table.faults.is_empty(), "at least one fault");
    require(section, "every", table.every.min_ns > 0, "more than 0");
    require(section, "for", table.r#for.min_ns > 0, "more than 0");
    if table.every.min_ns + table.r#for.min_ns >= load.duration.ns() {
        let ends = load.duration.0;
        let problem = format!("the load ends after {ends:?}, before a first fault could be over");
        section.complain("every", problem);
        return None;
    }
    let on = on(section, table, topology, load.clients);
    let with = section.table("with", "with = { delay = { latency = \"50ms\" } }");
    for (key, _) in with.table.into_iter().flatten() {
        let word: &str = key.get_ref();
        if !table.faults.contains_key(word) {
            let near = nearest(word, table.faults.keys().copied());
            let problem = format!("settings of `{word}`, which is not among the `faults` of [random]{near}");
            with.problems.add(key.span(), problem);
        }
    }
    let on = on?;
    let weighted = table.faults.values();
    let candidates =
        weighted.filter_map(|(kind, weight)| candidate(section, with, kind, *weight, &on, topology));
    Some(spec(candidates.collect()))
}

fn on(
    section: Section<'_>,
    table: &RandomTable,
    topology: Option<&Topology>,
    clients: u32,
) -> Option<Vec<FaultSite>> {
    let texts = match &table.on {
        OneOrMore::One(text) => std::slice::from_ref(text),
        OneOrMore::More(texts) => texts,
    };
    let some = "a list such as [\"any\", \"any client\", \"clients -> master\"]";
    require(section, "on", !texts.is_empty(), some);
    let list = section.get("on").and_then(|on| on.get_ref().as_array());
    let mut all = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let place = list.map_or(section.span("on"), |list| list[index].span());
        match target::parse(text, topology, clients) {
            Ok(on) => all.push(on),
            Err(problems) => {
                problems.into_iter().for_each(|problem| section.problems.add(place.clone(), problem))
            }
        }
    }
    (all.len() == texts.len()).then_some(all)
}

fn candidate(
    section: Section<'_>,
    with: Section<'_>,
    kind: &'static FaultKind,
    weight: u32,
    on: &[FaultSite],
    topology: Option<&Topology>,
) -> Option<Candidate> {
    let own = with.table(kind.name, "of settings");
    // Each comes after others, which may have changed who is master.
    let scene = ScenarioServers { topology, as_begun: false };
    let settings = faults::settings_of(own, kind, section.span("faults"), scene).ok()?;
    let on: Vec<FaultSite> = on.iter().filter(|on| faults::fits(kind, on, scene).is_ok()).cloned().collect();
    let (name, hits) = (kind.name, kind.hits.words());
    let allowed = match on.as_slice() {
        [] => Err(format!("`{name}` acts on {hits}, and none is among `on`")),
        on => on.iter().try_for_each(|on| topology.map_or(Ok(()), |it| allowed(kind, it, on, &settings))),
    };
    if let Err(problem) = allowed {
        section.complain("faults", problem);
        return None;
    }
    Some(Candidate { fault: name.to_owned(), weight, with: settings, on })
}
