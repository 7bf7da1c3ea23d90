//! `locklab ps`: the servers that run.

use cluster_config::Running;
use serde_json::Value;

use crate::exit;
use crate::terminal::Terminal;

pub(crate) fn run(terminal: &Terminal) -> anyhow::Result<u8> {
    let running = cluster_config::running()?;
    if running.is_empty() {
        terminal.note("nothing is running");
    }
    let all: Vec<_> = running.iter().map(listed).collect();
    terminal.answer(&serde_json::json!({"schema": 1, "running": all}), || {
        let lines = running.iter().map(|deployment| {
            format!(
                "{:<24} {:<9} {:<10} {:<8} {}\n",
                deployment.id,
                deployment.topology,
                deployment.provisioner,
                deployment.server_version,
                deployment.url
            )
        });
        lines.collect()
    })?;
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
