//! A fault of a scenario: when, for how long, what, on whom, with which settings.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::input::{Section, float, integer, shown};
use cluster_config::{Topology, TopologyKind};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::file::{FaultName, FaultTable, Load};
use super::message::{self, OnMessage};
use super::parse::{NOT_ZERO, at_least};
use super::target::{self, On, Who};
use super::values::{self, Length};
use crate::faults::{FaultKind, Hits, SettingKind};

/// When a fault is injected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// So long after the load began. Zero: before the load's first call.
    AtNs(u64),
    /// As soon as somebody has been granted a lock.
    AfterFirstGrant,
    /// When a message has been handed to its receiver.
    OnMessage(OnMessage),
}

/// A setting of a fault, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A word, also a duration.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A list of words.
    Words(Vec<String>),
}

/// The settings of a fault by name; checked against its kind when the file is read.
pub type Settings = BTreeMap<String, Setting>;

/// One fault of a scenario or of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSpec {
    /// Pairs inject with heal in the history; from 1 in a plan.
    pub span: u64,
    /// Its kind, a name of the registry.
    pub fault: String,
    /// When it is injected.
    pub when: When,
    /// How long it lasts; `null`: until the end.
    pub lasts_ns: Option<u64>,
    /// On whom; in a plan, drawn parties are nodes by now.
    pub on: On,
    /// With which settings.
    pub with: Settings,
}

impl FaultSpec {
    /// Its kind in this build's registry.
    pub(crate) fn kind(&self) -> Option<&'static FaultKind> {
        crate::faults::find(&self.fault)
    }
}

/// What a `[[faults]]` entry means on a topology and under a load.
pub(super) fn check(
    section: Section<'_>,
    table: &FaultTable,
    topology: Option<&Topology>,
    load: &Load,
) -> Option<FaultSpec> {
    let when = when(section, table, topology, load);
    at_least(section, "for", table.r#for, NOT_ZERO);
    let Some(FaultName(kind)) = table.fault else {
        section.complain("fault", "`fault` is missing in this [[faults]]");
        return None;
    };
    let settings = section.table("with", "with = { … }");
    let with = settings_of(settings, kind, section.span("fault"));
    let on = match (&table.on, topology) {
        (Some(text), Some(topology)) => match target::parse(text, topology, load.clients) {
            Ok(on) => on,
            Err(problems) => {
                for problem in problems {
                    section.complain("on", problem);
                }
                return None;
            }
        },
        (Some(_), None) => return None,
        (None, _) if kind.hits.node() => On::Parties(vec![Who::Master]),
        (None, _) => {
            let (name, hits) = (kind.name, kind.hits.words());
            let problem = format!("`{name}` needs `on`: it acts on {hits}");
            section.complain("fault", problem);
            return None;
        }
    };
    if let Err(problem) = fits(kind, &on) {
        section.complain("on", problem);
        return None;
    }
    let with = with?;
    if let Some(topology) = topology
        && let Err(problem) = crate::faults::allowed(kind, topology, &on, &with)
    {
        section.complain("fault", problem);
        return None;
    }
    Some(FaultSpec {
        span: 0,
        fault: kind.name.to_owned(),
        when: when?,
        lasts_ns: table.r#for.map(Length::ns),
        on,
        with,
    })
}

fn when(
    section: Section<'_>,
    table: &FaultTable,
    topology: Option<&Topology>,
    load: &Load,
) -> Option<When> {
    let mut given = ["at", "after", "when"]
        .into_iter()
        .filter(|key| section.get(key).is_some());
    if let Some(second) = given.nth(1) {
        section.complain(second, "a fault has one of `at`, `after` and `when`");
        return None;
    }
    if table.after.is_some() {
        return Some(When::AfterFirstGrant);
    }
    if let Some(text) = &table.when {
        let (topology, clients) = (topology?, load.clients);
        if !topology.kind.is_redis() {
            let problem = when_on_redis_alone(topology.kind);
            section.complain("when", problem);
            return None;
        }
        return section.word("when", |_| {
            message::parse(text, topology, clients).map(When::OnMessage)
        });
    }
    let at = table.at.map_or(Duration::ZERO, |at| at.0);
    let end = load.duration.0;
    if table.at.is_some() && at >= end {
        let problem = format!(
            "`at` is {at:?}, and the load ends after {end:?}; allowed is a time before its end"
        );
        section.complain("at", problem);
        return None;
    }
    Some(When::AtNs(values::nanoseconds(at)))
}

/// Why `when` is refused on servers of another system.
pub(crate) fn when_on_redis_alone(kind: TopologyKind) -> String {
    format!("`when` waits for commands and replies of Redis, which `{kind}` has not")
}

pub(super) fn fits(kind: &FaultKind, on: &On) -> Result<(), String> {
    let (name, hits) = (kind.name, kind.hits);
    let fit = match on {
        On::Parties(parties) => parties.iter().all(|who| match who.is_client() {
            true => hits.client(),
            false => hits.node(),
        }),
        On::Link { both, .. } => hits == Hits::Link || (hits == Hits::Groups && *both),
        On::Groups(_) => hits == Hits::Groups,
    };
    match fit {
        true => Ok(()),
        false => Err(format!("`{name}` acts on {}, not on `{on}`", hits.words())),
    }
}

/// The settings of `kind` from the table `with`; `place` is where a setting is missing if there is no such table.
pub(super) fn settings_of(
    with: Section<'_>,
    kind: &'static FaultKind,
    place: std::ops::Range<usize>,
) -> Option<Settings> {
    let known: Vec<&str> = kind.settings.iter().map(|setting| setting.name).collect();
    let name = kind.name;
    if known.is_empty() {
        for (key, _) in with.table.into_iter().flatten() {
            let problem = format!("`{name}` has no settings, found `{}`", key.get_ref());
            with.problems.add(key.span(), problem);
        }
    } else {
        with.allow(&known);
    }
    let missing = match with.table {
        Some(_) => with.start..with.start,
        None => place,
    };
    let mut settings = Settings::new();
    let mut complete = true;
    for setting in kind.settings {
        if with.get(setting.name).is_none() {
            if setting.required {
                let (wanted, about) = (setting.name, setting.about);
                let problem = format!("`{name}` needs the setting `{wanted}`: {about}");
                with.problems.add(missing.clone(), problem);
                complete = false;
            }
            continue;
        }
        match with.read(setting.name, |value| setting_of(setting.kind, value)) {
            Some(value) => {
                settings.insert(setting.name.to_owned(), value);
            }
            None => complete = false,
        }
    }
    complete.then_some(settings)
}

fn setting_of(kind: SettingKind, value: &DeValue<'_>) -> Result<Setting, String> {
    // A word that one of the readers of `values` understands is kept as it is.
    let text = || value.as_str().map(str::to_owned);
    let read_by = |known: &dyn Fn(&str) -> bool, allowed: &str| match text() {
        Some(word) if known(&word) => Ok(Setting::Text(word)),
        _ => Err(allowed.to_owned()),
    };
    match kind {
        SettingKind::Duration => read_by(&|word| values::duration(word).is_ok(), values::DURATION),
        SettingKind::Rate => read_by(&|word| values::rate(word).is_ok(), values::RATE),
        SettingKind::Shift => read_by(&|word| values::shift(word).is_ok(), values::SHIFT),
        SettingKind::Percent => read_by(&|word| values::percent(word).is_ok(), values::PERCENT),
        SettingKind::OneOf(words) => match text() {
            Some(word) if words.contains(&word.as_str()) => Ok(Setting::Text(word)),
            found => Err(values::one_of_these(&found.unwrap_or_default(), words)),
        },
        // A server's settings are words on the wire; a number or a truth value in a file means its word.
        SettingKind::Text => match value {
            DeValue::String(word) => Ok(Setting::Text(word.clone().into_owned())),
            DeValue::Integer(_) | DeValue::Float(_) => Ok(Setting::Text(shown(value))),
            DeValue::Boolean(truth) => {
                Ok(Setting::Text(if *truth { "yes" } else { "no" }.to_owned()))
            }
            _ => Err("a string in quotes".to_owned()),
        },
        SettingKind::Count(low, high) => match integer(value) {
            Some(count) if (i64::from(low)..=i64::from(high)).contains(&count) => {
                Ok(Setting::Number(count))
            }
            _ => Err(format!("a whole number from {low} to {high}")),
        },
        SettingKind::Share => match float(value) {
            Some(share) if share > 0.0 && share <= 1.0 => Ok(Setting::Text(share.to_string())),
            _ => Err("a share, more than 0.0 and at most 1.0".to_owned()),
        },
        SettingKind::Words => {
            let word = |word: &Spanned<DeValue<'_>>| match word.get_ref() {
                DeValue::String(word) => Some(word.clone().into_owned()),
                number => integer(number).map(|number| number.to_string()),
            };
            let list = value.as_array();
            match list.and_then(|list| list.iter().map(word).collect::<Option<Vec<_>>>()) {
                Some(words) if !words.is_empty() => Ok(Setting::Words(words)),
                _ => Err("a list of strings such as [\"DEL\", \"orders\"]".to_owned()),
            }
        }
    }
}
