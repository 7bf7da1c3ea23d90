//! Chaos Mesh as the engine of a part's faults.

use std::sync::Arc;

use chaos::faults::engine::Engine;
use cluster_config::TopologyKind;
use kubernetes::engine::ChaosMesh;

use crate::exit;

/// Chaos Mesh for a part, which knows its run and its pod by its environment.
pub(crate) async fn engine(namespace: &str, kind: TopologyKind) -> anyhow::Result<Arc<dyn Engine>> {
    let of = |name: &str| std::env::var(name).ok();
    let pod = of("POD_NAME").or_else(|| of("HOSTNAME"));
    let pod = pod.ok_or_else(|| {
        exit::usage("--chaos-mesh is for a pod, which has its name in POD_NAME or HOSTNAME")
    })?;
    let run = of("LOCKLAB_RUN").unwrap_or_else(|| pod.clone());
    Ok(Arc::new(ChaosMesh::new(namespace, kind, &run, &pod).await?))
}
