//! Real servers whose wall clock the test sets, and connections to them and to simulated ones that are read
//! byte by byte.
// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod net;

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::FileExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use simulation::server::{ConnectionId, Reply, Server, write_command};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);
/// A moment of 2026.
pub const EPOCH: Duration = Duration::from_secs(1_790_000_000);

/// The servers to compare with, and their versions: the installed one, and a newer one where it is kept.
pub fn programs() -> Vec<(PathBuf, (u8, u8))> {
    let mut programs = vec![(PathBuf::from("redis-server"), (7, 0))];
    let kept =
        std::env::var_os("LOCKLAB_SERVERS").map(|place| Path::new(&place).join("bin/redis-server-7.2"));
    programs.extend(kept.filter(|path| path.exists()).map(|path| (path, (7, 2))));
    programs
}

/// What shows a process another clock, compiled once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = SHIM.get_or_init(|| {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).args([&path, &source]);
        assert!(compiler.status().expect("a C compiler").success());
        (directory, path)
    });
    path
}

/// A running redis-server; dropping it kills it.
pub struct Real {
    pub port: u16,
    child: Child,
    clock: File,
    _directory: TempDir,
}

impl Real {
    /// A server with no persistence and further `--name value` arguments, whose clock stands at [`EPOCH`].
    pub fn start(program: &Path, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, true)
    }

    /// The same, and its clock goes as everybody's does.
    pub fn start_with_time(program: &Path, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, false)
    }

    fn start_with(program: &Path, arguments: &[&str], stands: bool) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("clock");
        let clock = File::create(&path).expect("a file");
        clock.write_all_at(&micros(EPOCH), 0).expect("a clock");
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = listener.local_addr().expect("bound").port();
            drop(listener);
            let mut command = Command::new(program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
            command.arg("--dir").arg(directory.path()).args(arguments);
            if stands {
                command.env("LD_PRELOAD", shim()).env("CLOCK_FILE", &path);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: prctl is async-signal-safe.
            unsafe {
                command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::SIGKILL)?));
            }
            let mut child = command.spawn().expect("redis-server is installed");
            let until = Instant::now() + PATIENCE;
            while child.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Real { port, child, clock, _directory: directory };
                }
                assert!(Instant::now() < until, "redis-server does not listen");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("redis-server does not start");
    }

    pub fn set_clock(&self, now: Duration) {
        self.clock.write_all_at(&micros(now), 0).expect("its clock");
    }

    pub fn connect(&self) -> Line {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_nodelay(true).expect("a stream");
        stream.set_read_timeout(Some(PATIENCE)).expect("a stream");
        Line { stream, input: Vec::new() }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn micros(now: Duration) -> [u8; 8] {
    u64::try_from(now.as_micros()).expect("a moment").to_ne_bytes()
}

/// A connection to a real server.
pub struct Line {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Line {
    pub fn say(&mut self, command: &[Vec<u8>]) {
        let mut bytes = Vec::new();
        write_command(command, &mut bytes);
        self.stream.write_all(&bytes).expect("it listens");
    }

    /// The next answer or message, byte by byte.
    pub fn hear(&mut self) -> Vec<u8> {
        loop {
            if let Some((_, length)) = Reply::read(&self.input) {
                return self.input.drain(..length).collect();
            }
            let mut more = [0; 65536];
            let count = self.stream.read(&mut more).expect("an answer in time");
            assert!(count > 0, "the connection has ended");
            self.input.extend_from_slice(&more[..count]);
        }
    }

    /// Reads over `$<length>` and so many bytes, behind which no end of line is, and over empty lines before.
    pub fn skip_bulk(&mut self) {
        loop {
            let empty = self.input.iter().take_while(|byte| **byte == b'\n').count();
            self.input.drain(..empty);
            let head = self.input.windows(2).position(|pair| pair == b"\r\n");
            if let Some(head) = head {
                let length = std::str::from_utf8(&self.input[1..head]).expect("a length");
                let whole = head + 2 + length.parse::<usize>().expect("a length");
                if self.input.len() >= whole {
                    self.input.drain(..whole);
                    return;
                }
            }
            let mut more = [0; 65536];
            let count = self.stream.read(&mut more).expect("an answer in time");
            assert!(count > 0, "the connection has ended");
            self.input.extend_from_slice(&more[..count]);
        }
    }

    /// What is said to a command: as many answers as it has.
    pub fn ask(&mut self, command: &[Vec<u8>]) -> Vec<u8> {
        self.say(command);
        self.hear()
    }
}

pub fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// As [`Line::ask`], of a simulated server; everything that is ready.
pub fn ask(server: &mut Server, now: Duration, connection: ConnectionId, command: &[Vec<u8>]) -> Vec<u8> {
    server.execute(now, connection, command);
    server.output(connection)
}

pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "|")
}
