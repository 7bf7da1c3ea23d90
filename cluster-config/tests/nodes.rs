//! What can be done to one node, and what a start says that cannot succeed.

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use cluster_config::{
    ClusterError, Data, Links, Process, Provisioner, Server, Topology, TopologyKind, UpOptions,
};
use support::{PATIENCE, eventually, lab, lab_of, scratch};

async fn up_fails(topology: &Topology, port: Option<u16>) -> ClusterError {
    let dir = scratch();
    let options = UpOptions { port, ..UpOptions::new(dir.path()) };
    Process.up(topology, &options).await.unwrap_err()
}

#[tokio::test]
async fn a_restart_keeps_what_was_written_to_disk_or_loses_it_on_request() {
    let mut topology = Topology::of(TopologyKind::Single);
    topology.config.insert("appendonly".into(), "yes".into());
    topology.config.insert("appendfsync".into(), "always".into());
    let lab = lab(&topology, Links::Direct).await;
    lab.command("n1", &["SET", "k", "v"]).await.unwrap();

    lab.kill("n1").await.unwrap();
    lab.start("n1", Data::Keep).await.unwrap();
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "v");

    lab.kill("n1").await.unwrap();
    lab.start("n1", Data::Lose).await.unwrap();
    assert_eq!(lab.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
}

#[tokio::test]
async fn without_persistence_a_restart_loses_everything() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    lab.command("n1", &["SET", "k", "v"]).await.unwrap();
    lab.kill("n1").await.unwrap();
    lab.start("n1", Data::Keep).await.unwrap();
    assert_eq!(lab.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_cluster_member_that_lost_its_disk_is_still_a_member() {
    let lab = lab_of(TopologyKind::Cluster, Links::Direct).await;
    lab.kill("n4").await.unwrap();
    lab.start("n4", Data::Lose).await.unwrap();
    eventually("n4 knows the cluster again", async || {
        let info = lab.command("n4", &["CLUSTER", "INFO"]).await;
        info.is_ok_and(|info| info.contains("cluster_known_nodes:6") && info.contains("cluster_state:ok"))
    })
    .await;
}

#[tokio::test]
async fn a_paused_node_is_silent_and_answers_again_when_resumed() {
    let lab = lab_of(TopologyKind::Masters, Links::Direct).await;
    lab.pause("n2").unwrap();
    assert_eq!(lab.process_state("n2"), Some('T'));
    // Roles are asked with a bound of their own: a paused node is absent and holds nobody up.
    let roles = lab.roles().await;
    assert_eq!(roles.len(), 4);
    assert!(!roles.contains_key("n2"));
    let error = lab.command("n2", &["PING"]).await.unwrap_err();
    assert!(!matches!(error, ClusterError::Refused(_)), "{error}");
    lab.resume("n2").unwrap();
    eventually("n2 answers", async || lab.command("n2", &["PING"]).await.is_ok()).await;
    assert_eq!(lab.roles().await.len(), 5);
}

#[tokio::test]
async fn a_paused_node_can_be_killed() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    lab.pause("n1").unwrap();
    lab.kill("n1").await.unwrap();
    assert_eq!((lab.pid("n1"), lab.process_state("n1")), (None, None));
    assert!(!lab.probe("orders", Duration::from_millis(200)).await);
}

#[tokio::test]
async fn what_does_not_fit_a_nodes_state_is_an_error() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    let message = lab.start("n1", Data::Keep).await.unwrap_err().to_string();
    assert!(message.contains("running already"), "{message}");
    lab.kill("n1").await.unwrap();
    let error = lab.command("n1", &["PING"]).await.unwrap_err();
    assert!(matches!(error, ClusterError::Refused(_)), "{error}");
    assert!(lab.kill("n1").await.is_err());
    assert!(lab.pause("n1").is_err());
    let message = lab.kill("n9").await.unwrap_err().to_string();
    assert!(message.contains("nodes are n1"), "{message}");
}

#[tokio::test]
async fn own_configuration_lines_reach_every_data_node() {
    let mut topology = Topology::of(TopologyKind::Sentinel);
    topology.config.insert("min-replicas-to-write".into(), "1".into());
    let lab = lab(&topology, Links::Direct).await;
    for node in ["n1", "n2", "n3"] {
        let ask = ["CONFIG", "GET", "min-replicas-to-write"];
        let answer = lab.command(node, &ask).await.unwrap();
        assert_eq!(answer, "min-replicas-to-write\n1");
    }
}

#[tokio::test]
async fn a_wished_port_is_used_and_one_in_use_is_named_with_the_remedy() {
    let free = lab_of(TopologyKind::Single, Links::Direct).await.nodes()[0].address.port();
    let _somebody = TcpListener::bind(("127.0.0.11", free)).unwrap();
    let error = up_fails(&Topology::of(TopologyKind::Single), Some(free)).await;
    assert!(error.to_string().contains(&format!("port {free} is in use")), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.11:{free}")), "{error}");
    assert!(error.to_string().contains("give another port"), "{error}");
    assert!(!matches!(error, ClusterError::Missing(_)));
}

#[tokio::test]
async fn two_deployments_at_once_share_no_port_and_the_end_of_one_frees_its_ports() {
    let single = Topology::of(TopologyKind::Single);
    let first = lab(&single, Links::Direct).await;
    let port = first.nodes()[0].address.port();
    // The second wish overlaps: a layout takes the ports behind its first one too.
    for wish in [port, port - 1] {
        let error = up_fails(&single, Some(wish)).await.to_string();
        assert!(error.contains(&format!("port {wish} is in use by another deployment")), "{error}");
    }
    drop(first);
    let dir = scratch();
    let options = UpOptions { port: Some(port), ..UpOptions::new(dir.path()) };
    Process.up(&single, &options).await.unwrap().down().await.unwrap();
}

#[tokio::test]
async fn a_port_that_leaves_no_room_for_those_after_it_is_nobodys_to_have() {
    for port in [0, u16::MAX - 1, u16::MAX] {
        let error = up_fails(&Topology::of(TopologyKind::Single), Some(port)).await;
        assert!(matches!(error, ClusterError::Invalid(_)), "{error}");
    }
}

#[tokio::test]
async fn a_missing_binary_is_told_apart_from_other_failures() {
    let mut topology = Topology::of(TopologyKind::Single);
    topology.server = "/nowhere/redis-server".into();
    let error = up_fails(&topology, None).await;
    assert!(matches!(error, ClusterError::Missing(_)), "{error}");
}

#[tokio::test]
async fn a_bad_configuration_line_shows_the_end_of_the_log_and_leaves_nothing() {
    let mut topology = Topology::of(TopologyKind::Masters);
    topology.config.insert("maxmemory".into(), "plenty".into());
    let dir = scratch();
    let error = Process.up(&topology, &UpOptions::new(dir.path())).await.unwrap_err();
    assert!(error.to_string().contains("maxmemory plenty"), "{error}");
    assert!(error.to_string().contains("remedy:"), "{error}");
    assert!(!matches!(error, ClusterError::Missing(_)));
    assert!(dir.path().join("logs/n1.log").exists());
    assert!(!dir.path().join("nodes").exists());
}

#[tokio::test]
async fn time_that_is_too_short_is_said_and_leaves_nothing() {
    let dir = scratch();
    let options = UpOptions {
        // The slots of a new cluster are served after two seconds at the earliest, whatever the machine.
        ready_timeout: Duration::from_millis(300),
        ..UpOptions::new(dir.path())
    };
    let topology = Topology::of(TopologyKind::Cluster);
    let error = Process.up(&topology, &options).await.unwrap_err();
    assert!(error.to_string().contains("was not ready within 300ms"), "{error}");
    assert!(!dir.path().join("nodes").exists());
}

#[tokio::test]
async fn down_ends_every_server_and_keeps_the_logs() {
    let dir = scratch();
    let topology = Topology::of(TopologyKind::Masters);
    let deployment = Process.up(&topology, &UpOptions::new(dir.path())).await.unwrap();
    // A paused server does not hold up the end.
    deployment.pause("n3").unwrap();
    let pids: Vec<u32> = deployment.nodes().iter().map(|node| deployment.pid(&node.name).unwrap()).collect();
    let started = Instant::now();
    deployment.down().await.unwrap();
    assert!(started.elapsed() < PATIENCE);
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    assert!(dir.path().join("logs/n5.log").exists());
    assert!(!dir.path().join("nodes").exists());
}

#[tokio::test]
async fn two_deployments_at_once_share_nothing() {
    let (one, other) = tokio::join!(
        lab_of(TopologyKind::Masters, Links::Direct),
        lab_of(TopologyKind::Masters, Links::Direct)
    );
    assert_ne!(one.id(), other.id());
    assert_ne!(one.dir(), other.dir());
    for (a, b) in one.nodes().iter().zip(other.nodes()) {
        assert_ne!(a.address.port(), b.address.port());
    }
    one.command("n1", &["SET", "k", "v"]).await.unwrap();
    assert_eq!(other.command("n1", &["EXISTS", "k"]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    let topology = Topology::of(TopologyKind::Single);
    let error = Process.up(&topology, &UpOptions::new(lab.dir())).await.unwrap_err();
    assert!(error.to_string().contains("give another directory"), "{error}");
    assert_eq!(lab.command("n1", &["PING"]).await.unwrap(), "PONG");
}

#[test]
fn a_version_finds_the_installed_server_and_an_absent_one_says_what_there_is() {
    let usual = Server::find("redis").unwrap();
    let found = Server::find(&format!("redis-{}", usual.version)).unwrap();
    assert_eq!((found.flavour, found.version), (usual.flavour.clone(), usual.version.clone()));
    let error = Server::find("redis-7.999").unwrap_err();
    assert!(matches!(error, ClusterError::Missing(_)), "{error}");
    assert!(error.to_string().contains(&format!("redis-{}", usual.version)), "{error}");
}

#[test]
fn what_is_no_server_counts_as_missing_and_is_named() {
    for path in ["/nowhere/redis-server", "/bin/true"] {
        let error = Server::find(path).unwrap_err();
        assert!(matches!(error, ClusterError::Missing(_)), "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn a_path_that_is_no_server_of_any_system_counts_as_missing_and_is_named() {
    for kind in TopologyKind::ALL {
        let topology = Topology { server: "/nowhere/server".to_owned(), ..Topology::of(kind) };
        let error = Server::of(&topology).unwrap_err();
        assert!(matches!(error, ClusterError::Missing(_)), "{kind}: {error}");
        assert!(error.to_string().contains("/nowhere/server"), "{kind}: {error}");
    }
}
