//! Fuzzes what `locklab watch --file` reads: no bytes may make it panic, and every line of its history can be
//! read again.
#![no_main]

use chaos::watch::{WatchOptions, read_bytes};
use libfuzzer_sys::fuzz_target;
use results::history::Line;

fuzz_target!(|bytes: &[u8]| {
    for effects_only in [false, true] {
        let options = WatchOptions { effects_only, ..WatchOptions::default() };
        let Ok(watcher) = read_bytes(bytes, options) else {
            return;
        };
        for line in watcher.finish().history {
            Line::parse(&line.to_json()).expect("a line of a history");
        }
    }
});
