//! Fuzzes the reader of runs: any bytes are a run or an error; what is read is rendered in every format, and
//! comes back from JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use results::compare::compare;
use results::report::FORMATS;
use results::store;

fuzz_target!(|bytes: &[u8]| {
    let Ok(run) = store::parse("run.json".as_ref(), bytes) else {
        return;
    };
    for format in FORMATS {
        let _ = format.render(&run);
    }
    let json = serde_json::to_vec(&run).expect("a run is JSON");
    store::parse("run.json".as_ref(), &json).expect("what was written is read");
    let _ = compare(&[run.clone(), run], true);
});
