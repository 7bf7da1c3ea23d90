//! Talks to the API of a cluster, within one namespace: applies objects, follows a run's jobs, deletes what
//! is labelled as the run's.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use chaos::polling::is_so;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerStatus, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::chaos_mesh;
use crate::objects::{COMPONENT, Object, RUN};

/// Longest deletion: on SIGTERM a part heals its faults and removes its keys, then Chaos Mesh recovers.
const GONE_WITHIN: Duration = Duration::from_secs(70);
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Why the cluster does not do what is asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    /// No cluster, no namespace, no Chaos Mesh.
    #[error("{0}")]
    Missing(String),
    /// The API refuses it.
    #[error("{0}")]
    Refused(String),
}

impl ClusterError {
    fn of(what: &str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 && status.message.contains("namespaces") => {
                Self::Missing(format!("{}; kubectl create namespace makes one", status.message))
            }
            kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => {
                Self::Refused(format!(
                    "{what} is there already, of a run of that name: give another with --name, or delete it"
                ))
            }
            kube::Error::Api(status) => Self::Refused(format!("{what}: {}", status.message)),
            other => Self::Missing(format!("{what}: the API does not answer: {other}")),
        }
    }
}

/// The end of the pod that merged the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodOutcome {
    /// Its exit code.
    pub exit_code: i32,
    /// All that it printed.
    pub log: String,
}

/// One namespace of a cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// The cluster of the kubeconfig, or the one around this pod. Nothing is asked of it yet.
    pub async fn connect(namespace: &str) -> Result<Self, ClusterError> {
        let no = |error: &dyn std::fmt::Display| {
            ClusterError::Missing(format!("no cluster is configured: {error}"))
        };
        let config = Config::infer().await.map_err(|error| no(&error))?;
        let client = Client::try_from(config).map_err(|error| no(&error))?;
        Ok(Self::of(client, namespace))
    }

    /// A namespace of a cluster, by a client that is connected already.
    pub fn of(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn dynamic(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    /// Whether Chaos Mesh's kinds are known here.
    pub async fn has_chaos_mesh(&self) -> Result<(), ClusterError> {
        for resource in chaos_mesh::kinds() {
            let found = self.dynamic(&resource).list(&ListParams::default().limit(1)).await;
            match found {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Err(ClusterError::Missing(format!(
                        "this cluster has no {}: Chaos Mesh is not installed",
                        resource.kind
                    )));
                }
                Err(error) => return Err(ClusterError::of(&resource.kind, &error)),
            }
        }
        Ok(())
    }

    /// Makes all objects in their order, until one is refused; `dry`: the API checks them, and makes nothing.
    pub async fn apply(&self, objects: &[Object], dry: bool) -> Result<(), ClusterError> {
        let how = PostParams { dry_run: dry, ..PostParams::default() };
        for object in objects {
            let what = format!("{} {}", object.resource.kind, object.name());
            let value = serde_json::from_value(object.value.clone())
                .map_err(|error| ClusterError::Refused(format!("{what}: {error}")))?;
            let made = self.dynamic(&object.resource).create(&how, &value).await;
            made.map_err(|error| ClusterError::of(&what, &error))?;
        }
        Ok(())
    }

    fn of_run(run: &str, component: Option<&str>) -> ListParams {
        let component = component.map_or(String::new(), |component| format!(",{COMPONENT}={component}"));
        ListParams::default().labels(&format!("{RUN}={run}{component}"))
    }

    async fn pods(&self, run: &str, component: Option<&str>) -> Result<Vec<Pod>, ClusterError> {
        let pods = self.api::<Pod>().list(&Self::of_run(run, component)).await;
        Ok(pods.map_err(|error| ClusterError::of("pods", &error))?.items)
    }

    /// Follows a run's parts to their end, and then its merge; tells how many parts have ended, and what a
    /// user should know of pods, once each.
    pub async fn carry_out(
        &self,
        run: &str,
        tell: &(dyn Fn(&str) + Sync),
        ended: &(dyn Fn(u64) + Sync),
    ) -> Result<PodOutcome, ClusterError> {
        let (mut told, mut merging) = (BTreeSet::new(), false);
        loop {
            for line in self.pods(run, None).await?.iter().filter_map(state) {
                if told.insert(line.clone()) {
                    tell(&line);
                }
            }
            if merging {
                if let Some(merged) = self.merged(run).await? {
                    return Ok(merged);
                }
            } else {
                let status = self.job(run, "parts").await?;
                let indexes = [&status.completed_indexes, &status.failed_indexes];
                ended(indexes.into_iter().flatten().map(|text| indexes_in(text)).sum());
                if is_over(&status) {
                    let (name, how) = (format!("{run}-merge"), PatchParams::default());
                    let resume = Patch::Merge(serde_json::json!({"spec": {"suspend": false}}));
                    let resumed = self.api::<Job>().patch(&name, &how, &resume).await;
                    resumed.map_err(|error| ClusterError::of(&name, &error))?;
                    merging = true;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn job(&self, run: &str, what: &str) -> Result<JobStatus, ClusterError> {
        let name = format!("{run}-{what}");
        let job = self.api::<Job>().get_status(&name).await;
        Ok(job.map_err(|error| ClusterError::of(&name, &error))?.status.unwrap_or_default())
    }

    /// The outcome of the merge; `None` until it has ended.
    async fn merged(&self, run: &str) -> Result<Option<PodOutcome>, ClusterError> {
        if !is_over(&self.job(run, "merge").await?) {
            return Ok(None);
        }
        let pods = self.pods(run, Some("merge")).await?;
        let ended = |pod: &Pod| {
            let made = pod.metadata.creation_timestamp.clone()?;
            Some((made, pod.metadata.name.clone()?, exit_code(pod)?))
        };
        let ended = pods.iter().filter_map(ended);
        let Some((_, name, exit_code)) = ended.max() else {
            return Err(ClusterError::Missing("the pod that merged is gone, and its log with it".to_owned()));
        };
        let how = LogParams { container: Some("merge".to_owned()), ..LogParams::default() };
        let log = self.api::<Pod>().logs(&name, &how).await;
        let log = log.map_err(|error| ClusterError::of(&format!("the log of {name}"), &error))?;
        Ok(Some(PodOutcome { exit_code, log }))
    }

    /// Deletes the run's objects by label: pods first, so that parts heal their faults, then what Chaos Mesh
    /// still has, and the claim unless `keep_claim`. Gives what remains, in words.
    pub async fn delete(&self, run: &str, keep_claim: bool) -> Vec<String> {
        let of_run = Self::of_run(run, None);
        let mut stays = Vec::new();
        // Pods too: nobody else deletes pods whose owner is gone already.
        for resource in [kind::<Job>(), kind::<StatefulSet>(), kind::<Pod>()] {
            stays.extend(self.delete_all(&resource, &of_run).await);
        }
        stays.extend(self.until_pods_are_gone(run).await);
        for resource in chaos_mesh::kinds() {
            stays.extend(self.healed(&resource, &of_run).await);
        }
        let rest = [
            kind::<Service>(),
            kind::<ConfigMap>(),
            kind::<Secret>(),
            kind::<RoleBinding>(),
            kind::<Role>(),
            kind::<ServiceAccount>(),
        ];
        let claim = (!keep_claim).then(kind::<PersistentVolumeClaim>);
        for resource in rest.into_iter().chain(claim) {
            stays.extend(self.delete_all(&resource, &of_run).await);
        }
        stays
    }

    /// Deletes a run's objects of one kind; gives the error if some remain.
    async fn delete_all(&self, resource: &ApiResource, of_run: &ListParams) -> Option<String> {
        let (api, how) = (self.dynamic(resource), DeleteParams::background());
        let deleted = async {
            if resource.kind != "Service" {
                return api.delete_collection(&how, of_run).await.map(drop);
            }
            // The API cannot delete services as a collection.
            for service in api.list(of_run).await? {
                api.delete(&service.name_any(), &how).await?;
            }
            Ok(())
        };
        let error = deleted.await.err()?;
        Some(ClusterError::of(&resource.kind, &error).to_string())
    }

    async fn until_pods_are_gone(&self, run: &str) -> Option<String> {
        let left = async || Ok::<_, ()>(self.pods(run, None).await.map_or(0, |pods| pods.len()));
        let left = until_none(left).await.unwrap_or(0);
        (left > 0).then(|| format!("{left} pods are still there after {GONE_WITHIN:?}"))
    }

    /// Deletes objects of Chaos Mesh, and waits until it has recovered what they did: its finalizer holds
    /// them until then.
    async fn healed(&self, resource: &ApiResource, of_run: &ListParams) -> Option<String> {
        let (api, kind) = (self.dynamic(resource), &resource.kind);
        let count = async || api.list(of_run).await.map(|found| found.items.len());
        let left = async {
            match count().await {
                Ok(0) => return Ok(0),
                // Chaos Mesh is not installed.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(0),
                found => found?,
            };
            api.delete_collection(&DeleteParams::default(), of_run).await?;
            until_none(count).await
        };
        match left.await {
            Ok(0) => None,
            Ok(left) => {
                Some(format!("{left} {kind} hang in recovery after {GONE_WITHIN:?}: what they did may go on"))
            }
            Err(error) => Some(ClusterError::of(kind, &error).to_string()),
        }
    }
}

/// How many are left when none is, or when it took too long.
async fn until_none<E>(left: impl AsyncFn() -> Result<usize, E>) -> Result<usize, E> {
    is_so(GONE_WITHIN, POLL_INTERVAL, || async { matches!(left().await, Ok(0)) }).await;
    left().await
}

fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn is_over(status: &JobStatus) -> bool {
    let conditions = status.conditions.iter().flatten();
    conditions.into_iter().any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// How many indexes such a list has: `0,2-4` has four.
fn indexes_in(text: &str) -> u64 {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    };
    text.split(',').filter_map(range).sum()
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.container_statuses.iter().flatten())
}

fn exit_code(pod: &Pod) -> Option<i32> {
    containers(pod).find_map(|container| Some(container.state.as_ref()?.terminated.as_ref()?.exit_code))
}

/// A pod's trouble in words for the user; `None`: the pod is on its way.
fn state(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref()?;
    let component = pod.metadata.labels.as_ref()?.get(COMPONENT)?;
    let index =
        pod.metadata.annotations.iter().find_map(|all| all.get("batch.kubernetes.io/job-completion-index"));
    let who = match index {
        Some(index) => format!("part {index} ({name})"),
        None => format!("{component} {name}"),
    };
    if component != "server"
        && let Some(code) = exit_code(pod)
    {
        return Some(format!("{who} ended with {code}"));
    }
    let status = pod.status.as_ref()?;
    let why = |container: &ContainerStatus| container.state.as_ref()?.waiting.as_ref()?.reason.clone();
    let mut waiting = containers(pod).filter_map(why);
    if let Some(why) = waiting.find(|why| !matches!(&**why, "ContainerCreating" | "PodInitializing")) {
        return Some(format!("{who} does not start: {why}"));
    }
    let unplaced = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let why = unplaced?.message.as_deref().unwrap_or("it has no node");
    Some(format!("{who} waits for a node: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_as_a_job_writes_them() {
        for (text, count) in [("", 0), ("3", 1), ("0,2-4", 4), ("0-15", 16)] {
            assert_eq!(indexes_in(text), count, "{text}");
        }
    }
}
