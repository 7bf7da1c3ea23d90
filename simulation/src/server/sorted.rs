//! Sorted sets, and the commands on them.

use std::hash::{Hash, Hasher};

use super::{
    keyspace::{Answer, Item, Keyspace, NOT_REAL, SYNTAX, WRONG_TYPE, is, places, positive},
    number,
    reply::Reply,
};

/// Members by score, those of one score by their bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sorted(Vec<(f64, Vec<u8>)>);

// No score is NaN.
impl Eq for Sorted {}

impl Hash for Sorted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (score, member) in &self.0 {
            (score.to_bits(), member).hash(state);
        }
    }
}

impl Sorted {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, &Vec<u8>)> {
        self.0.iter().map(|(score, member)| (*score, member))
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        let found = self.0.iter().find(|(_, other)| other == member);
        found.map(|(score, _)| *score)
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let at = self.0.iter().position(|(_, other)| other == member);
        at.is_some_and(|at| {
            self.0.remove(at);
            true
        })
    }

    fn put(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        let before = |(other, name): &(f64, Vec<u8>)| {
            *other < score || *other == score && name.as_slice() < member
        };
        let at = self.0.partition_point(before);
        self.0.insert(at, (score, member.to_vec()));
    }
}

#[derive(Default)]
struct Adding {
    fresh_only: bool,
    known_only: bool,
    greater: bool,
    less: bool,
    counts_changes: bool,
}

impl Adding {
    /// Reads the words before the scores; what is left are scores and members.
    fn read(mut args: &[Vec<u8>]) -> (Self, &[Vec<u8>]) {
        let mut adding = Adding::default();
        while let [word, rest @ ..] = args {
            let flag = match word.to_ascii_uppercase().as_slice() {
                b"NX" => &mut adding.fresh_only,
                b"XX" => &mut adding.known_only,
                b"GT" => &mut adding.greater,
                b"LT" => &mut adding.less,
                b"CH" => &mut adding.counts_changes,
                _ => break,
            };
            *flag = true;
            args = rest;
        }
        (adding, args)
    }

    fn takes(&self, before: Option<f64>, score: f64) -> bool {
        match before {
            None => !self.known_only,
            Some(before) => {
                let refused = self.greater && score < before || self.less && score > before;
                !(self.fresh_only || refused || before == score)
            }
        }
    }
}

/// One end of a range of scores: the number, and whether it is left out.
fn bound(text: &[u8]) -> Result<(f64, bool), &'static str> {
    let (text, out) = match text {
        [b'(', rest @ ..] => (rest, true),
        text => (text, false),
    };
    let number = number::real(text).ok_or("ERR min or max is not a float")?;
    Ok((number, out))
}

impl Keyspace {
    fn members(&mut self, key: &[u8]) -> Result<Option<&mut Sorted>, &'static str> {
        match self.get_mut(key) {
            None => Ok(None),
            Some(Item::Sorted(members)) => Ok(Some(members)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn score_text(&self, score: f64) -> Reply {
        Reply::text(self.digits.of(score))
    }

    pub(super) fn sorted(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        let (key, rest) = args.split_first()?;
        let answer = self.sorted_set(name, key, rest);
        self.drop_if_empty(key);
        Some(answer)
    }

    fn sorted_set(&mut self, name: &'static str, key: &[u8], args: &[Vec<u8>]) -> Answer {
        match (name, args) {
            ("zadd", args) => self.zadd(key, args),
            ("zincrby", [by, member]) => {
                let by = number::real(by).ok_or(NOT_REAL)?;
                let before = self.members(key)?.and_then(|members| members.score(member));
                let score = before.unwrap_or(0.0) + by;
                if score.is_nan() {
                    return Err("ERR resulting score is not a number (NaN)");
                }
                if let Item::Sorted(members) = self.get_or(key, Item::Sorted(Sorted::default())) {
                    members.put(member, score);
                }
                self.change();
                Ok(self.score_text(score))
            }
            ("zscore", [member]) => {
                let score = self.members(key)?.and_then(|members| members.score(member));
                Ok(score.map_or(Reply::Nil, |score| self.score_text(score)))
            }
            ("zcard", []) => Ok(Reply::count(
                self.members(key)?.map_or(0, |members| members.0.len()),
            )),
            ("zrem", names) => self.take_out(key, |_, member| names.contains(member)),
            ("zremrangebyscore", [from, to]) => {
                let (from, to) = (bound(from)?, bound(to)?);
                self.take_out(key, |score, _| {
                    (if from.1 {
                        score > from.0
                    } else {
                        score >= from.0
                    }) && (if to.1 { score < to.0 } else { score <= to.0 })
                })
            }
            ("zrange", [from, to, rest @ ..]) => {
                let scores = match rest {
                    [] => false,
                    [word] if is(word, "withscores") => true,
                    _ => return Err(SYNTAX),
                };
                places(from, to, 0)?;
                let Some(members) = self.members(key)? else {
                    return Ok(Reply::Array(Vec::new()));
                };
                let some = members.0[places(from, to, members.0.len())?].to_vec();
                Ok(self.listed(some, scores))
            }
            ("zpopmin", rest) => {
                let count = match rest {
                    [] => 1,
                    [count] => positive(count)?,
                    _ => return Err(SYNTAX),
                };
                let Some(members) = self.members(key)? else {
                    return Ok(Reply::Array(Vec::new()));
                };
                let gone: Vec<_> = members.0.drain(..count.min(members.0.len())).collect();
                if !gone.is_empty() {
                    self.change();
                }
                Ok(self.listed(gone, true))
            }
            _ => Err(SYNTAX),
        }
    }

    fn listed(&self, members: Vec<(f64, Vec<u8>)>, scores: bool) -> Reply {
        let each = |(score, member): (f64, Vec<u8>)| {
            let score = scores.then(|| self.score_text(score));
            std::iter::once(Reply::Bulk(member)).chain(score)
        };
        Reply::Array(members.into_iter().flat_map(each).collect())
    }

    fn take_out(&mut self, key: &[u8], goes: impl Fn(f64, &Vec<u8>) -> bool) -> Answer {
        let Some(members) = self.members(key)? else {
            return Ok(Reply::Int(0));
        };
        let before = members.0.len();
        members.0.retain(|(score, member)| !goes(*score, member));
        let gone = before - members.0.len();
        if gone > 0 {
            self.change();
        }
        Ok(Reply::count(gone))
    }

    fn zadd(&mut self, key: &[u8], args: &[Vec<u8>]) -> Answer {
        let (adding, pairs) = Adding::read(args);
        if pairs.is_empty() || pairs.len() % 2 == 1 {
            return Err(SYNTAX);
        }
        if adding.fresh_only && adding.known_only {
            return Err("ERR XX and NX options at the same time are not compatible");
        }
        if [adding.greater, adding.less, adding.fresh_only]
            .iter()
            .filter(|is| **is)
            .count()
            > 1
        {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible");
        }
        let scored: Result<Vec<_>, &str> = (pairs.chunks_exact(2))
            .map(|pair| Ok((number::real(&pair[0]).ok_or(NOT_REAL)?, &pair[1])))
            .collect();
        let scored = scored?;
        if self.members(key)?.is_none() && adding.known_only {
            return Ok(Reply::Int(0));
        }
        let Item::Sorted(members) = self.get_or(key, Item::Sorted(Sorted::default())) else {
            return Err(WRONG_TYPE);
        };
        let (mut fresh, mut moved) = (0, 0);
        for (score, member) in scored {
            let before = members.score(member);
            if adding.takes(before, score) {
                members.put(member, score);
                match before {
                    None => fresh += 1,
                    Some(_) => moved += 1,
                }
            }
        }
        if fresh + moved > 0 {
            self.change();
        }
        Ok(Reply::count(if adding.counts_changes {
            fresh + moved
        } else {
            fresh
        }))
    }
}
