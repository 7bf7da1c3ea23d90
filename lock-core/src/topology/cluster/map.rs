//! Reads the answers to CLUSTER SLOTS, INFO and NODES into a map from slots to masters, and ranks several of them.
use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::target::Endpoint;
use crate::topology::{info_field, slot::SLOTS};

/// One master, its slots and the ids of all its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) master: Endpoint,
    pub(super) ranges: Vec<(u16, u16)>,
    id: String,
    replicas: BTreeSet<String>,
}

/// Which servers belong together, however they trade roles: one that is not listed any more stays where it was, until it is listed
/// elsewhere.
#[derive(Debug, Default)]
pub(super) struct Members {
    group_of: BTreeMap<String, usize>,
    groups: usize,
}

impl Members {
    /// Takes note of shards; answers how many replicas the master of each has, known from now or before.
    pub(super) fn see(&mut self, shards: &[Shard]) -> Vec<u32> {
        let mut groups = Vec::new();
        for shard in shards {
            let known = self.group_of.get(&shard.id).copied();
            // Two masters that were one shard are two.
            let group = known.filter(|group| !groups.contains(group));
            let group = group.unwrap_or_else(|| {
                self.groups += 1;
                self.groups
            });
            groups.push(group);
            for server in shard.replicas.iter().chain([&shard.id]) {
                self.group_of.insert(server.clone(), group);
            }
        }
        let size = |group| {
            self.group_of
                .values()
                .filter(|other| **other == group)
                .count()
        };
        let replicas = groups.into_iter().map(|group| size(group) - 1);
        replicas
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX))
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) shards: Vec<Shard>,
    /// Whether the node believes that the cluster serves.
    serves: bool,
    epoch: u64,
    covered: u32,
}

impl View {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A newer configuration wins, and among equals the one that covers more.
    pub(super) fn rank(&self) -> (u64, bool, u32) {
        (self.epoch, self.serves, self.covered)
    }

    /// Reads what the node `asked` answered to CLUSTER SLOTS, INFO and NODES; its own host stands for an empty one. SLOTS leaves out
    /// the replicas that it takes for failed, which NODES names; a user who may not ask that sees those that are there.
    pub(super) fn read(answers: &[Value], asked: &Endpoint) -> Option<View> {
        let [slots, info, nodes] = answers else {
            return None;
        };
        let Value::Array(entries) = slots else {
            return None;
        };
        let mut shards: Vec<Shard> = Vec::new();
        let mut covered = 0;
        for entry in entries {
            let Value::Array(parts) = entry else {
                return None;
            };
            let [Value::Int(from), Value::Int(to), master, replicas @ ..] = parts.as_slice() else {
                return None;
            };
            let range = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?);
            if range.0 > range.1 || range.1 >= SLOTS {
                return None;
            }
            let (master, id) = node(master, asked)?;
            let replicas = replicas.iter().filter_map(|replica| node(replica, asked));
            let replicas = replicas.map(|(_, id)| id).collect();
            covered += u32::from(range.1 - range.0) + 1;
            // A slot of two masters, which no node says that is well; nor need so long an answer be read to its end.
            if covered > u32::from(SLOTS) {
                return None;
            }
            match shards.iter_mut().find(|shard| shard.master == master) {
                Some(shard) => {
                    shard.ranges.push(range);
                    shard.replicas.extend(replicas);
                }
                None => shards.push(Shard {
                    master,
                    ranges: vec![range],
                    id,
                    replicas,
                }),
            }
        }
        if let Value::BulkString(nodes) = nodes {
            // `<id> <address> <flags> <id of its master, or -> …`
            for line in String::from_utf8_lossy(nodes).lines().take(SLOTS.into()) {
                let mut words = line.split(' ');
                let (id, master) = (words.next(), words.nth(2));
                let shard = shards.iter_mut().find(|shard| Some(&*shard.id) == master);
                if let (Some(shard), Some(id)) = (shard, id) {
                    shard.replicas.insert(id.to_owned());
                }
            }
        }
        let Value::BulkString(info) = info else {
            return None;
        };
        let info = String::from_utf8_lossy(info);
        let epoch = info_field(&info, "cluster_current_epoch")?.parse().ok()?;
        let serves = info_field(&info, "cluster_state") == Some("ok");
        (covered > 0).then_some(View {
            shards,
            serves,
            epoch,
            covered,
        })
    }
}

/// Where a node is, and its id; the address stands for it where there is none.
fn node(value: &Value, asked: &Endpoint) -> Option<(Endpoint, String)> {
    let Value::Array(parts) = value else {
        return None;
    };
    let [host, Value::Int(port), rest @ ..] = parts.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    let endpoint = endpoint(host, u16::try_from(*port).ok()?, asked)?;
    let id = match rest.first() {
        Some(Value::BulkString(id)) => String::from_utf8_lossy(id).into_owned(),
        _ => endpoint.to_string(),
    };
    Some((endpoint, id))
}

/// An announced address; a host that is empty or unknown (`?`) is the host of the node that announced it.
pub(super) fn endpoint(host: &str, port: u16, asked: &Endpoint) -> Option<Endpoint> {
    match (host, asked) {
        ("" | "?", Endpoint::Tcp { host, .. }) => Some(Endpoint::Tcp {
            host: host.clone(),
            port,
        }),
        ("" | "?", Endpoint::Unix(_)) => None,
        _ => Some(Endpoint::Tcp {
            host: host.to_owned(),
            port,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    /// A range of slots with its master, and replicas by the last word of their ids.
    fn entry(from: i64, to: i64, host: Value, port: i64, replicas: &[&str]) -> Value {
        let server = |host: Value, port: i64, id: String| {
            Value::Array(vec![
                host,
                Value::Int(port),
                Value::BulkString(id.into_bytes()),
            ])
        };
        let master = server(host, port, format!("id-{port}"));
        let mut parts = vec![Value::Int(from), Value::Int(to), master];
        let replicas = replicas.iter().map(|id| {
            let host = Value::BulkString(b"r".to_vec());
            server(host, 1, format!("id-{id}"))
        });
        parts.extend(replicas);
        Value::Array(parts)
    }

    /// What a node that was asked answers; NODES as lines of id, flags and master.
    fn view(slots: Vec<Value>, info: Value, nodes: &[&str], asked: &Endpoint) -> Option<View> {
        let nodes = nodes.iter().map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            format!(
                "id-{} 127.0.0.1:1@2 {} id-{} 0 0 1 connected\n",
                words[0], words[1], words[2]
            )
        });
        let nodes = Value::BulkString(nodes.collect::<String>().into_bytes());
        View::read(&[Value::Array(slots), info, nodes], asked)
    }

    fn info(epoch: u64, state: &str) -> Value {
        Value::BulkString(
            format!("cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n").into_bytes(),
        )
    }

    #[test]
    fn an_empty_host_is_the_node_that_was_asked() {
        let slots = vec![
            entry(0, 9, Value::Nil, 7000, &["a"]),
            entry(10, 19, Value::BulkString(b"".to_vec()), 7001, &[]),
            entry(
                20,
                29,
                Value::BulkString(b"other".to_vec()),
                7002,
                &["b", "c"],
            ),
            entry(30, 30, Value::Nil, 7000, &[]),
        ];
        let view = view(slots, info(3, "ok"), &[], &tcp("asked", 1)).expect("a good answer");
        let masters: Vec<_> = view
            .shards
            .iter()
            .map(|shard| shard.master.clone())
            .collect();
        let expected = [("asked", 7000), ("asked", 7001), ("other", 7002)];
        assert_eq!(masters, expected.map(|(host, port)| tcp(host, port)));
        assert_eq!(Members::default().see(&view.shards), [1, 0, 2]);
        assert_eq!(view.shards[0].ranges, [(0, 9), (30, 30)]);
    }

    #[test]
    fn a_newer_epoch_beats_a_fuller_map() {
        let read = |to, epoch, state| {
            let slots = vec![entry(0, to, Value::Nil, 1, &[])];
            view(slots, info(epoch, state), &[], &tcp("h", 1)).expect("a good answer")
        };
        assert!(read(100, 8, "ok").rank() > read(16_383, 7, "ok").rank());
        assert!(read(200, 8, "ok").rank() > read(100, 8, "ok").rank());
        assert!(read(100, 8, "ok").rank() > read(200, 8, "fail").rank());
    }

    #[test]
    fn nonsense_is_no_view() {
        let asked = tcp("h", 1);
        for slots in [
            vec![],
            vec![Value::Nil],
            vec![entry(5, 4, Value::Nil, 1, &[])],
            vec![entry(0, 16_384, Value::Nil, 1, &[])],
            vec![entry(0, 1, Value::Nil, 70_000, &[])],
        ] {
            let seen = view(slots.clone(), info(1, "ok"), &[], &asked);
            assert_eq!(seen, None, "{slots:?}");
        }
    }

    /// One shard's servers are 1 and 2, the other's 3, 4 and 5.
    #[test]
    fn a_server_is_of_its_shard_until_it_is_seen_in_another() {
        let mut members = Members::default();
        let mut see = |masters: [i64; 2], replicas: [&[&str]; 2], nodes: &[&str]| {
            let slots = vec![
                entry(0, 9, Value::Nil, masters[0], replicas[0]),
                entry(10, 19, Value::Nil, masters[1], replicas[1]),
            ];
            let view = view(slots, info(1, "ok"), nodes, &tcp("h", 1)).expect("a good answer");
            members.see(&view.shards)
        };
        // One of them has failed: SLOTS does not list it.
        let failed = ["5 slave,fail 3", "6 master -"];
        assert_eq!(see([1, 3], [&["2"], &["4"]], &failed), [1, 2]);
        assert_eq!(see([1, 3], [&[], &[]], &[]), [1, 2], "disappeared");
        // Failovers: the old masters are not there, then they are replicas.
        assert_eq!(see([2, 4], [&[], &["5"]], &["1 master,fail -"]), [1, 2]);
        assert_eq!(see([2, 4], [&["1"], &["5", "3"]], &[]), [1, 2]);
        // A replica moves to the other shard; one more is added.
        assert_eq!(see([2, 4], [&["1", "5"], &["3"]], &[]), [2, 1]);
        assert_eq!(see([2, 4], [&["1", "5", "7"], &["3"]], &[]), [3, 1]);
    }
}
