//! Starts server processes that die with this one, or outlive it if asked.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;

use nix::unistd::{Pid, getpid, getppid, setsid};
use tokio::sync::oneshot;

/// A server about to be started.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// Marks in its environment, by which leftovers are recognised.
    pub(crate) marks: Vec<(&'static str, String)>,
    /// More of its environment, as asked for.
    pub(crate) env: Vec<(String, String)>,
    /// Gets everything it prints, appended.
    pub(crate) log: PathBuf,
    pub(crate) detach: bool,
}

type Request = (Launch, oneshot::Sender<io::Result<Child>>);

/// Starts a process; returns once it runs its own program.
pub(crate) async fn spawn(launch: Launch) -> io::Result<Child> {
    let (reply, answer) = oneshot::channel();
    spawner()
        .send((launch, reply))
        .map_err(|_| io::Error::other("the spawning thread has ended"))?;
    answer
        .await
        .map_err(|_| io::Error::other("the spawning thread has ended"))?
}

/// The thread that forks every server. The kernel sends the parent-death signal when the forking *thread* ends, so it
/// has to be one that lives as long as the process; threads of an async runtime come and go.
fn spawner() -> &'static mpsc::Sender<Request> {
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        std::thread::Builder::new()
            .name("server-spawner".into())
            .spawn(move || {
                for (launch, reply) in requests {
                    // Nobody waits any more if the start was called off meanwhile: then the server must not stay.
                    if let Err(Ok(mut unwanted)) = reply.send(fork(&launch)) {
                        let _ = unwanted.kill();
                        let _ = unwanted.wait();
                    }
                }
            })
            .expect("the system can start one more thread");
        sender
    })
}

fn fork(launch: &Launch) -> io::Result<Child> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&launch.log)?;
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .envs(launch.marks.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    if launch.detach {
        // SAFETY: setsid is async-signal-safe and touches no memory of this process.
        unsafe {
            command.pre_exec(|| Ok(setsid().map(drop)?));
        }
    } else {
        // A group of its own: Ctrl-C in the terminal reaches the harness alone, which then takes the servers down.
        command.process_group(0);
        let parent = getpid();
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of this process.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
    }
    command.spawn()
}

/// Asks the kernel for SIGKILL when the parent dies; fails if it is dead already, since then no signal would come.
fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    if getppid() == parent {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(nix::libc::ESRCH))
    }
}
