//! What a server writes to its disk, and the configuration lines for it.

use crate::words::words;

words! {
    /// What survives the death of a server's process.
    pub enum Persistence {
        /// Nothing.
        None = "none",
        /// Every write, to the log of writes, synced once per second: a power cut may lose about two seconds.
        AofEverysec = "aof-everysec",
        /// Every write, synced before it is answered.
        AofAlways = "aof-always",
        /// A snapshot, at most once per second while there are writes.
        Rdb = "rdb",
    }
}

impl Persistence {
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
