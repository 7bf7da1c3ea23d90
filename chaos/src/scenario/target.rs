//! Whom a fault is on: reads `on` (`master -> replicas`, `n1, n2 | n3, client 1`), and checks that they
//! exist.

use std::fmt;

use cluster_config::input::{nearest, one_of};
use cluster_config::{Party, Role, Topology};
use serde::{Deserialize, Serialize};

use crate::planning::partition;

/// Who a fault may be put on, as written in a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultParty {
    /// The master when the fault is injected: in a cluster the one that has the locks' slots, else the first.
    Master,
    /// Every master when the fault is injected.
    Masters,
    /// Every replica when the fault is injected; in a cluster those of `master` first.
    Replicas,
    /// Every sentinel.
    Sentinels,
    /// A server by name.
    Node(String),
    /// Every client.
    Clients,
    /// A client by number, from 1.
    Client(u32),
    /// One of the clients, drawn from the seed.
    AnyClient,
    /// The client that has held a lock for longest when the fault is injected.
    Holder,
    /// Fewer than half of the masters (of the data nodes with sentinels), drawn from the seed.
    Minority,
    /// More than half of them, drawn from the seed.
    Majority,
    /// One of the data nodes, drawn from the seed.
    Any,
    /// So many of a hundred of those of a role as the run begins, one at least, drawn from the seed.
    Share {
        /// 1 to 100.
        percent: u32,
        /// The word of the role: `masters`, `replicas`, `nodes`, `sentinels` or `clients`.
        role: String,
    },
}

impl FaultParty {
    /// Whether it is a client or clients.
    pub fn is_client(&self) -> bool {
        matches!(self, Self::Client(_) | Self::Clients | Self::Holder | Self::AnyClient)
            || matches!(self, Self::Share { role, .. } if role == "clients")
    }
}

impl fmt::Display for FaultParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => f.write_str(name),
            Self::Client(number) => write!(f, "client {number}"),
            Self::Share { percent, role } => write!(f, "{percent}% of {role}"),
            role => {
                let row = ROLES.iter().find(|(_, who)| who == role);
                f.write_str(row.map_or("", |(word, _)| word))
            }
        }
    }
}

/// What a fault is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultSite {
    /// Each of these parties.
    Parties(Vec<FaultParty>),
    /// The bytes that flow from the one side to the other.
    Link {
        /// Who sends.
        from: Vec<FaultParty>,
        /// Who receives.
        to: Vec<FaultParty>,
        /// Also the other way.
        both: bool,
    },
    /// Groups with nothing between them.
    Groups(Vec<Vec<FaultParty>>),
}

impl FaultSite {
    /// Everybody that it names.
    pub fn everybody(&self) -> impl Iterator<Item = &FaultParty> {
        let sides: Vec<&Vec<FaultParty>> = match self {
            Self::Parties(parties) => vec![parties],
            Self::Link { from, to, .. } => vec![from, to],
            Self::Groups(groups) => groups.iter().collect(),
        };
        sides.into_iter().flatten()
    }
}

impl fmt::Display for FaultSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |parties: &[FaultParty]| {
            let names: Vec<String> = parties.iter().map(FaultParty::to_string).collect();
            names.join(", ")
        };
        match self {
            Self::Parties(parties) => f.write_str(&list(parties)),
            Self::Link { from, to, both } => {
                let arrow = if *both { "<->" } else { "->" };
                write!(f, "{} {arrow} {}", list(from), list(to))
            }
            Self::Groups(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| list(group)).collect();
                f.write_str(&groups.join(" | "))
            }
        }
    }
}

/// The words for parties that are found, or drawn, by what they are.
const ROLES: [(&str, FaultParty); 10] = [
    ("master", FaultParty::Master),
    ("masters", FaultParty::Masters),
    ("replicas", FaultParty::Replicas),
    ("sentinels", FaultParty::Sentinels),
    ("clients", FaultParty::Clients),
    ("holder", FaultParty::Holder),
    ("minority", FaultParty::Minority),
    ("majority", FaultParty::Majority),
    ("any", FaultParty::Any),
    ("any client", FaultParty::AnyClient),
];

/// The words after `10% of`.
const SHARED_ROLES: [&str; 5] = ["masters", "replicas", "nodes", "sentinels", "clients"];

/// Who has a role of [`SHARED_ROLES`] as a run begins.
pub(crate) fn role_members(role: &str, topology: &Topology, clients: u32) -> Vec<FaultParty> {
    let names = match role {
        "masters" => topology.names(Role::Master),
        "replicas" => topology.names(Role::Replica),
        "sentinels" => sentinels(topology),
        "clients" => return (1..=clients).map(FaultParty::Client).collect(),
        _ => data_nodes(topology),
    };
    names.into_iter().map(FaultParty::Node).collect()
}

/// How many of `members` the shares of one expression are, apart from each other; rounded, one at least.
pub(crate) fn share_sizes(percents: &[u32], members: usize) -> Vec<usize> {
    let (mut percent, mut taken) = (0, 0);
    let sizes = percents.iter().map(|share| {
        percent += *share as usize;
        let end = ((members * percent + 50) / 100).max(taken + 1).min(members);
        let size = end - taken;
        taken = end;
        size
    });
    sizes.collect()
}

/// Names of the servers of a topology, data nodes first: `n1`… masters first, then `s1`….
pub(crate) fn data_nodes(topology: &Topology) -> Vec<String> {
    let mut names = topology.names(Role::Master);
    names.extend(topology.names(Role::Replica));
    names
}

pub(crate) fn sentinels(topology: &Topology) -> Vec<String> {
    topology.names(Role::Sentinel)
}

pub(crate) fn master_count(topology: &Topology) -> u32 {
    topology.count(Role::Master)
}

/// Parses an `on` expression for a topology and a number of clients; every problem in it is a message.
/// Without a topology a name that is no slip of a role's may be a node's.
pub(crate) fn parse(text: &str, topology: Option<&Topology>, clients: u32) -> Result<FaultSite, Vec<String>> {
    let mut problems = Vec::new();
    let mut list = |text: &str| -> Vec<FaultParty> {
        let read = text.split(',').map(str::trim).map(|word| who(word, topology, clients));
        read.filter_map(|who| who.map_err(|problem| problems.push(problem)).ok()).collect()
    };
    let both = text.contains("<->");
    let on = if text.contains('|') {
        FaultSite::Groups(text.split('|').map(&mut list).collect())
    } else if let Some((from, to)) = text.split_once(if both { "<->" } else { "->" }) {
        let (from, to) = (list(from), list(to));
        FaultSite::Link { from, to, both }
    } else {
        FaultSite::Parties(list(text))
    };
    if problems.is_empty() {
        problems.extend(idle(&on, clients));
        problems.extend(topology.and_then(|topology| too_large_shares(&on, topology, clients)));
    }
    match problems.is_empty() {
        true => Ok(on),
        false => Err(problems),
    }
}

/// Why the shares that this names are more than there is.
fn too_large_shares(on: &FaultSite, topology: &Topology, clients: u32) -> Option<String> {
    SHARED_ROLES.iter().find_map(|word| {
        let percents = on.everybody().filter_map(|who| match who {
            FaultParty::Share { percent, role } if role == word => Some(*percent),
            _ => None,
        });
        let percents: Vec<u32> = percents.collect();
        let members = role_members(word, topology, clients).len();
        let sum: u32 = percents.iter().sum();
        let nobody = share_sizes(&percents, members).contains(&0);
        (sum > 100 || nobody).then(|| {
            format!("the shares of {word} in `{on}` have nobody in common: {sum}% of {members} cannot be shared out so")
        })
    })
}

/// `10% of masters`.
fn share(word: &str, topology: Option<&Topology>, clients: u32) -> Option<Result<FaultParty, String>> {
    let (percent, role) = word.split_once('%')?;
    let role = role.trim().strip_prefix("of ").map_or("", str::trim);
    let percent = percent.trim().parse().ok();
    let Some(percent) = percent.filter(|percent| (1..=100).contains(percent)) else {
        return Some(Err(format!("`{word}` is no share: say 1 to 100, as in `10% of masters`")));
    };
    if !SHARED_ROLES.contains(&role) {
        return Some(Err(format!(
            "`{word}` is a share of nobody: say `{percent}% of` {}{}",
            one_of(SHARED_ROLES),
            nearest(role, SHARED_ROLES)
        )));
    }
    if let Some(topology) = topology.filter(|topology| role_members(role, topology, clients).is_empty()) {
        return Some(Err(format!("this `{}` topology has no {role}", topology.kind.name())));
    }
    let role = role.to_owned();
    Some(Ok(FaultParty::Share { percent, role }))
}

/// Why nothing passes where this points to, if that can be said before anybody's role is known.
fn idle(on: &FaultSite, clients: u32) -> Option<String> {
    match on {
        FaultSite::Parties(_) => None,
        FaultSite::Link { from, to, .. } => {
            let only_clients = from.iter().chain(to).all(FaultParty::is_client);
            if only_clients {
                return Some(format!("nothing passes on `{on}`: clients talk to servers only"));
            }
            let itself =
                from.len() == 1 && from == to && matches!(from[0], FaultParty::Node(_) | FaultParty::Master);
            itself.then(|| format!("nothing passes on `{on}`: nobody talks to itself by a link"))
        }
        FaultSite::Groups(groups) => {
            let parties = |group: &Vec<FaultParty>| -> Option<Vec<Party>> {
                let mut parties = Vec::new();
                for who in group {
                    match who {
                        FaultParty::Node(name) => parties.push(Party::Node(name.clone())),
                        FaultParty::Client(number) => parties.push(Party::Client(*number)),
                        FaultParty::Clients => parties.extend((1..=clients).map(Party::Client)),
                        // Who that is shows only when the fault comes.
                        _ => return None,
                    }
                }
                Some(parties)
            };
            let groups: Vec<Vec<Party>> = groups.iter().map(parties).collect::<Option<_>>()?;
            partition::cut(&groups).is_empty().then(|| {
                format!(
                    "`{on}` cuts nothing: who is in two groups is a bridge between them, and clients talk to servers only"
                )
            })
        }
    }
}

pub(super) fn who(word: &str, topology: Option<&Topology>, clients: u32) -> Result<FaultParty, String> {
    if let Some(number) = word
        .strip_prefix("client ")
        .map(str::trim)
        .or_else(|| word.strip_prefix('c'))
        .and_then(|number| number.parse::<u32>().ok())
    {
        return if (1..=clients).contains(&number) {
            Ok(FaultParty::Client(number))
        } else {
            Err(format!("there is no client {number}: this load has clients 1 to {clients}"))
        };
    }
    if let Some(share) = share(word, topology, clients) {
        return share;
    }
    let role = ROLES.iter().find(|(role, _)| *role == word);
    let roles = || ROLES.iter().map(|(role, _)| *role);
    let Some(topology) = topology else {
        let near = nearest(word, roles());
        return match role {
            Some((_, who)) => Ok(who.clone()),
            None if word.is_empty() => Err("a name is missing".to_owned()),
            None if near.is_empty() => Ok(FaultParty::Node(word.to_owned())),
            None => Err(format!(
                "`{word}` is nobody here; allowed are a role ({}) and the names of nodes and clients{near}",
                one_of(roles())
            )),
        };
    };
    let kind = topology.kind.name();
    let known = || {
        let mut names = data_nodes(topology);
        names.extend(sentinels(topology));
        names
    };
    if known().iter().any(|name| name == word) {
        return Ok(FaultParty::Node(word.to_owned()));
    }
    let lacking = match word {
        "replicas" => topology.data_nodes() == master_count(topology),
        "sentinels" => sentinels(topology).is_empty(),
        _ => false,
    };
    let several = quorum(topology).len();
    match role {
        Some(_) if lacking => Err(format!("this `{kind}` topology has no {word}")),
        Some((_, FaultParty::Minority | FaultParty::Majority)) if several < 3 => {
            Err(format!("`{word}` needs at least 3 nodes to choose from, and this topology has {several}"))
        }
        Some((_, who)) => Ok(who.clone()),
        None if word.is_empty() => Err("a name is missing".to_owned()),
        None => {
            let names = known().join(", ");
            let number = word.strip_prefix(['n', 's']);
            if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
                return Err(format!("there is no node `{word}`: this topology has {names}"));
            }
            Err(format!(
                "`{word}` is nobody here; allowed are a role ({}), a node ({names}), `client 1` to `client {clients}`, lists with \
                 commas, links `A -> B` and `A <-> B`, and groups `A | B`{}",
                one_of(roles()),
                nearest(word, roles())
            ))
        }
    }
}

/// The nodes among which a minority or majority is drawn: several masters, else every data node.
pub(crate) fn quorum(topology: &Topology) -> Vec<String> {
    let mut names = data_nodes(topology);
    let masters = master_count(topology) as usize;
    if masters > 1 {
        names.truncate(masters);
    }
    names
}

#[cfg(test)]
#[test]
fn shares_are_rounded_and_have_nobody_in_common() {
    assert_eq!(share_sizes(&[10], 32), [3]);
    assert_eq!(share_sizes(&[1], 5), [1]);
    assert_eq!(share_sizes(&[50, 50], 3), [2, 1]);
    assert_eq!(share_sizes(&[33, 33, 34], 24), [8, 8, 8]);
}
