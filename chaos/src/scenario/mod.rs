//! Turns a scenario file into a `Scenario`, or into everything that is wrong with it, by line and column.
//!
//! Pure: nothing is started, and no file but the text given is read. What a file leaves out has the defaults that the
//! constants here state.

mod faults;
mod message;
mod parse;
mod random;
mod schema;
mod target;
mod values;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::{Topology, TopologyKind};

use crate::hooks::Hooks;

pub use cluster_config::input::{FileErrors as ScenarioErrors, Problem};
pub use faults::{FaultSpec, Setting, Settings, When};
pub use message::OnMessage;
pub use random::{Candidate, RandomSpec};
pub use schema::json_schema;
pub(crate) use target::parse as parse_on;
pub use target::{On, Who};
pub(crate) use target::{data_nodes, quorum, sentinels};
pub use values::{Protects, Range};
pub(crate) use values::{duration, nanoseconds, percent, rate, shift};
pub use write::scenario_text;

/// Defaults of a scenario, where the file is silent.
pub mod defaults {
    use std::time::Duration;

    use cluster_config::TopologyKind;

    /// The lock under test: of several masters, the one that takes a majority of them.
    pub fn subject(kind: Option<TopologyKind>) -> &'static str {
        match kind {
            Some(TopologyKind::Masters) => "lock-core:redlock",
            _ => "lock-core:reentrant",
        }
    }
    /// Long enough for a hand-over on a loaded machine, short enough that a crashed holder is seen to be waited for.
    pub const LEASE: Duration = Duration::from_secs(3);
    /// How long an acquire waits.
    pub const WAIT: Duration = Duration::from_millis(500);
    /// Client processes.
    pub const CLIENTS: u32 = 3;
    /// Tasks per client.
    pub const TASKS: u32 = 1;
    /// Lock names.
    pub const LOCKS: u32 = 1;
    /// How long a holder keeps the lock.
    pub const HOLD: Duration = Duration::from_millis(20);
    /// Pause of a task between two rounds.
    pub const THINK: Duration = Duration::from_millis(5);
    /// Length of the load.
    pub const DURATION: Duration = Duration::from_secs(10);
}

/// Why a lock has nothing to lock on servers of this shape, if so: independent masters are for the kind `redlock` alone, and it for them.
/// Of a driver of which no kind is known nothing is said.
pub fn misplaced(subject: &str, kind: Option<&str>, topology: TopologyKind) -> Option<String> {
    let kinds = match kind {
        Some(kind) => vec![kind.to_owned()],
        None => bench::subjects::find(subject).ok()?.kinds(),
    };
    let masters = topology == TopologyKind::Masters;
    if kinds.is_empty() || kinds.iter().any(|kind| (kind == "redlock") == masters) {
        return None;
    }
    Some(if masters {
        format!(
            "`{subject}` is a lock on one deployment, and `masters` are several; take lock-core:redlock there, or another topology"
        )
    } else {
        format!(
            "`{subject}` takes several independent masters, and `{topology}` is one deployment; take kind = \"masters\", or another lock"
        )
    })
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
    pub lock: LockSpec,
    /// What the clients do.
    pub load: LoadSpec,
    /// What is done to them and to the servers.
    pub faults: Vec<FaultSpec>,
    /// Commands that carry faults out in place of the harness.
    pub hooks: Hooks,
    /// What is drawn besides; `None`: nothing.
    pub random: Option<RandomSpec>,
    /// What must come out, by verdict: `clean`, `violated` or `at-most N/min`.
    pub expect: BTreeMap<String, String>,
}

/// The lock of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSpec {
    /// The lock under test, by name.
    pub subject: String,
    /// The kind; `None`: the subject's first.
    pub kind: Option<String>,
    /// The lease; `None`: renewed by the library.
    pub lease: Option<Duration>,
    /// The lease that the library renews, where it lets it be chosen; `None`: its own.
    pub watchdog: Option<Duration>,
    /// The longest wait of an acquire.
    pub wait: Duration,
    /// `none`, `wait:K` or `wait:all`.
    pub durability: String,
    /// Permits that one acquire asks for, for the kinds that count.
    pub permits: u32,
}

/// The load of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// Client processes.
    pub clients: u32,
    /// Tasks per client.
    pub tasks: u32,
    /// Lock names.
    pub locks: u32,
    /// How long a holder keeps the lock.
    pub hold: Range,
    /// Pause of a task between two rounds.
    pub think: Range,
    /// Length of the load.
    pub duration: Duration,
    /// The load ends before its time, half a second after so many grants came since the last fault was injected (and, where it has
    /// an end, healed); `None`: never. A slow machine gets the patience that a fast one does not need.
    pub enough: Option<u32>,
    /// Kinds by weight; empty: the lock's kind.
    pub mix: BTreeMap<String, u32>,
    /// How often a holder extends; `None`: never.
    pub extend: Option<Duration>,
    /// Share of holds that take the lock once more inside, 0.0 to 1.0.
    pub reenter: f64,
    /// How long a writer writes before it becomes a reader, without anybody in between; `None`: never.
    pub downgrade: Option<Duration>,
    /// What the holder works on.
    pub protects: Protects,
}

impl Scenario {
    /// Parses the text of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioErrors> {
        parse::parse(file, text)
    }

    /// The same scenario with another lock in it. A kind that the file asks for is kept where the new subject has it.
    pub fn with_subject(mut self, subject: &str) -> Self {
        if let Ok(found) = bench::subjects::find(subject) {
            let kinds = found.kinds();
            if self
                .lock
                .kind
                .as_ref()
                .is_some_and(|kind| !kinds.is_empty() && !kinds.contains(kind))
            {
                self.lock.kind = None;
            }
        }
        self.lock.subject = subject.to_owned();
        self
    }
}
