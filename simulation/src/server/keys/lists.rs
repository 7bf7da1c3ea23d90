//! Commands on lists.

use std::collections::VecDeque;

use crate::server::keys::keyspace::{Answer, Item, Keyspace, SYNTAX, WRONG_TYPE, places, whole};
use crate::server::reply::Reply;

type Items = VecDeque<Vec<u8>>;

impl Keyspace {
    fn items(&mut self, key: &[u8]) -> Result<Option<&mut Items>, &'static str> {
        match self.get_mut(key) {
            None => Ok(None),
            Some(Item::List(items)) => Ok(Some(items)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    pub(crate) fn lists(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        let (key, rest) = args.split_first()?;
        let answer = self.list(name, key, rest);
        self.drop_if_empty(key);
        Some(answer)
    }

    fn list(&mut self, name: &'static str, key: &[u8], args: &[Vec<u8>]) -> Answer {
        match (name, args) {
            ("rpush", values) => {
                let Item::List(items) = self.get_or(key, Item::List(Items::new())) else {
                    return Err(WRONG_TYPE);
                };
                items.extend(values.iter().cloned());
                let count = items.len();
                self.change();
                Ok(Reply::count(count))
            }
            ("lindex", [at]) => {
                let Some(items) = self.items(key)? else { return Ok(Reply::Nil) };
                let at = whole(at)?;
                let at = if at < 0 { at + items.len() as i64 } else { at };
                let item = usize::try_from(at).ok().and_then(|at| items.get(at));
                Ok(item.cloned().map_or(Reply::Nil, Reply::Bulk))
            }
            ("lrange", [from, to]) => {
                places(from, to, 0)?;
                let Some(items) = self.items(key)? else { return Ok(Reply::Array(Vec::new())) };
                let range = places(from, to, items.len())?;
                Ok(Reply::Array(items.range(range).cloned().map(Reply::Bulk).collect()))
            }
            ("lpos", [value]) => {
                let items = self.items(key)?;
                let at = items.and_then(|items| items.iter().position(|item| item == value));
                Ok(at.map_or(Reply::Nil, Reply::count))
            }
            ("lpop", []) => {
                let first = self.items(key)?.and_then(Items::pop_front);
                if first.is_some() {
                    self.change();
                }
                Ok(first.map_or(Reply::Nil, Reply::Bulk))
            }
            ("lrem", [count, value]) => {
                let count = whole(count)?;
                let Some(items) = self.items(key)? else { return Ok(Reply::Int(0)) };
                let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
                let places = 0..items.len();
                let matches = |at: &usize| items[*at] == *value;
                let mut gone: Vec<usize> = match count < 0 {
                    true => places.rev().filter(matches).take(most).collect(),
                    false => places.filter(matches).take(most).collect(),
                };
                gone.sort_unstable();
                for at in gone.iter().rev() {
                    items.remove(*at);
                }
                if !gone.is_empty() {
                    self.change();
                }
                Ok(Reply::count(gone.len()))
            }
            _ => Err(SYNTAX),
        }
    }
}
