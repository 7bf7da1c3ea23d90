//! The recipes by which locks are taken, kept and given back.

/// A way to make a lock of keys; each comment: a grant, a refusal, a renewal, a release, the owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// Its name, as reports have it.
    pub(crate) name: &'static str,
    /// What kind of key it makes: one kind refuses the commands of the other.
    pub(crate) key_form: &'static str,
    /// The key says who holds it, so that a release can compare.
    pub(crate) has_owner: bool,
    /// A script decides, and what it wrote tells a grant from a refusal.
    pub(crate) is_by_script: bool,
}

const fn recipe(name: &'static str, key_form: &'static str, says: [bool; 2]) -> Recipe {
    let [has_owner, is_by_script] = says;
    Recipe { name, key_form, has_owner, is_by_script }
}

/// SET key value NX with PX, EX, PXAT or EXAT · the same on a key that is there · a script with PEXPIRE or
/// SET; SET IFEQ; PEXPIRE · a script with GET and DEL; DELEX IFEQ; DELIFEQ; DEL · the value.
pub(crate) const SET_NX: &Recipe = &recipe("SET NX", "a string", [true, false]);
/// SETNX, or SET NX without an end, then EXPIRE · the same on a key that is there · EXPIRE, PEXPIRE · DEL, or
/// a script with GET and DEL · the value where it is unique, else the connection.
pub(crate) const SETNX_EXPIRE: &Recipe = &recipe("SETNX, EXPIRE", "a string", [true, false]);
/// A script that writes a field of the owner and an end · the same script without a write · a script with
/// PEXPIRE alone · a script with HDEL, DEL, or HINCRBY by -1 · the field.
pub(crate) const HASH: &Recipe = &recipe("hash with owner", "a hash", [true, true]);
/// A script that looks and then SETs · the same script without a write · a script with PEXPIRE, or SET by the
/// holder · a script with GET and DEL · the value.
pub(crate) const SCRIPT_SET: &Recipe = &recipe("SET in a script", "a string", [true, true]);
/// WATCH, GET, then SET in a transaction · not seen · the same with SET or PEXPIRE · the same with DEL · the
/// value.
pub(crate) const WATCH_MULTI: &Recipe = &recipe("WATCH, MULTI", "a string", [true, true]);
/// INCR of a key that is not there, with a lock's name · INCR of a key that is there · EXPIRE · DEL or DECR
/// by the same connection · the connection.
pub(crate) const INCR: &Recipe = &recipe("INCR, EXPIRE", "a string", [false, false]);
/// ZREMRANGEBYSCORE and ZADD in one step · not seen · ZADD of the same member · ZREM · the member.
pub(crate) const SORTED_SET: &Recipe = &recipe("sorted set with times", "a sorted set", [true, true]);
/// BLPOP by a connection that pushes to the list later · not seen · none · LPUSH or RPUSH by that connection
/// · the connection.
pub(crate) const TOKEN: &Recipe = &recipe("BLPOP of a token", "a list", [false, false]);
/// A script that GETs and DECRBYs a key with a lock's name or with keys named after it · a script that looks
/// for the permit in a set beside the number · ZADD of the same permit to that set · a script that INCRBYs
/// the number · the permit, else the connection.
pub(crate) const PERMITS: &Recipe = &recipe("permits of a number", "a number", [false, true]);
/// SET of a key that others take with NX; of a replica's stream SET with an end · not seen · SET of the same
/// value · DEL · the value.
pub(crate) const PLAIN_SET: &Recipe = &recipe("SET", "a string", [true, true]);
