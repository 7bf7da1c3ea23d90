//! Names as small numbers: each name of a history is kept once, in one piece of text.

use hashbrown::HashTable;

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
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
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
        (0..).zip(self.iter()).find_map(|(index, other)| (other == name).then_some(index))
    }

    pub(crate) fn push(&mut self, name: &str) -> u32 {
        self.text.push_str(name);
        self.ends.push(self.text.len());
        (self.len() - 1) as u32
    }
}

/// Names that are still growing, with a table to find them by.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    pub(crate) names: Names,
    /// Numbers, and the lower halves of their names' hashes: a table that grows does not read all names
    /// again. The names themselves are in the text, once.
    table: HashTable<(u32, u32)>,
}

/// Where a name is in the table: names that are numbered one after the other are neighbours, and so are in
/// the processor's cache together. With 31, digits and hexadecimal digits give each number its own place.
fn half(name: &str) -> u32 {
    name.bytes().fold(0, |half: u32, byte| half.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

/// The hash that the table knows: places by the lower half, and tells neighbours apart by the upper one.
fn spread(half: u32) -> u64 {
    let mixed = u64::from(half).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed & !u64::from(u32::MAX)) | u64::from(half)
}

impl Interner {
    fn find_hashed(&self, name: &str, half: u32) -> Option<u32> {
        let is = |entry: &(u32, u32)| entry.1 == half && self.names.get(entry.0) == name;
        self.table.find(spread(half), is).map(|entry| entry.0)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.find_hashed(name, half(name))
    }

    pub(crate) fn index(&mut self, name: &str) -> u32 {
        let half = half(name);
        if let Some(index) = self.find_hashed(name, half) {
            return index;
        }
        let index = self.names.push(name);
        let hash = |entry: &(u32, u32)| spread(entry.1);
        self.table.insert_unique(spread(half), (index, half), hash);
        index
    }
}
