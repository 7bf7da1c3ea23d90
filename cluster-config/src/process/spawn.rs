//! Starts server processes that die with this one, or outlive it if asked.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;

use nix::unistd::{Pid, getpid, getppid, setsid};
use tokio::sync::oneshot;

type Request = (Command, oneshot::Sender<io::Result<Child>>);

/// Starts a process; returns once it runs its own program. `log` gets everything it prints, appended; one that is detached outlives
/// this process.
pub(crate) async fn spawn(command: Command, log: &Path, detach: bool) -> io::Result<Child> {
    let ended = || io::Error::other("the spawning thread has ended");
    let (reply, answer) = oneshot::channel();
    let request = (prepared(command, log, detach)?, reply);
    spawner().send(request).map_err(|_| ended())?;
    answer.await.map_err(|_| ended())?
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
                for (mut command, reply) in requests {
                    // Nobody waits any more if the start was called off meanwhile: then the server must not stay.
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

fn prepared(mut command: Command, log: &Path, detach: bool) -> io::Result<Command> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    if detach {
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
    Ok(command)
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
