//! Recognises permits: a number from which a script takes some and to which it adds them again.

use crate::watch::lock::lock_state::{AttemptOutcome, LockAct};
use crate::watch::recognition::patterns::LibraryTrace;
use crate::watch::recognition::recipe_table::PERMITS;
use crate::watch::recognition::recipes::{attempt, change, end_us, has_tag, sounds_like_a_lock};
use crate::watch::recognition::units::{CommandWords, Unit};
use crate::watch::watcher::{LockPlace, Watcher};

/// What a script does to a number of permits, with a set of who has them; whether it is one of these.
pub(crate) fn on_permits(watcher: &mut Watcher, place: &LockPlace<'_>, unit: &Unit) -> bool {
    let commands = &unit.commands;
    let of_key = |name: &str| commands.iter().find(|one| one.is(name) && one.arg(1) == Some(place.key));
    let is_beside = |one: &CommandWords| one.arg(1).is_some_and(|key| has_tag(key, place.key));
    let beside = |name: &str| commands.iter().find(|one| one.is(name) && is_beside(one));
    let (taken, added) = (of_key("DECRBY").is_some(), of_key("INCRBY").is_some());
    // Other numbers are counters: of these a name or what lies beside them tells.
    let is_named = || sounds_like_a_lock(place.key) || commands.iter().any(is_beside);
    let takes = taken && of_key("GET").is_some() && is_named();
    if !takes && watcher.held_by_recipe(place) != Some(PERMITS) {
        return false;
    }
    let member = |command: &CommandWords| command.args().last().cloned().unwrap_or_default();
    let asked = ["ZADD", "ZREM", "ZSCORE"].into_iter().find_map(beside);
    // A record of the acquire, else the moment: permits of one connection are not one hold.
    let record = || beside("SET").and_then(|set| set.arg(1)).map(<[u8]>::to_vec);
    let moment = || format!("{}:{}", place.client, place.time_us).into_bytes();
    let value = asked.map(member).or_else(record).unwrap_or_else(moment);
    let until_us = beside("ZADD").and_then(|added| end_us(0, added.number(2), 1_000));
    let trace = LibraryTrace { value: &value, takes: taken, ..LibraryTrace::default() };
    let attempt = attempt(place, PERMITS, &value, until_us, true);
    let change = change(place, asked.map(|_| value.as_slice()), true, true);
    let is_removed = beside("ZREM").is_some();
    watcher.share(place);
    let act = match () {
        () if taken => LockAct::Attempt(attempt, AttemptOutcome::Granted),
        () if added && (is_removed || beside("ZREMRANGEBYSCORE").is_none()) => LockAct::Release(change),
        () if until_us.is_some() => LockAct::Renew(change, until_us),
        () if beside("ZSCORE").is_some() && !is_removed => LockAct::Attempt(attempt, AttemptOutcome::Refused),
        // Permits whose lease is over, or a script that only looked.
        () => {
            watcher.count_command(place, &trace);
            return true;
        }
    };
    watcher.act(place, &trace, act);
    true
}
