//! Servers of other systems: each starts, dies, sleeps and comes back; ensembles have a leader, and another
//! when it is lost.

mod support;

use std::cell::OnceCell;
use std::io::Write as _;

use cluster_config::{
    ClusterError, Data, LinkFault, Links, Party, Process, Provisioner, ProvisionerKind, Role, Server,
    Topology, TopologyKind, UpOptions, running,
};
use support::{Lab, PATIENCE, eventually, masters, scratch};

/// The servers, or nothing where their program is not on this machine: then that is said in the form that
/// `.ci/run` counts.
async fn up(kind: TopologyKind, links: Links, test: &str) -> Option<Lab> {
    up_topology(&Topology::of(kind), links, test).await
}

async fn up_topology(topology: &Topology, links: Links, test: &str) -> Option<Lab> {
    let kind = topology.kind;
    let dir = scratch();
    let options = UpOptions { links, ..UpOptions::new(dir.path()) };
    let provisioner: &dyn Provisioner = match topology.provisioner {
        #[cfg(feature = "containers")]
        ProvisionerKind::Container => &cluster_config::Container,
        _ => &Process,
    };
    match provisioner.up(topology, &options).await {
        Ok(deployment) => Some(Lab::of(deployment, dir)),
        Err(error @ ClusterError::Missing(_)) => {
            assert!(error.to_string().contains("make setup-baselines"), "{error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED baselines {kind}, {test}: {error}");
            None
        }
        Err(error) => panic!("{kind}: {error}"),
    }
}

async fn comes_up_dies_sleeps_and_comes_back(kind: TopologyKind, url: &str) {
    serves_and_comes_back(&Topology::of(kind), url).await;
}

async fn serves_and_comes_back(topology: &Topology, url: &str) {
    let test = "comes_up_dies_sleeps_and_comes_back";
    let Some(lab) = up_topology(topology, Links::Direct, test).await else {
        return;
    };
    let nodes = lab.nodes().len();
    let address = lab.nodes()[0].address.to_string();
    assert_eq!(lab.url().split(',').next().unwrap(), url.replace("ADDRESS", &address));
    assert!(lab.server_version().contains('.'), "{}", lab.server_version());
    assert_eq!(lab.roles().await.len(), nodes);
    assert_eq!(masters(&lab).await.len(), 1);
    assert!(lab.probe("orders", PATIENCE).await);

    // Every process of a server that is paused is.
    lab.pause("n1").unwrap();
    assert_eq!(lab.process_state("n1"), Some('T'));
    assert!(!lab.roles().await.contains_key("n1"));
    lab.resume("n1").unwrap();
    eventually("n1 serves", async || lab.roles().await.contains_key("n1")).await;

    // All of them are lost and come back one by one: the first have nobody to serve with.
    for node in lab.nodes() {
        lab.kill(&node.name).await.unwrap();
    }
    assert!(lab.roles().await.is_empty() && !lab.probe("orders", PATIENCE / 20).await);
    for node in lab.nodes() {
        lab.start(&node.name, Data::Keep).await.unwrap();
    }
    eventually("all serve", async || lab.roles().await.len() == nodes).await;
    assert!(lab.probe("orders", PATIENCE).await);

    let listed = running().unwrap().into_iter();
    let listed = listed.filter(|running| running.id == lab.id());
    let processes: Vec<_> = listed.flat_map(|running| running.nodes).collect();
    assert_eq!(processes.len(), nodes);
    drop(lab);
    for node in processes {
        assert!(!node.process.unwrap().is_alive(), "{}", node.name);
    }
}

/// The node that leads. One that is asked while it is busy may be slow to say so.
async fn wait_for_leader(lab: &Lab) -> String {
    let known = OnceCell::new();
    let leads = async || masters(lab).await.pop().is_some_and(|leader| known.set(leader).is_ok());
    eventually("one leads", leads).await;
    known.into_inner().expect("it was set")
}

/// Behind proxies, where a leader that is cut off must neither lead on nor come back by a way past them.
async fn a_leader_that_is_lost_is_replaced(kind: TopologyKind) {
    let Some(lab) = up(kind, Links::Proxied, "a_leader_that_is_lost_is_replaced").await else {
        return;
    };
    let leader = async || masters(&lab).await.pop();
    let first = wait_for_leader(&lab).await;
    lab.kill(&first).await.unwrap();
    // One that leads may still be telling its followers, and answers nobody meanwhile.
    eventually("another leads and serves", async || {
        leader().await.is_some() && lab.probe("orders", PATIENCE).await
    })
    .await;
    lab.start(&first, Data::Keep).await.unwrap();
    eventually("the old one follows", async || lab.roles().await.get(&first) == Some(&Role::Replica)).await;

    let second = wait_for_leader(&lab).await;
    let party = |name: &str| Party::Node(name.to_owned());
    let others = lab.nodes().iter().filter(|node| node.name != second);
    let links: Vec<(Party, Party)> = others
        .flat_map(|node| {
            let ends = (party(&node.name), party(&second));
            [ends.clone(), (ends.1, ends.0)]
        })
        .collect();
    let cut = lab.apply(&links, &LinkFault::Cut).unwrap();
    eventually("another than the cut one leads", async || {
        leader().await.is_some_and(|leader| leader != second)
    })
    .await;
    eventually("the cut one serves nobody", async || !lab.roles().await.contains_key(&second)).await;
    eventually("the others serve", async || lab.probe("orders", PATIENCE).await).await;
    drop(cut);
    eventually("the cut one follows", async || lab.roles().await.get(&second) == Some(&Role::Replica)).await;
}

#[tokio::test]
async fn etcd_comes_up_dies_sleeps_and_comes_back() {
    comes_up_dies_sleeps_and_comes_back(TopologyKind::Etcd, "etcd://ADDRESS").await;
    comes_up_dies_sleeps_and_comes_back(TopologyKind::Etcd3, "etcd://ADDRESS").await;
}

#[tokio::test]
async fn zookeeper_comes_up_dies_sleeps_and_comes_back() {
    comes_up_dies_sleeps_and_comes_back(TopologyKind::ZooKeeper, "zookeeper://ADDRESS").await;
    comes_up_dies_sleeps_and_comes_back(TopologyKind::ZooKeeper3, "zookeeper://ADDRESS").await;
}

#[tokio::test]
async fn mysql_comes_up_dies_sleeps_and_comes_back() {
    let url = "mysql://root@ADDRESS/locklab";
    comes_up_dies_sleeps_and_comes_back(TopologyKind::Mysql, url).await;
}

#[tokio::test]
async fn postgres_comes_up_dies_sleeps_and_comes_back() {
    let url = "postgres://postgres@ADDRESS/locklab";
    comes_up_dies_sleeps_and_comes_back(TopologyKind::Postgres, url).await;
}

/// In containers of what is installed: its path says so, and no registry is asked.
#[cfg(feature = "containers")]
async fn serves_in_containers(kind: TopologyKind, url: &str) {
    let test = format!("baselines {kind} in containers");
    if !support::engine::answers(&test).await {
        return;
    }
    let mut topology = Topology::of(kind);
    match Server::of(&topology) {
        Ok(server) => topology.server = server.path.to_string_lossy().into_owned(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
            return;
        }
    }
    topology.provisioner = ProvisionerKind::Container;
    serves_and_comes_back(&topology, url).await;
}

#[cfg(feature = "containers")]
#[tokio::test]
async fn etcd_and_zookeeper_serve_in_containers() {
    serves_in_containers(TopologyKind::Etcd3, "etcd://ADDRESS").await;
    serves_in_containers(TopologyKind::ZooKeeper3, "zookeeper://ADDRESS").await;
}

#[cfg(feature = "containers")]
#[tokio::test]
async fn databases_serve_in_containers() {
    serves_in_containers(TopologyKind::Mysql, "mysql://root@ADDRESS/locklab").await;
    let url = "postgres://postgres@ADDRESS/locklab";
    serves_in_containers(TopologyKind::Postgres, url).await;
}

#[tokio::test]
async fn etcd_replaces_a_leader_that_is_lost() {
    a_leader_that_is_lost_is_replaced(TopologyKind::Etcd3).await;
}

#[tokio::test]
async fn zookeeper_replaces_a_leader_that_is_lost() {
    a_leader_that_is_lost_is_replaced(TopologyKind::ZooKeeper3).await;
}

#[tokio::test]
async fn what_is_for_redis_is_refused_and_own_settings_reach_the_server() {
    let mut topology = Topology::of(TopologyKind::Etcd3);
    topology.tls = true;
    topology.acl = true;
    let message = topology.validate().unwrap_err().to_string();
    assert_eq!(message.lines().count(), 2, "{message}");
    let mut topology = Topology::of(TopologyKind::Etcd);
    let own = ("heartbeat-interval".to_owned(), "50".to_owned());
    topology.config.extend([own]);
    let Some(lab) = up_topology(&topology, Links::Direct, "own_settings").await else {
        return;
    };
    let started = format!("/proc/{}/cmdline", lab.pid("n1").unwrap());
    let started = std::fs::read_to_string(started).unwrap();
    assert!(started.contains("--heartbeat-interval=50"), "{started}");
}
