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
    pub(crate) database: u32,
    pub(crate) client: u32,
    pub(crate) kind: UnitKind,
    /// The call of a script.
    pub(crate) call: Option<CommandWords>,
    pub(crate) commands: Vec<CommandWords>,
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

/// A client's transaction, from MULTI to EXEC.
#[derive(Debug, Default)]
struct OpenTransaction {
    watches: bool,
    commands: Option<Vec<CommandWords>>,
}

/// Makes units of the lines of one server after the other.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    /// The last script of each server: its commands may go on.
    scripts: Vec<Option<Unit>>,
    /// Of each connection; of those without a number by their name.
    transactions: HashMap<(usize, u64), OpenTransaction>,
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
    /// Takes a line and gives the units that it completes: the script before it, and itself.
    pub(crate) fn line(&mut self, source: usize, line: &MonitorLine<'_>) -> [Option<Unit>; 2] {
        if self.scripts.len() <= source {
            self.scripts.resize_with(source + 1, || None);
        }
        if line.is_by_script() {
            if let Some(unit) = &mut self.scripts[source]
                && unit.commands.len() < COMMANDS_MAX
            {
                unit.commands.extend(CommandWords::of(&line.words).key_by_key());
            }
            return [None, None];
        }
        let script = self.scripts[source].take();
        let name = &line.words[0];
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let is_script = is("EVALSHA") || is("EVAL") || is("FCALL");
        if !is_script && !matters(name) {
            return [script, None];
        }
        let client = self.clients.number(line.client);
        let MonitorLine { time_us, database, .. } = *line;
        let unit = |kind, call, commands| Unit { source, time_us, database, client, kind, call, commands };
        let key = (source, if client == 0 { hash(line.client) } else { client.into() });
        let mut completed = None;
        if is_script {
            let call = Some(CommandWords::of(&line.words));
            self.scripts[source] = Some(unit(UnitKind::Script, call, Vec::new()));
        } else if is("WATCH") || is("MULTI") {
            if self.transactions.len() > CLIENTS_MAX {
                self.transactions.clear();
            }
            let transaction = self.transactions.entry(key).or_default();
            transaction.watches |= is("WATCH");
            transaction.commands = is("MULTI").then(Vec::new);
        } else if is("EXEC") || is("DISCARD") || is("RESET") || is("UNWATCH") {
            let ended = self.transactions.remove(&key);
            if let Some(OpenTransaction { watches, commands: Some(commands) }) = ended
                && is("EXEC")
                && !commands.is_empty()
            {
                let kind = if watches { UnitKind::WatchedTransaction } else { UnitKind::Transaction };
                completed = Some(unit(kind, None, commands));
            }
        } else {
            let words = || CommandWords::of(&line.words);
            match self.transactions.get_mut(&key).and_then(|transaction| transaction.commands.as_mut()) {
                Some(commands) if commands.len() < COMMANDS_MAX => commands.push(words()),
                None if !is("GET") => completed = Some(unit(UnitKind::Plain, None, vec![words()])),
                _ => {}
            }
        }
        [script, completed]
    }

    /// When the script of a server began whose commands may go on.
    pub(crate) fn script_us(&self, source: usize) -> Option<u64> {
        self.scripts.get(source)?.as_ref().map(|unit| unit.time_us)
    }

    /// The scripts that began before this time, which are complete as far as anybody knows.
    pub(crate) fn begun_before(&mut self, us: u64) -> Vec<Unit> {
        self.scripts.iter_mut().filter_map(|script| script.take_if(|unit| unit.time_us < us)).collect()
    }

    /// The script of a server whose commands will not go on.
    pub(crate) fn end_script(&mut self, source: usize) -> Option<Unit> {
        self.scripts.get_mut(source)?.take()
    }

    /// Forgets what was under way at a server.
    pub(crate) fn forget(&mut self, source: usize) {
        self.end_script(source);
        self.transactions.retain(|(of, _), _| *of != source);
    }
}
