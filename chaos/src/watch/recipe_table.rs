//! The recipes by which locks are taken, kept and given back, a row each.

/// A way to make a lock of keys.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its name, as reports have it.
    pub name: &'static str,
    /// What a grant is.
    pub grant: &'static str,
    /// What a refusal is.
    pub refusal: &'static str,
    /// What a renewal is.
    pub renewal: &'static str,
    /// What a release is.
    pub release: &'static str,
    /// Who the owner is.
    pub owner: &'static str,
    /// The key says who holds it, so that a release can compare.
    pub has_owner: bool,
    /// A script decides, and what it wrote tells a grant from a refusal.
    pub(super) is_by_script: bool,
}

impl Recipe {
    /// What kind of key it makes: one kind refuses the commands of the other.
    pub(super) fn key_form(&self) -> &'static str {
        match self.name {
            "hash with owner" => "a hash",
            "sorted set with times" => "a sorted set",
            "BLPOP of a token" => "a list",
            _ => "a string",
        }
    }
}

const fn recipe(
    name: &'static str,
    words: [&'static str; 5],
    has_owner: bool,
    is_by_script: bool,
) -> Recipe {
    let [grant, refusal, renewal, release, owner] = words;
    Recipe {
        name,
        grant,
        refusal,
        renewal,
        release,
        owner,
        has_owner,
        is_by_script,
    }
}

/// Every recipe that is recognised.
pub const RECIPES: &[Recipe] = &[
    recipe(
        "SET NX",
        [
            "SET key value NX with PX, EX, PXAT or EXAT",
            "the same on a key that is there",
            "a script with PEXPIRE or SET; SET IFEQ; PEXPIRE",
            "a script with GET and DEL; DELEX IFEQ; DELIFEQ; DEL",
            "the value",
        ],
        true,
        false,
    ),
    recipe(
        "SETNX, EXPIRE",
        [
            "SETNX, or SET NX without an end; then EXPIRE",
            "the same on a key that is there",
            "EXPIRE, PEXPIRE",
            "DEL, or a script with GET and DEL",
            "the value where it is unique, else the connection",
        ],
        true,
        false,
    ),
    recipe(
        "hash with owner",
        [
            "a script that writes a field of the owner and an end",
            "the same script without a write",
            "a script with PEXPIRE alone",
            "a script with HDEL, DEL, or HINCRBY by -1",
            "the field",
        ],
        true,
        true,
    ),
    recipe(
        "SET in a script",
        [
            "a script that looks and then SETs",
            "the same script without a write",
            "a script with PEXPIRE, or SET by the holder",
            "a script with GET and DEL",
            "the value",
        ],
        true,
        true,
    ),
    recipe(
        "WATCH, MULTI",
        [
            "WATCH, GET, then SET in a transaction",
            "not seen",
            "WATCH, then SET or PEXPIRE in a transaction",
            "WATCH, GET, then DEL in a transaction",
            "the value",
        ],
        true,
        true,
    ),
    recipe(
        "INCR, EXPIRE",
        [
            "INCR of a key that is not there (names with lock, mutex, lease, semaphore)",
            "INCR of a key that is there",
            "EXPIRE",
            "DEL or DECR by the same connection",
            "the connection",
        ],
        false,
        false,
    ),
    recipe(
        "sorted set with times",
        [
            "ZREMRANGEBYSCORE and ZADD in one step",
            "not seen",
            "ZADD of the same member",
            "ZREM",
            "the member",
        ],
        true,
        true,
    ),
    recipe(
        "BLPOP of a token",
        [
            "BLPOP by a connection that pushes to the list later",
            "not seen",
            "none",
            "LPUSH or RPUSH by that connection",
            "the connection",
        ],
        false,
        false,
    ),
    recipe(
        "SET",
        [
            "SET of a key that others take with NX; of a replica's stream SET with an end",
            "not seen",
            "SET of the same value",
            "DEL",
            "the value",
        ],
        true,
        true,
    ),
];
