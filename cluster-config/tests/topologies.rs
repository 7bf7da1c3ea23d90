//! Each topology comes up, is ready when `up` returns, and says where it is.

mod support;

use cluster_config::{Links, Topology, TopologyKind};
use support::{PATIENCE, lab, lab_of, masters};

#[tokio::test]
async fn a_single_server_comes_up_and_takes_writes() {
    let lab = lab_of(TopologyKind::Single, Links::Direct).await;
    assert_eq!(lab.url(), format!("redis://{}/0", lab.nodes()[0].announced));
    assert_eq!(lab.command("n1", &["SET", "k", "v"]).await.unwrap(), "OK");
    assert_eq!(lab.command("n1", &["GET", "k"]).await.unwrap(), "v");
    assert!(lab.probe("orders", PATIENCE).await);
}

#[tokio::test]
async fn five_masters_know_nothing_of_each_other() {
    let lab = lab_of(TopologyKind::Masters, Links::Direct).await;
    assert!(lab.url().starts_with("redlock://127.0.0.11:"));
    assert_eq!(masters(&lab).await, ["n1", "n2", "n3", "n4", "n5"]);
    for node in lab.nodes() {
        let info = lab.command(&node.name, &["INFO", "replication"]).await.unwrap();
        assert!(info.contains("connected_slaves:0"), "{info}");
    }
    assert!(lab.probe("orders", PATIENCE).await);
}

#[tokio::test]
async fn sentinels_agree_on_the_master_when_up_returns() {
    let lab = lab_of(TopologyKind::Sentinel, Links::Direct).await;
    assert!(lab.url().ends_with("/locklab"), "{}", lab.url());
    assert_eq!(masters(&lab).await, ["n1"]);
    let master = lab.nodes()[0].announced;
    for sentinel in ["s1", "s2", "s3"] {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locklab"];
        let answer = lab.command(sentinel, &ask).await.unwrap();
        assert_eq!(answer, format!("{}\n{}", master.ip(), master.port()));
    }
    let write: [&[&str]; 2] = [&["SET", "k", "v"], &["WAIT", "2", "5000"]];
    let answers = lab.commands("n1", &write, PATIENCE).await.unwrap();
    assert_eq!(answers, ["OK", "2"]);
    assert!(lab.probe("orders", PATIENCE).await);
}

#[tokio::test]
async fn every_member_of_a_cluster_serves_all_slots_when_up_returns() {
    let lab = lab_of(TopologyKind::Cluster, Links::Direct).await;
    assert_eq!(lab.url().matches(':').count(), 1 + 6, "{}", lab.url());
    assert_eq!(masters(&lab).await, ["n1", "n2", "n3"]);
    for node in lab.nodes() {
        let info = lab.command(&node.name, &["CLUSTER", "INFO"]).await.unwrap();
        assert!(info.contains("cluster_state:ok"), "{info}");
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
    // One name per master's share of the slots, one with a tag, one whose brace is no tag.
    for lock in ["orders", "a", "b", "c", "{tag}x", "a}b"] {
        assert!(lab.probe(lock, PATIENCE).await, "{lock}");
    }
}

/// As many that each node's address, links and pace are those of a large cluster, and few enough for a
/// machine that is busy.
#[tokio::test]
async fn a_cluster_of_thirty_two_nodes_behind_proxies_knows_itself_and_serves() {
    let mut topology = Topology::of(TopologyKind::Cluster);
    topology.shards = 16;
    let lab = lab(&topology, Links::Proxied).await;
    assert_eq!(masters(&lab).await.len(), 16);
    let info = lab.command("n32", &["CLUSTER", "INFO"]).await.unwrap();
    assert!(info.contains("cluster_known_nodes:32"), "{info}");
    // Who is whose replica was written down before anything started.
    let nodes = lab.command("n1", &["CLUSTER", "NODES"]).await.unwrap();
    let of = |at: usize| {
        let address = format!(" {}@", lab.nodes()[at].announced);
        let line = nodes.lines().find(|line| line.contains(&address)).unwrap();
        line.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    for master in 0..16 {
        assert_eq!(of(16 + master)[3], of(master)[0], "{nodes}");
    }
    for lock in ["orders", "a", "b", "c", "{tag}x", "a}b"] {
        assert!(lab.probe(lock, PATIENCE).await, "{lock}");
    }
}
