//! Puts together what a server ran in one step: a plain command, a script with the commands that it called, a
//! transaction.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::LazyLock;

use cluster_config::MonitorLine;
use hashbrown::{HashMap, HashSet};

use crate::checkers::names::Interner;

/// A script's text, a name or a value is cut beyond this, and its hash tells it from others.
pub(crate) const WORD_MAX: usize = 2 * 1024;
/// A server's process waits for its processor for no longer than this: the period of a container's share.
pub(crate) const LATE_MAX_US: u64 = 100_000;
/// Commands of one unit beyond these are left out.
const COMMANDS_MAX: usize = 256;
/// Transactions and watches of clients beyond these are forgotten.
const CLIENTS_MAX: usize = 20_000;

#[derive(Debug, Clone, Default)]
pub(crate) struct CommandWords {
    words: Vec<Vec<u8>>,
}

impl CommandWords {
    pub(crate) fn of(words: &[Cow<'_, [u8]>]) -> Self {
        let cut = |word: &Cow<'_, [u8]>| match word.get(..WORD_MAX) {
            Some(begun) => [begun, format!("#{:016x}", hash(word)).as_bytes()].concat(),
            None => word.to_vec(),
        };
        CommandWords { words: words.iter().take(COMMANDS_MAX).map(cut).collect() }
    }

    /// A command of several keys as commands of one each, which a script runs together.
    fn key_by_key(self) -> Vec<Self> {
        let keys_every = match () {
            () if self.is_one_of(&["DEL", "UNLINK", "MGET", "EXISTS"]) => 1,
            () if self.is_one_of(&["MSETNX", "MSET"]) => 2,
            () => return vec![self],
        };
        let (name, args) = (&self.words[..1], &self.words[1..]);
        args.chunks(keys_every).map(|words| CommandWords { words: [name, words].concat() }).collect()
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name.as_bytes())
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.words[0]
    }

    pub(crate) fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.is(name))
    }

    /// An argument, counted from 1.
    pub(crate) fn arg(&self, index: usize) -> Option<&[u8]> {
        self.words.get(index).map(Vec::as_slice)
    }

    pub(crate) fn args(&self) -> &[Vec<u8>] {
        &self.words[1..]
    }

    pub(crate) fn number(&self, index: usize) -> Option<i64> {
        std::str::from_utf8(self.arg(index)?).ok()?.parse().ok()
    }
}

/// How the commands of a unit belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitKind {
    Plain,
    Script,
    Transaction,
    /// Of a client that had put keys under WATCH.
    WatchedTransaction,
}

/// What a server ran in one step.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) source: usize,
    pub(crate) time_us: u64,
    /// When its server ran the command before it, which is earlier than this one ran; 0: not known.
    pub(crate) after_us: u64,
    pub(crate) database: u32,
    pub(crate) client: u32,
    pub(crate) kind: UnitKind,
    /// The call of a script.
    pub(crate) call: Option<CommandWords>,
    pub(crate) commands: Vec<CommandWords>,
}

impl Unit {
    /// How much earlier than its stamp its server may have asked the clock for it: a process that gets no
    /// processor in between stamps late.
    pub(crate) fn late_us(&self) -> u64 {
        self.time_us.saturating_sub(self.after_us).min(LATE_MAX_US)
    }
}

/// Clients by number. Number 0 is every client beyond the bound, and equals no other.
#[derive(Debug)]
pub(crate) struct ClientNames(Interner);

impl Default for ClientNames {
    fn default() -> Self {
        let mut names = Interner::default();
        names.index("(one of many)");
        ClientNames(names)
    }
}

impl ClientNames {
    fn number(&mut self, name: &[u8]) -> u32 {
        let name = String::from_utf8_lossy(name);
        match self.0.names.len() > CLIENTS_MAX * 3 {
            true => self.0.find(&name).unwrap_or(0),
            false => self.0.index(&name),
        }
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.0.names.get(number)
    }
}

/// A client's transaction, from MULTI to EXEC. What is queued is shown once EXEC runs it, line after line: a
/// connection that ends before leaves MULTI alone.
#[derive(Debug, Default)]
struct OpenTransaction {
    watches: bool,
    commands: Option<Vec<Unit>>,
}

/// A connection at a server; of those without a number by their name.
type ConnectionKey = (usize, u64);

/// What was said last at a server.
#[derive(Debug, Default)]
struct SourceState {
    /// The last script: its commands may go on.
    script: Option<Unit>,
    /// The connection whose transaction is being shown.
    shows: Option<ConnectionKey>,
    last_us: u64,
}

/// Makes units of the lines of one server after the other.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    sources: Vec<SourceState>,
    transactions: HashMap<ConnectionKey, OpenTransaction>,
    pub(crate) clients: ClientNames,
}

/// The same for equal bytes in every run, so that a report says the same of the same file.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Commands that may do something to a lock; all others are passed over without a copy.
static NAMES: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| {
    let names = "SET SETNX MSETNX SETEX PSETEX GETSET GET GETDEL GETEX DEL UNLINK DELEX DELIFEQ EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST INCR INCRBY DECR DECRBY HSET \
                 HSETNX HINCRBY HDEL ZADD ZREM ZREMRANGEBYSCORE BLPOP LPUSH RPUSH MULTI EXEC DISCARD RESET WATCH UNWATCH FLUSHALL FLUSHDB SWAPDB RENAME";
    names.split(' ').map(str::as_bytes).collect()
});

fn matters(name: &[u8]) -> bool {
    name.len() <= 16 && NAMES.contains(&*name.to_ascii_uppercase())
}

impl Assembler {
    /// Takes a line and gives the units that it completes: those before it, and itself.
    pub(crate) fn line(
        &mut self,
        source: usize,
        line: &MonitorLine<'_>,
    ) -> impl Iterator<Item = Unit> + use<> {
        if self.sources.len() <= source {
            self.sources.resize_with(source + 1, SourceState::default);
        }
        let state = &mut self.sources[source];
        let after_us = std::mem::replace(&mut state.last_us, line.time_us);
        let name = &line.words[0];
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let is_script = is("EVALSHA") || is("EVAL") || is("FCALL");
        let (mut script, mut cut, mut completed) = (None, Vec::new(), None);
        if line.is_by_script() {
            if let Some(unit) = &mut state.script
                && unit.commands.len() < COMMANDS_MAX
            {
                unit.commands.extend(CommandWords::of(&line.words).key_by_key());
            }
        } else {
            script = state.script.take();
            if state.shows.is_some() || is_script || matters(name) {
                let client = self.clients.number(line.client);
                let key = (source, if client == 0 { hash(line.client) } else { client.into() });
                // Nothing comes between the commands of a transaction: these ran by themselves, as those of
                // a new connection of the same name.
                if let Some(other) = state.shows.take_if(|shown| *shown != key || is("MULTI")) {
                    cut = self.transactions.remove(&other).and_then(|one| one.commands).unwrap_or_default();
                }
                if is_script || matters(name) {
                    let MonitorLine { time_us, database, .. } = *line;
                    let (kind, call, commands) = (UnitKind::Plain, None, Vec::new());
                    let unit = Unit { source, time_us, after_us, database, client, kind, call, commands };
                    completed = self.command(key, unit, line, is_script);
                }
            }
        }
        script.into_iter().chain(cut).chain(completed)
    }

    /// A command of a client; `unit`: without its words.
    fn command(
        &mut self,
        key: ConnectionKey,
        unit: Unit,
        line: &MonitorLine<'_>,
        is_script: bool,
    ) -> Option<Unit> {
        let is = |known: &str| line.words[0].eq_ignore_ascii_case(known.as_bytes());
        let words = || CommandWords::of(&line.words);
        let state = &mut self.sources[key.0];
        if is_script {
            state.script = Some(Unit { kind: UnitKind::Script, call: Some(words()), ..unit });
        } else if is("WATCH") || is("MULTI") {
            if self.transactions.len() > CLIENTS_MAX {
                self.transactions.clear();
            }
            let transaction = self.transactions.entry(key).or_default();
            transaction.watches |= is("WATCH");
            transaction.commands = is("MULTI").then(Vec::new);
        } else if is("EXEC") || is("DISCARD") || is("RESET") || is("UNWATCH") {
            state.shows = None;
            let ended = self.transactions.remove(&key)?;
            let commands = ended.commands.filter(|commands| is("EXEC") && !commands.is_empty())?;
            let kind = if ended.watches { UnitKind::WatchedTransaction } else { UnitKind::Transaction };
            let after_us = commands[0].after_us;
            let commands = commands.into_iter().flat_map(|one| one.commands).collect();
            return Some(Unit { kind, after_us, commands, ..unit });
        } else {
            match self.transactions.get_mut(&key).and_then(|transaction| transaction.commands.as_mut()) {
                Some(commands) if commands.len() < COMMANDS_MAX => {
                    state.shows = Some(key);
                    commands.push(Unit { commands: vec![words()], ..unit });
                }
                None if !is("GET") => return Some(Unit { commands: vec![words()], ..unit }),
                _ => {}
            }
        }
        None
    }

    /// When the script of a server began whose commands may go on.
    pub(crate) fn script_us(&self, source: usize) -> Option<u64> {
        self.sources.get(source)?.script.as_ref().map(|unit| unit.time_us)
    }

    /// The scripts that began before this time, which are complete as far as anybody knows.
    pub(crate) fn begun_before(&mut self, us: u64) -> Vec<Unit> {
        let scripts = self.sources.iter_mut().map(|state| &mut state.script);
        scripts.filter_map(|script| script.take_if(|unit| unit.time_us < us)).collect()
    }

    /// The script of a server whose commands will not go on.
    pub(crate) fn end_script(&mut self, source: usize) -> Option<Unit> {
        self.sources.get_mut(source)?.script.take()
    }

    /// Forgets what was under way at a server.
    pub(crate) fn forget(&mut self, source: usize) {
        if let Some(state) = self.sources.get_mut(source) {
            *state = SourceState::default();
        }
        self.transactions.retain(|(of, _), _| *of != source);
    }
}
