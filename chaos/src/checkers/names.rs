//! Names as small numbers: each name of a history is kept once, in one piece of text.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Names, numbered from 0 in the order of their first appearance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    text: String,
    /// Where each name ends in the text; it begins where the one before ends.
    ends: Vec<usize>,
}

impl Names {
    /// A name by its number; the empty string for a number that none has.
    pub fn get(&self, index: u32) -> &str {
        let index = index as usize;
        let from = match index {
            0 => Some(0),
            _ => self.ends.get(index - 1).copied(),
        };
        let to = self.ends.get(index).copied();
        let range = from.zip(to).map(|(from, to)| from..to);
        range
            .and_then(|range| self.text.get(range))
            .unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|index| self.get(index))
    }

    /// The number of a name, found by looking at all of them.
    pub fn position(&self, name: &str) -> Option<u32> {
        (0..)
            .zip(self.iter())
            .find_map(|(index, other)| (other == name).then_some(index))
    }

    /// Adds a name, which is not looked for, and gives its number.
    pub(super) fn push(&mut self, name: &str) -> u32 {
        self.text.push_str(name);
        self.ends.push(self.text.len());
        (self.len() - 1) as u32
    }
}

/// Names that are still growing, with a table to find them by.
#[derive(Default)]
pub(super) struct Interner {
    pub(super) names: Names,
    /// Numbers alone: the names themselves are in the text, once.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    /// The number of a name that was added before.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let is = |index: &u32| self.names.get(*index) == name;
        self.table.find(self.hasher.hash_one(name), is).copied()
    }

    /// The number of a name, a new one if it is new.
    pub(super) fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.find(name) {
            return index;
        }
        let index = self.names.push(name);
        let (names, hasher) = (&self.names, &self.hasher);
        self.table
            .insert_unique(hasher.hash_one(name), index, |index| {
                hasher.hash_one(names.get(*index))
            });
        index
    }
}
