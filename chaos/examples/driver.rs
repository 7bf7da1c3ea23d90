//! A driver for one of our own subjects on standard input and output: `driver SUBJECT`. The clients of the
//! tests are such processes.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let served = match bench::subjects::find(&name) {
        Ok(subject) => bench::serve::serve(subject, tokio::io::stdin(), tokio::io::stdout())
            .await
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A driver's standard error is its log.
            #[allow(clippy::print_stderr)]
            {
                eprintln!("{why}");
            }
            ExitCode::FAILURE
        }
    }
}
