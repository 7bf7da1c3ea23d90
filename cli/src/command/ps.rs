//! Turns the registry of running deployments into a list.

use clap::Args;

use crate::args::Common;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `ps`.
#[derive(Debug, Args)]
pub(crate) struct Options {}

pub(crate) async fn run(
    _options: Options,
    common: &Common,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let running = cluster_config::running()?;
    if common.json {
        terminal.result(&serde_json::to_string(&serde_json::json!({
            "schema": 1, "running": running,
        }))?);
    } else if running.is_empty() {
        terminal.note("nothing is running");
    } else {
        for deployment in &running {
            terminal.result(&format!(
                "{:<24} {:<9} {}",
                deployment.id, deployment.topology, deployment.url
            ));
        }
    }
    Ok(exit::AS_EXPECTED)
}
