//! Turns a TOML table with spans into checked values; whatever is wrong goes to the file's list of problems.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problems, nearest, one_of};

/// A table of the file while it is read.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    /// As in messages: `[load]`.
    pub(super) name: &'static str,
    pub(super) table: Option<&'a DeTable<'a>>,
    /// Where the table begins, for what is missing in it.
    pub(super) start: usize,
    pub(super) problems: &'a Problems<'a>,
}

impl<'a> Section<'a> {
    /// Reports every key that is not in `known`.
    pub(super) fn allow(&self, known: &[&str]) {
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

    pub(super) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(_, value)| value)
    }

    /// Where `key`'s value stands, or the section if it is not given.
    pub(super) fn span(&self, key: &str) -> Range<usize> {
        self.get(key)
            .map_or(self.start..self.start, |value| value.span())
    }

    /// The value of `key` through `read`, which says what is allowed when it does not understand; `None` if absent or bad.
    pub(super) fn read<T, E: AsRef<str>>(
        &self,
        key: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.get(key)?;
        match read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(allowed) => {
                let found = shown(value.get_ref());
                let allowed = allowed.as_ref();
                self.problems.add(
                    value.span(),
                    format!("`{key}` is {found}; allowed is {allowed}"),
                );
                None
            }
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.read(key, |value| value.as_str().ok_or("a string in quotes"))
    }

    /// A string through `read`.
    pub(super) fn word<T, E: AsRef<str>>(
        &self,
        key: &str,
        read: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Option<T> {
        self.read(key, |value| match value.as_str() {
            Some(word) => read(word).map_err(|allowed| allowed.as_ref().to_owned()),
            None => match read("") {
                Err(allowed) => Err(format!("{}, in quotes", allowed.as_ref())),
                Ok(_) => Err("a string in quotes".to_owned()),
            },
        })
    }

    /// A whole number within bounds.
    pub(super) fn count(&self, key: &str, low: u32, high: u32) -> Option<u32> {
        self.read(key, |value| {
            integer(value)
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| format!("a whole number from {low} to {high}"))
        })
    }

    pub(super) fn table(&self, key: &str, name: &'static str) -> Section<'a> {
        let table = self.read(key, |value| {
            value.as_table().ok_or(format!("a table {name}"))
        });
        Section {
            name,
            table,
            start: self.span(key).start,
            problems: self.problems,
        }
    }
}

pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(super) fn float(value: &DeValue<'_>) -> Option<f64> {
    match value.as_float() {
        Some(number) => number.as_str().parse().ok(),
        None => integer(value).map(|number| number as f64),
    }
}

/// A value as a message shows it.
pub(super) fn shown(value: &DeValue<'_>) -> String {
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
