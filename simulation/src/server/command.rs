//! Which commands a server has: how many words each takes, and when it is refused.

use std::sync::LazyLock;

use super::reply::Reply;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
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
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// How many words it has with its name; below zero: that many at least.
    arity: i32,
    pub(super) family: Family,
    /// `w` writes, `m` may take memory, `l` while loading, `p` in RESP2's mode of subscriptions, `s` not from
    /// a script, `r` is told to replicas though it may write nothing.
    flags: &'static str,
}

use Family::{Cluster, Connection, Keys, PubSub, Replication, Script, Sentinel, Server};

const TABLE: &[(&str, i32, Family, &str)] = &[
    ("get", 2, Keys, ""),
    ("set", -3, Keys, "wm"),
    ("setnx", 3, Keys, "wm"),
    ("incr", 2, Keys, "wm"),
    ("decr", 2, Keys, "wm"),
    ("incrby", 3, Keys, "wm"),
    ("decrby", 3, Keys, "wm"),
    ("del", -2, Keys, "w"),
    ("unlink", -2, Keys, "w"),
    ("exists", -2, Keys, ""),
    ("type", 2, Keys, ""),
    ("pttl", 2, Keys, ""),
    ("pexpire", 3, Keys, "w"),
    ("pexpireat", 3, Keys, "w"),
    ("dbsize", 1, Keys, ""),
    ("flushall", -1, Keys, "w"),
    ("hget", 3, Keys, ""),
    ("hmget", -3, Keys, ""),
    ("hset", -4, Keys, "wm"),
    ("hdel", -3, Keys, "w"),
    ("hexists", 3, Keys, ""),
    ("hlen", 2, Keys, ""),
    ("hkeys", 2, Keys, ""),
    ("hgetall", 2, Keys, ""),
    ("hincrby", 4, Keys, "wm"),
    ("lindex", 3, Keys, ""),
    ("lpop", 2, Keys, "w"),
    ("lpos", -3, Keys, ""),
    ("lrange", 4, Keys, ""),
    ("lrem", 4, Keys, "w"),
    ("rpush", -3, Keys, "wm"),
    ("zadd", -4, Keys, "wm"),
    ("zcard", 2, Keys, ""),
    ("zpopmin", 2, Keys, "w"),
    ("zrange", -4, Keys, ""),
    ("zrem", -3, Keys, "w"),
    ("zremrangebyscore", 4, Keys, "w"),
    ("zscore", 3, Keys, ""),
    ("eval", -3, Script, "sr"),
    ("evalsha", -3, Script, "sr"),
    ("script", -2, Script, "s"),
    ("publish", 3, PubSub, "lr"),
    ("spublish", 3, PubSub, "lr"),
    ("subscribe", -2, PubSub, "lps"),
    ("unsubscribe", -1, PubSub, "lps"),
    ("psubscribe", -2, PubSub, "lps"),
    ("punsubscribe", -1, PubSub, "lps"),
    ("ssubscribe", -2, PubSub, "lps"),
    ("sunsubscribe", -1, PubSub, "lps"),
    ("pubsub", -2, PubSub, "l"),
    ("ping", -1, Connection, "p"),
    ("client", -2, Connection, "ls"),
    ("config", -2, Server, "ls"),
    ("info", -1, Server, "l"),
    ("time", 1, Server, "l"),
    ("role", 1, Replication, "ls"),
    ("wait", 3, Replication, "s"),
    ("waitaof", 4, Replication, "s"),
    ("replicaof", 3, Replication, "s"),
    ("replconf", -1, Replication, "ls"),
    ("psync", -3, Replication, "s"),
    ("sentinel", -2, Sentinel, "s"),
    ("asking", 1, Cluster, "s"),
    ("readonly", 1, Cluster, "ls"),
    ("cluster", -2, Cluster, "s"),
    ("bus", -2, Cluster, "ls"),
    ("migrate", -6, Cluster, "ws"),
    ("restore", -4, Cluster, "wms"),
];

/// The commands by length and first letter, in which few are alike.
static SPECS: LazyLock<[Vec<Spec>; PLACES]> = LazyLock::new(|| {
    let mut specs = [const { Vec::new() }; PLACES];
    for &(name, arity, family, flags) in TABLE {
        let spec = Spec { name, arity, family, flags };
        specs[place(name.as_bytes())].push(spec);
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
        let found = alike.iter().find(|spec| spec.name.as_bytes() == small);
        found.copied()
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
