//! What this machine has and lacks for servers, and how to fix it.

use std::net::TcpListener;

use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;

use crate::{ClusterError, Server, Topology, TopologyKind};

/// One thing that was looked for.
#[derive(Debug, Serialize)]
pub struct MachineFinding {
    /// What it is.
    pub what: &'static str,
    /// `ok`, `missing` (nothing can run) or `optional`.
    pub state: &'static str,
    /// What was found.
    pub found: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl MachineFinding {
    /// It is there.
    pub fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, state: "ok", found: found.into(), remedy: None }
    }

    /// It is not there, and only some commands need it.
    pub fn optional(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(format!("optional: {}", remedy.into()));
        Self { what, state: "optional", found: found.into(), remedy }
    }

    fn missing(what: &'static str, found: String, remedy: &str) -> Self {
        Self { what, state: "missing", found, remedy: Some(remedy.to_owned()) }
    }

    fn advise(mut self, is_needed: bool, remedy: &str) -> Self {
        self.remedy = is_needed.then(|| remedy.to_owned());
        self
    }
}

/// Looks for everything that servers need; what every run needs comes first.
pub async fn check_machine() -> Vec<MachineFinding> {
    let redis = match Server::find("redis") {
        Ok(server) => MachineFinding::ok("redis-server", with_tls(&server)),
        Err(error) => {
            let remedy = "`make setup` installs it, or: apt-get install redis-server";
            MachineFinding::missing("redis-server", error.to_string(), remedy)
        }
    };
    let valkey = Server::find("valkey").map(|server| with_tls(&server));
    let valkey = optional("valkey-server", valkey, "`server = \"valkey\"` in a topology needs it");
    let mut all = vec![redis, loopback(), cores(), open_files(), valkey];
    use TopologyKind::{Etcd, Mongodb, Mysql, Postgres, ZooKeeper};
    all.extend([Etcd, ZooKeeper, Mysql, Postgres, Mongodb].map(|kind| {
        let found = Server::of(&Topology::of(kind));
        let found = found.map(|server| format!("{} at {}", server.name(), server.path.display()));
        optional(kind.name(), found, &format!("topologies of {} need it", kind.name()))
    }));
    all.push(engine().await);
    all
}

fn optional(what: &'static str, found: Result<String, ClusterError>, needs: &str) -> MachineFinding {
    match found {
        Ok(found) => MachineFinding::ok(what, found),
        Err(error) => MachineFinding::optional(what, "not here", format!("{needs}: {error}")),
    }
}

fn with_tls(server: &Server) -> String {
    let tls = if server.has_tls() { "with" } else { "without" };
    format!("{} at {}, {tls} TLS", server.version, server.path.display())
}

/// What `--provisioner container` needs.
#[cfg(feature = "containers")]
async fn engine() -> MachineFinding {
    const WHAT: &str = "container engine";
    match crate::engine().await {
        Ok(version) => MachineFinding::ok(WHAT, version),
        Err(error) => {
            let remedy = format!("`--provisioner container` needs one; {error}");
            MachineFinding::optional(WHAT, "none answers", remedy)
        }
    }
}

#[cfg(not(feature = "containers"))]
async fn engine() -> MachineFinding {
    const REMEDY: &str =
        "this locklab was built without containers; `cargo build --release -p cli` builds it with them";
    MachineFinding::optional("container engine", "not built in", REMEDY)
}

/// Every node has a loopback address of its own, so that links can be told apart.
fn loopback() -> MachineFinding {
    const WHAT: &str = "loopback addresses";
    match TcpListener::bind("127.0.0.11:0").and_then(|_| TcpListener::bind("127.0.1.11:0")) {
        Ok(_) => MachineFinding::ok(WHAT, "127.0.0.x and 127.0.1.x are free to listen on"),
        Err(error) => MachineFinding::missing(
            WHAT,
            format!("cannot listen on 127.0.0.11 or 127.0.1.11: {error}"),
            "Linux has them; elsewhere add aliases to the loopback interface",
        ),
    }
}

fn cores() -> MachineFinding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let remedy = "on one core, clients and servers take turns: latencies are too large";
    MachineFinding::ok("cores", cores.to_string()).advise(cores < 2, remedy)
}

fn open_files() -> MachineFinding {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let remedy = "raise it (ulimit -n 4096) before a run with many connections";
    MachineFinding::ok("open files", format!("limit {soft}")).advise(soft < 1024, remedy)
}
