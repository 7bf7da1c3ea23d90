//! The append-only file of a server: what outlives a crash of its process, and what a power cut.

use std::time::Duration;

use crate::server::Server;
use crate::server::keys::keyspace::Expiry;
use crate::server::reply::{Command, Reply, write_command};
use crate::server::settings::Persistence;

/// When the system writes by itself what nobody asked it to.
const SYSTEM: Duration = Duration::from_secs(30);
/// A file that is so large, and twice what its keys take, is written anew.
const LARGE: usize = 1 << 20;

/// What is lost with a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its memory: the system keeps what was written (`kill -9`).
    Process,
    /// Also what was not on the disk yet (a power cut).
    Power,
}

#[derive(Debug, Default)]
pub(crate) struct File {
    bytes: Vec<u8>,
    synced: usize,
    synced_at: Duration,
    /// Up to which offset of the replication stream they are.
    pub(crate) offset: u64,
}

impl File {
    pub(crate) fn crash(&mut self, loss: Loss) {
        if loss == Loss::Power {
            self.bytes.truncate(self.synced);
        }
        self.synced = self.bytes.len();
    }
}

pub(crate) fn write_together(commands: &[&Command], out: &mut Vec<u8>) {
    let several = commands.len() > 1;
    if several {
        write_command(&["MULTI"], out);
    }
    commands.iter().for_each(|command| write_command(command, out));
    if several {
        write_command(&["EXEC"], out);
    }
}

impl Server {
    pub(crate) fn append(&mut self, effects: &[Command]) {
        if self.settings.persistence == Persistence::None {
            return;
        }
        let kept: Vec<&Command> = effects.iter().filter(|effect| !effect[0].ends_with(b"PUBLISH")).collect();
        // The system counts from the first byte that it keeps back; the server from its last sync.
        if self.settings.persistence == Persistence::Never && self.file.synced == self.file.bytes.len() {
            self.file.synced_at = self.now;
        }
        write_together(&kept, &mut self.file.bytes);
        if self.file.bytes.len() > LARGE && self.file.bytes.len() > 2 * self.keyspace.bytes() {
            self.rewrite_file();
        }
    }

    /// Writes the file anew, which is on the disk before it takes the place of the old one.
    pub(crate) fn rewrite_file(&mut self) {
        self.file.bytes.clear();
        self.keyspace.as_commands().iter().for_each(|command| write_command(command, &mut self.file.bytes));
        self.sync();
    }

    fn sync(&mut self) {
        self.file.synced = self.file.bytes.len();
        self.stream.heard |= self.file.offset < self.stream.offset;
        self.file.offset = self.stream.offset;
        self.file.synced_at = self.now;
    }

    /// After every command, before its answer leaves.
    pub(crate) fn sync_if_always(&mut self) {
        if self.settings.persistence == Persistence::Always {
            self.sync();
        }
    }

    pub(crate) fn sync_by_time(&mut self) {
        if self.sync_due().is_some_and(|due| self.now >= due) {
            self.sync();
        }
    }

    pub(crate) fn sync_due(&self) -> Option<Duration> {
        let period = match self.settings.persistence {
            Persistence::None | Persistence::Always => return None,
            Persistence::EverySecond => Duration::from_secs(1),
            Persistence::Never => SYSTEM,
        };
        let waits = self.file.synced < self.file.bytes.len() || self.file.offset < self.stream.offset;
        // A clock that was set back counts from where it is now.
        waits.then(|| self.file.synced_at.min(self.now) + period)
    }

    /// Reads the file; what was cut off in the middle of it is left out.
    pub(crate) fn load(&mut self) {
        let bytes = std::mem::take(&mut self.file.bytes);
        let mut read = 0;
        let mut whole = 0;
        let mut together: Option<Vec<Command>> = None;
        let before = std::mem::replace(&mut self.keyspace.expiry, Expiry::Ignores);
        while let Some((reply, length)) = bytes.get(read..).and_then(Reply::read) {
            read += length;
            let Some(command) = reply.into_command() else { break };
            match (command[0].as_slice(), &mut together) {
                (b"MULTI", _) => together = Some(Vec::new()),
                (b"EXEC", _) => {
                    together.take().unwrap_or_default().iter().for_each(|command| self.redo(command));
                }
                (_, Some(all)) => all.push(command),
                (_, None) => self.redo(&command),
            }
            if together.is_none() {
                whole = read;
            }
        }
        self.keyspace.expiry = before;
        self.keyspace.effects.clear();
        self.file.bytes = bytes;
        self.file.bytes.truncate(whole);
        self.sync();
    }

    /// Carries out again what was written as commands.
    pub(crate) fn redo_all(&mut self, mut written: &[u8]) {
        while let Some((reply, length)) = Reply::read(written) {
            written = &written[length..];
            reply.into_command().iter().for_each(|command| self.redo(command));
        }
    }

    pub(crate) fn redo(&mut self, command: &Command) {
        if let Some(spec) = crate::server::Spec::of(&command[0]) {
            self.keyspace.call(spec.name, &command[1..]);
        }
    }
}
