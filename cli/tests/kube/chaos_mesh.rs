//! Faults by Chaos Mesh, of which only the schemas are real here: what stands in for its controller is a
//! **stub** that deletes pods and says AllInjected. What a daemon of Chaos Mesh does to packets, clocks and
//! disks is not tried anywhere in these tests.

use std::time::{Duration, Instant};

use kubernetes::chaos_mesh::kinds;
use kubernetes::k8s_openapi::api::core::v1::Pod;
use kubernetes::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kubernetes::kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kubernetes::kube::{Api, Client};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::kubelet::Kubelet;
use crate::support::{code, stderr, stdout};
use crate::{begin, end, until};

const SCHEMAS: [&str; 5] = [
    include_str!("chaos-mesh/podchaos.json"),
    include_str!("chaos-mesh/networkchaos.json"),
    include_str!("chaos-mesh/timechaos.json"),
    include_str!("chaos-mesh/iochaos.json"),
    include_str!("chaos-mesh/stresschaos.json"),
];

/// Lets the API server know the kinds of Chaos Mesh.
pub(crate) async fn install(plane: &ControlPlane) {
    let all: Api<CustomResourceDefinition> = Api::all(plane.client.clone());
    for schema in SCHEMAS {
        let schema = serde_json::from_str(schema).expect("a definition");
        all.create(&PostParams::default(), &schema).await.expect("it is taken");
    }
    for resource in kinds() {
        let api: Api<DynamicObject> = Api::namespaced_with(plane.client.clone(), "lab", &resource);
        until("the kinds are served", async || api.list(&ListParams::default()).await.is_ok()).await;
    }
}

/// A stub of Chaos Mesh's controller for PodChaos: deletes the pods, whatever the action, and says so. An
/// object of `pod-failure` is not recovered before it has hung for so long.
async fn stub(client: Client, hangs: Duration) {
    let resource = kinds().into_iter().next().expect("PodChaos is the first");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "lab", &resource);
    let pods: Api<Pod> = Api::namespaced(client, "lab");
    let mut going: Option<Instant> = None;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for object in api.list(&ListParams::default()).await.into_iter().flatten() {
            let name = object.metadata.name.clone().unwrap_or_default();
            let change = async |change: Value| {
                let how = PatchParams::default();
                api.patch(&name, &how, &Patch::Merge(change)).await.map(drop)
            };
            if object.metadata.deletion_timestamp.is_some() {
                if going.get_or_insert_with(Instant::now).elapsed() > hangs {
                    let _ = change(json!({"metadata": {"finalizers": null}})).await;
                }
                continue;
            }
            if object.data["status"]["conditions"].is_array() {
                continue;
            }
            let finalizers = match object.data["spec"]["action"] == "pod-failure" {
                true => json!(["chaos-mesh/records"]),
                false => Value::Null,
            };
            for pod in object.data["spec"]["selector"]["pods"]["lab"].as_array().into_iter().flatten() {
                let now = DeleteParams::default().grace_period(0);
                pods.delete(pod.as_str().expect("a name"), &now).await.expect("the pod is there");
            }
            let status = json!({"conditions": [{"type": "AllInjected", "status": "True"}], "experiment": {"desiredPhase": "Run"}});
            change(json!({"metadata": {"finalizers": finalizers}, "status": status}))
                .await
                .expect("it is there");
        }
    }
}

const RESTARTED: &str = r#"
name = "restarted"
[topology]
kind = "single"
[load]
clients = 2
duration = "9s"
hold = "5ms"
[[faults]]
at = "1s"
fault = "restart"
on = "master"
with = { data = "lose" }
[[faults]]
at = "6s"
for = "1s"
fault = "kill"
on = "master"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_needs_the_engines_word_and_a_proof_of_ours_and_a_recovery_that_hangs_is_unknown() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    install(&plane).await;
    let _kubelet = Kubelet::start(plane.client.clone(), &plane.kubeconfig, plane.dir()).await;
    let stub = tokio::spawn(stub(plane.client.clone(), Duration::from_secs(32)));
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("restarted.toml"), RESTARTED).expect("a scenario");
    let run = end(begin(&plane, dir.path(), &["restarted.toml", "--parts", "1"])).await;
    stub.abort();
    let said = stderr(&run);
    assert_eq!(code(&run), 2, "{said}");
    let document: Value = serde_json::from_str(&stdout(&run)).unwrap_or_else(|_| panic!("{said}"));
    let faults = &document["scenarios"][0]["faults"];
    let proof = |fault: usize| faults[fault]["proof"].as_str().unwrap_or_default().to_owned();
    assert_eq!(faults[0]["bit"], true, "{faults}");
    assert!(proof(0).contains("AllInjected") && proof(0).contains("n1:"), "both words: {}", proof(0));
    assert_eq!(faults[1]["bit"], false, "{faults}");
    assert!(proof(1).contains("hangs"), "{}", proof(1));
    assert!(faults[1]["healed_ns"].is_null(), "{faults}");
}
