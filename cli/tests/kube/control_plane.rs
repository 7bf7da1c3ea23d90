//! A real API server with the controllers of jobs and stateful sets, on loopback, for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubernetes::k8s_openapi::api::core::v1::Namespace;
use kubernetes::kube::api::PostParams;
use kubernetes::kube::config::{KubeConfigOptions, Kubeconfig};
use kubernetes::kube::{Api, Client, Config};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{free_port, skipped};

/// Where `up.sh` is that starts one; else it is looked for beside the project, and where `make control-plane`
/// builds it.
const PLACE: &str = "LOCKLAB_CONTROL_PLANE";
/// A busy machine may be too slow once.
const TRIES: u32 = 3;

/// Ends with its drop.
pub(crate) struct ControlPlane {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    state: State,
    _turn: MutexGuard<'static, ()>,
}

/// Its processes and files. They end with its drop.
struct State(tempfile::TempDir);

impl State {
    /// What `up.sh` prints; `None`: it gave up, as it does where its server starts slower than it waits.
    fn up(script: &Path) -> Option<(Self, Vec<u8>)> {
        let state = Self(tempfile::tempdir().expect("a temporary directory"));
        let mut command = Command::new("bash");
        command.arg(script).arg(state.0.path()).arg(free_port().to_string());
        let output = command.output().expect("bash runs");
        output.status.success().then_some((state, output.stdout))
    }
}

impl ControlPlane {
    /// Starts one with a namespace `lab`. `None`: this machine has none, and the test says that it is
    /// skipped.
    pub(crate) async fn start() -> Option<Self> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/control-plane");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/control-plane");
        let here = if own.join("control-plane").is_file() { own } else { beside };
        let place = std::env::var_os(PLACE).map_or(here, PathBuf::from);
        let up = place.join("up.sh");
        if !up.is_file() {
            skipped(&format!(
                "no control plane: {} is not there, {PLACE} names no other, and `make control-plane` built none",
                up.display()
            ));
            return None;
        }
        // One after another: three at once need more of a small machine than they get.
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let (state, stdout) = (0..TRIES).find_map(|_| State::up(&up)).expect("a control plane that starts");
        let file = Kubeconfig::read_from(state_file(&stdout)).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let plane = Self { client, kubeconfig: state.0.path().join("kubeconfig"), state, _turn: turn };
        let lab = Namespace {
            metadata: kubernetes::kube::api::ObjectMeta {
                name: Some("lab".to_owned()),
                ..Default::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(plane.client.clone());
        namespaces.create(&PostParams::default(), &lab).await.expect("a namespace");
        Some(plane)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.state.0.path()
    }
}

/// `KUBECONFIG=…` is the last line that it prints.
fn state_file(stdout: &[u8]) -> PathBuf {
    let said = String::from_utf8_lossy(stdout);
    let line = said.lines().last().unwrap_or_default();
    PathBuf::from(line.strip_prefix("KUBECONFIG=").expect("it says where"))
}

impl Drop for State {
    fn drop(&mut self) {
        for name in ["controllers", "apiserver", "etcd"] {
            let pid = fs::read_to_string(self.0.path().join(format!("{name}.pid"))).unwrap_or_default();
            if let Ok(pid) = pid.trim().parse() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
