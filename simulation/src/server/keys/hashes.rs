//! Commands on hashes.

use crate::server::keys::keyspace::{Answer, Item, Keyspace, WRONG_TYPE, whole};
use crate::server::keys::number;
use crate::server::reply::Reply;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn value<'a>(fields: &'a Fields, field: &[u8]) -> Option<&'a Vec<u8>> {
    fields.iter().find(|(name, _)| name == field).map(|(_, value)| value)
}

fn put(fields: &mut Fields, field: &[u8], to: &[u8]) -> bool {
    match fields.iter_mut().find(|(name, _)| name == field) {
        Some((_, value)) => {
            *value = to.to_vec();
            false
        }
        None => {
            fields.push((field.to_vec(), to.to_vec()));
            true
        }
    }
}

impl Keyspace {
    fn fields(&mut self, key: &[u8]) -> Result<Option<&Fields>, &'static str> {
        match self.get(key) {
            None => Ok(None),
            Some(Item::Hash(fields)) => Ok(Some(fields)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn own_fields(&mut self, key: &[u8]) -> Result<&mut Fields, &'static str> {
        match self.get_or(key, Item::Hash(Vec::new())) {
            Item::Hash(fields) => Ok(fields),
            _ => Err(WRONG_TYPE),
        }
    }

    pub(crate) fn hashes(&mut self, name: &'static str, args: &[Vec<u8>]) -> Option<Answer> {
        let (key, rest) = args.split_first()?;
        Some(self.hash(name, key, rest))
    }

    fn hash(&mut self, name: &'static str, key: &[u8], args: &[Vec<u8>]) -> Answer {
        let bulk = |value: Option<&Vec<u8>>| value.cloned().map_or(Reply::Nil, Reply::Bulk);
        match (name, args) {
            ("hset", pairs) => {
                if pairs.len() % 2 == 1 {
                    return Err("ERR wrong number of arguments for 'hset' command");
                }
                let fields = self.own_fields(key)?;
                let mut fresh = 0;
                for pair in pairs.chunks_exact(2) {
                    fresh += usize::from(put(fields, &pair[0], &pair[1]));
                }
                self.change();
                return Ok(Reply::count(fresh));
            }
            ("hincrby", [field, by]) => {
                let by = whole(by)?;
                let found = self.fields(key)?.and_then(|fields| value(fields, field));
                let before = found.map_or(Some(0), |text| number::whole(text));
                let before = before.ok_or("ERR hash value is not an integer")?;
                let after = before.checked_add(by);
                let after = after.ok_or("ERR increment or decrement would overflow")?;
                put(self.own_fields(key)?, field, after.to_string().as_bytes());
                self.change();
                return Ok(Reply::Int(after));
            }
            ("hdel", names) => {
                if self.fields(key)?.is_none() {
                    return Ok(Reply::Int(0));
                }
                let fields = self.own_fields(key)?;
                let before = fields.len();
                fields.retain(|(field, _)| !names.contains(field));
                let gone = before - fields.len();
                self.drop_if_empty(key);
                if gone > 0 {
                    self.change();
                }
                return Ok(Reply::count(gone));
            }
            _ => {}
        }
        let nothing = Fields::new();
        let fields = self.fields(key)?.unwrap_or(&nothing);
        Ok(match (name, args) {
            ("hget", [field]) => bulk(value(fields, field)),
            ("hmget", names) => Reply::Array(names.iter().map(|field| bulk(value(fields, field))).collect()),
            ("hexists", [field]) => Reply::Int(value(fields, field).is_some().into()),
            ("hlen", []) => Reply::count(fields.len()),
            ("hkeys", []) => {
                Reply::Array(fields.iter().map(|(field, _)| Reply::Bulk(field.clone())).collect())
            }
            ("hgetall", []) => {
                let both = |(field, value): &(Vec<u8>, Vec<u8>)| {
                    [Reply::Bulk(field.clone()), Reply::Bulk(value.clone())]
                };
                Reply::Array(fields.iter().flat_map(both).collect())
            }
            _ => return Err("ERR not modelled"),
        })
    }
}
