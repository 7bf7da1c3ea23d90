//! `locklab kube` against a real API server with its controllers; pods run as local processes.
#![cfg(feature = "kube")]

mod chaos_mesh;
mod control_plane;
mod kubelet;
mod packed_run;
mod schemas;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use kubelet::Kubelet;
use kubernetes::k8s_openapi::api::batch::v1::Job;
use kubernetes::k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kubernetes::kube::Api;
use kubernetes::kube::api::ListParams;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{code, locklab, run, stderr, stdout};

const SHARED: &str = "name = \"shared\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"3s\"\nhold = \"1ms\"\n[expect]\ncontract = \"clean\"\n";

/// Of a seed: as expected or not, and the state of each verdict.
type Judged = (u64, bool, Vec<(String, String)>);

/// What a run says of each seed.
fn verdicts(output: &Output) -> Vec<Judged> {
    let document: Value =
        serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)));
    let scenarios = document["scenarios"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<_> = scenarios
        .iter()
        .map(|one| {
            let states = one["verdicts"].as_object().into_iter().flatten();
            let states = states.map(|(class, verdict)| (class.clone(), verdict["state"].to_string()));
            (one["seed"].as_u64().unwrap_or_default(), one["as_expected"] == true, states.collect())
        })
        .collect();
    all.sort();
    all
}

/// `kube run` under way.
fn begin(plane: &ControlPlane, dir: &Path, args: &[&str]) -> Child {
    let mut command = locklab(dir);
    command.args(["kube", "run"]).args(args);
    command.args(["--namespace", "lab", "--yes-this-is-mine", "--json"]);
    command.env("KUBECONFIG", &plane.kubeconfig).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("locklab runs")
}

/// Waits for it for two minutes, and then ends it: its output says how far it came.
async fn end(child: Child) -> Output {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output().expect("it ends"));
    let mut ended = std::pin::pin!(ended);
    match tokio::time::timeout(Duration::from_secs(120), &mut ended).await {
        Ok(ended) => ended.expect("no panic"),
        Err(_) => {
            kill(pid, Signal::SIGKILL).expect("it runs");
            ended.await.expect("no panic")
        }
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < end, "waited 60 s in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How many objects of any run there are.
async fn objects_left(plane: &ControlPlane) -> usize {
    let all = ListParams::default().labels("app.kubernetes.io/name=locklab");
    let client = || plane.client.clone();
    let jobs: Api<Job> = Api::namespaced(client(), "lab");
    let pods: Api<Pod> = Api::namespaced(client(), "lab");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client(), "lab");
    let configs: Api<ConfigMap> = Api::namespaced(client(), "lab");
    jobs.list(&all).await.expect("jobs").items.len()
        + pods.list(&all).await.expect("pods").items.len()
        + claims.list(&all).await.expect("claims").items.len()
        + configs.list(&all).await.expect("config maps").items.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_parts_of_which_one_is_killed_come_out_as_one_process_does() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let kubelet = Kubelet::start(plane.client.clone(), &plane.kubeconfig, plane.dir()).await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("shared.toml"), SHARED).expect("a scenario");
    let plan = ["shared.toml", "--seed", "7", "--repeat", "8"];
    let child = begin(&plane, dir.path(), &[&plan[..], &["--parts", "4", "--out", "merged"]].concat());
    let results = plane.dir().join("claims/locklab-shared-results");
    let begun = async || results.join("part-1/run.json").is_file();
    until("part 1 has begun", begun).await;
    assert!(kubelet.kill("locklab-shared-parts-1-"), "part 1 runs");
    let merged = end(child).await;
    let said = stderr(&merged);
    assert_eq!(code(&merged), 0, "{said}");
    assert!(said.contains("ended with 137"), "the kill is told: {said}");
    assert!(dir.path().join("merged/report.html").is_file(), "the run is at home");
    let checked = run(dir.path(), &["check", "merged", "--json"]);
    assert_eq!(code(&checked), 0, "with its histories: {}", stderr(&checked));

    let whole = run(dir.path(), &[&["chaos"], &plan[..], &["--jobs", "2", "--json"]].concat());
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    assert_eq!(verdicts(&merged).len(), 8);
    assert_eq!(verdicts(&merged), verdicts(&whole));
    until("nothing stays", async || objects_left(&plane).await == 0).await;

    // The other shapes find each other by their names, too.
    for kind in ["sentinel", "cluster", "masters"] {
        std::fs::write(dir.path().join("shared.toml"), SHARED.replace("single", kind)).expect("a scenario");
        let run = end(begin(&plane, dir.path(), &["shared.toml", "--parts", "1"])).await;
        assert_eq!(code(&run), 0, "{kind}: {}", stderr(&run));
        assert_eq!(verdicts(&run).len(), 1, "{kind}");
        until("nothing stays", async || objects_left(&plane).await == 0).await;
    }

    // A sound lock is not convicted as this file wants it: 1 is each part's verdict, no reason to try it
    // again.
    std::fs::write(dir.path().join("shared.toml"), SHARED.replace("\"clean\"", "\"violated\""))
        .expect("a scenario");
    let child =
        begin(&plane, dir.path(), &["shared.toml", "--repeat", "2", "--parts", "2", "--servers", "pod"]);
    let convicted = end(child).await;
    let said = stderr(&convicted);
    assert_eq!(code(&convicted), 1, "{said}");
    let tries =
        said.lines().filter(|line| line.starts_with("part ") && line.contains(" ended with ")).count();
    assert_eq!(tries, 2, "each part once: {said}");
    until("nothing stays", async || objects_left(&plane).await == 0).await;

    // Ctrl-C deletes what was made, and ends the parts first.
    std::fs::write(dir.path().join("shared.toml"), SHARED.replace("\"3s\"", "\"60s\"")).expect("a scenario");
    let child = begin(&plane, dir.path(), &["shared.toml", "--parts", "1"]);
    let begun = async || results.join("part-0/run.json").is_file();

    until("the part has begun", begun).await;
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    kill(pid, Signal::SIGINT).expect("it runs");
    let interrupted = end(child).await;
    assert_eq!(code(&interrupted), 130, "{}", stderr(&interrupted));
    until("nothing stays", async || objects_left(&plane).await == 0).await;
}

/// Each example begins with the command that printed it.
#[test]
fn examples_are_what_render_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in std::fs::read_dir(root.join("deploy/kubernetes")).expect("the examples").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        let Some(command) = text.lines().next().and_then(|line| line.strip_prefix("# locklab ")) else {
            continue;
        };
        let words: Vec<&str> = command.split(' ').collect();
        let printed = run(&root, &words);
        assert_eq!(code(&printed), 0, "{}", stderr(&printed));
        assert_eq!(text, format!("# locklab {command}\n{}", stdout(&printed)), "{}", entry.path().display());
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn what_cannot_be_done_there_is_refused_before_anything_is_asked_of_a_cluster() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let render = "render flushall --parts";
    for (args, wanted, word) in [
        ("render clock-drift --parts 2", 65, "clock-drift.toml:18:1: `clock`"),
        (&format!("{render} 0"), 64, "--parts"),
        (&format!("{render} 2 --storage nfs"), 64, "claim:NAME"),
        (&format!("{render} 2 --target redis://h"), 64, "--yes-this-is-mine"),
        (&format!("{render} 2 --target redis://127.0.0.1"), 64, "loopback"),
        ("run flushall --parts 2", 64, "--yes-this-is-mine"),
    ] {
        let words: Vec<&str> = ["kube"].into_iter().chain(args.split(' ')).collect();
        let output = run(dir.path(), &words);
        assert_eq!(code(&output), wanted, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{args}: {}", stderr(&output));
    }
    let shown = run(dir.path(), &["kube", "render", "clock-drift", "--parts", "2", "--servers", "pod"]);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
}
