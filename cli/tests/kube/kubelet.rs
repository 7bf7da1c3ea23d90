//! A kubelet for tests that runs pods as local processes: their first container's command with its
//! environment, its volumes as directories.
//!
//! What it lacks of a real one: no image is pulled and nothing is confined; a path that a volume is mounted
//! at is replaced, in arguments and in what a config map holds, with that of a directory; there is no cluster
//! DNS, so the two variables that the names of servers are made of are given addresses. It answers the API
//! server for logs alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kubernetes::k8s_openapi::api::core::v1::{
    ConfigMap, Container, Node, PersistentVolumeClaim, Pod, Secret,
};
use kubernetes::k8s_openapi::jiff;
use kubernetes::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kubernetes::kube::{Api, Client};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The node that the control plane of these tests binds every pod to.
const NODE: &str = "proc-node";
const TICK: Duration = Duration::from_millis(100);

struct Running {
    name: String,
    child: Child,
    ip: String,
    since: String,
    ended: Option<i32>,
    /// When it was told to end.
    told: Option<Instant>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        // One that has ended meanwhile is what was wanted.
        let _ = killpg(group, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

type Pods = Arc<Mutex<BTreeMap<String, Running>>>;

/// Runs pods until it is dropped, and ends them then.
pub(crate) struct Kubelet {
    pods: Pods,
    tasks: Vec<JoinHandle<()>>,
}

impl Kubelet {
    pub(crate) async fn start(client: Client, kubeconfig: &Path, dir: &Path) -> Self {
        let pods = Pods::default();
        let logs = dir.join("logs");
        fs::create_dir_all(&logs).expect("a directory for logs");
        let (port, serving) = serve_logs(logs).await;
        register(&client, port).await;
        static KUBELETS: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id() + 37 * KUBELETS.fetch_add(1, Ordering::Relaxed);
        let at =
            At { client, net: 60 + number % 150, dir: dir.to_owned(), kubeconfig: kubeconfig.to_owned() };
        let own = pods.clone();
        let looking = tokio::spawn(async move {
            loop {
                at.look(&own).await;
                tokio::time::sleep(TICK).await;
            }
        });
        Self { pods, tasks: vec![serving, looking] }
    }

    /// SIGKILL to a pod's processes, as when its node runs out of memory. Gives whether one of that beginning
    /// ran.
    pub(crate) fn kill(&self, beginning: &str) -> bool {
        let pods = self.pods.lock().expect("no test panics with it");
        let found = pods.values().find(|pod| pod.name.starts_with(beginning) && pod.ended.is_none());
        found.map(|pod| pod.signal(Signal::SIGKILL)).is_some()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.pods.lock().expect("no test panics with it").clear();
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn register(client: &Client, port: u16) {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"});
    let node = json!({"metadata": {"name": NODE, "labels": labels}});
    let node = serde_json::from_value(node).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("a node is made");
    let room = json!({"cpu": "64", "memory": "64Gi", "pods": "110"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "ProcessKubelet", "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }});
    let how = PatchParams::default();
    nodes.patch_status(NODE, &how, &Patch::Strategic(status)).await.expect("its status");
    let untainted = json!({"spec": {"taints": null}});
    nodes.patch(NODE, &how, &Patch::Merge(untainted)).await.expect("no taint");
}

struct At {
    client: Client,
    /// The second number of all its pods' addresses: tests run side by side.
    net: u32,
    dir: PathBuf,
    kubeconfig: PathBuf,
}

impl At {
    /// One look at all pods: starts, ends, and says what has become of them.
    async fn look(&self, running: &Pods) {
        self.release_claims().await;
        let all: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={NODE}"));
        let Ok(found) = all.list(&here).await else {
            return;
        };
        let there: Vec<Option<&String>> = found.iter().map(|pod| pod.metadata.uid.as_ref()).collect();
        // Those that somebody has deleted by force: the API has forgotten them.
        running.lock().expect("no test panics with it").retain(|uid, _| there.contains(&Some(uid)));
        for pod in found {
            let uid = pod.metadata.uid.clone().expect("a pod of the API has one");
            let known = running.lock().expect("no test panics with it").contains_key(&uid);
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if pod.metadata.deletion_timestamp.is_some() {
                self.end(&pod, &uid, running).await;
            } else if !known && phase == Some("Pending") {
                let one = self.begin(&pod).await;
                let status = status(&pod, &one);
                running.lock().expect("no test panics with it").insert(uid, one);
                self.say(&pod, status).await;
            } else if known {
                let status = {
                    let mut running = running.lock().expect("no test panics with it");
                    let one = running.get_mut(&uid).expect("it is known");
                    match (one.ended, one.child.try_wait()) {
                        (None, Ok(Some(ended))) => {
                            one.ended = Some(code(ended));
                            Some(status(&pod, one))
                        }
                        _ => None,
                    }
                };
                if let Some(status) = status {
                    self.say(&pod, status).await;
                }
            }
        }
    }

    /// What the controller does that protects claims in use, and that this control plane has not: a claim
    /// that is to go may go.
    async fn release_claims(&self) {
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        let found = claims.list(&ListParams::default()).await;
        let going = found.into_iter().flatten().filter(|claim| claim.metadata.deletion_timestamp.is_some());
        for claim in going {
            let (name, namespace) =
                (claim.metadata.name.unwrap_or_default(), claim.metadata.namespace.unwrap_or_default());
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
            // It is gone for good, with what is in it.
            let _ = fs::remove_dir_all(self.dir.join("claims").join(&name));
            let free = json!({"metadata": {"finalizers": null}});
            let _ = claims.patch(&name, &PatchParams::default(), &Patch::Merge(free)).await;
        }
    }

    /// SIGTERM, after the grace period SIGKILL, and when the processes are gone the API may forget the pod.
    async fn end(&self, pod: &Pod, uid: &str, running: &Pods) {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        let ended = {
            let mut running = running.lock().expect("no test panics with it");
            match running.get_mut(uid) {
                None => None,
                Some(one) => {
                    match one.told {
                        None => {
                            one.signal(Signal::SIGTERM);
                            one.told = Some(Instant::now());
                        }
                        Some(told) if told.elapsed() > Duration::from_secs(grace.unsigned_abs()) => {
                            one.signal(Signal::SIGKILL)
                        }
                        Some(_) => {}
                    }
                    match one.child.try_wait() {
                        Ok(Some(ended)) => {
                            one.ended = Some(code(ended));
                            Some(status(pod, one))
                        }
                        _ => return,
                    }
                }
            }
        };
        if let Some(status) = ended {
            self.say(pod, status).await;
        }
        let (name, namespace) = names(pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        // A job's pod stays until the job has counted it.
        let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        running.lock().expect("no test panics with it").remove(uid);
    }

    async fn say(&self, pod: &Pod, status: Value) {
        let (name, namespace) = names(pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        // A pod that is gone needs no status.
        let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await;
    }

    async fn begin(&self, pod: &Pod) -> Running {
        let (name, _) = names(pod);
        let spec = pod.spec.as_ref().expect("a pod has a spec");
        let container = &spec.containers[0];
        let ip = address(self.net, &name);
        let mounts = self.mounts(pod, container).await;
        let here = |text: &str| mounts.iter().fold(text.to_owned(), |text, (at, dir)| text.replace(at, dir));
        let words = [&container.command, &container.args].into_iter().flatten().flatten();
        let words: Vec<String> = words.map(|word| here(word)).collect();
        let log = File::create(self.dir.join("logs").join(&name)).expect("a log");
        let path = Path::new(env!("CARGO_BIN_EXE_locklab")).parent().expect("it is in a directory");
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default());
        let work = self.dir.join("work").join(&name);
        fs::create_dir_all(&work).expect("a working directory");
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(work)
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOSTNAME", name.as_str())])
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(self.environment(pod, container, &ip).await)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .process_group(0);
        Running {
            child: command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}")),
            name,
            ip,
            since: now(),
            ended: None,
            told: None,
        }
    }

    async fn environment(&self, pod: &Pod, container: &Container, ip: &str) -> Vec<(String, String)> {
        let (name, namespace) = names(pod);
        let none = BTreeMap::new();
        let annotations = pod.metadata.annotations.as_ref().unwrap_or(&none);
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let mut all = Vec::new();
        for variable in container.env.iter().flatten() {
            let source = variable.value_from.as_ref();
            let value = match (&variable.value, source.and_then(|source| source.field_ref.as_ref())) {
                // What DNS would do.
                (Some(_), _) if variable.name == "HOST_BEFORE" => format!("127.{}.0.", self.net),
                (Some(_), _) if variable.name == "HOST_AFTER" => String::new(),
                (Some(value), _) => value.clone(),
                (None, Some(field)) => {
                    let key = field.field_path.split('\'').nth(1).unwrap_or_default();
                    match field.field_path.as_str() {
                        "metadata.name" => name.clone(),
                        "metadata.namespace" => namespace.clone(),
                        "status.podIP" => ip.to_owned(),
                        path if path.starts_with("metadata.labels") => {
                            labels.get(key).cloned().unwrap_or_default()
                        }
                        path if path.starts_with("metadata.annotations") => {
                            annotations.get(key).cloned().unwrap_or_default()
                        }
                        path => panic!("no field {path} here"),
                    }
                }
                // What is empty the API leaves out.
                (None, None) if source.is_none() => String::new(),
                (None, None) => {
                    let key = source
                        .and_then(|source| source.secret_key_ref.as_ref())
                        .expect("a field or a secret");
                    let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
                    let data = secrets.get(&key.name).await.expect("the secret is there").data;
                    let value = data.and_then(|mut data| data.remove(&key.key)).expect("its key is there");
                    String::from_utf8(value.0).expect("text")
                }
            };
            all.push((variable.name.clone(), value));
        }
        all
    }

    /// Where the container has its volumes, and the directories that stand for them.
    async fn mounts(&self, pod: &Pod, container: &Container) -> Vec<(String, String)> {
        let (_, namespace) = names(pod);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut found = Vec::new();
        let mut configs = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            let volume =
                volumes.into_iter().find(|volume| volume.name == mount.name).expect("a volume of that name");
            let dir = match &volume.persistent_volume_claim {
                Some(claim) => self.dir.join("claims").join(&claim.claim_name),
                None => self.dir.join("volumes").join(&uid).join(&volume.name),
            };
            let dir = dir.join(mount.sub_path.as_deref().unwrap_or_default());
            fs::create_dir_all(&dir).expect("a volume's directory");
            configs.extend(volume.config_map.as_ref().map(|config| (config.name.clone(), dir.clone())));
            found.push((mount.mount_path.clone(), dir.to_string_lossy().into_owned()));
        }
        for (name, dir) in configs {
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
            let data = maps.get(&name).await.expect("the config map is there").data;
            for (key, text) in data.into_iter().flatten() {
                let text = found.iter().fold(text, |text, (at, dir)| text.replace(at, dir));
                fs::write(dir.join(key), text).expect("a file of a config map");
            }
        }
        found
    }
}

fn names(pod: &Pod) -> (String, String) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&pod.metadata.name), text(&pod.metadata.namespace))
}

/// The same address whenever a pod of this name comes: servers by their number, others by their name.
fn address(net: u32, name: &str) -> String {
    match name.rsplit_once("-servers-") {
        Some((_, number)) => format!("127.{net}.0.{number}"),
        None => {
            let sum =
                name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
            format!("127.{net}.{}.{}", 1 + sum % 250, 1 + sum / 250 % 250)
        }
    }
}

fn code(ended: ExitStatus) -> i32 {
    ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0))
}

fn status(pod: &Pod, one: &Running) -> Value {
    let ready = one.ended.is_none();
    let state = match one.ended {
        None => json!({"running": {"startedAt": one.since}}),
        Some(code) => {
            json!({"terminated": {"exitCode": code, "reason": "ProcessEnded", "startedAt": one.since, "finishedAt": now()}})
        }
    };
    let phase = match one.ended {
        None => "Running",
        Some(0) => "Succeeded",
        Some(_) => "Failed",
    };
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now()});
    let container = pod.spec.iter().flat_map(|spec| &spec.containers).next().expect("a container");
    json!({"status": {
        "phase": phase, "podIP": one.ip, "podIPs": [{"ip": one.ip}], "hostIP": "127.0.0.1", "startTime": one.since,
        "conditions": [condition("Initialized", true), condition("Ready", ready), condition("ContainersReady", ready)],
        "containerStatuses": [{
            "name": container.name, "image": container.image, "imageID": "process", "restartCount": 0,
            "containerID": format!("process://{}", one.child.id()), "ready": ready, "started": ready, "state": state,
        }],
    }})
}

/// Answers `GET /containerLogs/NAMESPACE/POD/CONTAINER`, by TLS with a certificate of its own, as a kubelet
/// does.
async fn serve_logs(logs: PathBuf) -> (u16, JoinHandle<()>) {
    let own = rcgen::generate_simple_self_signed([NODE.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .expect("a certificate with its key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("its number").port();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, logs) = (acceptor.clone(), logs.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n")
                    && stream.read_buf(&mut asked).await.is_ok_and(|read| read > 0)
                {}
                let asked = String::from_utf8_lossy(&asked).into_owned();
                let pod = asked.split(['/', ' ', '?']).nth(4).unwrap_or_default();
                let log = fs::read(logs.join(pod)).unwrap_or_default();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    log.len()
                );
                let _ = stream.write_all(&[head.as_bytes(), &log].concat()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, serving)
}
