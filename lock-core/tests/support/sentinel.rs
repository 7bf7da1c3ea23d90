//! A master, a replica and sentinels that fail over within seconds.
use super::Server;

/// The group. The first data node starts as the master, named `m`.
pub struct Group {
    pub data: Vec<Server>,
    pub sentinels: Vec<Server>,
}

impl Group {
    /// Starts everything and waits until the replica is in step and every sentinel knows it and its fellows.
    pub fn start(sentinels: usize) -> Self {
        let master = Server::start(&["--repl-ping-replica-period", "1"]);
        let port = master.port.to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port, "--repl-ping-replica-period", "1"]);
        replica.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"));
        master.acknowledged();
        let quorum = sentinels / 2 + 1;
        let text = |_| {
            format!(
                "sentinel monitor m 127.0.0.1 {port} {quorum}\nsentinel down-after-milliseconds m 500\n\
                 sentinel failover-timeout m 3000\n"
            )
        };
        let group: Vec<_> = (0..sentinels).map(|_| Server::start_with_file(text, &["--sentinel"])).collect();
        for sentinel in &group {
            // Without these the sentinels look at each other only every ten seconds.
            sentinel.ok(&[
                "SENTINEL",
                "DEBUG",
                "info-period",
                "500",
                "ask-period",
                "100",
                "ping-period",
                "300",
                "publish-period",
                "100",
                "min-link-reconnect-period",
                "100",
            ]);
        }
        for sentinel in &group {
            let fellows = format!("num-other-sentinels\n{}\n", sentinels - 1);
            sentinel.wait_for(&["SENTINEL", "MASTER", "m"], |state| {
                state.contains("num-slaves\n1\n") && state.contains(&fellows)
            });
        }
        Group { data: vec![master, replica], sentinels: group }
    }

    pub fn url(&self) -> String {
        let addresses: Vec<_> =
            self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-sentinel://{}/m", addresses.join(","))
    }
}
