//! MIGRATE: keys go to another server, which this one waits for while it serves nobody.

use std::time::Duration;

use crate::server::keys::keyspace::{Expiry, is};
use crate::server::keys::number;
use crate::server::replication::links::{LinkId, Purpose};
use crate::server::replication::stream::Waiting;
use crate::server::reply::{Reply, write_command};
use crate::server::settings::Address;
use crate::server::{ConnectionId, Server};

#[derive(Debug)]
pub(crate) struct Migration {
    link: LinkId,
    asked_by: ConnectionId,
    keys: Vec<Vec<u8>>,
    answered: usize,
    until: Duration,
}

impl Server {
    pub(crate) fn migrate(&mut self, from: ConnectionId, command: &[Vec<u8>]) -> Option<Reply> {
        let [host, port, key, _database, time_ms, rest @ ..] = &command[1..] else {
            return Some(Reply::error("ERR syntax error"));
        };
        let listed = rest.iter().position(|word| is(word, "keys"));
        let keys: Vec<Vec<u8>> = listed.map_or_else(|| vec![key.clone()], |at| rest[at + 1..].to_vec());
        let keys: Vec<Vec<u8>> = keys.into_iter().filter(|key| self.keyspace.exists(key)).collect();
        if keys.is_empty() {
            return Some(Reply::Status("NOKEY".into()));
        }
        let time_ms = number::whole(time_ms).map_or(1000, |ms| ms.max(1) as u64);
        let to = Address {
            host: String::from_utf8_lossy(host).into_owned(),
            port: number::whole(port).map_or(0, |port| port as u16),
        };
        let link = self.dial(Purpose::Migrates, to);
        let until = self.now + Duration::from_millis(time_ms);
        self.migration = Some(Migration { link, asked_by: from, keys, answered: 0, until });
        self.paused = Some((until, false));
        self.wait(from, Waiting::Migration);
        None
    }

    pub(crate) fn begin_migration(&mut self, link: LinkId) {
        let Some(migration) = &self.migration else { return };
        for key in migration.keys.clone() {
            let mut made = Vec::new();
            let commands = self.keyspace.key_as_commands(&key);
            commands.iter().for_each(|command| write_command(command, &mut made));
            self.say(link, &["ASKING"]);
            self.say(link, &[b"RESTORE".as_slice(), &key, b"0", &made]);
        }
    }

    pub(crate) fn restore(&mut self, key: &[u8], made: &[u8]) -> Reply {
        let before = std::mem::replace(&mut self.keyspace.expiry, Expiry::Ignores);
        self.keyspace.remove(key);
        self.redo_all(made);
        self.keyspace.expiry = before;
        Reply::OK
    }

    pub(crate) fn note_migrated(&mut self, link: LinkId, reply: &Reply) {
        let Some(migration) = self.migration.as_mut().filter(|migration| migration.link == link) else {
            return;
        };
        migration.answered += 1;
        if let Reply::Error(text) = reply {
            self.end_migrating(&Reply::error(format!("ERR Target instance replied with error: {text}")));
        } else if migration.answered == 2 * migration.keys.len() {
            let keys = migration.keys.clone();
            self.keyspace.call("del", &keys);
            self.propagate();
            self.end_migrating(&Reply::OK);
        }
    }

    /// Whatever has become of the keys: what was not answered for stays here, and may be there too.
    pub(crate) fn fail_migrating(&mut self) {
        self.end_migrating(&Reply::error("IOERR error or timeout reading to target instance"));
    }

    pub(crate) fn give_up_migrating(&mut self) {
        if self.migration.as_ref().is_some_and(|migration| self.now >= migration.until) {
            self.fail_migrating();
        }
    }

    fn end_migrating(&mut self, reply: &Reply) {
        let Some(migration) = self.migration.take() else { return };
        self.hang_up(migration.link);
        self.answer(migration.asked_by, reply);
        self.unpause();
        self.resume(migration.asked_by);
    }
}
