//! `locklab up`: starts servers; their URL is the first line of standard output.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use cluster_config::{ClusterError, Deployment, Topology, TopologyKind, UpOptions};

use crate::cancel::Cancel;
use crate::exit;
use crate::provisioner::{ProvisionerArgs, running_server};
use crate::terminal::Terminal;

/// How often `up` looks whether somebody else took its servers down.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// single, sentinel, cluster or masters; etcd, etcd-3, zookeeper, zookeeper-3, mysql, postgres or
    /// mongodb; or a TOML file with a topology table, such as a scenario
    topology: String,
    /// Leave the servers running; `locklab down` stops them
    #[arg(long)]
    detach: bool,
    /// redis, valkey, a version such as redis-7.2 (`locklab list servers`), or a path; for other systems a
    /// path
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// A line of redis.conf for every node, e.g. appendonly=yes; for other systems a setting of the server
    #[arg(long, value_name = "KEY=VALUE", value_parser = config_line)]
    config: Vec<(String, String)>,
    /// Use TLS everywhere, with certificates made for this run; the URL names their authority
    #[arg(long)]
    tls: bool,
    /// Clients need a user and a password, of sentinels another one; the URL has them, and `ps` does not
    #[arg(long)]
    acl: bool,
    /// The port of every node, each on its own address; a cluster also needs the next [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
}

fn config_line(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no configuration line; write KEY=VALUE, e.g. appendonly=yes")),
    }
}

fn topology_of(word: &str) -> anyhow::Result<Topology> {
    let kinds = || TopologyKind::ALL.into_iter().map(TopologyKind::name);
    if let Ok(kind) = word.parse() {
        return Ok(Topology::of(kind));
    }
    if word.ends_with(".toml") || word.contains('/') || std::path::Path::new(word).is_file() {
        let text = results::limits::read_text(word).map_err(exit::input)?;
        // The servers of a scenario can be started by themselves.
        let others = &chaos::scenario::KEYS;
        return Topology::parse_among(word, &text, others).map_err(exit::input);
    }
    Err(exit::usage(format!(
        "`{word}` is no topology; there are {}, or a file: FILE.toml{}",
        kinds().collect::<Vec<_>>().join(", "),
        results::spelling::nearest(word, kinds())
    )))
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut topology = topology_of(&options.topology)?;
    topology.server = options.server.unwrap_or(topology.server);
    let lines: BTreeMap<_, _> = options.config.into_iter().collect();
    topology.config.extend(lines.clone());
    topology.tls |= options.tls;
    topology.acl |= options.acl;
    options.provisioner.apply(&mut topology);
    topology.validate().map_err(exit::usage)?;
    let provisioner = cluster_config::provisioner_of(&topology)?;
    if let Some(remark) = topology.remark() {
        terminal.note(remark);
    }

    let dir = match &terminal.common.out {
        Some(dir) => dir.clone(),
        None => cluster_config::unnamed_dir()?,
    };
    let mut up = UpOptions::new(std::path::absolute(&dir).unwrap_or(dir));
    up.port = options.port;
    up.detach = options.detach;

    let cancel = Cancel::listen()?;
    let bar = terminal.bar(0, &format!("starting {}", topology.kind));
    let deployment = tokio::select! {
        deployment = provisioner.up(&topology, &up) => deployment.map_err(|error| start_failure(error, &lines, &topology))?,
        () = cancel.wanted() => return Err(exit::interrupted("interrupted while starting; nothing is left running")),
    };
    bar.finish_and_clear();

    let nodes = deployment.nodes().iter();
    let nodes = nodes.map(|node| serde_json::json!({"name": node.name, "role": node.role, "address": node.address.to_string(), "log": node.log}));
    let nodes: Vec<_> = nodes.collect();
    let document = serde_json::json!({
        "schema": 1, "id": deployment.id(), "url": deployment.url(), "nodes": nodes, "server": server(&deployment),
    });
    terminal.answer_data(&document, || deployment.url())?;
    // Servers whose URL nobody was told are nobody's.
    if terminal.has_write_error() {
        deployment.down().await?;
        return Ok(exit::AS_EXPECTED);
    }
    for node in deployment.nodes() {
        terminal.detail(&format!("{} {} log {}", node.name, node.address, node.log.display()));
    }
    if options.detach {
        terminal.note(&format!("running as {0}; stop it with: locklab down {0}", deployment.id()));
        deployment.leave();
        return Ok(exit::AS_EXPECTED);
    }
    terminal.note("running until Ctrl-C");
    // Another terminal may take it down: then there is nothing left to stay for.
    while !cancel.is_wanted() && deployment.is_listed() {
        tokio::select! {
            () = cancel.wanted() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
    deployment.down().await?;
    Ok(exit::AS_EXPECTED)
}

/// Whose fault it is that servers did not start: that of a flag, of the file, or of what is on this machine.
fn start_failure(
    error: ClusterError,
    flags: &BTreeMap<String, String>,
    topology: &Topology,
) -> anyhow::Error {
    match &error {
        ClusterError::Invalid(_) => exit::usage(error),
        ClusterError::Setting { line, .. } => match line.split_whitespace().next().unwrap_or_default() {
            key if flags.contains_key(key) => exit::usage(error),
            key if topology.config.contains_key(key) => exit::input(error),
            _ => exit::missing(error),
        },
        _ => exit::missing(error),
    }
}

fn server(deployment: &Deployment) -> serde_json::Value {
    let running = cluster_config::running().unwrap_or_default();
    let listed = running.iter().find(|listed| listed.id == deployment.id());
    listed.map_or(serde_json::Value::Null, running_server)
}
