//! Marks containers as ours and as whose, finds them by that, and removes what dead owners left.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error;
use testcontainers::bollard::models::ContainerSummary;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};

use super::engine;
use crate::registry::{self, Running};
use crate::{ClusterError, ProcessId};

const DEPLOYMENT: &str = "locklab.deployment";
/// `pid:start tick` of the process that started it.
const OWNER: &str = "locklab.owner";
/// Where that number means something: this boot of this machine, and a process-number space.
const SPACE: &str = "locklab.space";
const DETACHED: &str = "locklab.detached";

pub(crate) fn of(record: &Running) -> BTreeMap<String, String> {
    let owner = record.owner;
    BTreeMap::from(
        [
            (DEPLOYMENT, record.id.clone()),
            (OWNER, format!("{}:{}", owner.pid, owner.start_tick)),
            (SPACE, space()),
            (DETACHED, record.detached.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}

fn space() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{}/{}", boot.trim(), registry::pid_namespace())
}

pub(crate) fn remove_all(id: &str) -> Result<(), ClusterError> {
    let label = format!("{DEPLOYMENT}={id}");
    engine::block(async move {
        let docker = engine::connect().await?.docker;
        for container in list(&docker, &label, true).await? {
            remove(&docker, &container.id.unwrap_or_default()).await?;
        }
        Ok(())
    })
}

pub(crate) fn any_running(id: &str) -> Result<bool, ClusterError> {
    let label = format!("{DEPLOYMENT}={id}");
    engine::block(async move { Ok(!list(&engine::connect().await?.docker, &label, false).await?.is_empty()) })
}

/// The process that a label names: its number, then its start tick.
fn process_of_label(owner: &str) -> Option<ProcessId> {
    let (pid, start_tick) = owner.split_once(':')?;
    Some(ProcessId { pid: pid.parse().ok()?, start_tick: start_tick.parse().ok()? })
}

/// Removes containers whose owner is dead and that were not detached. The registry does this for those that
/// it lists; this finds the others, whose record is lost or lies in another user's directory.
pub(crate) async fn sweep(docker: &Docker) -> Result<(), ClusterError> {
    let here = space();
    for container in list(docker, OWNER, true).await? {
        let labels = container.labels.unwrap_or_default();
        let label = |key| labels.get(key).map(String::as_str);
        let same_space = label(SPACE) == Some(&here);
        let detached = label(DETACHED) == Some("true");
        if same_space
            && !detached
            && label(OWNER).and_then(process_of_label).is_some_and(|owner| !owner.is_alive())
        {
            remove(docker, &container.id.unwrap_or_default()).await?;
        }
    }
    Ok(())
}

async fn list(docker: &Docker, label: &str, all: bool) -> Result<Vec<ContainerSummary>, ClusterError> {
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::new().all(all).filters(&filters).build();
    docker.list_containers(Some(options)).await.map_err(|error| failed!("cannot list containers: {error}"))
}

/// Ends and removes one container with its anonymous volumes; one that is gone or being removed is no error.
pub(crate) async fn remove(docker: &Docker, container: &str) -> Result<(), ClusterError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(container, Some(options)).await {
        Ok(()) | Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        Err(error) => Err(failed!("cannot remove the container {container}: {error}")),
    }
}
