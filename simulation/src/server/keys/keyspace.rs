//! The keys of a server, and when they end: the part of it that scripts and commands on keys read and change.

use std::collections::{BTreeMap, VecDeque};

use crate::server::keys::number::{self, Digits};
use crate::server::keys::sorted::Sorted;
use crate::server::reply::{Command, Reply};

pub(crate) type Answer = Result<Reply, &'static str>;

pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const NOT_WHOLE: &str = "ERR value is not an integer or out of range";
pub(crate) const NOT_REAL: &str = "ERR value is not a valid float";
pub(crate) const SYNTAX: &str = "ERR syntax error";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    Text(Vec<u8>),
    /// In the order in which the fields came, as a small hash of a server has them.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    List(VecDeque<Vec<u8>>),
    Sorted(Sorted),
}

impl Item {
    fn is_empty(&self) -> bool {
        match self {
            Item::Text(_) => false,
            Item::Hash(fields) => fields.is_empty(),
            Item::List(items) => items.is_empty(),
            Item::Sorted(members) => members.is_empty(),
        }
    }

    /// Roughly what it takes.
    fn bytes(&self) -> usize {
        let each = |bytes: &[u8]| bytes.len() + 32;
        match self {
            Item::Text(text) => each(text),
            Item::Hash(fields) => fields.iter().map(|(f, v)| each(f) + each(v)).sum(),
            Item::List(items) => items.iter().map(|item| each(item)).sum(),
            Item::Sorted(members) => members.iter().map(|(_, member)| each(member)).sum(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    item: Item,
    ends_ms: Option<u64>,
}

/// Whose command it is, which decides what becomes of a key whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Expiry {
    /// A master's: it is deleted, and replicas are told.
    #[default]
    Deletes,
    /// A client's at a replica: it is not seen, and stays until the master says so.
    Hides,
    /// The master's at a replica, or the file's at a start: it is there.
    Ignores,
}

/// All keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Entry>,
    pub(crate) now_us: u64,
    pub(crate) expiry: Expiry,
    pub(crate) digits: Digits,
    /// What replicas and the file are told of the command of this moment.
    pub(crate) effects: Vec<Command>,
    changed: bool,
    /// What is told of it, where that is not itself.
    told_as: Option<Command>,
    /// No key ends before.
    first_end_ms: Option<u64>,
}

impl Keyspace {
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    fn is_over(&self, entry: &Entry) -> bool {
        // As the server has it: at its last millisecond a key is still there.
        entry.ends_ms.is_some_and(|end| self.now_ms() > end)
    }

    /// Sees to it that a key whose time is over is not met, if that is so for this command.
    fn settle(&mut self, key: &[u8]) -> bool {
        match self.keys.get(key) {
            None => false,
            Some(entry) if !self.is_over(entry) => true,
            Some(_) => match self.expiry {
                Expiry::Ignores => true,
                Expiry::Hides => false,
                Expiry::Deletes => {
                    self.keys.remove(key);
                    self.effects.push(vec![b"DEL".to_vec(), key.to_vec()]);
                    false
                }
            },
        }
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.settle(key)
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&Item> {
        match self.settle(key) {
            true => self.keys.get(key).map(|entry| &entry.item),
            false => None,
        }
    }

    pub(crate) fn get_or(&mut self, key: &[u8], nothing: Item) -> &mut Item {
        self.settle(key);
        let entry = self.keys.entry(key.to_vec());
        let fresh = || Entry { item: nothing, ends_ms: None };
        &mut entry.or_insert_with(fresh).item
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Item> {
        match self.settle(key) {
            true => self.keys.get_mut(key).map(|entry| &mut entry.item),
            false => None,
        }
    }

    pub(crate) fn change(&mut self) {
        self.changed = true;
    }

    pub(crate) fn change_as(&mut self, parts: &[&[u8]]) {
        self.changed = true;
        self.told_as = Some(parts.iter().map(|part| part.to_vec()).collect());
    }

    pub(crate) fn put(&mut self, key: &[u8], item: Item, ends_ms: Option<u64>) {
        self.keys.insert(key.to_vec(), Entry { item, ends_ms });
        self.note_end(ends_ms);
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.settle(key);
        there && self.keys.remove(key).is_some()
    }

    /// A key without content is no key.
    pub(crate) fn drop_if_empty(&mut self, key: &[u8]) {
        if (self.keys.get(key)).is_some_and(|entry| entry.item.is_empty()) {
            self.keys.remove(key);
        }
    }

    pub(crate) fn end_of(&self, key: &[u8]) -> Option<u64> {
        self.keys.get(key)?.ends_ms
    }

    pub(crate) fn set_end(&mut self, key: &[u8], ends_ms: Option<u64>) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.ends_ms = ends_ms;
        }
        self.note_end(ends_ms);
    }

    fn note_end(&mut self, ends_ms: Option<u64>) {
        self.first_end_ms = self.first_end_ms.into_iter().chain(ends_ms).min();
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// Names of keys whose time is not over.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter(|(_, entry)| !self.is_over(entry)).map(|(name, _)| name.as_slice())
    }

    /// Roughly what all keys take.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.iter().map(|(key, entry)| key.len() + 64 + entry.item.bytes()).sum()
    }

    /// A moment before which no key ends; nothing where none does.
    pub(crate) fn first_end_ms(&self) -> Option<u64> {
        self.first_end_ms
    }

    pub(crate) fn expire_all(&mut self) {
        let over: Vec<Vec<u8>> =
            (self.keys.iter()).filter(|(_, entry)| self.is_over(entry)).map(|(key, _)| key.clone()).collect();
        for key in over {
            self.settle(&key);
        }
        self.first_end_ms = self.keys.values().filter_map(|entry| entry.ends_ms).min();
    }

    pub(crate) fn as_commands(&self) -> Vec<Command> {
        self.keys.keys().flat_map(|key| self.key_as_commands(key)).collect()
    }

    pub(crate) fn key_as_commands(&self, key: &[u8]) -> Vec<Command> {
        let Some(entry) = self.keys.get(key) else { return Vec::new() };
        let text = |text: &str| text.as_bytes().to_vec();
        let mut command = vec![Vec::new(), key.to_vec()];
        let name = match &entry.item {
            Item::Text(value) => {
                command.push(value.clone());
                "SET"
            }
            Item::Hash(fields) => {
                command.extend(fields.iter().flat_map(|(f, v)| [f.clone(), v.clone()]));
                "HSET"
            }
            Item::List(items) => {
                command.extend(items.iter().cloned());
                "RPUSH"
            }
            Item::Sorted(members) => {
                let scored =
                    |(score, member): (f64, &Vec<u8>)| [Digits::All.of(score).into_bytes(), member.clone()];
                command.extend(members.iter().flat_map(scored));
                "ZADD"
            }
        };
        command[0] = text(name);
        let mut commands = vec![command];
        if let Some(end) = entry.ends_ms {
            commands.push(vec![text("PEXPIREAT"), key.to_vec(), text(&end.to_string())]);
        }
        commands
    }

    /// Carries out a command on keys, with the right number of arguments; nothing for any other.
    pub(crate) fn call(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Reply> {
        self.changed = false;
        self.told_as = None;
        let answer = self.strings(name, args).or_else(|| match name.as_bytes()[0] {
            b'h' => self.hashes(name, args),
            b'z' => self.sorted(name, args),
            _ => self.lists(name, args),
        })?;
        if self.changed {
            let told = self.told_as.take().unwrap_or_else(|| {
                let name = name.to_ascii_uppercase().into_bytes();
                [&[name], args].concat()
            });
            self.effects.push(told);
        }
        Some(answer.unwrap_or_else(Reply::error))
    }
}

pub(crate) fn whole(text: &[u8]) -> Result<i64, &'static str> {
    number::whole(text).ok_or(NOT_WHOLE)
}

/// Places from one to another of `count`, where negative ones count from the end; empty if there is none.
pub(crate) fn places(from: &[u8], to: &[u8], count: usize) -> Result<std::ops::Range<usize>, &'static str> {
    let count = count as i64;
    let place = |text| whole(text).map(|at| if at < 0 { at + count } else { at });
    let (from, to) = (place(from)?.max(0), place(to)?.min(count - 1));
    Ok(if from <= to { from as usize..to as usize + 1 } else { 0..0 })
}

/// As [`str::eq_ignore_ascii_case`], of an argument.
pub(crate) fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
