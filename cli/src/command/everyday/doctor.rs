//! `locklab doctor`: what this machine, or a target, has and lacks, and how to fix it.

use std::net::TcpListener;
use std::process::Command;

use clap::Args;
use cluster_config::{Server, Topology, TopologyKind};
use serde::Serialize;

use super::survey;
use crate::args::TargetConsent;
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Check these servers instead of this machine: settings that are dangerous for locks
    #[arg(value_parser = crate::args::target_url)]
    target: Option<String>,
    #[command(flatten)]
    mine: TargetConsent,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    /// `ok`, `missing` (quickstart cannot run) or `optional`.
    state: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if let Some(target) = &options.target {
        return survey::run(target, options.mine.yes_this_is_mine, terminal).await;
    }
    let findings = vec![
        server(),
        loopback(),
        cores(),
        open_files(),
        valkey(),
        baseline(TopologyKind::Etcd),
        baseline(TopologyKind::ZooKeeper),
        baseline(TopologyKind::Mysql),
        baseline(TopologyKind::Postgres),
        baseline(TopologyKind::Mongodb),
        engine().await,
        optional("chromium", "only the tests that look at reports need it"),
        peers(),
    ];
    let is_ok = findings.iter().all(|finding| finding.state != "missing");
    let document = serde_json::json!({"schema": 1, "ok": is_ok, "findings": findings});
    terminal.answer(&document, || findings.iter().map(line).collect())?;
    Ok(if is_ok { exit::AS_EXPECTED } else { exit::MISSING })
}

fn line(finding: &Finding) -> String {
    let remedy = finding.remedy.iter();
    let remedy: String = remedy.map(|remedy| format!("           {remedy}\n")).collect();
    format!("{:<9}  {}: {}\n{remedy}", finding.state, finding.what, finding.found)
}

impl Finding {
    fn new(what: &'static str, state: &'static str, found: impl Into<String>) -> Self {
        Finding { what, state, found: found.into(), remedy: None }
    }

    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(what, "ok", found)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

fn server() -> Finding {
    const WHAT: &str = "redis-server";
    match Server::find("redis") {
        Ok(server) => found_server(WHAT, &server),
        Err(error) => Finding::new(WHAT, "missing", error.to_string())
            .remedy("`make setup` installs it, or: apt-get install redis-server"),
    }
}

fn valkey() -> Finding {
    const WHAT: &str = "valkey-server";
    match Server::find("valkey") {
        Ok(server) => found_server(WHAT, &server),
        Err(error) => Finding::new(WHAT, "optional", "not here")
            .remedy(format!("optional: `server = \"valkey\"` in a topology needs it: {error}")),
    }
}

fn found_server(what: &'static str, server: &Server) -> Finding {
    let tls = if server.has_tls() { "with" } else { "without" };
    let path = server.path.display();
    Finding::ok(what, format!("{} at {path}, {tls} TLS", server.version))
}

fn baseline(kind: TopologyKind) -> Finding {
    let what = kind.name();
    match Server::of(&Topology::of(kind)) {
        Ok(server) => {
            let (name, path) = (server.name(), server.path.display());
            Finding::ok(what, format!("{name} at {path}"))
        }
        Err(error) => Finding::new(what, "optional", "not here")
            .remedy(format!("optional: topologies of {what} need it: {error}")),
    }
}

/// What `--provisioner container` needs.
#[cfg(feature = "containers")]
async fn engine() -> Finding {
    const WHAT: &str = "container engine";
    match cluster_config::engine().await {
        Ok(version) => Finding::ok(WHAT, version),
        Err(error) => Finding::new(WHAT, "optional", "none answers")
            .remedy(format!("optional: `--provisioner container` needs one; {error}")),
    }
}

#[cfg(not(feature = "containers"))]
async fn engine() -> Finding {
    Finding::new("container engine", "optional", "not built in")
        .remedy("optional: this locklab was built without containers; `cargo build --release -p cli` builds it with them")
}

/// Every node has a loopback address of its own, so that links can be told apart.
fn loopback() -> Finding {
    const WHAT: &str = "loopback addresses";
    match TcpListener::bind("127.0.0.11:0").and_then(|_| TcpListener::bind("127.0.1.11:0")) {
        Ok(_) => Finding::ok(WHAT, "127.0.0.x and 127.0.1.x are free to listen on"),
        Err(error) => {
            let found = format!("cannot listen on 127.0.0.11 or 127.0.1.11: {error}");
            Finding::new(WHAT, "missing", found)
                .remedy("Linux has them; elsewhere add aliases to the loopback interface")
        }
    }
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let finding = Finding::ok("cores", cores.to_string());
    match cores {
        0 | 1 => finding.remedy("on one core, clients and servers take turns: latencies are too large"),
        _ => finding,
    }
}

fn open_files() -> Finding {
    use nix::sys::resource::{Resource, getrlimit};
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let finding = Finding::ok("open files", format!("limit {soft}"));
    match soft {
        0..1024 => finding.remedy("raise it (ulimit -n 4096) before a run with many connections"),
        _ => finding,
    }
}

fn peers() -> Finding {
    let (mut built, mut missing) = (Vec::new(), Vec::new());
    for subject in bench::subjects::all() {
        match (subject.program(), subject.missing()) {
            (Some(_), None) => built.push(subject.name().to_owned()),
            (Some(_), Some(_)) => missing.push(subject.name().to_owned()),
            (None, _) => {}
        }
    }
    let found = |names: &[String]| match names {
        [] => "none".to_owned(),
        _ => names.join(", "),
    };
    let said = format!("built: {}", found(&built));
    match missing.as_slice() {
        [] => Finding::ok("peers", said),
        _ => Finding::new("peers", "optional", format!("{said}; not built: {}", missing.join(", "))).remedy(
            "optional: `make peers` builds those whose language is here, and names what the others need",
        ),
    }
}

fn optional(program: &'static str, remedy: &str) -> Finding {
    match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => {
            Finding::ok(program, String::from_utf8_lossy(&output.stdout).trim())
        }
        _ => Finding::new(program, "optional", "not here").remedy(format!("optional: {remedy}")),
    }
}
