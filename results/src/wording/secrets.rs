//! Takes passwords out of whatever is kept or shown: they become `***`.
//!
//! [`redact`] finds them in URLs. What a driver, a server or a library says may repeat a password elsewhere,
//! so a process remembers those it was given ([`learn`]), and each text passes [`hide`] when written.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::{PoisonError, RwLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// `argument` with the password of every URL in it replaced by `***`; the user's name stays.
///
/// Every `scheme://user:password@host` is found, also inside a longer argument (`--target=redis://…`). A
/// password may be written wrongly, with characters that end an address, so all that stands before the last
/// `@` of a URL counts as one. A password given as an argument by itself is a word like any other, and stays.
pub fn redact(argument: &str) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        let (url, tail) = after.split_at(next_url(after).unwrap_or(after.len()));
        match url.rsplit_once('@') {
            Some((credentials, hosts)) => {
                if let Some((user, _)) = credentials.split_once(':') {
                    out.push_str(user);
                    out.push(':');
                }
                out.push_str("***@");
                push_without_query(&mut out, hosts);
            }
            None => push_without_query(&mut out, url),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The rest of a URL; the passwords of its query become `***`.
fn push_without_query(out: &mut String, mut rest: &str) {
    while let Some((before, after)) = rest.split_once("password=") {
        out.push_str(before);
        out.push_str("password=***");
        rest = after.find(['&', ' ']).map_or("", |end| &after[end..]);
    }
    out.push_str(rest);
}

/// Where another URL of servers begins. Nothing less ends the one before, whatever its password looks like.
fn next_url(text: &str) -> Option<usize> {
    let separators = text.match_indices(|c: char| c.is_whitespace() || ",;\"'=".contains(c));
    let mut urls = separators.map(|(at, separator)| at + separator.len()).filter(|&at| {
        let scheme = text[at..].split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| {
            let name = scheme.starts_with("redis") || scheme.starts_with("redlock");
            name && scheme.bytes().all(|c| c.is_ascii_lowercase() || b"+-".contains(&c))
        })
    });
    urls.next()
}

/// Passwords that this process was given, the longest first.
static KNOWN: RwLock<Vec<Password>> = RwLock::new(Vec::new());

/// A shorter password is found only where it stands as one: elsewhere its letters are often part of a word.
const LENGTH_MIN: usize = 4;

/// A password, with what stands before and behind it where it is to be found only there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Password {
    before: String,
    word: Vec<char>,
    behind: &'static str,
}

/// Remembers the passwords of all URLs in a text: an argument, a variable, a file's line.
pub fn learn(text: &str) {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("://") {
        let (url, tail) = after.split_at(next_url(after).unwrap_or(after.len()));
        // What stands before the last `@` is one password, or each of several servers has its own.
        let servers = url.split(',').filter_map(|one| one.rsplit_once('@'));
        for (credentials, _) in url.rsplit_once('@').into_iter().chain(servers) {
            if let Some((user, password)) = credentials.split_once(':') {
                remember(user, password);
            }
        }
        let query = url.rsplit_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if name.ends_with("password") {
                remember("", value);
            }
        }
        rest = tail;
    }
}

/// Whether there is a password to hide.
pub fn are_known() -> bool {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    !known.is_empty()
}

fn remember(user: &str, password: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for word in [password.to_owned(), decoded(password)] {
        let word: Vec<char> = word.chars().collect();
        let mut places = vec![(String::new(), "")];
        if word.len() < LENGTH_MIN {
            places = vec![(":".to_owned(), "@")];
            places.extend((!user.is_empty()).then(|| (format!("{user}:"), "")));
        }
        for (before, behind) in places {
            let password = Password { before, word: word.clone(), behind };
            if !word.is_empty() && !known.contains(&password) {
                known.push(password);
            }
        }
    }
    known.sort_by_key(|password| Reverse(password.word.len()));
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let coded = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let coded = coded.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(*byte));
        at += if coded.is_some() { 3 } else { 1 };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// `text` without the passwords that this process was given, whichever way their characters are written: as
/// they are, percent-encoded, or escaped for JSON, HTML or a shell.
pub fn hide(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    if known.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        match known.iter().find_map(|password| password.at(text, at)) {
            Some((from, to)) => {
                out.push_str(&text[copied..from]);
                out.push_str("***");
                (copied, at) = (to, to);
            }
            None => at += c.len_utf8(),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

impl Password {
    /// From where to where it stands in a text, if it stands at `at`, or what has to be before it does.
    fn at(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let rest = text[at..].strip_prefix(self.before.as_str())?;
        let begin = text.len() - rest.len();
        let end = begin + written(rest, &self.word, 0)?;
        text[end..].starts_with(self.behind).then_some((begin, end))
    }
}

/// How many bytes at the beginning of `text` stand for these characters, with those so far, if any do.
fn written(text: &str, word: &[char], so_far: usize) -> Option<usize> {
    let Some((c, others)) = word.split_first() else {
        return Some(so_far);
    };
    let mut buffer = [0; 4];
    let plain: &str = c.encode_utf8(&mut buffer);
    let others = |length: usize| written(&text[length..], others, so_far + length);
    if text.starts_with(plain)
        && let Some(all) = others(plain.len())
    {
        return Some(all);
    }
    // Everything else begins with a mark of its own, which most characters of a text are not.
    let length = match text.as_bytes().first()? {
        b'%' => plain.bytes().try_fold(0, |at, byte| {
            (u8::from_str_radix(text.get(at..at + 3)?.strip_prefix('%')?, 16) == Ok(byte)).then_some(at + 3)
        }),
        b'+' => (*c == ' ').then_some(1),
        b'\\' if text[1..].starts_with('u') && *c != 'u' => {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().try_fold(0, |at, unit| {
                let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
                (u16::from_str_radix(digits, 16) == Ok(*unit)).then_some(at + 6)
            })
        }
        b'\\' => text[1..].starts_with(plain).then_some(1 + plain.len()),
        b'&' => {
            let end = text.find(';')?;
            let name = &text[1..end];
            let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => number.parse().ok(),
            });
            let named = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\'')];
            (number == Some(u32::from(*c)) || named.contains(&(name, *c))).then_some(end + 1)
        }
        _ => None,
    };
    others(length?)
}

/// The strings of a document without passwords; its keys stay. Says whether there was one.
pub fn hide_in(document: &mut Value) -> bool {
    match document {
        Value::String(text) => match hide(text) {
            Cow::Owned(hidden) => {
                *text = hidden;
                true
            }
            Cow::Borrowed(_) => false,
        },
        Value::Array(list) => list.iter_mut().fold(false, |found, one| hide_in(one) | found),
        Value::Object(map) => map.values_mut().fold(false, |found, one| hide_in(one) | found),
        _ => false,
    }
}

/// The same of a value that has a form as JSON. One without a password comes back as it was.
pub fn hidden<T: Serialize + DeserializeOwned>(value: T) -> T {
    if !are_known() {
        return value;
    }
    let Ok(mut document) = serde_json::to_value(&value) else {
        return value;
    };
    if hide_in(&mut document) { serde_json::from_value(document).unwrap_or(value) } else { value }
}

/// Every argument of a command line through [`redact`].
pub fn redact_all<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Vec<String> {
    arguments.into_iter().map(|one| redact(one.as_ref())).collect()
}
