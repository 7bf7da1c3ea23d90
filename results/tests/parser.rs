//! Whatever bytes come in, the parser of histories gives a history or an error with a line of the file, and
//! that of histograms their counts or an error; they never panic.

use proptest::prelude::*;
use results::hdr::decode_any;
use results::history::{History, Line};

const TEXT: &str = r#"{"t_ns":1000,"id":17,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"reentrant","lease_ms":3000,"wait_ms":500}
{"t_ns":1900,"id":17,"end":"ok","grant":"g9","token":5,"sent_ns":1100}
{"t_ns":2000,"id":18,"op":"extend","grant":"g9","lease_ms":3000,"by":"watchdog"}
{"t_ns":2100,"id":18,"end":"ok"}
{"t_ns":4000,"event":"fault","fault":"kill","targets":["n1","c1 -> n2"],"span":3,"phase":"inject"}
{"t_ns":5000,"event":"lost","grant":"g9","reason":"gone"}
{"t_ns":5100,"event":"write","lock":"orders","grant":"g9","token":5,"accepted":true,"read":41,"wrote":42}
{"t_ns":6000,"id":19,"client":"c2","owner":"t0","op":"acquire","locks":["a","b"],"kind":"multi","lease_ms":null,"wait_ms":null,"permits":3}
{"t_ns":7000,"id":19,"end":"unknown","grant":"g10","error":"timed out"}
{"t_ns":9000,"id":20,"op":"release","grant":"g9"}
{"t_ns":9400,"id":20,"end":"not_held"}
{"t_ns":9900,"event":"crash","client":"c1"}
{"t_ns":9950,"event":"probe","lock":"orders","ok":false}
"#;

/// What is read is written and read again; what is not says in which line.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    match History::parse_bytes(bytes) {
        Ok(history) => {
            let mut text = String::new();
            for line in &history.lines {
                prop_assert_eq!(&Line::parse(&line.to_json()).expect("what was written is read"), line);
                text.push_str(&line.to_json());
                text.push('\n');
            }
            let again = History::parse(&text).expect("a history that was written is one");
            prop_assert_eq!(again.lines, history.lines);
        }
        Err(error) => {
            let lines = bytes.split(|byte| *byte == b'\n').count();
            let message = error.to_string();
            let number = message.split_once("line ").and_then(|(_, rest)| {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<usize>().ok()
            });
            // A file without any line has none to name.
            prop_assert!(number.is_none_or(|number| (1..=lines).contains(&number)), "{}", message);
        }
    }
    Ok(())
}

/// A change of a few bytes: what to put, where, instead of how many.
fn edits() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    let tokens = prop::sample::select(vec![
        &b"null"[..],
        b"-1",
        b"1e400",
        b"18446744073709551616",
        b"\"",
        b"{",
        b"}",
        b"[",
        b",",
        b":",
        b"\n",
        b"\\u0000",
        b"\xff",
        b"\"op\":\"acquire\"",
        b"\"end\":\"ok\"",
        b"\"event\":\"lost\"",
        b"\"id\":17",
        b"\"t_ns\":0",
    ]);
    let piece = prop_oneof![tokens.prop_map(<[u8]>::to_vec), prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, piece), 1..6).prop_map(|edits| {
        edits.into_iter().map(|(at, gone, put)| (at.index(TEXT.len()), gone, put)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_a_history_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        holds(&bytes)?;
    }

    #[test]
    fn a_spoilt_history_is_a_history_or_an_error_with_its_line(edits in edits()) {
        let mut bytes = TEXT.as_bytes().to_vec();
        for (at, gone, put) in edits {
            let at = at.min(bytes.len());
            let end = (at + gone).min(bytes.len());
            bytes.splice(at..end, put);
        }
        holds(&bytes)?;
    }

    #[test]
    fn lines_left_out_doubled_and_swapped_are_a_history_or_an_error(order in prop::collection::vec(0..13_usize, 0..30)) {
        let lines: Vec<&str> = TEXT.lines().collect();
        let text: String = order.iter().map(|n| format!("{}\n", lines[*n])).collect();
        holds(text.as_bytes())?;
    }
}

// Each holds 1, 1000, and 1000000 twice, with three digits, as the library that is named writes it.
#[test]
fn what_other_programs_write_is_read() {
    let text = include_str!("hdr/foreign.txt");
    for line in text.lines() {
        let (name, text) = line.split_once(' ').expect("a name and a histogram");
        let pairs = decode_any(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let counts: Vec<u64> = pairs.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 1, 2], "{name}: {pairs:?}");
        assert!(pairs[2].0.abs_diff(1_000_000) <= 1_000, "{name}: {pairs:?}");
    }
}

// As the encoder that stood here before wrote them, so that kept runs stay readable.
#[test]
fn what_kept_runs_hold_is_read() {
    let kept = include_str!("hdr/kept.txt");
    for line in kept.lines() {
        let (pairs_in, text) = line.split_once(' ').expect("pairs and a histogram");
        let pairs: Vec<(u64, u64)> = serde_json::from_str(pairs_in).expect("pairs");
        assert_eq!(decode_any(text), Ok(pairs));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[A-Za-z0-9+/=]{0,120}") {
        let _ = decode_any(&text);
    }
}
