//! What every provisioner promises, tried on each: processes of Redis and of Valkey, containers;
//! and somebody's own servers, which nobody starts or ends.
#![cfg(feature = "containers")]

mod support;

use std::io::Write as _;
use std::time::Duration;

use cluster_config::{
    ClusterError, Container, Data, Deployment, External, ExternalTarget, LinkFault, Links, Party, Process,
    Provisioner, Role, Server, Topology, TopologyKind, UpOptions, running,
};
use support::wire::Wire;
use support::{PATIENCE, engine, eventually, masters, scratch};
use tempfile::TempDir;

/// A provisioner under test.
fn provisioner(name: &str) -> Box<dyn Provisioner> {
    match name {
        "process" | "valkey" => Box::new(Process),
        _ => Box::new(Container),
    }
}

/// A topology for it. The server is named by its path, so that no registry is asked for an image.
fn topology(name: &str, kind: TopologyKind) -> Topology {
    let mut topology = Topology::of(kind);
    let server = if name == "valkey" { "valkey" } else { "redis" };
    let installed = Server::find(server).unwrap().path;
    topology.server = installed.to_string_lossy().into_owned();
    topology
}

async fn up(name: &str, topology: &Topology) -> (Deployment, TempDir) {
    let dir = scratch();
    let mut options = UpOptions::new(dir.path());
    // Far more than a start needs: on a loaded machine a container takes seconds.
    options.ready_timeout = Duration::from_secs(90);
    let deployment = provisioner(name).up(topology, &options).await.unwrap();
    (deployment, dir)
}

/// Every topology: ready, right roles, a URL of loopback addresses, writes accepted, listed, nothing beyond
/// loopback, and gone in the end.
async fn comes_up_and_goes_down(name: &str, kind: TopologyKind) {
    let (lab, dir) = up(name, &topology(name, kind)).await;
    assert!(lab.url().contains("127.0.0."), "{}", lab.url());
    assert!(lab.server_version().starts_with(char::is_numeric), "{}", lab.server_version());
    let expected: &[&str] = match kind {
        TopologyKind::Cluster => &["n1", "n2", "n3"],
        TopologyKind::Masters => &["n1", "n2", "n3", "n4", "n5"],
        _ => &["n1"],
    };
    assert_eq!(masters(&lab).await, expected);
    assert!(lab.probe("orders", PATIENCE).await);

    let listed = running().unwrap();
    let listed = listed.iter().find(|listed| listed.id == lab.id()).unwrap();
    assert_eq!(listed.provisioner.name(), provisioner(name).name());
    assert_eq!(listed.url, lab.url());
    let ports: Vec<u16> = lab.nodes().iter().map(|node| node.address.port()).collect();
    assert_eq!(engine::listens_beyond_loopback(&ports), [""; 0]);

    let id = lab.id().to_owned();
    lab.down().await.unwrap();
    assert!(running().unwrap().iter().all(|listed| listed.id != id));
    assert!(!dir.path().join("nodes").exists());
    assert!(dir.path().join("logs/n1.log").exists());
    if provisioner(name).name() == "container" {
        assert_eq!(engine::of(&id).await, [""; 0]);
    }
}

/// Kill, restart with and without the disk, pause and resume, on a server that syncs every write.
async fn a_node_dies_sleeps_and_comes_back(name: &str) {
    let mut topology = topology(name, TopologyKind::Single);
    for (directive, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
        topology.config.insert(directive.into(), value.into());
    }
    let (lab, _dir) = up(name, &topology).await;
    lab.command("n1", &["SET", "k", "v"]).await.unwrap();

    lab.kill("n1").await.unwrap();
    assert_eq!((lab.pid("n1"), lab.process_state("n1")), (None, None));
    assert!(lab.command("n1", &["PING"]).await.is_err());
    assert!(lab.kill("n1").await.is_err());
    lab.start("n1", Data::Keep).await.unwrap();
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "v");
    let message = lab.start("n1", Data::Keep).await.unwrap_err().to_string();
    assert!(message.contains("running already"), "{message}");

    lab.kill("n1").await.unwrap();
    lab.start("n1", Data::Lose).await.unwrap();
    assert_eq!(lab.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");

    lab.pause("n1").unwrap();
    assert_eq!(lab.process_state("n1"), Some('T'));
    assert!(!lab.probe("orders", Duration::from_millis(200)).await);
    lab.resume("n1").unwrap();
    eventually("n1 answers", async || lab.command("n1", &["PING"]).await.is_ok()).await;
    // A sleeping node can be killed, and does not hold up the end.
    lab.pause("n1").unwrap();
    lab.kill("n1").await.unwrap();
    assert_eq!(lab.pid("n1"), None);
    lab.down().await.unwrap();
}

/// A line that the server refuses: which node, the end of its log, the remedy; nothing stays.
async fn a_start_that_fails_says_why(name: &str) {
    let mut topology = topology(name, TopologyKind::Masters);
    topology.config.insert("maxmemory".into(), "plenty".into());
    let dir = scratch();
    let failed = provisioner(name).up(&topology, &UpOptions::new(dir.path())).await.unwrap_err();
    assert!(failed.to_string().contains("maxmemory plenty"), "{failed}");
    assert!(failed.to_string().contains("remedy:"), "{failed}");
    assert!(!matches!(failed, ClusterError::Missing(_)));
    assert!(!dir.path().join("nodes").exists());
}

/// Two at once: other ids, directories, ports and data. A dropped one is gone.
async fn two_share_nothing(name: &str) {
    let shape = topology(name, TopologyKind::Single);
    let ((one, one_dir), (other, other_dir)) = tokio::join!(up(name, &shape), up(name, &shape));
    assert_ne!(one.id(), other.id());
    assert_ne!(one_dir.path(), other_dir.path());
    assert_ne!(one.nodes()[0].address.port(), other.nodes()[0].address.port());
    one.command("n1", &["SET", "k", "v"]).await.unwrap();
    assert_eq!(other.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
    let id = one.id().to_owned();
    drop(one);
    assert!(!one_dir.path().join("nodes").exists());
    assert!(running().unwrap().iter().all(|listed| listed.id != id));
    assert_eq!(other.command("n1", &["PING"]).await.unwrap(), "PONG");
}

/// One module of tests for each provisioner.
macro_rules! contract {
    ($name:ident, $needs:expr) => {
        mod $name {
            use super::*;

            async fn skipped(test: &str) -> bool {
                let test = format!("provisioner_contract {}::{test}", stringify!($name));
                lacks($needs, &test).await
            }

            #[tokio::test]
            async fn every_topology_comes_up_and_goes_down() {
                if !skipped("every_topology_comes_up_and_goes_down").await {
                    for kind in TopologyKind::REDIS {
                        comes_up_and_goes_down(stringify!($name), kind).await;
                    }
                }
            }

            #[tokio::test]
            async fn a_node_dies_sleeps_and_comes_back() {
                if !skipped("a_node_dies_sleeps_and_comes_back").await {
                    super::a_node_dies_sleeps_and_comes_back(stringify!($name)).await;
                }
            }

            #[tokio::test]
            async fn a_start_that_fails_says_why() {
                if !skipped("a_start_that_fails_says_why").await {
                    super::a_start_that_fails_says_why(stringify!($name)).await;
                }
            }

            #[tokio::test]
            async fn two_share_nothing() {
                if !skipped("two_share_nothing").await {
                    super::two_share_nothing(stringify!($name)).await;
                }
            }
        }
    };
}

contract!(process, Needs::Nothing);
contract!(valkey, Needs::Valkey);
contract!(host, Needs::Engine);

/// What a machine may lack.
enum Needs {
    Nothing,
    Valkey,
    Engine,
}

/// Whether this machine lacks it; then says so in the form that `.ci/run` counts.
async fn lacks(needs: Needs, test: &str) -> bool {
    match needs {
        Needs::Nothing => false,
        Needs::Engine => !engine::answers(test).await,
        Needs::Valkey => match Server::find("valkey") {
            Ok(_) => false,
            Err(error) => {
                assert!(error.to_string().contains("LOCKLAB_VALKEY_SERVER"), "{error}");
                let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
                true
            }
        },
    }
}

/// Servers that the test started, seen as somebody else's.
mod external {
    use super::*;

    fn target(theirs: &Deployment) -> ExternalTarget {
        let kind = theirs.topology().kind;
        let named = |role| {
            let nodes = theirs.nodes().iter().filter(move |node| node.role == role);
            nodes.map(|node| node.address).collect()
        };
        ExternalTarget {
            socket: None,
            kind,
            addresses: named(match kind {
                TopologyKind::Sentinel => Role::Sentinel,
                _ => Role::Master,
            }),
            master_name: match kind {
                TopologyKind::Sentinel => "locklab".to_owned(),
                _ => String::new(),
            },
            tls: None,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: 0,
            writer: None,
        }
    }

    /// Theirs, and the same as an external deployment whose keys begin with `mine:`.
    async fn found(kind: TopologyKind, links: Links) -> (Deployment, Deployment, [TempDir; 2]) {
        let (theirs, their_dir) = up("process", &topology("process", kind)).await;
        let urls = (theirs.url(), theirs.shown_url().to_owned());
        let external = External::find(target(&theirs), urls, false).await.unwrap();
        let dir = scratch();
        let options = UpOptions { links, ..UpOptions::new(dir.path()) };
        let asked = external.topology().clone();
        let external = external.for_run("mine:");
        let seen = external.up(&asked, &options).await.unwrap();
        (theirs, seen, [their_dir, dir])
    }

    #[tokio::test]
    async fn every_topology_is_recognised_and_outlives_its_guests() {
        for kind in TopologyKind::REDIS {
            let (theirs, seen, _dirs) = found(kind, Links::Direct).await;
            assert_eq!(seen.url(), theirs.url());
            assert_eq!(seen.server_version(), theirs.server_version());
            let shape = |lab: &Deployment| {
                let mut nodes: Vec<_> = lab.nodes().iter().map(|node| (node.role, node.address)).collect();
                nodes.sort();
                nodes
            };
            assert_eq!(shape(&seen), shape(&theirs), "{kind}");
            assert_eq!(masters(&seen).await.len(), masters(&theirs).await.len());

            theirs.command("n1", &["CONFIG", "RESETSTAT"]).await.unwrap();
            assert!(seen.probe("orders", PATIENCE).await, "{kind}");
            seen.down().await.unwrap();
            for node in theirs.nodes() {
                let name = node.name.as_str();
                assert_eq!(theirs.command(name, &["PING"]).await.unwrap(), "PONG");
                if node.role == Role::Sentinel {
                    continue;
                }
                let keys = theirs.command(name, &["KEYS", "*"]).await.unwrap();
                assert!(keys.lines().all(|key| key.starts_with("mine:")), "{kind}: {keys}");
                let stats = theirs.command(name, &["INFO", "commandstats"]).await.unwrap();
                for unwanted in ["flush", "config|set", "shutdown", "debug"] {
                    assert!(!stats.contains(&format!("cmdstat_{unwanted}")), "{stats}");
                }
            }
            theirs.down().await.unwrap();
        }
    }

    #[tokio::test]
    async fn nobody_is_started_or_stopped_and_links_of_clients_can_be_cut() {
        let (theirs, seen, _dirs) = found(TopologyKind::Masters, Links::Proxied).await;
        let refusals =
            [seen.kill("n1").await, seen.pause("n1"), seen.resume("n1"), seen.start("n1", Data::Keep).await];
        for refusal in refusals {
            let message = refusal.unwrap_err().to_string();
            assert!(message.contains("somebody else's server"), "{message}");
        }
        assert_ne!(seen.url(), theirs.url());
        let cut =
            seen.links().unwrap().apply(&Party::Client(0), &Party::Node("n2".to_owned()), LinkFault::Cut);
        let mut client = Wire::to(seen.nodes()[1].announced).await;
        client.send("PING").await;
        assert!(client.is_silent().await);
        assert_eq!(theirs.command("n2", &["PING"]).await.unwrap(), "PONG");
        cut.heal();
        client.expect("+PONG\r\n").await;
        seen.down().await.unwrap();
        theirs.down().await.unwrap();
    }

    #[tokio::test]
    async fn servers_that_are_not_there_are_named() {
        let (theirs, _dir) = up("process", &topology("process", TopologyKind::Masters)).await;
        let target = target(&theirs);
        let urls = (theirs.url(), theirs.shown_url().to_owned());
        theirs.kill("n3").await.unwrap();
        let dead = theirs.nodes()[2].address.to_string();
        let error = External::find(target, urls, false).await.unwrap_err();
        assert!(matches!(error, ClusterError::Missing(_)) && error.to_string().contains(&dead), "{error}");
        theirs.down().await.unwrap();
    }
}
