//! Turns `up TOPOLOGY` into running servers and a URL on the first line of standard output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cluster_config::{Process, Provisioner as _, Topology, TopologyKind, UpOptions};

use crate::args::Common;
use crate::cancel::Cancel;
use crate::exit;
use crate::terminal::Terminal;

/// How often `up` looks whether somebody else took its servers down.
const LOOK: Duration = Duration::from_millis(500);

/// Flags of `up`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// single, sentinel, cluster or masters
    #[arg(value_parser = super::topology_kind)]
    topology: TopologyKind,
    /// Leave the servers running; `locklab down` stops them
    #[arg(long)]
    detach: bool,
    /// Replicas per master (sentinel, cluster)
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Independent masters (masters)
    #[arg(long, value_name = "N")]
    masters: Option<u32>,
    /// Masters with slots (cluster)
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// Sentinels (sentinel)
    #[arg(long, value_name = "N")]
    sentinels: Option<u32>,
    /// redis, valkey or a path
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// A redis.conf line for every node, e.g. appendonly=yes
    #[arg(long, value_name = "KEY=VALUE", value_parser = config_line)]
    config: Vec<(String, String)>,
    /// The port of every node, each on its own address; a cluster also needs the next [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

fn config_line(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!(
            "`{text}` is no configuration line; write KEY=VALUE, e.g. appendonly=yes"
        )),
    }
}

pub(crate) async fn run(
    options: Options,
    common: &Common,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let mut topology = Topology::of(options.topology);
    topology.replicas = options.replicas.unwrap_or(topology.replicas);
    topology.masters = options.masters.unwrap_or(topology.masters);
    topology.shards = options.shards.unwrap_or(topology.shards);
    topology.sentinels = options.sentinels.unwrap_or(topology.sentinels);
    topology.server = options.server.unwrap_or(topology.server);
    topology
        .config
        .extend(options.config.into_iter().collect::<BTreeMap<_, _>>());
    topology.validate().map_err(exit::usage)?;

    let dir = match &common.out {
        Some(dir) => dir.clone(),
        None => cluster_config::state_dir().map(|dir| dir.join(name()))?,
    };
    let mut up = UpOptions::new(std::path::absolute(&dir).unwrap_or(dir));
    up.port = options.port;
    up.detach = options.detach;

    let cancel = Cancel::listen()?;
    let bar = terminal.bar(0, &format!("starting {}", options.topology));
    let deployment = tokio::select! {
        deployment = Process.up(&topology, &up) => deployment.map_err(exit::missing)?,
        () = cancel.wanted() => return Err(exit::interrupted("interrupted while starting; nothing is left running")),
    };
    bar.finish_and_clear();

    let nodes: Vec<_> = deployment
        .nodes()
        .iter()
        .map(|node| serde_json::json!({"name": node.name, "address": node.address.to_string(), "log": node.log}))
        .collect();
    if common.json {
        terminal.result(&serde_json::to_string(&serde_json::json!({
            "schema": 1, "id": deployment.id(), "url": deployment.url(), "nodes": nodes,
        }))?);
    } else {
        terminal.result(&deployment.url());
    }
    for node in deployment.nodes() {
        terminal.detail(&format!(
            "{} {} log {}",
            node.name,
            node.address,
            node.log.display()
        ));
    }
    if options.detach {
        terminal.note(&format!(
            "running as {0}; stop it with: locklab down {0}",
            deployment.id()
        ));
        deployment.leave();
        return Ok(exit::AS_EXPECTED);
    }
    terminal.note("running until Ctrl-C");
    // Another terminal may take it down: then there is nothing left to stay for.
    while !cancel.is_wanted() && deployment.is_listed() {
        tokio::select! {
            () = cancel.wanted() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    deployment.down().await?;
    Ok(exit::AS_EXPECTED)
}

/// A directory name that two of us at once do not share.
fn name() -> PathBuf {
    PathBuf::from(format!(
        "up-{}-{}",
        std::process::id(),
        jiff::Timestamp::now().as_millisecond()
    ))
}
