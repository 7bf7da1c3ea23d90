//! Sorted sets, and the commands on them.

use std::hash::{Hash, Hasher};

use crate::server::keys::keyspace::{Answer, Item, Keyspace, NOT_REAL, SYNTAX, WRONG_TYPE, is, places};
use crate::server::keys::number;
use crate::server::reply::Reply;

/// Members by score, those of one score by their bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sorted(Vec<(f64, Vec<u8>)>);

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
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, &Vec<u8>)> {
        self.0.iter().map(|(score, member)| (*score, member))
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.iter().find(|(_, other)| other == member).map(|(score, _)| *score)
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
        let before =
            |(other, name): &(f64, Vec<u8>)| *other < score || *other == score && name.as_slice() < member;
        self.0.insert(self.0.partition_point(before), (score, member.to_vec()));
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

    pub(crate) fn sorted(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        let (key, rest) = args.split_first()?;
        let answer = self.sorted_set(name, key, rest);
        self.drop_if_empty(key);
        Some(answer)
    }

    fn sorted_set(&mut self, name: &'static str, key: &[u8], args: &[Vec<u8>]) -> Answer {
        match (name, args) {
            ("zadd", args) => self.zadd(key, args),
            ("zscore", [member]) => {
                let score = self.members(key)?.and_then(|members| members.score(member));
                Ok(score.map_or(Reply::Nil, |score| self.score_text(score)))
            }
            ("zcard", []) => Ok(Reply::count(self.members(key)?.map_or(0, |members| members.0.len()))),
            ("zrem", names) => self.take_out(key, |_, member| names.contains(member)),
            ("zremrangebyscore", [from, to]) => {
                let (from, to) = (bound(from)?, bound(to)?);
                self.take_out(key, |score, _| {
                    (if from.1 { score > from.0 } else { score >= from.0 })
                        && (if to.1 { score < to.0 } else { score <= to.0 })
                })
            }
            ("zrange", [from, to, rest @ ..]) => {
                let scores = match rest {
                    [] => false,
                    [word] if is(word, "withscores") => true,
                    _ => return Err(SYNTAX),
                };
                places(from, to, 0)?;
                let Some(members) = self.members(key)? else { return Ok(Reply::Array(Vec::new())) };
                let some = members.0[places(from, to, members.0.len())?].to_vec();
                Ok(self.listed(some, scores))
            }
            ("zpopmin", []) => {
                let Some(members) = self.members(key)? else { return Ok(Reply::Array(Vec::new())) };
                let first = vec![members.0.remove(0)];
                self.change();
                Ok(self.listed(first, true))
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
        let Some(members) = self.members(key)? else { return Ok(Reply::Int(0)) };
        let before = members.0.len();
        members.0.retain(|(score, member)| !goes(*score, member));
        let gone = before - members.0.len();
        if gone > 0 {
            self.change();
        }
        Ok(Reply::count(gone))
    }

    fn zadd(&mut self, key: &[u8], args: &[Vec<u8>]) -> Answer {
        // With GT a score only grows.
        let (grows, pairs) = match args {
            [word, pairs @ ..] if is(word, "gt") => (true, pairs),
            pairs => (false, pairs),
        };
        if pairs.is_empty() || pairs.len() % 2 == 1 {
            return Err(SYNTAX);
        }
        let scored: Result<Vec<_>, &str> = (pairs.chunks_exact(2))
            .map(|pair| Ok((number::real(&pair[0]).ok_or(NOT_REAL)?, &pair[1])))
            .collect();
        let scored = scored?;
        let Item::Sorted(members) = self.get_or(key, Item::Sorted(Sorted::default())) else {
            return Err(WRONG_TYPE);
        };
        let (mut fresh, mut moved) = (0, false);
        for (score, member) in scored {
            match members.score(member) {
                Some(before) if before == score || grows && score < before => continue,
                Some(_) => moved = true,
                None => fresh += 1,
            }
            members.put(member, score);
        }
        if moved || fresh > 0 {
            self.change();
        }
        Ok(Reply::count(fresh))
    }
}
