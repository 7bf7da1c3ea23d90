//! Turns the registry of running deployments into a list.

use clap::Args;
use cluster_config::Running;
use serde_json::Value;

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
            "schema": 1, "running": running.iter().map(listed).collect::<Vec<_>>(),
        }))?);
    } else if running.is_empty() {
        terminal.note("nothing is running");
    } else {
        for deployment in &running {
            terminal.result(&format!(
                "{:<24} {:<9} {:<10} {:<8} {}",
                deployment.id,
                deployment.topology,
                deployment.provisioner,
                deployment.server_version,
                deployment.url
            ));
        }
    }
    Ok(exit::AS_EXPECTED)
}

/// A deployment with what its servers can do.
fn listed(deployment: &Running) -> Value {
    let mut listed = serde_json::json!(deployment);
    listed["server"] = server(deployment);
    listed
}

/// The servers' binary, what it is and what it has.
pub(super) fn server(deployment: &Running) -> Value {
    let binary = deployment.server.as_ref();
    serde_json::json!({
        "version": deployment.server_version,
        "flavour": binary.map(|binary| &binary.flavour),
        "path": binary.map(|binary| &binary.path),
        "has_tls": binary.map(cluster_config::Server::has_tls),
        "modules": deployment.modules,
        "speaks_tls": deployment.tls,
    })
}
