//! Turns this machine, or a target, into a list of what it has, what it lacks and how to fix it.

use std::net::TcpListener;
use std::process::Command;

use clap::Args;
use serde::Serialize;

use crate::args::Common;
use crate::command::survey;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Look at these servers instead of this machine: their settings that are dangerous for locks
    target: Option<String>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    /// `ok`, `missing` (quickstart cannot run) or `optional`.
    state: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

pub(crate) async fn run(
    options: Options,
    common: &Common,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    if let Some(target) = &options.target {
        return survey::run(target, common, terminal).await;
    }
    let findings = vec![
        server(),
        loopback(),
        cores(),
        open_files(),
        optional(
            "valkey-server",
            &["--version"],
            "optional: `server = \"valkey\"` in a topology needs it",
        ),
        engine().await,
        optional(
            "iptables",
            &["--version"],
            "optional: `--isolate` drops packets with it; without it links are cut by proxies",
        ),
        optional(
            "chromium",
            &["--version"],
            "optional: only the tests that look at reports need it",
        ),
    ];
    let well = findings.iter().all(|finding| finding.state != "missing");
    if common.json {
        terminal.result(&serde_json::to_string(&serde_json::json!({
            "schema": 1, "ok": well, "findings": findings,
        }))?);
    } else {
        for finding in &findings {
            let remedy = finding
                .remedy
                .as_ref()
                .map(|remedy| format!("\n           {remedy}"));
            terminal.result(&format!(
                "{:<9}  {}: {}{}",
                finding.state,
                finding.what,
                finding.found,
                remedy.unwrap_or_default()
            ));
        }
    }
    Ok(if well {
        exit::AS_EXPECTED
    } else {
        exit::MISSING
    })
}

fn server() -> Finding {
    match cluster_config::Server::find("redis") {
        Ok(server) => Finding {
            what: "redis-server",
            state: "ok",
            found: format!(
                "{} at {}, {} TLS",
                server.version,
                server.path.display(),
                if server.has_tls() { "with" } else { "without" }
            ),
            remedy: None,
        },
        Err(error) => Finding {
            what: "redis-server",
            state: "missing",
            found: error.to_string(),
            remedy: Some("`make setup` installs it, or: apt-get install redis-server".to_owned()),
        },
    }
}

/// What `--provisioner container` needs.
#[cfg(feature = "containers")]
async fn engine() -> Finding {
    let (state, found, remedy) = match cluster_config::engine().await {
        Ok(version) => ("ok", version, None),
        Err(error) => {
            let found = "none answers".to_owned();
            (
                "optional",
                found,
                Some(format!(
                    "optional: `--provisioner container` needs one; {error}"
                )),
            )
        }
    };
    Finding {
        what: "container engine",
        state,
        found,
        remedy,
    }
}

#[cfg(not(feature = "containers"))]
async fn engine() -> Finding {
    Finding {
        what: "container engine",
        state: "optional",
        found: "not asked for".to_owned(),
        remedy: Some(
            "optional: this locklab was built without containers; `cargo build --release -p cli` builds it with them".to_owned(),
        ),
    }
}

/// Every node has a loopback address of its own, so that links can be told apart.
fn loopback() -> Finding {
    match TcpListener::bind("127.0.0.11:0").and_then(|_| TcpListener::bind("127.0.1.11:0")) {
        Ok(_) => Finding {
            what: "loopback addresses",
            state: "ok",
            found: "127.0.0.x and 127.0.1.x can be listened on".to_owned(),
            remedy: None,
        },
        Err(error) => Finding {
            what: "loopback addresses",
            state: "missing",
            found: format!("127.0.0.11 or 127.0.1.11 cannot be listened on: {error}"),
            remedy: Some(
                "Linux has them; elsewhere add aliases to the loopback interface".to_owned(),
            ),
        },
    }
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Finding {
        what: "cores",
        state: "ok",
        found: cores.to_string(),
        remedy: (cores < 2).then(|| {
            "with one core, clients and servers take turns: read latencies with care".to_owned()
        }),
    }
}

fn open_files() -> Finding {
    use nix::sys::resource::{Resource, getrlimit};
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    Finding {
        what: "open files",
        state: "ok",
        found: format!("limit {soft}"),
        remedy: (soft < 1024)
            .then(|| "raise it (ulimit -n 4096) before a run with many connections".to_owned()),
    }
}

fn optional(program: &'static str, args: &[&str], remedy: &str) -> Finding {
    let answer = Command::new(program).args(args).output();
    match answer {
        Ok(output) if output.status.success() => Finding {
            what: program,
            state: "ok",
            found: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            remedy: None,
        },
        _ => Finding {
            what: program,
            state: "optional",
            found: "not here".to_owned(),
            remedy: Some(remedy.to_owned()),
        },
    }
}
