//! Turns runs of the same load with and without the live screen, in turns, into what the screen costs the measured path.
//!
//! `cargo bench -p cli --features tui --bench live`. Each pair of runs is one after the other, now this first and now that, so that a busy machine hits
//! both alike; pairs without the screen in either half say how much of a ratio is noise.
#![allow(missing_docs)]
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{
    path::Path,
    process::{Command, Stdio},
};

use results::{run::BenchRow, store};

const PAIRS: u64 = 8;
const LOAD: &str =
    "bench --workload uncontended --tasks 16 --rounds 1 --warmup 300ms --duration 2s";

/// One run in a terminal that script(1) makes; its only row.
fn row(dir: &Path, seed: u64, number: u64, screen: &str) -> BenchRow {
    let out = dir.join(number.to_string());
    let command = format!(
        "stty rows 40 cols 120; exec {} {LOAD} --seed {seed} --out {} {screen}",
        env!("CARGO_BIN_EXE_locklab"),
        out.display()
    );
    let status = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &command])
        .arg("/dev/null")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("script(1) runs");
    assert!(status.success(), "{command}: {status}");
    let run = store::load_dir(&out).expect("the run that was kept");
    run.rows.into_iter().next().expect("one row")
}

/// The middle one, and the lowest and the highest.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.3} ({low:.3}–{high:.3})", ratios[ratios.len() / 2])
}

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut number = 0;
    let mut run = |seed, screen: &str| {
        number += 1;
        row(dir.path(), seed, number, screen)
    };
    println!("| pair | cycles/s, second against first | acquire p99 |");
    println!("|---|---|---|");
    for (name, screen) in [("plain, plain", ""), ("plain, screen", "--tui")] {
        let (mut rates, mut tails) = (Vec::new(), Vec::new());
        for seed in 1..=PAIRS {
            let (first, second) = if seed % 2 == 0 {
                let first = run(seed, "");
                (first, run(seed, screen))
            } else {
                let second = run(seed, screen);
                (run(seed, ""), second)
            };
            rates.push(second.cycles_per_s.median / first.cycles_per_s.median);
            if let (Some(a), Some(b)) = (first.acquire_ns.p99, second.acquire_ns.p99) {
                tails.push(b as f64 / a as f64);
            }
        }
        println!("| {name} | {} | {} |", spread(rates), spread(tails));
    }
}
