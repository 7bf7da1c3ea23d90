//! Chaos Mesh as the engine of a part's faults: makes an object, waits for AllInjected, deletes it, and waits
//! until it is gone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chaos::faults::engine::Engine;
use chaos::faults::{FaultError, FaultGuard, FaultWorld, HealReport, Injected, Injection, Proof, Target};
use chaos::polling::{is_so, until};
use chaos::scenario::FaultSpec;
use cluster_config::{Party, TopologyKind};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::Value;

use crate::chaos_mesh::{Carrier, FaultInjection, FaultTarget, carrier, objects};
use crate::cluster::{Cluster, ClusterError};

/// Chaos Mesh has so long to say AllInjected.
const INJECTED_WITHIN: Duration = Duration::from_secs(20);
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Chaos Mesh in the namespace of a part.
pub struct ChaosMesh {
    cluster: Cluster,
    namespace: String,
    shape: TopologyKind,
    /// The run whose objects these are, and the pod that makes them: their labels and names.
    run: String,
    pod: String,
    made: AtomicU32,
}

impl ChaosMesh {
    /// For servers of this shape, by the pod around this process, which knows its name and its run by its
    /// environment; `None`: no pod is.
    pub async fn here(namespace: &str, shape: TopologyKind) -> Result<Option<Self>, ClusterError> {
        let of = |name: &str| std::env::var(name).ok();
        let Some(pod) = of("POD_NAME").or_else(|| of("HOSTNAME")) else { return Ok(None) };
        Ok(Some(Self {
            cluster: Cluster::connect(namespace).await?,
            namespace: namespace.to_owned(),
            shape,
            run: of("LOCKLAB_RUN").unwrap_or_else(|| pod.clone()),
            pod,
            made: AtomicU32::new(0),
        }))
    }

    /// The pods behind the parties: servers by their addresses, clients in this pod.
    async fn harmed(&self, world: &FaultWorld, injection: &Injection) -> Result<FaultTarget, FaultError> {
        let pods = self.cluster.api::<Pod>().list(&ListParams::default()).await;
        let namespace = &self.namespace;
        let pods = pods.map_err(|error| FaultError(format!("the pods of {namespace}: {error}")))?;
        let pod_of = |name: &str| -> Result<String, FaultError> {
            let ip = world.deployment.node(name)?.address.ip().to_string();
            let has = |pod: &&Pod| {
                let status = pod.status.as_ref();
                status.is_some_and(|status| status.pod_ip.as_ref() == Some(&ip))
            };
            let found = pods.items.iter().find(has);
            let none = || format!("no pod of {namespace} has the address of {name}, {ip}");
            let name = found.and_then(|pod| pod.metadata.name.clone());
            name.ok_or_else(|| FaultError(none()))
        };
        let party = |party: &Party| match party {
            Party::Node(name) => pod_of(name),
            Party::Client(_) => Ok(self.pod.clone()),
        };
        let (mut nodes, mut links) = (Vec::new(), Vec::new());
        for target in &injection.targets {
            match target {
                Target::Node(name) => nodes.push(pod_of(name)?),
                Target::Client(_) => {
                    return Err(FaultError("clients are the harness's own".to_owned()));
                }
                Target::Link(from, to) => links.push((party(from)?, party(to)?)),
            }
        }
        links.dedup();
        Ok(if links.is_empty() { FaultTarget::Pods(nodes) } else { FaultTarget::Links(links) })
    }
}

#[async_trait]
impl Engine for ChaosMesh {
    fn takes(&self, fault: &FaultSpec) -> bool {
        carrier(fault, self.shape) == Ok(Carrier::ChaosMesh)
    }

    async fn inject(&self, fault: &str, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let on = self.harmed(world, injection).await?;
        let harm = FaultInjection { fault, with: &injection.with, on, lasts: injection.lasts };
        let name = format!("{}-{}", self.pod, self.made.fetch_add(1, Ordering::Relaxed));
        let mut made = CreatedObjects::default();
        for (resource, object) in objects(&harm, &self.namespace, &self.run, &name).map_err(FaultError)? {
            let api = self.cluster.dynamic(&resource);
            // Kept first: a call that is cut off may have made it.
            made.objects.push(One {
                api: api.clone(),
                name: object.metadata.name.clone().unwrap_or_default(),
                kind: resource,
            });
            let created = api.create(&PostParams::default(), &object).await;
            created.map_err(|error| FaultError(format!("Chaos Mesh: {error}")))?;
        }
        made.wait_until_injected().await?;
        Ok(Box::new(made))
    }
}

/// Objects that were made. Dropping them deletes them, and nobody waits for it.
#[derive(Default)]
struct CreatedObjects {
    objects: Vec<One>,
}

struct One {
    api: Api<DynamicObject>,
    name: String,
    kind: ApiResource,
}

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}

impl CreatedObjects {
    async fn wait_until_injected(&self) -> Result<(), FaultError> {
        let since = Instant::now();
        for one in &self.objects {
            let look = || async {
                match one.api.get(&one.name).await {
                    Ok(object) => injected(&object.data).then_some(Ok(())),
                    Err(error) => Some(Err(format!("{}: {error}", one.name))),
                }
            };
            let left = INJECTED_WITHIN.saturating_sub(since.elapsed());
            let late = || Err(format!("{one} was not AllInjected within {INJECTED_WITHIN:?}"));
            let seen = until(left, POLL_INTERVAL, look).await;
            seen.unwrap_or_else(late).map_err(FaultError)?;
        }
        Ok(())
    }

    fn word(&self) -> String {
        let names: Vec<String> = self.objects.iter().map(One::to_string).collect();
        format!("Chaos Mesh says AllInjected of {}", names.join(" and "))
    }
}

/// Whether an object's status says that it took effect on all it selects.
fn injected(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "AllInjected" && condition["status"] == "True")
}

#[async_trait]
impl FaultGuard for CreatedObjects {
    fn proof(&self) -> Proof {
        Proof { bit: true, words: self.word() }
    }

    /// An object is gone when its finalizer is, and that is when Chaos Mesh has recovered what it did.
    async fn heal(mut self: Box<Self>) -> HealReport {
        let words = self.word();
        for one in &self.objects {
            // What is gone already is what is wanted.
            let _ = one.api.delete(&one.name, &DeleteParams::default()).await;
        }
        let (since, mut hangs) = (Instant::now(), Vec::new());
        for one in &self.objects {
            let gone = || async { matches!(one.api.get_opt(&one.name).await, Ok(None)) };
            let left = RECOVERED_WITHIN.saturating_sub(since.elapsed());
            if !is_so(left, POLL_INTERVAL, gone).await {
                hangs.push(format!("the recovery of {one} hangs after {RECOVERED_WITHIN:?}"));
            }
        }
        self.objects.clear();
        // Of one that hangs nobody knows how long the harm lasted.
        let bit = hangs.is_empty();
        HealReport { proof: Proof { bit, words }, failed: (!bit).then(|| hangs.join("; ")) }
    }
}

impl Drop for CreatedObjects {
    fn drop(&mut self) {
        for one in std::mem::take(&mut self.objects) {
            tokio::spawn(async move { one.api.delete(&one.name, &DeleteParams::default()).await.map(drop) });
        }
    }
}
