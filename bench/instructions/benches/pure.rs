//! How many instructions the pure parts take: the same on every run of one build, however busy the machine
//! is.
//!
//! Inputs are made before the count begins. What comes out is handed back, so that freeing it is not counted.

use std::{hint::black_box, str::FromStr};

use gungraun::prelude::*;
use hdrhistogram::Histogram;
use lock_core::Target;
use results::{
    history::History,
    overlap::{Hold, Mode, Overlaps, overlaps},
};

#[library_benchmark]
#[bench::short(b"orders")]
#[bench::tagged(b"{orders}:fencing")]
fn slot_of_a_key(key: &[u8]) -> u16 {
    black_box(lock_core::slot(black_box(key)))
}

#[library_benchmark]
#[bench::single("redis://127.0.0.1:6379/0")]
#[bench::sentinel("redis-sentinel://user:secret@10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/orders")]
fn parsing_of_a_target(url: &str) -> Target {
    Target::from_str(black_box(url)).expect("a URL as in the manual")
}

/// Ten thousand holds of a hundred locks, one after the other on each.
fn holds(mode: Mode) -> Vec<Hold> {
    (0..10_000)
        .map(|n| Hold {
            lock: n % 100,
            owner: n % 64,
            from_ns: u64::from(n / 100) * 1_000,
            to_ns: u64::from(n / 100) * 1_000 + 800,
            mode,
            weight: 1,
            grant: n,
        })
        .collect()
}

#[library_benchmark]
#[bench::mutex(holds(Mode::Exclusive))]
#[bench::reentrant(holds(Mode::Reentrant))]
#[bench::readers(holds(Mode::Read))]
fn sweep_of_ten_thousand_holds(holds: Vec<Hold>) -> Overlaps {
    black_box(overlaps(black_box(holds), |_| None))
}

/// A thousand cycles as a history file.
fn text() -> Vec<u8> {
    let mut text = String::new();
    for n in 0..1_000 {
        let (t_ns, id) = (n * 4_000, 2 * n);
        text += &format!(
            "{{\"t_ns\":{t_ns},\"id\":{id},\"client\":\"c1\",\"owner\":\"t0\",\"op\":\"acquire\",\"lock\":\"orders\",\
             \"kind\":\"reentrant\",\"lease_ms\":3000,\"wait_ms\":500}}\n\
             {{\"t_ns\":{},\"id\":{id},\"end\":\"ok\",\"grant\":\"g{n}\"}}\n\
             {{\"t_ns\":{},\"id\":{},\"op\":\"release\",\"grant\":\"g{n}\"}}\n\
             {{\"t_ns\":{},\"id\":{},\"end\":\"ok\"}}\n",
            t_ns + 1_000,
            t_ns + 2_000,
            id + 1,
            t_ns + 3_000,
            id + 1,
        );
    }
    text.into_bytes()
}

#[library_benchmark]
#[bench::a_thousand_cycles(text())]
fn parsing_of_a_history(text: Vec<u8>) -> (Vec<u8>, History) {
    let history = History::parse_bytes(black_box(&text)).expect("lines as in the format");
    (text, history)
}

/// Two shards of samples as a round leaves them: neither is empty, since merging into an empty one is a copy.
fn two_histograms() -> (Histogram<u64>, Histogram<u64>) {
    let of = |from_ns: u64| {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        for n in 0..10_000_u64 {
            histogram.record(from_ns + n * 97).expect("it grows");
        }
        histogram
    };
    (of(50_000), of(60_000))
}

#[library_benchmark]
#[bench::of_ten_thousand_each(two_histograms())]
fn merge_of_two_histograms(
    (mut sum, part): (Histogram<u64>, Histogram<u64>),
) -> (Histogram<u64>, Histogram<u64>) {
    sum.add(black_box(&part)).expect("both grow as far as they must");
    (sum, part)
}

library_benchmark_group!(
    name = pure,
    benchmarks = [
        slot_of_a_key,
        parsing_of_a_target,
        sweep_of_ten_thousand_holds,
        parsing_of_a_history,
        merge_of_two_histograms
    ]
);
main!(library_benchmark_groups = pure);
