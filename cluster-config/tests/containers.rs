//! What is special about containers: they outlive nobody, links are harmed as those of processes are, and
//! wishes that cannot be met are refused.
#![cfg(feature = "containers")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster_config::{
    ClusterError, Container, LinkFault, Links, Party, Provisioner, ProvisionerKind, Topology, TopologyKind,
    UpOptions, down_by_id, running, sweep,
};
use support::{engine, eventually, scratch};

/// After this long nothing of a killed owner may be left.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// What an owner process is told, by its environment.
const DIR: &str = "CONTAINERS_TEST_DIR";
const KIND: &str = "CONTAINERS_TEST_KIND";
const DETACH: &str = "CONTAINERS_TEST_DETACH";

fn installed(kind: TopologyKind) -> Topology {
    let mut topology = Topology::of(kind);
    let server = cluster_config::Server::find("redis").unwrap().path;
    topology.server = server.to_string_lossy().into_owned();
    topology
}

/// Brings containers up in a process of its own, says so, and stays; or leaves at once, if they are detached.
#[tokio::test]
#[ignore = "the other tests start this as a process that owns containers"]
async fn owner() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let kind: TopologyKind = std::env::var(KIND).unwrap().parse().unwrap();
    let options = UpOptions {
        detach: std::env::var_os(DETACH).is_some(),
        ready_timeout: Duration::from_secs(90),
        ..UpOptions::new(PathBuf::from(dir))
    };
    let deployment = Container.up(&installed(kind), &options).await.unwrap();
    fs::write(deployment.dir().join("up"), deployment.id()).unwrap();
    if options.detach {
        deployment.leave();
    } else {
        std::future::pending::<()>().await;
    }
}

fn start_owner(dir: &Path, kind: TopologyKind, detach: bool) -> Owner {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "owner", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(KIND, kind.name())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if detach {
        command.env(DETACH, "1");
    }
    Owner(command.spawn().unwrap())
}

/// Killed when dropped.
struct Owner(Child);

impl Owner {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The containers that a process started.
async fn containers_of(pid: u32) -> Vec<String> {
    let mark = format!("{pid}:");
    engine::containers(|labels| labels.get("locklab.owner").is_some_and(|owner| owner.starts_with(&mark)))
        .await
}

async fn exists(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| !text.is_empty())
}

#[tokio::test]
async fn no_container_outlives_an_owner_that_is_killed_at_any_moment() {
    if !engine::answers("containers no_container_outlives_an_owner").await {
        return;
    }
    // Moments of the start, whichever steps they hit on this machine, and one when all is up.
    let moments = [40, 200, 450, 800, 1300].map(|ms| Some(Duration::from_millis(ms)));
    for (turn, moment) in moments.into_iter().chain([None]).enumerate() {
        let kind = [TopologyKind::Masters, TopologyKind::Sentinel][turn % 2];
        let dir = scratch();
        let mut owner = start_owner(dir.path(), kind, false);
        let pid = owner.0.id();
        match moment {
            Some(moment) => tokio::time::sleep(moment).await,
            None => {
                let up = dir.path().join("up");
                eventually("the owner's containers are up", async || exists(&up).await).await;
                assert_eq!(containers_of(pid).await.len(), 6);
            }
        }
        owner.kill();
        let killed = Instant::now();
        // Late ones count too: a request to create that was under way is obeyed after the death.
        while killed.elapsed() < GONE_WITHIN {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let gone = async || containers_of(pid).await.is_empty();
        eventually(&format!("killed at {moment:?}, none is left"), gone).await;
        sweep().unwrap();
        assert!(!dir.path().join("nodes").exists(), "killed at {moment:?}");
    }
}

#[tokio::test]
async fn detached_containers_survive_their_owner_and_end_by_id() {
    if !engine::answers("containers detached_containers_survive").await {
        return;
    }
    let dir = scratch();
    let mut owner = start_owner(dir.path(), TopologyKind::Single, true);
    assert!(owner.0.wait().unwrap().success());
    let id = fs::read_to_string(dir.path().join("up")).unwrap();
    sweep().unwrap();
    let listed = running().unwrap();
    let listed = listed.iter().find(|listed| listed.id == id).unwrap();
    assert_eq!(listed.provisioner, ProvisionerKind::Container);
    assert!(listed.image.as_ref().unwrap().starts_with("locklab-server:"));
    assert_eq!(engine::of(&id).await.len(), 1);
    down_by_id(&id).unwrap();
    assert_eq!(engine::of(&id).await, [""; 0]);
    assert!(!dir.path().join("nodes").exists());
}

#[tokio::test]
async fn links_between_containers_are_cut_and_healed_as_those_of_processes() {
    if !engine::answers("containers links_between_containers").await {
        return;
    }
    let dir = scratch();
    let options = UpOptions {
        links: Links::Proxied,
        ready_timeout: Duration::from_secs(90),
        ..UpOptions::new(dir.path())
    };
    let lab = Container.up(&installed(TopologyKind::Sentinel), &options).await.unwrap();
    let node = |name: &str| Party::Node(name.to_owned());
    let write: [&[&str]; 2] = [&["SET", "k", "v"], &["WAIT", "2", "300"]];
    let guard = lab.links().unwrap().apply(&node("n2"), &node("n1"), LinkFault::Cut);
    let answers = lab.commands("n1", &write, Duration::from_secs(20)).await.unwrap();
    assert_eq!(answers, ["OK", "1"], "the acknowledgements of n2 are held");
    drop(guard);
    eventually("both replicas acknowledge again", async || {
        let answers = lab.commands("n1", &write, Duration::from_secs(20)).await;
        answers.is_ok_and(|answers| answers == ["OK", "2"])
    })
    .await;
    lab.down().await.unwrap();
}

#[tokio::test]
async fn an_image_that_nobody_has_is_named_with_the_remedy() {
    if !engine::answers("containers an_image_that_nobody_has").await {
        return;
    }
    let dir = scratch();
    let mut topology = installed(TopologyKind::Single);
    // A registry on a port of this machine where nobody listens: refused at once, and nobody else is asked.
    topology.image = Some("127.0.0.1:1/nobody/has-this".to_owned());
    let error = Container.up(&topology, &UpOptions::new(dir.path())).await.unwrap_err();
    assert!(matches!(error, ClusterError::Missing(_)));
    assert!(error.to_string().contains("127.0.0.1:1/nobody/has-this:latest"), "{error}");
    assert!(error.to_string().contains("docker load"), "{error}");
}
