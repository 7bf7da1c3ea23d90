//! Turns the `[random]` section into what faults may be drawn, on whom, how often and for how long; the plan draws them.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::Topology;
use cluster_config::input::{Section, integer, nearest, one_of, shown};
use toml::de::DeValue;

use super::faults::{self, Settings};
use super::target::{self, On, Who};
use super::values::{self, Range};
use crate::faults::{FaultKind, find, names};

pub(super) const KEYS: [&str; 6] = ["faults", "on", "every", "for", "at-once", "with"];

/// What may be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomSpec {
    /// Every fault with its weight, its settings, and on what it may be put; none of the three is empty.
    pub faults: Vec<Candidate>,
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
    pub on: Vec<On>,
}

pub(super) fn parse(
    section: Section<'_>,
    topology: Option<&Topology>,
    clients: u32,
    duration: Duration,
) -> Option<RandomSpec> {
    section.allow(&KEYS);
    let topology = topology?;
    if section.get("faults").is_none() {
        section.problems.add(
            section.start..section.start,
            format!(
                "[random] needs `faults`, such as faults = [\"pause\", \"kill\"]; allowed are {}",
                one_of(names())
            ),
        );
    }
    let range = |key: &str, default_ms: (u64, u64)| match section.get(key) {
        None => Some(Range {
            min_ns: default_ms.0 * 1_000_000,
            max_ns: default_ms.1 * 1_000_000,
        }),
        Some(_) => section.word(key, |word| match values::range(word) {
            Ok(range) if range.min_ns > 0 => Ok(range),
            Ok(_) => Err("more than 0"),
            Err(allowed) => Err(allowed),
        }),
    };
    let every = range("every", EVERY_MS);
    let lasts = range("for", LASTS_MS);
    if let (Some(every), Some(lasts)) = (every, lasts)
        && every.min_ns + lasts.min_ns >= values::nanoseconds(duration)
    {
        section.problems.add(
            section.span("every"),
            format!("the load ends after {duration:?}, before a first fault could be over"),
        );
        return None;
    }
    let at_once = match section.get("at-once") {
        None => Some(1),
        Some(_) => section.count("at-once", 1, 100),
    };
    let on = on(section, topology, clients);
    let weights = weights(section)?;
    let with = section.table("with", "with = { delay = { latency = \"50ms\" } }");
    for (key, _) in with.table.into_iter().flatten() {
        let word: &str = key.get_ref();
        let drawn = || weights.iter().map(|(kind, _)| kind.name);
        if !drawn().any(|name| name == word) {
            with.problems.add(
                key.span(),
                format!(
                    "settings of `{word}`, which is not among the `faults` of [random]{}",
                    nearest(word, drawn())
                ),
            );
        }
    }
    let on = on?;
    let mut candidates = Vec::new();
    let mut complete = true;
    for (kind, weight) in weights {
        match candidate(section, with, kind, weight, &on, topology) {
            Some(candidate) => candidates.push(candidate),
            None => complete = false,
        }
    }
    if !complete {
        return None;
    }
    Some(RandomSpec {
        faults: candidates,
        every: every?,
        lasts: lasts?,
        at_once: at_once?,
    })
}

/// Defaults, in milliseconds: a fault each second or two, over before the next.
const EVERY_MS: (u64, u64) = (1000, 2000);
const LASTS_MS: (u64, u64) = (300, 800);

/// The faults with their weights, from a list of names or a table of names and weights.
fn weights(section: Section<'_>) -> Option<Vec<(&'static FaultKind, u32)>> {
    let value = section.get("faults")?;
    let mut found = BTreeMap::new();
    let mut complete = true;
    let mut add = |span: std::ops::Range<usize>, word: &str, weight: Option<u32>| match (
        find(word),
        weight,
    ) {
        (Some(kind), Some(weight)) => {
            found.insert(kind.name, (kind, weight));
        }
        (None, _) => {
            complete = false;
            section.problems.add(
                span,
                format!(
                    "`{word}` is no fault; allowed are {}{}",
                    one_of(names()),
                    nearest(word, names())
                ),
            );
        }
        (Some(_), None) => {
            complete = false;
            section.problems.add(
                span,
                format!("the weight of `{word}` is not a whole number from 1 to 1000000"),
            );
        }
    };
    match value.get_ref() {
        DeValue::Array(list) => {
            for entry in list.iter() {
                match entry.get_ref().as_str() {
                    Some(word) => add(entry.span(), word, Some(1)),
                    None => add(entry.span(), &shown(entry.get_ref()), Some(1)),
                }
            }
        }
        DeValue::Table(table) => {
            for (key, value) in table.iter() {
                let weight = integer(value.get_ref())
                    .and_then(|weight| u32::try_from(weight).ok())
                    .filter(|weight| (1..=1_000_000).contains(weight));
                add(key.span(), key.get_ref(), weight);
            }
        }
        other => {
            complete = false;
            section.problems.add(
                value.span(),
                format!(
                    "`faults` is {}; allowed is a list of faults, or a table of faults and weights",
                    shown(other)
                ),
            );
        }
    }
    if complete && found.is_empty() {
        complete = false;
        section
            .problems
            .add(value.span(), "`faults` is empty; at least one is needed");
    }
    complete.then(|| found.into_values().collect())
}

fn on(section: Section<'_>, topology: &Topology, clients: u32) -> Option<Vec<On>> {
    let Some(value) = section.get("on") else {
        return Some(vec![On::Parties(vec![Who::Any])]);
    };
    let mut all = Vec::new();
    let mut complete = true;
    let mut add =
        |span: std::ops::Range<usize>, text: &str| match target::parse(text, topology, clients) {
            Ok(on) => all.push(on),
            Err(problems) => {
                complete = false;
                for problem in problems {
                    section.problems.add(span.clone(), problem);
                }
            }
        };
    match value.get_ref() {
        DeValue::String(text) => add(value.span(), text),
        DeValue::Array(list) if !list.is_empty() => {
            for entry in list.iter() {
                match entry.get_ref().as_str() {
                    Some(text) => add(entry.span(), text),
                    None => add(entry.span(), &shown(entry.get_ref())),
                }
            }
        }
        other => {
            complete = false;
            section.problems.add(
                value.span(),
                format!("`on` is {}; allowed is a list such as [\"any\", \"any client\", \"clients -> master\"]", shown(other)),
            );
        }
    }
    complete.then_some(all)
}

fn candidate(
    section: Section<'_>,
    with: Section<'_>,
    kind: &'static FaultKind,
    weight: u32,
    on: &[On],
    topology: &Topology,
) -> Option<Candidate> {
    let own = with.table(kind.name, "of settings");
    let settings = faults::settings_of(own, kind, section.span("faults"))?;
    let on: Vec<On> = on
        .iter()
        .filter(|on| faults::fits(kind, on).is_ok())
        .cloned()
        .collect();
    let refused = match on.first() {
        None => Err(format!(
            "`{}` acts on {}, and none is among `on`",
            kind.name,
            kind.hits.words()
        )),
        Some(_) => on
            .iter()
            .try_for_each(|on| kind.fault.allowed(topology, on, &settings)),
    };
    match refused {
        Ok(()) => Some(Candidate {
            fault: kind.name.to_owned(),
            weight,
            with: settings,
            on,
        }),
        Err(problem) => {
            section.problems.add(section.span("faults"), problem);
            None
        }
    }
}
