//! The servers of all parts: one StatefulSet, of which part K has the pods from K times the nodes of its
//! topology on.

use cluster_config::layout::{MASTER_NAME, config_lines, sentinel_config_lines};
use cluster_config::{Role, Topology, TopologyKind};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, PodSpec, Probe, Service, ServicePort, ServiceSpec,
    TCPSocketAction, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::objects::{config_volume, labels, meta, name, signed};
use crate::pods::{apart, confined, env, env_of_field, mount, resources, restricted, template, volume};
use crate::spec::Spec;

const PORT: i32 = 6379;
/// The container of a server, which Chaos Mesh's objects name.
pub(crate) const CONTAINER: &str = "server";
/// What IOChaos puts itself before.
pub(crate) const DATA_DIR: &str = "/data";

/// Gives each pod a name of its own, from before it is ready: servers find each other by these.
pub(crate) fn service(spec: &Spec) -> Service {
    Service {
        metadata: meta(spec, "servers"),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(labels(spec, Some("server"))),
            ports: Some(vec![ServicePort {
                name: Some("redis".to_owned()),
                port: PORT,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(crate) fn stateful_set(spec: &Spec) -> StatefulSet {
    let topology = &spec.scenario.topology;
    let (flavour, image) = server_of(topology);
    let data = Volume {
        // As long as the pod: what restarts its container keeps it, and what replaces the pod loses it.
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..volume("data")
    };
    let mut variables = shape(spec);
    variables.extend([
        env_of_field("POD_IP", "status.podIP"),
        env("SERVER", &format!("{flavour}-server")),
        env("CLI", &format!("{flavour}-cli")),
        env("KIND", topology.kind.name()),
        env("DATA", &topology.data_nodes().to_string()),
        env("MASTERS", &topology.count(Role::Master).to_string()),
        env("REPLICAS", &topology.replicas.to_string()),
        env("SENTINEL_LINES", &sentinel_config_lines(topology)),
        env("QUORUM", &(topology.sentinels / 2 + 1).to_string()),
    ]);
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(image),
        command: Some(vec!["sh".to_owned(), "/locklab/server.sh".to_owned()]),
        env: Some(variables),
        resources: Some(resources("500m", "256Mi")),
        volume_mounts: Some(vec![mount("config", "/locklab"), mount("data", DATA_DIR)]),
        readiness_probe: Some(Probe {
            tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(PORT), ..TCPSocketAction::default() }),
            period_seconds: Some(1),
            ..Probe::default()
        }),
        security_context: Some(confined()),
        ..Container::default()
    };
    let mine = labels(spec, Some("server"));
    let pod = PodSpec {
        containers: vec![container],
        volumes: Some(vec![config_volume(spec), data]),
        termination_grace_period_seconds: Some(5),
        affinity: Some(apart(mine.clone())),
        ..restricted()
    };
    StatefulSet {
        metadata: meta(spec, "servers"),
        spec: Some(StatefulSetSpec {
            service_name: Some(name(spec, "servers")),
            // They wait for each other by themselves.
            pod_management_policy: Some("Parallel".to_owned()),
            replicas: Some(signed(spec.parts * nodes(topology))),
            selector: LabelSelector { match_labels: Some(mine.clone()), ..LabelSelector::default() },
            template: template(mine, pod),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn nodes(topology: &Topology) -> u32 {
    topology.data_nodes() + topology.count(Role::Sentinel)
}

/// What tells a pod which servers belong together.
fn shape(spec: &Spec) -> Vec<EnvVar> {
    let servers = name(spec, "servers");
    vec![
        env("NODES", &nodes(&spec.scenario.topology).to_string()),
        env("HOST_BEFORE", &format!("{servers}-")),
        env("HOST_AFTER", &format!(".{servers}.{}.svc", spec.namespace)),
    ]
}

/// The same, and which of them stand in a target's URL.
pub(crate) fn variables_of_a_part(spec: &Spec) -> Vec<EnvVar> {
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
        env("URL_NODES", &listed.join(" ")),
        env("URL_AFTER", &after),
    ]);
    variables
}

/// The lines that all data nodes share, the topology's own last: those win.
pub(crate) fn conf(topology: &Topology) -> String {
    let mut text = "\
protected-mode no
hz 100
save \"\"
appendonly no
repl-diskless-sync no
repl-diskless-sync-delay 0
repl-ping-replica-period 1
"
    .to_owned();
    text.push_str(&config_lines(topology));
    text
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
