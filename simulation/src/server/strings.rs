//! Commands on keys of any type, and on texts.

use super::{
    keyspace::{Answer, Item, Keyspace, NOT_WHOLE, SYNTAX, WRONG_TYPE, is, whole},
    number,
    reply::Reply,
};

impl Keyspace {
    pub(super) fn strings(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        Some(match (name, args) {
            ("get", [key]) => self.text(key).map(|text| match text {
                Some(text) => Reply::Bulk(text.clone()),
                None => Reply::Nil,
            }),
            ("set", [key, value, rest @ ..]) => self.set(key, value, rest),
            ("setnx", [key, value]) => self
                .set(key, value, &[b"nx".to_vec()])
                .map(|set| Reply::Int((set == Reply::OK).into())),
            ("incr", [key]) => self.add(key, Ok(1)),
            ("decr", [key]) => self.add(key, Ok(-1)),
            ("incrby", [key, by]) => self.add(key, whole(by)),
            ("decrby", [key, by]) => {
                let by =
                    whole(by).and_then(|by| by.checked_neg().ok_or("ERR decrement would overflow"));
                self.add(key, by)
            }
            ("del" | "unlink", keys) => {
                let gone = keys.iter().filter(|key| self.remove(key)).count();
                if gone > 0 {
                    self.change();
                }
                Ok(Reply::count(gone))
            }
            ("exists", keys) => {
                let there = keys.iter().filter(|key| self.exists(key));
                Ok(Reply::count(there.count()))
            }
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
            ("pttl" | "ttl", [key]) => Ok(Reply::Int(self.left(key, name == "ttl"))),
            ("pexpire" | "expire" | "pexpireat", [key, end]) => self.expire(name, key, end),
            ("persist", [key]) => {
                let had = self.exists(key) && self.end_of(key).is_some();
                if had {
                    self.set_end(key, None);
                    self.change();
                }
                Ok(Reply::Int(had.into()))
            }
            ("dbsize", []) => Ok(Reply::count(self.len())),
            ("keys", [pattern]) => {
                let names = self.names().filter(|name| fits(pattern, name));
                Ok(Reply::Array(
                    names.map(|name| Reply::Bulk(name.to_vec())).collect(),
                ))
            }
            ("flushall" | "flushdb", _) => {
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

    fn left(&mut self, key: &[u8], seconds: bool) -> i64 {
        if !self.exists(key) {
            return -2;
        }
        let now = self.now_ms();
        self.end_of(key).map_or(-1, |end| {
            let left = end.saturating_sub(now) as i64;
            if seconds { (left + 500) / 1000 } else { left }
        })
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
        let (mut absent, mut present, mut keeps, mut end) = (false, false, false, None);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" if !present => absent = true,
                b"XX" if !absent => present = true,
                b"KEEPTTL" if end.is_none() => keeps = true,
                unit @ (b"PX" | b"EX" | b"PXAT") if !keeps => {
                    let of_another = end
                        .as_ref()
                        .is_some_and(|(other, _): &(Vec<u8>, _)| other != unit);
                    let Some(time) = words.next().filter(|_| !of_another) else {
                        return Err(SYNTAX);
                    };
                    end = Some((unit.to_vec(), time));
                }
                _ => return Err(SYNTAX),
            }
        }
        let ends_ms = match &end {
            None => None,
            Some((unit, time)) => {
                const INVALID: &str = "ERR invalid expire time in 'set' command";
                let time = Some(whole(time)?).filter(|time| *time > 0);
                let ms = time.and_then(|time| match unit.as_slice() {
                    b"EX" => time.checked_mul(1000),
                    _ => Some(time),
                });
                let end = ms.and_then(|ms| match unit.as_slice() {
                    b"PXAT" => Some(ms),
                    _ => ms.checked_add(self.now_ms() as i64),
                });
                Some(end.ok_or(INVALID)? as u64)
            }
        };
        let there = self.exists(key);
        if absent && there || present && !there {
            return Ok(Reply::Nil);
        }
        let kept = self.end_of(key).filter(|_| keeps && there);
        self.put(key, Item::Text(value.to_vec()), ends_ms.or(kept));
        match ends_ms {
            Some(end) => self.change_as(&[b"SET", key, value, b"PXAT", end.to_string().as_bytes()]),
            None => self.change(),
        }
        Ok(Reply::OK)
    }

    fn expire(&mut self, name: &str, key: &[u8], end: &[u8]) -> Answer {
        let invalid = match name {
            "expire" => "ERR invalid expire time in 'expire' command",
            "pexpire" => "ERR invalid expire time in 'pexpire' command",
            _ => "ERR invalid expire time in 'pexpireat' command",
        };
        let number = number::whole(end).ok_or(NOT_WHOLE)?;
        let ms = match name {
            "expire" => number.checked_mul(1000),
            _ => Some(number),
        };
        let now = self.now_ms() as i64;
        let at = match name {
            "pexpireat" => ms,
            _ => ms.and_then(|ms| ms.checked_add(now)),
        };
        let at = at.ok_or(invalid)?;
        if !self.exists(key) {
            return Ok(Reply::Int(0));
        }
        // What the master says of the past is kept until the master deletes it.
        if at <= now && self.expiry == super::keyspace::Expiry::Deletes {
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
pub(super) fn fits(pattern: &[u8], name: &[u8]) -> bool {
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
pub(super) fn one_of(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| is(word, name))
}
