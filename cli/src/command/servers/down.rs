//! `locklab down`: stops servers that `up --detach` left running.

use clap::Args;

use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The id that `ps` shows [default: everything that `up --detach` started]
    id: Option<String>,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let running = cluster_config::running()?;
    let ids: Vec<String> = match options.id {
        Some(id) if running.iter().any(|deployment| deployment.id == id) => vec![id],
        Some(id) => {
            return Err(exit::usage(format!("nothing runs as `{id}`; `locklab ps` lists what runs")));
        }
        None => running
            .into_iter()
            .filter(|deployment| deployment.detached)
            .map(|deployment| deployment.id)
            .collect(),
    };
    for id in &ids {
        cluster_config::down_by_id(id).map_err(exit::missing)?;
        terminal.note(&format!("stopped {id}"));
    }
    if ids.is_empty() {
        terminal.note("nothing is running detached");
    }
    terminal.json(&serde_json::json!({"schema": 1, "stopped": ids}))
}
