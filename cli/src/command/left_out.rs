//! Commands that this build was made without: each says how to get a build that has it.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The command's own words and flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<String>,
}

#[cfg(not(feature = "kube"))]
pub(crate) mod kube {
    pub(crate) use super::Options;
    use crate::{exit, terminal::Terminal};

    pub(crate) async fn run(_: Options, _: &Terminal) -> anyhow::Result<u8> {
        Err(exit::usage(
            "this locklab was built without Kubernetes: cargo build --release --locked -p cli --features kube",
        ))
    }
}

#[cfg(not(feature = "simulate"))]
pub(crate) mod simulate {
    pub(crate) use super::Options;
    use crate::{exit, terminal::Terminal};

    pub(crate) fn run(_: Options, _: &Terminal) -> anyhow::Result<u8> {
        Err(exit::usage(
            "this locklab was built without simulated time: cargo build --release --locked -p cli",
        ))
    }
}
