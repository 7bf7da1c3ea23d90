//! Reads the settings that choose messages on a link: which, from which one on, and how many.

use cluster_config::Pattern;

use super::{SettingKind, SettingSpec, settings};
use crate::roles::ROLES;
use crate::scenario::Settings;

const MOST: u32 = 1_000_000_000;

pub(super) const SETTINGS: &[SettingSpec] = &[
    SettingSpec::optional(
        "match",
        SettingKind::Text,
        "words of the command, or of the command that a reply answers: its name, then others among those that follow, in their order; `*` is any run of characters; default: every message",
    ),
    SettingSpec::optional(
        "during",
        SettingKind::OneOf(ROLES),
        "what its client is doing for a lock that the message names: its acquire, release or extend, a `wait` (a second try of an acquire, or a message pushed to it), or a `renewal`; beside `match`, both must be so",
    ),
    SettingSpec::optional(
        "nth",
        SettingKind::Count(1, MOST),
        "the first of them that is harmed, counted from 1 on each link since the fault began; default 1",
    ),
    SettingSpec::optional(
        "count",
        SettingKind::Count(1, MOST),
        "how many are harmed, from that one on; default 1",
    ),
];

/// Which messages, the first and how many.
pub(super) fn chosen(with: &Settings) -> (Pattern, u64, u64) {
    let words = settings::text(with, "match").unwrap_or_default();
    let count = |name| u64::from(settings::count(with, name).unwrap_or(1));
    let role = settings::text(with, "during").and_then(role);
    (pattern(words, role), count("nth"), count("count"))
}

/// The role of that name.
pub(crate) fn role(name: &str) -> Option<&'static str> {
    ROLES.iter().find(|role| **role == name).copied()
}

/// The messages of these words, and of this role if one is given.
pub(crate) fn pattern(words: &str, role: Option<&'static str>) -> Pattern {
    let Ok(pattern) = words.parse::<Pattern>();
    pattern.labelled(role)
}
