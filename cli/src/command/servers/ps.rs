//! `locklab ps`: the servers that run.

use cluster_config::Running;
use serde_json::Value;

use crate::provisioner::running_server;
use crate::terminal::{Terminal, columns};

pub(crate) fn run(terminal: &Terminal) -> anyhow::Result<u8> {
    let running = cluster_config::running()?;
    if running.is_empty() {
        terminal.note("nothing is running");
    }
    let all: Vec<_> = running.iter().map(listed).collect();
    terminal.answer(&serde_json::json!({"schema": 1, "running": all}), || {
        let line = |deployment: &Running| {
            vec![
                deployment.id.clone(),
                deployment.topology.to_string(),
                deployment.provisioner.to_string(),
                deployment.server_version.clone(),
                deployment.url.clone(),
            ]
        };
        columns(&running.iter().map(line).collect::<Vec<_>>(), 0..0)
    })
}

fn listed(deployment: &Running) -> Value {
    let mut listed = serde_json::json!(deployment);
    listed["server"] = running_server(deployment);
    listed
}
