//! Fuzzes the reader of histories: any bytes are a history or an error; what is read is written and read
//! again to the same lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use results::history::{History, Line};

fuzz_target!(|bytes: &[u8]| {
    let Ok(history) = History::parse_bytes(bytes) else {
        return;
    };
    for line in &history.lines {
        let again = Line::parse(&line.to_json()).expect("what was written is read");
        assert_eq!(&again, line);
    }
});
