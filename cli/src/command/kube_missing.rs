//! `locklab kube` of a build without the client of Kubernetes: says how to get one that has it.

use clap::Args;

use crate::exit;
use crate::terminal::Terminal;

/// Whatever was asked for.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// render or run, and their flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<String>,
}

pub(crate) async fn run(_: Options, _: &Terminal) -> anyhow::Result<u8> {
    Err(exit::usage(
        "this locklab was built without Kubernetes: cargo build --release --locked -p cli --features kube",
    ))
}
