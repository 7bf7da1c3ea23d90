//! Turns a spec into typed objects, in the order in which they are applied.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvFromSource, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodSpec, Secret, SecretEnvSource,
    ServiceAccount, Volume, VolumeResourceRequirements,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use serde::Serialize;
use serde_json::Value;

use crate::chaos_mesh;
use crate::pods::{self, env, env_of_field, env_of_secret, mount, resources, template, volume};
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
    /// Makes an object from its type.
    pub fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            value: serde_json::to_value(object).expect("an object of the API is plain JSON"),
            yaml: serde_saphyr::to_string(object).expect("an object of the API is plain YAML"),
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
    let mut all = vec![Object::of(&config(spec))];
    if let Storage::Volume(class) = &spec.storage {
        all.push(Object::of(&claim(spec, class.as_deref())));
    }
    if spec.needs_chaos_mesh() {
        let (account, role, binding) = account(spec);
        all.extend([Object::of(&account), Object::of(&role), Object::of(&binding)]);
    }
    match &spec.servers {
        Servers::Pod => {}
        Servers::StatefulSet => {
            all.push(Object::of(&servers::service(spec)));
            all.push(Object::of(&servers::stateful_set(spec)));
        }
        Servers::Target { url } => all.push(Object::of(&Secret {
            metadata: meta(spec, "target"),
            string_data: Some(BTreeMap::from([("url".to_owned(), url.clone())])),
            ..Secret::default()
        })),
    }
    all.push(Object::of(&parts(spec)));
    all.push(Object::of(&merge(spec)));
    all
}

/// What an object of the run is called.
pub fn name(spec: &Spec, what: &str) -> String {
    format!("{}-{what}", spec.name)
}

pub(crate) fn labels(spec: &Spec, component: Option<&str>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "locklab".to_owned()),
        (RUN.to_owned(), spec.name.clone()),
    ]);
    labels.extend(component.map(|component| (COMPONENT.to_owned(), component.to_owned())));
    labels
}

pub(crate) fn meta(spec: &Spec, what: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(spec, what)),
        namespace: Some(spec.namespace.clone()),
        labels: Some(labels(spec, None)),
        ..ObjectMeta::default()
    }
}

fn config(spec: &Spec) -> ConfigMap {
    let mut data = BTreeMap::from([
        ("merge.sh", include_str!("scripts/merge.sh").to_owned()),
        ("part.sh", include_str!("scripts/part.sh").to_owned()),
        ("scenario.toml", spec.text.clone()),
    ]);
    if spec.servers == Servers::StatefulSet {
        data.insert("server.conf", servers::conf(&spec.scenario.topology));
        data.insert("server.sh", include_str!("scripts/server.sh").to_owned());
    }
    if matches!(spec.storage, Storage::Bucket { .. }) {
        data.insert("store.sh", include_str!("scripts/store.sh").to_owned());
    }
    ConfigMap {
        metadata: meta(spec, "config"),
        data: Some(data.into_iter().map(|(key, text)| (key.to_owned(), text)).collect()),
        ..ConfigMap::default()
    }
}

fn claim(spec: &Spec, class: Option<&str>) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: meta(spec, "results"),
        spec: Some(PersistentVolumeClaimSpec {
            // Parts are on many nodes, and all write.
            access_modes: Some(vec!["ReadWriteMany".to_owned()]),
            storage_class_name: class.map(str::to_owned),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(CLAIM_SIZE.to_owned()))])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// A part's permissions where Chaos Mesh does the harm: pods and Chaos Mesh's objects, in its namespace.
fn account(spec: &Spec) -> (ServiceAccount, Role, RoleBinding) {
    let metadata = meta(spec, "part");
    let rule = |group: &str, what: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(words(what.iter().copied())),
        verbs: words(verbs.iter().copied()),
        ..PolicyRule::default()
    };
    let kinds = chaos_mesh::kinds();
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.plural.as_str()).collect();
    let role = Role {
        metadata: metadata.clone(),
        rules: Some(vec![
            rule("", &["pods"], &["get", "list"]),
            rule("chaos-mesh.org", &kinds, &["create", "get", "delete"]),
        ]),
    };
    let binding = RoleBinding {
        metadata: metadata.clone(),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: name(spec, "part"),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name(spec, "part"),
            namespace: Some(spec.namespace.clone()),
            ..Subject::default()
        }]),
    };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    (account, role, binding)
}

pub(crate) fn config_volume(spec: &Spec) -> Volume {
    Volume {
        config_map: Some(ConfigMapVolumeSource {
            name: name(spec, "config"),
            ..ConfigMapVolumeSource::default()
        }),
        ..volume("config")
    }
}

fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// A container that runs one of our scripts with the results before it.
fn worker(spec: &Spec, component: &str) -> Container {
    let mut results = mount("results", "/results");
    if matches!(spec.storage, Storage::Claim(_)) {
        // An existing claim may hold other data: the run has a folder of its own in it.
        results.sub_path = Some(spec.name.clone());
    }
    Container {
        name: component.to_owned(),
        image: Some(spec.image.clone()),
        command: Some(vec!["sh".to_owned(), format!("/locklab/{component}.sh")]),
        resources: Some(resources(&spec.cpu, &spec.memory)),
        volume_mounts: Some(vec![mount("config", "/locklab"), results]),
        security_context: Some(pods::confined()),
        ..Container::default()
    }
}

/// The pod of a worker. For a bucket, a second container uploads the results and ends after the worker.
fn pod(spec: &Spec, component: &str, container: Container) -> PodSpec {
    let mut pod = PodSpec {
        containers: vec![container],
        restart_policy: Some("Never".to_owned()),
        // Long enough for faults to be healed, and for keys to be removed from somebody's servers.
        termination_grace_period_seconds: Some(60),
        affinity: Some(pods::apart(labels(spec, Some(component)))),
        ..pods::restricted()
    };
    let claimed = |claim_name: String| Volume {
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name,
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..volume("results")
    };
    let results = match &spec.storage {
        Storage::Volume(_) => claimed(name(spec, "results")),
        Storage::Claim(claim) => claimed(claim.clone()),
        Storage::Bucket { path, secret } => {
            let store = |name: &str, arg: Option<&str>| Container {
                name: name.to_owned(),
                image: Some(RCLONE.to_owned()),
                command: Some(words(["sh", "/locklab/store.sh"].into_iter().chain(arg))),
                env: Some(vec![env("BUCKET", &format!(":s3:{path}/{}", spec.name))]),
                env_from: Some(vec![EnvFromSource {
                    secret_ref: Some(SecretEnvSource { name: secret.clone(), ..SecretEnvSource::default() }),
                    ..EnvFromSource::default()
                }]),
                ..worker(spec, "part")
            };
            let first = match component {
                "merge" => "fetch",
                _ => "check",
            };
            let beside = Container { restart_policy: Some("Always".to_owned()), ..store("store", None) };
            pod.init_containers = Some(vec![store(first, Some(first)), beside]);
            Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..volume("results") }
        }
    };
    pod.volumes = Some(vec![config_volume(spec), results]);
    pod
}

fn parts(spec: &Spec) -> Job {
    let mut container = worker(spec, "part");
    let mut args = Vec::new();
    let mut flag = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    flag("--seed", &spec.seed.to_string());
    flag("--repeat", &spec.repeat.to_string());
    if let Some(subject) = &spec.subject {
        flag("--subject", subject);
    }
    let mut variables =
        vec![env("LOCKLAB_PARTS", &spec.parts.to_string()), env_of_field("POD_NAME", "metadata.name")];
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
            variables.push(env_of_secret("TARGET", &name(spec, "target"), "url"));
            args.push("--yes-this-is-mine".to_owned());
        }
    }
    container.args = Some(args);
    container.env = Some(variables);
    let mut pod = pod(spec, "part", container);
    if spec.needs_chaos_mesh() {
        pod.service_account_name = Some(name(spec, "part"));
        pod.automount_service_account_token = Some(true);
    }
    let parts = Some(signed(spec.parts));
    Job {
        metadata: meta(spec, "parts"),
        spec: Some(JobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: parts,
            parallelism: parts,
            backoff_limit_per_index: Some(TRIES_MORE),
            pod_failure_policy: Some(PodFailurePolicy {
                rules: vec![
                    on_exit_codes("FailIndex", "part"),
                    // A pod that the cluster evicts is retried, and that counts as no failure.
                    PodFailurePolicyRule {
                        action: "Ignore".to_owned(),
                        on_exit_codes: None,
                        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                            type_: "DisruptionTarget".to_owned(),
                            status: "True".to_owned(),
                        }]),
                    },
                ],
            }),
            template: template(labels(spec, Some("part")), pod),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn merge(spec: &Spec) -> Job {
    let pod = pod(spec, "merge", worker(spec, "merge"));
    Job {
        metadata: meta(spec, "merge"),
        spec: Some(JobSpec {
            suspend: Some(true),
            backoff_limit: Some(TRIES_MORE),
            pod_failure_policy: Some(PodFailurePolicy { rules: vec![on_exit_codes("FailJob", "merge")] }),
            template: template(labels(spec, Some("merge")), pod),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn on_exit_codes(action: &str, container: &str) -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: action.to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(container.to_owned()),
            operator: "In".to_owned(),
            values: FINAL.to_vec(),
        }),
        on_pod_conditions: None,
    }
}

pub(crate) fn signed(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
