//! Which commands a server has: how many words each takes, and when it is refused.

use std::sync::LazyLock;

use super::reply::Reply;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Keys,
    Script,
    PubSub,
    Connection,
    Server,
    Replication,
    Sentinel,
    Cluster,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(super) name: &'static str,
    /// How many words it has with its name; below zero: that many at least.
    arity: i32,
    pub(crate) family: Family,
    /// `w` writes, `m` may take memory, `l` while loading, `p` in RESP2's mode of subscriptions, `s` not from
    /// a script, `r` is told to replicas though it may write nothing.
    flags: &'static str,
}

use Family::{Cluster, Connection, Keys, PubSub, Replication, Script, Sentinel, Server};

/// Families, flags, and commands with how many words each has.
const TABLE: &[(Family, &str, &str)] = &[
    (Keys, "", "get 2, exists -2, type 2, pttl 2, dbsize 1, hget 3, hmget -3, hexists 3, hlen 2, hkeys 2"),
    (Keys, "", "hgetall 2, lindex 3, lpos -3, lrange 4, zcard 2, zrange -4, zscore 3"),
    (Keys, "wm", "set -3, setnx 3, incr 2, decr 2, incrby 3, decrby 3, hset -4, hincrby 4, rpush -3"),
    (Keys, "wm", "zadd -4"),
    (Keys, "w", "del -2, unlink -2, pexpire 3, pexpireat 3, flushall -1, hdel -3, lpop 2, lrem 4, zpopmin 2"),
    (Keys, "w", "zrem -3, zremrangebyscore 4"),
    (Script, "sr", "eval -3, evalsha -3"),
    (Script, "s", "script -2"),
    (PubSub, "lr", "publish 3, spublish 3"),
    (PubSub, "lps", "subscribe -2, unsubscribe -1, psubscribe -2, punsubscribe -1, ssubscribe -2"),
    (PubSub, "lps", "sunsubscribe -1"),
    (PubSub, "l", "pubsub -2"),
    (Connection, "p", "ping -1"),
    (Connection, "ls", "client -2"),
    (Server, "ls", "config -2"),
    (Server, "l", "info -1, time 1"),
    (Replication, "ls", "role 1, replconf -1"),
    (Replication, "s", "wait 3, waitaof 4, replicaof 3, psync -3"),
    (Sentinel, "s", "sentinel -2"),
    (Cluster, "s", "asking 1, cluster -2"),
    (Cluster, "ls", "readonly 1, bus -2"),
    (Cluster, "ws", "migrate -6"),
    (Cluster, "wms", "restore -4"),
];

/// The commands by length and first letter, in which few are alike.
static SPECS: LazyLock<[Vec<Spec>; PLACES]> = LazyLock::new(|| {
    let mut specs = [const { Vec::new() }; PLACES];
    for &(family, flags, commands) in TABLE {
        for (name, arity) in commands.split(", ").filter_map(|command| command.split_once(' ')) {
            let arity = arity.parse().expect("the table has numbers");
            specs[place(name.as_bytes())].push(Spec { name, arity, family, flags });
        }
    }
    specs
});

const PLACES: usize = 256;

fn place(name: &[u8]) -> usize {
    let first = name.first().copied().unwrap_or_default();
    (name.len() * 32 + usize::from(first)) % PLACES
}

impl Spec {
    pub(super) fn of(name: &[u8]) -> Option<Spec> {
        let mut small = [0; 20];
        let small = small.get_mut(..name.len())?;
        small.copy_from_slice(name);
        small.make_ascii_lowercase();
        let alike = &SPECS[place(small)];
        alike.iter().find(|spec| spec.name.as_bytes() == small).copied()
    }

    pub(super) fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    pub(super) fn takes(&self, words: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => words == exactly,
            Err(_) => words >= self.arity.unsigned_abs() as usize,
        }
    }

    pub(super) fn keys<'a>(&self, command: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
        let all = &command[1..];
        match self.name {
            "eval" | "evalsha" => {
                let count = all.get(1).and_then(|count| crate::server::keys::number::whole(count));
                let count = count.and_then(|count| usize::try_from(count).ok());
                count.and_then(|count| all.get(2..2 + count)).unwrap_or(&[])
            }
            "dbsize" | "flushall" => &[],
            "del" | "unlink" | "exists" | "ssubscribe" | "sunsubscribe" => all,
            "migrate" => {
                let listed = all.iter().position(|word| crate::server::keys::keyspace::is(word, "keys"));
                listed.map_or(&all[2..3], |at| &all[at + 1..])
            }
            "spublish" | "restore" => &all[..1],
            _ if self.family == Keys => &all[..1],
            _ => &[],
        }
    }
}

pub(super) fn unknown(command: &[Vec<u8>]) -> Reply {
    const MOST: usize = 128;
    let text = |bytes: &[u8]| {
        let bytes = &bytes[..bytes.len().min(MOST)];
        String::from_utf8_lossy(bytes).into_owned()
    };
    let mut args = String::new();
    for arg in &command[1..] {
        if args.len() >= MOST {
            break;
        }
        let room = MOST - args.len();
        args += &format!("'{}' ", text(&arg[..arg.len().min(room)]));
    }
    let name = text(&command[0]);
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {args}"))
}

/// The refusal of a command with too few or too many words.
pub(super) fn wrong_number(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// The refusal of a command's first word.
pub(super) fn unknown_part(name: &str, word: &[u8]) -> Reply {
    let word = String::from_utf8_lossy(word);
    let name = name.to_uppercase();
    Reply::error(format!("ERR unknown subcommand '{word}'. Try {name} HELP."))
}
