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
    /// What kind of key it makes: one kind refuses the commands of the other.
    pub(super) key_form: &'static str,
    /// A script decides, and what it wrote tells a grant from a refusal.
    pub(super) is_by_script: bool,
}

const fn recipe(
    name: &'static str,
    key_form: &'static str,
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
        key_form,
        is_by_script,
    }
}

/// The recipe of a semaphore.
pub(super) const PERMITS: &Recipe = &RECIPES[8];

/// Every recipe that is recognised.
pub const RECIPES: &[Recipe] = &[
    recipe(
        "SET NX",
        "a string",
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
        "a string",
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
        "a hash",
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
        "a string",
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
        "a string",
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
        "a string",
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
        "a sorted set",
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
        "a list",
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
        "permits of a number",
        "a number",
        [
            "a script that GETs and DECRBYs a key with a lock's name or with keys named after it",
            "a script that looks for the permit in a set beside the number",
            "ZADD of the same permit to a set beside the number",
            "a script that INCRBYs it",
            "the permit, else the connection",
        ],
        false,
        true,
    ),
    recipe(
        "SET",
        "a string",
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
