//! Lists running deployments across processes, ends one by id, sweeps away what a dead harness left.
//!
//! A deployment is one JSON file in the user's runtime directory. A process is ended only if its number, its
//! start tick and the mark in its environment all agree with that file.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ports::state_dir;
use crate::proc_fs::{ProcessId, entries};
use crate::{ClusterError, ProvisionerKind, Role, Server, TopologyKind};

/// The variable in whose value a server carries the id of its deployment.
pub(crate) const MARK: &str = "LOCKLAB_DEPLOYMENT";
/// The file that marks a directory of data as ours to remove.
const DIR_MARK: &str = ".locklab-deployment";
/// What the name of a directory begins with that was made where nobody named one.
const UNNAMED_DIR: &str = "up-";
/// What stands in the name of a record before it is whole, ahead of its writer's process.
const DRAFT: &str = "draft-";

/// A deployment as other processes see it (`locklab ps`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Running {
    /// What `down_by_id` takes.
    pub id: String,
    /// Its shape.
    pub topology: TopologyKind,
    /// What its servers run in.
    #[serde(default)]
    pub provisioner: ProvisionerKind,
    /// The image of its containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The target URL, without the password if it has one.
    pub url: String,
    /// The server's version.
    pub server_version: String,
    /// The binary that runs, where a local one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Modules that the first server has loaded.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Whether everything speaks TLS.
    #[serde(default)]
    pub tls: bool,
    /// The process that started it; it may be gone if `detached`.
    pub owner: ProcessId,
    /// Whether it outlives its owner.
    pub detached: bool,
    /// When it was started, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Where its logs are.
    pub dir: PathBuf,
    /// Where its servers' data is, removed in the end.
    pub data: PathBuf,
    /// Its servers.
    pub nodes: Vec<RunningNode>,
    /// The process-number space in which the numbers above mean something.
    pub(crate) pid_namespace: String,
}

/// One server of a listed deployment.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunningNode {
    /// `n1`, `s1`.
    pub name: String,
    /// Role at start.
    pub role: Role,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process; `None` before it was started.
    pub process: Option<ProcessId>,
}

/// Every deployment of this user that is running now, attached to a living process or detached; oldest first.
pub fn running() -> Result<Vec<Running>, ClusterError> {
    let mut found: Vec<Running> = records()?.into_iter().filter(is_running).collect();
    found.sort_by(|a, b| (a.started_unix_ms, &a.id).cmp(&(b.started_unix_ms, &b.id)));
    Ok(found)
}

/// Ends exactly the servers of one deployment, waits until they are gone, removes data and keeps logs.
///
/// An owner that still runs is left alone; it finds its servers gone.
pub fn down_by_id(id: &str) -> Result<Running, ClusterError> {
    let all = running()?;
    let Some(record) = all.iter().find(|running| running.id == id) else {
        let known: Vec<&str> = all.iter().map(|running| running.id.as_str()).collect();
        let known = match known.as_slice() {
            [] => "none is running".to_owned(),
            some => format!("running are {}", some.join(", ")),
        };
        bail!("there is no deployment {id:?}; {known}");
    };
    end_servers(record)?;
    forget(record);
    Ok(record.clone())
}

/// Removes what dead owners left behind: servers, data directories, records. Detached deployments with a
/// living server are somebody's and stay. Every start does this by itself.
pub fn sweep() -> Result<(), ClusterError> {
    for record in records()? {
        if is_running(&record) || record.pid_namespace != pid_namespace() {
            continue;
        }
        match end_servers(&record) {
            Ok(()) => forget(&record),
            // An engine that does not answer now is no reason to start nothing: a later sweep has the record.
            Err(_) if record.provisioner == ProvisionerKind::Container => {}
            Err(error) => return Err(error),
        }
    }
    sweep_leftovers()
}

pub(crate) fn this_process() -> Result<ProcessId, ClusterError> {
    ProcessId::own()
        .ok_or_else(|| missing!("/proc is not readable; mount it, processes are told apart by it"))
}

pub(crate) fn new_id(topology: TopologyKind) -> String {
    format!("{}-{:06x}", topology.name(), rand::random::<u32>() >> 8)
}

pub(crate) fn since_1970() -> Duration {
    UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Makes the data directory of a deployment, with its mark in it from the first moment, so that [`forget`]
/// knows what a dying harness leaves; refuses one that is there already.
pub(crate) fn claim_dir(record: &Running) -> Result<(), ClusterError> {
    let data = &record.data;
    let staging_dir = staging_dir(record);
    fs::create_dir_all(&record.dir).map_err(|error| {
        let dir = record.dir.display();
        let why = match record.dir.exists() {
            true => format!("{dir} is not a directory"),
            false => format!("cannot make the directory {dir}: {error}"),
        };
        ClusterError::invalid(format!("{why}; give another one, which can be written"))
    })?;
    let claimed = fs::DirBuilder::new()
        .mode(0o700)
        .create(&staging_dir)
        .and_then(|()| fs::write(staging_dir.join(DIR_MARK), &record.id))
        .and_then(|()| match data.exists() {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => fs::rename(&staging_dir, data),
        });
    claimed.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => failed!(
            "{} is there already, perhaps of a running deployment (`locklab ps`); give another directory or remove it",
            data.display()
        ),
        _ => failed!("cannot make {}: {error}", data.display()),
    })
}

/// Where the data directory is while it is made and while it is removed.
fn staging_dir(record: &Running) -> PathBuf {
    let name = record.data.file_name().unwrap_or_default().to_string_lossy();
    record.data.with_file_name(format!(".{name}-{}", record.id))
}

/// Writes the record, whole or not at all.
pub(crate) fn save(record: &Running) -> Result<(), ClusterError> {
    let path = record_path(&record.id)?;
    let draft = path.with_extension(format!("{DRAFT}{}", std::process::id()));
    let json = serde_json::to_vec_pretty(record).map_err(|error| ClusterError::new(error.to_string()))?;
    fs::write(&draft, json)
        .and_then(|()| fs::rename(&draft, &path))
        .map_err(|error| failed!("cannot write {}: {error}", path.display()))
}

/// Removes the data directory, if it bears this deployment's mark, and the record, as far as they exist.
pub(crate) fn forget(record: &Running) {
    let data = &record.data;
    let staging_dir = staging_dir(record);
    if fs::read_to_string(data.join(DIR_MARK)).is_ok_and(|id| id == record.id) {
        // In one step, since a removal that is cut short may have taken the mark and left the rest.
        let _ = fs::rename(data, &staging_dir);
    }
    let _ = fs::remove_dir_all(&staging_dir);
    if let Ok(path) = record_path(&record.id) {
        let _ = fs::remove_file(path);
    }
}

/// A directory that `up` makes for itself where runs meet, for servers that nobody placed elsewhere.
pub fn unnamed_dir() -> Result<PathBuf, ClusterError> {
    let (id, since) = (std::process::id(), since_1970().as_millis());
    Ok(state_dir()?.join(format!("{UNNAMED_DIR}{id}-{since}")))
}

/// Removes those of [`unnamed_dir`] whose makers are gone and to which no record leads, and unfinished
/// records whose writers are gone.
fn sweep_leftovers() -> Result<(), ClusterError> {
    let is_gone = |pid: &str| pid.parse().is_ok_and(|pid| ProcessId::of(pid).is_none());
    let taken: Vec<PathBuf> = records()?.into_iter().map(|record| record.dir).collect();
    for entry in entries(&state_dir()?) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(UNNAMED_DIR).and_then(|rest| rest.split('-').next());
        if maker.is_some_and(is_gone) && !taken.contains(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    for entry in entries(&folder()?) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.rsplit_once(DRAFT).is_some_and(|(_, writer)| is_gone(writer)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Whether a deployment's record is still there: who takes the deployment down removes it.
pub(crate) fn is_listed(id: &str) -> bool {
    record_path(id).is_ok_and(|path| path.exists())
}

fn folder() -> Result<PathBuf, ClusterError> {
    let folder = state_dir()?.join("deployments");
    fs::create_dir_all(&folder).map_err(|error| failed!("cannot make {}: {error}", folder.display()))?;
    Ok(folder)
}

fn record_path(id: &str) -> Result<PathBuf, ClusterError> {
    Ok(folder()?.join(format!("{id}.json")))
}

fn records() -> Result<Vec<Running>, ClusterError> {
    let folder = folder()?;
    let entries =
        fs::read_dir(&folder).map_err(|error| failed!("cannot read {}: {error}", folder.display()))?;
    // A file that vanishes meanwhile or that another version wrote is not ours to judge.
    Ok(entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
        .collect())
}

fn is_running(record: &Running) -> bool {
    if record.pid_namespace != pid_namespace() {
        return false;
    }
    record.owner.is_alive()
        || record.detached && (!own_processes(record).is_empty() || has_containers(record))
}

fn end_servers(record: &Running) -> Result<(), ClusterError> {
    end_processes(record)?;
    if record.provisioner != ProvisionerKind::Container {
        return Ok(());
    }
    #[cfg(feature = "containers")]
    return crate::container::remove_all(&record.id);
    #[cfg(not(feature = "containers"))]
    Err(missing!(
        "{} runs in containers, and this program was built without the feature `containers`",
        record.id
    ))
}

/// Whether containers of a record may be running: those whose processes this machine cannot see.
fn has_containers(record: &Running) -> bool {
    #[cfg(feature = "containers")]
    if record.provisioner == ProvisionerKind::Container {
        // Unknown counts as running, so that no existing container loses its record.
        return crate::container::any_running(&record.id).unwrap_or(true);
    }
    let _ = record;
    false
}

/// The living servers of a record: number, start tick and mark agree.
fn own_processes(record: &Running) -> Vec<ProcessId> {
    let listed = record.nodes.iter().filter_map(|node| node.process);
    listed.filter(|process| process.is_alive() && process.has_variable(MARK, &record.id)).collect()
}

/// SIGKILL to every living server of a record; returns once they are gone.
fn end_processes(record: &Running) -> Result<(), ClusterError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let processes = own_processes(record);
    for process in &processes {
        // Fails only if it is gone by now.
        let _ = kill(Pid::from_raw(process.pid as i32), Signal::SIGKILL);
    }
    let patience = Instant::now() + PATIENCE;
    while processes.iter().any(|process| process.is_alive()) {
        if Instant::now() > patience {
            bail!("servers of {} are still there {PATIENCE:?} after SIGKILL", record.id);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

pub(crate) fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}
