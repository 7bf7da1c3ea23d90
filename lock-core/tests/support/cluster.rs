//! A small cluster, its slots in equal parts, and moves of slots between its masters.
use super::Server;

/// Masters of a cluster, in the order of their slots.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the masters, and one replica for each where asked for, and waits until the cluster serves.
    pub fn start(masters: usize, replicas: bool) -> Self {
        let count = if replicas { masters * 2 } else { masters };
        let arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--repl-ping-replica-period",
            "1",
            "--cluster-replica-validity-factor",
            "0",
            "--cluster-config-file",
            "nodes.conf",
        ];
        let nodes: Vec<_> = (0..count).map(|_| Server::start(&arguments)).collect();
        let cluster = Cluster { nodes };
        cluster.form(masters);
        cluster
    }

    /// Forgets the cluster and sets another one up on the same servers, whose epochs begin anew and whose
    /// slots lie the other way round.
    pub fn form_anew(&mut self) {
        for node in &self.nodes {
            node.ok(&["FLUSHALL"]);
            node.ok(&["CLUSTER", "RESET", "HARD"]);
        }
        self.nodes.reverse();
        self.form(self.nodes.len());
    }

    fn form(&self, masters: usize) {
        let (nodes, count) = (&self.nodes, self.nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            node.ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (index, node) in nodes.iter().take(masters).enumerate() {
            let (from, to) = (16_384 * index / masters, 16_384 * (index + 1) / masters - 1);
            node.ok(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
        }
        for node in &nodes[1..] {
            nodes[0].ok(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]);
        }
        let known = format!("cluster_known_nodes:{count}\r\n");
        for node in nodes {
            node.wait_for(&["CLUSTER", "INFO"], |info| info.contains(&known));
        }
        for (replica, master) in nodes.iter().skip(masters).zip(nodes) {
            let id = master.ok(&["CLUSTER", "MYID"]);
            replica.wait_for(&["CLUSTER", "REPLICATE", &id], |answer| answer == "OK");
            replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
        }
        for node in nodes {
            node.wait_for(&["CLUSTER", "INFO"], |info| info.contains("cluster_state:ok"));
            // Replicas appear in CLUSTER SLOTS once their offset is known.
            node.wait_for(&["CLUSTER", "SLOTS"], |slots| {
                nodes.iter().all(|node| slots.lines().any(|line| line == node.port.to_string()))
            });
        }
    }

    /// Opens the migration of a slot: what is not on `from` any more is asked for at `to`.
    pub fn begin_migration(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let id = |node: usize| self.nodes[node].ok(&["CLUSTER", "MYID"]);
        self.nodes[to].ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        self.nodes[from].ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Hands the slot over; the keys must have been moved before.
    ///
    /// The new owner takes a configuration epoch above every one that it knows of. One that has not heard yet
    /// of the old owner's epoch would claim the slot with a lower one, and lose it again to a gossip packet
    /// that the old owner sent before it knew: from then on each of them says MOVED to the other, for ever.
    /// So the epochs come first.
    pub fn finish_migration(&self, slot: u16, to: usize) {
        for node in &self.nodes {
            let (id, info) = (node.ok(&["CLUSTER", "MYID"]), node.ok(&["CLUSTER", "INFO"]));
            let epoch = (info.lines()).find_map(|line| line.strip_prefix("cluster_my_epoch:"));
            let epoch = epoch.expect("a node knows its epoch");
            // `<id> <address> <flags> <id of its master> <sent> <received> <epoch> …`
            self.nodes[to].wait_for(&["CLUSTER", "NODES"], |nodes| {
                let mut lines = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
                lines.any(|words| words[0] == id && words.get(6) == Some(&epoch))
            });
        }
        let id = self.nodes[to].ok(&["CLUSTER", "MYID"]);
        // The new owner first, so that there always is one.
        self.nodes[to].ok(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id]);
        for node in &self.nodes {
            node.ok(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id]);
        }
    }

    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }
}
