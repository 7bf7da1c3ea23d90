//! A killed master is replaced, with direct links and with proxied ones, and the probe follows.

mod support;

use cluster_config::{Data, Links, Role, TopologyKind};
use support::{PATIENCE, eventually, lab_of, masters};

async fn a_replica_takes_over(kind: TopologyKind, links: Links, lock: &str) {
    let lab = lab_of(kind, links).await;
    let before = masters(&lab).await;
    assert!(lab.probe(lock, PATIENCE).await);
    lab.kill("n1").await.unwrap();
    assert_eq!(lab.pid("n1"), None);
    eventually("a replica is promoted", async || {
        let now = masters(&lab).await;
        now.len() == before.len() && !now.contains(&"n1".to_owned())
    })
    .await;
    eventually("the lock's servers take writes again", async || lab.probe(lock, PATIENCE / 10).await).await;
    lab.start("n1", Data::Keep).await.unwrap();
    eventually("the old master has become a replica", async || {
        lab.roles().await.get("n1") == Some(&Role::Replica)
    })
    .await;
}

// "orders" lies in slot 105, which is n1's.
#[tokio::test]
async fn sentinels_promote_a_replica() {
    a_replica_takes_over(TopologyKind::Sentinel, Links::Direct, "orders").await;
}

#[tokio::test]
async fn sentinels_promote_a_replica_behind_proxies() {
    a_replica_takes_over(TopologyKind::Sentinel, Links::Proxied, "orders").await;
}

#[tokio::test]
async fn a_cluster_promotes_a_replica() {
    a_replica_takes_over(TopologyKind::Cluster, Links::Direct, "orders").await;
}

#[tokio::test]
async fn a_cluster_promotes_a_replica_behind_proxies() {
    a_replica_takes_over(TopologyKind::Cluster, Links::Proxied, "orders").await;
}

#[tokio::test]
async fn a_probe_needs_a_majority_of_independent_masters() {
    let lab = lab_of(TopologyKind::Masters, Links::Direct).await;
    for node in ["n1", "n2"] {
        lab.kill(node).await.unwrap();
        assert!(lab.probe("orders", PATIENCE).await, "a majority lives after {node}");
    }
    lab.kill("n3").await.unwrap();
    assert!(!lab.probe("orders", PATIENCE / 10).await);
    lab.start("n3", Data::Lose).await.unwrap();
    assert!(lab.probe("orders", PATIENCE).await);
}
