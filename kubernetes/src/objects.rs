//! Turns a spec into typed objects, in the order in which they are applied.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use kube::api::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::chaos_mesh::{self, joined};
use crate::servers;
use crate::spec::{Servers, Spec, Storage};

/// The label that tells the objects of one run.
pub const RUN: &str = "app.kubernetes.io/instance";
/// The label that says what a pod of a run is: `part`, `server` or `merge`.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Retries of a part that failed for a reason that may pass.
const TRIES_MORE: i32 = 3;
/// Exit codes that end a part for good: 1 and 2 are its verdict, and the others would repeat. 69, a server
/// that does not answer, and signals are not among them.
const FINAL: [i32; 5] = [1, 2, 64, 65, 70];
/// The size of a run's own claim.
const CLAIM_SIZE: &str = "10Gi";
const RCLONE: &str = "rclone/rclone:1";
const USER: i64 = 10_001;

/// An object of the API, with its type kept beside it.
#[derive(Debug, Clone)]
pub struct Object {
    /// The object's kind and its place in the API.
    pub resource: ApiResource,
    /// The object.
    pub value: Value,
    /// The object as a YAML document.
    pub yaml: String,
}

impl Object {
    /// Makes an object of this type, with its name in the run; what is `null` among the fields is left out.
    fn of<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>(
        spec: &Spec,
        what: &str,
        fields: Value,
    ) -> Self {
        let meta = json!({"metadata": {
            "name": name(spec, what), "namespace": spec.namespace, "labels": labels(spec, None),
        }});
        let object: K = serde_json::from_value(joined(meta, fields)).expect("fields of this type");
        Self {
            resource: ApiResource::erase::<K>(&()),
            value: serde_json::to_value(&object).expect("an object of the API is plain JSON"),
            yaml: serde_saphyr::to_string(&object).expect("an object of the API is plain YAML"),
        }
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// All documents of a spec, with `---` between them.
pub fn yaml(objects: &[Object]) -> String {
    let documents: Vec<&str> = objects.iter().map(|object| object.yaml.as_str()).collect();
    documents.join("---\n")
}

/// All objects of a run. The merge job is last and suspended: the caller resumes it after the parts.
pub fn objects(spec: &Spec) -> Vec<Object> {
    let mut all = vec![Object::of::<ConfigMap>(spec, "config", json!({"data": config(spec)}))];
    if let Storage::Volume(class) = &spec.storage {
        // Parts are on many nodes, and all write.
        let claim = json!({"spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": class,
            "resources": {"requests": {"storage": CLAIM_SIZE}},
        }});
        all.push(Object::of::<PersistentVolumeClaim>(spec, "results", claim));
    }
    if spec.needs_chaos_mesh() {
        all.extend(account(spec));
    }
    match &spec.servers {
        Servers::Pod => {}
        Servers::StatefulSet => {
            all.push(Object::of::<Service>(spec, "servers", servers::service(spec)));
            all.push(Object::of::<StatefulSet>(spec, "servers", servers::stateful_set(spec)));
        }
        Servers::Target { url } => {
            all.push(Object::of::<Secret>(spec, "target", json!({"stringData": {"url": url}})));
        }
    }
    all.push(Object::of::<Job>(spec, "parts", parts(spec)));
    all.push(Object::of::<Job>(spec, "merge", merge(spec)));
    all
}

/// What an object of the run is called.
pub fn name(spec: &Spec, what: &str) -> String {
    format!("{}-{what}", spec.name)
}

pub(crate) fn labels(spec: &Spec, component: Option<&str>) -> Value {
    let mut labels = json!({"app.kubernetes.io/name": "locklab", RUN: spec.name});
    if let Some(component) = component {
        labels[COMPONENT] = component.into();
    }
    labels
}

fn config(spec: &Spec) -> Value {
    let mut data = json!({
        "merge.sh": include_str!("scripts/merge.sh"),
        "part.sh": include_str!("scripts/part.sh"),
        "scenario.toml": spec.text,
    });
    if spec.servers == Servers::StatefulSet {
        data["server.conf"] = servers::conf(&spec.scenario.topology).into();
        data["server.sh"] = include_str!("scripts/server.sh").into();
    }
    if matches!(spec.storage, Storage::Bucket { .. }) {
        data["store.sh"] = include_str!("scripts/store.sh").into();
    }
    data
}

/// A part's permissions where Chaos Mesh does the harm: pods and Chaos Mesh's objects, in its namespace.
fn account(spec: &Spec) -> [Object; 3] {
    let kinds = chaos_mesh::kinds().map(|kind| kind.plural);
    let name = name(spec, "part");
    let role = json!({"rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["chaos-mesh.org"], "resources": kinds, "verbs": ["create", "get", "delete"]},
    ]});
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": spec.namespace}],
    });
    [
        Object::of::<ServiceAccount>(spec, "part", json!({})),
        Object::of::<Role>(spec, "part", role),
        Object::of::<RoleBinding>(spec, "part", binding),
    ]
}

pub(crate) fn config_volume(spec: &Spec) -> Value {
    json!({"name": "config", "configMap": {"name": name(spec, "config")}})
}

pub(crate) fn env(name: &str, value: impl ToString) -> Value {
    json!({"name": name, "value": value.to_string()})
}

pub(crate) fn env_of_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// A container without privileges. So much of the node is reserved for it, and no more is had: a part that
/// shares its processor measures its neighbour.
pub(crate) fn container(name: &str, image: &str, cpu: &str, memory: &str, fields: Value) -> Value {
    let reserved = json!({"cpu": cpu, "memory": memory});
    let common = json!({
        "name": name,
        "image": image,
        "resources": {"requests": reserved, "limits": reserved},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    joined(common, fields)
}

/// Pods as the Pod Security Standard `restricted` wants them, without a word to the API, and on one node each
/// where there are enough.
pub(crate) fn template(spec: &Spec, component: &str, pod: Value) -> Value {
    let labels = labels(spec, Some(component));
    let common = json!({
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": labels},
                "topologyKey": "kubernetes.io/hostname",
            },
        }]}},
    });
    json!({"metadata": {"labels": labels}, "spec": joined(common, pod)})
}

/// A container that runs one of our scripts with the results before it.
fn worker(spec: &Spec, component: &str, fields: Value) -> Value {
    // An existing claim may hold other data: the run has a folder of its own in it.
    let folder = matches!(spec.storage, Storage::Claim(_)).then_some(&spec.name);
    let common = json!({
        "command": ["sh", format!("/locklab/{component}.sh")],
        "volumeMounts": [
            {"name": "config", "mountPath": "/locklab"},
            {"name": "results", "mountPath": "/results", "subPath": folder},
        ],
    });
    container(component, &spec.image, &spec.cpu, &spec.memory, joined(common, fields))
}

/// The pod of a worker. For a bucket, a second container uploads the results and ends after the worker.
fn pod(spec: &Spec, component: &str, container: Value) -> Value {
    let mut pod = json!({
        "containers": [container],
        "restartPolicy": "Never",
        // Long enough for faults to be healed, and for keys to be removed from somebody's servers.
        "terminationGracePeriodSeconds": 60,
    });
    let claimed = |claim: &str| json!({"name": "results", "persistentVolumeClaim": {"claimName": claim}});
    let results = match &spec.storage {
        Storage::Volume(_) => claimed(&name(spec, "results")),
        Storage::Claim(claim) => claimed(claim),
        Storage::Bucket { path, secret } => {
            let store = |name: &str, args: &[&str], restart: Option<&str>| {
                let command = [&["sh", "/locklab/store.sh"][..], args].concat();
                let fields = json!({
                    "name": name,
                    "image": RCLONE,
                    "command": command,
                    "env": [env("BUCKET", format!(":s3:{path}/{}", spec.name))],
                    "envFrom": [{"secretRef": {"name": secret}}],
                    "restartPolicy": restart,
                });
                worker(spec, "part", fields)
            };
            let first = if component == "merge" { "fetch" } else { "check" };
            pod["initContainers"] =
                json!([store(first, &[first], None), store("store", &[], Some("Always"))]);
            json!({"name": "results", "emptyDir": {}})
        }
    };
    pod["volumes"] = json!([config_volume(spec), results]);
    pod
}

fn parts(spec: &Spec) -> Value {
    let mut args = Vec::new();
    let mut flag = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    flag("--seed", &spec.seed.to_string());
    flag("--repeat", &spec.repeat.to_string());
    if let Some(subject) = &spec.subject {
        flag("--subject", subject);
    }
    let mut variables = vec![env("LOCKLAB_PARTS", spec.parts), env_of_field("POD_NAME", "metadata.name")];
    if spec.servers != Servers::Pod {
        // `--allow` without servers of somebody's is wrong usage.
        if !spec.allow.is_empty() {
            flag("--allow", &spec.allow.join(","));
        }
        if spec.needs_chaos_mesh() {
            flag("--chaos-mesh", &spec.namespace);
            variables.push(env("LOCKLAB_RUN", &spec.name));
        }
    }
    match &spec.servers {
        Servers::StatefulSet => variables.extend(servers::variables_of_a_part(spec)),
        Servers::Pod => {}
        Servers::Target { .. } => {
            let key = json!({"name": name(spec, "target"), "key": "url"});
            variables.push(json!({"name": "TARGET", "valueFrom": {"secretKeyRef": key}}));
            args.push("--yes-this-is-mine".to_owned());
        }
    }
    let mut pod = pod(spec, "part", worker(spec, "part", json!({"args": args, "env": variables})));
    if spec.needs_chaos_mesh() {
        pod["serviceAccountName"] = name(spec, "part").into();
        pod["automountServiceAccountToken"] = true.into();
    }
    // A pod that the cluster evicts is retried, and that counts as no failure.
    let evicted = json!({
        "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    });
    json!({"spec": {
        "completionMode": "Indexed",
        "completions": spec.parts,
        "parallelism": spec.parts,
        "backoffLimitPerIndex": TRIES_MORE,
        "podFailurePolicy": {"rules": [on_exit_codes("FailIndex", "part"), evicted]},
        "template": template(spec, "part", pod),
    }})
}

fn merge(spec: &Spec) -> Value {
    json!({"spec": {
        "suspend": true,
        "backoffLimit": TRIES_MORE,
        "podFailurePolicy": {"rules": [on_exit_codes("FailJob", "merge")]},
        "template": template(spec, "merge", pod(spec, "merge", worker(spec, "merge", json!({})))),
    }})
}

fn on_exit_codes(action: &str, container: &str) -> Value {
    let codes = json!({"containerName": container, "operator": "In", "values": FINAL});
    json!({"action": action, "onExitCodes": codes})
}
