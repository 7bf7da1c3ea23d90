//! What every test of running servers needs: a deployment in a temporary directory, and waiting for a
//! condition.
#![allow(dead_code, reason = "each test file uses a part")]

#[cfg(feature = "containers")]
pub(crate) mod engine;
pub(crate) mod toxiproxy;
pub(crate) mod wire;

use std::ops::Deref;
use std::time::{Duration, Instant};

use cluster_config::{Deployment, Links, Process, Provisioner, Role, Topology, TopologyKind, UpOptions};
use tempfile::TempDir;

/// Far beyond what anything here needs on a loaded machine, so that only a real hang fails by time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A deployment and the directory that goes with it.
#[derive(Debug)]
pub(crate) struct Lab {
    pub deployment: Deployment,
    // Dropped after the servers that write there.
    dir: TempDir,
}

impl Lab {
    pub(crate) fn of(deployment: Deployment, dir: TempDir) -> Lab {
        Lab { deployment, dir }
    }
}

impl Drop for Lab {
    /// Keeps the logs of a test that failed, and says where.
    #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("the servers' logs are in {}", self.deployment.dir().join("logs").display());
        }
    }
}

impl Deref for Lab {
    type Target = Deployment;
    fn deref(&self) -> &Deployment {
        &self.deployment
    }
}

pub(crate) async fn lab(topology: &Topology, links: Links) -> Lab {
    let dir = scratch();
    let options = UpOptions { links, ..UpOptions::new(dir.path()) };
    let deployment = Process.up(topology, &options).await.unwrap();
    Lab { deployment, dir }
}

/// A directory in memory where there is one: servers sync their configuration, and a disk that others keep
/// busy can hold that up for seconds, longer than the silence after which a server counts as dead.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) async fn lab_of(kind: TopologyKind, links: Links) -> Lab {
    lab(&Topology::of(kind), links).await
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "waited {PATIENCE:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Names of the nodes that call themselves master now.
pub(crate) async fn masters(deployment: &Deployment) -> Vec<String> {
    let roles = deployment.roles().await;
    let masters = roles.into_iter().filter(|(_, role)| *role == Role::Master);
    masters.map(|(name, _)| name).collect()
}
