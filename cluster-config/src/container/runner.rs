//! Servers as containers: created, signalled, watched and removed by name.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};
use testcontainers::bollard::Docker;
use testcontainers::bollard::models::{HostConfig, HostConfigLogConfig};
use testcontainers::bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptionsBuilder, LogsOptionsBuilder, TopOptionsBuilder,
};
use testcontainers::core::{AccessMode, Mount};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerRequest, GenericImage, ImageExt};
use tokio::sync::RwLock;

use super::engine::{self, Engine};
use super::image::ServerImage;
use super::labels;
use super::reaper::Reaper;
use crate::baseline::{System, container_words};
use crate::layout::PlannedNode;
use crate::proc_fs::{children, process_state};
use crate::provisioner::Runner;
use crate::registry::{MARK, Running};
use crate::{ClusterError, ProcessId};

#[derive(Debug)]
pub(crate) struct Containers {
    shared: Arc<RunnerState>,
    reaper: Mutex<Option<Reaper>>,
    /// Held for reading while a container is being created; true when no more may be.
    closed: Arc<RwLock<bool>>,
}

/// What the tasks on the engine's runtime know.
#[derive(Debug)]
struct RunnerState {
    engine: Engine,
    image: ServerImage,
    deployment: String,
    /// The directory below which every node has its own.
    data: PathBuf,
    /// Names of all containers that may exist.
    names: Vec<String>,
    /// The servers' system, if not Redis.
    system: Option<&'static dyn System>,
    labels: BTreeMap<String, String>,
    running: Mutex<BTreeMap<String, RunningContainer>>,
}

#[derive(Debug, Clone)]
struct RunningContainer {
    id: String,
    /// The process number on the engine's machine.
    pid: u32,
    /// The same process, if this machine can see it.
    process: Option<ProcessId>,
    ended: Option<String>,
}

impl Containers {
    /// For the deployment of `record`; creates nothing yet.
    pub(crate) fn new(
        engine: Engine,
        image: ServerImage,
        record: &Running,
    ) -> Result<Containers, ClusterError> {
        let names: Vec<String> = record.nodes.iter().map(|node| name(&record.id, &node.name)).collect();
        let reaper = if record.detached { None } else { Reaper::start(&names)? };
        Ok(Containers {
            shared: Arc::new(RunnerState {
                engine,
                image,
                deployment: record.id.clone(),
                data: record.data.clone(),
                names,
                system: record.topology.system(),
                labels: labels::of(record),
                running: Mutex::default(),
            }),
            reaper: Mutex::new(reaper),
            closed: Arc::default(),
        })
    }

    fn started(&self, node: &str) -> Option<RunningContainer> {
        self.shared.running.lock().unwrap().get(node).cloned()
    }

    fn running(&self, node: &str) -> Option<RunningContainer> {
        let started = self.started(node)?;
        let dead = started.process.is_some_and(|process| !process.is_alive());
        (started.ended.is_none() && !dead).then_some(started)
    }

    fn send(&self, node: &str, signal: Signal) -> impl Future<Output = Result<(), ClusterError>> + use<> {
        let docker = self.shared.engine.docker.clone();
        let container = name(&self.shared.deployment, node);
        async move {
            let options = KillContainerOptionsBuilder::new().signal(signal.as_str()).build();
            let sent = docker.kill_container(&container, Some(options)).await;
            sent.map_err(|error| failed!("cannot send {signal} to {container}: {error}"))
        }
    }
}

/// The machine's own network, and logs that can be read through the engine whatever its default is.
/// testcontainers' own way would publish ports on every address of this machine.
fn host_config(host: &mut HostConfig) {
    host.log_config = Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: None });
    host.publish_all_ports = Some(false);
    host.network_mode = Some("host".to_owned());
}

pub(crate) fn name(deployment: &str, node: &str) -> String {
    format!("locklab-{deployment}-{node}")
}

impl RunnerState {
    /// A container with our marks that runs a program with its arguments.
    fn request(&self, name: &str, words: Vec<String>) -> ContainerRequest<GenericImage> {
        let (repository, tag) = self.image.name.rsplit_once(':').unwrap_or((&self.image.name, "latest"));
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        let mut request = GenericImage::new(repository, tag)
            .with_entrypoint(&program)
            .with_cmd(words)
            .with_container_name(name)
            .with_labels(&self.labels)
            .with_host_config_modifier(host_config)
            .with_env_var(MARK, &self.deployment);
        if !self.engine.rootless {
            // Files that it writes must be this user's to remove.
            let (user, group) = self.user();
            request = request.with_user(format!("{user}:{group}"));
        }
        request
    }

    /// The user that the servers run as: this user, or `nobody` where the server refuses root.
    fn user(&self) -> (Uid, Gid) {
        let own = (nix::unistd::getuid(), nix::unistd::getgid());
        match self.system {
            Some(system) if own.0.is_root() && system.refuses_root() => {
                (Uid::from_raw(65534), Gid::from_raw(65534))
            }
            _ => own,
        }
    }

    /// Creates and starts the container of a node. It sees the deployment's directory on this machine at the
    /// same path, so that a configuration means the same as for a process, and losing a disk does too.
    async fn start(self: Arc<RunnerState>, node: PlannedNode) -> Result<Option<ProcessId>, ClusterError> {
        let container = name(&self.deployment, &node.name);
        let earlier = self.running.lock().unwrap().remove(&node.name);
        if let Some(earlier) = earlier {
            labels::remove(&self.engine.docker, &earlier.id).await?;
        }
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec![self.image.program.clone()];
        words.extend(node.args.iter().cloned());
        if let Some(system) = self.system {
            let (user, group) = self.user();
            nix::unistd::chown(&node.dir, Some(user), Some(group))
                .map_err(|error| failed!("{}: {error}", node.dir.display()))?;
            words = container_words(system, Path::new(&self.image.program), &node);
        }
        // Other users may not pass the deployment's directory.
        let own = if self.system.is_some() { &node.dir } else { &self.data };
        let mut request = self.request(&container, words).with_mount(Mount::bind_mount(path(own), path(own)));
        if self.system.is_some() {
            request = request.with_mount(Mount::tmpfs_mount("/tmp"));
        }
        for seen in &self.image.mounts {
            let mount = Mount::bind_mount(path(seen), path(seen));
            request = request.with_mount(mount.with_access_mode(AccessMode::ReadOnly));
        }
        let started = request.start().await;
        let started =
            started.map_err(|error| failed!("cannot start a container for {}: {error}", node.name))?;
        let id = started.id().to_owned();
        // Drop needs a current runtime and blocks its thread: `end` and the reaper remove the container.
        std::mem::forget(started);
        let state = self
            .engine
            .docker
            .inspect_container(&id, None::<InspectContainerOptions>)
            .await
            .map_err(|error| failed!("cannot inspect {container}: {error}"))?
            .state
            .unwrap_or_default();
        let pid = state.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        // The process has its group at once, and its environment a moment later.
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let process = ProcessId::of(pid)
            .filter(|process| group.contains(&id) || process.has_variable(MARK, &self.deployment));
        if process.is_some_and(|process| is_other_network(process.pid)) {
            bail!("the engine's host network is not the network of this process; run both in the same one",);
        }
        let started = RunningContainer { id: id.clone(), pid, process, ended: None };
        let mut running = self.running.lock().unwrap();
        running.insert(node.name.clone(), started);
        drop(running);
        engine::spawn(copy_log(self, node.node.name, id, node.node.log));
        Ok(process)
    }
}

/// Whether a process is in another network than this one. Where that cannot be read, nothing is claimed.
fn is_other_network(pid: u32) -> bool {
    let network = |who: &str| fs::read_link(format!("/proc/{who}/ns/net")).ok();
    match (network(&pid.to_string()), network("thread-self")) {
        (Some(there), Some(here)) => there != here,
        _ => false,
    }
}

/// Copies what a container prints into the node's log until it ends, and then says how it ended.
async fn copy_log(shared: Arc<RunnerState>, node: String, id: String, log: PathBuf) {
    let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
    let docker = &shared.engine.docker;
    let mut lines = std::pin::pin!(docker.logs(&id, Some(options)));
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&log) {
        while let Some(Ok(line)) = lines.next().await {
            // A full disk costs only the log.
            let _ = file.write_all(&line.into_bytes());
        }
    }
    let how = how_it_ended(docker, &id).await;
    if let Some(started) = shared.running.lock().unwrap().get_mut(&node)
        && started.id == id
    {
        started.ended = Some(how);
    }
}

async fn how_it_ended(docker: &Docker, id: &str) -> String {
    loop {
        let Ok(found) = docker.inspect_container(id, None::<InspectContainerOptions>).await else {
            return "removed".to_owned();
        };
        let state = found.state.unwrap_or_default();
        // The log ends a moment before the engine has noted the end.
        if state.running != Some(true) {
            let code = state.exit_code.unwrap_or_default();
            return match state.error.filter(|error| !error.is_empty()) {
                Some(error) => format!("exit code {code}: {error}"),
                None => format!("exit code {code}"),
            };
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[async_trait]
impl Runner for Containers {
    async fn start(&self, node: &PlannedNode) -> Result<Option<ProcessId>, ClusterError> {
        let (shared, closed, node) = (self.shared.clone(), self.closed.clone(), node.clone());
        engine::run(async move {
            let closed = closed.read().await;
            if *closed {
                bail!("{} is being taken down", shared.deployment);
            }
            shared.start(node).await
        })
        .await
    }

    fn ended(&self, node: &str) -> Option<String> {
        self.started(node)?.ended
    }

    fn pid(&self, node: &str) -> Option<u32> {
        self.running(node).map(|started| started.pid)
    }

    fn state(&self, node: &str) -> Option<char> {
        let started = self.running(node)?;
        if let Some(process) = started.process {
            return process_state(process.pid);
        }
        // The engine runs on another machine, so the engine is asked for what `ps` shows there.
        let docker = self.shared.engine.docker.clone();
        let asked = engine::block(async move {
            let options = TopOptionsBuilder::new().ps_args("-o pid,stat").build();
            docker
                .top_processes(&started.id, Some(options))
                .await
                .map_err(|error| ClusterError::new(error.to_string()))
        });
        asked.ok()?.processes?.first()?.get(1)?.chars().next()
    }

    fn signal(&self, node: &str, signal: Signal) -> Result<(), ClusterError> {
        engine::block(self.send(node, signal))?;
        // The engine sends it to the first process alone, and a server may be several, as PostgreSQL is.
        let first = self.running(node).and_then(|started| started.process);
        for other in first.map_or(Vec::new(), |first| children(first.pid)) {
            // Fails only if it is gone by now.
            let _ = kill(Pid::from_raw(other as i32), signal);
        }
        Ok(())
    }

    async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        engine::run(self.send(node, Signal::SIGKILL)).await
    }

    fn end(&self) -> Result<(), ClusterError> {
        let (shared, closed) = (self.shared.clone(), self.closed.clone());
        engine::block(async move {
            // Requests to create that are under way end first; what they made is then there to be removed.
            *closed.write().await = true;
            let docker = &shared.engine.docker;
            try_join_all(shared.names.iter().map(|name| labels::remove(docker, name))).await.map(drop)
        })?;
        if let Some(reaper) = self.reaper.lock().unwrap().take() {
            reaper.dismiss();
        }
        Ok(())
    }
}
