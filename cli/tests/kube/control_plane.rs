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

use crate::support::{free_port, skipped};

/// Where `up.sh` is that starts one; else it is looked for beside the project.
const PLACE: &str = "LOCKLAB_CONTROL_PLANE";

/// Ends with its drop.
pub(crate) struct ControlPlane {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    state: tempfile::TempDir,
}

impl ControlPlane {
    /// Starts one with a namespace `lab`. `None`: this machine has none, and the test says that it is skipped.
    pub(crate) async fn start() -> Option<Self> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/control-plane");
        let place = std::env::var_os(PLACE).map_or(beside, PathBuf::from);
        let up = place.join("up.sh");
        if !up.is_file() {
            skipped(&format!(
                "no control plane: {} is not there, and {PLACE} names no other",
                up.display()
            ));
            return None;
        }
        let state = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new("bash")
            .arg(&up)
            .arg(state.path())
            .arg(free_port().to_string())
            .output();
        let output = output.expect("bash runs");
        // From here on a panic ends what has been started.
        let plane = |client| Self {
            client,
            kubeconfig: state.path().join("kubeconfig"),
            state,
        };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let file = Kubeconfig::read_from(state_file(&output.stdout)).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let plane = plane(client);
        let lab = Namespace {
            metadata: kubernetes::kube::api::ObjectMeta {
                name: Some("lab".to_owned()),
                ..Default::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(plane.client.clone());
        namespaces
            .create(&PostParams::default(), &lab)
            .await
            .expect("a namespace");
        Some(plane)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.state.path()
    }
}

/// `KUBECONFIG=…` is the last line that it prints.
fn state_file(stdout: &[u8]) -> PathBuf {
    let said = String::from_utf8_lossy(stdout);
    let line = said.lines().last().unwrap_or_default();
    PathBuf::from(line.strip_prefix("KUBECONFIG=").expect("it says where"))
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for name in ["controllers", "apiserver", "etcd"] {
            let pid =
                fs::read_to_string(self.dir().join(format!("{name}.pid"))).unwrap_or_default();
            if let Ok(pid) = pid.trim().parse() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
