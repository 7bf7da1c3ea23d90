//! Servers that speak TLS and ask for passwords are as good as others, and nothing shows the password but the
//! URL.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use cluster_config::{Links, Process, Provisioner, Role, Server, Topology, TopologyKind, UpOptions, running};
use support::{Lab, eventually, lab, masters, scratch};

fn guarded(kind: TopologyKind) -> Topology {
    let mut topology = Topology::of(kind);
    topology.tls = true;
    topology.acl = true;
    topology
}

/// Says loudly that a test did nothing, and whether it did.
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
fn no_tls_here() -> bool {
    let tls = Server::find("redis").unwrap().has_tls();
    if !tls {
        eprintln!("SKIPPED: the installed redis-server was built without TLS");
    }
    !tls
}

fn password(lab: &Lab) -> String {
    let url = lab.url();
    let (_, rest) = url.split_once("://locklab:").unwrap();
    rest.split_once('@').unwrap().0.to_owned()
}

/// What redis-cli says when it talks to a node as a client of the URL would.
fn cli(lab: &Lab, node: usize, user: Option<(&str, &str)>, args: &[&str]) -> String {
    let node = &lab.nodes()[node];
    let mut command = Command::new("redis-cli");
    command.arg("-h").arg(node.announced.ip().to_string());
    command.arg("-p").arg(node.announced.port().to_string());
    if let Some((_, ca)) = lab.url().split_once("tls-ca=") {
        command.args(["--tls", "--cacert", ca]);
    }
    if let Some((user, password)) = user {
        command.args(["--user", user, "--no-auth-warning"]).env("REDISCLI_AUTH", password);
    }
    let output = command.args(args).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
}

#[tokio::test]
async fn every_topology_works_with_tls_and_passwords() {
    if no_tls_here() {
        return;
    }
    for kind in TopologyKind::REDIS {
        let lab = lab(&guarded(kind), Links::Direct).await;
        let roles = lab.roles().await;
        assert_eq!(roles.len() as u32, lab.topology().data_nodes(), "{kind}");
        assert!(lab.probe("orders", support::PATIENCE).await, "{kind}");
        let password = password(&lab);
        assert_eq!(cli(&lab, 0, Some(("locklab", &password)), &["PING"]), "PONG", "{kind}");
        let stranger = cli(&lab, 0, None, &["PING"]);
        assert!(stranger.contains("NOAUTH"), "{kind}: {stranger}");
    }
}

#[tokio::test]
async fn a_failover_happens_under_tls_and_passwords_through_proxies_too() {
    if no_tls_here() {
        return;
    }
    for kind in [TopologyKind::Sentinel, TopologyKind::Cluster] {
        let lab = lab(&guarded(kind), Links::Proxied).await;
        let password = password(&lab);
        assert_eq!(cli(&lab, 0, Some(("locklab", &password)), &["PING"]), "PONG", "{kind}");
        let before = lab.topology().count(Role::Master) as usize;
        lab.kill("n1").await.unwrap();
        eventually("a replica was promoted", async || {
            let masters = masters(&lab).await;
            masters.len() == before && !masters.contains(&"n1".to_owned())
        })
        .await;
    }
}

/// Everything that somebody else could read: files that are open to all, and what is listed.
fn open_files(dir: &Path, found: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        if entry.path().is_dir() {
            if mode & 0o077 != 0 {
                open_files(&entry.path(), found);
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            found.push(text);
        }
    }
}

#[tokio::test]
async fn the_password_is_in_the_url_and_nowhere_that_others_look() {
    let mut topology = Topology::of(TopologyKind::Sentinel);
    topology.acl = true;
    let lab = lab(&topology, Links::Direct).await;
    let password = password(&lab);
    let listed = running().unwrap();
    let listed = listed.iter().find(|listed| listed.id == lab.id()).unwrap();
    assert!(listed.url.contains("locklab:***@"), "{}", listed.url);
    assert!(!serde_json::to_string(listed).unwrap().contains(&password));
    assert!(!format!("{:?}", lab.deployment).contains(&password));
    assert!(!lab.shown_url().contains(&password));
    let url = lab.url();
    let (_, own) = url.split_once("?sentinel-password=").unwrap();
    assert!(own != password && !lab.shown_url().contains(own));
    let sentinel = lab.nodes().iter().position(|node| node.role == Role::Sentinel);
    let ping = |user| cli(&lab, sentinel.unwrap(), user, &["PING"]);
    assert_eq!(ping(Some(("default", own))), "PONG");
    assert!(ping(None).contains("NOAUTH"));
    assert!(ping(Some(("default", &password))).contains("WRONGPASS"));
    let mut texts = Vec::new();
    open_files(lab.dir(), &mut texts);
    assert!(!texts.is_empty(), "the logs are there");
    assert!(texts.iter().all(|text| !text.contains(&password)));
    for node in lab.nodes() {
        let pid = lab.pid(&node.name).unwrap();
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(&password), "{file}");
        }
    }
}

#[tokio::test]
async fn persistence_is_what_the_servers_run_with() {
    let text = "[topology]\nkind = \"sentinel\"\npersistence = \"aof-always\"\nmin-replicas-to-write = 1\n";
    let lab = lab(&Topology::parse("x.toml", text).unwrap(), Links::Direct).await;
    let config = async |node: &str, key: &str| lab.command(node, &["CONFIG", "GET", key]).await.unwrap();
    assert_eq!(config("n1", "appendfsync").await, "appendfsync\nalways");
    assert_eq!(config("n1", "min-replicas-to-write").await, "min-replicas-to-write\n1");
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_refused_with_the_excess() {
    if no_tls_here() {
        return;
    }
    let topology = Topology { tls: true, ..Topology::of(TopologyKind::Single) };
    let scratch = scratch();
    let dir = scratch.path().join("x".repeat(110));
    // The system takes 107 bytes.
    let excess = dir.join("nodes/n1/socket").as_os_str().len() - 107;
    let error = Process.up(&topology, &UpOptions::new(&dir)).await.unwrap_err().to_string();
    assert!(error.contains(&format!("shorter by {excess} bytes")), "{error}");
}
