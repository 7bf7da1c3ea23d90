//! A run in which too little happened, or of which something is missing, is unknown with the reason, and
//! unknown is no pass.

use chaos::checkers::{CheckOptions, EvidenceMinimum, check};
use results::history::History;
use results::run::FaultSpan;
use results::verdict::State;

/// `n` cycles of c1, 10 ms apart, each held for 2 ms; c2 asks once in each and is refused.
fn text(cycles: u64) -> String {
    let mut text = String::new();
    let mut id = 0;
    for n in 0..cycles {
        let ns = |us: u64| n * 10_000_000 + us * 1_000;
        let mut line = |us: u64, rest: String| text.push_str(&format!("{{\"t_ns\":{},{rest}}}\n", ns(us)));
        let ask = |id: u64, client: &str| {
            format!(
                r#""id":{id},"client":"{client}","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":3000,"wait_ms":0"#
            )
        };
        line(0, ask(id, "c1"));
        line(100, format!(r#""id":{id},"end":"ok","grant":"g{n}""#));
        line(200, ask(id + 1, "c2"));
        line(300, format!(r#""id":{},"end":"busy""#, id + 1));
        line(2_100, format!(r#""id":{},"op":"release","grant":"g{n}""#, id + 2));
        line(2_200, format!(r#""id":{},"end":"ok""#, id + 2));
        id += 3;
    }
    text
}

fn judged(text: &str, options: &CheckOptions<'_>) -> (State, Vec<String>) {
    let history = History::parse(text).expect("a history");
    let verdict = check(&history, options).verdicts.contract;
    (verdict.state, verdict.why)
}

fn clients() -> Vec<String> {
    ["c1", "c2"].map(str::to_owned).to_vec()
}

#[test]
fn a_client_that_never_got_a_turn_is_missed() {
    let options = CheckOptions { clients: clients(), ..CheckOptions::default() };
    let (state, why) = judged(&text(30), &options);
    assert_eq!(state, State::Unknown);
    assert_eq!(why, ["c2 never got a turn, of 30 grants, and no fault touched it"]);
    // So few grants that it may be chance; nobody to miss; and clients that are not known.
    assert_eq!(judged(&text(19), &options).0, State::Clean);
    let alone = CheckOptions { clients: vec!["c1".to_owned()], ..CheckOptions::default() };
    assert_eq!(judged(&text(30), &alone).0, State::Clean);
    assert_eq!(judged(&text(30), &CheckOptions::default()).0, State::Clean);
}

#[test]
fn a_client_that_a_fault_touched_need_not_have_had_a_turn() {
    let options = CheckOptions { clients: clients(), ..CheckOptions::default() };
    let fault =
        r#"{"t_ns":0,"event":"fault","fault":"cut","targets":["c2 -> n1"],"span":1,"phase":"inject"}"#;
    assert_eq!(judged(&format!("{fault}\n{}", text(30)), &options).0, State::Clean);
}

#[test]
fn a_load_that_was_to_contend_and_did_not_is_unknown() {
    let contended = |most| CheckOptions {
        floors: Some(EvidenceMinimum { contended: most, ..EvidenceMinimum::default() }),
        ..CheckOptions::default()
    };
    assert_eq!(judged(&text(30), &contended(30)).0, State::Clean);
    let (state, why) = judged(&text(30), &contended(31));
    assert_eq!(state, State::Unknown);
    assert_eq!(why, ["too little happened: 30 acquires met another's, 31 are wanted"]);
    // Without c2 nobody meets anybody.
    let alone: String = text(30)
        .lines()
        .filter(|line| !line.contains("c2") && !line.contains("busy"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(judged(&alone, &contended(1)).0, State::Unknown);
}

#[test]
fn a_recorder_that_lost_a_record_acquits_nobody_and_a_violation_stands() {
    let options = CheckOptions {
        doubts: vec!["history.jsonl ends early: disk full".to_owned()],
        ..CheckOptions::default()
    };
    let (state, why) = judged(&text(30), &options);
    assert_eq!((state, why.len()), (State::Unknown, 1));
    let bad = text(30).replace(r#""id":1,"end":"busy""#, r#""id":1,"end":"ok","grant":"h""#);
    assert_eq!(judged(&bad, &options).0, State::Violated);
}

#[test]
fn a_fault_after_which_nothing_happened_or_without_proof_is_unknown() {
    let fault =
        r#"{"t_ns":900000000,"event":"fault","fault":"kill","targets":["n1"],"span":1,"phase":"inject"}"#;
    let (state, why) = judged(&format!("{}{fault}\n", text(30)), &CheckOptions::default());
    assert_eq!(state, State::Unknown);
    assert_eq!(
        why,
        ["too little happened: 0 operations overlap or follow kill on n1 at 900.000 ms, 1 are wanted"]
    );
    let proofs = [FaultSpan {
        fault: "delay".to_owned(),
        targets: vec!["n1 -> n2".to_owned()],
        ..FaultSpan::default()
    }];
    // Not to be switched off with the floors.
    let options = CheckOptions { proofs: Some(&proofs), floors: None, ..CheckOptions::default() };
    let (state, why) = judged(&text(30), &options);
    assert_eq!(state, State::Unknown);
    assert_eq!(why, ["no evidence that the fault took effect: delay on n1 -> n2 at 0.000 ms"]);
}

// c1 |--hold--|lost        the fault at 105 ms; c1 is told at 112 ms; c2 asks at 109 and is granted at 111 ms
#[test]
fn each_fault_has_a_row_of_how_the_lock_came_through() {
    let ask = |t_us: u64, id: u64, client: &str| {
        format!(
            "{{\"t_ns\":{},\"id\":{id},\"client\":\"{client}\",\"owner\":\"t0\",\"op\":\"acquire\",\"lock\":\"a\",\"kind\":\"plain\",\"lease_ms\":3000,\"wait_ms\":100}}\n",
            t_us * 1_000
        )
    };
    let line = |t_us: u64, rest: &str| format!("{{\"t_ns\":{},{rest}}}\n", t_us * 1_000);
    let text = [
        ask(100_000, 1, "c1"),
        line(101_000, r#""id":1,"end":"ok","grant":"g1""#),
        line(105_000, r#""event":"fault","fault":"flushall","targets":["n1"],"span":1,"phase":"inject""#),
        line(106_000, r#""event":"fault","fault":"flushall","targets":["n1"],"span":1,"phase":"heal""#),
        ask(107_000, 2, "c3"),
        line(108_000, r#""id":2,"end":"unknown""#),
        ask(109_000, 3, "c2"),
        line(111_000, r#""id":3,"end":"ok","grant":"g2""#),
        line(112_000, r#""event":"lost","grant":"g1""#),
        ask(113_000, 4, "c3"),
        line(1_500_000, r#""id":5,"op":"release","grant":"g2""#),
        line(1_501_000, r#""id":5,"end":"ok""#),
    ]
    .concat();
    let report = check(&History::parse(&text).expect("a history"), &CheckOptions::default());
    let [row] = report.faults.as_slice() else { panic!("one fault") };
    assert_eq!(row.last_grant_before_ns, Some(4_000_000));
    assert_eq!(row.window_ns, 6_000_000, "until the first grant, which is later than the heal");
    assert_eq!(row.holder_knew_ns, Some(7_000_000));
    // Under way in the second after 106 ms: c3's two and c2's.
    assert_eq!((row.herd, row.stuck_locks), (3, 0));
    // Of the window: c3's unknown one and c2's.
    assert_eq!((row.operations, row.error_share, row.hang_share), (2, Some(0.5), Some(0.0)));
}

/// Why a history is not clean with these floors.
fn below(text: &str, floors: EvidenceMinimum) -> Vec<String> {
    let options = CheckOptions { floors: Some(floors), ..CheckOptions::default() };
    judged(text, &options).1
}

/// A server is killed at `t_ms` and back 20 ms later, in the middle of `text(30)`; before it `held` is
/// granted, if it is something.
fn through_a_kill(t_ms: u64, held: &str) -> String {
    let phase = |t_ms: u64, phase: &str| {
        let t_ns = t_ms * 1_000_000;
        format!(
            "{{\"t_ns\":{t_ns},\"event\":\"fault\",\"fault\":\"kill\",\"targets\":[\"n1\"],\"span\":1,\"phase\":\"{phase}\"}}"
        )
    };
    let mut lines: Vec<(u64, String)> = Vec::new();
    for line in held.lines().chain(text(30).lines()) {
        let t_ns = line[8..].split(',').next().and_then(|ns| ns.parse().ok());
        lines.push((t_ns.expect("a stamp"), line.to_owned()));
    }
    for (t_ms, word) in [(t_ms, "inject"), (t_ms + 20, "heal")] {
        lines.push((t_ms * 1_000_000, phase(t_ms, word)));
    }
    lines.sort_by_key(|(t_ns, _)| *t_ns);
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

/// A hold of another lock from the beginning to the end, of a library that renews so long a lease.
fn held(watchdog_ms: u64) -> String {
    format!(
        r#"{{"t_ns":0,"event":"client","client":"c3","watchdog_ms":{watchdog_ms}}}
{{"t_ns":0,"id":900,"client":"c3","owner":"t0","op":"acquire","lock":"b","kind":"plain","lease_ms":null,"wait_ms":0}}
{{"t_ns":1,"id":900,"end":"ok","grant":"h"}}
"#
    )
}

#[test]
fn a_fault_before_which_nothing_was_granted_shows_nothing() {
    let floors =
        || EvidenceMinimum { granted_before: ["kill".to_owned()].into(), ..EvidenceMinimum::default() };
    let why = below(&through_a_kill(0, ""), floors());
    assert!(why[0].contains("0 grants before kill on n1"), "{why:?}");
    assert_eq!(below(&through_a_kill(109, ""), floors()), [""; 0]);
    // Of a fault that begins with the load nothing is asked.
    assert_eq!(below(&through_a_kill(0, ""), EvidenceMinimum::default()), [""; 0]);
}

#[test]
fn a_claim_about_holds_needs_one_that_spanned_the_fault() {
    let floors = || EvidenceMinimum { outlived: "kill".to_owned(), ..EvidenceMinimum::default() };
    let why = below(&through_a_kill(109, ""), floors());
    assert_eq!(why, ["no hold spanned kill: nothing of before it was still held after it"]);
    assert_eq!(below(&through_a_kill(109, &held(100)), floors()), [""; 0]);
}

#[test]
fn a_claim_about_renewal_needs_a_hold_that_outlived_the_lease() {
    let floors = || EvidenceMinimum { outlives_lease: true, ..EvidenceMinimum::default() };
    assert_eq!(below(&through_a_kill(109, &held(100)), floors()), [""; 0]);
    let why = below(&through_a_kill(109, &held(1_000)), floors());
    assert!(why[0].contains("no hold outlived the lease of 1 s"), "{why:?}");
}

/// What a result is worth beside what was expected of it.
mod outcomes {
    use chaos::outcome::{AS_EXPECTED, NOT_AS_EXPECTED, UNKNOWN, judge, judge_lock};
    use results::run::{FaultSpan, ScenarioResult};
    use results::verdict::{State, Verdict, Verdicts};

    fn verdicts(belief: State, contract: State) -> Verdicts {
        let verdict = |state| Verdict { state, ..Verdict::default() };
        Verdicts { belief: verdict(belief), contract: verdict(contract), ..Verdicts::default() }
    }

    fn result(verdicts: &Verdicts, expected: &[(&str, &str)]) -> ScenarioResult {
        let expected = expected.iter();
        ScenarioResult {
            verdicts: verdicts.clone(),
            expected: expected.map(|(class, word)| ((*class).to_owned(), (*word).to_owned())).collect(),
            load_ns: 1_000_000_000,
            ..ScenarioResult::default()
        }
    }

    fn code(verdicts: &Verdicts, expected: &[(&str, &str)]) -> u8 {
        judge(&result(verdicts, expected))
    }

    #[test]
    fn recovery_is_from_each_fault_to_the_next_grant() {
        let verdicts = verdicts(State::Clean, State::Clean);
        let of = |after_ms: &[Option<u64>], expected: &str| {
            let mut result = result(&verdicts, &[("recovery", expected)]);
            let fault = |ms: &Option<u64>| FaultSpan {
                first_grant_after_ns: ms.map(|ms| ms * 1_000_000),
                ..FaultSpan::default()
            };
            result.faults = after_ms.iter().map(fault).collect();
            judge(&result)
        };
        assert_eq!(of(&[Some(10), Some(2_999)], "< 3s"), AS_EXPECTED);
        assert_eq!(of(&[Some(10), Some(3_000)], "< 3s"), NOT_AS_EXPECTED);
        assert_eq!(of(&[Some(10), None], "< 3s"), NOT_AS_EXPECTED, "no grant");
        assert_eq!(of(&[], "< 3s"), UNKNOWN, "no fault");
    }

    #[test]
    fn a_bound_is_met_by_the_figure_that_was_measured() {
        let verdicts = verdicts(State::Clean, State::Clean);
        let of = |found: Option<f64>, expected: &str| {
            let mut result = result(&verdicts, &[("fairness", expected)]);
            result.figures = found.map(|found| ("fairness".to_owned(), found)).into_iter().collect();
            judge(&result)
        };
        assert_eq!(of(Some(0.6), "> 0.5"), AS_EXPECTED);
        assert_eq!(of(Some(0.5), "> 0.5"), NOT_AS_EXPECTED);
        assert_eq!(of(Some(0.4), "< 0.5"), AS_EXPECTED);
        assert_eq!(of(None, "< 0.5"), UNKNOWN, "not measured");
    }

    #[test]
    fn a_verdict_left_out_is_not_judged() {
        let verdicts = verdicts(State::Violated, State::Clean);
        assert_eq!(code(&verdicts, &[("contract", "clean")]), AS_EXPECTED);
        assert_eq!(code(&verdicts, &[]), AS_EXPECTED);
    }

    #[test]
    fn a_lock_of_ones_own_is_judged_by_what_became_of_it() {
        let of = |belief, contract, expected: &[(&str, &str)]| {
            judge_lock(&result(&verdicts(belief, contract), expected))
        };
        let loses = [("contract", "violated"), ("belief", "violated")];
        use State::{Clean, Unknown, Violated};
        assert_eq!(of(Violated, Violated, &loses), NOT_AS_EXPECTED, "as its file expects");
        assert_eq!(of(Clean, Clean, &loses), AS_EXPECTED, "better than its file expects");
        assert_eq!(of(Violated, Clean, &loses), AS_EXPECTED, "fencing is the resource's");
        assert_eq!(of(Unknown, Clean, &loses), UNKNOWN);
        assert_eq!(of(Clean, Violated, &[]), NOT_AS_EXPECTED);
        assert_eq!(of(Violated, Clean, &[("belief", "clean")]), NOT_AS_EXPECTED);
    }

    #[test]
    fn a_run_of_which_nothing_is_known_is_unknown_also_where_nothing_is_expected() {
        assert_eq!(code(&Verdicts::default(), &[]), UNKNOWN);
        let one_known = verdicts(State::Unknown, State::Clean);
        assert_eq!(code(&one_known, &[]), AS_EXPECTED);
    }

    #[test]
    fn unknown_never_passes_and_a_difference_counts_more() {
        let verdicts = verdicts(State::Unknown, State::Violated);
        assert_eq!(code(&verdicts, &[("belief", "clean")]), UNKNOWN);
        assert_eq!(code(&verdicts, &[("belief", "violated")]), UNKNOWN);
        assert_eq!(code(&verdicts, &[("belief", "clean"), ("contract", "clean")]), NOT_AS_EXPECTED);
    }
}

/// How often it breaks in a year.
mod risks {
    use chaos::risk::{ConfigurationRisk, ServiceRates, USUAL_SERVICE, assess};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    fn configuration(name: &str, rates: &ServiceRates) -> ConfigurationRisk {
        let found = assess(rates, rates, 1).configurations;
        found.into_iter().find(|one| one.name == name).expect("a configuration")
    }

    fn doubles(name: &str, rates: &ServiceRates) -> f64 {
        configuration(name, rates).double_grants_per_year.estimate
    }

    fn blocked(name: &str, rates: &ServiceRates) -> f64 {
        configuration(name, rates).blocked_locks_per_year.estimate
    }

    fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
        -mean * (1.0 - rng.random::<f64>()).ln()
    }

    /// Draws what happens so many times: the mean of what `count` gives, and four of its standard errors.
    fn repeated(times: u32, mut count: impl FnMut(&mut ChaCha8Rng) -> u32) -> (f64, f64) {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let all: u32 = (0..times).map(|_| count(&mut rng)).sum();
        let mean = f64::from(all) / f64::from(times);
        (mean, 4.0 * f64::from(all.max(1)).sqrt() / f64::from(times))
    }

    /// Draws what happened before a crash many times, one grant after the other.
    fn drawn(
        rates: &ServiceRates,
        window_s: impl Fn(&mut ChaCha8Rng) -> f64,
        counts: impl Fn(f64, f64, f64, &mut ChaCha8Rng) -> bool,
    ) -> (f64, f64) {
        repeated(20_000, |rng| {
            let window = window_s(rng);
            let mut age = exponential(1.0 / rates.grants_per_s, rng);
            let mut count = 0;
            while age < window.min(20.0 * rates.hold_s) {
                let hold = exponential(rates.hold_s, rng);
                count += u32::from(counts(age, hold, window, rng));
                age += exponential(1.0 / rates.grants_per_s, rng);
            }
            count
        })
    }

    fn once_a_year(grants_per_s: f64) -> ServiceRates {
        ServiceRates { failovers_per_year: 1.0, grants_per_s, ..USUAL_SERVICE }
    }

    fn assert_near((mean, error): (f64, f64), closed: f64, what: &str) {
        assert!((mean - closed).abs() < error, "{what}: drawn {mean} ± {error}, in closed form {closed}");
    }

    /// Whether a lock that was granted was free so long before.
    fn was_free(rates: &ServiceRates, before_s: f64, rng: &mut ChaCha8Rng) -> bool {
        let (mut at, mut is_free) = (exponential(rates.free_s, rng), true);
        while at < before_s {
            is_free = !is_free;
            at += exponential(if is_free { rates.free_s } else { rates.hold_s }, rng);
        }
        is_free
    }

    #[test]
    fn drawn_crashes_are_counted_as_the_closed_forms_say() {
        let again_in_time = |rates: ServiceRates| {
            move |age: f64, hold: f64, window: f64, rng: &mut ChaCha8Rng| {
                let is_whole = rates.renewed > 0.0 || window < 1.5;
                let lease_left_s = if is_whole { rates.lease_s } else { rates.lease_s - age };
                let granted_again_s = rates.outage_s + exponential(rates.next_caller_s, rng);
                let is_taken_for_free = window > 1.5 || was_free(&rates, window - age, rng);
                (hold - age).min(lease_left_s) > granted_again_s && is_taken_for_free
            }
        };
        let short = ServiceRates { hold_s: 0.5, outage_s: 0.4, ..once_a_year(10.0) };
        let waited = ServiceRates { next_caller_s: 3.0, lease_s: 6.0, ..once_a_year(50.0) };
        let often = ServiceRates { free_s: 0.3, lag_s: 1.0, ..short };
        for rates in [once_a_year(2.0), once_a_year(50.0), short, waited, often] {
            let counted = drawn(&rates, |_| rates.lag_s, again_in_time(rates));
            assert_near(counted, doubles("sentinel, asynchronous", &rates), "lag");
            let counted = drawn(&rates, |rng| rng.random(), again_in_time(rates));
            assert_near(counted, doubles("single, appendfsync everysec", &rates), "disk");
        }
        let rates = once_a_year(0.2);
        let waited = ServiceRates { next_caller_s: 2.0, lease_s: 6.0, ..rates };
        let short = ServiceRates { lease_s: 6.0, ..rates };
        for rates in [rates, ServiceRates { renewed: 1.0, ..rates }, short, waited] {
            let counted = drawn(&rates, |_| f64::MAX, again_in_time(rates));
            assert_near(counted, doubles("single, no persistence", &rates), "all");
        }
    }

    #[test]
    fn drawn_releases_that_are_forgotten_block_as_many_locks_as_the_closed_form_says() {
        let rates = once_a_year(2.0);
        for rates in [rates, ServiceRates { lag_s: 1.0, lease_s: 8.0, ..rates }] {
            let is_blocked = |age: f64, hold: f64, _: f64, _: &mut ChaCha8Rng| {
                let is_forgotten = age > rates.lag_s && (age - rates.lag_s..age).contains(&hold);
                is_forgotten && rates.lease_s - (age - rates.lag_s) > rates.outage_s
            };
            let counted = drawn(&rates, |_| f64::MAX, is_blocked);
            for name in ["sentinel, asynchronous", "sentinel, wait:all"] {
                assert_near(counted, blocked(name, &rates), name);
            }
        }
        assert_eq!(blocked("single, appendfsync always", &rates), 0.0);
    }

    #[test]
    fn drawn_pauses_let_as_many_holders_be_overtaken_as_the_closed_form_says() {
        let usual = ServiceRates { pauses_per_year: 1.0, paused_share: 1.0, ..once_a_year(2.0) };
        let renewed = ServiceRates { renewed: 1.0, pause_s: 25.0, ..usual };
        let waited = ServiceRates { next_caller_s: 2.0, pause_s: 28.0, ..usual };
        for rates in [usual, renewed, waited, ServiceRates { pause_s: 9.0, lease_s: 10.0, ..usual }] {
            let is_overtaken = |age: f64, hold: f64, _: f64, rng: &mut ChaCha8Rng| {
                let left_s = match rates.renewed > 0.0 {
                    true => rates.lease_s * (1.0 - rng.random::<f64>() / 3.0),
                    false => rates.lease_s - age,
                };
                let wait_s = exponential(rates.next_caller_s, rng);
                hold > age && left_s.max(0.0) + wait_s < rates.pause_s
            };
            let counted = drawn(&rates, |_| f64::MAX, is_overtaken);
            let closed = assess(&rates, &rates, 1).overtaken_holders_per_year.estimate;
            assert_near(counted, closed, &format!("{rates:?}"));
        }
    }

    #[test]
    fn drawn_clocks_that_jump_let_as_many_holders_be_overtaken_as_the_closed_form_says() {
        let usual = ServiceRates { clock_jumps_per_year: 1.0, jump_s: 20.0, ..once_a_year(2.0) };
        let renewed = ServiceRates { renewed: 1.0, jump_s: 25.0, ..usual };
        let late = ServiceRates { next_caller_s: 2.0, ..renewed };
        for rates in [usual, renewed, late, ServiceRates { next_caller_s: 2.0, lease_s: 25.0, ..usual }] {
            let is_overtaken = |age: f64, hold: f64, _: f64, rng: &mut ChaCha8Rng| {
                let since_renewal_s = rng.random::<f64>() * rates.lease_s / 3.0;
                let (left_s, told_s) = match rates.renewed > 0.0 {
                    true => (rates.lease_s - since_renewal_s, rates.lease_s / 3.0 - since_renewal_s),
                    false => (rates.lease_s - age, rates.lease_s - age),
                };
                left_s < rates.jump_s && exponential(rates.next_caller_s, rng) < told_s.min(hold - age)
            };
            let counted = drawn(&rates, |_| f64::MAX, is_overtaken);
            let closed = assess(&rates, &rates, 1).overtaken_holders_per_year.estimate;
            assert!(counted.0 > counted.1, "too few to tell: {counted:?}");
            assert_near(counted, closed, &format!("{rates:?}"));
        }
    }

    /// From when to when each hold lasts of a lock on a side where a share of its callers is.
    fn holds(rates: &ServiceRates, share: f64, until_s: f64, rng: &mut ChaCha8Rng) -> Vec<(f64, f64)> {
        let free_s = rates.free_s / share;
        // From long before, so that how it began does not matter.
        let mut at = -10.0 * (free_s + rates.hold_s) + exponential(free_s, rng);
        let mut all = Vec::new();
        while at < until_s {
            let end = at + exponential(rates.hold_s, rng);
            all.push((at, end));
            at = end + exponential(free_s, rng);
        }
        all
    }

    #[test]
    fn drawn_partitions_are_counted_as_the_closed_form_says() {
        let once = ServiceRates { failovers_per_year: 0.0, partitions_per_year: 1.0, ..USUAL_SERVICE };
        let even = ServiceRates { free_s: 2.0, ..once };
        let few = ServiceRates { cut_off_share: 0.1, ..even };
        let rare = ServiceRates { hold_s: 0.5, free_s: 10.0, partition_s: 20.0, ..once };
        let always = ServiceRates { free_s: 0.01, hold_s: 1.0, partition_s: 6.0, ..once };
        for rates in [even, few, rare, always] {
            // One lock of them.
            let rates = ServiceRates { grants_per_s: 1.0 / (rates.hold_s + rates.free_s), ..rates };
            for (name, ends_s) in [
                ("sentinel, asynchronous", rates.partition_s),
                ("sentinel, min-replicas-to-write 1", rates.partition_s.min(rates.max_lag_s)),
            ] {
                let both_s = ends_s - rates.outage_s;
                let counted = repeated(3_000, |rng| {
                    let shares = [rates.cut_off_share, 1.0 - rates.cut_off_share];
                    let [one, other] = shares.map(|share| holds(&rates, share, both_s, rng));
                    let meets = |granted: f64, others: &[(f64, f64)]| {
                        granted >= 0.0 && others.iter().any(|(from, to)| (*from..*to).contains(&granted))
                    };
                    let of_one = one.iter().filter(|hold| meets(hold.0, &other)).count();
                    (of_one + other.iter().filter(|hold| meets(hold.0, &one)).count()) as u32
                });
                assert_near(counted, doubles(name, &rates), &format!("{name}: {rates:?}"));
            }
        }
    }

    /// At masters that crash so often that it can be counted.
    #[test]
    fn drawn_restarts_of_masters_forget_as_many_votes_as_the_closed_form_says() {
        const YEAR_S: f64 = chaos::risk::YEAR_S;
        let often = ServiceRates { failovers_per_year: YEAR_S / 500.0, masters: 3.0, ..USUAL_SERVICE };
        for rates in [often, ServiceRates { outage_s: 10.0, ..often }] {
            let between_s = YEAR_S / rates.failovers_per_year;
            let counted = repeated(1_000_000, |rng| {
                let down = (0..3).filter(|_| rng.random::<f64>() < rates.outage_s / between_s).count();
                let hold = exponential(rates.hold_s, rng);
                let forgot = (down..3).filter(|_| exponential(between_s, rng) < hold).count();
                // Two of three grant it once more: those that forgot it, and the one that was down.
                u32::from(down < 2 && forgot + down >= 2)
            });
            let closed = doubles("masters (3), no persistence", &rates) / rates.grants_per_s / YEAR_S;
            assert_near(counted, closed, &format!("{rates:?}"));
        }
    }

    #[test]
    fn acknowledgers_and_masters_are_as_many_as_said() {
        let five = ServiceRates { replicas: 5.0, ..USUAL_SERVICE };
        let asynchronous = doubles("sentinel, asynchronous", &five);
        for acknowledgers in [1.0, 2.0, 4.0] {
            let rates = ServiceRates { acknowledgers, ..five };
            let share = doubles(&format!("sentinel, wait:{acknowledgers}"), &rates) / asynchronous;
            assert!((share - (5.0 - acknowledgers) / 5.0).abs() < 1e-9, "{share}");
        }
        let of = |masters: f64| {
            let rates = ServiceRates { masters, ..USUAL_SERVICE };
            doubles(&format!("masters ({masters}), no persistence"), &rates)
        };
        assert!(of(3.0) > of(5.0) && of(5.0) > of(7.0), "{} {} {}", of(3.0), of(5.0), of(7.0));
    }

    #[test]
    fn the_hold_against_the_outage_decides() {
        let long = doubles("sentinel, asynchronous", &USUAL_SERVICE);
        assert!((2.5..2.7).contains(&long), "{long}");
        let short = ServiceRates { hold_s: 0.2, ..USUAL_SERVICE };
        assert!(doubles("sentinel, asynchronous", &short) < 0.001);
        let most = assess(&USUAL_SERVICE, &USUAL_SERVICE, 1).configurations;
        assert_eq!(most[3].matters_most, Some("failovers"));
    }

    #[test]
    fn an_outage_as_long_as_the_lease_breaks_no_contract() {
        let late = ServiceRates { outage_s: 30.0, ..USUAL_SERVICE };
        for name in ["single, no persistence", "sentinel, asynchronous"] {
            assert_eq!(doubles(name, &late), 0.0);
        }
        let parted = ServiceRates { partitions_per_year: 1.0, ..late };
        assert!(doubles("sentinel, asynchronous", &parted) > 0.0);
    }

    #[test]
    fn an_interval_is_as_wide_as_what_is_not_known() {
        let high = ServiceRates { outage_s: 8.0, ..USUAL_SERVICE };
        let found = assess(&USUAL_SERVICE, &high, 1).configurations;
        let asynchronous = found[3].double_grants_per_year;
        assert!(asynchronous.low < asynchronous.estimate && asynchronous.estimate < asynchronous.high);
        assert_eq!(found[3].matters_most, Some("outage"));
        let known = assess(&USUAL_SERVICE, &USUAL_SERVICE, 1).configurations[3].double_grants_per_year;
        assert_eq!((known.low, known.high), (known.estimate, known.estimate));
    }
}
