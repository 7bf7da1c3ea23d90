//! Faults on chosen messages of a link, held until the heal or lost; and the settings that choose them:
//! which, from which one on, how many.

use cluster_config::{LinkFault, Pattern};

use crate::faults::network::link::OnLinks;
use crate::faults::{FaultKind, SettingKind, SettingSpec, TargetKind, settings};
use crate::roles::ROLES;
use crate::scenario::Settings;

const MOST: u32 = 1_000_000_000;

const SETTINGS: &[SettingSpec] = &[
    SettingSpec::optional("match", SettingKind::Text).about("words of the command, or of the command that a reply answers: its name, then others among those that follow, in their order; `*` is any run of characters; default: every message"),
    SettingSpec::optional("during", SettingKind::OneOf(ROLES)).about("what its client is doing for a lock that the message names: its acquire, release or extend, a `wait` (a second try of an acquire, or a message pushed to it), or a `renewal`; beside `match`, both must be so"),
    SettingSpec::optional("nth", SettingKind::Count(1, MOST)).about("the first of them that is harmed, counted from 1 on each link since the fault began; default 1"),
    SettingSpec::optional("count", SettingKind::Count(1, MOST)).about("how many are harmed, from that one on; default 1"),
];

pub(crate) const HOLD: FaultKind = FaultKind {
    name: "hold",
    about: "commands or replies that match are held, and what follows them on their connections; they arrive when `for` ends",
    hits: TargetKind::Link,
    settings: SETTINGS,
    ..FaultKind::of(&OnLinks(|with| {
        let (pattern, nth, count) = chosen(with);
        LinkFault::Hold { pattern, nth, count }
    }))
};

pub(crate) const DROP: FaultKind = FaultKind {
    name: "drop",
    about: "commands or replies that match are lost; the connection stays silent, and is reset before another message could take a lost one's place",
    hits: TargetKind::Link,
    settings: SETTINGS,
    ..FaultKind::of(&OnLinks(|with| {
        let (pattern, nth, count) = chosen(with);
        LinkFault::Drop { pattern, nth, count }
    }))
};

fn chosen(with: &Settings) -> (Pattern, u64, u64) {
    let words = settings::text(with, "match").unwrap_or_default();
    let count = |name| u64::from(settings::count(with, name).unwrap_or(1));
    (pattern(words, settings::text(with, "during").and_then(role)), count("nth"), count("count"))
}

pub(crate) fn role(name: &str) -> Option<&'static str> {
    ROLES.iter().find(|role| **role == name).copied()
}

pub(crate) fn pattern(words: &str, role: Option<&'static str>) -> Pattern {
    let Ok(pattern) = words.parse::<Pattern>();
    pattern.labelled(role)
}
