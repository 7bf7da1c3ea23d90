//! As much of a Redis server as the scripts need, in memory, to be copied at will. That it
//! answers as the real one does is a test of its own.

use std::collections::{BTreeMap, BTreeSet};

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Item {
    Text(String),
    Hash(BTreeMap<String, String>),
    List(Vec<String>),
    /// Scores are whole numbers here.
    Sorted(BTreeMap<String, i64>),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Nil,
    Ok,
    Int(i64),
    Text(String),
    Many(Vec<Answer>),
}

/// Everything that a server knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    /// Its clock; nothing else moves it.
    pub(crate) now_us: u64,
    keys: BTreeMap<String, (Item, Option<u64>)>,
    /// Channels that somebody listens to.
    pub(crate) ears: BTreeSet<String>,
    /// Those whose listeners are at another node: they hear, and are not counted.
    pub(crate) far_ears: BTreeSet<String>,
    /// What was said to somebody who listens and was not taken yet: channel, payload.
    pub(crate) said: Vec<(String, String)>,
    /// What was published, heard or not, since it was last looked at.
    pub(crate) published: Vec<(String, String)>,
}

impl Store {
    /// An empty one at this moment of its clock.
    pub(crate) fn at(now_us: u64) -> Self {
        Store { now_us, ..Store::default() }
    }

    /// Keys that have not ended.
    pub(crate) fn names(&self) -> Vec<&str> {
        let living = self.keys.iter().filter(|(_, (_, end))| self.lives(*end));
        living.map(|(name, _)| name.as_str()).collect()
    }

    /// The first field of a hash: whose a lock is.
    pub(crate) fn first_field(&self, key: &str) -> Option<String> {
        match self.keys.get(key) {
            Some((Item::Hash(fields), end)) if self.lives(*end) => fields.keys().next().cloned(),
            _ => None,
        }
    }

    /// The moments at which keys end, from now on.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        let ends = self.keys.values().filter_map(|(_, end)| *end);
        ends.filter(|end| *end > self.now_us)
    }

    fn lives(&self, end: Option<u64>) -> bool {
        end.is_none_or(|end| end > self.now_us)
    }

    fn item(&mut self, key: &str) -> Option<&mut Item> {
        let (_, end) = self.keys.get(key)?;
        if !self.lives(*end) {
            self.keys.remove(key);
            return None;
        }
        self.keys.get_mut(key).map(|(item, _)| item)
    }

    /// What a key holds, made from nothing where it is not there.
    fn made(&mut self, key: &str, nothing: Item) -> &mut Item {
        let _ = self.item(key);
        let entry = self.keys.entry(key.to_owned());
        &mut entry.or_insert((nothing, None)).0
    }

    /// A key without content is no key.
    fn tidy(&mut self, key: &str) {
        let empty = match self.keys.get(key) {
            Some((Item::Hash(fields), _)) => fields.is_empty(),
            Some((Item::List(items), _)) => items.is_empty(),
            Some((Item::Sorted(members), _)) => members.is_empty(),
            _ => false,
        };
        if empty {
            self.keys.remove(key);
        }
    }

    /// Answers a command, or says why it cannot.
    pub(crate) fn call(&mut self, parts: &[String]) -> Result<Answer, String> {
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        let command = words[0].to_ascii_uppercase();
        let answer = self.answer(&command, &words[1..]);
        if let [_, key, ..] = words.as_slice() {
            self.tidy(key);
        }
        answer.ok_or_else(|| format!("ERR not here: {words:?}"))
    }

    /// `None`: a wrong type, or something that the scripts do not ask for.
    fn answer(&mut self, command: &str, args: &[&str]) -> Option<Answer> {
        let said = match (command, args) {
            ("TIME", []) => Answer::Many(vec![
                text((self.now_us / 1_000_000).to_string()),
                text((self.now_us % 1_000_000).to_string()),
            ]),
            ("EXISTS", [key]) => Answer::Int(self.item(key).is_some().into()),
            ("DEL", keys) => {
                let gone = |key: &&&str| self.item(key).is_some() && self.keys.remove(**key).is_some();
                Answer::Int(keys.iter().filter(gone).count() as i64)
            }
            ("PTTL", [key]) => Answer::Int(match self.item(key) {
                None => -2,
                Some(_) => match self.keys[*key].1 {
                    None => -1,
                    // The server rounds the same way: 1.5 ms are 1.
                    Some(end) => ((end - self.now_us) / 1000) as i64,
                },
            }),
            ("PEXPIRE", [key, ms]) => {
                let end = self.now_us + number(ms)? as u64 * 1000;
                let there = self.item(key).is_some();
                if there {
                    self.keys.get_mut(*key)?.1 = Some(end);
                }
                Answer::Int(there.into())
            }
            ("GET", [key]) => match self.item(key) {
                None => Answer::Nil,
                Some(Item::Text(value)) => text(value.clone()),
                Some(_) => return None,
            },
            ("INCR", [key]) => match self.made(key, Item::Text("0".to_owned())) {
                Item::Text(value) => {
                    let next = number(value)? + 1;
                    *value = next.to_string();
                    Answer::Int(next)
                }
                _ => return None,
            },
            ("SET", [key, value, rest @ ..]) => self.set(key, value, rest)?,
            ("LINDEX" | "LPOP" | "LRANGE" | "RPUSH" | "LPUSH" | "LREM" | "LPOS", [key, rest @ ..]) => {
                let Item::List(items) = self.made(key, Item::List(Vec::new())) else {
                    return None;
                };
                list(command, items, rest)?
            }
            ("ZADD" | "ZSCORE" | "ZREM" | "ZRANGE" | "ZPOPMIN", [key, rest @ ..]) => {
                let Item::Sorted(members) = self.made(key, Item::Sorted(BTreeMap::new())) else {
                    return None;
                };
                sorted(command, members, rest)?
            }
            ("PUBLISH" | "SPUBLISH", [channel, payload]) => {
                let message = ((*channel).to_owned(), (*payload).to_owned());
                let counted = self.ears.contains(*channel);
                self.published.push(message.clone());
                if counted || self.far_ears.contains(*channel) {
                    self.said.push(message);
                }
                Answer::Int(counted.into())
            }
            ("PUBSUB", [count, channel]) if count.to_ascii_uppercase().ends_with("NUMSUB") => {
                let counted = self.ears.contains(*channel);
                Answer::Many(vec![text(*channel), Answer::Int(counted.into())])
            }
            (_, [key, rest @ ..]) if command.starts_with('H') => {
                let Item::Hash(fields) = self.made(key, Item::Hash(BTreeMap::new())) else {
                    return None;
                };
                hash(command, fields, rest)?
            }
            _ => return None,
        };
        Some(said)
    }

    fn set(&mut self, key: &str, value: &str, rest: &[&str]) -> Option<Answer> {
        let (mut end, mut absent) = (None, false);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_str() {
                "PX" => end = Some(self.now_us + number(words.next()?)? as u64 * 1000),
                "NX" => absent = true,
                _ => return None,
            }
        }
        if absent && self.item(key).is_some() {
            return Some(Answer::Nil);
        }
        self.keys.insert(key.to_owned(), (Item::Text(value.to_owned()), end));
        Some(Answer::Ok)
    }
}

fn hash(command: &str, fields: &mut BTreeMap<String, String>, args: &[&str]) -> Option<Answer> {
    let value = |field: &str| fields.get(field).cloned().map_or(Answer::Nil, text);
    Some(match (command, args) {
        ("HGET", [field]) => value(field),
        ("HMGET", names) => Answer::Many(names.iter().map(|field| value(field)).collect()),
        // The server's own order is none; a lock has one field.
        ("HKEYS", []) => Answer::Many(fields.keys().cloned().map(text).collect()),
        ("HEXISTS", [field]) => Answer::Int(fields.contains_key(*field).into()),
        ("HSET", pairs) => {
            let mut fresh = 0;
            for pair in pairs.chunks_exact(2) {
                fresh += i64::from(fields.insert(pair[0].to_owned(), pair[1].to_owned()).is_none());
            }
            Answer::Int(fresh)
        }
        ("HDEL", names) => {
            let gone = names.iter().filter(|field| fields.remove(**field).is_some());
            Answer::Int(gone.count() as i64)
        }
        ("HINCRBY", [field, by]) => {
            let before = fields.get(*field).map_or(Some(0), |value| number(value))?;
            let after = before + number(by)?;
            fields.insert((*field).to_owned(), after.to_string());
            Answer::Int(after)
        }
        _ => return None,
    })
}

fn list(command: &str, items: &mut Vec<String>, args: &[&str]) -> Option<Answer> {
    Some(match (command, args) {
        ("LINDEX", ["0"]) => items.first().cloned().map_or(Answer::Nil, text),
        ("LPOP", []) if items.is_empty() => Answer::Nil,
        ("LPOP", []) => text(items.remove(0)),
        ("LRANGE", ["0", "-1"]) => Answer::Many(items.iter().map(text).collect()),
        ("RPUSH", [value]) => {
            items.push((*value).to_owned());
            Answer::Int(items.len() as i64)
        }
        ("LPUSH", [value]) => {
            items.insert(0, (*value).to_owned());
            Answer::Int(items.len() as i64)
        }
        ("LREM", ["0", value]) => {
            let before = items.len();
            items.retain(|item| item != value);
            Answer::Int((before - items.len()) as i64)
        }
        ("LPOS", [value]) => {
            let place = items.iter().position(|item| item == value);
            place.map_or(Answer::Nil, |place| Answer::Int(place as i64))
        }
        _ => return None,
    })
}

fn sorted(command: &str, members: &mut BTreeMap<String, i64>, args: &[&str]) -> Option<Answer> {
    Some(match (command, args) {
        ("ZADD", [score, member]) => {
            let before = members.insert((*member).to_owned(), number(score)?);
            Answer::Int(before.is_none().into())
        }
        ("ZADD", [word, score, member]) if word.eq_ignore_ascii_case("gt") => {
            let score = number(score)?;
            let before = members.get(*member).copied();
            members.insert((*member).to_owned(), before.unwrap_or(score).max(score));
            Answer::Int(before.is_none().into())
        }
        ("ZSCORE", [member]) => members.get(*member).map_or(Answer::Nil, |score| text(score.to_string())),
        ("ZPOPMIN", []) => {
            let ranked = members.iter().map(|(member, score)| (*score, member));
            let Some((score, member)) = ranked.min().map(|(score, member)| (score, member.clone())) else {
                return Some(Answer::Many(Vec::new()));
            };
            members.remove(&member);
            Answer::Many(vec![text(member), text(score.to_string())])
        }
        ("ZREM", [member]) => Answer::Int(members.remove(*member).is_some().into()),
        ("ZRANGE", [from, to, rest @ ..]) => {
            let mut ranked: Vec<_> = members.iter().collect();
            ranked.sort_by_key(|(member, score)| (**score, (*member).clone()));
            // Below zero they count from the end.
            let count = ranked.len() as i64;
            let rank = |text: &str| number(text).map(|rank| if rank < 0 { rank + count } else { rank });
            let (from, to) = (rank(from)?, rank(to)?);
            let with_scores = match rest {
                [] => false,
                [word] if word.eq_ignore_ascii_case("withscores") => true,
                _ => return None,
            };
            let some = ranked.into_iter().zip(0..);
            let some = some.filter(|(_, rank)| (from..=to).contains(rank));
            let words = some.flat_map(|((member, score), _)| {
                let score = with_scores.then(|| text(score.to_string()));
                [Some(text(member.clone())), score]
            });
            Answer::Many(words.flatten().collect())
        }
        _ => return None,
    })
}

fn text(value: impl Into<String>) -> Answer {
    Answer::Text(value.into())
}

/// A whole number, also as Lua writes a large one.
fn number(text: &str) -> Option<i64> {
    let whole = text.parse().ok();
    whole.or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.fract() == 0.0).then_some(value as i64)
    })
}
