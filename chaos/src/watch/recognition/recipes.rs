//! Recognises what a unit does to locks.

use itertools::Itertools as _;

use crate::watch::lock::lock_state::{AcquireAttempt, AttemptOutcome, HoldChange, LockAct, LockOwner};
use crate::watch::recognition::patterns::LibraryTrace;
pub(crate) use crate::watch::recognition::patterns::sounds_like_a_lock;
use crate::watch::recognition::permits::on_permits;
use crate::watch::recognition::recipe_table::{
    HASH, INCR, PLAIN_SET, Recipe, SCRIPT_SET, SET_NX, SETNX_EXPIRE, SORTED_SET, TOKEN, WATCH_MULTI,
};
use crate::watch::recognition::units::{CommandWords, Unit, UnitKind, hash};
use crate::watch::watcher::{LockPlace, Watcher};

/// What a script was seen to do, by its arguments' places: one that wrote nothing is known by it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScriptRole {
    takes: Option<&'static Recipe>,
    releases: bool,
    /// It wrote nothing while another had the lock.
    refuses: bool,
    key_arg: Option<usize>,
    owner_arg: Option<usize>,
}

/// Applies a unit to the locks that it concerns.
pub(crate) fn apply(watcher: &mut Watcher, group: usize, unit: &Unit) {
    let Unit { database, time_us, client, .. } = *unit;
    let place = LockPlace { group, database, key: b"", time_us, late_us: unit.late_us(), client };
    let is_plain = match unit.kind {
        UnitKind::Transaction => !watcher.options.effects_only,
        kind => kind == UnitKind::Plain,
    };
    match is_plain {
        true => unit.commands.iter().for_each(|command| plain(watcher, &place, command)),
        false => together(watcher, &place, unit),
    }
}

#[derive(Debug, Default)]
struct SetOptions<'a> {
    nx: bool,
    xx: bool,
    keeps_end: bool,
    compares: Option<&'a [u8]>,
    until_us: Option<u64>,
}

impl<'a> SetOptions<'a> {
    fn of(command: &'a CommandWords, time_us: u64) -> Self {
        let mut options = SetOptions::default();
        for (at, word) in command.args().iter().enumerate().skip(2) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            options.nx |= is("NX");
            options.xx |= is("XX");
            options.keeps_end |= is("KEEPTTL");
            // Counted with the command's name.
            let (next, number) = (command.arg(at + 2), command.number(at + 2));
            options.compares = next.filter(|_| is("IFEQ")).or(options.compares);
            options.until_us = end_by(&END_OPTIONS, word, time_us, number).unwrap_or(options.until_us);
        }
        options
    }
}

/// The value that a command of SET's family writes, and its options; `None`: it is none of them.
fn written(command: &CommandWords, time_us: u64) -> Option<(&[u8], SetOptions<'_>)> {
    let (value, options) = match () {
        () if command.is("SET") => (2, SetOptions::of(command, time_us)),
        () if command.is("GETSET") => (2, SetOptions::default()),
        () if command.is("SETNX") || command.is("MSETNX") && command.args().len() == 2 => {
            (2, SetOptions { nx: true, ..SetOptions::default() })
        }
        () => {
            let until_us = end_by(&["SETEX", "PSETEX"], command.name(), time_us, command.number(2))?;
            (3, SetOptions { until_us, ..SetOptions::default() })
        }
    };
    Some((command.arg(value)?, options))
}

pub(crate) fn end_us(from_us: u64, number: Option<i64>, unit_us: u64) -> Option<u64> {
    let number = u64::try_from(number?).ok()?;
    // A server refuses what is further away; sums of these times stay numbers.
    Some(from_us.saturating_add(number.saturating_mul(unit_us).min(u64::MAX / 4)))
}

/// Words before the number that sets an end: of seconds and milliseconds from now, of both since 1970.
const END_OPTIONS: [&str; 4] = ["EX", "PX", "EXAT", "PXAT"];
const END_COMMANDS: [&str; 4] = ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"];

/// The end that this number sets behind a word, if it is one of these words.
fn end_by(words: &[&str], word: &[u8], now_us: u64, number: Option<i64>) -> Option<Option<u64>> {
    let place = words.iter().position(|one| word.eq_ignore_ascii_case(one.as_bytes()))?;
    let (from_us, unit_us) = (if place < 2 { now_us } else { 0 }, [1_000_000, 1_000][place % 2]);
    Some(end_us(from_us, number, unit_us))
}

/// The end that a command of EXPIRE's family sets; `None`: it is none of them, or its condition is not met.
fn expire_until_us(watcher: &Watcher, place: &LockPlace<'_>, command: &CommandWords) -> Option<u64> {
    let gets = command.is("GETEX");
    let option = command.arg(if gets { 2 } else { 3 }).unwrap_or_default();
    let has = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
    let (words, word) = if gets { (&END_OPTIONS, option) } else { (&END_COMMANDS, command.name()) };
    // What ends in the past is gone at once.
    let number = command.number(2 + usize::from(gets)).map(|number| number.max(0));
    let until_us = end_by(words, word, place.time_us, number)?.unwrap_or(place.time_us);
    let is_met = |held_until_us: Option<u64>| match held_until_us {
        Some(_) if has("NX") => false,
        Some(held_us) => (!has("GT") || until_us > held_us) && (!has("LT") || until_us < held_us),
        None => !has("XX") && !has("GT"),
    };
    watcher.held_until_us(place).is_none_or(is_met).then_some(until_us)
}

/// An attempt at a place. `is_named`: a script names its owner, however short the value.
pub(crate) fn attempt(
    place: &LockPlace<'_>,
    recipe: &'static Recipe,
    value: &[u8],
    until_us: Option<u64>,
    is_named: bool,
) -> AcquireAttempt {
    let mut owner = LockOwner::of(value, place.client);
    owner.is_unique |= is_named;
    AcquireAttempt { recipe, owner, time_us: place.time_us, late_us: place.late_us, until_us }
}

pub(crate) fn change(
    place: &LockPlace<'_>,
    owner: Option<&[u8]>,
    is_checked: bool,
    was_done: bool,
) -> HoldChange {
    let owner = owner.map(|value| LockOwner { is_unique: true, ..LockOwner::of(value, place.client) });
    HoldChange { owner, client: place.client, is_checked, was_done, one_level: false }
}

/// A command outside scripts.
fn plain(watcher: &mut Watcher, place: &LockPlace<'_>, command: &CommandWords) {
    if command.is("FLUSHALL") || command.is("FLUSHDB") {
        let database = command.is("FLUSHDB").then_some(place.database);
        return watcher.lose(place.group, database, place.time_us, "it was flushed away");
    }
    if command.is("SWAPDB") {
        let [one, other] = [1, 2].map(|at| command.number(at).and_then(|number| u32::try_from(number).ok()));
        if let (Some(one), Some(other)) = (one, other) {
            watcher.swap(place.group, one, other, place.time_us);
        }
        return;
    }
    let Some(key) = command.arg(1) else { return };
    let place = LockPlace { key, ..*place };
    let effects_only = watcher.options.effects_only;
    let attempt = |recipe, value: &[u8], until_us, outcome| {
        Some(LockAct::Attempt(attempt(&place, recipe, value, until_us, false), outcome))
    };
    // What is refused reaches no replica.
    let by_key = if effects_only { AttemptOutcome::Granted } else { AttemptOutcome::ByKey };
    let unnamed = change(&place, None, false, true);
    let set = written(command, place.time_us);
    let value = set.as_ref().map(|set| set.0).or_else(|| command.arg(2)).unwrap_or_default();
    // Of effects alone, any value of a key with a lock's word, else one that looks like an owner's.
    let is_telling = |value: &[u8]| is_token(value) || sounds_like_a_lock(key);
    let takes = set.is_some();
    // It puts back what it has added.
    let was_refused = || watcher.lock_at(&place).is_some_and(|lock| lock.has_waiter_of_client(place.client));
    let act = if let Some((value, SetOptions { nx, xx, keeps_end, compares, until_us })) = set {
        // Of a holder from before the watch it is not known.
        let kept_us = keeps_end.then(|| watcher.held_until_us(&place));
        let until_us = kept_us.flatten().unwrap_or(until_us);
        let is_token = || effects_only && until_us.is_some() && is_telling(value);
        // Where the value says when the lease ends, who finds that it has ended takes the lock by GETSET.
        let is_time = || command.is("GETSET") && LockOwner::of(value, 0).value_s > 0;
        match compares {
            Some(compared) => {
                let done = watcher.holder_is(&place, compared);
                done.map(|done| LockAct::Renew(change(&place, Some(compared), true, done), until_us))
            }
            None if nx => {
                let recipe = until_us.map_or(SETNX_EXPIRE, |_| SET_NX);
                attempt(recipe, value, until_us, by_key).filter(|_| !effects_only || is_telling(value))
            }
            None if kept_us == Some(None) => None,
            None if (xx || is_time()) && watcher.is_followed(&place) => {
                attempt(PLAIN_SET, value, until_us, AttemptOutcome::OverwrittenIfThere)
            }
            None if watcher.is_followed(&place) || is_token() && !xx => {
                attempt(PLAIN_SET, value, until_us, AttemptOutcome::Overwritten)
            }
            None => None,
        }
    } else if command.is("INCR") && sounds_like_a_lock(key) {
        attempt(INCR, b"", None, AttemptOutcome::ByKey)
    } else if command.is("BLPOP") && sounds_like_a_lock(key) {
        return watcher.blocks_for_token(&place, self::attempt(&place, TOKEN, b"", None, false));
    } else if command.is_one_of(&["DEL", "UNLINK", "GETDEL"]) {
        for key in command.args() {
            let place = LockPlace { key, ..place };
            if watcher.is_followed(&place) {
                let trace = LibraryTrace { value, ..LibraryTrace::default() };
                watcher.act(&place, &trace, LockAct::Release(unnamed));
            }
        }
        return;
    } else if !watcher.is_followed(&place) {
        // What follows concerns locks that are known already.
        None
    } else if command.is("DELEX") && !value.eq_ignore_ascii_case(b"IFEQ") {
        // It compares digests, of which nobody knows whose they are.
        Some(LockAct::Release(change(&place, None, !value.is_empty(), true)))
    } else if command.is("DELEX") || command.is("DELIFEQ") {
        let compared = command.args().last().map_or(&b""[..], Vec::as_slice);
        let was_done = watcher.holder_is(&place, compared) != Some(false);
        Some(LockAct::Release(change(&place, Some(compared), true, was_done)))
    } else if command.is("PERSIST") || command.is("GETEX") && value.eq_ignore_ascii_case(b"PERSIST") {
        Some(LockAct::Renew(unnamed, None))
    } else if let Some(until_us) = expire_until_us(watcher, &place, command) {
        match until_us <= place.time_us {
            true => Some(LockAct::Release(unnamed)),
            false => Some(LockAct::Renew(unnamed, Some(until_us))),
        }
    } else if command.is("DECR") && watcher.held_by_recipe(&place) == Some(INCR) && !was_refused()
        || command.is_one_of(&["LPUSH", "RPUSH", "RENAME"])
    {
        Some(LockAct::Release(unnamed))
    } else if command.is_one_of(&["INCR", "INCRBY", "DECR", "DECRBY"]) {
        // A counter that is begun where there is none.
        watcher.count(&place, |pattern| pattern.changed_values += 1);
        None
    } else if command.is("HDEL") || command.is("ZREM") {
        // It takes nobody else's away.
        Some(LockAct::Release(change(&place, Some(value), true, true)))
    } else {
        None
    };
    if let Some(act) = act {
        watcher.act(&place, &LibraryTrace { value, takes, ..LibraryTrace::default() }, act);
    }
}

/// A value that was made to be unique: letters with digits, or some random bytes.
pub(crate) fn is_token(value: &[u8]) -> bool {
    let is_of_a_token =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:+/=.".contains(byte) || *byte >= 0x80;
    let is_random = (16..=32).contains(&value.len()) && std::str::from_utf8(value).is_err();
    let has_digits = value.iter().filter(|byte| byte.is_ascii_digit()).count() >= 2;
    is_random || (12..=80).contains(&value.len()) && has_digits && value.iter().all(is_of_a_token)
}

/// Commands that ran in one step, key by key.
fn together(watcher: &mut Watcher, place: &LockPlace<'_>, unit: &Unit) {
    if unit.commands.is_empty() {
        // A script that the server did not know.
        return;
    }
    let keys = unit.commands.iter().filter_map(|command| command.arg(1));
    let keys: Vec<&[u8]> = keys.unique().take(16).collect();
    let script = unit.call.as_ref().and_then(|call| call.arg(1)).map(hash);
    let mut is_known = false;
    for key in &keys {
        let is_companion =
            key.starts_with(b"redisson_") || keys.iter().any(|other| other != key && has_tag(key, other));
        if !is_companion {
            let place = LockPlace { key, ..*place };
            is_known |= on_key(watcher, &place, unit, script);
        }
    }
    if let Some(script) = script.filter(|_| !is_known) {
        without_effect(watcher, place, unit, script);
    }
}

/// Whether a key carries `{name}`, as keys beside a lock do.
pub(crate) fn has_tag(key: &[u8], name: &[u8]) -> bool {
    let at = memchr::memmem::find_iter(key, name);
    at.into_iter().any(|at| at > 0 && key[at - 1] == b'{' && key.get(at + name.len()) == Some(&b'}'))
}

/// The owner that a command writes into a lock's hash: a field beside readers' mode, or the value of `owner`.
fn owner_written(command: &CommandWords, is_named: bool) -> Option<(&CommandWords, Vec<u8>)> {
    let fields = match () {
        () if command.is_one_of(&["HSET", "HSETNX"]) => command.args().get(1..)?,
        () if command.is("HINCRBY") => command.args().get(1..2)?,
        () => return None,
    };
    let pair = fields.chunks(2).find(|pair| pair[0] != b"mode")?;
    let is_name = is_named && !pair[0].iter().any(u8::is_ascii_digit);
    let value = pair.get(1).filter(|value| is_name && is_token(value));
    Some((command, value.unwrap_or(&pair[0]).clone()))
}

const READS: [&str; 11] =
    ["GET", "MGET", "EXISTS", "HEXISTS", "HGET", "HMGET", "HGETALL", "PTTL", "TTL", "TYPE", "HLEN"];

/// What a unit does to one key; whether that is something that locks do.
fn on_key(watcher: &mut Watcher, place: &LockPlace<'_>, unit: &Unit, script: Option<u64>) -> bool {
    if on_permits(watcher, place, unit) {
        return true;
    }
    let is_of_key = |command: &&CommandWords| command.arg(1) == Some(place.key) && !command.is("PUBLISH");
    let of_key = || unit.commands.iter().filter(is_of_key);
    let effects_only = watcher.options.effects_only;
    let watches = unit.kind == UnitKind::WatchedTransaction;
    let is_checked = watches || of_key().next().is_some_and(|command| command.is_one_of(&READS));
    let find = |names: &[&str]| of_key().find(|command| command.is_one_of(names));
    let end_set = |command: &CommandWords| {
        expire_until_us(watcher, place, command).or_else(|| written(command, place.time_us)?.1.until_us)
    };
    let until_us = of_key().find_map(end_set);
    // After a command that may have been refused, and a look at whose the lock is.
    let mut after_look = of_key().skip(1).skip_while(|command| !command.is("GET"));
    let own_until_us = after_look.find_map(|command| expire_until_us(watcher, place, command));
    let arguments = unit.call.as_ref().map_or(&[][..], CommandWords::args);
    // The argument that is the value of somebody who has the lock or asked for it.
    let known_owner =
        |watcher: &Watcher| arguments.iter().skip(1).find(|word| watcher.knows_owner(place, word)).cloned();
    let names = of_key().take(6).map(|command| String::from_utf8_lossy(command.name()));
    let inner = names.collect::<Vec<_>>().join(" ");
    let text = unit.call.as_ref().filter(|call| call.is("EVAL")).and_then(|call| call.arg(1));
    let attempt = |recipe, value: &[u8], until_us| attempt(place, recipe, value, until_us, true);
    let writes = ["set", "hset", "hincrby", "setnx", "msetnx", "zadd"];
    let trace = |value| LibraryTrace {
        value,
        script: text,
        inner: &inner,
        takes: inner.split(' ').any(|word| writes.iter().any(|known| word.eq_ignore_ascii_case(known))),
    };
    // Who has the lock and writes it again renews it; anybody else is granted it.
    let renew_or_grant = |watcher: &Watcher, recipe, value: &[u8], until_us, is_checked| {
        let is_holder = watcher.holder_is(place, value) == Some(true);
        match is_holder {
            true => LockAct::Renew(change(place, Some(value), is_checked, true), until_us),
            false => LockAct::Attempt(attempt(recipe, value, until_us), AttemptOutcome::Granted),
        }
    };
    let (owner, act): (Option<Vec<u8>>, LockAct);
    let (mut takes, mut next) = (None, None);
    let field = |command: &CommandWords| command.arg(2).unwrap_or_default().to_vec();
    let is_named = sounds_like_a_lock(place.key);
    // One of several holders, whose script may take a mark of the others' away.
    let added = find(&["ZADD"]).filter(|_| find(&["ZREMRANGEBYSCORE"]).is_some());
    let removed = find(&["DEL", "UNLINK", "GETDEL", "HDEL", "ZREM", "DELEX", "DELIFEQ"]);
    if let Some(removed) = removed.filter(|_| added.is_none()) {
        let lowered = || find(&["HINCRBY"]).filter(|command| command.number(3) == Some(-1));
        let hash_field = find(&["HDEL", "ZREM"]).or_else(lowered).map(field);
        // A key that is cleared and written again is no release.
        let written = find(&["SET", "HSET"]).filter(|command| command.number(3) != Some(-1));
        let taken_again = written.is_some() && removed.is("DEL");
        if !watcher.is_followed(place) && hash_field.is_none() || taken_again && hash_field.is_none() {
            return false;
        }
        owner = hash_field.clone().or_else(|| known_owner(watcher));
        // A field names its owner; that it was there, nobody says.
        let is_checked = is_checked || effects_only || hash_field.is_some();
        let is_there = |field: &Vec<u8>| watcher.holder_is(place, field) != Some(false);
        let was_done = hash_field.as_ref().is_none_or(is_there);
        act = LockAct::Release(change(place, owner.as_deref(), is_checked, was_done));
        // A queue's release hands the lock to the next in line.
        next = of_key().find(|command| command.is("HSET") && Some(field(command)) != owner);
    } else if let Some(set) = find(&["SET", "SETNX", "MSETNX", "SETEX", "PSETEX"])
        && let Some((value, SetOptions { nx: is_new, keeps_end, .. })) = written(set, place.time_us)
    {
        let kept_us = keeps_end.then(|| watcher.held_until_us(place)).flatten().flatten();
        let until_us = until_us.or(kept_us);
        let is_number = value.len() < 10 && value.iter().all(u8::is_ascii_digit);
        let is_shared = watcher.lock_at(place).is_none_or(|lock| lock.is_shared);
        if until_us.is_none() && is_number && is_shared {
            // How many permits there are.
            return false;
        }
        let is_lock = match effects_only {
            true => until_us.is_some() && is_token(value),
            false => is_checked || is_new || until_us.is_some() && is_named,
        };
        if !is_lock && !watcher.is_followed(place) {
            return false;
        }
        let recipe = if watches { WATCH_MULTI } else { SCRIPT_SET };
        // One that was never seen to refuse may accept the value that it finds, as what completes a record.
        let refuses = script.and_then(|script| watcher.scripts.get(&script)).is_some_and(|role| role.refuses);
        let accepts = !refuses && find(&["GET"]).is_some() && watcher.held_until_us(place).is_some();
        act = match (effects_only, is_new) {
            (true, _) => LockAct::Attempt(attempt(PLAIN_SET, value, until_us), AttemptOutcome::Overwritten),
            (_, true) if own_until_us.is_some() => {
                LockAct::Renew(change(place, Some(value), true, true), own_until_us)
            }
            (_, true) => {
                // The end is set where it was granted.
                let outcome = match (set.is("MSETNX"), until_us) {
                    (true, Some(_)) => AttemptOutcome::Granted,
                    (true, None) => AttemptOutcome::Refused,
                    _ => AttemptOutcome::ByKey,
                };
                LockAct::Attempt(attempt(SET_NX, value, until_us), outcome)
            }
            _ if accepts && watcher.holder_is(place, value) == Some(false) => {
                LockAct::Attempt(attempt(recipe, value, until_us), AttemptOutcome::OverwrittenIfThere)
            }
            _ => renew_or_grant(watcher, recipe, value, until_us, is_checked),
        };
        takes = Some(recipe);
        owner = Some(value.to_vec());
    } else if let Some((written, value)) = of_key().find_map(|command| owner_written(command, is_named)) {
        let is_less = written.number(3).is_some_and(|number| number < 0);
        // A reader whose lease ends first leaves the key's end; a key beside has its own.
        let is_beside = |command: &&CommandWords| command.arg(1).is_some_and(|key| has_tag(key, place.key));
        let mut beside = unit.commands.iter().filter(is_beside);
        let until_us = until_us.or_else(|| beside.find_map(end_set));
        // A script that takes a lock looks first, and its field names an owner: others count or keep records.
        let is_of_readers = of_key().any(|command| command.arg(2) == Some(b"mode"));
        let has_looked = is_of_readers || find(&["EXISTS", "HEXISTS", "PTTL", "TTL", "TYPE"]).is_some();
        let is_number = value.iter().all(u8::is_ascii_digit);
        let is_lock = !is_number
            && match effects_only {
                true => is_token(&value),
                false => has_looked && value.iter().any(u8::is_ascii_digit),
            };
        if !(watcher.is_followed(place) || is_lock && until_us.is_some()) {
            return false;
        }
        if is_of_readers {
            watcher.share(place);
        }
        let change = change(place, Some(&value), is_checked, true);
        act = match is_less {
            true => LockAct::Release(HoldChange { one_level: true, ..change }),
            false => LockAct::Attempt(attempt(HASH, &value, until_us), AttemptOutcome::Granted),
        };
        takes = (!is_less).then_some(HASH);
        owner = Some(value);
    } else if let Some(added) = added {
        let member = added.args().last().cloned().unwrap_or_default();
        watcher.share(place);
        let act = renew_or_grant(watcher, SORTED_SET, &member, until_us, true);
        watcher.act(place, &trace(&member), act);
        return true;
    } else if let Some(until_us) = until_us {
        let asked =
            find(&["HEXISTS", "HGET"]).map(field).filter(|field| field.iter().any(u8::is_ascii_digit));
        owner = asked.or_else(|| known_owner(watcher));
        if owner.is_none() && !watcher.is_followed(place) {
            return false;
        }
        let change = change(place, owner.as_deref(), is_checked || effects_only, true);
        act = match until_us <= place.time_us {
            true => LockAct::Release(change),
            false => LockAct::Renew(change, Some(until_us)),
        };
    } else {
        return false;
    }
    watcher.act(place, &trace(owner.as_deref().unwrap_or_default()), act);
    if let (Some(next), Some(_)) = (next, until_us) {
        let mut attempt = attempt(HASH, &field(next), until_us);
        // It waits by another connection than the releaser's.
        attempt.owner.client = 0;
        watcher.change(place, LockAct::Attempt(attempt, AttemptOutcome::Granted));
    }
    let is_whole = text.is_some_and(|text| text.len() > 40);
    watcher.count(place, |pattern| {
        pattern.scripts += u64::from(unit.kind == UnitKind::Script);
        pattern.whole_scripts += u64::from(is_whole);
    });
    if let (Some(script), Some(owner)) = (script, &owner)
        && watcher.scripts.len() < 10_000
    {
        let position = |wanted: &[u8]| arguments.iter().position(|word| word == wanted);
        let known = watcher.scripts.entry(script).or_default();
        known.takes = known.takes.or(takes);
        known.releases |= matches!(act, LockAct::Release(_));
        known.key_arg = position(place.key);
        known.owner_arg = position(owner).or(known.owner_arg);
    }
    true
}

/// A script that only looked: what it tried is known from the times when it wrote.
fn without_effect(watcher: &mut Watcher, place: &LockPlace<'_>, unit: &Unit, script: u64) {
    let Some(role) = watcher.scripts.get(&script).copied() else { return };
    let argument = |at: Option<usize>| unit.call.as_ref()?.args().get(at?);
    let (Some(key), Some(owner)) = (argument(role.key_arg), argument(role.owner_arg)) else { return };
    let place = LockPlace { key, ..*place };
    if watcher.held_until_us(&place).is_some() {
        watcher.scripts.entry(script).and_modify(|role| role.refuses = true);
    }
    let looks_at_key = unit.commands.iter().any(|command| command.arg(1) == Some(place.key));
    let change = change(&place, Some(owner), looks_at_key, false);
    let act = match role.takes {
        Some(recipe) => LockAct::Attempt(attempt(&place, recipe, owner, None, true), AttemptOutcome::Refused),
        None if role.releases => LockAct::Release(change),
        None => LockAct::Renew(change, None),
    };
    let trace = LibraryTrace { value: owner, ..LibraryTrace::default() };
    // One that asks for more than the owner may renew only a lease that is nearly over.
    let asks_for_owner = matches!(&unit.commands[..], [read] if read.is_one_of(&["GET", "HEXISTS", "HGET"]));
    match act {
        LockAct::Renew(..) if !asks_for_owner => watcher.count_command(&place, &trace),
        act => watcher.act(&place, &trace, act),
    }
}
