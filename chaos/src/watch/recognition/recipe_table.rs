//! The recipes by which locks are taken, kept and given back. The book's page on `watch` has a table of them:
//! what grants, refuses, renews and releases each, and what names its owner.

/// A way to make a lock of keys.
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

pub(crate) const SET_NX: &Recipe = &recipe("SET NX", "a string", [true, false]);
pub(crate) const SETNX_EXPIRE: &Recipe = &recipe("SETNX, EXPIRE", "a string", [true, false]);
pub(crate) const HASH: &Recipe = &recipe("hash with owner", "a hash", [true, true]);
pub(crate) const SCRIPT_SET: &Recipe = &recipe("SET in a script", "a string", [true, true]);
pub(crate) const WATCH_MULTI: &Recipe = &recipe("WATCH, MULTI", "a string", [true, true]);
pub(crate) const INCR: &Recipe = &recipe("INCR, EXPIRE", "a string", [false, false]);
pub(crate) const SORTED_SET: &Recipe = &recipe("sorted set with times", "a sorted set", [true, true]);
pub(crate) const TOKEN: &Recipe = &recipe("BLPOP of a token", "a list", [false, false]);
pub(crate) const PERMITS: &Recipe = &recipe("permits of a number", "a number", [false, true]);
/// Of a key that others take with NX; of a replica's stream, with an end.
pub(crate) const PLAIN_SET: &Recipe = &recipe("SET", "a string", [true, true]);
