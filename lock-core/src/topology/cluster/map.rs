//! Reads the answers to CLUSTER SLOTS and INFO into a map from slots to masters, and ranks several of them.
use redis::Value;

use crate::client::target::Endpoint;
use crate::topology::{info_field, slot::SLOTS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) master: Endpoint,
    pub(super) ranges: Vec<(u16, u16)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) shards: Vec<Shard>,
    /// Whether the node believes that the cluster serves.
    serves: bool,
    pub(super) epoch: u64,
    covered: u32,
}

impl View {
    /// A newer configuration wins, and among equals the one that covers more.
    pub(super) fn rank(&self) -> (u64, bool, u32) {
        (self.epoch, self.serves, self.covered)
    }

    /// Reads what the node `asked` answered to CLUSTER SLOTS and INFO; its own host stands for an empty one.
    pub(super) fn read(answers: &[Value], asked: &Endpoint) -> Option<View> {
        let [Value::Array(entries), Value::BulkString(info)] = answers else {
            return None;
        };
        let mut shards: Vec<Shard> = Vec::new();
        let mut covered = 0;
        for entry in entries {
            let [Value::Int(from), Value::Int(to), master, ..] = entry.as_sequence()? else {
                return None;
            };
            let range = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?);
            if range.0 > range.1 || range.1 >= SLOTS {
                return None;
            }
            let master = node(master, asked)?;
            covered += u32::from(range.1 - range.0) + 1;
            // A slot of two masters, which no healthy node says; nor need so long an answer be read.
            if covered > u32::from(SLOTS) {
                return None;
            }
            match shards.iter_mut().find(|shard| shard.master == master) {
                Some(shard) => shard.ranges.push(range),
                None => shards.push(Shard { master, ranges: vec![range] }),
            }
        }
        let info = String::from_utf8_lossy(info);
        let epoch = info_field(&info, "cluster_current_epoch")?.parse().ok()?;
        let serves = info_field(&info, "cluster_state") == Some("ok");
        (covered > 0).then_some(View { shards, serves, epoch, covered })
    }
}

fn node(value: &Value, asked: &Endpoint) -> Option<Endpoint> {
    let [host, Value::Int(port), ..] = value.as_sequence()? else {
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
        ("" | "?", Endpoint::Tcp { host, .. }) => Some(Endpoint::Tcp { host: host.clone(), port }),
        ("" | "?", Endpoint::Unix(_)) => None,
        _ => Some(Endpoint::Tcp { host: host.to_owned(), port }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.to_owned(), port }
    }

    /// A range of slots with its master, and a replica that nobody asks for.
    fn entry(from: i64, to: i64, host: Value, port: i64) -> Value {
        let server = |host: Value, port: i64| {
            Value::Array(vec![host, Value::Int(port), Value::BulkString(format!("id-{port}").into_bytes())])
        };
        let replica = server(Value::BulkString(b"127.0.0.1".to_vec()), 1);
        Value::Array(vec![Value::Int(from), Value::Int(to), server(host, port), replica])
    }

    /// What a node that was asked answers.
    fn view(slots: Vec<Value>, info: Value, asked: &Endpoint) -> Option<View> {
        View::read(&[Value::Array(slots), info], asked)
    }

    fn info(epoch: u64, state: &str) -> Value {
        Value::BulkString(format!("cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n").into_bytes())
    }

    #[test]
    fn an_empty_host_is_the_node_that_was_asked() {
        let slots = vec![
            entry(0, 9, Value::Nil, 7000),
            entry(10, 19, Value::BulkString(b"".to_vec()), 7001),
            entry(20, 29, Value::BulkString(b"other".to_vec()), 7002),
            entry(30, 30, Value::Nil, 7000),
        ];
        let view = view(slots, info(3, "ok"), &tcp("asked", 1)).expect("a good answer");
        let masters: Vec<_> = view.shards.iter().map(|shard| shard.master.clone()).collect();
        let expected = [("asked", 7000), ("asked", 7001), ("other", 7002)];
        assert_eq!(masters, expected.map(|(host, port)| tcp(host, port)));
        assert_eq!(view.shards[0].ranges, [(0, 9), (30, 30)]);
    }

    #[test]
    fn a_newer_epoch_beats_a_fuller_map() {
        let read = |to, epoch, state| {
            view(vec![entry(0, to, Value::Nil, 1)], info(epoch, state), &tcp("h", 1)).expect("a good answer")
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
            vec![entry(5, 4, Value::Nil, 1)],
            vec![entry(0, 16_384, Value::Nil, 1)],
            vec![entry(0, 1, Value::Nil, 70_000)],
        ] {
            assert_eq!(view(slots.clone(), info(1, "ok"), &asked), None, "{slots:?}");
        }
    }
}
