//! Renders a stored run: `cargo run -p results --example render -- RUN FORMAT > FILE`.

use std::process::ExitCode;

use results::report;
use results::store::{self, RunStore};

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, format] = arguments.as_slice() else {
        eprintln!("usage: render RUN FORMAT");
        return ExitCode::from(64);
    };
    let Some(format) = report::by_name(format) else {
        let names: Vec<&str> = report::FORMATS.iter().map(|format| format.name).collect();
        eprintln!("no format '{format}'; there are {}", names.join(", "));
        return ExitCode::from(64);
    };
    let loaded = match std::fs::read(run) {
        Ok(bytes) => store::parse(run.as_ref(), &bytes),
        Err(_) => RunStore::new("runs").load(run),
    };
    match loaded
        .map_err(|error| error.to_string())
        .and_then(|run| format.render(&run).map_err(|error| error.to_string()))
    {
        Ok(document) => {
            print!("{document}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(65)
        }
    }
}
