//! What the tests share: real servers in a temporary directory, the driver program, waiting for conditions.
#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    ops::Deref,
    time::{Duration, Instant},
};

use bench::{
    exec::ExecSubject,
    subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient},
};
use cluster_config::{
    ClusterError, Container, Deployment, Process, Provisioner, ProvisionerKind, Topology, TopologyKind,
    UpOptions,
};
use tempfile::TempDir;

/// Far beyond what anything here needs on a loaded machine, so that only a real hang fails by time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Running servers and their directory.
pub(crate) struct Lab {
    deployment: Deployment,
    // Dropped after the servers that write there.
    pub(crate) dir: TempDir,
}

impl Deref for Lab {
    type Target = Deployment;
    fn deref(&self) -> &Deployment {
        &self.deployment
    }
}

pub(crate) async fn lab(topology: Topology) -> Lab {
    try_lab(topology).await.unwrap()
}

/// The servers, or why they did not start.
pub(crate) async fn try_lab(topology: Topology) -> Result<Lab, ClusterError> {
    let dir = tempfile::tempdir().unwrap();
    let options = UpOptions::new(dir.path().join("servers"));
    let provisioner: &dyn Provisioner = match topology.provisioner {
        ProvisionerKind::Process => &Process,
        ProvisionerKind::Container => &Container,
    };
    let deployment = provisioner.up(&topology, &options).await?;
    Ok(Lab { deployment, dir })
}

pub(crate) async fn lab_of(kind: TopologyKind) -> Lab {
    lab(Topology::of(kind)).await
}

/// The program of `driver.rs`.
pub(crate) fn driver_program() -> &'static str {
    env!("CARGO_BIN_EXE_bench-test-driver")
}

/// A driver in a mode of its own.
pub(crate) fn driver(arguments: &str) -> ExecSubject {
    ExecSubject::from_command_line(&format!("{} {arguments}", driver_program())).unwrap()
}

pub(crate) fn to(target: impl Into<String>) -> ConnectTo {
    ConnectTo::new(&target.into(), "c1", 7, "none")
}

pub(crate) fn ask<'a>(
    lock: &'a str,
    owner: &'a str,
    wait: Duration,
    lease: Option<Duration>,
) -> AcquireRequest<'a> {
    AcquireRequest {
        lock,
        others: &[],
        kind: "",
        owner,
        reenters: true,
        wait: Some(wait),
        lease,
        permits: None,
        cancel: None,
    }
}

/// The grant's name, or a failed test.
pub(crate) async fn held(client: &dyn LockClient, request: AcquireRequest<'_>) -> String {
    match client.acquire(request).await {
        AcquireEnd::Ok { grant, .. } => grant,
        other => panic!("not acquired: {other:?}"),
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process is still there (a dead one that nobody has waited for is not).
pub(crate) fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| rest.trim().to_owned()))
        .is_some_and(|rest| !rest.starts_with('Z'))
}
