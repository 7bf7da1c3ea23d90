//! Small histories, good and bad: each checker convicts what it must and nothing else.

use std::path::Path;

use chaos::checkers::{CHECKERS, CheckOptions, CheckReport, check};
use results::history::{End, Entry, History};
use results::verdict::{State, Verdict};

fn history(name: &str) -> History {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(name).with_extension("jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    History::parse(&text).unwrap()
}

fn judged(name: &str) -> CheckReport {
    check(&history(name), &CheckOptions::default())
}

/// As it is, however little happened.
fn without_floors(history: &History) -> CheckReport {
    let options = CheckOptions { floors: None, ..CheckOptions::default() };
    check(history, &options)
}

/// Two holds of a lock with a lease of 3 s, the second one from 2 s on; `told` is what is known of the first
/// one's end. Until then the recorder stood still for as long as is said.
fn stalled(told: &str, stalled_ms: u64) -> CheckReport {
    let stall = match stalled_ms {
        0 => String::new(),
        _ => {
            format!("{{\"t_ns\":2000000000,\"event\":\"stall\",\"lasted_ns\":{}}}\n", stalled_ms * 1_000_000)
        }
    };
    let text = format!(
        r#"{{"t_ns":1000000,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":3000,"wait_ms":100}}
{{"t_ns":2000000,"id":1,"end":"ok","grant":"g1"}}
{{"t_ns":1400000000,"id":2,"client":"c2","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":3000,"wait_ms":1000}}
{{"t_ns":2000000000,"id":2,"end":"ok","grant":"g2"}}
{stall}{told}
{{"t_ns":2600000000,"id":9,"op":"release","grant":"g2"}}
{{"t_ns":2601000000,"id":9,"end":"ok"}}
"#
    );
    without_floors(&History::parse(&text).unwrap())
}

#[test]
fn waits_shorter_than_a_round_trip_are_noted_once() {
    // Eight acquires of two locks, each ended unknown after 25 ms, then one that waits longer and is answered
    // after 50 ms.
    let notes = |wait_ms: u64, ending: &str| {
        let mut text = String::new();
        for n in 0..8_u64 {
            let (called, lock) = (n * 100_000_000, n % 2);
            text += &format!(
                "{{\"t_ns\":{called},\"id\":{n},\"client\":\"c1\",\"owner\":\"t0\",\"op\":\"acquire\",\"lock\":\"{lock}\",\"kind\":\"plain\",\"lease_ms\":1000,\"wait_ms\":{wait_ms}}}\n\
                 {{\"t_ns\":{},\"id\":{n},\"end\":\"{ending}\"}}\n",
                called + 25_000_000
            );
        }
        text += r#"{"t_ns":2000000000,"id":9,"client":"c2","owner":"t0","op":"acquire","lock":"0","kind":"plain","lease_ms":1000,"wait_ms":1000}
{"t_ns":2050000000,"id":9,"end":"ok","grant":"g1"}
"#;
        without_floors(&History::parse(&text).unwrap()).notes
    };
    let [note] = notes(5, "unknown").try_into().expect("one note");
    assert!(note.starts_with("4 of 5 acquires of 0 and 1 other locks"), "{note}");
    // Answers that came, and waits that were not over.
    assert_eq!(notes(5, "busy"), Vec::<String>::new());
    assert_eq!(notes(60, "unknown"), Vec::<String>::new());
}

#[test]
fn what_only_a_stall_of_the_recorder_convicts_is_unknown() {
    let lost = r#"{"t_ns":2010000000,"event":"lost","grant":"g1"}"#;
    let release = "{\"t_ns\":2010000000,\"id\":3,\"op\":\"release\",\"grant\":\"g1\"}\n{\"t_ns\":2011000000,\"id\":3,\"end\":\"not_held\"}";
    let state = |told: &str, stalled_ms| {
        let verdict = stalled(told, stalled_ms).verdicts.belief;
        (verdict.state, verdict.why)
    };
    assert_eq!(state(lost, 0).0, State::Violated);
    // The loss may have been told before the second grant.
    let (belief, why) = state(lost, 500);
    assert_eq!(belief, State::Unknown);
    assert!(why[0].contains("stood still 1 time, for 500.000 ms"), "{why:?}");
    // What was told long after a stall was not delayed by it.
    let later = lost.replace("2010000000", "2300000000");
    assert_eq!(state(&later, 500).0, State::Violated);
    // A release is begun by the recorder.
    assert_eq!(state(release, 500).0, State::Violated);
    // A renewal is written down when it is told, an extend when its caller begins it.
    let extend = |by: &str| {
        format!(
            "{{\"t_ns\":2010000000,\"id\":3,\"op\":\"extend\",\"grant\":\"g1\",\"lease_ms\":1000{by}}}\n{{\"t_ns\":2011000000,\"id\":3,\"end\":\"ok\"}}"
        )
    };
    let confirmed = |told: &str, stalled_ms| stalled(told, stalled_ms).verdicts.confirmed.state;
    let renewal = extend(",\"by\":\"watchdog\"");
    assert_eq!(confirmed(&renewal, 0), State::Violated);
    assert_eq!(confirmed(&renewal, 500), State::Unknown);
    assert_eq!(confirmed(&extend(""), 500), State::Violated);
}

#[test]
fn what_is_convicted_after_the_machines_clock_was_set_is_unknown() {
    // The two hold together from 2 s to 2.3 s.
    let lost = r#"{"t_ns":2300000000,"event":"lost","grant":"g1"}"#;
    let set_at = |t_ns: u64| {
        let step =
            format!(r#"{{"t_ns":{t_ns},"event":"stall","lasted_ns":5000000,"clock_step_ns":-9000000000}}"#);
        let mut lines = [step.as_str(), lost];
        lines.sort_unstable();
        stalled(&lines.join("\n"), 0).verdicts.belief
    };
    let belief = set_at(2_200_000_000);
    assert_eq!(belief.state, State::Unknown);
    assert!(belief.why[0].contains("clock was set by -9000.000 ms"), "{:?}", belief.why);
    assert_eq!(set_at(2_400_000_000).state, State::Violated);
}

/// One owner holds for a lease of 1 s, enters again at 0.5 s for so long, and releases that at once; another
/// gets the lock at this time.
fn reentered(features: &str, inner_lease_ms: u64, granted_ms: u64) -> State {
    let text = format!(
        r#"{{"t_ns":0,"event":"client","client":"c1","features":[{features}]}}
{{"t_ns":0,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":1000,"wait_ms":100}}
{{"t_ns":1000000,"id":1,"end":"ok","grant":"g1"}}
{{"t_ns":500000000,"id":2,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":{inner_lease_ms},"wait_ms":100}}
{{"t_ns":501000000,"id":2,"end":"ok","grant":"g2"}}
{{"t_ns":510000000,"id":3,"op":"release","grant":"g2"}}
{{"t_ns":511000000,"id":3,"end":"ok"}}
{{"t_ns":520000000,"id":4,"client":"c2","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":1000,"wait_ms":2000}}
{{"t_ns":{granted},"id":4,"end":"ok","grant":"g3","sent_ns":{granted}}}
{{"t_ns":1400000000,"id":5,"op":"release","grant":"g3"}}
{{"t_ns":1400000000,"id":5,"end":"ok"}}
{{"t_ns":1600000000,"id":6,"op":"release","grant":"g1"}}
{{"t_ns":1601000000,"id":6,"end":"not_held"}}
"#,
        granted = granted_ms * 1_000_000
    );
    without_floors(&History::parse(&text).unwrap()).verdicts.contract.state
}

#[test]
fn a_re_entry_renews_the_hold_unless_the_library_says_that_it_has_a_lease_of_its_own() {
    let says = "\"lost\",\"nested_leases\"";
    // A longer inner lease does not keep the outer hold, and a shorter one does not end it.
    assert_eq!(reentered("\"lost\"", 1_000, 1_100), State::Violated);
    assert_eq!(reentered(says, 1_000, 1_100), State::Clean);
    assert_eq!(reentered("\"lost\"", 200, 800), State::Clean);
    assert_eq!(reentered(says, 200, 800), State::Violated);
}

/// The classes that are violated, in the order of the registry; none may be unknown.
fn violated(report: &CheckReport) -> Vec<&'static str> {
    let verdicts: [&Verdict; 5] = [
        &report.verdicts.belief,
        &report.verdicts.contract,
        &report.verdicts.confirmed,
        &report.verdicts.effect,
        &report.verdicts.liveness,
    ];
    let named = CHECKERS.iter().zip(verdicts);
    named
        .filter(|(checker, verdict)| {
            assert_ne!(verdict.state, State::Unknown, "{}: {:?}", checker.name, verdict.why);
            assert_eq!(verdict.count > 0, verdict.state == State::Violated);
            assert_eq!(verdict.anomalies.is_empty(), verdict.count == 0);
            verdict.state == State::Violated
        })
        .map(|(checker, _)| checker.name)
        .collect()
}

#[track_caller]
fn expect(name: &str, classes: &[&str]) -> CheckReport {
    let report = judged(name);
    assert_eq!(violated(&report), classes, "{name}: {:#?}", report.verdicts);
    report
}

// c1 |--|        |--|
// c2     |--|        |--|
// c3         |--|
/// `Aa` and `BB` have one place in the table of names. What is said of one is not said of the other: its lock
/// goes to the next, while the other is held.
#[test]
fn names_of_one_place_in_the_table_are_two_names() {
    let acquire = |t_ns: u64, id: u64, client: &str, lock: &str, grant: &str| {
        format!(
            "{{\"t_ns\":{t_ns},\"id\":{id},\"client\":\"{client}\",\"owner\":\"t0\",\"op\":\"acquire\",\"lock\":\"{lock}\",\"kind\":\"plain\",\"lease_ms\":3000,\"wait_ms\":100}}\n\
             {{\"t_ns\":{},\"id\":{id},\"end\":\"ok\",\"grant\":\"{grant}\"}}\n",
            t_ns + 10
        )
    };
    let release = "{\"t_ns\":300,\"id\":3,\"op\":\"release\",\"grant\":\"Aa\"}\n{\"t_ns\":310,\"id\":3,\"end\":\"ok\"}\n";
    let text = acquire(100, 1, "c1", "a", "Aa") + &acquire(200, 2, "c2", "b", "BB") + release;
    let history = History::parse(&(text + &acquire(400, 4, "c3", "a", "g3"))).unwrap();
    let report = without_floors(&history);
    assert_eq!(violated(&report), Vec::<&str>::new());
    assert_eq!(report.verdicts.belief.state, State::Clean);
}

#[test]
fn holds_one_after_the_other_are_clean() {
    let report = expect("one-after-the-other", &[]);
    assert_eq!(report.grants, 6);
    assert_eq!(report.operations["acquire"]["ok"], 6);
    let none = ["failed", "unknown"].map(|ending| report.operations["release"][ending]);
    assert_eq!(none, [0, 0], "what did not happen is counted too");
}

// c1 |==lease==|.....paused....|   believes until it calls release
// c2              |--|
#[test]
fn a_pause_beyond_the_lease_violates_belief_alone() {
    let report = expect("belief-pause-beyond-the-lease", &["belief"]);
    let anomaly = &report.verdicts.belief.anomalies[0];
    assert_eq!(anomaly.grants, ["a", "b"]);
    assert_eq!((anomaly.from_ns, anomaly.to_ns), (1_210_000_000, 1_300_000_000));
    assert_eq!(
        anomaly.proof,
        "c1/t0 (a, lease 1000.000 ms from 100.000 ms) believed to hold from 110.000 ms to 1400.000 ms, and c2/t0 (b, lease 1000.000 ms from 1200.000 ms) believed to hold from 1210.000 ms to 1300.000 ms: together for 90.000 ms from 1210.000 ms"
    );
}

// c1 |=====lease=====|
// c2     |--|
#[test]
fn a_second_grant_inside_the_lease_violates_the_contract() {
    expect("contract-second-grant-inside-the-lease", &["belief", "contract"]);
    // The extend at 600 ms moved the end of the lease from 1,100 to 1,600 ms.
    expect("contract-second-grant-inside-an-extend", &["belief", "contract"]);
}

// c1 |==lease==|~~~|--|     asks again before its lease ends, and waits
// c2            |--|
#[test]
fn a_re_entry_renews_the_outer_hold_only_if_it_was_answered_in_time() {
    let name = "contract-re-entry-answered-after-the-lease";
    expect(name, &["belief"]);
    // Nor does it where it was sent in time, and arrived late.
    for sent_ms in [950, 1_599] {
        let mut history = history(name);
        for line in &mut history.lines {
            if let Entry::End { end, .. } = &mut line.entry
                && let End::Ok { grant, sent_ns, .. } = end
                && grant.as_deref() == Some("inner")
            {
                *sent_ns = Some(sent_ms * 1_000_000);
            }
        }
        let report = check(&history, &CheckOptions::default());
        assert_eq!(violated(&report), ["belief"], "sent at {sent_ms} ms");
    }
    expect("contract-second-grant-inside-a-re-entry", &["belief", "contract"]);
}

// called 100, wait 500, lease 300: late after 900; returned at 1,000
#[test]
fn a_grant_after_its_own_lease_is_late_unless_its_client_was_paused() {
    let report = expect("contract-late-grant", &["contract"]);
    assert_eq!(report.verdicts.contract.anomalies[0].what, "late-grant");
    assert_eq!(report.verdicts.contract.worst_ns, 100_000_000);
    expect("contract-late-grant-of-a-paused-client", &[]);
}

// the same; by its own word the client was told at 890, and at 950
#[test]
fn a_grant_is_as_late_as_its_client_was_told_and_not_as_the_recorder_wrote() {
    expect("contract-grant-told-in-time", &[]);
    let report = expect("contract-grant-told-late", &["contract"]);
    assert_eq!(report.verdicts.contract.worst_ns, 50_000_000);
}

// c1 |-------|ok      both releases worked: the servers confirmed both
// c2    |--|ok
#[test]
fn two_confirmed_holds_mean_lost_state() {
    let all = ["belief", "contract", "confirmed"];
    expect("confirmed-both-releases-worked", &all);
    expect("confirmed-one-release-refused", &["belief", "contract"]);
    // Of libraries that answer ok to a release whatever it found: only what worked before it proves a hold.
    expect("confirmed-not-by-blind-releases", &["belief", "contract"]);
    expect("confirmed-by-extends-before-blind-releases", &all);
    // A client that was stopped in its release tells late of a renewal that it had sent before.
    expect("confirmed-not-by-a-renewal-told-late", &[]);
}

#[test]
fn an_update_that_overwrites_another_unread_is_lost() {
    let all = ["belief", "contract", "confirmed", "effect"];
    let report = expect("effect-lost-update", &all);
    assert_eq!(report.verdicts.effect.anomalies[0].what, "lost-update");
    expect("effect-writes-in-order", &[]);
}

// c1 |==lease==| token 5 ........ write(5) accepted
// c2              |-- token 6, write(6) --|
#[test]
fn a_token_that_was_overtaken_must_not_write() {
    let report = expect("effect-stale-write-accepted", &["belief", "effect"]);
    assert_eq!(report.verdicts.effect.anomalies[0].what, "stale-write");
}

#[test]
fn a_later_grant_needs_a_greater_token() {
    let report = expect("effect-token-regression", &["effect"]);
    assert_eq!(report.verdicts.effect.anomalies[0].what, "token-regression");
    // A release that may not have worked leaves the owner in the lock: it re-enters and keeps its token.
    expect("effect-re-entry-keeps-its-token", &[]);
    // But not where somebody else was granted the lock since: the resource has seen that greater token.
    let report = expect("effect-re-entry-after-anothers-grant", &["effect"]);
    assert_eq!(report.verdicts.effect.anomalies[0].what, "token-regression");
}

// c1 ~~~~~~~~~|a 5|?        |b 5|
// c2  ~|9|
// c3   ~~~~~~~~~~~~~~~|7|
#[test]
fn an_older_token_hides_no_later_one() {
    expect("effect-re-entry-beside-an-older-token", &[]);
    let name = "effect-re-entry-after-anothers-grant-behind-an-older-token";
    let report = expect(name, &["effect"]);
    assert_eq!(report.verdicts.effect.anomalies[0].what, "token-regression");
}

// c3 |--|ok          free from here on
// c1       |busy||busy||busy||busy||busy|   2.5 s of asking in sum
#[test]
fn a_free_lock_that_refuses_is_stuck() {
    let report = expect("liveness-free-and-refused", &["liveness"]);
    assert_eq!(report.verdicts.liveness.anomalies[0].what, "stuck");
    // No wait that it could have used up: refused after 2 ms of the 500, and asked again after 98.
    let report = expect("liveness-refused-at-once-again-and-again", &["liveness"]);
    assert_eq!(report.verdicts.liveness.anomalies[0].what, "stuck");
    expect("liveness-refused-at-once-while-held", &[]);
    // A dead holder's lease explains it, and so do servers that are down.
    expect("liveness-until-a-dead-holders-lease-ends", &[]);
    // So does a release that a power cut has undone.
    expect("liveness-until-the-lease-of-an-undone-release-ends", &[]);
    // So does an answer that a fault has lost, until its client gives up.
    expect("liveness-lost-replies-are-waited-for", &[]);
    let report = expect("liveness-servers-down", &[]);
    assert_eq!(report.notes.len(), 1);
}

// c1 |----hold----|
// c2   |----------waits----------…
// c3         |----|--hold--|          asked 0.7 s later, served first
#[test]
fn a_fair_lock_serves_its_queue_in_order() {
    let report = expect("liveness-fair-lock-bypassed", &["liveness"]);
    assert_eq!(report.verdicts.liveness.anomalies[0].what, "bypass");
}

#[test]
fn holds_of_one_owner_nest_in_re_entrant_kinds_only() {
    expect("nested-holds-of-one-owner", &[]);
    let all = ["belief", "contract", "confirmed"];
    expect("plain-lock-granted-twice-to-one-owner", &all);
}

#[test]
fn readers_share_and_writers_do_not() {
    expect("readers-share", &[]);
    expect("writer-beside-a-reader", &["belief", "contract", "confirmed"]);
    expect("writer-goes-down-to-reader", &[]);
}

// c1 |--a,b--|
// c2    |--b,c--|    only b is held twice
#[test]
fn a_multi_lock_holds_each_of_its_keys() {
    let report = expect("multi-locks-share-a-key", &["belief", "contract", "confirmed"]);
    let states: Vec<_> = report.locks.values().map(|lock| lock.belief.state).collect();
    assert_eq!(states, [State::Clean, State::Violated, State::Clean]);
}

#[test]
fn a_later_proof_turns_an_unknown_grant_into_held() {
    let all = ["belief", "contract", "confirmed"];
    expect("unknown-grant-proven-by-its-release", &all);
    expect("unknown-grant-never-proven", &[]);
}

// c1 renewed at 10 s for 30 s, then paused: promised until 39.7 s where the renewals are visible, else until
// it says lost
#[test]
fn visible_renewals_end_a_renewed_contract() {
    expect("renewed-lease-with-visible-renewals", &["belief"]);
    expect("renewed-lease-without-visible-renewals", &["belief", "contract"]);
    // One that reports each has not renewed: promised until 29.8 s.
    expect("renewed-lease-of-a-library-that-would-report", &["belief"]);
}

#[test]
fn a_crash_ends_belief_and_the_name_may_come_back() {
    expect("crash-ends-belief", &[]);
}

#[test]
fn a_grant_whose_answer_was_read_after_the_death_of_its_client_is_nobodys() {
    expect("crash-before-the-answer-was-read", &[]);
}

#[test]
fn a_lock_whose_loss_is_said_with_its_grant_was_never_believed_in() {
    expect("lost-as-it-was-granted", &["contract"]);
}

#[test]
fn too_little_is_unknown_unless_the_floors_are_off() {
    let report = judged("too-little-happened");
    assert_eq!(report.verdicts.belief.state, State::Unknown);
    assert_eq!(report.verdicts.belief.why, ["too little happened: 1 grants, 3 are wanted"]);
    let report = without_floors(&history("too-little-happened"));
    assert_eq!(report.verdicts.belief.state, State::Clean);
}

#[test]
fn a_torn_history_is_unknown_at_best_and_a_violation_stands() {
    let mut torn = history("one-after-the-other");
    torn.torn = true;
    let report = without_floors(&torn);
    assert_eq!(report.verdicts.liveness.state, State::Unknown);
    let mut torn = history("contract-late-grant");
    torn.torn = true;
    assert_eq!(without_floors(&torn).verdicts.contract.state, State::Violated);
}

#[test]
fn drift_cuts_the_lease_and_nothing_else() {
    // a's lease runs from 100 to 1,100 ms; b is granted at 310: at 80 % drift a's contract ends at 300.
    let drifted = CheckOptions { drift: 0.8, ..CheckOptions::default() };
    let report = check(&history("contract-second-grant-inside-the-lease"), &drifted);
    assert_eq!(violated(&report), ["belief"]);
}

// fault: delay  kill
// c1       |--|        |--|
#[test]
fn recovery_is_counted_from_the_fault_that_took_longest() {
    let text = r#"{"t_ns":0,"event":"fault","fault":"delay","targets":["n1 -> n2"],"span":0,"phase":"inject"}
{"t_ns":5,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":3000,"wait_ms":500}
{"t_ns":7,"id":1,"end":"ok","grant":"g1"}
{"t_ns":9,"id":2,"op":"release","grant":"g1"}
{"t_ns":10,"id":2,"end":"ok"}
{"t_ns":20,"event":"fault","fault":"kill","targets":["n1"],"span":1,"phase":"inject"}
{"t_ns":25,"id":3,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":3000,"wait_ms":500}
{"t_ns":90,"id":3,"end":"ok","grant":"g2"}
"#;
    let report = check(&History::parse(text).unwrap(), &CheckOptions::default());
    assert_eq!(report.recovery.first_grant_after_fault_ns, Some(70));
}

// c1 |------x        told at x, written down a little later
// c2         |--|
#[test]
fn a_loss_counts_from_when_it_was_told() {
    let lost = |at: &str| {
        let text = format!(
            r#"{{"t_ns":0,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":null,"wait_ms":500}}
{{"t_ns":5,"id":1,"end":"ok","grant":"g1"}}
{{"t_ns":20,"id":2,"client":"c2","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":null,"wait_ms":500}}
{{"t_ns":40,"id":2,"end":"ok","grant":"g2"}}
{{"t_ns":45,"event":"lost","grant":"g1"{at}}}
{{"t_ns":50,"id":3,"op":"release","grant":"g2"}}
{{"t_ns":55,"id":3,"end":"ok"}}
"#
        );
        let report = without_floors(&History::parse(&text).unwrap());
        report.verdicts.belief.state
    };
    assert_eq!(lost(""), State::Violated);
    assert_eq!(lost(r#","at_ns":39"#), State::Clean);
    // A stamp from the future does not lengthen the hold.
    assert_eq!(lost(r#","at_ns":4000"#), State::Violated);
}

// c1 |-------…       renewed, but given for less at first, and never claimed
// c2          |--|
#[test]
fn a_renewed_lease_counts_as_given_until_it_is_claimed() {
    let contract = |given: &str, claimed: &str| {
        let text = format!(
            r#"{{"t_ns":0,"event":"client","client":"c1","watchdog_ms":3000,"features":["renewals"]}}
{{"t_ns":0,"event":"client","client":"c2","watchdog_ms":3000,"features":["renewals"]}}
{{"t_ns":0,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"a","kind":"queued","lease_ms":null,"wait_ms":500}}
{{"t_ns":5000000,"id":1,"end":"ok","grant":"g1","sent_ns":0{given}}}
{claimed}{{"t_ns":2100000000,"id":2,"client":"c2","owner":"t0","op":"acquire","lock":"a","kind":"queued","lease_ms":null,"wait_ms":500}}
{{"t_ns":2200000000,"id":2,"end":"ok","grant":"g2","sent_ns":2100000000}}
{{"t_ns":2300000000,"id":3,"op":"release","grant":"g2"}}
{{"t_ns":2310000000,"id":3,"end":"ok"}}
"#
        );
        let report = without_floors(&History::parse(&text).unwrap());
        report.verdicts.contract.state
    };
    let given = r#","lease_ms":2000"#;
    let claimed = r#"{"t_ns":500000000,"id":9,"op":"extend","grant":"g1","lease_ms":3000,"by":"watchdog"}
{"t_ns":510000000,"id":9,"end":"ok"}
"#;
    assert_eq!(contract(given, ""), State::Clean);
    assert_eq!(contract("", ""), State::Violated);
    assert_eq!(contract(given, claimed), State::Violated);
}

/// What liveness says of a queued lock in these lines, of which those of a fault on client 1 are there or
/// not.
fn liveness_of_a_line(lines: &[&str], fault: Option<(&str, u64, u64)>) -> State {
    let event = |phase: &str, fault: &str, at_ms: u64| {
        format!(
            r#"{{"t_ns":{at_ms}000000,"event":"fault","fault":"{fault}","targets":["c1 -> n1","n1 -> c1"],"span":1,"phase":"{phase}"}}"#
        )
    };
    let faults = fault
        .into_iter()
        .flat_map(|(fault, from_ms, to_ms)| [event("inject", fault, from_ms), event("heal", fault, to_ms)]);
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    lines.extend(faults);
    let at = |line: &String| {
        let digits = line.trim_start_matches(r#"{"t_ns":"#).split(',').next();
        digits.and_then(|digits| digits.parse::<u64>().ok())
    };
    lines.sort_by_key(at);
    let history = History::parse(&(lines.join("\n") + "\n")).unwrap();
    without_floors(&history).verdicts.liveness.state
}

// c3 |---|
// c1   ~~~busy         cut off, so that its leaving is unheard and it is called
// c2    ~~~~~~~~~~~|--
#[test]
fn who_was_cut_off_as_it_left_may_be_called() {
    let lines = [
        r#"{"t_ns":0,"id":1,"op":"acquire","client":"c3","owner":"t0","lock":"a","kind":"queued","lease_ms":9000,"wait_ms":500}"#,
        r#"{"t_ns":1000000,"id":1,"end":"ok","grant":"g3"}"#,
        r#"{"t_ns":10000000,"id":2,"op":"acquire","client":"c1","owner":"t0","lock":"a","kind":"queued","lease_ms":9000,"wait_ms":690}"#,
        r#"{"t_ns":600000000,"id":3,"op":"acquire","client":"c2","owner":"t0","lock":"a","kind":"queued","lease_ms":9000,"wait_ms":3000}"#,
        r#"{"t_ns":640000000,"id":4,"op":"release","grant":"g3"}"#,
        r#"{"t_ns":650000000,"id":4,"end":"ok"}"#,
        r#"{"t_ns":700000000,"id":2,"end":"busy"}"#,
        r#"{"t_ns":2300000000,"id":3,"end":"ok","grant":"g2"}"#,
        r#"{"t_ns":2400000000,"id":5,"op":"release","grant":"g2"}"#,
        r#"{"t_ns":2410000000,"id":5,"end":"ok"}"#,
    ];
    let cut = |from_ms, to_ms| liveness_of_a_line(&lines, Some(("partition", from_ms, to_ms)));
    assert_eq!(cut(100, 2_290), State::Clean);
    assert_eq!(liveness_of_a_line(&lines, None), State::Violated);
    // Its leaving was heard.
    assert_eq!(cut(50, 150), State::Violated);
}

// c3 |---|
// c1   ~~~X            dies in the line, and is called
// c2    ~~~~~~~~~~~|--
#[test]
fn who_died_in_a_line_may_be_called() {
    let of = |kind: &str, end: &str, crash_ms: u64, granted_ms: u64| {
        let lines = [
            r#"{"t_ns":0,"id":1,"op":"acquire","client":"c3","owner":"t0","lock":"a","kind":"KIND","lease_ms":900,"wait_ms":500}"#,
            r#"{"t_ns":1000000,"id":1,"end":"ok","grant":"g3"}"#,
            r#"{"t_ns":10000000,"id":2,"op":"acquire","client":"c1","owner":"t0","lock":"a","kind":"KIND","lease_ms":900,"wait_ms":690}"#,
            end,
            &format!(r#"{{"t_ns":{crash_ms}000000,"event":"crash","client":"c1"}}"#),
            r#"{"t_ns":600000000,"id":3,"op":"acquire","client":"c2","owner":"t0","lock":"a","kind":"KIND","lease_ms":900,"wait_ms":9000}"#,
            r#"{"t_ns":640000000,"id":4,"op":"release","grant":"g3"}"#,
            r#"{"t_ns":650000000,"id":4,"end":"ok"}"#,
            &format!(r#"{{"t_ns":{granted_ms}000000,"id":3,"end":"ok","grant":"g2"}}"#),
            r#"{"t_ns":9400000000,"id":5,"op":"release","grant":"g2"}"#,
            r#"{"t_ns":9410000000,"id":5,"end":"ok"}"#,
        ];
        let lines: Vec<String> = lines.iter().map(|line| line.replace("KIND", kind)).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        liveness_of_a_line(&lines, None)
    };
    let unknown = r#"{"t_ns":500000000,"id":2,"end":"unknown","error":"its process ended"}"#;
    for end in [unknown, ""] {
        assert_eq!(of("queued", end, 500, 5_400), State::Clean);
        // Longer than a place and a call last.
        assert_eq!(of("queued", end, 500, 8_000), State::Violated);
        assert_eq!(of("reentrant", end, 500, 5_400), State::Violated);
    }
    // It had left long before.
    assert_eq!(of("queued", unknown, 3_000, 5_400), State::Violated);
}

// c1 |----lost         given for less than it asked for; the answer to its claim comes too late, or never
// c2   ~~~~~~~~~~~|--
#[test]
fn a_claim_without_an_answer_may_have_worked() {
    let lines = [
        r#"{"t_ns":0,"id":1,"op":"acquire","client":"c1","owner":"t0","lock":"a","kind":"queued","lease_ms":2500,"wait_ms":500}"#,
        r#"{"t_ns":20000000,"id":1,"end":"ok","grant":"g1","sent_ns":10000000,"lease_ms":2000}"#,
        r#"{"t_ns":1000000000,"id":2,"op":"acquire","client":"c2","owner":"t0","lock":"a","kind":"queued","lease_ms":2500,"wait_ms":5000}"#,
        r#"{"t_ns":1990000000,"event":"lost","grant":"g1","reason":"Expired"}"#,
        r#"{"t_ns":4000000000,"id":2,"end":"ok","grant":"g2","sent_ns":3990000000}"#,
        r#"{"t_ns":4400000000,"id":5,"op":"release","grant":"g2"}"#,
        r#"{"t_ns":4410000000,"id":5,"end":"ok"}"#,
    ];
    let late = |from_ms, to_ms| liveness_of_a_line(&lines, Some(("delay", from_ms, to_ms)));
    assert_eq!(late(5, 5_000), State::Clean);
    assert_eq!(liveness_of_a_line(&lines, None), State::Violated);
    // After the loss.
    assert_eq!(late(2_000, 5_000), State::Violated);
}

/// Twelve seconds of three clients over five masters, each cut off for good from some of them; their tries
/// end after 800 ms, as `ends` says.
fn starved(cut: [&[&str]; 3], ends: [&str; 3]) -> History {
    let mut targets = Vec::new();
    for (client, nodes) in (1..).zip(cut) {
        for node in nodes {
            targets.push(format!("\"c{client} -> {node}\",\"{node} -> c{client}\""));
        }
    }
    let mut lines = vec![(
        0,
        format!(
            r#"{{"t_ns":0,"event":"fault","fault":"partition","targets":[{}],"span":1,"phase":"inject"}}"#,
            targets.join(",")
        ),
    )];
    for try_ in 0..14 {
        for client in 1..=3 {
            let (id, at_ms) = (try_ * 10 + client, 700 + try_ * 850 + client * 13);
            lines.push((at_ms, format!(
                r#"{{"t_ns":{at_ms}000000,"id":{id},"client":"c{client}","owner":"t0","op":"acquire","lock":"orders","kind":"redlock","lease_ms":2000,"wait_ms":800}}"#
            )));
            let ended_ms = at_ms + 800;
            let end = ends[client - 1];
            lines.push((ended_ms, format!(r#"{{"t_ns":{ended_ms}000000,"id":{id},"end":"{end}"}}"#)));
        }
    }
    lines.sort();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    History::parse(&(lines.join("\n") + "\n")).unwrap()
}

fn liveness_over(masters: u32, history: &History) -> Verdict {
    let options = CheckOptions {
        floors: None,
        masters: (1..=masters).map(|number| format!("n{number}")).collect(),
        ..CheckOptions::default()
    };
    check(history, &options).verdicts.liveness
}

// Faults that never heal, and no grant.
#[test]
fn a_client_that_reaches_a_majority_must_get_a_free_lock() {
    let each = [&["n1", "n2"][..], &["n2", "n3"], &["n4", "n5"]];
    for refused in ["busy", "failed"] {
        let verdict = liveness_over(5, &starved(each, [refused; 3]));
        assert_eq!(verdict.state, State::Violated, "{refused}: {verdict:?}");
    }
    // Two sit in minorities and know nothing: the third reaches all, and is refused.
    let minorities = [&["n1", "n2", "n3"][..], &["n2", "n3", "n4"], &[]];
    for others in ["busy", "failed", "unknown"] {
        let verdict = liveness_over(5, &starved(minorities, [others, others, "busy"]));
        assert_eq!(verdict.state, State::Violated, "{others}: {verdict:?}");
    }
    // What the servers are is not known: nothing can be said.
    let verdict = liveness_over(0, &starved(each, ["busy"; 3]));
    assert_eq!(verdict.state, State::Clean, "{verdict:?}");
}

#[test]
fn nobody_is_asked_of_who_reaches_no_majority() {
    let all = [&["n1", "n2", "n3"][..]; 3];
    for end in ["busy", "failed", "unknown"] {
        let verdict = liveness_over(5, &starved(all, [end; 3]));
        assert_eq!(verdict.state, State::Clean, "{end}: {verdict:?}");
    }
    // A client that reaches a majority and does not know may hold: others wait for that.
    let each = [&["n1", "n2"][..], &["n2", "n3"], &["n4", "n5"]];
    let verdict = liveness_over(5, &starved(each, ["unknown"; 3]));
    assert_eq!(verdict.state, State::Clean, "{verdict:?}");
}

/// How evenly these clients were granted, one after the other, with a fault on a node after so many of them.
fn fairness(clients: &str, fault_after: usize) -> Option<f64> {
    let mut lines = String::new();
    for (n, client) in clients.chars().enumerate() {
        let (id, at_ns) = (n + 1, (n + 1) * 1_000_000);
        if n == fault_after {
            lines += &format!(
                "{{\"t_ns\":{},\"event\":\"fault\",\"fault\":\"pause\",\"targets\":[\"n1\"],\"span\":1,\"phase\":\"inject\"}}\n",
                at_ns - 2
            );
        }
        lines += &format!(
            "{{\"t_ns\":{at_ns},\"id\":{id},\"client\":\"c{client}\",\"owner\":\"t0\",\"op\":\"acquire\",\"kind\":\"plain\",\"lease_ms\":1,\"wait_ms\":0,\"lock\":\"a\"}}\n"
        );
        lines += &format!("{{\"t_ns\":{},\"id\":{id},\"end\":\"ok\",\"grant\":\"g{n}\"}}\n", at_ns + 1);
    }
    let history = History::parse(&lines).expect("lines of a history");
    check(&history, &CheckOptions::default()).fairness
}

#[test]
fn fairness_counts_only_what_came_after_the_last_fault() {
    assert_eq!(fairness("1212", 99), Some(1.0));
    // c2 got all that was granted before, and of six afterwards one.
    let uneven = fairness("22222112111", 5).expect("two clients");
    assert!((uneven - 36.0 / 52.0).abs() < 1e-9, "{uneven}");
    assert_eq!(fairness("1111", 99), None);
}

/// Three cycles of c1, and a call of c2 at 0.5 s that waits for at most 0.5 s and is answered `unknown` at
/// `end_s`, if at all; a probe line ends the history at 30 s.
fn unanswered(what: &str, end_s: Option<u64>, events: &str) -> History {
    let mut text = String::new();
    let asked = |t_ms: u64, id: u64, client: &str| {
        let t_ns = t_ms * 1_000_000;
        format!(
            "{{\"t_ns\":{t_ns},\"id\":{id},\"client\":\"{client}\",\"owner\":\"t0\",\"op\":\"acquire\",\"kind\":\"plain\",\"lease_ms\":1000,\"wait_ms\":500,\"lock\":\"a\"}}\n"
        )
    };
    let line = |t_ms: u64, rest: &str| format!("{{\"t_ns\":{},{rest}}}\n", t_ms * 1_000_000);
    for n in 0..3 {
        text += &asked(n * 100, 2 * n, "c1");
        text += &line(n * 100 + 1, &format!("\"id\":{},\"end\":\"ok\",\"grant\":\"g{n}\"", 2 * n));
        text += &line(n * 100 + 2, &format!("\"id\":{},\"op\":\"release\",\"grant\":\"g{n}\"", 2 * n + 1));
        text += &line(n * 100 + 3, &format!("\"id\":{},\"end\":\"ok\"", 2 * n + 1));
    }
    match what {
        "acquire" => text += &asked(500, 90, "c2"),
        step => {
            text += &asked(400, 89, "c2");
            text += &line(401, "\"id\":89,\"end\":\"ok\",\"grant\":\"h\"");
            text += &line(500, &format!("\"id\":90,\"op\":\"{step}\",\"grant\":\"h\""));
        }
    }
    text += events;
    if let Some(end_s) = end_s {
        text += &line(end_s * 1000, "\"id\":90,\"end\":\"unknown\"");
    }
    text += &line(30_000, "\"event\":\"probe\",\"lock\":\"a\",\"ok\":true");
    History::parse(&text).unwrap()
}

/// A fault on c2's link at 0.2 s, healed when it says.
fn cut(heal_s: Option<u64>) -> String {
    let line = |t_ms: u64, phase: &str| {
        let t_ns = t_ms * 1_000_000;
        format!(
            "{{\"t_ns\":{t_ns},\"event\":\"fault\",\"fault\":\"corrupt\",\"targets\":[\"n1 -> c2\"],\"span\":1,\"phase\":\"{phase}\"}}\n"
        )
    };
    let heal = heal_s.map_or(String::new(), |heal_s| line(heal_s * 1000, "heal"));
    line(600, "inject") + &heal
}

#[test]
fn a_call_that_never_returns_is_a_violation_whatever_touched_its_client_before() {
    let judged = |what: &str, end_s, events: &str| {
        let verdict = without_floors(&unanswered(what, end_s, events)).verdicts.liveness;
        let what = verdict.anomalies.iter().map(|one| one.what.clone());
        (verdict.state, what.collect::<Vec<_>>(), verdict.why)
    };
    for what in ["acquire", "release"] {
        for events in [String::new(), cut(Some(4))] {
            // No answer at all, and one that the recorder gave up for: both are late by more than 10 s after
            // the heal.
            for end_s in [None, Some(15)] {
                let (state, found, why) = judged(what, end_s, &events);
                let never = found.iter().any(|found| found == "no-return");
                assert!(never, "{what}: {state:?} {found:?} {why:?}");
            }
            let (_, found, _) = judged(what, Some(9), &events);
            assert!(!found.contains(&"no-return".to_owned()), "{what} in time");
        }
        // The faults have not healed for so long: it may still come.
        for (end_s, heal_s) in [(Some(15), Some(6)), (None, None)] {
            let (state, _, why) = judged(what, end_s, &cut(heal_s));
            assert_eq!(state, State::Unknown, "{what}");
            assert!(why[0].contains("no answer 10 s beyond its wait"), "{why:?}");
        }
        let died = "{\"t_ns\":700000000,\"event\":\"crash\",\"client\":\"c2\"}\n";
        assert_eq!(judged(what, None, died).0, State::Clean, "{what} of the dead");
    }
}
