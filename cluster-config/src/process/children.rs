//! Servers as child processes: forked, signalled, reaped by number; they die with this one, unless detached.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid, setsid};
use tokio::sync::oneshot;

use super::fleet::log_end;
use crate::baseline::{System, unprivileged};
use crate::layout::PlannedNode;
use crate::proc_fs::{children, process_state};
use crate::provisioner::Runner;
use crate::registry::{MARK, Running};
use crate::{ClusterError, ProcessId};

/// The child processes of one deployment, by node.
#[derive(Debug)]
pub(crate) struct Children {
    program: PathBuf,
    /// What the servers are, if not Redis.
    system: Option<&'static dyn System>,
    /// Programs of nodes that were upgraded.
    upgraded: Mutex<BTreeMap<String, PathBuf>>,
    env: BTreeMap<String, Vec<(String, String)>>,
    deployment: String,
    detach: bool,
    children: Mutex<BTreeMap<String, Child>>,
}

impl Children {
    /// For the deployment of `record`; starts nothing yet.
    pub(crate) fn new(
        program: PathBuf,
        env: BTreeMap<String, Vec<(String, String)>>,
        record: &Running,
    ) -> Children {
        Children {
            program,
            system: record.topology.system(),
            upgraded: Mutex::default(),
            env,
            deployment: record.id.clone(),
            detach: record.detached,
            children: Mutex::default(),
        }
    }

    /// Runs what a node's server needs before it can start, to its end; it ends with this process.
    async fn prepare(&self, mut command: Command, node: &PlannedNode) -> Result<(), ClusterError> {
        command.env(MARK, &self.deployment);
        let failed = |error| failed!("cannot prepare {}: {error}", node.name);
        let mut child = spawn(command, &node.log, false).await.map_err(failed)?;
        loop {
            match child.try_wait().map_err(failed)? {
                None => tokio::time::sleep(Duration::from_millis(5)).await,
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("cannot prepare {}: {status}; {}", node.name, log_end(&node.log)),
            }
        }
    }
}

#[async_trait]
impl Runner for Children {
    async fn start(&self, node: &PlannedNode) -> Result<Option<ProcessId>, ClusterError> {
        let other = self.upgraded.lock().unwrap().get(&node.name).cloned();
        let program = other.as_ref().unwrap_or(&self.program);
        let mut command = match self.system {
            Some(system) => {
                if let Some(first) = system.bootstrap(program, node) {
                    self.prepare(unprivileged(system, first), node).await?;
                }
                unprivileged(system, system.program(program))
            }
            None => Command::new(program),
        };
        command.args(&node.args);
        let own = self.env.get(&node.name).into_iter().flatten();
        command.envs(own.map(|(name, value)| (name, value)));
        command.env(MARK, &self.deployment);
        let started = spawn(command, &node.log, self.detach).await;
        let program = self.program.display();
        let child = started.map_err(|error| failed!("cannot start {} ({program}): {error}", node.name))?;
        let process = ProcessId::of(child.id());
        self.children.lock().unwrap().insert(node.name.clone(), child);
        Ok(process)
    }

    fn set_program(&self, node: &str, program: PathBuf) -> Result<(), ClusterError> {
        self.upgraded.lock().unwrap().insert(node.to_owned(), program);
        Ok(())
    }

    fn ended(&self, node: &str) -> Option<String> {
        let mut children = self.children.lock().unwrap();
        match children.get_mut(node)?.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn pid(&self, node: &str) -> Option<u32> {
        let mut children = self.children.lock().unwrap();
        let child = children.get_mut(node)?;
        matches!(child.try_wait(), Ok(None)).then(|| child.id())
    }

    fn state(&self, node: &str) -> Option<char> {
        process_state(self.pid(node)?)
    }

    fn signal(&self, node: &str, signal: Signal) -> Result<(), ClusterError> {
        let pid = self.pid(node).ok_or_else(|| failed!("{node} is not running"))?;
        // PostgreSQL is several processes. Those of Redis are copies that save data, and end by themselves.
        let others = self.system.map_or(Vec::new(), |_| children(pid));
        kill(Pid::from_raw(pid as i32), signal)
            .map_err(|error| failed!("cannot send {signal} to {node}: {error}"))?;
        for other in others {
            // Fails only if it is gone by now.
            let _ = kill(Pid::from_raw(other as i32), signal);
        }
        Ok(())
    }

    async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        self.signal(node, Signal::SIGKILL)
    }

    fn end(&self) -> Result<(), ClusterError> {
        let mut children = self.children.lock().unwrap();
        for child in children.values_mut() {
            // Fails only for a child that is gone and reaped.
            let _ = child.kill();
        }
        for child in children.values_mut() {
            let _ = child.wait();
        }
        children.clear();
        Ok(())
    }
}

type Request = (Command, oneshot::Sender<io::Result<Child>>);

/// Starts a process; returns once it runs its own program. `log` gets its output; `detach`: it outlives us.
async fn spawn(command: Command, log: &Path, detach: bool) -> io::Result<Child> {
    let ended = || io::Error::other("the spawning thread has ended");
    let (reply, answer) = oneshot::channel();
    spawner().send((with_log(command, log, detach)?, reply)).map_err(|_| ended())?;
    answer.await.map_err(|_| ended())?
}

/// The thread that forks every server. The kernel sends the parent-death signal when the forking *thread*
/// ends, so it has to be one that lives as long as the process; threads of an async runtime come and go.
fn spawner() -> &'static mpsc::Sender<Request> {
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        std::thread::Builder::new()
            .name("server-spawner".into())
            .spawn(move || {
                for (mut command, reply) in requests {
                    // Nobody waits if the start was called off meanwhile: then the server must not stay.
                    if let Err(Ok(mut unwanted)) = reply.send(command.spawn()) {
                        let _ = unwanted.kill();
                        let _ = unwanted.wait();
                    }
                }
            })
            .expect("the system can start one more thread");
        sender
    })
}

fn with_log(mut command: Command, log: &Path, detach: bool) -> io::Result<Command> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    if detach {
        // SAFETY: setsid is async-signal-safe and touches no memory of this process.
        unsafe {
            command.pre_exec(|| Ok(setsid().map(drop)?));
        }
    } else {
        // A group of its own: Ctrl-C reaches the harness alone, which then takes the servers down.
        command.process_group(0);
        let parent = getpid();
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of this process.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
    }
    Ok(command)
}

/// Asks for SIGKILL when the parent dies; fails if it is dead already: no signal would come.
fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(nix::libc::ESRCH)) }
}
