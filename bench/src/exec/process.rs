//! A driver's process, which does not outlive the harness.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};

use results::{limits, secrets};
use tokio::process::{Child, ChildStdin, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::output::Output;
use super::processes::{self, Processes};
use crate::servers::consent;
use crate::subject::{ConnectTo, SubjectError};

pub(super) struct DriverProcess {
    pub(super) child: Child,
    pub(super) processes: Processes,
    pub(super) stdin: ChildStdin,
    pub(super) output: Output,
    /// Ends when all that it said on standard error is in its log.
    pub(super) logged: oneshot::Receiver<()>,
}

pub(super) fn start(command: &[String], to: &ConnectTo) -> Result<DriverProcess, SubjectError> {
    let (done, logged) = oneshot::channel();
    let stderr = match &to.log {
        None => Stdio::null(),
        Some(path) => {
            if let Some(dir) = path.parent() {
                let _ = std::fs::create_dir_all(dir);
            }
            let log = OpenOptions::new().create(true).append(true).open(path);
            log.and_then(|log| stderr_to_log(log, path.parent().unwrap_or(path), done))
                .map_err(|e| usage!("cannot write the log {}: {e}", path.display()))?
        }
    };
    let words = [&to.within, command].concat();
    let mark = processes::next_mark();
    let mut child = Command::new(&words[0]);
    child
        .args(&words[1..])
        .envs(to.env.iter().map(|(name, value)| (name, value)))
        .envs(consent::handed_on())
        .env(processes::MARK, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        // Ctrl-C goes to the whole foreground group: ending the run in order is ours, not the drivers'.
        .process_group(0)
        .kill_on_drop(true);
    let parent = nix::unistd::getpid();
    // SAFETY: prctl, getppid and raise are async-signal-safe, and nothing is allocated between fork and exec.
    unsafe {
        child.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            // The parent may have died before the line above: then no signal will ever come.
            if nix::unistd::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            Ok(())
        });
    }
    let mut child = spawn(child).map_err(|e| {
        let command = shell_words::join(command);
        usage!("cannot start the driver `{command}`: {e}")
    })?;
    let stdin = child.stdin.take().expect("piped");
    let output = Output::of(child.stdout.take().expect("piped"))
        .map_err(|e| usage!("cannot read what a driver prints: {e}"))?;
    Ok(DriverProcess {
        processes: Processes::new(child.id().unwrap_or_default(), mark),
        child,
        stdin,
        output,
        logged,
    })
}

type Request = (Command, Handle, mpsc::Sender<io::Result<Child>>);

/// Starts every driver on one thread, which lives as long as this process: the kernel kills a driver when the
/// *thread* that forked it ends, and a runtime's thread ends after ten idle seconds, or with its runtime.
fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: Mutex<Option<mpsc::Sender<Request>>> = Mutex::new(None);
    let (reply, started) = mpsc::channel();
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if starter.is_none() {
        let (requests, received) = mpsc::channel::<Request>();
        std::thread::Builder::new().name("driver-starter".to_owned()).spawn(move || {
            for (mut command, runtime, reply) in received {
                let _entered = runtime.enter();
                let _ = reply.send(command.spawn());
            }
        })?;
        *starter = Some(requests);
    }
    let ended = || io::Error::other("the thread that starts drivers has ended");
    starter.as_ref().ok_or_else(ended)?.send((command, Handle::current(), reply)).map_err(|_| ended())?;
    started.recv().map_err(|_| ended())?
}

/// The longest piece of a log that is looked through as one.
const PIECE: u64 = 64 * 1024;

/// How many bytes the drivers of a run may still log. All drivers that log into one directory share it.
fn log_room(dir: &Path) -> io::Result<Arc<AtomicU64>> {
    static ROOMS: Mutex<BTreeMap<PathBuf, Weak<AtomicU64>>> = Mutex::new(BTreeMap::new());
    let mut rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
    rooms.retain(|_, room| room.strong_count() > 0);
    if let Some(room) = rooms.get(dir).and_then(Weak::upgrade) {
        return Ok(room);
    }
    let mut room = limits::LOG;
    for file in std::fs::read_dir(dir)? {
        room = room.saturating_sub(file?.metadata().map_or(0, |file| file.len()));
    }
    let room = Arc::new(AtomicU64::new(room));
    rooms.insert(dir.to_owned(), Arc::downgrade(&room));
    Ok(room)
}

/// Copies a driver's standard error to its log, as far as its run has room, with known passwords hidden.
fn stderr_to_log(mut log: File, dir: &Path, done: oneshot::Sender<()>) -> io::Result<Stdio> {
    let (reader, writer) = io::pipe()?;
    let mut lines = BufReader::new(reader);
    let room = log_room(dir)?;
    let copy = move || {
        let mut line = Vec::new();
        while lines.by_ref().take(PIECE).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            // Read on when the log is full or cannot be written: a full pipe would block the driver.
            let length = line.len() as u64;
            let before = room.fetch_update(Relaxed, Relaxed, |room| Some(room.saturating_sub(length)));
            let before = before.unwrap_or_default();
            if before > 0 {
                let _ = log.write_all(secrets::hide(&String::from_utf8_lossy(&line)).as_bytes());
                if before <= length {
                    let _ = writeln!(
                        log,
                        "(the log ends here: those of the run have {} MB, the limit)",
                        limits::LOG >> 20
                    );
                }
            }
            line.clear();
        }
        let _ = done.send(());
    };
    std::thread::Builder::new().name("driver-log".to_owned()).spawn(copy)?;
    Ok(writer.into())
}

pub(super) fn ending(status: std::io::Result<std::process::ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => format!("ended: {status}"),
        },
        Err(e) => format!("ended in an unknown way: {e}"),
    }
}
