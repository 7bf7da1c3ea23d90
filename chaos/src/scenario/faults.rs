//! A fault of a scenario: when, for how long, what, on whom, with which settings.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::input::{Section, float, integer, one_of, shown};
use cluster_config::{Role, Topology, TopologyKind};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::file::{FaultName, FaultTable, Load};
use super::message::{self, OnMessage};
use super::parse::{NOT_ZERO, at_least};
use super::target::{self, FaultParty, FaultSite};
use super::values::{self, Length};
use crate::faults::{FaultKind, Servers, SettingKind, TargetKind};

/// When a fault is injected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultTrigger {
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
    pub when: FaultTrigger,
    /// How long it lasts; `null`: until the end.
    pub lasts_ns: Option<u64>,
    /// On whom; in a plan, drawn parties are nodes by now.
    pub on: FaultSite,
    /// With which settings.
    pub with: Settings,
}

impl FaultSpec {
    pub(crate) fn kind(&self) -> Option<&'static FaultKind> {
        crate::faults::find(&self.fault)
    }
}

pub(crate) fn upgrade_servers(faults: &[FaultSpec]) -> impl Iterator<Item = &str> {
    let upgrades = faults.iter().filter(|fault| fault.fault == "upgrade");
    upgrades.filter_map(|fault| crate::faults::settings::text(&fault.with, "server"))
}

#[derive(Clone, Copy)]
pub(super) struct ScenarioServers<'t> {
    /// Which there are; `None`: what the file says of them is wrong.
    pub(super) topology: Option<&'t Topology>,
    /// No other fault comes before, so that each of them is what it began as.
    pub(super) as_begun: bool,
}

impl ScenarioServers<'_> {
    fn role(self, who: &FaultParty) -> Option<Role> {
        let begins_as = |node| {
            let mut roles = [Role::Master, Role::Replica, Role::Sentinel].into_iter();
            let is = |role: &Role| self.topology.is_some_and(|it| it.names(*role).contains(node));
            roles.find(is)
        };
        match who {
            FaultParty::Sentinels => Some(Role::Sentinel),
            FaultParty::Replicas => Some(Role::Replica),
            // A sentinel is never anything else.
            FaultParty::Node(node) => begins_as(node).filter(|role| self.as_begun || *role == Role::Sentinel),
            FaultParty::Share { role, .. } => match role.as_str() {
                "sentinels" => Some(Role::Sentinel),
                "masters" => Some(Role::Master).filter(|_| self.as_begun),
                "replicas" => Some(Role::Replica).filter(|_| self.as_begun),
                _ => None,
            },
            _ => None,
        }
    }

    /// The data nodes that may be of these servers when the fault comes.
    fn fitting(self, servers: Servers) -> Vec<String> {
        let mut nodes = self.topology.map(target::data_nodes).unwrap_or_default();
        nodes.retain(|node| {
            let role = self.role(&FaultParty::Node(node.clone()));
            role.is_none_or(|role| servers.has(role))
        });
        nodes
    }
}

/// What a `[[faults]]` entry means here; of a key that was `refused` as it stands no more is said.
pub(super) fn check(
    section: Section<'_>,
    table: &FaultTable,
    refused: impl Fn(&str) -> bool,
    scene: ScenarioServers<'_>,
    load: &Load,
) -> Option<FaultSpec> {
    let when = when(section, table, scene.topology, load);
    at_least(section, "for", table.r#for, NOT_ZERO);
    let kind = table.fault.map(|FaultName(kind)| kind);
    if kind.is_none() && !refused("fault") {
        section.complain("fault", "`fault` is missing in this [[faults]]");
    }
    let on = match &table.on {
        Some(text) => match target::parse(text, scene.topology, load.clients) {
            Ok(on) => Some(on),
            Err(problems) => {
                for problem in problems {
                    section.complain("on", problem);
                }
                None
            }
        },
        None if refused("on") => None,
        None if kind?.hits.node() => Some(FaultSite::Parties(vec![FaultParty::Master])),
        None => {
            let (name, hits) = (kind?.name, kind?.hits.words());
            section.complain("fault", format!("`{name}` needs `on`: it acts on {hits}"));
            None
        }
    };
    let kind = kind?;
    let on = on.filter(|on| match fits(kind, on, scene) {
        Ok(()) => true,
        Err(problem) => {
            section.complain("on", problem);
            false
        }
    });
    let settings = section.table("with", "with = { … }");
    let with = settings_of(settings, kind, section.span("fault"), scene);
    if let Some(topology) = scene.topology {
        // Also where something else is wrong: what needs none of it is said in the same breath.
        let nobody = FaultSite::Parties(Vec::new());
        let (on, with) = (on.as_ref().unwrap_or(&nobody), either(&with));
        if let Err(problem) = crate::faults::allowed(kind, topology, on, with) {
            section.complain("fault", problem);
            return None;
        }
    }
    Some(FaultSpec {
        span: 0,
        fault: kind.name.to_owned(),
        when: when?,
        lasts_ns: table.r#for.map(Length::ns),
        on: on?,
        with: with.ok()?,
    })
}

fn either<T>(result: &Result<T, T>) -> &T {
    match result {
        Ok(value) | Err(value) => value,
    }
}

fn when(
    section: Section<'_>,
    table: &FaultTable,
    topology: Option<&Topology>,
    load: &Load,
) -> Option<FaultTrigger> {
    let mut given = ["at", "after", "when"].into_iter().filter(|key| section.get(key).is_some());
    if let Some(second) = given.nth(1) {
        section.complain(second, "a fault has one of `at`, `after` and `when`");
        return None;
    }
    if table.after.is_some() {
        return Some(FaultTrigger::AfterFirstGrant);
    }
    if let Some(text) = &table.when {
        if let Some(topology) = topology.filter(|topology| !topology.kind.is_redis()) {
            section.complain("when", when_on_redis_alone(topology.kind));
            return None;
        }
        return section
            .word("when", |_| message::parse(text, topology, load.clients).map(FaultTrigger::OnMessage));
    }
    let at = table.at.map_or(Duration::ZERO, |at| at.0);
    let end = load.duration.0;
    if table.at.is_some() && at >= end {
        let problem =
            format!("`at` is {at:?}, and the load ends after {end:?}; allowed is a time before its end");
        section.complain("at", problem);
        return None;
    }
    Some(FaultTrigger::AtNs(values::nanoseconds(at)))
}

/// Why `when` is refused on servers of another system.
pub(crate) fn when_on_redis_alone(kind: TopologyKind) -> String {
    format!("`when` waits for commands and replies of Redis, which `{kind}` has not")
}

/// Whether a fault can be on these parties, as far as it is known who they are.
pub(super) fn fits(kind: &FaultKind, on: &FaultSite, scene: ScenarioServers<'_>) -> Result<(), String> {
    let (name, hits) = (kind.name, kind.hits);
    let fit = match on {
        FaultSite::Parties(parties) => parties.iter().all(|who| match who.is_client() {
            true => hits.client(),
            false => hits.node(),
        }),
        FaultSite::Link { both, .. } => hits == TargetKind::Link || (hits == TargetKind::Groups && *both),
        FaultSite::Groups(_) => hits == TargetKind::Groups,
    };
    if !fit {
        return Err(format!("`{name}` acts on {}, not on `{on}`", hits.words()));
    }
    for who in on.everybody() {
        if let Some(role) = scene.role(who).filter(|role| !kind.servers.has(*role)) {
            let fitting = scene.fitting(kind.servers);
            let fitting = one_of(fitting.iter().map(String::as_str));
            return Err(format!("`{name}` cannot be on `{who}`, a {role}; allowed are {fitting}"));
        }
    }
    Ok(())
}

/// The settings of `kind` from the table `with`; `place` is where a setting is missing if there is no such
/// table. An error: what is there of them, as it is written, and what is wrong has been said.
pub(super) fn settings_of(
    with: Section<'_>,
    kind: &'static FaultKind,
    place: std::ops::Range<usize>,
    scene: ScenarioServers<'_>,
) -> Result<Settings, Settings> {
    let known: Vec<&str> = kind.settings.iter().map(|setting| setting.name).collect();
    let name = kind.name;
    if known.is_empty() {
        for (key, _) in with.table.into_iter().flatten() {
            with.problems.add(key.span(), format!("`{name}` has no settings, found `{}`", key.get_ref()));
        }
    } else {
        with.allow(&known);
    }
    let missing = if with.table.is_some() { with.start..with.start } else { place };
    let mut settings = Settings::new();
    let mut complete = true;
    for setting in kind.settings {
        let Some(written) = with.get(setting.name) else {
            if setting.required {
                let (wanted, about) = (setting.name, setting.about);
                with.problems.add(missing.clone(), format!("`{name}` needs the setting `{wanted}`: {about}"));
                complete = false;
            }
            continue;
        };
        let value = with.read(setting.name, |value| setting_of(setting.kind, value, scene));
        complete &= value.is_some();
        let value = value.unwrap_or_else(|| Setting::Text(shown(written.get_ref())));
        settings.insert(setting.name.to_owned(), value);
    }
    match complete {
        true => Ok(settings),
        false => Err(settings),
    }
}

fn setting_of(kind: SettingKind, value: &DeValue<'_>, scene: ScenarioServers<'_>) -> Result<Setting, String> {
    // A word that one of the readers of `values` understands is kept as it is.
    let text = || value.as_str().map(str::to_owned);
    fn read_by<T>(
        word: Option<String>,
        read: fn(&str) -> Result<T, &'static str>,
    ) -> Result<Setting, String> {
        let word = word.unwrap_or_default();
        read(&word)?;
        Ok(Setting::Text(word))
    }
    match kind {
        SettingKind::Duration => read_by(text(), values::duration),
        SettingKind::Rate => read_by(text(), values::rate),
        SettingKind::Shift => read_by(text(), values::shift),
        SettingKind::Percent => read_by(text(), values::percent),
        SettingKind::Memory => read_by(word_of(value), values::memory),
        SettingKind::Node(which) => {
            let fitting = scene.fitting(which);
            match text() {
                Some(node) if scene.topology.is_none() || fitting.contains(&node) => Ok(Setting::Text(node)),
                _ => Err(format!("a node of this topology: {}", fitting.join(", "))),
            }
        }
        SettingKind::OneOf(words) => match text() {
            Some(word) if words.contains(&word.as_str()) => Ok(Setting::Text(word)),
            found => Err(values::one_of_these(&found.unwrap_or_default(), words)),
        },
        SettingKind::Text => match word_of(value) {
            Some(word) if !word.trim().is_empty() => Ok(Setting::Text(word)),
            _ => Err("a string in quotes, not empty".to_owned()),
        },
        SettingKind::Value => Ok(Setting::Text(word_of(value).ok_or("a string in quotes")?)),
        SettingKind::Count(low, high) => match integer(value) {
            Some(count) if (i64::from(low)..=i64::from(high)).contains(&count) => Ok(Setting::Number(count)),
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

/// A server's settings are words on the wire; a number or a truth value in a file means its word.
fn word_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(word) => Some(word.clone().into_owned()),
        DeValue::Integer(_) | DeValue::Float(_) => Some(shown(value)),
        DeValue::Boolean(truth) => Some(if *truth { "yes" } else { "no" }.to_owned()),
        _ => None,
    }
}
