//! Reads the table of a file as a type that serde derives, and reports everything that the type refuses.
//!
//! Serde stops at its first error. What it refused is reported and left out, and the rest is read again, so
//! that a type needs only its `Deserialize`: its fields are the keys, its refusals say what is allowed.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeOwned, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::problem::PROBLEMS_SHOWN;
use super::{FileErrors, Problems, nearest, one_of, shown};

/// What `read` makes of a file's table, or everything that is wrong with it. `file` is its name in messages.
///
/// # Errors
/// The grammar's mistakes, else what `read` found, in the order of the file.
pub fn read_file<T>(
    file: &str,
    text: &str,
    read: impl for<'a> FnOnce(&'a DeTable<'a>, &'a Problems<'a>) -> Option<T>,
) -> Result<T, FileErrors> {
    let problems = Problems::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        problems.add(error.span().unwrap_or(0..0), error.message());
    }
    // After a mistake of grammar the rest is a guess, and complaints about it would be noise.
    let value = if errors.is_empty() { read(document.get_ref(), &problems) } else { None };
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        _ => Err(problems.into_errors(file)),
    }
}

/// The result of reading a table.
#[derive(Debug)]
pub struct ReadTable<T> {
    /// The table without what was refused; `None` if what is left is no `T`.
    pub value: Option<T>,
    /// Paths of refused values: keys from the top, and indices from 0 in lists. Unknown keys are not among
    /// them. Later entries of a list move up by one when an entry is refused as a whole.
    pub refused: Vec<Vec<String>>,
}

/// Reads a whole file as a `T`, whose fields should all have defaults. `name` is what messages call the file.
pub fn read_table<T: DeserializeOwned>(
    table: &DeTable<'_>,
    name: &str,
    problems: &Problems<'_>,
) -> ReadTable<T> {
    let mut whole = Spanned::new(0..0, DeValue::Table(table.clone()));
    let mut refused = Vec::new();
    // Each mistake costs another reading of the whole table.
    for _ in 1..PROBLEMS_SHOWN {
        let error = match T::deserialize(ValueDeserializer::from(whole.clone())) {
            Ok(value) => return ReadTable { value: Some(value), refused },
            Err(error) => error,
        };
        let span = error.span().unwrap_or(0..0);
        let mut path = Vec::new();
        let found = find(&whole, &span, &mut path);
        let Some(mut value) = found.filter(|_| !path.is_empty()) else {
            problems.add(span, error.message());
            return ReadTable { value: None, refused };
        };
        let mut message = error.message().to_owned();
        let asked = |path: &[String], probe| asked_with::<T>(&whole, path, probe);
        if message == "wanted string or table" {
            // Probe with an unknown word: the enum's error then lists the words that it knows.
            message = asked(&path, DeValue::String("".into())).unwrap_or(message);
        } else if let [list @ .., entry] = path.as_slice()
            && entry.parse::<usize>().is_ok()
            && let Some(DeValue::Array(_)) = at(whole.get_ref(), list)
            && let Some(wanted) = asked(list, DeValue::Boolean(true))
            && wanted.contains(", expected struct ")
        {
            // Serde reads a struct from a list too, value by value: the file had `[[load]]` for `[load]`.
            (message, path) = (wanted, list.to_vec());
            value = at(whole.get_ref(), &path);
        }
        problems.add(span, complaint(&message, name, &path, value));
        if value.is_some() {
            refused.push(path.clone());
        }
        remove(whole.get_mut(), &path);
    }
    let end = usize::MAX;
    problems.add(end..end, "more values may be wrong; these are enough to begin with");
    ReadTable { value: None, refused }
}

/// Extends `path` to the item at these bytes of a value: another value, or a key (`None`).
fn find<'a, 'i>(
    value: &'a Spanned<DeValue<'i>>,
    span: &Range<usize>,
    path: &mut Vec<String>,
) -> Option<Option<&'a DeValue<'i>>> {
    let mut inside = |key: String, is_key: bool, value| {
        path.push(key);
        let found = if is_key { Some(None) } else { find(value, span, path) };
        if found.is_none() {
            path.pop();
        }
        found
    };
    let found = match value.get_ref() {
        DeValue::Table(table) => table
            .iter()
            .find_map(|(key, value)| inside(key.get_ref().clone().into_owned(), key.span() == *span, value)),
        DeValue::Array(list) => {
            (list.iter().enumerate()).find_map(|(index, entry)| inside(index.to_string(), false, entry))
        }
        _ => None,
    };
    found.or_else(|| (value.span() == *span).then(|| Some(value.get_ref())))
}

fn at<'a, 'i>(value: &'a DeValue<'i>, path: &[String]) -> Option<&'a DeValue<'i>> {
    path.iter().try_fold(value, |value, key| match value {
        DeValue::Table(table) => table.get(key.as_str()).map(Spanned::get_ref),
        DeValue::Array(list) => list.get(key.parse::<usize>().ok()?).map(Spanned::get_ref),
        _ => None,
    })
}

fn at_mut<'a, 'i>(value: &'a mut DeValue<'i>, path: &[String]) -> Option<&'a mut DeValue<'i>> {
    path.iter().try_fold(value, |value, key| match value {
        DeValue::Table(table) => table.get_mut(key.as_str()).map(Spanned::get_mut),
        DeValue::Array(list) => list.get_mut(key.parse::<usize>().ok()?).map(Spanned::get_mut),
        _ => None,
    })
}

/// Serde's message about the file with another value at the end of a path.
fn asked_with<'i, T: DeserializeOwned>(
    whole: &Spanned<DeValue<'i>>,
    path: &[String],
    probe: DeValue<'i>,
) -> Option<String> {
    let mut whole = whole.clone();
    *at_mut(whole.get_mut(), path)? = probe;
    T::deserialize(ValueDeserializer::from(whole)).err().map(|error| error.message().to_owned())
}

/// Takes what is at the end of a path that is not empty out of a value.
fn remove(value: &mut DeValue<'_>, path: &[String]) {
    let (last, parents) = path.split_last().expect("a place has a name");
    match at_mut(value, parents) {
        Some(DeValue::Table(table)) => drop(table.remove(last.as_str())),
        Some(DeValue::Array(list)) => {
            let index: usize = last.parse().expect("a place in a list is a number");
            let others = list.clone().into_iter().enumerate().filter(|(number, _)| *number != index);
            *list = others.map(|(_, entry)| entry).collect();
        }
        _ => {}
    }
}

/// A table as it stands in a file: `[load]`, `[[faults]]`.
fn heading(name: &str, path: &[String]) -> String {
    let is_number = |word: &String| word.parse::<usize>().is_ok();
    match path {
        [] => name.to_owned(),
        [keys @ .., last] if is_number(last) => format!("[[{}]]", keys.join(".")),
        keys => format!("[{}]", keys.join(".")),
    }
}

/// What is wrong, in our words: what was found, what is allowed, and the nearest known word.
fn complaint(message: &str, name: &str, path: &[String], value: Option<&DeValue<'_>>) -> String {
    // Serde names the known words between backticks, the found one first.
    let known = || message.split('`').skip(3).step_by(2);
    let (last, parents) = path.split_last().expect("a place has a name");
    let Some(value) = value else {
        let place = heading(name, parents);
        if message.starts_with("unknown field") {
            let near = nearest(last, known());
            return format!("unknown key `{last}` in {place}; allowed are {}{near}", one_of(known()));
        }
        return format!("`{last}` in {place}; allowed is {message}");
    };
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{field} is missing in this {}", heading(name, path));
    }
    let allowed = if message.starts_with("unknown variant") {
        format!("{}{}", one_of(known()), nearest(value.as_str().unwrap_or_default(), known()))
    } else if let (true, Some((_, expected))) =
        (message.starts_with("invalid "), message.split_once(", expected "))
    {
        match expected {
            "a string" => "a string in quotes".to_owned(),
            "u32" | "u64" | "i64" => "a whole number".to_owned(),
            "f64" => "a number".to_owned(),
            "a boolean" => "`true` or `false`, without quotes".to_owned(),
            "a sequence" => "a list".to_owned(),
            table if table == "a map" || table.starts_with("struct ") => {
                format!("a table {}", heading(name, path))
            }
            other => other.to_owned(),
        }
    } else {
        message.to_owned()
    };
    let found = shown(value);
    match parents.last() {
        Some(list) if last.parse::<usize>().is_ok() => {
            format!("an entry of `{list}` is {found}; allowed is {allowed}")
        }
        _ => format!("`{last}` is {found}; allowed is {allowed}"),
    }
}

/// Reads a string in quotes through `read`; `form` is what is allowed in place of any other value.
pub fn word<'de, D: serde::Deserializer<'de>, T, E: AsRef<str>>(
    deserializer: D,
    form: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    // Through a visitor, whose errors get the place of the value, also in a list.
    struct WordVisitor<'f, F>(&'f str, F);
    impl<T, E: AsRef<str>, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for WordVisitor<'_, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}, in quotes", self.0)
        }

        fn visit_str<R: serde::de::Error>(self, word: &str) -> Result<T, R> {
            (self.1)(word).map_err(|allowed| R::custom(allowed.as_ref()))
        }
    }
    deserializer.deserialize_str(WordVisitor(form, read))
}
