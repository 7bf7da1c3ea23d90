//! What is rendered is taken by the schemas of a real API server and of Chaos Mesh, and what is wrong is
//! refused by them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use chaos::scenario::{Scenario, Setting, Settings};
use kubernetes::chaos_mesh::{Carrier, FaultInjection, FaultTarget, carrier, objects as harms};
use kubernetes::cluster::{Cluster, ClusterError};
use kubernetes::kube::Api;
use kubernetes::kube::api::{ApiResource, DynamicObject, PostParams};
use kubernetes::objects::{Object, objects};
use kubernetes::spec::{Servers, Spec, Storage};
use serde_json::{Value, json};

use crate::chaos_mesh::install;
use crate::control_plane::ControlPlane;

fn spec(kind: &str, rest: &str, servers: Servers, storage: Storage) -> Spec {
    let text = format!("name = \"x\"\n[topology]\nkind = \"{kind}\"\n{rest}");
    Spec {
        name: "x".to_owned(),
        namespace: "lab".to_owned(),
        image: "locklab".to_owned(),
        parts: 16,
        seed: 1,
        repeat: 16,
        subject: None,
        scenario: Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}")),
        text,
        servers,
        allow: Vec::new(),
        storage,
        cpu: "500m".to_owned(),
        memory: "1Gi".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_taken_by_the_real_schemas_and_wrong_ones_are_refused() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let cluster = Cluster::of(plane.client.clone(), "lab");
    let volume = || Storage::Volume(None);
    let bucket = Storage::Bucket { path: "b/p".to_owned(), secret: "s3".to_owned() };
    let target = Servers::Target { url: "redis://:secret@r:6379".to_owned() };
    let kill = "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"kill\"\non = \"master\"\n";
    for spec in [
        spec("single", "", Servers::StatefulSet, volume()),
        spec("sentinel", kill, Servers::StatefulSet, Storage::Claim("kept".to_owned())),
        spec("cluster", "", Servers::StatefulSet, bucket),
        spec("masters", "", Servers::Pod, volume()),
        spec("single", "", target, volume()),
    ] {
        assert_eq!(spec.refused(), []);
        cluster.apply(&objects(&spec), true).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let good = objects(&spec("single", "", Servers::StatefulSet, volume()));
    for (kind, at, wrong) in [
        ("Job", "/spec/template/spec/restartPolicy", json!("Always")),
        ("Job", "/spec/podFailurePolicy/rules/0/action", json!("Retry")),
        ("Job", "/spec/template/spec/containers/0/resources/limits/cpu", json!("lots")),
        ("StatefulSet", "/spec/selector/matchLabels", json!({"other": "label"})),
        ("ConfigMap", "/metadata/name", json!("No_Name")),
    ] {
        let mut one: Object = good.iter().find(|object| object.resource.kind == kind).expect(kind).clone();
        *one.value.pointer_mut(at).expect(at) = wrong;
        let refused = cluster.apply(&[one], true).await;
        assert!(matches!(refused, Err(ClusterError::Refused(_))), "{at}: {refused:?}");
    }
    let elsewhere = Cluster::of(plane.client.clone(), "nowhere");
    let mut lost = good.clone();
    for object in &mut lost {
        object.value["metadata"]["namespace"] = json!("nowhere");
    }
    let refused = elsewhere.apply(&lost, true).await;
    assert!(matches!(refused, Err(ClusterError::Missing(_))), "{refused:?}");

    let without = cluster.has_chaos_mesh().await;
    assert!(matches!(without, Err(ClusterError::Missing(_))), "{without:?}");
    install(&plane).await;
    cluster.has_chaos_mesh().await.expect("it is there now");
    faults_are_taken(&plane).await;
}

/// Each fault as an object.
fn all_faults() -> Vec<(ApiResource, DynamicObject)> {
    let text = |name: &str, word: &str| Settings::from([(name.to_owned(), Setting::Text(word.to_owned()))]);
    let pods = FaultTarget::Pods(vec!["x-servers-0".to_owned()]);
    let links = FaultTarget::Links(vec![("a".to_owned(), "b".to_owned())]);
    let (none, lose) = (Settings::new(), text("data", "lose"));
    let (late, jump, sync, lost) =
        (text("latency", "1s"), text("jump", "-5s"), text("fsync", "200ms"), text("rate", "0.25"));
    let mut made = Vec::new();
    for (fault, with, on) in [
        ("kill", &none, &pods),
        ("restart", &none, &pods),
        ("restart", &lose, &pods),
        ("clock", &jump, &pods),
        ("disk", &sync, &pods),
        ("stress", &none, &pods),
        ("cut", &none, &links),
        ("delay", &late, &links),
        ("loss", &lost, &links),
    ] {
        let harm = FaultInjection { fault, with, on: on.clone(), lasts: Some(Duration::from_secs(2)) };
        let name = format!("h{}", made.len());
        made.extend(harms(&harm, "lab", "x", &name).expect("one of Chaos Mesh's"));
    }
    made
}

/// A program that asks Chaos Mesh's own Go types, one JSON document per line: see `chaos-mesh/README.md`.
const VALIDATE: &str = "LOCKLAB_CHAOS_MESH_VALIDATE";

#[test]
fn faults_are_taken_by_chaos_meshs_own_types_and_what_only_they_refuse_is_refused() {
    let Ok(program) = std::env::var(VALIDATE) else {
        return crate::support::skipped("LOCKLAB_CHAOS_MESH_VALIDATE names no program");
    };
    let mut asked: Vec<(Value, &str)> = Vec::new();
    for (resource, object) in all_faults() {
        let mut one = serde_json::to_value(&object).expect("plain data");
        one["kind"] = json!(resource.kind);
        one["apiVersion"] = json!(resource.api_version);
        asked.push((one.clone(), "ok"));
        // What the schemas let pass. Of a TimeChaos nobody reads the duration before it is applied.
        let unread = resource.kind == "TimeChaos";
        one["spec"]["duration"] = json!("soon");
        asked.push((one.clone(), if unread { "ok" } else { "refused" }));
        one["spec"]["duration"] = json!("1s");
        match (resource.kind.as_str(), one["spec"]["action"].as_str()) {
            ("PodChaos", Some("container-kill")) => one["spec"]["containerNames"] = Value::Null,
            ("NetworkChaos", Some("delay")) => one["spec"]["delay"]["latency"] = json!("1 parsec"),
            ("TimeChaos", _) => one["spec"]["timeOffset"] = json!("back"),
            ("IOChaos", _) => one["spec"]["delay"] = json!("some"),
            ("StressChaos", _) => one["spec"]["stressors"] = json!({}),
            _ => continue,
        }
        asked.push((one, "refused"));
    }
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines: Vec<String> = asked.iter().map(|(one, _)| one.to_string()).collect();
    let mut to = child.stdin.take().expect("a pipe");
    to.write_all((lines.join("\n") + "\n").as_bytes()).expect("it reads");
    drop(to);
    let answer = child.wait_with_output().expect("it ends");
    let answer = String::from_utf8(answer.stdout).expect("text");
    assert_eq!(answer.lines().count(), asked.len(), "{answer}");
    for ((one, expected), found) in asked.iter().zip(answer.lines()) {
        assert!(found.starts_with(expected), "{found}: {one}");
    }
}

/// What Chaos Mesh's own schema says to each, and to a wrong one.
async fn faults_are_taken(plane: &ControlPlane) {
    let made = all_faults();
    let kinds: BTreeMap<&str, usize> = made.iter().fold(BTreeMap::new(), |mut kinds, (resource, _)| {
        *kinds.entry(resource.kind.as_str()).or_default() += 1;
        kinds
    });
    assert_eq!(
        kinds,
        BTreeMap::from([
            ("IOChaos", 1),
            ("NetworkChaos", 3),
            ("PodChaos", 3),
            ("StressChaos", 1),
            ("TimeChaos", 1)
        ])
    );
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for (resource, object) in &made {
        let api: Api<_> = Api::namespaced_with(plane.client.clone(), "lab", resource);
        api.create(&dry, object).await.unwrap_or_else(|error| panic!("{}: {error}", resource.kind));
        let mut changes: Vec<(&str, Value)> =
            vec![("mode", Value::Null), ("mode", json!("some")), ("selector", json!("x"))];
        match resource.kind.as_str() {
            "TimeChaos" => {}
            "StressChaos" => {
                changes.push(("stressors", json!({"cpu": {"load": 100}})));
                changes.push(("stressors", json!({"cpu": {"workers": 1, "load": 101}})));
            }
            _ => changes.push(("action", json!("explode"))),
        }
        for (key, wrong) in changes {
            let mut object = object.clone();
            object.data["spec"][key] = wrong;
            let refused = api.create(&dry, &object).await;
            assert!(refused.is_err(), "{} with a wrong {key} was taken", resource.kind);
        }
    }
}

/// A topology; who carries a fault on it out, or why nobody can; and the fault.
const CARRIERS: &str = r#"
    sentinel; Chaos Mesh; fault = "kill", on = "master", for = "2s"
    single; the harness; fault = "kill", on = "client 1"
    single; the harness; fault = "flushall", on = "master"
    sentinel; Chaos Mesh; fault = "delay", on = "master -> replicas", with = { latency = "1s" }
    single; the harness; fault = "delay", on = "client 1 -> master", with = { latency = "1s" }
    single; the harness; fault = "hold", on = "client 1 -> master", with = { match = "EVALSHA" }
    masters; one pod; fault = "partition", on = "n1, client 1 | n2, n3, n4, n5, client 2"
    cluster; Chaos Mesh; fault = "cut", on = "clients <-> n1"
    single; Chaos Mesh; fault = "clock", on = "master", with = { jump = "5s" }
    cluster; Chaos Mesh; fault = "stress", on = "masters"
    single; no such chaos; fault = "pause", on = "master", for = "1s"
    single; own speed; fault = "clock", on = "master", with = { drift = "2%" }
    sentinel; one pod; fault = "cut", on = "client 1 <-> master"
    sentinel; no byte arrives wrong; fault = "corrupt", on = "master -> replicas", with = { rate = 0.1 }
    sentinel; bursts; fault = "loss", on = "master -> replicas", with = { rate = 0.1, burst = 3 }
    single; comes back; fault = "restart", on = "master", with = { after = "1s" }
"#;

#[test]
fn each_fault_has_its_carrier_or_a_reason() {
    let rows = CARRIERS.lines().filter(|row| !row.trim().is_empty());
    for row in rows {
        let cells: Vec<&str> = row.trim().split("; ").collect();
        let [kind, says, fault] = cells[..] else {
            panic!("three cells: {row}");
        };
        let text = format!("name = \"x\"\nfaults = [{{ {fault} }}]\ntopology.kind = \"{kind}\"\n");
        let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let found = match carrier(&scenario.faults[0], scenario.topology.kind) {
            Ok(Carrier::ChaosMesh) => "Chaos Mesh".to_owned(),
            Ok(Carrier::Harness) => "the harness".to_owned(),
            Err(why) => why,
        };
        assert!(found.contains(says), "{row}: {found}");
    }
}

#[test]
fn senders_with_the_same_receivers_share_an_object() {
    let link = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let links = [link("a", "b"), link("a", "c"), link("b", "a"), link("c", "a")];
    let with = Settings::new();
    let harm = FaultInjection {
        fault: "partition",
        with: &with,
        on: FaultTarget::Links(links.to_vec()),
        lasts: Some(Duration::from_secs(2)),
    };
    let made = harms(&harm, "lab", "run", "run-1").expect("a fault on links");
    let specs: Vec<_> = made.iter().map(|(_, object)| object.data["spec"].clone()).collect();
    assert_eq!(specs.len(), 2, "{specs:?}");
    assert_eq!(specs[0]["selector"]["pods"]["lab"], json!(["b", "c"]));
    assert_eq!(specs[0]["target"]["selector"]["pods"]["lab"], json!(["a"]));
    assert_eq!((&specs[0]["action"], &specs[0]["direction"]), (&"partition".into(), &"to".into()));
    assert_eq!(specs[0]["duration"], "62000ms");
}
