//! Turns one `[[faults]]` entry into a checked fault: when, for how long, what, on whom, with which settings.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::Topology;
use cluster_config::input::{Section, float, integer, nearest, one_of, shown};
use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use super::message::{self, OnMessage};
use super::target::{self, On, Who};
use super::values;
use crate::faults::{FAULTS, FaultKind, SettingKind, find};

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

/// One fault of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSpec {
    /// Its kind, a name of the registry.
    pub fault: String,
    /// When it is injected.
    pub when: When,
    /// How long it lasts; `None`: until the end.
    pub lasts: Option<Duration>,
    /// On whom.
    pub on: On,
    /// With which settings.
    pub with: Settings,
}

pub(super) const KEYS: [&str; 7] = ["at", "after", "when", "for", "fault", "on", "with"];

pub(super) fn parse(
    section: Section<'_>,
    topology: Option<&Topology>,
    clients: u32,
    duration: Duration,
) -> Option<FaultSpec> {
    section.allow(&KEYS);
    let when = when(section, topology, clients, duration);
    let lasts = section.word("for", |word| match values::duration(word) {
        Ok(length) if !length.is_zero() => Ok(length),
        _ => Err(format!("{}, more than 0", values::DURATION)),
    });
    let kind = kind(section)?;
    let with = settings(section, kind);
    let on = match (section.get("on"), topology) {
        (Some(_), Some(topology)) => {
            let text = section.text("on")?;
            match target::parse(text, topology, clients) {
                Ok(on) => Some(on),
                Err(problems) => {
                    for problem in problems {
                        section.problems.add(section.span("on"), problem);
                    }
                    None
                }
            }
        }
        (Some(_), None) => None,
        (None, _) if kind.hits.node => Some(On::Parties(vec![Who::Master])),
        (None, _) => {
            section.problems.add(
                section.span("fault"),
                format!(
                    "`{}` needs `on`: it acts on {}",
                    kind.name,
                    kind.hits.words()
                ),
            );
            None
        }
    }?;
    if let Err(problem) = fits(kind, &on) {
        section.problems.add(section.span("on"), problem);
        return None;
    }
    let with = with?;
    if let Some(topology) = topology
        && let Err(problem) = kind.fault.allowed(topology, &on, &with)
    {
        section.problems.add(section.span("fault"), problem);
        return None;
    }
    Some(FaultSpec {
        fault: kind.name.to_owned(),
        when: when?,
        lasts,
        on,
        with,
    })
}

fn when(
    section: Section<'_>,
    topology: Option<&Topology>,
    clients: u32,
    load: Duration,
) -> Option<When> {
    let given: Vec<&str> = ["at", "after", "when"]
        .into_iter()
        .filter(|key| section.get(key).is_some())
        .collect();
    if let [_, second, ..] = given[..] {
        section.problems.add(
            section.span(second),
            "a fault has one of `at`, `after` and `when`",
        );
        return None;
    }
    match given.first() {
        None => Some(When::AtNs(0)),
        Some(&"at") => {
            let at = section.word("at", values::duration)?;
            if at >= load {
                section.problems.add(
                    section.span("at"),
                    format!("`at` is {at:?}, and the load ends after {load:?}; allowed is a time before its end"),
                );
                return None;
            }
            Some(When::AtNs(values::nanoseconds(at)))
        }
        Some(&"after") => section.word("after", |word| {
            if word == "first-grant" {
                Ok(When::AfterFirstGrant)
            } else {
                Err(format!("`first-grant`{}", nearest(word, ["first-grant"])))
            }
        }),
        Some(_) => {
            let topology = topology?;
            section.word("when", |word| {
                message::parse(word, topology, clients).map(When::OnMessage)
            })
        }
    }
}

fn kind(section: Section<'_>) -> Option<&'static FaultKind> {
    if section.get("fault").is_none() {
        section.problems.add(
            section.start..section.start,
            "`fault` is missing in this [[faults]]",
        );
    }
    let word = section.text("fault")?;
    let found = find(word);
    if found.is_none() {
        let names = || FAULTS.iter().map(|fault| fault.name);
        let message = format!(
            "`fault` is \"{word}\"; allowed are {}{}",
            one_of(names()),
            nearest(word, names())
        );
        section.problems.add(section.span("fault"), message);
    }
    found
}

pub(super) fn fits(kind: &FaultKind, on: &On) -> Result<(), String> {
    let refuse = || {
        Err(format!(
            "`{}` acts on {}, not on `{on}`",
            kind.name,
            kind.hits.words()
        ))
    };
    match on {
        On::Parties(parties) => {
            for who in parties {
                let allowed = match who.is_client() {
                    true => kind.hits.client,
                    false => kind.hits.node,
                };
                if !allowed {
                    return refuse();
                }
            }
            Ok(())
        }
        On::Link { both, .. } if kind.hits.link || (kind.hits.groups && *both) => Ok(()),
        On::Groups(_) if kind.hits.groups => Ok(()),
        _ => refuse(),
    }
}

fn settings(section: Section<'_>, kind: &'static FaultKind) -> Option<Settings> {
    let with = section.table("with", "with = { … }");
    settings_of(with, kind, section.span("fault"))
}

/// The settings of `kind` from the table `with`; `place` is where a setting is missing if there is no such table.
pub(super) fn settings_of(
    with: Section<'_>,
    kind: &'static FaultKind,
    place: std::ops::Range<usize>,
) -> Option<Settings> {
    let known: Vec<&str> = kind.settings.iter().map(|setting| setting.name).collect();
    let before = with.table.is_some();
    if known.is_empty() {
        for (key, _) in with.table.into_iter().flatten() {
            with.problems.add(
                key.span(),
                format!("`{}` has no settings, found `{}`", kind.name, key.get_ref()),
            );
        }
    } else {
        with.allow(&known);
    }
    let mut settings = Settings::new();
    let mut complete = true;
    for setting in kind.settings {
        if with.get(setting.name).is_none() {
            if setting.required {
                with.problems.add(
                    if before {
                        with.start..with.start
                    } else {
                        place.clone()
                    },
                    format!(
                        "`{}` needs the setting `{}`: {}",
                        kind.name, setting.name, setting.about
                    ),
                );
                complete = false;
            }
            continue;
        }
        match with.read(setting.name, |value| check(setting.kind, value)) {
            Some(value) => {
                settings.insert(setting.name.to_owned(), value);
            }
            None => complete = false,
        }
    }
    complete.then_some(settings)
}

fn check(kind: SettingKind, value: &DeValue<'_>) -> Result<Setting, String> {
    let text = || value.as_str().map(str::to_owned);
    match kind {
        SettingKind::Duration => match text() {
            Some(word) if values::duration(&word).is_ok() => Ok(Setting::Text(word)),
            _ => Err(values::DURATION.to_owned()),
        },
        SettingKind::OneOf(words) => match text() {
            Some(word) if words.contains(&word.as_str()) => Ok(Setting::Text(word)),
            found => Err(format!(
                "{}{}",
                one_of(words.iter().copied()),
                nearest(&found.unwrap_or_default(), words.iter().copied())
            )),
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
        SettingKind::Rate => match text() {
            Some(word) if values::rate(&word).is_ok() => Ok(Setting::Text(word)),
            _ => Err(values::RATE.to_owned()),
        },
        SettingKind::Shift => match text() {
            Some(word) if values::shift(&word).is_ok() => Ok(Setting::Text(word)),
            _ => Err(values::SHIFT.to_owned()),
        },
        SettingKind::Percent => match text() {
            Some(word) if values::percent(&word).is_ok() => Ok(Setting::Text(word)),
            _ => Err(values::PERCENT.to_owned()),
        },
        SettingKind::Words => {
            let words: Option<Vec<String>> = value.as_array().and_then(|list| {
                list.iter()
                    .map(|word| match word.get_ref() {
                        DeValue::String(word) => Some(word.clone().into_owned()),
                        number => integer(number).map(|number| number.to_string()),
                    })
                    .collect()
            });
            match words {
                Some(words) if !words.is_empty() => Ok(Setting::Words(words)),
                _ => Err("a list of strings such as [\"DEL\", \"orders\"]".to_owned()),
            }
        }
    }
}
