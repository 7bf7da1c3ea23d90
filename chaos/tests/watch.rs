//! What `locklab watch` sees in traffic: each recipe's holds, each finding, and nothing where there is
//! nothing.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use chaos::watch::{WatchOptions, WatchedTraffic, Watcher, read_bytes};
use cluster_config::MonitorLine;
use proptest::prelude::*;
use results::history::Line;
use results::watch::{Certainty, WatchFinding, WatchedLock};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const A: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
const B: &str = "22222222-aaaa-4bbb-8ccc-000000000002";
const C: &str = "33333333-aaaa-4bbb-8ccc-000000000003";

/// MONITOR's text, line by line.
#[derive(Default)]
struct Traffic(String);

impl Traffic {
    /// A command of a client; a client of 0 is a script.
    fn line(mut self, ms: u64, client: u16, words: &[&str]) -> Self {
        let client = match client {
            0 => "lua".to_owned(),
            port => format!("127.0.0.1:{port}"),
        };
        let (seconds, micros) = (1_700_000_000 + ms / 1000, ms % 1000 * 1000);
        write!(self.0, "{seconds}.{micros:06} [0 {client}]").unwrap();
        for word in words {
            let word = word.replace('\\', "\\\\").replace('"', "\\\"");
            write!(self.0, " \"{word}\"").unwrap();
        }
        self.0.push('\n');
        self
    }

    /// An attempt by SET NX PX.
    fn set(self, ms: u64, client: u16, value: &str, lease_ms: u64) -> Self {
        self.line(ms, client, &["SET", "order:1", value, "NX", "PX", &lease_ms.to_string()])
    }

    /// The script of a release; `done`: the value was there.
    fn release(self, ms: u64, client: u16, value: &str, done: bool) -> Self {
        let called = self.line(ms, client, &["EVAL", RELEASE, "1", "order:1", value]);
        let looked = called.line(ms, 0, &["get", "order:1"]);
        match done {
            true => looked.line(ms, 0, &["del", "order:1"]),
            false => looked,
        }
    }

    /// Holds before what a test is about, so that nothing is open about the beginning.
    fn begun() -> Self {
        Traffic::default().set(0, 5001, A, 1000).release(10, 5001, A, true)
    }

    fn seen(&self) -> WatchedTraffic {
        read_bytes(self.0.as_bytes(), WatchOptions::default()).expect("it is MONITOR's text").finish()
    }
}

fn kinds(seen: &WatchedTraffic) -> Vec<(String, Certainty)> {
    let findings = seen.report.findings.iter();
    findings.map(|one| (one.kind.clone(), one.certainty)).collect()
}

fn finding<'a>(seen: &'a WatchedTraffic, kind: &str) -> &'a WatchFinding {
    let found = seen.report.findings.iter().find(|one| one.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {:?}", seen.report.findings))
}

#[test]
fn a_sound_lock_is_counted_and_has_no_finding() {
    let traffic = Traffic::begun()
        .set(20, 5002, B, 1000)
        .set(30, 5001, A, 1000)
        .set(40, 5001, A, 1000)
        .release(50, 5002, B, true)
        .set(60, 5001, A, 1000)
        // Its lease ends at 1060, and another comes a second later.
        .set(2500, 5002, B, 1000)
        .release(2600, 5002, B, true);
    let seen = traffic.seen();
    assert_eq!(kinds(&seen), []);
    let lock = &seen.report.locks[0];
    assert_eq!((lock.pattern.as_str(), lock.recipe.as_str()), ("order:*", "SET NX"));
    assert_eq!((lock.grants, lock.refusals, lock.released, lock.expired), (4, 2, 3, 1));
    assert_eq!(lock.lease_ms, Some(1000.0));
    let waited = lock.wait_ms.max.expect("somebody waited");
    assert!((29.0..32.0).contains(&waited), "{waited}");
}

#[test]
fn who_had_it_before_the_watch_is_not_invented() {
    // B is refused by a holder from before; it is known only when that one releases.
    let traffic = Traffic::default()
        .set(0, 5002, B, 60_000)
        .release(5, 5001, A, true)
        .set(10, 5003, C, 60_000)
        .release(20, 5003, C, true);
    let lock = &traffic.seen().report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.released), (1, 1, 1));
}

#[test]
fn a_key_that_another_deletes_is_an_overlap_where_the_next_one_gets_in() {
    let begun = (0..5).fold(Traffic::default(), |traffic, round| {
        traffic.set(round * 10, 5001, A, 1000).release(round * 10 + 5, 5001, A, true)
    });
    let traffic = begun
        .set(100, 5001, A, 10_000)
        .line(200, 5009, &["DEL", "order:1"])
        .set(300, 5002, B, 10_000)
        .release(400, 5001, A, false)
        .release(500, 5002, B, true);
    let seen = traffic.seen();
    let overlap = finding(&seen, "overlap");
    assert_eq!(
        (overlap.certainty, overlap.count, overlap.lock.as_str()),
        (Certainty::Violated, 1, "order:1")
    );
    assert_eq!(overlap.worst_ms, Some(9_800.0));
    assert!(overlap.picture.is_some());
    // All of it over time: seven holds of one lock, of which the server's fault ended none.
    let held = seen.report.held.as_ref().expect("holds");
    let drawn = held.holds.iter().map(|hold| {
        let ended_ms = hold.to_ns.map(|ns| ns / 1_000_000);
        (hold.client.as_str(), hold.from_ns / 1_000_000, ended_ms, hold.ended_by.as_str())
    });
    let drawn = drawn.skip(4);
    let expected = [
        ("order:1", 40, Some(45), "release"),
        // These go on until the end or beyond it.
        ("order:1", 100, None, "lease"),
        ("order:1", 300, None, "release"),
    ];
    assert_eq!(drawn.collect::<Vec<_>>(), expected);
    let over_time = seen.report.over_time.as_ref().expect("grants");
    assert_eq!(over_time.grants.iter().sum::<u32>(), 7);
    let text = overlap.first.join("\n");
    for words in ["deletes it", "127.0.0.1:5009", "two holders"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(finding(&seen, "released-by-another").certainty, Certainty::Sure);
}

#[test]
fn a_second_holder_that_is_known_late_is_an_overlap_all_the_same() {
    // The server lost the key of A; only what B does when A's lease is over tells that B was granted the
    // lock.
    let seen = Traffic::begun()
        .set(100, 5001, A, 5_000)
        .set(300, 5002, B, 10_000)
        .release(6_000, 5002, B, true)
        .seen();
    assert_eq!(finding(&seen, "overlap").worst_ms, Some(4_800.0));
    // Neither of those that come one after the other.
    let seen = Traffic::begun()
        .set(100, 5001, A, 5_000)
        .set(300, 5002, B, 10_000)
        .set(5_200, 5002, B, 10_000)
        .release(6_000, 5002, B, true)
        .seen();
    assert_eq!(kinds(&seen), []);
}

#[test]
fn a_holder_that_gives_back_what_the_server_has_lost_holds_it_no_longer() {
    let lost = Traffic::begun()
        .set(100, 5001, A, 10_000)
        .line(200, 5009, &["FLUSHALL"])
        .release(250, 5001, A, false)
        .set(300, 5002, B, 10_000)
        .release(400, 5002, B, true);
    assert_eq!(kinds(&lost.seen()), [("lost-by-server".to_owned(), Certainty::Sure)]);
}

#[test]
fn a_release_that_looks_at_its_own_record_alone_says_nothing_of_the_key() {
    let again = Traffic::begun().set(20, 5001, A, 1000).line(30, 5001, &["EVAL", RELEASE, "1", "order:1", A]);
    let of_an_earlier_acquire = |key: &str| {
        let looked = Traffic(again.0.clone()).line(30, 0, &["get", key]);
        kinds(&looked.release(40, 5001, A, true).seen())
    };
    assert_eq!(of_an_earlier_acquire("records:{order:1}:7"), []);
    assert_eq!(of_an_earlier_acquire("order:1"), [("lost-by-server".to_owned(), Certainty::Sure)]);
}

#[test]
fn a_grant_that_was_a_dying_servers_last_command_accuses_nobody() {
    let seen = |last_ms: u64| {
        let traffic = Traffic::begun().set(1_000, 5001, A, 60_000).line(last_ms, 5002, &["PING"]);
        let options = WatchOptions::default();
        let mut watcher = read_bytes(traffic.0.as_bytes(), options).expect("it is MONITOR's text");
        watcher.unanswered(0, (1_700_000_000_000 + last_ms) * 1_000);
        watcher.lost(0);
        watcher.finish()
    };
    assert_eq!(kinds(&seen(1_001)), []);
    assert_eq!(kinds(&seen(1_100)), [("lost-by-server".to_owned(), Certainty::Sure)]);
}

#[test]
fn a_flush_and_an_eviction_under_a_holder_are_overlaps_too() {
    let flushed = Traffic::begun()
        .set(100, 5001, A, 10_000)
        .line(200, 5009, &["FLUSHALL"])
        .set(300, 5002, B, 10_000)
        .release(400, 5002, B, true);
    let seen = flushed.seen();
    finding(&seen, "lost-by-server");
    finding(&seen, "overlap");
    // Nobody deletes it, and B, which should have been refused, releases it.
    let evicted =
        Traffic::begun().set(100, 5001, A, 10_000).set(300, 5002, B, 10_000).release(400, 5002, B, true);
    let seen = evicted.seen();
    assert_eq!(finding(&seen, "overlap").certainty, Certainty::Violated);
    finding(&seen, "lost-by-server");
    assert_eq!(seen.report.locks[0].grants, 3);
}

#[test]
fn a_lock_that_is_stolen_by_a_plain_set_is_an_overlap() {
    let stolen = Traffic::begun()
        .set(100, 5001, A, 10_000)
        .line(200, 5002, &["SET", "order:1", B, "PX", "10000"])
        .release(300, 5002, B, true);
    finding(&stolen.seen(), "overlap");
}

#[test]
fn a_holder_that_comes_back_late_is_likely_and_no_proof() {
    let late = Traffic::begun()
        .set(100, 5001, A, 1_000)
        .set(1500, 5002, B, 1_000)
        .release(1700, 5001, A, false)
        .release(1800, 5002, B, true);
    let seen = late.seen();
    assert_eq!(kinds(&seen), [("outlived-its-lease".to_owned(), Certainty::Likely)]);
    assert_eq!(finding(&seen, "outlived-its-lease").worst_ms, Some(600.0));
}

#[test]
fn an_attempt_at_the_end_of_a_lease_is_decided_by_what_follows() {
    // B asks within the doubt of A's end; that it asks again shows that it was refused, that it releases,
    // that it was granted.
    let refused = Traffic::begun()
        .set(100, 5001, A, 1_000)
        .set(1101, 5002, B, 1_000)
        .set(1150, 5002, B, 1_000)
        .release(1200, 5002, B, true);
    let lock = refused.seen().report.locks[0].clone();
    assert_eq!((lock.grants, lock.refusals, lock.expired, lock.released), (3, 1, 1, 2));
    let granted =
        Traffic::begun().set(100, 5001, A, 1_000).set(1101, 5002, B, 1_000).release(1200, 5002, B, true);
    let lock = granted.seen().report.locks[0].clone();
    assert_eq!((lock.grants, lock.refusals, lock.expired, lock.released), (3, 0, 1, 2));
    assert_eq!(kinds(&granted.seen()), []);
}

#[test]
fn two_steps_and_no_end_are_found() {
    let mut traffic = Traffic::default();
    for round in 0..3 {
        let ms = round * 100;
        traffic = traffic
            .line(ms, 5001, &["SETNX", "job", "1"])
            .line(ms + 20, 5001, &["EXPIRE", "job", "30"])
            .line(ms + 50, 5001, &["DEL", "job"]);
    }
    let seen = traffic.line(400, 5001, &["SETNX", "job", "1"]).line(450, 5001, &["DEL", "job"]).seen();
    let gap = finding(&seen, "expiry-set-later");
    assert_eq!((gap.certainty, gap.count, gap.worst_ms), (Certainty::Sure, 3, Some(20.0)));
    assert_eq!(finding(&seen, "no-expiry").count, 1);
    assert_eq!(finding(&seen, "release-without-owner-check").count, 4);
}

/// Nodes may give a lock their addresses as values.
#[test]
fn addresses_that_share_a_name_or_have_several_are_of_locks() {
    for (names, hosts) in [(1, 2), (2, 1)] {
        let traffic = (0..8).fold(Traffic::default(), |traffic, round| {
            let (ms, client) = (round * 100, 5001 + round as u16 % 2);
            let (name, host) =
                (format!("job:{}", round % names), format!("10.0.0.{}:8080", round / 2 % hosts));
            let taken = traffic.line(ms, client, &["SETNX", &name, &host]);
            taken.line(ms + 10, client, &["EXPIRE", &name, "30"]).line(ms + 20, client, &["DEL", &name])
        });
        assert_eq!(finding(&traffic.seen(), "expiry-set-later").count, 8);
    }
}

#[test]
fn a_late_plain_delete_is_an_overlap_where_connections_tell_holders_apart() {
    let mut traffic = Traffic::default();
    for round in 0..6 {
        traffic = traffic.set(round * 100, 5001, A, 10_000).line(round * 100 + 50, 5001, &["DEL", "order:1"]);
    }
    let traffic = traffic
        .set(1_000, 5001, A, 500)
        .set(2_000, 5002, B, 10_000)
        // A's, which is late, and then B's own.
        .line(2_100, 5001, &["DEL", "order:1"])
        .set(2_200, 5003, C, 10_000)
        .line(2_300, 5002, &["DEL", "order:1"]);
    let seen = traffic.seen();
    finding(&seen, "overlap");
    finding(&seen, "released-by-another");
}

#[test]
fn a_free_lock_that_refuses_one_was_granted_to_the_one_before() {
    let mut traffic = Traffic::default();
    for round in 0..6 {
        let ms = round * 100;
        traffic = traffic.set(ms, 5001, A, 10_000).line(ms + 50, 5001, &["DEL", "order:1"]);
    }
    let seen = traffic
        .set(1_000, 5001, A, 500)
        // B comes within the doubt of A's end, C after it; C is refused, so B has it when A's late DEL comes.
        .set(1_501, 5002, B, 1_000)
        .set(1_504, 5003, C, 1_000)
        .set(1_508, 5003, C, 1_000)
        .line(1_600, 5001, &["DEL", "order:1"])
        .set(1_601, 5003, C, 1_000)
        .line(1_700, 5002, &["DEL", "order:1"])
        .seen();
    assert_eq!(finding(&seen, "overlap").certainty, Certainty::Violated);
    assert_eq!(seen.report.locks[0].grants, 9);
}

/// Cycles of one client: the lock is taken with this lease, and given back by a plain DEL after so long.
fn cycles(count: u64, lease_ms: u64, held_ms: u64) -> Traffic {
    (0..count).fold(Traffic::default(), |traffic, round| {
        traffic.set(round * 1_000, 5001, A, lease_ms).line(round * 1_000 + held_ms, 5001, &["DEL", "order:1"])
    })
}

#[test]
fn what_a_late_holder_writes_is_revived_or_extends_anothers_hold() {
    // A's lease ends at 10,100.
    let late = || cycles(6, 1_000, 10).set(10_000, 5001, A, 100);
    let seen = late().line(11_000, 5001, &["SET", "order:1", A, "PX", "1000"]).seen();
    assert_eq!(finding(&seen, "revived").certainty, Certainty::Sure);
    let seen = late()
        .set(11_000, 5002, B, 10_000)
        .line(11_500, 5001, &["PEXPIRE", "order:1", "9000"])
        .line(11_600, 5002, &["DEL", "order:1"])
        .seen();
    let extended = finding(&seen, "extended-by-another");
    assert_eq!(extended.certainty, Certainty::Sure);
}

#[test]
fn renewals_tell_connections_apart_as_releases_do() {
    let renewed = (1..6).fold(Traffic::default().set(0, 5001, A, 500), |traffic, step| {
        traffic.line(step * 100, 5001, &["PEXPIRE", "order:1", "500"])
    });
    // A stops for longer than its lease; B holds the lock when it comes back.
    let seen = renewed
        .set(700, 5002, B, 500)
        .set(1_500, 5002, B, 500)
        .line(1_600, 5001, &["PEXPIRE", "order:1", "500"])
        .line(1_700, 5001, &["PEXPIRE", "order:1", "500"])
        .release(1_800, 5002, B, true)
        .seen();
    assert_eq!(finding(&seen, "extended-by-another").count, 2);
}

#[test]
fn servers_whose_clocks_differ_are_compared_no_more_closely_than_that() {
    // A sentinel's group: its new master's clock is 300 ms behind, so B is granted the lock 250 ms before the
    // end of A's lease by that clock.
    let seen = |doubt_us, kept_ms: u64| {
        let mut watcher = Watcher::new(WatchOptions::default());
        watcher.set_clock_doubt(doubt_us);
        let Traffic(old) = Traffic::begun().set(100, 5001, A, 1_000);
        let new = Traffic::default().set(1_100 - kept_ms, 5002, B, 1_000);
        let Traffic(new) = new.release(1_200, 5002, B, true);
        for (source, text) in [(0, old), (1, new)] {
            for line in text.lines() {
                watcher.line(source, &MonitorLine::parse(line.as_bytes()).unwrap());
            }
        }
        let seen = watcher.finish();
        assert_eq!(seen.report.locks[0].grants, 3, "{:?}", seen.report);
        kinds(&seen).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
    };
    assert_eq!(seen(0, 250), ["overlap"]);
    assert_eq!(seen(310_000, 250), [""; 0]);
    assert_eq!(seen(310_000, 450), ["overlap", "lost-by-server"]);
}

#[test]
fn what_masters_of_a_set_did_counts_in_the_order_of_time() {
    // Each master grants by a script, which is whole only when that master runs something else: on the third,
    // nothing comes until the end.
    let take = |ms, value: &str| {
        let called = Traffic::default().line(ms, 5001, &["EVALSHA", "aa", "1", "lock", value, "9000"]);
        let looked = called.line(ms, 0, &["pttl", "lock"]);
        let Traffic(text) = looked.line(ms, 0, &["set", "lock", value, "px", "9000"]);
        text
    };
    let give = |ms, value: &str| {
        let called = Traffic::default().line(ms, 5001, &["EVALSHA", "bb", "1", "lock", value]);
        let Traffic(text) = called.line(ms, 0, &["get", "lock"]).line(ms, 0, &["del", "lock"]);
        text
    };
    let mut watcher = Watcher::new(WatchOptions::default());
    watcher.set_members(3);
    let mut run = |source: usize, text: &str| {
        for line in text.lines() {
            watcher.line(source, &MonitorLine::parse(line.as_bytes()).unwrap());
        }
    };
    for (round, value) in [A, B, C].into_iter().enumerate() {
        let ms = round as u64 * 100;
        // The lines of one connection come before those of another, whatever happened first. One master
        // grants nobody but itself.
        for source in [2, 0, 1] {
            run(source, &take(ms + source as u64, value));
            run(source, &give(ms + 50 + source as u64, value));
        }
        run(2, &take(ms + 60, "a value of a minority 1"));
        run(2, &give(ms + 70, "a value of a minority 1"));
    }
    let seen = watcher.finish();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.released), (3, 3), "{:?}", seen.report);
    assert_eq!(lock.hold_ms.max.map(f64::round), Some(49.0));
    assert_eq!(kinds(&seen), []);
}

#[test]
fn what_writes_a_held_key_by_another_name_is_understood() {
    let held = || cycles(6, 1_000, 10).set(10_000, 5001, A, 10_000);
    let time = |ms: u64| (1_700_000_000_000 + ms).to_string();
    let by_time = (0..6).fold(Traffic::default(), |traffic, round| {
        let (ms, client) = (round * 1_000, 5001 + round as u16 % 2);
        let traffic = match round {
            3 => traffic.line(ms, client, &["GETSET", "order:1", &time(ms + 900)]),
            _ => traffic.line(ms, client, &["SETNX", "order:1", &time(ms + 900)]),
        };
        match round {
            2 => traffic,
            _ => traffic.line(ms + 100, client, &["DEL", "order:1"]),
        }
    });
    assert!(!dangers(&by_time.seen()).contains(&"overlap".to_owned()), "{:?}", by_time.seen().report);
    for words in
        [&["SETEX", "order:1", "10", B][..], &["PSETEX", "order:1", "10000", B], &["GETSET", "order:1", B]]
    {
        let stolen = held().line(10_100, 5002, words).release(10_200, 5002, B, true).seen();
        let overlap = finding(&stolen, "overlap");
        assert_eq!((overlap.count, overlap.worst_ms), (1, Some(9_900.0)));
        assert_eq!(stolen.report.locks[0].released, 7, "{words:?}");
        let has_end = kinds(&stolen).iter().all(|(kind, _)| kind != "no-expiry");
        assert_eq!(has_end, words[0] != "GETSET", "{:?}", kinds(&stolen));
    }
    // By the holder it is a renewal: B comes after the first lease, and before the second.
    let renewed = held()
        .line(19_000, 5001, &["SETEX", "order:1", "10", A])
        .set(25_000, 5002, B, 10_000)
        .release(26_000, 5001, A, true)
        .seen();
    let lock = &renewed.report.locks[0];
    assert_eq!((lock.renewals, lock.refusals, lock.expired), (1, 1, 0));
    let endless = held()
        .line(10_100, 5001, &["PERSIST", "order:1"])
        .set(30_000, 5002, B, 10_000)
        .release(40_000, 5001, A, true)
        .seen();
    assert_eq!(finding(&endless, "no-expiry").count, 1);
    let lock = &endless.report.locks[0];
    assert_eq!((lock.refusals, lock.expired, lock.released), (1, 0, 7));
}

/// A renewal whose answer nobody sees may have come too late: what follows accuses nobody.
#[test]
fn a_renewal_at_the_end_of_a_lease_promises_nothing() {
    for renewal in [vec!["PEXPIRE", "order:1", "1000"], vec!["SET", "order:1", A, "XX", "PX", "1000"]] {
        let traffic = Traffic::begun().set(20, 5001, A, 1000).line(1021, 5001, &renewal);
        let traffic = traffic.set(1030, 5002, B, 1000).release(1040, 5001, A, false);
        let seen = traffic.release(1050, 5002, B, true).set(1060, 5001, A, 1000).seen();
        assert_eq!(dangers(&seen), [""; 0], "{:?}", seen.report.findings);
        assert_eq!((seen.report.locks[0].grants, seen.report.locks[0].released), (4, 2));
    }
    // One that came in time is one.
    let traffic = Traffic::begun().set(20, 5001, A, 1000).line(1000, 5001, &["PEXPIRE", "order:1", "1000"]);
    let seen = traffic.set(1030, 5002, B, 1000).release(1050, 5002, B, true).seen();
    assert_eq!(dangers(&seen), ["overlap", "lost-by-server"], "{:?}", seen.report.findings);
}

/// What stands in one transaction is one step; a script may take, compare and free several keys at once.
#[test]
fn what_runs_in_one_step_is_understood_as_one() {
    let taken = ["MULTI", "SETNX order:1 VALUE", "EXPIRE order:1 10", "EXEC"];
    let given = ["EVAL give 1 order:1 VALUE", "lua get order:1", "lua del order:1"];
    let of_two = [
        "EVAL take 2 order:1 order:2 VALUE 9000",
        "lua msetnx order:1 VALUE order:2 VALUE",
        "lua pexpire order:1 9000",
        "lua pexpire order:2 9000",
        "EVAL give 2 order:1 order:2 VALUE",
        "lua mget order:1 order:2",
        "lua del order:1 order:2",
    ];
    let shared = [
        "EVAL read 1 order:1 VALUE",
        "lua ZREMRANGEBYSCORE order:1 -inf 1700000000000",
        "lua ZSCORE order:1 VALUE",
        "lua ZADD order:1 1700000009000 VALUE",
        "lua ZREM order:1 __write__",
        "EVAL give 1 order:1 VALUE",
        "lua ZREM order:1 VALUE",
        "lua ZREM order:1 __write__",
    ];
    // The end stands in a second write of the same script.
    let written_twice =
        ["EVAL take 3 order:1 VALUE 10", "lua setnx order:1 VALUE", "lua setex order:1 10 VALUE"];
    let with_its_end = ["EVAL take 1 order:1 VALUE 9000", "lua get order:1", "lua psetex order:1 9000 VALUE"];
    let [in_a_transaction, written_twice, with_its_end] =
        [&taken[..], &written_twice, &with_its_end].map(|take| [take, &given[..]].concat());
    let of_one = [&in_a_transaction[..], &written_twice, &with_its_end, &shared].map(|cycle| (cycle, 6));
    for (cycle, grants) in of_one.into_iter().chain([(&of_two[..], 12)]) {
        let mut traffic = Traffic::default();
        for round in 0..6 {
            let owner = [A, B, C][round as usize % 3];
            let cycle: Vec<String> = cycle.iter().map(|line| line.replace("VALUE", owner)).collect();
            let cycle: Vec<&str> = cycle.iter().map(String::as_str).collect();
            traffic = traffic.run(round * 100, 5001 + round as u16 % 3, &cycle);
        }
        let seen = traffic.seen();
        assert_eq!(dangers(&seen), [""; 0], "{cycle:?}: {:?}", seen.report.findings);
        let lock = &seen.report.locks[0];
        assert_eq!((lock.grants, lock.released), (grants, grants), "{cycle:?}: {lock:?}");
    }
}

/// The field is called `owner` for every holder: a second one that gets in is found all the same.
#[test]
fn a_hash_whose_value_names_the_owner_is_told_apart_by_it() {
    let take = [
        "EVAL take 1 mutex:1 VALUE",
        "lua exists mutex:1",
        "lua hset mutex:1 owner VALUE",
        "lua pexpire mutex:1 9000",
    ];
    let renew = ["EVAL renew 1 mutex:1 VALUE", "lua hget mutex:1 owner", "lua pexpire mutex:1 9000"];
    let give = ["EVAL give 1 mutex:1 VALUE", "lua hget mutex:1 owner", "lua del mutex:1"];
    let run = |traffic: Traffic, ms, client, value: &str, commands: &[&str]| {
        let commands: Vec<String> = commands.iter().map(|line| line.replace("VALUE", value)).collect();
        traffic.run(ms, client, &commands.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let sound = (0..4).fold(Traffic::default(), |traffic, round| {
        let (ms, client, value) = (round * 100, 5001 + round as u16 % 2, [A, B][round as usize % 2]);
        let other = [C, A][round as usize % 2];
        let traffic = run(traffic, ms, client, value, &take);
        let traffic = run(traffic, ms + 10, 5003, other, &take[..2]);
        run(run(traffic, ms + 20, client, value, &renew), ms + 30, client, value, &give)
    });
    let seen = sound.seen();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.renewals, lock.released), (4, 4, 4, 4));
    assert_eq!((lock.library.as_str(), kinds(&seen)), ("", vec![]));
    let evicted = run(run(sound, 1_000, 5001, A, &take), 1_100, 5002, B, &take);
    finding(&evicted.seen(), "overlap");
}

/// One script takes what is free, and renews what is its own.
#[test]
fn a_script_that_was_refused_by_its_own_value_renews_it() {
    let take = |traffic: Traffic, ms, client, value: &str, at_first: &str| {
        let call = format!("EVAL take 1 order:1 {value} 1000");
        let own = ["lua get order:1", "lua pexpire order:1 1000"];
        let first = at_first.replace("VALUE", value);
        let reads = if client == 5001 { &own[..] } else { &own[..1] };
        traffic.run(ms, client, &[&[&*call, &*first], reads].concat())
    };
    for first in ["lua set order:1 VALUE NX PX 1000", "lua setnx order:1 VALUE"] {
        let taken = ["lua pexpire order:1 1000"];
        let traffic = Traffic::begun().run(
            100,
            5001,
            &[&format!("EVAL take 1 order:1 {A} 1000"), &first.replace("VALUE", A)],
        );
        let traffic = if first.contains("PX") { traffic } else { traffic.run(102, 5001, &taken) };
        let traffic = take(traffic, 800, 5001, A, first);
        // The first lease is over by now.
        let seen = take(traffic, 1_300, 5002, B, first).release(1_500, 5001, A, true).seen();
        assert_eq!(dangers(&seen), [""; 0], "{first}: {:?}", seen.report.findings);
        let lock = &seen.report.locks[0];
        assert_eq!((lock.grants, lock.refusals, lock.renewals), (2, 1, 1), "{first}: {lock:?}");
    }
}

/// It leaves a mark in the lock's key, under which no reader gets in, until the readers are gone.
#[test]
fn a_writer_that_waits_with_a_mark_robs_nobody() {
    let traffic = (0..12).fold(Traffic::default(), |traffic, round| {
        let (ms, client, value) = (round * 100, 5001 + round as u16 % 2, [A, B][round as usize % 2]);
        let call = format!("EVAL take 1 order:1 {value}");
        let mark = format!("lua set order:1 {value}_WAITING px 9000");
        let taken = format!("lua set order:1 {value} px 9000");
        let traffic = traffic.run(ms, client, &[&call, "lua get order:1", &mark]);
        let traffic = traffic.run(ms + 5, 5003, &[&format!("EVAL take 1 order:1 {C}"), "lua get order:1"]);
        let traffic = traffic.run(ms + 10, client, &[&call, "lua get order:1", &taken]);
        traffic.release(ms + 20, client, value, true)
    });
    let seen = traffic.seen();
    assert_eq!(dangers(&seen), [""; 0], "{:?}", seen.report.findings);
    assert_eq!(seen.report.locks[0].released, 12);
}

/// Of a holder that gives back what is gone a replica gets nothing.
#[test]
fn who_was_granted_a_flushed_lock_overlaps_nobody_for_certain_by_effects() {
    for gone in ["FLUSHALL", "SWAPDB 0 1"] {
        let taken = |value: &str| format!("SET lock:1 {value} PXAT 1700000009000");
        let traffic = Traffic::default().run(0, 6379, &[&taken(A), "DEL lock:1", &taken(B), gone, &taken(A)]);
        let options = WatchOptions { effects_only: true, ..WatchOptions::default() };
        let seen = read_bytes(traffic.0.as_bytes(), options).expect("it is MONITOR's text").finish();
        assert_eq!(kinds(&seen), [("lost-by-server".to_owned(), Certainty::Sure)]);
    }
}

/// Who finds that the time in the value is over takes the lock, by GETSET or by a script.
#[test]
fn a_value_that_says_when_the_lease_ends_is_believed() {
    let end = |round: u64| (1_700_000_005 + round * 10).to_string();
    let by_script =
        ["EVAL take 1 job:1 NOW END", "lua setnx job:1 END", "lua get job:1", "lua set job:1 END"];
    for [first, over] in
        [[&["SETNX job:1 END"][..], &["SETNX job:1 END", "GETSET job:1 END"]], [&by_script[..2], &by_script]]
    {
        let traffic = (0..8_u64).fold(Traffic::default(), |traffic, round| {
            // The third dies each time, and the next comes when its time is over.
            let (dies, follows) = (round % 3 == 2, round > 0 && round % 3 == 0);
            let take = if follows { over } else { first };
            let commands: Vec<String> = take.iter().map(|line| line.replace("END", &end(round))).collect();
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            let (ms, client) = (round * 10_000, 5001 + round as u16 % 2);
            let traffic = traffic.run(ms, client, &commands);
            let give = ["EVAL give 1 job:1 END", "lua get job:1", "lua del job:1"];
            let give: Vec<String> = give.iter().map(|line| line.replace("END", &end(round))).collect();
            let give: Vec<&str> = give.iter().map(String::as_str).collect();
            if dies { traffic } else { traffic.run(ms + 100, client, &give) }
        });
        let seen = traffic.seen();
        assert_eq!(dangers(&seen), [""; 0], "{first:?}: {:?}", seen.report.findings);
        assert_eq!((seen.report.locks[0].grants, seen.report.locks[0].released), (8, 6), "{first:?}");
    }
}

/// A has the lock when it first appears, B takes it at the end of A's lease, and C at the end of B's: all of
/// it is known only when they give it back.
#[test]
fn who_asked_when_the_first_lease_was_over_may_have_been_granted() {
    let again = "44444444-aaaa-4bbb-8ccc-000000000004";
    let of_b = [1, 5, 9, 13, 17, 21].map(|ms| (ms, 5002, B));
    let of_c = [2, 6, 10, 14, 18, 22, 25, 29, 33, 36, 39, 42].map(|ms| (ms, 5003, C));
    let of_a = [32, 35, 38, 40, 45, 49].map(|ms| (ms, 5001, again));
    let mut asked: Vec<_> = [&of_b[..], &of_c, &of_a, &[(0, 5001, A)]].concat();
    asked.sort_unstable();
    let traffic = asked.into_iter().fold(Traffic::default(), |traffic, (ms, client, value)| {
        // It comes too late.
        let traffic = if ms == 32 { traffic.release(31, 5001, A, false) } else { traffic };
        traffic.set(ms, client, value, 20)
    });
    let seen = traffic.release(52, 5002, B, false).release(53, 5003, C, true).seen();
    assert_eq!(dangers(&seen), [""; 0], "{:?}", seen.report.findings);
    assert_eq!(seen.report.locks[0].grants, 3, "{:?}", seen.report.locks);
}

#[test]
fn a_counter_that_the_refused_put_back_is_still_held() {
    let cycle = ["INCR lock:1", "INCR lock:1", "DECR lock:1", "DECR lock:1"];
    let traffic = (0..6).fold(Traffic::default(), |traffic, round| {
        let lines = cycle.iter().zip([5001, 5002, 5002, 5001]).zip(round * 100..);
        lines.fold(traffic, |traffic, ((line, client), ms)| traffic.run(ms, client, &[line]))
    });
    let lock = &traffic.seen().report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.released), (6, 6, 6));
}

#[test]
fn a_refused_client_that_extends_in_its_transaction_extends_anothers_hold() {
    let taken = ["MULTI", "SETNX order:1 VALUE", "EXPIRE order:1 10", "EXEC"];
    let take = |traffic: Traffic, ms, client, value| {
        let commands = taken.map(|command| command.replace("VALUE", value));
        traffic.run(ms, client, &commands.each_ref().map(String::as_str))
    };
    let traffic = take(take(Traffic::begun(), 20, 5001, A), 30, 5002, B);
    let seen = traffic.release(40, 5001, A, true).seen();
    assert_eq!(dangers(&seen), ["extended-by-another"], "{:?}", seen.report.findings);
}

/// Long names are told apart, and what follows a transaction that was given up is no part of it.
#[test]
fn long_names_and_connections_that_are_reset_are_followed() {
    let (one, other) = ("n".repeat(5_000) + "1", "n".repeat(5_000) + "2");
    let mut traffic = Traffic::default().run(0, 5001, &["MULTI", "RESET"]);
    for (ms, client, name, value) in [(10, 5001, &one, A), (11, 5002, &other, B)] {
        traffic = traffic.line(ms, client, &["SET", name, value, "NX", "PX", "1000"]);
    }
    for (ms, client, name, value) in [(20, 5001, &one, A), (30, 5002, &other, B)] {
        traffic = traffic.line(ms, client, &["DELEX", name, "IFEQ", value]);
    }
    let seen = traffic.seen();
    assert_eq!((seen.report.locks[0].grants, dangers(&seen)), (2, vec![]), "{:?}", seen.report);
}

/// The server loses the key, its holder finds that as it gives back, and takes it again.
#[test]
fn a_lock_that_was_given_up_is_nobodys_whatever_the_server_had_promised() {
    let lost = Traffic::begun().set(20, 5001, A, 1000).release(30, 5001, A, false);
    let seen = lost.set(40, 5002, B, 1000).release(50, 5002, B, true).set(60, 5001, A, 1000).seen();
    assert_eq!(dangers(&seen), ["lost-by-server"], "{:?}", seen.report.findings);
    // One that was granted it before that had it beside the holder.
    let lost = Traffic::begun().set(20, 5001, A, 1000).set(25, 5002, B, 1000).release(30, 5001, A, false);
    let seen = lost.release(50, 5002, B, true).set(60, 5003, C, 1000).release(70, 5003, C, true).seen();
    assert_eq!(dangers(&seen), ["overlap", "lost-by-server"], "{:?}", seen.report.findings);
    assert_eq!(finding(&seen, "overlap").count, 1);
}

#[test]
fn a_release_by_a_digest_is_one() {
    let mut traffic = Traffic::default();
    for round in 0..6 {
        let (ms, client, owner) = (round * 20, 5001 + round as u16 % 2, [A, B][round as usize % 2]);
        traffic = traffic.set(ms, client, owner, 1000);
        traffic = traffic.line(ms + 10, client, &["DELEX", "order:1", "IFDEQ", "b6acb9d84a38ff74"]);
    }
    let seen = traffic.seen();
    assert_eq!((seen.report.locks[0].released, dangers(&seen)), (6, vec![]), "{:?}", seen.report.findings);
}

#[test]
fn databases_that_are_swapped_take_their_locks_along() {
    let swap = |traffic: Traffic, ms| traffic.line(ms, 5009, &["SWAPDB", "0", "1"]);
    let away = swap(Traffic::begun().set(20, 5001, A, 1000), 30);
    let back = swap(away.set(40, 5002, B, 1000).release(50, 5002, B, true), 60);
    let seen = back.set(70, 5002, B, 1000).release(80, 5001, A, true).seen();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.released), (3, 1, 3));
    // Clients do not go with the keys: A had the lock when B was granted it.
    assert_eq!(dangers(&seen), ["overlap", "lost-by-server"]);
    assert_eq!((finding(&seen, "overlap").count, finding(&seen, "lost-by-server").count), (1, 1));
    // Nobody had it.
    let idle = swap(Traffic::begun(), 30).set(40, 5002, B, 1000).release(50, 5002, B, true).seen();
    assert_eq!(dangers(&idle), [""; 0]);
}

/// A leader asks for its lock at each turn, though it has it.
#[test]
fn a_holder_that_asks_again_has_the_lock_all_the_same() {
    let renew = |traffic: Traffic, ms, client| traffic.line(ms, client, &["PEXPIRE", "order:1", "1000"]);
    let mut traffic = Traffic::begun().set(20, 5001, A, 1000);
    for turn in 1..8 {
        traffic = renew(traffic.set(20 + turn * 10, 5001, A, 1000), 21 + turn * 10, 5001);
    }
    // It ends at 1091: B has it, as its renewals show.
    traffic = traffic.set(1092, 5002, B, 1000).set(1100, 5003, C, 1000);
    for turn in 0..3 {
        traffic = renew(traffic.set(1110 + turn * 10, 5002, B, 1000), 1111 + turn * 10, 5002);
    }
    let seen = traffic.release(1200, 5002, B, true).seen();
    assert_eq!((seen.report.locks[0].grants, dangers(&seen)), (3, vec![]), "{:?}", seen.report.findings);
}

/// ShedLock's older releases write another value with a short end.
#[test]
fn a_holder_that_marks_its_end_by_another_value_had_the_lock() {
    let write = |traffic: Traffic, ms, client, how, lease_ms: &str| {
        let value = format!("ADDED:2026-11-30T01:00:00.{ms:06}Z@host");
        traffic.line(ms, client, &["SET", "job-lock:default:a", &value, how, "PX", lease_ms])
    };
    let mut traffic = Traffic::default();
    for (ms, client, how, lease_ms) in [
        (0, 5001, "NX", "1000"),
        (10, 5001, "XX", "20"),
        // One of them gets it, as its end shows.
        (31, 5002, "NX", "1000"),
        (32, 5003, "NX", "1000"),
        (40, 5002, "XX", "20"),
        (100, 5001, "NX", "1000"),
    ] {
        traffic = write(traffic, ms, client, how, lease_ms);
    }
    let seen = traffic.seen();
    assert_eq!((seen.report.locks[0].grants, dangers(&seen)), (3, vec![]), "{:?}", seen.report);
}

#[test]
fn what_only_all_of_it_shows_is_likely() {
    let mut renewed = Traffic::default();
    for round in 0..6 {
        let ms = round * 1_000;
        renewed =
            renewed.set(ms, 5001, A, 100).line(ms + 50, 5001, &["SET", "order:1", A, "IFEQ", A, "PX", "100"]);
    }
    let long = cycles(20, 60_000, 5).set(20_000, 5001, A, 60_000).line(40_000, 5001, &["DEL", "order:1"]);
    let mut polled = cycles(1, 1_000, 10).set(1_000, 5001, A, 10_000);
    for ms in 0..60 {
        polled = polled.set(1_001 + ms, 5002, B, 10_000);
    }
    let polled = polled.line(1_100, 5001, &["DEL", "order:1"]);
    // Two others ask each time, and are never granted it.
    let mut unfair = Traffic::default();
    for round in 0..60 {
        let ms = round * 100;
        unfair = unfair
            .set(ms, 5001, A, 1_000)
            .set(ms + 1, 5002, B, 1_000)
            .set(ms + 2, 5003, C, 1_000)
            .set(ms + 3, 5001, A, 1_000)
            .line(ms + 10, 5001, &["DEL", "order:1"]);
    }
    let whole = (0..10).fold(Traffic::default(), |traffic, round| {
        let ms = round * 100;
        traffic.set(ms, 5001, A, 1_000).release(ms + 10, 5001, A, true)
    });
    let cases = [
        ("lease-nearly-used", cycles(5, 100, 90)),
        ("never-released", renewed),
        ("held-long", long),
        ("hot-polling", polled),
        ("unfair", unfair),
        ("script-sent-whole", whole),
    ];
    for (kind, traffic) in cases {
        let seen = traffic.seen();
        let likely: Vec<String> = kinds(&seen)
            .into_iter()
            .filter(|(_, certainty)| *certainty == Certainty::Likely)
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(likely, [kind], "{:?}", seen.report.findings);
    }
}

#[test]
fn connections_of_a_pool_are_no_proof() {
    // Two threads share connections: any may delete what another has set.
    let mut traffic = Traffic::default();
    for round in 0..20 {
        let (one, other) = if round % 3 == 0 { (5001, 5002) } else { (5002, 5001) };
        traffic = traffic.set(round * 100, one, A, 10_000).line(round * 100 + 50, other, &["DEL", "order:1"]);
    }
    let seen = traffic.seen();
    assert!(
        seen.report.findings.iter().all(|one| one.certainty != Certainty::Violated),
        "{:?}",
        seen.report.findings
    );
}

#[test]
fn a_script_with_a_hash_is_a_lock_with_its_owner_whatever_it_is_called() {
    let owner = |number: u32| format!("8743c9c0-0795-4907-87fd-6c719a6b4586:{number}");
    let take = |traffic: Traffic, ms, client, owner: &str, granted: bool| {
        let called = traffic.line(ms, client, &["EVALSHA", "aa", "1", "{user:1}", "30000", owner]).line(
            ms,
            0,
            &["exists", "{user:1}"],
        );
        match granted {
            true => called.line(ms, 0, &["hincrby", "{user:1}", owner, "1"]).line(
                ms,
                0,
                &["pexpire", "{user:1}", "30000"],
            ),
            false => called.line(ms, 0, &["hexists", "{user:1}", owner]).line(ms, 0, &["pttl", "{user:1}"]),
        }
    };
    let give = |traffic: Traffic, ms, client, owner: &str| {
        traffic
            .line(
                ms,
                client,
                &["EVALSHA", "bb", "2", "{user:1}", "redisson_lock__channel:{user:1}", "0", "30000", owner],
            )
            .line(ms, 0, &["hexists", "{user:1}", owner])
            .line(ms, 0, &["hincrby", "{user:1}", owner, "-1"])
            .line(ms, 0, &["del", "{user:1}"])
            .line(ms, 0, &["publish", "redisson_lock__channel:{user:1}", "0"])
    };
    let renew = |traffic: Traffic, ms, client, owner: &str| {
        traffic
            .line(ms, client, &["EVALSHA", "cc", "1", "{user:1}", "30000", owner])
            .line(ms, 0, &["hexists", "{user:1}", owner])
            .line(ms, 0, &["pexpire", "{user:1}", "30000"])
    };
    let (one, two) = (owner(41), owner(42));
    let traffic = take(Traffic::default(), 0, 5001, &one, true);
    let traffic = take(traffic, 10, 5002, &two, false);
    let traffic = renew(traffic, 10_000, 5001, &one);
    let traffic = give(traffic, 12_000, 5001, &one);
    let traffic = take(traffic, 12_010, 5002, &two, true);
    let seen = give(traffic, 12_020, 5002, &two).seen();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.recipe.as_str(), lock.library.as_str()), ("hash with owner", "Redisson"));
    assert_eq!((lock.grants, lock.refusals, lock.renewals, lock.released), (2, 1, 1, 2));
    assert_eq!(kinds(&seen), []);
}

#[test]
fn each_recipe_counts_its_grants_renewals_and_releases() {
    // Words of one cycle; `lua` before those that a script ran, `other` before those of one that is refused.
    let cycles: [(&str, &str, &[&str]); 7] = [
        (
            "SET NX",
            "order:1",
            &[
                "SET order:1 VALUE NX PX 1000",
                "other SET order:1 VALUE NX PX 1000",
                "SET order:1 VALUE IFEQ VALUE PX 1000",
                "DELEX order:1 IFEQ VALUE",
            ],
        ),
        (
            "SET NX",
            "order:1",
            &[
                "SET order:1 VALUE EX 10 NX",
                "EVAL renew 1 order:1 VALUE 10",
                "lua get order:1",
                "lua expire order:1 10",
                "DELIFEQ order:1 VALUE",
            ],
        ),
        (
            "SETNX, EXPIRE",
            "order:1",
            &[
                "SETNX order:1 VALUE",
                "PEXPIRE order:1 1000",
                "other SETNX order:1 VALUE",
                "PEXPIRE order:1 2000",
                "EVAL give 1 order:1 VALUE",
                "lua get order:1",
                "lua del order:1",
            ],
        ),
        (
            "WATCH, MULTI",
            "order:1",
            &[
                "WATCH order:1",
                "GET order:1",
                "MULTI",
                "SET order:1 VALUE PX 1000",
                "EXEC",
                "WATCH order:1",
                "GET order:1",
                "MULTI",
                "PEXPIRE order:1 1000",
                "EXEC",
                "WATCH order:1",
                "GET order:1",
                "MULTI",
                "DEL order:1",
                "EXEC",
            ],
        ),
        (
            "INCR, EXPIRE",
            "lock:1",
            &["INCR lock:1", "EXPIRE lock:1 10", "other INCR lock:1", "EXPIRE lock:1 10", "DEL lock:1"],
        ),
        (
            "sorted set with times",
            "lock:1",
            &[
                "EVAL take 1 lock:1 VALUE",
                "lua zremrangebyscore lock:1 -inf 1",
                "lua zcard lock:1",
                "lua zadd lock:1 2 VALUE",
                "lua pexpire lock:1 1000",
                "EVAL take 1 lock:1 VALUE",
                "lua zremrangebyscore lock:1 -inf 1",
                "lua zadd lock:1 3 VALUE",
                "ZREM lock:1 VALUE",
            ],
        ),
        (
            "permits of a number",
            "stock:1",
            &[
                "EVAL take 2 stock:1 {stock:1}:timeout VALUE",
                "lua get stock:1",
                "lua zremrangebyscore {stock:1}:timeout -inf 1",
                "lua decrby stock:1 1",
                "lua zadd {stock:1}:timeout 1700000060000 VALUE",
                "other EVAL ask 2 stock:1 {stock:1}:timeout VALUE",
                "lua get stock:1",
                "lua zscore {stock:1}:timeout VALUE",
                "EVAL renew 2 stock:1 {stock:1}:timeout VALUE",
                "lua get stock:1",
                "lua zadd {stock:1}:timeout 1700000070000 VALUE",
                "EVAL give 2 stock:1 {stock:1}:timeout VALUE",
                "lua get stock:1",
                "lua zrem {stock:1}:timeout VALUE",
                "lua incrby stock:1 1",
            ],
        ),
    ];
    for (recipe, name, words) in cycles {
        let mut traffic = Traffic::default();
        for round in 0..5 {
            let mut by = (0, "");
            for (at, line) in words.iter().enumerate() {
                let (called, other) = (line.strip_prefix("lua "), line.strip_prefix("other "));
                if called.is_none() {
                    by = if other.is_some() { (5003, C) } else { [(5001, A), (5002, B)][round % 2] };
                }
                let line = called.or(other).unwrap_or(line).replace("VALUE", by.1);
                let words: Vec<&str> = line.split(' ').collect();
                let client = called.map_or(by.0, |_| 0);
                traffic = traffic.line(round as u64 * 100 + at as u64, client, &words);
            }
        }
        let seen = traffic.seen();
        let lock = seen.report.locks.first().unwrap_or_else(|| panic!("{recipe}: {:?}", seen.report));
        let pattern = format!("{}*", name.trim_end_matches('1'));
        assert_eq!((lock.recipe.as_str(), &lock.pattern), (recipe, &pattern));
        // Whether the first had it is known only when it is given back.
        assert!((4..=5).contains(&lock.renewals), "{recipe}: {lock:?}");
        let refused = words.iter().filter(|line| line.starts_with("other ")).count() as u64 * 5;
        assert_eq!((lock.grants, lock.refusals, lock.released), (5, refused, 5), "{recipe}: {lock:?}");
        let violated = kinds(&seen).iter().any(|(_, certainty)| *certainty == Certainty::Violated);
        assert!(!violated, "{recipe}: {:?}", seen.report.findings);
    }
}

#[test]
fn a_lease_until_a_time_of_the_day_ends_then() {
    for end in ["EXAT 1700000011", "PXAT 1700000011000"] {
        let seen = Traffic::begun()
            .run(1_000, 5001, &[&format!("SET order:1 {A} NX {end}")])
            .set(10_000, 5002, B, 10_000)
            .set(11_100, 5002, B, 10_000)
            .release(11_200, 5002, B, true)
            .seen();
        let lock = &seen.report.locks[0];
        let counted = (lock.grants, lock.refusals, lock.expired, lock.released, lock.lease_ms);
        assert_eq!(counted, (3, 1, 1, 2, Some(10_000.0)), "{end}: {lock:?}");
        assert_eq!(kinds(&seen), [], "{end}");
    }
}

#[test]
fn tokens_of_a_list_may_be_a_lock() {
    let taken = |name: &str| {
        let rounds = (0..5).fold(Traffic::default(), |traffic, round| {
            let client = 5001 + round as u16 % 2;
            traffic.run(round * 100, client, &[&format!("BLPOP {name} 0"), &format!("LPUSH {name} token")])
        });
        let report = rounds.seen().report;
        assert!(report.locks.is_empty() && report.findings.is_empty(), "{report:?}");
        report.perhaps
    };
    let [perhaps] = &taken("lock:1")[..] else { panic!("not listed") };
    let listed = (perhaps.pattern.as_str(), perhaps.recipe.as_str(), perhaps.attempts);
    assert_eq!(listed, ("lock:*", "BLPOP of a token", 5));
    assert!(perhaps.why.contains("a lock, or a queue"), "{perhaps:?}");
    assert_eq!(taken("jobs:1"), []);
}

#[test]
fn a_script_that_the_server_has_forgotten_does_nothing() {
    let called = ["EVALSHA take 1 order:1 A 60000", "EVALSHA give 1 order:1 A"];
    let sent = ["EVAL taking 1 order:1 A 60000", "EVAL giving 1 order:1 A"];
    let take = ["lua pttl order:1", "lua set order:1 A px 60000"];
    let give = ["lua get order:1", "lua del order:1"];
    let run = |traffic: Traffic, ms, calls: &[&str]| {
        let calls: Vec<String> = calls.iter().map(|call| call.replace(" A", &format!(" {A}"))).collect();
        traffic.run(ms, 5001, &calls.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let cycle = [called[0], take[0], take[1], called[1], give[0], give[1]];
    // Both are known by now. Then each is sent by its digest in vain, and with its text.
    let traffic = run(run(Traffic::default(), 0, &cycle), 100, &cycle).run(200, 5009, &["SCRIPT FLUSH"]);
    let traffic = run(traffic, 300, &[called[0], sent[0], take[0], take[1]]);
    let seen = run(traffic, 400, &[called[1], sent[1], give[0], give[1]]).seen();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.released), (3, 0, 3), "{lock:?}");
    assert_eq!(kinds(&seen), []);
}

#[test]
fn permits_of_one_connection_are_holds_of_their_own_and_a_stock_is_none() {
    let take = |traffic: Traffic, ms, client, key| {
        let called = traffic.line(ms, client, &["EVAL", "take", "1", key, "1"]);
        called.line(ms, 0, &["get", key]).line(ms, 0, &["decrby", key, "1"])
    };
    let give = |traffic: Traffic, ms, client, key| {
        let called = traffic.line(ms, client, &["EVAL", "give", "1", key, "1"]);
        called.line(ms, 0, &["incrby", key, "1"])
    };
    let mut traffic = Traffic::default();
    for (ms, client) in [(0, 5001), (10, 5001), (20, 5002)] {
        traffic = take(take(traffic, ms, client, "semaphore:1"), ms, client, "stock:1");
    }
    for (ms, client) in [(30, 5002), (40, 5001), (50, 5001)] {
        traffic = give(give(traffic, ms, client, "semaphore:1"), ms, client, "stock:1");
    }
    let seen = traffic.seen();
    let [lock] = seen.report.locks.as_slice() else {
        panic!("{:?}", seen.report);
    };
    let counted = (lock.pattern.as_str(), lock.grants, lock.released, lock.clients);
    assert_eq!(counted, ("semaphore:*", 3, 3, 2));
    // B's was given back first.
    assert_eq!(lock.hold_ms.p50.map(|ms| ms as u64 / 10), Some(4));
    assert_eq!(kinds(&seen), []);
}

#[test]
fn two_ways_to_take_one_name_are_a_danger_and_names_alike_are_none() {
    let mixed = |hashed: &str| {
        let mut traffic = Traffic::default();
        for round in 0..4 {
            let ms = round * 100;
            let lines: [&[&str]; 4] = [
                &["EVAL", "take", "1", hashed, "owner-of-a-hash-1"],
                &["exists", hashed],
                &["hset", hashed, "owner-of-a-hash-1", "1"],
                &["pexpire", hashed, "1000"],
            ];
            traffic = traffic.set(ms, 5001, A, 1000).release(ms + 10, 5001, A, true);
            for (at, words) in lines.into_iter().enumerate() {
                traffic = traffic.line(ms + 20, if at == 0 { 5002 } else { 0 }, words);
            }
            traffic = traffic
                .line(ms + 30, 5002, &["EVAL", "give", "1", hashed, "owner-of-a-hash-1"])
                .line(ms + 30, 0, &["hdel", hashed, "owner-of-a-hash-1"])
                .line(ms + 30, 0, &["del", hashed]);
        }
        traffic.seen()
    };
    let seen = mixed("order:1");
    let found = finding(&seen, "two-recipes");
    assert_eq!((found.certainty, found.count), (Certainty::Sure, 1));
    let last = found.first.last().expect("lines");
    assert!(last.contains("taken by a string and a hash"), "{last}");
    let apart = mixed("order:2");
    assert_eq!((kinds(&apart), apart.report.locks[0].grants), (vec![], 8));
}

#[test]
fn names_that_differ_in_numbers_share_a_pattern() {
    let cases = [
        ("order:8241", "order:*"),
        ("orders", "orders"),
        ("lock:2f1a9c4e-1111-2222-3333-123456789abc:v2", "lock:*:v2"),
        ("{user:17}:mutex", "{user:*}:mutex"),
        ("otp:cdaddaea-c42f-4beb-aabe-cdbceebb1234", "otp:*"),
        ("a_20261128_b", "a_*_b"),
        ("", ""),
    ];
    for (name, pattern) in cases {
        let taken = Traffic::default().line(0, 5001, &["SET", name, A, "NX", "PX", "1000"]);
        let seen = taken.line(10, 5001, &["DEL", name]).seen();
        assert_eq!(seen.report.locks[0].pattern, pattern, "{name}");
    }
}

#[test]
fn a_busy_cache_without_locks_has_no_finding() {
    let mut traffic = Traffic::default();
    for round in 0..2_000_u64 {
        let (key, client) = (format!("cache:{}", round % 50), 5001 + (round % 7) as u16);
        let ms = round * 3;
        traffic = traffic
            .line(ms, client, &["GET", &key])
            .line(ms, client, &["SET", &key, &format!("{{\"price\":{round}}}"), "EX", "60"])
            .line(ms + 1, client, &["INCR", &format!("hits:{}", round % 9)])
            .line(ms + 1, client, &["SET", &format!("seen:{round}"), "1", "NX", "EX", "3600"])
            .line(ms + 2, client, &["LPUSH", "queue", "job"])
            .line(ms + 2, client, &["BRPOP", "queue", "0"])
            .line(ms + 2, client, &["HSET", "session:1", "user", "7"]);
        if round % 11 == 0 {
            traffic = traffic.line(ms + 2, client, &["DEL", &key]);
        }
    }
    let seen = traffic.seen();
    assert_eq!(kinds(&seen), []);
    assert!(seen.report.locks.is_empty(), "{:?}", seen.report.locks);
    // Marks that something was done may be locks.
    assert_eq!(seen.report.perhaps[0].pattern, "seen:*");
}

#[test]
fn the_history_is_judged_by_the_checkers_alike() {
    let traffic = Traffic::begun()
        .set(100, 5001, A, 10_000)
        .line(200, 5009, &["DEL", "order:1"])
        .set(300, 5002, B, 10_000)
        .release(400, 5002, B, true);
    let seen = traffic.seen();
    let history: String = seen.history.iter().map(|line| line.to_json() + "\n").collect();
    let history = results::history::History::parse(&history).expect("a history");
    assert_eq!(history.lines.len(), seen.history.len());
}

/// Judges what a watch has recorded as `locklab check` does.
fn assert_no_overlap(seen: WatchedTraffic) {
    let history = results::history::History::from_lines(seen.history);
    let options = chaos::checkers::CheckOptions { floors: None, ..Default::default() };
    let judged = chaos::checkers::check(&history, &options).verdicts;
    for verdict in [judged.belief, judged.contract, judged.effect] {
        assert_ne!(verdict.state, results::verdict::State::Violated, "{verdict:?}");
    }
}

#[test]
fn what_has_one_stamp_is_recorded_in_its_order() {
    let traffic = Traffic::begun().set(20, 5001, A, 1_000).release(30, 5001, A, true);
    let seen = traffic.set(30, 5002, B, 1_000).release(40, 5002, B, true).seen();
    assert_eq!(kinds(&seen), []);
    assert_no_overlap(seen);
    // As in an append-only file, all of one second.
    let second = (0..3).fold(Traffic::default(), |traffic, round| {
        let (client, value) = [(5001, A), (5002, B)][round % 2];
        traffic.set(1_000, client, value, 9_000).release(1_000, client, value, true)
    });
    assert_no_overlap(second.seen());
    // Nobody listens any more after the grant.
    let Traffic(before) = Traffic::begun().set(20, 5001, A, 60_000);
    let Traffic(after) = Traffic::default().set(30, 5002, B, 1_000).release(40, 5002, B, true);
    let mut watcher = Watcher::new(WatchOptions::default());
    for text in [before, after] {
        for line in text.lines() {
            watcher.line(0, &MonitorLine::parse(line.as_bytes()).unwrap());
        }
        watcher.gap(0);
    }
    assert_no_overlap(watcher.finish());
}

#[test]
fn effects_alone_show_grants_and_ends() {
    let stream = format!(
        "sending REPLCONF capa eof\nSYNC with master, discarding bytes of bulk transfer until EOF marker...\n\
         SYNC done after 175 bytes. Logging commands from master.\n\"SELECT\",\"0\"\n\
         \"SET\",\"order:1\",\"{A}\",\"PXAT\",\"1700000003000\"\n\"DEL\",\"order:1\"\n\
         \"SET\",\"order:1\",\"{B}\",\"PXAT\",\"1700000004000\"\n\"DEL\",\"order:1\"\n\"PING\"\n"
    );
    let seen = read_bytes(stream.as_bytes(), WatchOptions::default()).expect("a stream").finish();
    assert_eq!((seen.report.locks[0].grants, seen.report.locks[0].released), (2, 2));
    assert_eq!(kinds(&seen), []);
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let command = |words: &[&str]| {
        format!("*{}\r\n{}", words.len(), words.iter().map(|one| word(one)).collect::<String>())
    };
    let file = format!(
        "#TS:1700000000\r\n{}{}#TS:1700000001\r\n{}#TS:1700000005\r\n{}{}*3\r\n$3\r\nSE",
        command(&["SELECT", "0"]),
        command(&["SET", "order:1", A, "PXAT", "1700000003000"]),
        command(&["DEL", "order:1"]),
        command(&["SET", "order:1", B, "PXAT", "1700000008000"]),
        command(&["DEL", "order:1"]),
    );
    let seen = read_bytes(file.as_bytes(), WatchOptions::default()).expect("an append-only file").finish();
    assert_eq!((seen.report.locks[0].grants, seen.report.locks[0].released), (2, 2));
}

#[test]
fn lines_of_every_form_are_read() {
    // Another database is another lock; clients are addresses of both kinds and sockets; values are bytes; a
    // function and a read-only script call too.
    let cycles = [
        ("0", "127.0.0.1:5001", A),
        ("3", "[::1]:5001", B),
        ("3", "unix:/run/redis.sock", r#"\xfe\x01\"\\\r\n\xc3\xa4 \x00\xff"#),
    ];
    let mut text = String::new();
    for (at, (database, client, value)) in cycles.iter().enumerate() {
        let mut line = |micros: usize, client: &str, words: &str| {
            let plus = if at == 0 { "+" } else { "" };
            writeln!(text, "{plus}1700000000.{micros:06} [{database} {client}] {words}").unwrap();
        };
        let at = at * 100;
        line(at, client, &format!(r#""set" "order:1" "{value}" "px" "10000" "nx""#));
        line(at + 10, client, r#""EVAL_RO" "return redis.call('get',KEYS[1])" "1" "order:1""#);
        line(at + 11, "lua", r#""get" "order:1""#);
        line(at + 20, client, &format!(r#""FCALL" "give_back" "1" "order:1" "{value}""#));
        line(at + 21, "lua", r#""GET" "order:1""#);
        line(at + 22, "lua", r#""DEL" "order:1""#);
    }
    // Held in the one database when it is granted in the other.
    text += "1700000001.000000 [0 127.0.0.1:5001] \"SET\" \"order:1\" \"v0000000001\" \"NX\" \"EX\" \"10\"\n";
    text += "1700000001.000001 [3 127.0.0.1:5002] \"SET\" \"order:1\" \"v0000000002\" \"NX\" \"EX\" \"10\"\n";
    let seen = read_bytes(text.as_bytes(), WatchOptions::default()).expect("MONITOR's text").finish();
    assert_eq!(kinds(&seen), []);
    let lock = &seen.report.locks[0];
    let counted = (lock.names, lock.grants, lock.released, lock.still_held);
    assert_eq!(counted, (1, 5, 3, 2), "{:?}", seen.report);
    assert_eq!(lock.recipe, "SET NX");
}

/// What MONITOR showed of one session with locks, on real servers and on their replicas.
#[test]
fn servers_of_all_versions_show_the_same_locks() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traffic");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let effects_only = file.to_string_lossy().ends_with("-replica.txt");
        let options = WatchOptions { effects_only, ..WatchOptions::default() };
        let seen = read_bytes(&std::fs::read(&file).unwrap(), options).expect("MONITOR's text").finish();
        let locks = seen.report.locks.iter();
        let counted = |lock: &WatchedLock| {
            (lock.pattern.clone(), lock.grants, lock.refusals, lock.released, lock.expired)
        };
        let counted: BTreeSet<_> = locks.map(counted).collect();
        let of = |pattern: &str, grants, refusals, expired| {
            let refusals = if effects_only { 0 } else { refusals };
            (pattern.to_owned(), grants, refusals, grants - expired, expired)
        };
        let expected =
            [of("bytes:*", 3, 0, 1), of("job:*", 2, 0, 0), of("lock:*", 4, 2, 0), of("user:*", 2, 1, 0)];
        assert_eq!(counted, expected.into(), "{}", file.display());
        assert_eq!(kinds(&seen), [], "{}", file.display());
    }
}

#[test]
fn torn_lines_are_passed_over_and_noise_is_refused_with_its_line() {
    let Traffic(text) = Traffic::begun().set(100, 5001, A, 1_000).release(200, 5001, A, true);
    let torn = format!("Z 5001] \"GET\" \"x\"\nOK\n{text}1700000001.0000");
    let seen = read_bytes(torn.as_bytes(), WatchOptions::default()).expect("two torn lines").finish();
    assert_eq!(seen.report.locks[0].grants, 2);
    for (noise, place) in [
        ("", "input:1:"),
        ("hello\nworld\n", "input:1:"),
        ("REDIS0011\n", "input:1:"),
        ("*x\r\n", "input:1:"),
        ("#TS:1\r\n*1\r\n+PING\r\n", "input:3:"),
    ] {
        let error = read_bytes(noise.as_bytes(), WatchOptions::default()).expect_err("noise").to_string();
        assert!(error.starts_with(place), "{noise:?}: {error}");
    }
    let mut late = text;
    late.push_str(&"noise\n".repeat(50));
    let error = read_bytes(late.as_bytes(), WatchOptions::default()).expect_err("noise").to_string();
    assert!(error.starts_with("input:9:"), "{error}");
}

#[test]
fn a_time_beyond_all_clocks_is_none() {
    let lines = b"18.913459 [1 unix:/tmp/s] \"ZADD\" \"mode\" \"MOVE\" \"EXAT\"\n\
        20568270467.284268 [1 unix:/tmp/s] \"SETNX\" \"0\" \"a:41\"\n";
    let options = WatchOptions { effects_only: true, ..WatchOptions::default() };
    let watcher = read_bytes(lines, options).expect("a torn line");
    assert_eq!(watcher.commands(), 1);
    watcher.finish();
    let file = b"#TS:18\r\n*3\r\n$5\r\nSETNX\r\n$1\r\na\r\n$1\r\nb\r\n#TS:432916762374\r\n";
    let refused = read_bytes(file, options).expect_err("no time");
    assert_eq!(refused.to_string(), "input:9: no time behind #TS:");
}

/// Findings that end a run with 1.
fn dangers(seen: &WatchedTraffic) -> Vec<String> {
    let grave = kinds(seen).into_iter().filter(|(_, certainty)| *certainty != Certainty::Likely);
    grave.map(|(kind, _)| kind).collect()
}

impl Traffic {
    /// Commands of a client, those of scripts behind `lua `, a millisecond apart.
    fn run(self, ms: u64, client: u16, commands: &[&str]) -> Self {
        commands.iter().zip(ms..).fold(self, |traffic, (command, ms)| {
            let called = command.strip_prefix("lua ");
            let words: Vec<&str> = called.unwrap_or(command).split(' ').collect();
            traffic.line(ms, called.map_or(client, |_| 0), &words)
        })
    }

    /// What a replica gets of it: what took effect, with absolute ends, over one connection.
    fn effects(&self) -> WatchedTraffic {
        let (mut present, mut effects) = (HashSet::new(), Traffic::default());
        let reads = ["EVAL", "GET", "HGET", "EXISTS", "PTTL", "ZCARD", "WATCH", "MULTI", "EXEC"];
        for line in self.0.lines() {
            let line = MonitorLine::parse(line.as_bytes()).unwrap();
            let words = line.words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            let mut words: Vec<String> = words.collect();
            let (name, ms) = (words[0].to_uppercase(), line.time_us / 1_000 - 1_700_000_000_000);
            let is_new = name == "SETNX" || words.iter().any(|word| word == "NX");
            let is_there = words.get(1).is_some_and(|key| present.contains(key));
            if reads.contains(&&*name) || name == "DEL" && !is_there || is_new && is_there {
                continue;
            }
            match name.as_str() {
                "DEL" => _ = present.remove(&words[1]),
                _ => _ = present.insert(words[1].clone()),
            }
            words.retain(|word| word != "NX");
            let seconds = name == "EXPIRE" || words.get(3).is_some_and(|word| word == "EX");
            if let (true, Some(lease)) = (seconds || name == "PEXPIRE", words.last_mut()) {
                let lease_ms = lease.parse::<u64>().unwrap() * if seconds { 1_000 } else { 1 };
                *lease = (1_700_000_000_000 + ms + lease_ms).to_string();
                let option = words.len() - 2;
                words[option] = if name == "SET" { "PXAT" } else { &words[option] }.to_owned();
                words[0] = if name == "SET" { "SET" } else { "PEXPIREAT" }.to_owned();
            }
            effects = effects.line(ms, 6379, &words.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let options = WatchOptions { effects_only: true, ..WatchOptions::default() };
        read_bytes(effects.0.as_bytes(), options).expect("it is MONITOR's text").finish()
    }
}

#[test]
fn what_is_no_lock_has_no_sure_finding_as_commands_or_as_effects() {
    // Each: commands of every round, and of every eighth after them. N: the round, K: one of three names.
    let shapes: [(&str, &[&str], &[&str]); 25] = [
        (
            "limiter",
            &[
                "EVAL limit 1 limit:{K} 1700{N}",
                "lua HINCRBY limit:{K} 1700{N} 1",
                "lua PEXPIRE limit:{K} 60000",
            ],
            &["DEL limit:{K}"],
        ),
        (
            "limiter that looks",
            &[
                "EVAL limit 1 limit:{K} b:{N}",
                "lua HGET limit:{K} b:{N}",
                "lua HINCRBY limit:{K} b:{N} 1",
                "lua PEXPIRE limit:{K} 60000",
            ],
            &["DEL limit:{K}"],
        ),
        (
            "session record",
            &[
                "EVAL touch 1 session:{K}",
                "lua EXISTS session:{K}",
                "lua HSET session:{K} last_seen {N}",
                "lua EXPIRE session:{K} 1800",
                "EVAL page 1 session:{K}",
                "lua EXISTS session:{K}",
                "lua HSET session:{K} page {N}",
                "lua EXPIRE session:{K} 1800",
            ],
            &["DEL session:{K}"],
        ),
        ("counter", &["INCR block:count", "INCR unlock:count", "DECR block:count"], &["DEL unlock:count"]),
        ("cache", &["GET price:{K}", "SET price:{K} {TOKEN} EX 60"], &["DEL price:{K}"]),
        ("session store", &["SET session:{K} {TOKEN} EX 3600", "GET session:{K}"], &["DEL session:{K}"]),
        (
            "state of a job",
            &[
                "SET job:{N} pending NX EX 3600",
                "SET job:{N} completed-at-{TOKEN} EX 3600",
                "SET job:{N} pending NX EX 3600",
            ],
            &["SET job:9{N} pending NX EX 3600", "DEL job:9{N}"],
        ),
        (
            "record of a request",
            &[
                "SET request:{N} {\"status\":\"BUSY\"} NX EX 60",
                "SET request:{N} {\"status\":\"OVER\"} EX 3600",
            ],
            &["DEL request:{N}"],
        ),
        ("marks", &["SET seen:{N} 1 NX EX 3600", "SET seen:{N} 1 NX EX 3600"], &[]),
        ("counter with an end", &["SET hits:{K} 0 EX 60 NX", "INCR hits:{K}"], &["DEL hits:{K}"]),
        ("flag", &["SETNX flag:{K} on", "SET flag:{K} off", "SET flag:{K} off"], &["DEL flag:{K}"]),
        (
            "members of a room",
            &[
                "EVAL enter 1 room user{N} 1",
                "lua HEXISTS room user{N}",
                "lua HSET room user{N} 1",
                "lua EXPIRE room 60",
            ],
            &["HDEL room user{N}"],
        ),
        ("registry", &["SET svc:{K} 10.0.0.{K}:8080 NX", "EXPIRE svc:{K} 30"], &["DEL svc:{K}"]),
        (
            "registry that is emptied",
            &["SETNX svc:{K} http://host-{K}", "EXPIRE svc:{K} 30", "EXPIRE svc:{K} 30", "DEL svc:{K}"],
            &[],
        ),
        (
            "registry in one step",
            &["SET svc:{K} 10.0.0.{K}:8080 NX EX 30", "EXPIRE svc:{K} 30"],
            &["DEL svc:{K}"],
        ),
        (
            "marks that a failure takes away",
            &["SET sent:{N} {TOKEN} NX EX 3600", "SET sent:{N} {TOKEN} NX EX 3600"],
            &["DEL sent:{N}"],
        ),
        (
            "record of a request that a script completes",
            &[
                "EVAL claim 1 request:{N} pending-{TOKEN}",
                "lua GET request:{N}",
                "lua SET request:{N} pending-{TOKEN} NX PX 60000",
                "EVAL complete 1 request:{N} done-{TOKEN}",
                "lua GET request:{N}",
                "lua SET request:{N} done-{TOKEN} PX 3600000",
            ],
            &[
                "EVAL claim 1 request:9{N} pending",
                "lua SET request:9{N} pending NX PX 60000",
                "DEL request:9{N}",
            ],
        ),
        (
            "counter of failures by the name of a lock",
            &["INCR lock:{K}", "EXPIRE lock:{K} 60"],
            &["DEL lock:0", "DEL lock:1", "DEL lock:2"],
        ),
        ("marks in two steps", &["SETNX seen:{N} 1", "EXPIRE seen:{N} 3600", "SETNX seen:{N} 1"], &[]),
        ("token that is used once", &["SET otp:{N} user-{N} NX EX 60", "DEL otp:{N}"], &[]),
        ("cache that anybody empties", &["DEL page:{K}", "GET page:{K}", "SET page:{K} 7 NX EX 60"], &[]),
        (
            "record that a script replaces",
            &["EVAL fill 1 page:{K} v{N}", "lua GET page:{K}", "lua SET page:{K} v{N} EX 60"],
            &["DEL page:0", "DEL page:1"],
        ),
        (
            "cache that a script fills",
            &["DEL tpl:{K}", "EVAL fill 1 tpl:{K} v{N}", "lua GET tpl:{K}", "lua SET tpl:{K} v{N} EX 60"],
            &[],
        ),
        (
            "cart",
            &["WATCH cart:{K}", "GET cart:{K}", "MULTI", "SET cart:{K} {TOKEN} EX 60", "EXEC"],
            &["DEL cart:{K}"],
        ),
        (
            "leaderboard",
            &[
                "EVAL score 1 board {N} user:{K}",
                "lua ZREMRANGEBYSCORE board -inf 1",
                "lua ZADD board {N} user:{K}",
            ],
            &["ZREM board user:{K}"],
        ),
    ];
    for (what, always, at_times) in shapes {
        let mut traffic = Traffic::default();
        for round in 0..60_u64 {
            let more = if round % 8 == 7 { at_times } else { &[] };
            let commands = always.iter().chain(more).map(|command| {
                let command = command.replace("{N}", &(10 + round).to_string());
                let command = command.replace("{K}", &(round % 3).to_string());
                command.replace("{TOKEN}", &format!("eyJhbGciOiJIUzI1NiJ9.{}", round * 7919))
            });
            let commands: Vec<String> = commands.collect();
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            traffic = traffic.run(round * 100, 5001 + (round % 2) as u16, &commands);
        }
        for (form, seen) in [("commands", traffic.seen()), ("effects", traffic.effects())] {
            assert_eq!(dangers(&seen), [""; 0], "{what}, {form}: {:?}", seen.report);
        }
    }
}
/// Cycles of one connection after the other: each takes the lock with its value, and gives it back by a
/// script.
fn in_turn(count: u64, values: [&str; 2]) -> Traffic {
    (0..count).fold(Traffic::default(), |traffic, round| {
        let (ms, client, value) = (round * 100, 5001 + (round % 2) as u16, values[round as usize % 2]);
        traffic.set(ms, client, value, 10_000).release(ms + 10, client, value, true)
    })
}

#[test]
fn a_renewal_that_there_is_time_for_is_no_proof_of_a_loss() {
    let renew = |traffic: Traffic, ms, inner: &[&str]| {
        let called = traffic.line(ms, 5001, &["EVALSHA", "renew", "1", "order:1", A, "3000"]);
        called.run(ms, 0, inner)
    };
    let begun = renew(
        Traffic::begun().set(100, 5001, A, 1_000),
        800,
        &["lua get order:1", "lua pttl order:1", "lua pexpire order:1 3000"],
    );
    let held = renew(begun, 1_600, &["lua get order:1", "lua pttl order:1"]);
    let seen = held.release(1_700, 5001, A, true).set(1_800, 5002, B, 1_000).release(1_900, 5002, B, true);
    assert_eq!(kinds(&seen.seen()), []);
    // One that asks for the owner alone tells that the key is gone.
    let begun = renew(
        Traffic::begun().set(100, 5001, A, 1_000),
        800,
        &["lua get order:1", "lua pexpire order:1 3000"],
    );
    let seen = renew(begun, 1_600, &["lua get order:1"]).seen();
    assert_eq!(kinds(&seen), [("lost-by-server".to_owned(), Certainty::Sure)]);
}

#[test]
fn a_holder_that_ends_its_lease_by_another_value_is_not_robbed() {
    // As a job scheduler's provider does it, by whichever connection of a pool.
    let mut traffic = Traffic::default();
    for round in 0..12 {
        let ms = round * 1_000;
        let value = |what: &str| format!("ADDED:2026-11-30T04:{round:02}:{what}Z@host");
        traffic = traffic.line(ms, 5001, &["SET", "job-lock:x", &value("00"), "NX", "PX", "60000"]).line(
            ms + 10,
            5002,
            &["SET", "job-lock:x", &value("10"), "XX", "PX", "500"],
        );
    }
    let seen = traffic.seen();
    assert_eq!(dangers(&seen), [""; 0]);
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.library.as_str()), (12, "ShedLock"));
}

#[test]
fn conditions_of_writes_and_of_ends_are_understood() {
    let held = || in_turn(6, [A, B]).set(1_000, 5001, A, 1_000);
    let ends: [(&[&str], u64); 8] = [
        (&["SET", "order:1", A, "XX", "PX", "3000"], 4_100),
        (&["SET", "order:1", A, "KEEPTTL"], 2_000),
        (&["GETEX", "order:1", "PX", "3000"], 4_100),
        (&["GETEX", "order:1"], 2_000),
        (&["PEXPIRE", "order:1", "3000", "GT"], 4_100),
        (&["PEXPIRE", "order:1", "3000", "XX"], 4_100),
        (&["PEXPIRE", "order:1", "100", "GT"], 2_000),
        (&["PEXPIRE", "order:1", "3000", "NX"], 2_000),
    ];
    for (words, until_ms) in ends {
        let written = || held().line(1_100, 5001, words);
        // Before the end the next one is refused, after it granted the lock.
        let lock =
            |ms| written().set(ms, 5002, B, 1_000).set(ms + 5, 5003, C, 1_000).seen().report.locks[0].clone();
        assert_eq!(lock(until_ms - 10).refusals, 2, "{words:?}");
        let after = lock(until_ms + 10);
        assert_eq!((after.refusals, after.grants), (1, 8), "{words:?}");
        assert_eq!(kinds(&written().release(1_200, 5001, A, true).seen()), [], "{words:?}");
    }
    // What is written if the key is there takes no lock whose lease is over, and another's if it is not.
    let late = held().line(2_500, 5001, &["SET", "order:1", A, "XX", "PX", "3000"]);
    let seen = late.set(2_600, 5002, B, 1_000).release(2_700, 5002, B, true).seen();
    assert_eq!((kinds(&seen), seen.report.locks[0].grants), (vec![], 8));
    let robbed =
        held().set(2_500, 5002, B, 5_000).line(2_600, 5001, &["SET", "order:1", A, "XX", "PX", "900"]);
    finding(&robbed.seen(), "overlap");
    let taken =
        Traffic::default().line(0, 5001, &["MSETNX", "order:1", A]).run(10, 5001, &["EXPIRE order:1 9"]);
    assert_eq!(taken.release(20, 5001, A, true).seen().report.locks[0].grants, 1);
}

#[test]
fn connections_beyond_those_that_are_counted_are_nobodys() {
    let others = (0..60_001).fold(cycles(6, 10_000, 10), |mut traffic, number| {
        let (host, port) = (number / 50_000, 6_000 + number % 50_000);
        writeln!(traffic.0, "1700000006.000000 [0 10.0.{host}.1:{port}] \"DEL\" \"x\"").unwrap();
        traffic
    });
    // A lease ends; the next holders come by connections of their own, each with plain DELs.
    let mut traffic = others.set(7_000, 5001, A, 100);
    for round in 0..6 {
        let (ms, value) = (8_000 + round * 100, [B, C][round as usize % 2]);
        let (one, other) = (20_000 + round as u16 * 2, 20_001 + round as u16 * 2);
        traffic = traffic.set(ms, one, value, if round == 0 { 50 } else { 10_000 });
        traffic = traffic.line(ms + 90, other, &["DEL", "order:1"]);
    }
    assert_eq!(dangers(&traffic.seen()), ["release-without-owner-check"]);
}

#[test]
fn a_second_service_with_a_pool_and_plain_deletes_robs_nobody() {
    let mut traffic = in_turn(8, [A, B]);
    for round in 8..16 {
        let (ms, value) = (round * 100, [B, C][round as usize % 2]);
        let (one, other) = if round % 2 == 0 { (6001, 6002) } else { (6002, 6001) };
        traffic = traffic.set(ms, one, value, 10_000).line(ms + 10, other, &["DEL", "order:1"]);
    }
    assert_eq!(dangers(&traffic.seen()), ["release-without-owner-check"]);
    // What looked like another's turns out to be a pool's.
    let pooled = (0..6).fold(in_turn(8, [A, B]), |traffic, round| {
        let ms = 1_000 + round * 100;
        let traffic = match round {
            0 => traffic.set(ms, 5001, B, 10_000).line(ms + 10, 5003, &["DEL", "order:1"]),
            _ => traffic.set(ms, 5001, B, 10_000).release(ms + 10, 5002, B, true),
        };
        traffic.set(ms + 20, 5002, C, 10_000).release(ms + 30, 5002, C, true)
    });
    assert_eq!(dangers(&pooled.seen()), [""; 0]);
}

#[test]
fn a_value_that_all_use_hides_no_overlap() {
    for value in ["in-progress", "1"] {
        let flushed = in_turn(8, [value; 2])
            .set(1_000, 5001, value, 10_000)
            .line(1_100, 5009, &["FLUSHALL"])
            .set(1_200, 5002, value, 10_000)
            .release(1_300, 5002, value, true)
            .seen();
        assert_eq!(dangers(&flushed), ["overlap", "lost-by-server"], "{value}");
        // A's lease is over when it deletes the key of B by its own value.
        let late = in_turn(8, [value; 2])
            .set(1_000, 5001, value, 100)
            .set(1_200, 5002, value, 10_000)
            .release(1_300, 5001, value, true)
            .set(1_400, 5003, value, 10_000)
            .release(1_500, 5002, value, true)
            .seen();
        assert!(dangers(&late).contains(&"overlap".to_owned()), "{value}: {:?}", late.report);
    }
    // A pool's client that has one value for all of its threads is one owner.
    let pooled = (0..12).fold(in_turn(4, [A; 2]), |traffic, round| {
        let (ms, one, other) = (1_000 + round * 100, 5001 + round as u16 % 3, 5001 + round as u16 % 2);
        let taken =
            traffic.set(ms, one, A, 10_000).line(ms + 10, other, &["SET", "order:1", A, "PX", "9000"]);
        taken.release(ms + 20, other, A, true)
    });
    assert_eq!(dangers(&pooled.seen()), [""; 0]);
}

#[test]
fn two_libraries_are_a_danger_only_where_their_keys_differ() {
    let (ours, redisson) =
        ("8743c9c0-0795-8907-87fd-6c719a6b4586:1", "8743c9c0-0795-4907-87fd-6c719a6b4586:1");
    let hashed = |traffic: Traffic, ms, owner: &str, looks: &str| {
        let called = traffic.line(ms, 5001, &["EVALSHA", looks, "1", "order:1", owner, "9000"]);
        let taken = called.line(ms, 0, &[looks, "order:1"]).line(ms, 0, &["hset", "order:1", owner, "1"]);
        let called = taken.line(ms, 0, &["pexpire", "order:1", "9000"]).line(
            ms + 5,
            5001,
            &["EVALSHA", "give", "1", "order:1", owner],
        );
        called.line(ms + 5, 0, &["hexists", "order:1", owner]).line(ms + 5, 0, &["del", "order:1"])
    };
    let interoperating = (0..6).fold(Traffic::default(), |traffic, round| {
        hashed(hashed(traffic, round * 100, ours, "pttl"), round * 100 + 50, redisson, "exists")
    });
    assert_eq!(kinds(&interoperating.seen()), []);
    // One lock by two libraries whose keys are strings, which exclude each other.
    let (one, other) = ("AAAAAAAAAAAAAAAAAAAAAA==", "0123456789ab1def8123456789abcdef");
    let strings = (0..6).fold(Traffic::default(), |traffic, round| {
        let ms = round * 100;
        let traffic = traffic.set(ms, 5001, one, 1_000).release(ms + 10, 5001, one, true);
        traffic.set(ms + 20, 5001, other, 1_000).release(ms + 30, 5001, other, true)
    });
    let likely = kinds(&strings.seen()).into_iter().filter(|(kind, _)| kind == "two-recipes");
    assert_eq!(likely.collect::<Vec<_>>(), [("two-recipes".to_owned(), Certainty::Likely)]);
    // Random hexadecimal digits look like a UUID of version 1 once in 64 times.
    let random = (0..256_u64).fold(Traffic::default(), |traffic, round| {
        let (value, ms) = (
            format!("{:032x}", u128::from(round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
            round * 100,
        );
        let value = value[value.len() - 32..].to_owned();
        traffic.set(ms, 5001, &value, 1_000).release(ms + 10, 5001, &value, true)
    });
    let seen = random.seen();
    assert_eq!((seen.report.locks[0].library.as_str(), dangers(&seen)), ("", vec![]));
}

#[test]
fn a_lock_that_is_only_taken_is_never_released() {
    let taken = |name: &str| {
        let traffic = (0..5).fold(Traffic::default(), |traffic, round| {
            traffic.line(round * 1_000, 5001, &["SET", name, "1", "NX", "PX", "100"])
        });
        traffic.line(6_000, 5001, &["PING"]).line(6_001, 5001, &["SET", name, "1", "NX", "PX", "100"]).seen()
    };
    assert_eq!(kinds(&taken("lock:import")), [("never-released".to_owned(), Certainty::Likely)]);
    assert_eq!(kinds(&taken("clock:import")), []);
}

#[test]
fn each_library_is_known_by_what_it_sends() {
    let uuid = "8743c9c0-0795-4907-87fd-6c719a6b4586";
    let thread = format!("{uuid}:41");
    let get_del = ["lua get NAME", "lua del NAME"];
    let string = |value: &str| -> Vec<String> {
        let taken = [format!("SET NAME {value} NX PX 30000"), format!("EVALSHA give 1 NAME {value}")];
        taken.into_iter().chain(get_del.map(str::to_owned)).collect()
    };
    let script = |value: &str, inner: &str, release: &str| -> Vec<String> {
        let taken = format!("EVALSHA take 1 NAME {value} 30000");
        let inner = inner.split(", ").map(|command| format!("lua {}", command.replace("VALUE", value)));
        let given = format!("EVALSHA give 1 NAME {value}");
        let release = release.split(", ").map(|command| format!("lua {}", command.replace("VALUE", value)));
        [taken].into_iter().chain(inner).chain([given]).chain(release).collect()
    };
    let hash_release = "hexists NAME VALUE, hincrby NAME VALUE -1, del NAME";
    let cases: [(&str, &str, Vec<String>); 13] = [
        (
            "Redisson",
            "order",
            script(&thread, "exists NAME, hincrby NAME VALUE 1, pexpire NAME 30000", hash_release),
        ),
        ("redsync", "order", string("q83vEjRWeJCrze8SNFZ4kA==")),
        ("redis-py", "order", string("0123456789ab11f08123456789abcdef")),
        (
            "node-redlock",
            "order",
            script(
                "0123456789abcdef0123456789abcdef",
                "exists NAME, set NAME VALUE PX 30000",
                "get NAME, del NAME",
            ),
        ),
        ("redis-semaphore", "mutex:order", string(uuid)),
        (
            "bsm/redislock",
            "order",
            script("q83vEjRWeJCrze8SNFZ4kA", "msetnx NAME VALUE, pexpire NAME 30000", "mget NAME, del NAME"),
        ),
        ("ShedLock", "job-lock:env:order", string("ADDED:2026-11-30T04:00:00.123Z@host-1")),
        (
            "Spring Integration",
            "registry:order",
            script(uuid, "GET NAME, SET NAME VALUE PX 30000", "GET NAME, UNLINK NAME"),
        ),
        ("Laravel", "laravel_cache_:order", string("Zk3mQ9xT1bV7cR5d")),
        (
            "BullMQ",
            "bull:mail:7:lock",
            script(
                &thread,
                "incr bull:mail:limiter, set NAME VALUE PX 30000, hset bull:mail:7 pb 1",
                "get NAME, del NAME",
            ),
        ),
        (
            "sidekiq-unique-jobs",
            "uniquejobs:1f2e3d4c5b6a:LOCKED",
            script(
                "b4a577edbccf1d805744efa9",
                "hexists NAME VALUE, hlen NAME, hset NAME VALUE 1700000000.1, pexpire NAME 30000",
                "hexists NAME VALUE, hdel NAME VALUE",
            ),
        ),
        ("rslock", "order", string("\u{fd}1234567890123456\u{fe}")),
        (
            "lock-core",
            "order",
            script("token-of-ours-0001", "pttl NAME, set NAME VALUE px 30000", "get NAME, del NAME"),
        ),
    ];
    for (library, name, lines) in cases {
        let mut traffic = Traffic::default();
        for round in 0..4 {
            let lines: Vec<String> = lines.iter().map(|line| line.replace("NAME", name)).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            traffic = traffic.run(round * 100, 5001 + round as u16 % 2, &lines);
        }
        let seen = traffic.seen();
        let lock = seen.report.locks.first().unwrap_or_else(|| panic!("{library}: {:?}", seen.report));
        let counted = (lock.library.as_str(), lock.grants, lock.released);
        assert_eq!(counted, (library, 4, 4), "{:?}", seen.report);
        assert_eq!(dangers(&seen), [""; 0], "{library}");
    }
}

/// Commands that locks are made of, on two keys by three clients, in no sensible order.
fn any_command() -> impl Strategy<Value = String> {
    let commands = [
        "SET K V NX PX 50",
        "SET K V PX 50",
        "SET K V",
        "SET K V IFEQ V PX 50",
        "SETNX K V",
        "SET K V XX PX 50",
        "SET K V KEEPTTL",
        "MSETNX K V",
        "GETEX K PX 50",
        "PEXPIRE K 60 GT",
        "PEXPIRE K 60 NX",
        "SETEX K 1 V",
        "GETSET K V",
        "PERSIST K",
        "PEXPIRE K 50",
        "EXPIREAT K 1",
        "PEXPIREAT K 99999999999999999",
        "PEXPIRE K -1",
        "DEL K",
        "DELEX K IFEQ V",
        "INCR lock:K",
        "DECR lock:K",
        "BLPOP lock:K 0",
        "LPUSH lock:K V",
        "WATCH K",
        "GET K",
        "MULTI",
        "EXEC",
        "DISCARD",
        "FLUSHALL",
        "EVALSHA take 1 K V 50",
        "EVALSHA give 1 K V",
        "lua get K",
        "lua pttl K",
        "lua del K",
        "lua set K V px 50",
        "lua hset K V 1",
        "lua hincrby K V -1",
        "lua hdel K V",
        "lua pexpire K 50",
        "lua decrby K 1",
        "lua incrby K 1",
        "lua zadd {K}:set 1700000060000 V",
        "lua zrem {K}:set V",
    ];
    let value = prop::sample::select(vec![A, B, "1", ""]);
    let key = prop::sample::select(vec!["lock:1", "stock"]);
    (prop::sample::select(commands.to_vec()), key, value)
        .prop_map(|(command, key, value)| command.replace('K', key).replace('V', value))
}

proptest! {
    #[test]
    fn no_traffic_is_too_odd(
        commands in prop::collection::vec((any_command(), 0_usize..5, 0_u16..3, 0_u64..80), 1..120),
        members in prop::sample::select(vec![0_usize, 3, 5]),
        effects_only: bool,
    ) {
        let mut watcher = Watcher::new(WatchOptions { effects_only, ..WatchOptions::default() });
        watcher.set_members(members);
        let (mut ms, count) = (0, commands.len());
        for (command, source, client, later) in commands {
            ms += later / 4;
            let (client, command) = match command.strip_prefix("lua ") {
                Some(called) => (0, called),
                None => (5001 + client, &*command),
            };
            let words: Vec<&str> = command.split(' ').collect();
            // Clocks of servers differ, and step back.
            let Traffic(line) = Traffic::default().line(ms.saturating_sub(later * 3 % 7), client, &words);
            watcher.line(source, &MonitorLine::parse(line.trim_end().as_bytes()).unwrap());
        }
        let seen = watcher.finish();
        prop_assert_eq!(seen.report.commands, count as u64);
        for line in &seen.history {
            prop_assert!(Line::parse(&line.to_json()).is_ok());
        }
        for lock in &seen.report.locks {
            let ended = lock.released + lock.expired + lock.still_held;
            prop_assert!(ended <= lock.grants, "{:?}", lock);
        }
    }
}

/// What three nodes with fixed names did, each by a pool of two connections, a and b, with a lease of 10 ms
/// on a busy machine: microseconds, node and connection, and whether a release found its value.
const LOADED: &str = "\
    0 2a set, 484 3a set, 4792 2b set, 5369 3b set, 7937 2a set, 7996 1a gave, 8275 1b set, \
    8736 3a set, 9168 2b set, 11849 3b set, 11978 2a set, 13871 2b set, 14497 3a set, 15975 3b set, \
    16008 2a set, 16674 3a set, 19224 3b set, 20048 2b set, 21270 2a set, 24799 2b set, \
    26302 2a set, 29049 2b set, 29541 1a not, 29774 2a set, 31595 3a not, 31658 2b set, \
    35286 1b set, 35294 3b set, 37208 3a set, 38734 1a set, 38878 3b set, 41083 1b set, \
    41445 3a set, 42698 1a set, 43608 3b set, 46134 2a not, 46166 3a set, 48003 1b gave, \
    48395 2b set, 49238 3b set, 51703 1a set, 51709 3a set, 52943 1b set, 53410 3b set, \
    54686 3a set";

#[test]
fn nodes_with_fixed_names_and_pools_never_overlap() {
    let mut text = String::new();
    for line in LOADED.split(", ") {
        let [micros, connection, what] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (node, port) = (&connection[..1], 5_000 + u16::from_str_radix(connection, 16).unwrap());
        let (micros, owner) = (micros.parse::<u64>().unwrap(), format!("node-{node}"));
        let mut say = |client: &str, words: &str| {
            writeln!(text, "1700000000.{micros:06} [0 {client}] {words}").unwrap();
        };
        let client = format!("127.0.0.1:{port}");
        if what == "set" {
            say(&client, &format!(r#""SET" "k" "{owner}" "NX" "PX" "10""#));
            continue;
        }
        say(&client, &format!(r#""EVAL" "{RELEASE}" "1" "k" "{owner}""#));
        say("lua", r#""get" "k""#);
        if what == "gave" {
            say("lua", r#""del" "k""#);
        }
    }
    let seen = read_bytes(text.as_bytes(), WatchOptions::default()).unwrap().finish();
    assert_eq!(dangers(&seen), [""; 0], "{:?}", seen.report);
    assert_eq!(seen.report.locks[0].names, 1);
}

/// Nodes with fixed names, whose pools have two connections each: one deletes what another has.
#[test]
fn a_node_that_deletes_the_key_of_another_is_found_whatever_pools_there_are() {
    let mut traffic = Traffic::default();
    for round in 0..10_u16 {
        let (ms, node) = (u64::from(round) * 100, round % 2);
        let (taker, giver) = (5001 + node * 10 + round / 2 % 2, 5001 + node * 10 + round / 4 % 2);
        let name = ["node-1", "node-2"][usize::from(node)];
        traffic = traffic.set(ms, taker, name, 10_000).set(
            ms + 5,
            5011 - node * 10,
            ["node-2", "node-1"][usize::from(node)],
            10_000,
        );
        traffic = traffic.release(ms + 10, giver, name, true);
    }
    assert_eq!(dangers(&Traffic(traffic.0.clone()).seen()), [""; 0]);
    let robbed = traffic
        .set(2_000, 5001, "node-1", 10_000)
        .line(2_010, 5012, &["DEL", "order:1"])
        .set(2_020, 5011, "node-2", 10_000)
        .release(2_030, 5002, "node-1", false)
        .release(2_040, 5012, "node-2", true);
    let seen = robbed.seen();
    assert_eq!(dangers(&seen), ["overlap", "released-by-another"], "{:?}", seen.report);
}

/// The server asks the clock for the end of a lease before it stamps the line, and may get no processor in
/// between: the lease of A ends at 1110, by its stamp 20 ms later.
#[test]
fn a_grant_that_was_stamped_late_promises_nothing_beyond_its_end() {
    let seen = |before_ms: u64| {
        let traffic = Traffic::begun().line(before_ms, 5003, &["PING"]).set(130, 5001, A, 1_000);
        traffic.set(1_112, 5002, B, 1_000).release(1_200, 5002, B, true).seen()
    };
    assert_eq!(dangers(&seen(109)), [""; 0]);
    // The server had run another command right before it.
    assert_eq!(dangers(&seen(129)), ["overlap"]);
}

/// `finally: DEL` around a SET NX that failed: who is refused frees the lock.
#[test]
fn a_client_that_deletes_though_it_was_refused_is_found_and_a_pool_is_not() {
    let others = |traffic: Traffic, client, value: &str, ms| traffic.set(ms, client, value, 10_000);
    for values in [[A, B, C], ["1"; 3], ["node-1", "node-2", "node-3"]] {
        let [mut broken, mut pooled] = [Traffic::default(), Traffic::default()];
        for round in 0..12_u16 {
            let ms = u64::from(round) * 100;
            let place = |more: u16| usize::from((round + more) % 3);
            let [one, two, three] = [0, 1, 2].map(|more| (5001 + place(more) as u16, values[place(more)]));
            broken = others(broken, one.0, one.1, ms);
            broken = others(broken, two.0, two.1, ms + 10).line(ms + 11, two.0, &["DEL", "order:1"]);
            broken = others(broken, three.0, three.1, ms + 20).line(ms + 40, one.0, &["DEL", "order:1"]);
            broken = broken.line(ms + 60, three.0, &["DEL", "order:1"]);
            // The connection of one that was refused gives back what another took.
            pooled = others(pooled, one.0, one.1, ms);
            pooled = others(pooled, two.0, two.1, ms + 10).line(ms + 11, two.0, &["DEL", "order:1"]);
            pooled = others(pooled, three.0, three.1, ms + 20).line(ms + 40, one.0, &["DEL", "order:1"]);
        }
        let found = dangers(&broken.seen());
        assert_eq!(found[..2], ["overlap", "released-by-another"], "{values:?}: {found:?}");
        let found = dangers(&pooled.seen());
        let is_mild = |kind: &String| kind == "release-without-owner-check";
        assert!(found.iter().all(is_mild), "{values:?}: {found:?}");
    }
}

/// What is queued is shown once EXEC runs it: MULTI without it did nothing, and hides nothing.
#[test]
fn a_transaction_that_is_cut_leaves_nothing() {
    let cut = Traffic::begun().line(100, 5001, &["MULTI"]).line(110, 5002, &["PING"]);
    // A new connection of the same name.
    let again = cut.set(120, 5001, A, 1_000).set(130, 5002, B, 1_000).release(140, 5001, A, true);
    let seen = again.set(150, 5002, B, 1_000).release(160, 5002, B, true).seen();
    let lock = &seen.report.locks[0];
    assert_eq!((lock.grants, lock.refusals, lock.released), (3, 1, 3), "{lock:?}");
    assert_eq!(dangers(&seen), [""; 0]);
    // As MONITOR shows one that is whole, with another's command before its first.
    let whole = Traffic::begun().line(100, 5001, &["MULTI"]).line(110, 5002, &["PING"]);
    let whole = whole.run(120, 5001, &["SETNX order:1 token-0001", "PEXPIRE order:1 1000", "EXEC"]);
    assert_eq!(dangers(&whole.release(140, 5001, "token-0001", true).seen()), [""; 0]);
}
