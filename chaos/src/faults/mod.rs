//! The faults: each can be injected and undone, and gives evidence that it took effect.
//!
//! A file per fault, or per family of link faults, and one row per fault in [`FAULTS`]. A fault without proof
//! makes the verdicts unknown, so each shows by its own means that it did what it says: a process is gone and
//! its port refuses, `/proc` says stopped, bytes were held.
//!
//! | file | what it is for |
//! |---|---|
//! | `fault_world.rs`, `settings.rs` | what faults act on, and how they are set |
//! | `per_target.rs` | the common form: harm a target, show evidence, set it right |
//! | `process/` | processes, and what a process runs on |
//! | `network/` | links, messages, names |
//! | `commands/` | what a command does to a server and its clients |
//! | `leadership/` | another master, slots that move |
//! | `command_fault.rs`, `engine.rs` | faults that somebody else carries out |

/// Why a fault could not be injected or undone, in the words of `format!`.
macro_rules! failed {
    ($($words:tt)*) => { $crate::faults::FaultError(format!($($words)*)) };
}
pub(crate) use failed;

/// Whether a fault took effect, and what shows it, in the words of `format!`.
macro_rules! proof {
    ($bit:expr, $($words:tt)*) => { $crate::faults::Proof::of($bit, format!($($words)*)) };
}

pub(crate) mod command_fault;
mod commands;
pub mod engine;
mod fault_world;
mod leadership;
pub(crate) mod network;
mod per_target;
pub mod process;
pub mod settings;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::{LinkFault, Party, Role, Topology};
use itertools::Itertools;

use crate::scenario::{FaultSite, Settings};

use commands::{change_password, client_kill, client_pause, command, config_set, maxmemory, refuse_command};
pub use fault_world::{ClientControl, FaultWorld};
use leadership::{failover, migrate_atomic, migrate_slot, promote, takeover};
use network::{late_writes, link, link_harms, message, names as server_names};
pub use process::stress;
use process::{block, clock, disk, kill, pause, power_cut, restart, upgrade};

/// A kind of fault as the registry lists it.
#[derive(Clone, Copy)]
pub struct FaultKind {
    /// Its name in scenario files.
    pub name: &'static str,
    /// A sentence for `locklab list faults`.
    pub about: &'static str,
    /// What it may be put on.
    pub hits: TargetKind,
    /// Which servers, where it is put on servers.
    pub servers: Servers,
    /// What may be said `with` it.
    pub settings: &'static [SettingSpec],
    /// Whether it is over as soon as it is applied; `for` has no meaning then.
    pub one_shot: bool,
    /// Whether it needs no word of a server, and can be put on those of every system.
    pub any_system: bool,
    /// Whether it is a command to a server, which anybody who is admitted can send.
    pub by_command: bool,
    /// Whether a target without `for` stays away: bringing it back after the load would cost time and show
    /// nothing.
    pub stays_down: bool,
    /// Whether what it hit needs a while after its end: a process starts, a replica copies its master anew. A
    /// plan that draws faults leaves room for that.
    pub recovers: bool,
    /// Whether nothing passes a link while it lasts.
    pub blocks: Blocks,
    /// What shows that it took effect where a hook carries it out.
    pub shows: HookEvidence,
    /// Whether processes must have been started with the shim ([`crate::servers::shim`]).
    pub needs_shim: bool,
    /// Whether clients must know the servers by name ([`crate::servers::names`]).
    pub needs_names: bool,
    /// Words of CLUSTER HELP of which a server has one that can do it; empty: every server can. And which
    /// servers those are.
    pub needs_words: (&'static [&'static str], &'static str),
    /// Whether a scenario may ask for it: what the forms of its settings cannot say, such as a topology
    /// without replicas. Else what is in the way, and what would be allowed.
    pub allowed: fn(&Topology, &FaultSite, &Settings) -> Result<(), String>,
    /// What carries it out.
    pub fault: &'static dyn Fault,
}

impl fmt::Debug for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultKind").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FaultKind {
    /// One on servers that lasts, has no settings and no other property.
    const fn of(fault: &'static dyn Fault) -> Self {
        Self {
            name: "",
            about: "",
            hits: TargetKind::Node,
            servers: Servers::All,
            settings: &[],
            one_shot: false,
            any_system: false,
            by_command: false,
            stays_down: false,
            recovers: false,
            blocks: Blocks::Nothing,
            shows: HookEvidence::Nothing,
            needs_shim: false,
            needs_names: false,
            needs_words: (&[], ""),
            allowed: |_, _, _| Ok(()),
            fault,
        }
    }

    /// One on links that lasts, whatever passes there.
    const fn on_links(fault: &'static dyn Fault) -> Self {
        Self { hits: TargetKind::Link, any_system: true, ..Self::of(fault) }
    }
}

/// What a fault keeps from passing the links that it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Something passes: late, slowly, or in part.
    Nothing,
    /// Nothing passes in the direction that is named.
    OneWay,
    /// Nothing passes in either direction, since connections are closed.
    BothWays,
}

/// What a fault shows on a server besides a hook that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvidence {
    /// The server refuses connections, or another process answers in its place.
    Gone,
    /// The server gives no answer.
    Silent,
    /// Nothing that could be seen from here.
    Nothing,
}

/// What a fault may be put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// Servers.
    Node,
    /// Client processes.
    Client,
    /// Servers and client processes.
    Process,
    /// Directed links.
    Link,
    /// Groups of parties.
    Groups,
}

impl TargetKind {
    /// Whether it may be put on servers.
    pub fn node(self) -> bool {
        matches!(self, Self::Node | Self::Process)
    }

    /// Whether it may be put on client processes.
    pub fn client(self) -> bool {
        matches!(self, Self::Client | Self::Process)
    }

    /// Whether it needs proxies.
    pub fn link(self) -> bool {
        matches!(self, Self::Link | Self::Groups)
    }

    /// For messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Client => "clients",
            Self::Process => "nodes and clients",
            Self::Link => "links `A -> B` or `A <-> B`",
            Self::Groups => "groups `A | B` or links `A <-> B`",
        }
    }
}

/// Servers by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// Every one.
    All,
    /// Those that keep data: sentinels do not know the command, or have nothing that it is about.
    Data,
    /// Those that take writes.
    Masters,
}

impl Servers {
    /// Whether one of that role is among them.
    pub fn has(self, role: Role) -> bool {
        match self {
            Self::All => true,
            Self::Data => role != Role::Sentinel,
            Self::Masters => role == Role::Master,
        }
    }
}

/// A setting of a fault.
#[derive(Debug, Clone, Copy)]
pub struct SettingSpec {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its form.
    pub kind: SettingKind,
    /// Whether it must be given.
    pub required: bool,
}

impl SettingSpec {
    const fn optional(name: &'static str, kind: SettingKind) -> Self {
        Self { name, about: "", kind, required: false }
    }

    const fn required(name: &'static str, kind: SettingKind) -> Self {
        Self { required: true, ..Self::optional(name, kind) }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

/// The form of a setting.
#[derive(Debug, Clone, Copy)]
pub enum SettingKind {
    /// `250ms`.
    Duration,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any words, but not none.
    Text,
    /// Any words or none: a directive's value.
    Value,
    /// A server of the topology, by name.
    Node(Servers),
    /// Bytes as a server's configuration says them, not 0: `600kb`.
    Memory,
    /// A list of words.
    Words,
    /// A whole number within bounds, both included.
    Count(u32, u32),
    /// A share, more than 0.0 and at most 1.0.
    Share,
    /// Bytes per second: `64kB/s`.
    Rate,
    /// A duration forwards or backwards: `5s`, `-5s`.
    Shift,
    /// A share in per cent, forwards or backwards: `2%`, `-0.5%`; more than -100 and at most 1000.
    Percent,
}

/// Every fault of this build, in the order of the docs.
pub static FAULTS: [FaultKind; 38] = [
    kill::KIND,
    restart::KIND,
    server_names::NEW_ADDRESS,
    server_names::RESOLVE,
    upgrade::KIND,
    pause::KIND,
    block::KIND,
    stress::KIND,
    power_cut::KIND,
    disk::KIND,
    clock::KIND,
    link::DELAY,
    link::CUT,
    link::PARTITION,
    link_harms::BANDWIDTH,
    link_harms::REFUSE,
    link_harms::RESET,
    link_harms::CLOSE_AFTER,
    link_harms::SLICED,
    link_harms::CORRUPT,
    link_harms::LOSS,
    message::HOLD,
    message::DROP,
    failover::KIND,
    takeover::KIND,
    promote::KIND,
    migrate_slot::KIND,
    migrate_atomic::KIND,
    command::SCRIPT_FLUSH,
    command::FLUSHALL,
    client_pause::KIND,
    client_kill::KIND,
    late_writes::KIND,
    maxmemory::KIND,
    config_set::KIND,
    refuse_command::KIND,
    change_password::KIND,
    command::COMMAND,
];

/// The fault of that name.
pub fn find(name: &str) -> Option<&'static FaultKind> {
    FAULTS.iter().find(|fault| fault.name == name)
}

/// Whether a scenario may ask for a fault, or what is in the way beyond the forms of its settings.
pub(crate) fn allowed(
    kind: &FaultKind,
    topology: &Topology,
    on: &FaultSite,
    with: &Settings,
) -> Result<(), String> {
    let (name, shape) = (kind.name, topology.kind);
    let Some(system) = shape.system_name() else { return (kind.allowed)(topology, on, with) };
    if with.contains_key("during") || !kind.any_system {
        let others = FAULTS.iter().filter(|fault| fault.any_system);
        let others = others.map(|fault| fault.name).join(", ");
        return Err(format!("`{name}` is for Redis alone, and `{shape}` is {system}; allowed are {others}"));
    }
    if name == "power-cut" && system == "etcd" {
        return Err(
            "`power-cut` cannot be put on etcd: what a program in Go has written is not known".to_owned()
        );
    }
    (kind.allowed)(topology, on, with)
}

/// The names of all faults.
pub fn names() -> Vec<&'static str> {
    FAULTS.iter().map(|fault| fault.name).collect()
}

/// Where a fault goes, with nothing left to resolve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A server by name.
    Node(String),
    /// A client by number.
    Client(u32),
    /// The bytes from one party to another.
    Link(Party, Party),
}

impl Target {
    fn client(&self) -> Result<u32, FaultError> {
        match self {
            Self::Client(number) => Ok(*number),
            other => Err(failed!("{other} is no client")),
        }
    }

    fn node(&self) -> Result<&str, FaultError> {
        match self {
            Self::Node(name) => Ok(name),
            other => Err(failed!("{other} is no server")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let party = |party: &Party| match party {
            Party::Node(name) => name.clone(),
            Party::Client(number) => format!("c{number}"),
        };
        match self {
            Self::Node(name) => f.write_str(name),
            Self::Client(number) => write!(f, "c{number}"),
            Self::Link(from, to) => write!(f, "{} -> {}", party(from), party(to)),
        }
    }
}

/// One injection of a fault.
#[derive(Debug, Clone)]
pub struct Injection {
    /// On whom.
    pub targets: Vec<Target>,
    /// With which settings; checked against the fault's [`FaultKind::settings`].
    pub with: Settings,
    /// How long it is meant to last; `None`: until the end.
    pub lasts: Option<std::time::Duration>,
}

/// Whether there is evidence that a fault took effect, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whether it took effect.
    pub bit: bool,
    /// What shows it, or what is missing.
    pub words: String,
}

impl Proof {
    fn of(bit: bool, words: impl Into<String>) -> Self {
        Self { bit, words: words.into() }
    }

    /// One proof for several targets: it must have taken effect on all.
    fn all(parts: impl IntoIterator<Item = Proof>) -> Self {
        let parts: Vec<Proof> = parts.into_iter().collect();
        let words: Vec<&str> = parts.iter().map(|part| part.words.as_str()).collect();
        Self { bit: !parts.is_empty() && parts.iter().all(|part| part.bit), words: words.join("; ") }
    }
}

/// Why a fault could not be injected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(pub String);

impl From<cluster_config::ClusterError> for FaultError {
    fn from(error: cluster_config::ClusterError) -> Self {
        Self(error.to_string())
    }
}

/// The undo of a fault, or why it could not be injected.
pub type Injected = Result<Box<dyn FaultGuard>, FaultError>;

/// A fault with its undo.
#[async_trait]
pub trait Fault: Send + Sync {
    /// What each link that it names suffers; `None` if it is about other things.
    fn on_links(&self, _with: &Settings) -> Option<LinkFault> {
        None
    }

    /// Injects it on every target; on an error what was done is undone as far as possible.
    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected;
}

/// The undo of an injected fault. Dropping it is the safety net: no process stays stopped, no link stays cut.
#[async_trait]
pub trait FaultGuard: Send {
    /// What shows by now that it took effect.
    fn proof(&self) -> Proof;

    /// Whether nothing shows yet that it took effect, and something still may: it needs somebody to meet it.
    fn awaits_evidence(&self) -> bool {
        false
    }

    /// Undoes the fault, and says what shows that it took effect. What could not be undone is in the words,
    /// and then it did not count as healed.
    async fn heal(self: Box<Self>) -> HealReport;
}

/// How a heal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealReport {
    /// The proof that the fault took effect.
    pub proof: Proof,
    /// Why it could not be undone; `None`: it was.
    pub failed: Option<String>,
}

impl HealReport {
    fn with(proof: Proof, failed: &[String]) -> Self {
        Self { proof, failed: (!failed.is_empty()).then(|| failed.join("; ")) }
    }
}

/// The nodes among the targets: what a fault that acts on nodes works through.
fn nodes(injection: &Injection) -> impl Iterator<Item = &str> {
    injection.targets.iter().filter_map(|target| target.node().ok())
}

/// A figure of a server's INFO; 0 where the server does not give it.
async fn command_figure(
    world: &FaultWorld,
    node: &str,
    section: &str,
    name: &str,
) -> Result<u64, FaultError> {
    let info = world.command(node, &["INFO", section]).await?;
    Ok(field(&info, name).and_then(|figure| figure.parse().ok()).unwrap_or(0))
}

/// How often a server has answered this error so far: `errorstat_ASK:count=3`.
async fn error_count(world: &FaultWorld, node: &str, error: &str) -> Result<u64, FaultError> {
    let info = world.command(node, &["INFO", "errorstats"]).await?;
    let count = field(&info, &format!("errorstat_{error}"));
    Ok(count.and_then(|count| count.strip_prefix("count=")?.parse().ok()).unwrap_or(0))
}

pub(crate) fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_without_proof_leaves_the_whole_without() {
        let bit = proof!(true, "a");
        assert!(!Proof::all([bit.clone(), proof!(false, "b")]).bit);
        assert!(Proof::all([bit]).bit);
        assert!(!Proof::all([]).bit);
    }
}
