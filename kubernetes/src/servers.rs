//! The servers of all parts: one StatefulSet, of which part K has the pods from K times the nodes of its
//! topology on.

use cluster_config::layout::{MASTER_NAME, config_lines, sentinel_config_lines};
use cluster_config::{Role, Topology, TopologyKind};
use serde_json::{Value, json};

use crate::objects::{config_volume, container, env, env_of_field, labels, name, template};
use crate::spec::Spec;

const PORT: i32 = 6379;
/// The container of a server, which Chaos Mesh's objects name.
pub(crate) const CONTAINER: &str = "server";
/// What IOChaos puts itself before.
pub(crate) const DATA_DIR: &str = "/data";

/// Gives each pod a name of its own, from before it is ready: servers find each other by these.
pub(crate) fn service(spec: &Spec) -> Value {
    json!({"spec": {
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": labels(spec, Some("server")),
        "ports": [{"name": "redis", "port": PORT}],
    }})
}

pub(crate) fn stateful_set(spec: &Spec) -> Value {
    let topology = &spec.scenario.topology;
    let (flavour, image) = server_of(topology);
    let mut variables = shape(spec);
    variables.extend([
        env_of_field("POD_IP", "status.podIP"),
        env("SERVER", format!("{flavour}-server")),
        env("CLI", format!("{flavour}-cli")),
        env("KIND", topology.kind.name()),
        env("DATA", topology.data_nodes()),
        env("MASTERS", topology.count(Role::Master)),
        env("REPLICAS", topology.replicas),
        env("SENTINEL_LINES", sentinel_config_lines(topology)),
        env("QUORUM", topology.sentinels / 2 + 1),
    ]);
    let server = json!({
        "command": ["sh", "/locklab/server.sh"],
        "env": variables,
        "volumeMounts": [
            {"name": "config", "mountPath": "/locklab"}, {"name": "data", "mountPath": DATA_DIR},
        ],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    });
    let pod = json!({
        "containers": [container(CONTAINER, &image, "500m", "256Mi", server)],
        // The data last as long as the pod: what restarts its container keeps them, and what replaces the pod
        // loses them.
        "volumes": [config_volume(spec), {"name": "data", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 5,
    });
    json!({"spec": {
        "serviceName": name(spec, "servers"),
        // They wait for each other by themselves.
        "podManagementPolicy": "Parallel",
        "replicas": spec.parts * nodes(topology),
        "selector": {"matchLabels": labels(spec, Some("server"))},
        "template": template(spec, "server", pod),
    }})
}

fn nodes(topology: &Topology) -> u32 {
    topology.data_nodes() + topology.count(Role::Sentinel)
}

/// What tells a pod which servers belong together.
fn shape(spec: &Spec) -> Vec<Value> {
    let servers = name(spec, "servers");
    vec![
        env("NODES", nodes(&spec.scenario.topology)),
        env("HOST_BEFORE", format!("{servers}-")),
        env("HOST_AFTER", format!(".{servers}.{}.svc", spec.namespace)),
    ]
}

/// The same, and which of them stand in a target's URL.
pub(crate) fn variables_of_a_part(spec: &Spec) -> Vec<Value> {
    let topology = &spec.scenario.topology;
    let (data, masters) = (topology.data_nodes(), topology.count(Role::Master));
    let (before, listed, after) = match topology.kind {
        TopologyKind::Sentinel => ("redis-sentinel://", data..nodes(topology), format!("/{MASTER_NAME}")),
        TopologyKind::Cluster => ("redis-cluster://", 0..data, String::new()),
        TopologyKind::Masters => ("redlock://", 0..masters, String::new()),
        _ => ("redis://", 0..1, "/0".to_owned()),
    };
    let listed: Vec<String> = listed.map(|node| node.to_string()).collect();
    let mut variables = shape(spec);
    variables.extend([
        env("URL_BEFORE", before),
        env("URL_NODES", listed.join(" ")),
        env("URL_AFTER", after),
    ]);
    variables
}

/// The lines that all data nodes share, the topology's own last: those win.
pub(crate) fn conf(topology: &Topology) -> String {
    include_str!("scripts/server.conf").to_owned() + &config_lines(topology)
}

/// The program of a topology's server without `-server`, and the image that has it.
fn server_of(topology: &Topology) -> (&'static str, String) {
    let (name, version) = topology.server.split_once(['-', '@']).unwrap_or((&topology.server, "8"));
    match name {
        "valkey" => ("valkey", format!("valkey/valkey:{version}")),
        // A bare version is one of Redis.
        name if name.starts_with(|first: char| first.is_ascii_digit()) => ("redis", format!("redis:{name}")),
        _ => ("redis", format!("redis:{version}")),
    }
}
