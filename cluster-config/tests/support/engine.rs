//! Whether a container engine answers, and what of ours it and the machine have.

use std::collections::HashMap;
use std::io::Write as _;

use testcontainers::bollard::query_parameters::ListContainersOptionsBuilder;
use testcontainers::core::client::docker_client_instance;

/// True if an engine answers. Else says so on standard error, past the harness that keeps what passing tests
/// print, in the form that `.ci/run` counts.
pub(crate) async fn answers(test: &str) -> bool {
    match cluster_config::engine().await {
        Ok(_) => true,
        Err(error) => {
            assert!(
                matches!(error, cluster_config::ClusterError::Missing(_))
                    && error.to_string().contains("install and start one"),
                "{error}"
            );
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
            false
        }
    }
}

/// Names of the containers, running or not, whose labels fit.
pub(crate) async fn containers(fits: impl Fn(&HashMap<String, String>) -> bool) -> Vec<String> {
    let docker = docker_client_instance().await.unwrap();
    let options = ListContainersOptionsBuilder::new().all(true).build();
    let all = docker.list_containers(Some(options)).await.unwrap();
    all.into_iter()
        .filter(|container| container.labels.as_ref().is_some_and(&fits))
        .map(|container| container.names.unwrap_or_default().join(","))
        .collect()
}

/// The containers of a deployment.
pub(crate) async fn of(id: &str) -> Vec<String> {
    containers(|labels| labels.get("locklab.deployment").is_some_and(|found| found == id)).await
}

/// Addresses beyond loopback on which this machine listens on one of these ports, as `/proc/net/tcp` writes
/// them.
pub(crate) fn listens_beyond_loopback(ports: &[u16]) -> Vec<String> {
    let table = |name| std::fs::read_to_string(name).unwrap_or_default();
    let tables = [table("/proc/net/tcp"), table("/proc/net/tcp6")].join("\n");
    let listening = tables.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&"0A")).then(|| fields[1].to_owned())
    });
    listening
        .filter(|local| {
            let (address, port) = local.split_once(':').unwrap();
            // IPv4 is written backwards, so that 127.x.y.z ends in 7F; IPv6's own loopback ends in 1.
            let loopback = address.len() == 8 && address.ends_with("7F")
                || address == "00000000000000000000000001000000";
            let port = u16::from_str_radix(port, 16).unwrap();
            ports.contains(&port) && !loopback
        })
        .collect()
}
