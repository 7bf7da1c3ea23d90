//! Names what a server writes to its disk, and turns that into configuration lines.

use std::fmt;

/// What survives the death of a server's process.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing.
    None,
    /// Every write, to the log of writes, synced once per second: a power cut may lose about two seconds.
    AofEverysec,
    /// Every write, synced before it is answered.
    AofAlways,
    /// A snapshot, at most once per second while there are writes.
    Rdb,
}

impl Persistence {
    /// Every one, in the order in which they are listed to people.
    pub const ALL: [Persistence; 4] = [
        Persistence::None,
        Persistence::AofEverysec,
        Persistence::AofAlways,
        Persistence::Rdb,
    ];

    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            Persistence::None => "none",
            Persistence::AofEverysec => "aof-everysec",
            Persistence::AofAlways => "aof-always",
            Persistence::Rdb => "rdb",
        }
    }

    /// Its lines of redis.conf.
    pub(crate) fn lines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Persistence::None => &[("save", "\"\""), ("appendonly", "no")],
            Persistence::AofEverysec => &[("appendonly", "yes"), ("appendfsync", "everysec")],
            Persistence::AofAlways => &[("appendonly", "yes"), ("appendfsync", "always")],
            Persistence::Rdb => &[("appendonly", "no"), ("save", "1 1")],
        }
    }

    /// The directives that it decides, which `config` must leave alone.
    pub(super) const DECIDES: [&'static str; 3] = ["appendfsync", "appendonly", "save"];
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
