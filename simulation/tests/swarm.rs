//! What a swarm of seeds shows: it repeats itself, finds what is broken, and convicts nothing of the library.
//!
//! A program of its own, without the threads of a test harness: each run is a copy of this process.

#![allow(clippy::print_stdout, reason = "it is its own test harness")]

use std::{ops::Range, time::Instant};

use simulation::{
    draw::Wanted,
    swarm::{self, Report},
};

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    if only == "history" {
        let seed = std::env::args()
            .nth(2)
            .map_or(0, |n| n.parse().expect("a number"));
        let (_, lines) = histories(seed..seed + 1, 1).remove(0);
        return lines.iter().for_each(|line| println!("{line}"));
    }
    let tests: [(&str, fn()); 2] = [
        ("a seed gives the same history, byte for byte", same_history),
        ("nothing of the library is convicted", nothing_convicted),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&*only)) {
        let began = Instant::now();
        test();
        println!("test {name} ... ok ({:.1?})", began.elapsed());
    }
}

fn histories(seeds: Range<u64>, jobs: usize) -> Vec<(u64, Vec<String>)> {
    let mut all = Vec::new();
    let wanted = Wanted::default();
    let report = swarm::run(seeds, jobs, &wanted, true, |one| {
        all.push((one.seed, one.history.clone()));
    });
    report.expect("it runs");
    all.sort();
    all
}

fn same_history() {
    let (first, second) = (histories(0..24, 1), histories(0..24, 3));
    for ((seed, first), (_, second)) in first.iter().zip(&second) {
        assert!(first.len() > 50, "seed {seed}: too little happened");
        for (number, (one, other)) in first.iter().zip(second).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {number}");
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

/// Says what became of seeds, and how fast.
fn told(report: &Report, began: Instant) {
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "{} seeds, {} grants, {:.0} s simulated in {elapsed:.1} s: {:.0} times as fast; {} unknown",
        report.seeds,
        report.grants,
        report.simulated.as_secs_f64(),
        report.simulated.as_secs_f64() / elapsed,
        report.unknown.len(),
    );
    for one in report.unknown.iter().take(4) {
        println!(
            "  unknown {} {:?}: {:?}",
            one.seed, one.unknown, one.verdicts.contract
        );
    }
    for one in &report.convicted {
        println!("  seed {} {:?}", one.seed, one.convicted);
        for class in &one.convicted {
            println!("    {:?}", one.verdicts.get(class));
        }
    }
}

fn nothing_convicted() {
    let began = Instant::now();
    let seeds: u64 = std::env::args()
        .nth(2)
        .map_or(200, |n| n.parse().expect("a number"));
    let report = swarm::run(0..seeds, 2, &Wanted::default(), false, |_| {}).expect("it runs");
    told(&report, began);
    assert!(report.convicted.is_empty());
}
