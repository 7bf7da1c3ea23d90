//! A running server from a few redis.conf lines; it ends with its guard, or with the test, whatever happens.
// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod cluster;
pub mod fared;
pub mod java;
pub mod monitor;
pub mod proxy;
pub mod sentinel;
pub mod tls;

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a test waits for what must come; generous, since a loaded machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running redis-server (or sentinel) on a loopback port of its own. Dropping it kills it.
pub struct Server {
    pub port: u16,
    program: String,
    child: Option<Child>,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Server {
    /// A server with no persistence and further `--name value` arguments, ready to answer.
    pub fn start(arguments: &[&str]) -> Self {
        let common = ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--hz", "100"];
        Self::spawn_any("redis-server", None, &[&common[..], arguments].concat())
    }

    /// As `start`, of another program; see [`newer_server`].
    pub fn start_program(program: &str, arguments: &[&str]) -> Self {
        let common = ["--save", "", "--repl-diskless-sync-delay", "0"];
        Self::spawn_any(program, None, &[&common[..], arguments].concat())
    }

    /// A server of another kind, by a configuration file that `text` makes from the port.
    pub fn start_with_file(text: impl Fn(u16) -> String, arguments: &[&str]) -> Self {
        Self::spawn_any("redis-server", Some(&text), arguments)
    }

    fn spawn_any(program: &str, file: Option<&dyn Fn(u16) -> String>, arguments: &[&str]) -> Self {
        // Somebody else may take a free port before the server does; then it ends at once and the next is
        // tried.
        for _ in 0..20 {
            let port = free_port();
            let directory = TempDir::new().expect("a temporary directory");
            let mut all = Vec::new();
            if let Some(text) = file {
                let path = directory.path().join("server.conf");
                std::fs::write(&path, text(port)).expect("a configuration file");
                all.push(path.display().to_string());
            }
            all.extend(arguments.iter().map(|&argument| argument.to_owned()));
            let mut server =
                Server { program: program.to_owned(), port, child: None, directory, arguments: all };
            if server.restart() {
                return server;
            }
        }
        panic!("redis-server does not start on any port: is it installed?");
    }

    /// Starts the server again on its port. False if it ended at once.
    pub fn restart(&mut self) -> bool {
        self.kill();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.arg("--dir").arg(self.directory.path()).args(["--protected-mode", "no"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let parent = std::process::id();
        // SAFETY: prctl, getppid and _exit are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
        self.child = Some(command.spawn().expect("redis-server is installed"));
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.as_mut().is_some_and(|child| child.try_wait().expect("a child of ours").is_some()) {
                return false;
            }
            if self.try_call(&["PING"]).is_some_and(|answer| !answer.starts_with("-LOADING")) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("redis-server on port {} does not answer", self.port);
    }

    /// Starts another program in its place, with nothing kept.
    pub fn restart_as(&mut self, program: &str) {
        program.clone_into(&mut self.program);
        assert!(self.restart(), "{program} does not start");
    }

    /// Waits until the replica of this master has acknowledged a write, of which nothing stays. Its first
    /// acknowledgement takes up to a second, and WAIT counts nothing before it.
    pub fn acknowledged(&self) {
        self.ok(&["SET", "first", "write"]);
        self.ok(&["DEL", "first"]);
        self.wait_for(&["INFO", "replication"], |info| {
            let number = |name: &str| {
                let rest = info.split(name).nth(1)?;
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                rest[..end].parse::<u64>().ok()
            };
            let written = number("master_repl_offset:");
            written > Some(0) && number(",offset=") >= written
        });
    }

    /// SIGKILL, and wait until the process is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGSTOP until the answer is dropped: the kernel still accepts connections and bytes, nobody answers.
    pub fn freeze(&self) -> Frozen {
        let pid = self.child.as_ref().expect("a running server").id();
        signal(pid, "STOP");
        Frozen { pid }
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends one command over a connection of its own; the answer as text: arrays by lines, errors with their
    /// `-`.
    pub fn call(&self, parts: &[&str]) -> String {
        self.try_call(parts).unwrap_or_else(|| panic!("{parts:?} was not answered on port {}", self.port))
    }

    /// As `call`, and an error is a failed test.
    pub fn ok(&self, parts: &[&str]) -> String {
        let answer = self.call(parts);
        assert!(!answer.starts_with('-'), "{parts:?} was answered {answer}");
        answer
    }

    /// Lets so much of every lease of a lock pass, and of its holds' own; what a request has to remember does
    /// not.
    pub fn pass(&self, lock: &str, time: std::time::Duration) {
        const PASS: &str = "
            for _, key in ipairs(redis.call('keys', '*')) do
                local text = redis.call('type', key).ok == 'string' and redis.call('get', key)
                local lists = string.find(key, 'holds_latch', 1, true)
                local lives = lists or not string.find(key, 'latch', 1, true) or text == '1'
                local left = redis.call('pttl', key)
                if lives and left > 0 and string.find(key, ARGV[1], 1, true) and not string.find(key, 'token', 1, true) then
                    if lists then
                        text = string.gsub(text, ' (%d+) ', function(ends)
                            return string.format(' %.0f ', ends - ARGV[2])
                        end)
                        redis.call('set', key, text, 'px', left)
                    end
                    redis.call('pexpire', key, math.max(left - ARGV[2], 0))
                end
            end";
        let time_ms = time.as_millis().to_string();
        self.call(&["EVAL", PASS, "0", lock, &time_ms]);
    }

    /// Calls until the answer pleases.
    pub fn wait_for(&self, parts: &[&str], pleases: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.try_call(parts).unwrap_or_default();
            if pleases(&answer) {
                return answer;
            }
            assert!(Instant::now() < until, "{parts:?} on port {} still answers {answer}", self.port);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_call(&self, parts: &[&str]) -> Option<String> {
        let stream = TcpStream::connect_timeout(&self.address(), PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut request = format!("*{}\r\n", parts.len());
        for part in parts {
            request.push_str(&format!("${}\r\n{part}\r\n", part.len()));
        }
        (&stream).write_all(request.as_bytes()).ok()?;
        answer(&mut BufReader::new(&stream))
    }
}

/// A stopped server; goes on when this is dropped.
pub struct Frozen {
    pid: u32,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.pid, "CONT");
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "SIG{name} to {pid}");
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answer(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1)?;
    match kind {
        "$" => {
            let Ok(length) = rest.parse::<usize>() else {
                return Some(String::new());
            };
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
        }
        "*" => {
            let items = (0..rest.parse::<usize>().unwrap_or(0))
                .map(|_| answer(reader))
                .collect::<Option<Vec<_>>>()?;
            Some(items.join("\n"))
        }
        "-" => Some(line.to_owned()),
        _ => Some(rest.to_owned()),
    }
}

/// A server here that knows a command: of the programs in LOCK_CORE_NEWER_SERVER (paths with `:` between
/// them), redis-server and valkey-server. None, and said loudly, if none does.
pub fn newer_server(command: &str, since: &str) -> Option<String> {
    let named = std::env::var("LOCK_CORE_NEWER_SERVER").unwrap_or_default();
    let programs = named.split(':').filter(|program| !program.is_empty());
    for program in programs.chain(["redis-server", "valkey-server"]) {
        let found = Command::new(program).arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let server = Server::start_program(program, &[]);
        if server.ok(&["COMMAND", "DOCS", command]).contains("summary") {
            return Some(program.to_owned());
        }
    }
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // Straight to the stream: what is printed the usual way is not shown for a test that passes.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {test}: no server here knows {command} ({since} or newer); `make servers` gets some"
    );
    None
}

/// A port that was free a moment ago. Below the ephemeral range, and room for the cluster bus 10,000 above.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = u16::try_from(std::process::id() % 1000).expect("below 1000") * 10;
    loop {
        let port = 10_000 + (base + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// Asks the kernel to kill this process when the thread that started it ends.
fn die_with(parent: u32) -> std::io::Result<()> {
    unsafe extern "C" {
        safe fn getppid() -> i32;
        fn prctl(option: i32, argument: u64, ...) -> i32;
    }
    const PR_SET_PDEATHSIG: i32 = 1;
    const SIGKILL: u64 = 9;
    // SAFETY: plain integers, no pointers.
    if unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // The parent may have died before the request; then nobody would be left to kill this process.
    if u32::try_from(getppid()).is_ok_and(|now| now == parent) {
        Ok(())
    } else {
        Err(std::io::ErrorKind::Other.into())
    }
}
