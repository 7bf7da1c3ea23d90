//! Runs `locklab` and redis-server for a test; they end with it.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command that runs the built `locklab` in a directory of its own.
pub fn locklab(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_locklab"));
    command.current_dir(dir).stdin(Stdio::null());
    die_with_us(&mut command);
    command
}

/// Runs `locklab` to its end.
pub fn run(dir: &Path, args: &[&str]) -> Output {
    locklab(dir).args(args).output().expect("locklab runs")
}

/// A directory in memory, where the machine has one: servers that sync their files are quick there.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Says what a test leaves out, and why: straight to the stream, since what is printed the usual way is not
/// shown for a test that passes.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A bare server on a free loopback port, without any of our own code, so that the tests of `lock` depend on
/// nothing else.
pub struct Server {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let mut tries = (0..20).filter_map(|_| Self::try_at(free_port(), arguments));
        tries.next().expect("redis-server starts on some port")
    }

    pub fn start_at(port: u16, arguments: &[&str]) -> Self {
        Self::try_at(port, arguments).expect("redis-server starts on that port")
    }

    /// `None`: somebody else took the port meanwhile, and may be who answers there.
    fn try_at(port: u16, arguments: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(port.to_string())
            .arg("--dir")
            .arg(dir.path())
            .args(arguments)
            .stdout(Stdio::null());
        die_with_us(&mut command);
        let child = command.spawn().expect("redis-server is installed");
        let mut server = Server { child, port, _dir: dir };
        let itself = format!("process_id:{}", server.pid());
        let (mut ended, mut answers) = (false, false);
        until("redis-server answers", || {
            ended = server.child.try_wait().expect("a child of ours").is_some();
            answers = server.cli(&["INFO", "server"]).contains(&itself);
            ended || answers
        });
        answers.then_some(server)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A command by redis-cli; its answer without the line's end.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p"])
            .arg(self.port.to_string())
            .args(args)
            .output()
            .expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}

/// Waits for a condition, for at most half a minute.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "waited 30 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn die_with_us(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(|| {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            Ok(())
        });
    }
}

/// A terminal of a command's own, in the foreground of which the command is as a shell would start it.
pub struct Pty {
    master: OwnedFd,
    slave: OwnedFd,
}

impl Pty {
    pub fn of(command: &mut Command) -> Self {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let slave = pty.slave.as_raw_fd();
        in_a_session(command);
        // SAFETY: ioctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(move || match nix::libc::ioctl(slave, nix::libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        Pty { master: pty.master, slave: pty.slave }
    }

    /// Starts the command with its standard error on this terminal.
    pub fn start(&self, command: &mut Command) -> Child {
        let slave = self.slave.try_clone().expect("a descriptor to spare");
        command.stdout(Stdio::null()).stderr(slave);
        command.spawn().expect("it starts")
    }

    /// What it shows since the last call; waits until there is something.
    pub fn shown(&self) -> String {
        let mut bytes = [0; 4096];
        let read = nix::unistd::read(&self.master, &mut bytes).expect("a terminal");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    pub fn type_in(&self, keys: &[u8]) {
        nix::unistd::write(&self.master, keys).expect("the terminal takes it");
    }
}

/// Starts a command without a terminal, whatever the test has.
pub fn in_a_session(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            Ok(())
        });
    }
}

/// Waits until a process that the test started catches a signal.
pub fn until_it_catches(child: &Child, signal: nix::sys::signal::Signal) {
    until("it listens for the signal", || is_among("SigCgt:", child, signal));
}

/// Waits until a process that the test started lets a signal wait.
pub fn until_it_holds_back(child: &Child, signal: nix::sys::signal::Signal) {
    until("it lets the signal wait", || is_among("SigBlk:", child, signal));
}

/// Waits until a process that the test started has no such signal to take any more.
pub fn until_it_took(child: &Child, signal: nix::sys::signal::Signal) {
    until("it took the signal", || !is_among("ShdPnd:", child, signal));
}

fn is_among(signals: &str, child: &Child, signal: nix::sys::signal::Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.expect("its status");
    let mask = status.lines().find_map(|line| line.strip_prefix(signals));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.expect("a mask") >> (signal as i32 - 1) & 1 == 1
}

/// Processes that live below a directory, or in the memory that `locklab` of this number gives its servers.
pub fn processes_of(dir: &Path, locklab: u32) -> Vec<String> {
    let dir = dir.canonicalize().expect("the directory");
    let in_memory = format!("/dev/shm/locklab-{locklab}-");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(cwd) = std::fs::read_link(entry.path().join("cwd")) else {
            continue;
        };
        if cwd.starts_with(&dir) || cwd.to_string_lossy().starts_with(&in_memory) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // A zombie has no command line; it is its parent's to reap and holds nothing.
            if !command.is_empty() {
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                found.push(format!("{}: {command}", entry.file_name().to_string_lossy()));
            }
        }
    }
    found
}

/// Sends a signal to a process that the test started.
pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, signal).expect("the process is there");
}
