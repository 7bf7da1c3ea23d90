//! Reads checked values from a TOML table with spans; what is wrong goes to the file's list of problems.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Problems, nearest, one_of};

/// A table of the file while it is read.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// As in messages: `[load]`.
    pub name: &'static str,
    /// Its keys and values; `None` if it is not there.
    pub table: Option<&'a DeTable<'a>>,
    /// Where the table begins, for what is missing in it.
    pub start: usize,
    /// Where complaints go.
    pub problems: &'a Problems<'a>,
}

impl<'a> Section<'a> {
    /// Reports every key that is not in `known`.
    pub fn allow(&self, known: &[&str]) {
        for (key, _) in self.table.into_iter().flatten() {
            let word: &str = key.get_ref();
            if !known.contains(&word) {
                self.problems.add(
                    key.span(),
                    format!(
                        "unknown key `{word}` in {}; allowed are {}{}",
                        self.name,
                        one_of(known.iter().copied()),
                        nearest(word, known.iter().copied())
                    ),
                );
            }
        }
    }

    /// The value of `key`, whatever its type.
    pub fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Where `key`'s value stands, or the section if it is not given.
    pub fn span(&self, key: &str) -> Range<usize> {
        self.get(key).map_or(self.start..self.start, |value| value.span())
    }

    /// Reports what is wrong with the value of `key`, or that it is missing.
    pub fn complain(&self, key: &str, message: impl Into<String>) {
        self.problems.add(self.span(key), message);
    }

    /// The value of `key` through `read`, which says what is allowed; `None` if absent or bad.
    pub fn read<T, E: AsRef<str>>(
        &self,
        key: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.get(key)?;
        match read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(allowed) => {
                let (found, allowed) = (shown(value.get_ref()), allowed.as_ref());
                self.complain(key, format!("`{key}` is {found}; allowed is {allowed}"));
                None
            }
        }
    }

    /// A string through `read`.
    pub fn word<T, E: AsRef<str>>(&self, key: &str, read: impl FnOnce(&'a str) -> Result<T, E>) -> Option<T> {
        self.read(key, |value| match value.as_str() {
            Some(word) => read(word).map_err(|allowed| allowed.as_ref().to_owned()),
            None => match read("") {
                Err(allowed) => Err(format!("{}, in quotes", allowed.as_ref())),
                Ok(_) => Err("a string in quotes".to_owned()),
            },
        })
    }

    /// The table under `key`, to look places up in; what else stands there was reported when it was read.
    pub fn inside(&self, key: &str) -> Section<'a> {
        Section {
            table: self.get(key).and_then(|value| value.get_ref().as_table()),
            start: self.span(key).start,
            ..*self
        }
    }

    /// The tables of the list under `key`, to look places up in.
    pub fn entries(&self, key: &str) -> Vec<Section<'a>> {
        let list = self.get(key).and_then(|value| value.get_ref().as_array());
        let entry = |entry: &'a Spanned<DeValue<'a>>| {
            Some(Section { table: Some(entry.get_ref().as_table()?), start: entry.span().start, ..*self })
        };
        list.into_iter().flat_map(|list| list.iter()).filter_map(entry).collect()
    }

    /// The table under `key`; an empty one if it is absent. `name` is how messages call it.
    pub fn table(&self, key: &str, name: &'static str) -> Section<'a> {
        let table = self.read(key, |value| value.as_table().ok_or(format!("a table {name}")));
        Section { name, table, start: self.span(key).start, problems: self.problems }
    }
}

/// A whole number, whatever base it is written in.
pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A number with or without a point.
pub fn float(value: &DeValue<'_>) -> Option<f64> {
    match value.as_float() {
        Some(number) => number.as_str().parse().ok(),
        None => integer(value).map(|number| number as f64),
    }
}

/// A value as a message shows it.
pub fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
