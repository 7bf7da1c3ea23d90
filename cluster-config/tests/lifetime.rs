//! Nothing survives its owner, except what was detached; and what is listed can be ended by its id.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster_config::{
    Links, Process, ProcessId, Provisioner, Topology, TopologyKind, UpOptions, down_by_id, local_addresses,
    running, sweep,
};
use support::{eventually, lab_of, scratch};

/// After this long nothing of a killed owner may be left.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// What an owner process is told, by its environment.
const DIR: &str = "LIFETIME_TEST_DIR";
const DETACH: &str = "LIFETIME_TEST_DETACH";

/// Brings sentinels up in a process of its own, says so, and stays; or leaves at once, if its servers are
/// detached.
#[tokio::test]
#[ignore = "the other tests start this as a process that owns servers"]
async fn owner() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let options =
        UpOptions { detach: std::env::var_os(DETACH).is_some(), ..UpOptions::new(PathBuf::from(dir)) };
    let topology = Topology::of(TopologyKind::Sentinel);
    let deployment = Process.up(&topology, &options).await.unwrap();
    // Through the file system, since the test harness keeps what a test prints.
    fs::write(deployment.dir().join("up"), deployment.id()).unwrap();
    if options.detach {
        deployment.leave();
    } else {
        std::future::pending::<()>().await;
    }
}

/// An owner process; killed when dropped.
struct Owner {
    child: Child,
    dir: PathBuf,
}

impl Owner {
    fn start(dir: &Path, detach: bool, state: Option<&Path>) -> Owner {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "owner", "--ignored", "--nocapture"]).env(DIR, dir).stdout(Stdio::piped());
        if detach {
            command.env(DETACH, "1");
        }
        if let Some(state) = state {
            command.env("XDG_RUNTIME_DIR", state);
        }
        Owner { child: command.spawn().unwrap(), dir: dir.to_owned() }
    }

    /// Waits until its servers are ready; returns the deployment's id.
    async fn id(&mut self) -> String {
        let up = self.dir.join("up");
        eventually("the owner's servers are up", async || {
            fs::read_to_string(&up).is_ok_and(|id| !id.is_empty())
        })
        .await;
        fs::read_to_string(&up).unwrap()
    }

    fn wait(&mut self) {
        let status = self.child.wait().unwrap();
        let output = BufReader::new(self.child.stdout.take().unwrap()).lines();
        let output: Vec<String> = output.map_while(Result::ok).collect();
        assert!(status.success(), "{}", output.join("\n"));
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Servers whose configuration lies below `dir`.
fn servers_of(dir: &Path) -> Vec<ProcessId> {
    let below = dir.join("nodes");
    let below = below.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                let mut words = line.split(|byte| *byte == 0);
                words.any(|word| word.starts_with(below.as_bytes()))
            })
        })
        .filter_map(ProcessId::of)
        .filter(|process| process.is_alive())
        .collect()
}

#[tokio::test]
async fn no_server_outlives_an_owner_that_is_killed_at_any_moment() {
    // From the first fork to long after readiness; which step of the start each one hits depends on the
    // machine.
    let moments = [5, 25, 60, 120, 250, 600, 1500].map(Duration::from_millis);
    let killed = moments.map(|moment| async move {
        let dir = scratch();
        let mut owner = Owner::start(dir.path(), false, None);
        tokio::time::sleep(moment).await;
        owner.kill();
        let until = Instant::now() + GONE_WITHIN;
        while !servers_of(dir.path()).is_empty() {
            assert!(Instant::now() < until, "servers are left after a kill at {moment:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    futures_util::future::join_all(killed).await;
}

#[tokio::test]
async fn servers_that_ran_are_gone_after_their_owner_was_killed() {
    let dir = scratch();
    let mut owner = Owner::start(dir.path(), false, None);
    owner.id().await;
    assert_eq!(servers_of(dir.path()).len(), 6);
    owner.kill();
    let until = Instant::now() + GONE_WITHIN;
    while !servers_of(dir.path()).is_empty() {
        assert!(Instant::now() < until, "{:?}", servers_of(dir.path()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn servers_outlive_the_thread_that_asked_for_them() {
    let (send, receive) = tokio::sync::oneshot::channel();
    let asking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lab = runtime.block_on(lab_of(TopologyKind::Single, Links::Direct));
        assert!(send.send(lab).is_ok());
    });
    let lab = receive.await.unwrap();
    asking.join().unwrap();
    // A death signal would have been sent when the thread ended, which was before `join` returned.
    assert_eq!(lab.command("n1", &["PING"]).await.unwrap(), "PONG");
    assert!(lab.pid("n1").is_some());
}

#[tokio::test]
async fn a_dropped_deployment_ends_its_servers_and_its_record() {
    let dir = scratch();
    let topology = Topology::of(TopologyKind::Masters);
    let deployment = Process.up(&topology, &UpOptions::new(dir.path())).await.unwrap();
    let id = deployment.id().to_owned();
    assert_eq!(servers_of(dir.path()).len(), 5);
    drop(deployment);
    assert_eq!(servers_of(dir.path()), []);
    assert!(running().unwrap().iter().all(|listed| listed.id != id));
}

#[tokio::test]
async fn a_start_that_is_called_off_leaves_nothing() {
    let dir = scratch();
    let topology = Topology::of(TopologyKind::Cluster);
    let options = UpOptions::new(dir.path());
    let start = Process.up(&topology, &options);
    // A cluster needs two seconds at least, so this never gets there.
    assert!(tokio::time::timeout(Duration::from_millis(500), start).await.is_err());
    eventually("nothing is left", async || servers_of(dir.path()).is_empty()).await;
    assert!(!dir.path().join("nodes").exists());
}

#[tokio::test]
async fn an_attached_deployment_is_listed_and_can_be_ended_by_its_id() {
    let lab = lab_of(TopologyKind::Masters, Links::Direct).await;
    let listed = running().unwrap();
    let listed = listed.iter().find(|listed| listed.id == lab.id()).unwrap();
    assert_eq!(listed.owner, ProcessId::own().unwrap());
    assert_eq!(listed.topology, TopologyKind::Masters);
    assert_eq!(listed.url, lab.url());
    assert_eq!(listed.nodes.len(), 5);
    for node in &listed.nodes {
        assert_eq!(node.process.map(|process| process.pid), lab.pid(&node.name));
    }
    assert!(lab.is_listed());
    down_by_id(lab.id()).unwrap();
    assert!(!lab.is_listed());
    assert_eq!(servers_of(lab.dir()), []);
}

#[tokio::test]
async fn detached_servers_survive_their_owner_and_end_by_id() {
    let dir = scratch();
    let mut owner = Owner::start(dir.path(), true, None);
    owner.wait();
    let id = owner.id().await;
    // Sweeping takes dead owners' leftovers and leaves what was detached.
    sweep().unwrap();
    assert_eq!(servers_of(dir.path()).len(), 6);
    let listed = running().unwrap();
    let listed = listed.iter().find(|listed| listed.id == id).unwrap();
    assert!(listed.detached && !listed.owner.is_alive());
    assert_eq!(listed.nodes.len(), 6);
    down_by_id(&id).unwrap();
    assert_eq!(servers_of(dir.path()), []);
    assert!(dir.path().join("logs/n1.log").exists());
    assert!(!dir.path().join("nodes").exists());
    let message = down_by_id(&id).unwrap_err().to_string();
    assert!(message.contains(&id), "{message}");
}

/// The one deployment's record in a state directory of the test's own.
fn record_in(state: &Path) -> PathBuf {
    let folder = state.join("locklab/deployments");
    let mut entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let record = entries.find(|path| path.extension().is_some_and(|end| end == "json"));
    record.unwrap()
}

#[tokio::test]
async fn the_next_start_sweeps_what_a_dead_owner_left_and_nothing_else() {
    let state = scratch();
    let left = scratch();
    let mut dead = Owner::start(left.path(), true, Some(state.path()));
    dead.wait();
    // Detached servers whose record says that they are not: what would be left had the death signal failed.
    let path = record_in(state.path());
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["detached"] = false.into();
    // A process of the same number that started at another time is somebody else's.
    let somebody: ProcessId = serde_json::from_value(record["nodes"][0]["process"].clone()).unwrap();
    record["nodes"][0]["process"]["start_tick"] = (somebody.start_tick + 1).into();
    fs::write(&path, record.to_string()).unwrap();
    assert_eq!(servers_of(left.path()).len(), 6);

    let fresh = scratch();
    let mut next = Owner::start(fresh.path(), false, Some(state.path()));
    next.id().await;
    let survivors = servers_of(left.path());
    assert!(!left.path().join("nodes").exists());
    assert!(!path.exists());
    let ended = Command::new("kill").args(["-KILL", &somebody.pid.to_string()]).status().unwrap();
    assert!(ended.success());
    assert_eq!(survivors, [somebody]);
}

#[test]
fn this_process_is_alive_and_an_earlier_one_of_its_number_is_not() {
    let own = ProcessId::own().unwrap();
    assert!(own.is_alive());
    let earlier = ProcessId { start_tick: own.start_tick - 1, ..own };
    assert!(!earlier.is_alive());
}

#[test]
fn the_connections_of_a_process_are_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let found = local_addresses(std::process::id());
    assert!(found.contains(&stream.local_addr().unwrap()), "{found:?}");
}
