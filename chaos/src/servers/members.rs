//! The members that a cluster node knows, read from its CLUSTER NODES.

use cluster_config::{Deployment, Node};

use crate::faults::{FaultError, failed};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// As it is announced: `127.0.1.11:7000`.
    pub(crate) address: String,
    flags: Vec<String>,
    /// The master that it copies; `None` for a master.
    pub(crate) master_id: Option<String>,
    /// Its configuration epoch; of a replica, its master's.
    pub(crate) epoch: u64,
    /// First and last of each range of slots; those on the move are not among them.
    slots: Vec<(u16, u16)>,
}

impl Member {
    fn parse(line: &str) -> Option<Self> {
        // <id> <ip:port@bus> <flags> <master> <ping> <pong> <epoch> <link> <slots…>
        let words: Vec<&str> = line.split_whitespace().collect();
        let slots = words
            .iter()
            .skip(8)
            .filter_map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                Some((first.parse().ok()?, last.parse().ok()?))
            })
            .collect();
        Some(Self {
            id: (*words.first()?).to_owned(),
            address: words.get(1)?.split('@').next()?.to_owned(),
            flags: words.get(2)?.split(',').map(str::to_owned).collect(),
            master_id: words.get(3).filter(|id| **id != "-").map(|id| (*id).to_owned()),
            epoch: words.get(6)?.parse().ok()?,
            slots,
        })
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    pub(crate) fn is_myself(&self) -> bool {
        self.has_flag("myself")
    }

    pub(crate) fn is_live_master(&self) -> bool {
        self.has_flag("master") && !self.has_flag("fail")
    }

    pub(crate) fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.slots.iter().flat_map(|(first, last)| *first..=*last)
    }

    pub(crate) fn node<'d>(&self, deployment: &'d Deployment) -> Option<&'d Node> {
        by_address(deployment, &self.address)
    }
}

pub(crate) async fn known_to(deployment: &Deployment, node: &str) -> Result<Vec<Member>, FaultError> {
    Ok(deployment.command(node, &["CLUSTER", "NODES"]).await?.lines().filter_map(Member::parse).collect())
}

pub(crate) async fn itself(deployment: &Deployment, node: &str) -> Result<Member, FaultError> {
    known_to(deployment, node)
        .await?
        .into_iter()
        .find(Member::is_myself)
        .ok_or_else(|| failed!("{node} does not know itself"))
}

/// The server that is announced, or listens, at an address.
pub(crate) fn by_address<'d>(deployment: &'d Deployment, address: &str) -> Option<&'d Node> {
    deployment
        .nodes()
        .iter()
        .find(|node| node.announced.to_string() == address || node.address.to_string() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_on_the_move_are_not_owned() {
        let line = "07c3 127.0.1.11:7000@7001,host myself,master - 0 0 1 connected 0-99 200 [93->-292f]";
        let member = Member::parse(line).expect("a member");
        assert_eq!(member.address, "127.0.1.11:7000");
        assert!(member.is_myself() && member.is_live_master());
        assert_eq!(member.master_id, None);
        assert_eq!(member.epoch, 1);
        assert_eq!(member.slots().count(), 101);
        assert!(member.owns(200) && !member.owns(100));
    }

    #[test]
    fn a_replica_names_its_master() {
        let line = "9a1f 127.0.1.14:7000@7001 slave,fail 07c3 0 0 1 disconnected";
        let member = Member::parse(line).expect("a member");
        assert_eq!(member.master_id.as_deref(), Some("07c3"));
        assert!(!member.is_live_master());
        assert_eq!(Member::parse("nonsense"), None);
    }
}
