//! Commands on keys of any type, and on texts.

use crate::server::keys::keyspace::{Answer, Item, Keyspace, NOT_WHOLE, SYNTAX, WRONG_TYPE, is, whole};
use crate::server::keys::number;
use crate::server::reply::Reply;

impl Keyspace {
    pub(crate) fn strings(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        Some(match (name, args) {
            ("get", [key]) => self.text(key).map(|text| match text {
                Some(text) => Reply::Bulk(text.clone()),
                None => Reply::Nil,
            }),
            ("set", [key, value, rest @ ..]) => self.set(key, value, rest),
            ("setnx", [key, value]) => {
                self.set(key, value, &[b"nx".to_vec()]).map(|set| Reply::Int((set == Reply::OK).into()))
            }
            ("incr", [key]) => self.add(key, Ok(1)),
            ("decr", [key]) => self.add(key, Ok(-1)),
            ("incrby", [key, by]) => self.add(key, whole(by)),
            ("decrby", [key, by]) => {
                self.add(key, whole(by).and_then(|by| by.checked_neg().ok_or("ERR decrement would overflow")))
            }
            ("del" | "unlink", keys) => {
                let gone = keys.iter().filter(|key| self.remove(key)).count();
                if gone > 0 {
                    self.change();
                }
                Ok(Reply::count(gone))
            }
            ("exists", keys) => Ok(Reply::count(keys.iter().filter(|key| self.exists(key)).count())),
            ("type", [key]) => Ok(Reply::Status(
                match self.get(key) {
                    None => "none",
                    Some(Item::Text(_)) => "string",
                    Some(Item::Hash(_)) => "hash",
                    Some(Item::List(_)) => "list",
                    Some(Item::Sorted(_)) => "zset",
                }
                .into(),
            )),
            ("pttl", [key]) => Ok(Reply::Int(self.left_ms(key))),
            ("pexpire" | "pexpireat", [key, end]) => self.expire(name, key, end),
            ("dbsize", []) => Ok(Reply::count(self.len())),
            ("flushall", _) => {
                self.clear();
                self.change();
                Ok(Reply::OK)
            }
            _ => return None,
        })
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<&Vec<u8>>, &'static str> {
        match self.get(key) {
            None => Ok(None),
            Some(Item::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn left_ms(&mut self, key: &[u8]) -> i64 {
        if !self.exists(key) {
            return -2;
        }
        let end = self.end_of(key);
        end.map_or(-1, |end| end.saturating_sub(self.now_ms()) as i64)
    }

    fn add(&mut self, key: &[u8], by: Result<i64, &'static str>) -> Answer {
        let by = by?;
        let before = self.text(key)?.map_or(Ok(0), |text| whole(text))?;
        let after = before.checked_add(by);
        let after = after.ok_or("ERR increment or decrement would overflow")?;
        *self.get_or(key, Item::Text(Vec::new())) = Item::Text(after.to_string().into_bytes());
        self.change();
        Ok(Reply::Int(after))
    }

    fn set(&mut self, key: &[u8], value: &[u8], rest: &[Vec<u8>]) -> Answer {
        let (mut absent, mut end) = (false, None);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => absent = true,
                unit @ (b"PX" | b"PXAT") if end.is_none() => {
                    end = Some((unit == b"PX", words.next().ok_or(SYNTAX)?));
                }
                _ => return Err(SYNTAX),
            }
        }
        let ends_ms = match end {
            None => None,
            Some((from_now, time)) => {
                let since = if from_now { self.now_ms() as i64 } else { 0 };
                let time = Some(whole(time)?).filter(|time| *time > 0);
                let end = time.and_then(|time| time.checked_add(since));
                Some(end.ok_or("ERR invalid expire time in 'set' command")? as u64)
            }
        };
        let there = self.exists(key);
        if absent && there {
            return Ok(Reply::Nil);
        }
        self.put(key, Item::Text(value.to_vec()), ends_ms);
        match ends_ms {
            Some(end) => self.change_as(&[b"SET", key, value, b"PXAT", end.to_string().as_bytes()]),
            None => self.change(),
        }
        Ok(Reply::OK)
    }

    fn expire(&mut self, name: &str, key: &[u8], end: &[u8]) -> Answer {
        let invalid = match name {
            "pexpire" => "ERR invalid expire time in 'pexpire' command",
            _ => "ERR invalid expire time in 'pexpireat' command",
        };
        let ms = number::whole(end).ok_or(NOT_WHOLE)?;
        let now = self.now_ms() as i64;
        let at = match name {
            "pexpire" => ms.checked_add(now).ok_or(invalid)?,
            _ => ms,
        };
        if !self.exists(key) {
            return Ok(Reply::Int(0));
        }
        // What the master says of the past is kept until the master deletes it.
        if at <= now && self.expiry == crate::server::keys::keyspace::Expiry::Deletes {
            self.remove(key);
            self.change_as(&[b"DEL", key]);
        } else {
            let at = at.max(0) as u64;
            self.set_end(key, Some(at));
            self.change_as(&[b"PEXPIREAT", key, at.to_string().as_bytes()]);
        }
        Ok(Reply::Int(1))
    }
}

/// Whether a name fits a pattern of `*`, `?` and `\`; sets in brackets, which nobody asks for, are not known.
pub(crate) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => fits(rest, name) || !name.is_empty() && fits(pattern, &name[1..]),
        ([b'?', rest @ ..], [_, others @ ..]) => fits(rest, others),
        ([b'\\', c, rest @ ..], [first, others @ ..]) | ([c, rest @ ..], [first, others @ ..]) => {
            c == first && fits(rest, others)
        }
        _ => false,
    }
}

/// As [`is`]: a word among an argument's.
pub(crate) fn one_of(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| is(word, name))
}
