//! Fuzzes the checkers: no history that can be read may make them panic, and a slice convicts again.
#![no_main]

use chaos::checkers::{CheckOptions, check};
use chaos::proof;
use libfuzzer_sys::fuzz_target;
use results::history::History;
use results::verdict::State;

fuzz_target!(|bytes: &[u8]| {
    let Ok(history) = History::parse_bytes(bytes) else {
        return;
    };
    let options = CheckOptions { floors: None, ..CheckOptions::default() };
    let mut report = check(&history, &options);
    proof::attach(&mut report, &history, &options);
    for (class, verdict) in report.verdicts.iter() {
        let Some(proof) = verdict.proof.as_ref().filter(|proof| !proof.slice.is_empty()) else {
            continue;
        };
        let slice = History::parse(&proof.history()).expect("a slice is a history");
        let again = check(&slice, &options).verdicts;
        let again = again.get(class).expect("a class");
        assert_eq!(again.state, State::Violated, "{class}");
    }
});
