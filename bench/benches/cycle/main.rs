//! What `cargo bench` measures: the uncontended cycle of each lock on each topology, by one task and by many,
//! then a hand-off, an extension, and inner loops that need no server.
//!
//! `cargo bench -p bench -- reentrant/sentinel` measures what has that in its name. Servers start when
//! something of theirs is measured. Nothing is asserted: a table at the end sets the locks beside each other.

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout)]

mod load;
mod others;
mod rows;
mod servers;
mod table;

use std::{path::Path, time::Duration, time::SystemTime};

use criterion::{Criterion, PlottingBackend};
use tokio::runtime::Runtime;

fn main() {
    let began = SystemTime::now();
    // Beside the program, wherever cargo was asked to build it.
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion");
    let mut criterion = Criterion::default()
        .output_directory(&output)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(rows::SAMPLES)
        // A tenth of Criterion's own: 95 % of so many are still told to a hundredth of the interval.
        .nresamples(10_000)
        .plotting_backend(PlottingBackend::Plotters)
        .configure_from_args();
    let runtime = Runtime::new().expect("a runtime");
    let rows = rows::measure(&mut criterion, &runtime);
    others::measure(&mut criterion, &runtime);
    criterion.final_summary();
    let measured: Vec<_> = rows.into_iter().filter_map(|row| row.read(&output, began)).collect();
    if !measured.is_empty() {
        print!("\n{}", table::table(&measured));
    }
    let report = output.join("report/index.html");
    if let Ok(changed) = report.metadata().and_then(|file| file.modified())
        && changed >= began
    {
        println!("Criterion's report: {}", report.display());
    }
}
