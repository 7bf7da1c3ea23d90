//! Finds a container engine that answers (`DOCKER_HOST`, else the usual sockets), or says what to do.

use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::core::client::docker_client_instance;
use tokio::runtime::{Builder, Runtime};

use crate::ClusterError;

/// An engine on this machine that does not answer within this time is as good as absent.
const ANSWER: Duration = Duration::from_secs(5);

const REMEDY: &str = "install and start one: as root, `apt-get install --no-install-recommends docker.io && (dockerd &)`, or Docker \
     Desktop; a user needs to be in the group docker; DOCKER_HOST names an engine elsewhere than /var/run/docker.sock. \
     Without one use the provisioner `process`";

#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) docker: Docker,
    /// Whether its `host` network is that of this machine: not so where it runs in a virtual machine.
    pub(crate) shares_network: bool,
    /// Whether its containers' root is the user who runs it.
    pub(crate) rootless: bool,
    pub(crate) version: String,
}

/// The version of the container engine that answers here, as `20.10.24`; else how to get one.
pub async fn engine() -> Result<String, ClusterError> {
    run(connect()).await.map(|engine| engine.version)
}

pub(crate) async fn connect() -> Result<Engine, ClusterError> {
    let asked = tokio::time::timeout(ANSWER, async {
        let docker = docker_client_instance().await.map_err(|error| error.to_string())?;
        let info = docker.info().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((docker, info))
    });
    let (docker, info) = match asked.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(why)) => return Err(absent(&why)),
        Err(_) => return Err(absent(&format!("no answer within {ANSWER:?}"))),
    };
    let system = info.operating_system.unwrap_or_default();
    let security = info.security_options.unwrap_or_default();
    Ok(Engine {
        docker,
        shares_network: cfg!(target_os = "linux") && !system.contains("Docker Desktop"),
        rootless: security.iter().any(|option| option.contains("name=rootless")),
        version: info.server_version.unwrap_or_else(|| "unknown".to_owned()),
    })
}

fn absent(why: &str) -> ClusterError {
    missing!("no container engine answers: {why}; {REMEDY}")
}

/// The runtime for everything that is said to the engine. It lives as long as the process: connections belong
/// to their runtime, and containers are removed in drops and after the caller's runtime, too.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("container-engine")
            .enable_all()
            .build()
            .expect("the system can start one more thread")
    })
}

/// Runs to its end, also if the caller stops waiting for it.
pub(crate) async fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T, ClusterError>> + Send + 'static,
) -> Result<T, ClusterError> {
    match runtime().spawn(work).await {
        Ok(result) => result,
        Err(failure) => Err(failed!("talking to the container engine: {failure}")),
    }
}

/// The same for callers that cannot wait asynchronously: a drop, a signal. Blocks the calling thread.
pub(crate) fn block<T: Send + 'static>(
    work: impl Future<Output = Result<T, ClusterError>> + Send + 'static,
) -> Result<T, ClusterError> {
    let (reply, answer) = mpsc::sync_channel(1);
    runtime().spawn(async move {
        // Nobody waits any more only if this process is ending.
        let _ = reply.send(work.await);
    });
    answer.recv().unwrap_or_else(|_| Err(ClusterError::new("the container engine's thread has ended")))
}

pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    runtime().spawn(work);
}
