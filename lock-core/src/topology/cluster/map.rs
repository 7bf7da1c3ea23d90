//! Turns answers to CLUSTER SLOTS and CLUSTER INFO into a map from slots to masters, and picks the best of several.
use redis::Value;

use crate::{target::Endpoint, topology::slot::SLOTS};

/// One master, its slots and how many replicas the cluster counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) master: Endpoint,
    pub(super) ranges: Vec<(u16, u16)>,
    pub(super) replicas: u32,
}

/// What one node believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) shards: Vec<Shard>,
    /// Whether the node believes that the cluster serves.
    serves: bool,
    epoch: u64,
    covered: u32,
}

impl View {
    /// A newer configuration wins, and among equals the one that covers more.
    pub(super) fn rank(&self) -> (u64, bool, u32) {
        (self.epoch, self.serves, self.covered)
    }

    /// Reads both answers of the node `asked`, whose own host stands for an empty one.
    pub(super) fn read(slots: &Value, info: &Value, asked: &Endpoint) -> Option<View> {
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
            let master = node(master, asked)?;
            let replicas = u32::try_from(replicas.len()).ok()?;
            covered += u32::from(range.1 - range.0) + 1;
            match shards.iter_mut().find(|shard| shard.master == master) {
                Some(shard) => {
                    shard.ranges.push(range);
                    shard.replicas = shard.replicas.max(replicas);
                }
                None => shards.push(Shard {
                    master,
                    ranges: vec![range],
                    replicas,
                }),
            }
        }
        let Value::BulkString(info) = info else {
            return None;
        };
        let info = String::from_utf8_lossy(info);
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let epoch = field("cluster_current_epoch:")?.parse().ok()?;
        let serves = field("cluster_state:") == Some("ok");
        (covered > 0).then_some(View {
            shards,
            serves,
            epoch,
            covered,
        })
    }
}

fn node(value: &Value, asked: &Endpoint) -> Option<Endpoint> {
    let Value::Array(parts) = value else {
        return None;
    };
    let [host, Value::Int(port), ..] = parts.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    endpoint(host, u16::try_from(*port).ok()?, asked)
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

    fn entry(from: i64, to: i64, host: Value, port: i64, replicas: usize) -> Value {
        let mut parts = vec![
            Value::Int(from),
            Value::Int(to),
            Value::Array(vec![host, Value::Int(port)]),
        ];
        let replica = Value::Array(vec![Value::BulkString(b"r".to_vec()), Value::Int(1)]);
        parts.extend(std::iter::repeat_n(replica, replicas));
        Value::Array(parts)
    }

    fn info(epoch: u64, state: &str) -> Value {
        Value::BulkString(
            format!("cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n").into_bytes(),
        )
    }

    #[test]
    fn an_empty_host_is_the_node_that_was_asked() {
        let slots = Value::Array(vec![
            entry(0, 9, Value::Nil, 7000, 1),
            entry(10, 19, Value::BulkString(b"".to_vec()), 7001, 0),
            entry(20, 29, Value::BulkString(b"other".to_vec()), 7002, 2),
            entry(30, 30, Value::Nil, 7000, 0),
        ]);
        let view = View::read(&slots, &info(3, "ok"), &tcp("asked", 1)).expect("a good answer");
        let expected = [
            (tcp("asked", 7000), 1),
            (tcp("asked", 7001), 0),
            (tcp("other", 7002), 2),
        ];
        assert_eq!(
            view.shards
                .iter()
                .map(|shard| (shard.master.clone(), shard.replicas))
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(view.shards[0].ranges, [(0, 9), (30, 30)]);
    }

    #[test]
    fn a_newer_epoch_beats_a_fuller_map() {
        let read = |to, epoch, state| {
            let slots = Value::Array(vec![entry(0, to, Value::Nil, 1, 0)]);
            View::read(&slots, &info(epoch, state), &tcp("h", 1)).expect("a good answer")
        };
        assert!(read(100, 8, "ok").rank() > read(16_383, 7, "ok").rank());
        assert!(read(200, 8, "ok").rank() > read(100, 8, "ok").rank());
        assert!(read(100, 8, "ok").rank() > read(200, 8, "fail").rank());
    }

    #[test]
    fn nonsense_is_no_view() {
        let asked = tcp("h", 1);
        for slots in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![entry(5, 4, Value::Nil, 1, 0)]),
            Value::Array(vec![entry(0, 16_384, Value::Nil, 1, 0)]),
            Value::Array(vec![entry(0, 1, Value::Nil, 70_000, 0)]),
        ] {
            assert_eq!(
                View::read(&slots, &info(1, "ok"), &asked),
                None,
                "{slots:?}"
            );
        }
    }
}
