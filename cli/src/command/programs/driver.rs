//! `locklab driver`: one of our own subjects as a driver, which is what every client of a scenario is.

use clap::Args;

use crate::exit;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A subject's name, as `locklab list subjects` prints it
    subject: String,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<u8> {
    let subject = bench::subjects::find(&options.subject)?;
    bench::consent::inherit();
    bench::serve::serve(subject, tokio::io::stdin(), tokio::io::stdout()).await?;
    Ok(exit::AS_EXPECTED)
}
