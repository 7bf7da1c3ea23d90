//! Models of the kinds of lock-core with a line, made of their scripts; every order of events is tried (by
//! stateright): exclusion, the order of arrival and progress, with a crash at any point, lost answers, lost
//! messages and leases that end.
//!
//! The scripts are the library's own, run by the same language over a small server in memory. Each proof has
//! broken twins, the same scripts with one piece replaced, which must be convicted. They stand here since
//! this crate is optimised in tests, too: millions of states are cloned and hashed.

#[path = "lock_orders/fair.rs"]
mod fair;
#[path = "lock_orders/lua.rs"]
mod lua;
#[path = "lock_orders/model.rs"]
mod model;
#[path = "lock_orders/queued.rs"]
mod queued;
#[path = "lock_orders/store.rs"]
mod store;
mod support;

use std::collections::BTreeSet;

use fair::Fair;
use model::{Orders, Rules};
use queued::Queued;
use simulation::server::Reply;
use stateright::{Checker, HasDiscoveries, Model};
use store::{Answer, Store};
use support::{Real, programs};

/// The same, with a change of the master in between.
fn after_a_failover<R>(orders: Orders<R>) -> Orders<R> {
    Orders { failovers: 1, ..orders }
}

/// Every order of two clients with faults of each kind, and of three with a crash; and of a client with two
/// owners beside another, and of one with three; where clients are counted before they are told, also of
/// clients who listen at another node.
fn orders<R: Rules + Clone>(rules: &R) -> Vec<Orders<R>> {
    let order = |clients, mates, steps, losses, ticks| Orders {
        rules: rules.clone(),
        clients,
        mates,
        steps,
        crashes: 1,
        losses,
        ticks,
        failovers: 0,
    };
    // The small ones first: most broken twins are convicted there.
    let mut orders = vec![order(2, 1, 4, 1, 2)];
    if rules.shares_places() {
        orders.extend([order(2, 2, 4, 1, 2), order(3, 3, 3, 1, 1), order(3, 2, 3, 0, 1)]);
        orders.extend([order(2, 1, 4, 1, 1), order(3, 1, 3, 0, 0)].map(after_a_failover));
    }
    orders.push(order(3, 1, 4, 0, 1));
    orders
}

fn prove<R: Rules + Clone>(rules: &R) {
    for model in orders(rules) {
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
    }
}

#[test]
fn a_queued_lock_keeps_its_promises_in_every_order() {
    prove(&Queued::new());
}

#[test]
fn a_fair_lock_keeps_its_promises_in_every_order() {
    prove(&Fair::new());
}

/// A broken twin must be convicted, and of that.
fn convict<R: Rules + Clone>(rules: &R, of: &'static str) {
    for model in orders(rules) {
        let found = HasDiscoveries::AnyOf(BTreeSet::from([of]));
        let checker = model.checker().threads(2).finish_when(found);
        let checker = checker.spawn_bfs().join();
        if checker.discovery(of).is_some() {
            return;
        }
    }
    panic!("nothing is found against it");
}

const EXCLUSION: &str = "who believes to hold the lock holds it";
const ORDER: &str = "who came first enters first";
const PROGRESS: &str = "everybody who lives gets the lock";

#[test]
fn a_queued_lock_that_does_not_look_whether_it_is_free_is_convicted() {
    convict(&Queued::new().with("if left == -2 then", "if true then"), EXCLUSION);
}

#[test]
fn a_queued_lock_that_lets_a_newcomer_in_is_convicted() {
    let piece = "if not behind then\n        if placed";
    let by = "if true then\n        if placed";
    convict(&Queued::new().with(piece, by), ORDER);
}

#[test]
fn a_queued_lock_that_nobody_passes_on_after_a_crash_is_convicted() {
    let piece = "if left == -2 and pass(";
    let by = "if left == -9 and pass(";
    convict(&Queued::new().with(piece, by), PROGRESS);
}

#[test]
fn a_queued_lock_that_gives_without_a_lease_is_convicted() {
    let piece = "redis.pcall('pexpire', lock, lease) ~= 1";
    convict(&Queued::new().with(piece, "false"), PROGRESS);
}

#[test]
fn a_queued_lock_that_stays_in_a_client_for_ever_is_convicted() {
    let piece = "if not behind then\n    local token";
    let by = "if true then\n    local token";
    convict(&Queued::new().with(piece, by), ORDER);
}

#[test]
fn a_queued_lock_whose_successor_gets_it_from_a_former_holder_is_convicted() {
    let piece = "if redis.call('hdel', lock, ARGV[1]) == 0 then";
    let by = "redis.call('hdel', lock, ARGV[1])\nif false then";
    convict(&Queued::new().with(piece, by), EXCLUSION);
}

#[test]
fn a_queued_lock_that_tells_before_it_knows_who_listens_is_convicted() {
    let piece = "or publish ~= 'SPUBLISH' and listens('numsub', channel)";
    let by = "or redis.call('publish', channel, owner .. ' 1 ' .. string.format('%.0f', now) .. ' 2000') > 0";
    convict(&Queued::new().with(piece, by), EXCLUSION);
}

#[test]
fn a_fair_lock_that_does_not_look_whether_it_is_free_is_convicted() {
    convict(&Fair::new().with("local free, waits = left == -2,", "local free, waits = true,"), EXCLUSION);
}

#[test]
fn a_fair_lock_that_lets_a_newcomer_in_is_convicted() {
    convict(&Fair::new().with("if not called or called == owner then", "if true then"), ORDER);
}

#[test]
fn a_fair_lock_that_waits_for_a_waiter_that_was_called_is_convicted() {
    convict(&Fair::new().with("if proven and spent >= tonumber(grace) then", "if false then"), PROGRESS);
}

#[test]
fn a_fair_lock_that_serves_the_last_one_first_is_convicted() {
    convict(
        &Fair::new().with("redis.call('rpush', queue, owner)", "redis.call('lpush', queue, owner)"),
        ORDER,
    );
}

#[test]
fn a_fair_lock_whose_dead_stay_for_ever_is_convicted() {
    let piece = "redis.pcall('pexpire', queue, ms)";
    convict(&Fair::new().with(piece, "1"), PROGRESS);
}

/// What a command of the scripts may look like: words, and sets of words to choose from.
const COMMANDS: &[&[&str]] = &[
    &["EXISTS", "KEY"],
    &["DEL", "KEY"],
    &["PTTL", "KEY"],
    &["PEXPIRE", "KEY", "1000000000"],
    &["GET", "KEY"],
    &["INCR", "KEY"],
    &["SET", "KEY", "VALUE"],
    &["SET", "KEY", "VALUE", "px", "1000000000", "nx"],
    &["LINDEX", "KEY", "0"],
    &["LPOP", "KEY"],
    &["LRANGE", "KEY", "0", "-1"],
    &["RPUSH", "KEY", "VALUE"],
    &["LREM", "KEY", "0", "VALUE"],
    &["LPOS", "KEY", "VALUE"],
    &["ZADD", "KEY", "7", "VALUE"],
    &["ZADD", "KEY", "9", "VALUE"],
    &["ZADD", "KEY", "gt", "8", "VALUE"],
    &["ZSCORE", "KEY", "VALUE"],
    &["ZREM", "KEY", "VALUE"],
    &["ZPOPMIN", "KEY"],
    &["ZRANGE", "KEY", "0", "1", "withscores"],
    &["ZRANGE", "KEY", "1", "1"],
    &["ZRANGE", "KEY", "-1", "-1", "withscores"],
    &["HGET", "KEY", "VALUE"],
    &["HMGET", "KEY", "VALUE", "VALUE"],
    &["HEXISTS", "KEY", "VALUE"],
    &["HSET", "KEY", "VALUE", "VALUE"],
    &["HSET", "KEY", "VALUE", "5", "VALUE", "6"],
    &["HDEL", "KEY", "VALUE", "VALUE"],
    &["HINCRBY", "KEY", "VALUE", "-1"],
    &["PUBLISH", "KEY", "VALUE"],
    &["PUBSUB", "NUMSUB", "KEY"],
    &["PUBSUB", "SHARDNUMSUB", "KEY"],
];

fn written(answer: &Answer) -> String {
    match answer {
        Answer::Nil => String::new(),
        Answer::Ok => "OK".to_owned(),
        Answer::Int(number) => number.to_string(),
        Answer::Text(text) => text.clone(),
        Answer::Many(parts) => parts.iter().map(written).collect::<Vec<_>>().join("\n"),
    }
}

/// What the real server answered, in the same form.
fn read(reply: &Reply) -> String {
    match reply {
        Reply::Nil | Reply::NilArray => String::new(),
        Reply::Status(text) => text.to_string(),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Array(parts) => parts.iter().map(read).collect::<Vec<_>>().join("\n"),
        Reply::Error(text) => format!("-{text}"),
    }
}

/// What is not the same twice: the time that is left.
fn blurred(command: &str, answer: String) -> String {
    match answer.parse::<i64>() {
        Ok(left) if command == "PTTL" && left > 0 => "some".to_owned(),
        _ => answer,
    }
}

/// The models are worth as much as the server that they run on.
#[test]
fn the_server_of_the_models_answers_as_the_real_one() {
    use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
    let server = Real::start_with_time(&programs()[0].0, &[]);
    let mut line = server.connect();
    let mut store = Store::at(1_000_000_000);
    let mut dice = StdRng::seed_from_u64(7);
    for _ in 0..4000 {
        let shape = COMMANDS.choose(&mut dice).expect("some");
        let words: Vec<String> = (shape.iter())
            .map(|word| match *word {
                "KEY" => format!("k{}", dice.random_range(0..4)),
                "VALUE" => dice.random_range(1..4).to_string(),
                word => word.to_owned(),
            })
            .collect();
        let parts: Vec<&str> = words.iter().map(String::as_str).collect();
        let command: Vec<_> = words.iter().map(|word| word.clone().into_bytes()).collect();
        let (real, _) = Reply::read(&line.ask(&command)).expect("an answer");
        let real = blurred(parts[0], read(&real));
        match store.call(&words) {
            Ok(answer) => assert_eq!(blurred(parts[0], written(&answer)), real, "{parts:?}"),
            Err(_) => assert!(real.starts_with('-'), "{parts:?} is answered {real:?}"),
        }
    }
}
