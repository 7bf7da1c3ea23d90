//! Reading and writing of histories, good text and bad.

use proptest::prelude::*;
use results::history::{Acquire, Call, End, Entry, Event, History, Line, Phase};

const EXAMPLE: &str = r#"{"t_ns":1000,"id":17,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"reentrant","lease_ms":3000,"wait_ms":500}
{"t_ns":1900,"id":17,"end":"ok","grant":"g9","token":5}
{"t_ns":2000,"id":18,"op":"extend","grant":"g9","lease_ms":3000}
{"t_ns":2100,"id":18,"end":"ok"}
{"t_ns":4000,"event":"fault","fault":"kill","targets":["n1"],"span":3,"phase":"inject"}
{"t_ns":5000,"event":"lost","grant":"g9"}
{"t_ns":5100,"event":"write","lock":"orders","grant":"g9","token":5,"accepted":true}
{"t_ns":9000,"id":19,"op":"release","grant":"g9"}
{"t_ns":9400,"id":19,"end":"not_held"}
{"t_ns":9900,"event":"crash","client":"c1"}
"#;

/// The message for a text that must be refused.
fn refusal(text: &str) -> String {
    History::parse(text).expect_err(text).to_string()
}

#[test]
fn the_example_of_the_format_is_read() {
    let history = History::parse(EXAMPLE).unwrap();
    assert_eq!(history.lines.len(), 10);
    assert!(!history.torn);
    assert_eq!(
        history.lines[0],
        Line {
            t_ns: 1000,
            entry: Entry::Call {
                id: 17,
                call: Call::Acquire(Acquire {
                    client: "c1".into(),
                    owner: "t0".into(),
                    lock: Some("orders".into()),
                    locks: None,
                    kind: "reentrant".into(),
                    lease_ms: Some(3000),
                    wait_ms: Some(500),
                    permits: None,
                }),
            },
        }
    );
    assert_eq!(
        history.lines[1].entry,
        Entry::End {
            id: 17,
            end: End::Ok {
                grant: Some("g9".into()),
                token: Some(5),
                sent_ns: None,
                returned_ns: None,
                lease_ms: None,
                at: None
            }
        }
    );
}

#[test]
fn what_is_written_is_read_back() {
    let again: Vec<Line> = History::parse(EXAMPLE)
        .unwrap()
        .lines
        .iter()
        .map(|line| Line::parse(&line.to_json()).unwrap())
        .collect();
    assert_eq!(again, History::parse(EXAMPLE).unwrap().lines);
}

#[test]
fn a_torn_last_line_is_dropped_and_reported() {
    for cut in 1..EXAMPLE.len() {
        let Some(text) = EXAMPLE.get(..cut) else {
            continue;
        };
        let complete = text.matches('\n').count() + usize::from(text.ends_with('}'));
        match History::parse(text) {
            Ok(history) => {
                assert_eq!(history.lines.len(), complete, "cut at {cut}");
                assert_eq!(history.torn, !text.ends_with(['}', '\n']), "cut at {cut}");
            }
            Err(_) => assert_eq!(complete, 0, "cut at {cut}"),
        }
    }
}

#[test]
fn a_file_without_a_complete_line_is_refused() {
    assert_eq!(refusal("\n \n"), "no complete line; allowed: at least one JSON object");
    refusal("");
    refusal("{\"t_ns\":10");
}

#[test]
fn a_bad_line_elsewhere_is_refused_with_its_number() {
    let text = EXAMPLE.replacen("{\"t_ns\":2100", "{\"t_ns\":", 1);
    assert!(refusal(&text).starts_with("line 4, column "), "{text}");
    // A history needs a time behind its last line.
    let text = format!("{EXAMPLE}{{\"t_ns\":9223372036854775808,\"event\":\"crash\",\"client\":\"c1\"}}");
    let late = "line 11: `t_ns` is 9223372036854775808; allowed: a whole number from 0 to 2^63-1";
    assert_eq!(self::refusal(&text), late);
    // JSON of a wrong form is no torn line, even at the end.
    let text = format!("{EXAMPLE}{{\"t_ns\":9999,\"event\":\"lost\"}}");
    let refusal = refusal(&text);
    assert!(refusal.starts_with("line 11"), "{refusal}");
    assert!(refusal.contains("missing field `grant`"), "{refusal}");
}

#[test]
fn types_and_ranges_are_checked() {
    for (line, found) in [
        (r#"17"#, "17"),
        (r#"[1,2,"acquire"]"#, "[1,2,\"acquire\"]"),
        (r#"{"t_ns":-1,"event":"crash","client":"c1"}"#, "`t_ns`: invalid value: integer `-1`"),
        (r#"{"t_ns":1.5,"event":"crash","client":"c1"}"#, "`t_ns`: invalid type: floating point `1.5`"),
        (r#"{"t_ns":1,"event":"crash","client":1}"#, "`client`: invalid type: integer `1`"),
        (r#"{"t_ns":1,"op":"grab","id":1}"#, "`grab`"),
        (r#"{"t_ns":1,"end":"fine","id":1}"#, "`fine`"),
        (r#"{"t_ns":1,"end":"ok","id":"1"}"#, "`id`: invalid type: string \"1\""),
        (
            r#"{"t_ns":1,"end":"ok","id":1,"token":9223372036854775808}"#,
            "`token`: invalid value: integer `9223372036854775808`",
        ),
        (r#"{"t_ns":1,"end":"ok","op":"release","id":1,"grant":"g"}"#, "more than one of"),
        (r#"{"t_ns":1}"#, "none or more"),
        (r#"{"t_ns":1,"t_ns":2,"event":"crash","client":"c1"}"#, "duplicate field"),
        (
            r#"{"t_ns":1,"event":"fault","fault":"kill","targets":"n1","span":1,"phase":"heal"}"#,
            "`targets`: invalid type: string \"n1\"",
        ),
        (r#"{"t_ns":1,"event":"fault","fault":"kill","targets":[],"span":1,"phase":"end"}"#, "`end`"),
        (
            r#"{"t_ns":1,"id":1,"client":"c","owner":"t","op":"acquire","lock":"a","locks":["b"],"kind":"multi"}"#,
            "both",
        ),
        (
            r#"{"t_ns":1,"id":1,"client":"c","owner":"t","op":"acquire","locks":[],"kind":"multi"}"#,
            "`locks` is []",
        ),
        (r#"{"t_ns":1,"id":1,"client":"c","owner":"t","op":"acquire","lock":"a"}"#, "missing field `kind`"),
    ] {
        let error = Line::parse(line).expect_err(line);
        assert!(error.found.contains(found), "{line}: {error}");
        assert!(!error.allowed.is_empty());
    }
    let line = r#"{"t_ns":1,"end":"ok","id":1,"grant":"g","token":9223372036854775807}"#;
    assert!(Line::parse(line).is_ok());
}

#[test]
fn unknown_fields_are_ignored_and_unknown_events_kept() {
    let with = r#"{"t_ns":1,"id":3,"end":"busy","kind":7,"permits":"many","x":{"y":[]}}"#;
    let without = r#"{"t_ns":1,"id":3,"end":"busy"}"#;
    assert_eq!(Line::parse(with).unwrap(), Line::parse(without).unwrap());

    let gc = r#"{"t_ns":5,"event":"gc","grant":17,"client":null}"#;
    let line = Line::parse(gc).unwrap();
    assert!(matches!(line.entry, Entry::Event(Event::Other(_))));
    assert_eq!(Line::parse(&line.to_json()).unwrap(), line);
    // Only this program writes `probe` and `client`: somebody else's of that name is an unknown event.
    let probe = Line::parse(r#"{"t_ns":5,"event":"probe","lock":4}"#).unwrap();
    assert!(matches!(probe.entry, Entry::Event(Event::Other(_))));
}

/// Such a line once lost the lease that was granted, and the holder was convicted of what it did after it.
#[test]
fn a_stray_field_of_any_type_changes_nothing_else() {
    let plain = r#"{"t_ns":1,"id":3,"end":"ok","grant":"g","token":4,"sent_ns":0,"lease_ms":200}"#;
    let stray = plain.replacen('{', r#"{"permits":"many","accepted":7,"#, 1);
    let line = Line::parse(&stray).unwrap();
    assert_eq!(line, Line::parse(plain).unwrap());
    let Entry::End { end: End::Ok { lease_ms, .. }, .. } = line.entry else {
        panic!("an end");
    };
    assert_eq!(lease_ms, Some(200));
}

#[test]
fn null_is_absent() {
    let line = r#"{"t_ns":1,"id":1,"client":"c","owner":"t","op":"acquire","lock":"a","locks":null,"kind":"fair","lease_ms":null,"wait_ms":null}"#;
    let Entry::Call { call: Call::Acquire(acquire), .. } = Line::parse(line).unwrap().entry else {
        panic!("an acquire");
    };
    assert_eq!((acquire.lease_ms, acquire.wait_ms), (None, None));
}

#[test]
fn pairs_and_order_are_checked() {
    let call = r#"{"t_ns":10,"id":1,"op":"release","grant":"g"}"#;
    let end = r#"{"t_ns":11,"id":1,"end":"ok"}"#;
    let early = r#"{"t_ns":9,"event":"lost","grant":"g"}"#;
    assert!(refusal(&format!("{call}\n{call}\n")).contains("line 2: a second call with `id` 1"));
    assert!(refusal(&format!("{end}\n")).contains("without a pending call"));
    assert!(refusal(&format!("{call}\n{end}\n{end}\n")).contains("line 3: an end with `id` 1"));
    assert!(refusal(&format!("{call}\n{early}\n")).contains("`t_ns` is 9 after 10"));
    let busy = r#"{"t_ns":11,"id":1,"end":"busy"}"#;
    assert!(refusal(&format!("{call}\n{busy}\n")).contains("\"busy\""));
    assert!(History::parse(&format!("{call}\n{end}\n{call}\n").replace("10,", "11,")).is_ok());
}

#[test]
fn what_a_library_says_of_its_watchdog_is_kept() {
    let text = "{\"t_ns\":0,\"event\":\"client\",\"client\":\"c1\",\"watchdog_ms\":30000}\n{\"t_ns\":0,\"event\":\"client\",\"client\":\"c2\"}\n";
    let history = History::parse(text).unwrap();
    assert_eq!(history.watchdog_ms.get("c1"), Some(&30_000));
    assert_eq!(history.watchdog_ms.get("c2"), None);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9 ]{0,6}", any::<String>(), Just("null".to_owned()), Just("\\\"\u{2028}".to_owned())]
}

fn locks() -> impl Strategy<Value = (Option<String>, Option<Vec<String>>)> {
    prop_oneof![
        text().prop_map(|lock| (Some(lock), None)),
        prop::collection::vec(text(), 1..4).prop_map(|locks| (None, Some(locks))),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let call = prop_oneof![
        (
            (text(), text(), locks(), text()),
            (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u32>>())
        )
            .prop_map(|((client, owner, (lock, locks), kind), (lease_ms, wait_ms, permits))| {
                Call::Acquire(Acquire { client, owner, lock, locks, kind, lease_ms, wait_ms, permits })
            }),
        (text(), any::<u64>(), prop::option::of(text()))
            .prop_map(|(grant, lease_ms, by)| { Call::Extend { grant, lease_ms, by } }),
        text().prop_map(|grant| Call::Release { grant }),
    ];
    let token = prop::option::of(0..=i64::MAX as u64);
    let end = prop_oneof![
        (
            prop::option::of(text()),
            token.clone(),
            any::<Option<u64>>(),
            any::<Option<u64>>(),
            any::<Option<u64>>(),
            prop::option::of(text())
        )
            .prop_map(|(grant, token, sent_ns, returned_ns, lease_ms, at)| End::Ok {
                grant,
                token,
                sent_ns,
                returned_ns,
                lease_ms,
                at
            }),
        Just(End::Busy),
        Just(End::NotHeld),
        prop::option::of(text()).prop_map(|error| End::Failed { error }),
        (prop::option::of(text()), prop::option::of(text()))
            .prop_map(|(error, grant)| End::Unknown { error, grant }),
    ];
    let phase = prop_oneof![Just(Phase::Inject), Just(Phase::Heal)];
    let event = prop_oneof![
        (text(), prop::option::of(text()), any::<Option<u32>>())
            .prop_map(|(grant, reason, at)| { Event::Lost { grant, reason, at_ns: at.map(u64::from) } }),
        (text(), text(), token, any::<bool>(), any::<Option<i64>>(), any::<Option<i64>>()).prop_map(
            |(lock, grant, token, accepted, read, wrote)| Event::Write {
                lock,
                grant,
                token,
                accepted,
                read,
                wrote
            }
        ),
        (text(), prop::collection::vec(text(), 0..3), any::<u64>(), phase)
            .prop_map(|(fault, targets, span, phase)| Event::Fault { fault, targets, span, phase }),
        text().prop_map(|client| Event::Crash { client }),
        (text(), any::<bool>()).prop_map(|(lock, ok)| Event::Probe { lock, ok }),
        (any::<u64>(), prop::option::of(text()), any::<Option<u64>>(), any::<Option<i64>>()).prop_map(
            |(lasted_ns, client, run_queue_ns, clock_step_ns)| Event::Stall {
                lasted_ns,
                client,
                run_queue_ns,
                steal_ns: run_queue_ns,
                clock_step_ns,
            }
        ),
        (text(), any::<Option<u64>>(), proptest::collection::vec(text(), 0..3))
            .prop_map(|(client, watchdog_ms, features)| Event::Client { client, watchdog_ms, features }),
        (any::<Option<u64>>(), any::<u64>(), proptest::collection::vec(text(), 0..3), any::<Option<u64>>())
            .prop_map(|(reference_ns, round_trip_ns, clients, uncertainty_ns)| {
                Event::Clock { reference_ns, round_trip_ns, clients, uncertainty_ns }
            }),
    ];
    prop_oneof![
        (any::<u64>(), call).prop_map(|(id, call)| Entry::Call { id, call }),
        (any::<u64>(), end).prop_map(|(id, end)| Entry::End { id, end }),
        event.prop_map(Entry::Event),
    ]
}

proptest! {
    #[test]
    fn any_line_survives_the_file(t_ns in any::<u64>(), entry in entry()) {
        let line = Line { t_ns, entry };
        prop_assert_eq!(Line::parse(&line.to_json()).unwrap(), line);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = History::parse_bytes(&bytes);
    }

    /// One byte of a good file is changed, dropped or doubled: read or refused, and what is read can be
    /// written.
    #[test]
    fn mutated_lines_never_panic(at in 0..EXAMPLE.len(), byte in any::<u8>(), how in 0..3) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        match how {
            0 => bytes[at] = byte,
            1 => { bytes.remove(at); }
            _ => bytes.insert(at, byte),
        }
        if let Ok(history) = History::parse_bytes(&bytes) {
            for line in &history.lines {
                prop_assert_eq!(&Line::parse(&line.to_json()).unwrap(), line);
            }
        }
    }
}
