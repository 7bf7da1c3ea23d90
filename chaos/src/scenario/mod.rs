//! What a scenario file asks for, or everything that is wrong with it, by line and column.
//!
//! Pure: nothing is started, and no file but the text given is read. The form of a file is in `file`: one
//! type per section.
//!
//! | file | what it is for |
//! |---|---|
//! | `file.rs` | the form: one type per section |
//! | `parse.rs` | the checks of all sections |
//! | `values.rs` | durations, ranges, leases, expectations |
//! | `faults.rs`, `target.rs`, `message.rs` | a fault: what, on whom, at which message |
//! | `random.rs` | which faults may be drawn |
//! | `write.rs` | a plan back into the text of a file |
//! | `builtin.rs`, `scenario_source.rs` | the suite that comes with the program; what is meant by a name |

pub mod builtin;
mod faults;
mod file;
mod message;
mod parse;
mod random;
pub mod scenario_source;
mod target;
mod values;
mod write;

use std::collections::BTreeMap;

use cluster_config::{Topology, TopologyKind};

use crate::servers::hooks::Hooks;

pub use cluster_config::input::{FileErrors as ScenarioErrors, Problem};
pub use faults::{FaultSpec, FaultTrigger, Setting, Settings};
pub(crate) use faults::{upgrade_servers, when_on_redis_alone};
pub use file::{Audit, DrawnOperation, KEYS, Load, Lock, Suite, json_schema};
pub use message::OnMessage;
pub use random::{Candidate, RandomSpec};
pub(crate) use target::parse as parse_on;
pub use target::{FaultParty, FaultSite};
pub(crate) use target::{data_nodes, quorum, role_members, sentinels, share_sizes};
pub use values::{Length, Range};
pub(crate) use values::{duration, nanoseconds, percent, rate, share_of_knee, shift};
pub use write::scenario_text;
pub(crate) use write::{as_in_a_file, in_words, object};

/// The lock under test where a file names none: of several masters, the one that takes a majority of them.
pub(crate) fn default_subject(kind: Option<TopologyKind>) -> &'static str {
    match kind {
        Some(TopologyKind::Masters) => "lock-core:redlock",
        Some(TopologyKind::Etcd | TopologyKind::Etcd3) => "etcd:lock",
        Some(TopologyKind::ZooKeeper | TopologyKind::ZooKeeper3) => "zookeeper:ephemeral",
        Some(TopologyKind::Mysql) => "mysql:row",
        Some(TopologyKind::Postgres) => "postgres:row",
        Some(TopologyKind::Mongodb) => "mongodb:find-and-modify",
        _ => "lock-core:reentrant",
    }
}

/// What a scenario file asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// A sentence for people.
    pub about: String,
    /// Where the expectation comes from.
    pub claim: String,
    /// The servers.
    pub topology: Topology,
    /// The lock.
    pub lock: Lock,
    /// What the clients do.
    pub load: Load,
    /// What is done to them and to the servers.
    pub faults: Vec<FaultSpec>,
    /// Commands that carry faults out in place of the harness.
    pub hooks: Hooks,
    /// What is drawn besides; `None`: nothing.
    pub random: Option<RandomSpec>,
    /// What must come out, by verdict: `clean`, `violated` or `at-most N/min`.
    pub expect: BTreeMap<String, String>,
    /// What an audit makes of it.
    pub audit: Audit,
}

impl Scenario {
    /// Parses the text of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioErrors> {
        parse::parse(file, text)
    }

    /// Whether it asks what a lock is by what servers do, so that it is to be tried on each of them: it
    /// judges more than liveness, offers no rate of its own, and names no server.
    pub fn is_for_any_server(&self) -> bool {
        let safety = |class: &String| class != "liveness" && class != results::run::RECOVERY;
        let mut upgrades = faults::upgrade_servers(&self.faults);
        self.expect.keys().any(safety)
            && self.load.rate.is_none()
            && self.topology.server == Topology::of(self.topology.kind).server
            && upgrades.next().is_none()
    }
}
