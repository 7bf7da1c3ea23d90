//! Redisson itself, in a JVM, as peers of a test: as many threads as asked for that want one lock, and what
//! each got.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::die_with;
pub use super::fared::Fared;

/// What the threads of a JVM want.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'a> {
    pub url: &'a str,
    /// reentrant, fair or fenced.
    pub kind: &'a str,
    pub name: &'a str,
    pub threads: usize,
    pub hold: Duration,
    /// After this nobody begins to wait any more.
    pub run: Duration,
}

/// A JVM that is connected, and waits for its start. Dropping it kills it.
pub struct Peers {
    child: Child,
    says: BufReader<ChildStdout>,
    threads: usize,
}

impl Peers {
    /// Starts a JVM; `None`, and said loudly, where Java or the jars are missing.
    pub fn start(wants: Wants<'_>) -> Option<Self> {
        let class_path = match class_path() {
            Ok(class_path) => class_path,
            Err(why) => {
                let test = std::thread::current();
                let test = test.name().unwrap_or("a test");
                // Straight to the stream: what is printed the usual way is not shown for a test that passes.
                let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
                return None;
            }
        };
        let mut command = Command::new("java");
        // It starts sooner so, and leaves the rest of the machine alone.
        command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args(["-cp", &class_path]).arg(java("Peers.java"));
        command.args([wants.url, wants.kind, wants.name, &wants.threads.to_string()]);
        command.args([wants.hold, wants.run].map(|time| time.as_millis().to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let parent = std::process::id();
        // SAFETY: prctl, getppid and _exit are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || die_with(parent));
        }
        let mut child = command.spawn().expect("it ran a moment ago");
        let says = BufReader::new(child.stdout.take().expect("piped"));
        let threads = wants.threads;
        let mut peers = Peers { child, says, threads };
        assert_eq!(peers.line(), "{\"ready\":true}");
        Some(peers)
    }

    /// From now on its threads want the lock.
    pub fn begin(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(b"\n").expect("it reads");
        stdin.flush().expect("it reads");
    }

    /// Waits for the end of the run; how each thread fared. Blocks.
    pub fn end(mut self) -> Vec<Fared> {
        (0..self.threads).map(|_| read(&self.line())).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.says.read_line(&mut line).expect("a line");
        assert!(read > 0, "the JVM ended before it said anything");
        line.trim_end().to_owned()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a line of Peers.java says.
fn read(line: &str) -> Fared {
    let number = |name: &str| -> f64 {
        let (_, rest) =
            (line.split_once(&format!("\"{name}\":"))).unwrap_or_else(|| panic!("no {name} in {line}"));
        let end = rest.find([',', '}']).expect("an object");
        rest[..end].parse().expect("a number")
    };
    Fared {
        grants: number("grants") as u32,
        longest: Duration::from_secs_f64(number("longest_ms") / 1000.0),
        waited: Duration::from_secs_f64(number("waited_ms") / 1000.0),
    }
}

fn java(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java").join(file)
}

/// The jars of the release that pom.xml names: those found before, those that Maven has here, or those that
/// it can fetch. Why not, where there are none.
fn class_path() -> Result<String, String> {
    let runs = |program: &str| {
        let version = Command::new(program).arg("-version").output();
        version.is_ok_and(|output| output.status.success())
    };
    if !runs("java") {
        return Err("there is no java; `apt-get install default-jre-headless maven` provides it".to_owned());
    }
    let pom = java("pom.xml");
    // Cargo names its directory to integration tests alone, and this file is part of the unit tests too.
    let kept = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let known = kept.join("redisson.classpath");
    let is_newer = |path: &Path| -> Option<bool> {
        let changed = |path: &Path| path.metadata().ok()?.modified().ok();
        Some(changed(path)? > changed(&pom)?)
    };
    let all_there = |jars: &str| !jars.is_empty() && jars.split(':').all(|jar| Path::new(jar).is_file());
    if is_newer(&known) == Some(true)
        && let Ok(jars) = std::fs::read_to_string(&known)
        && all_there(&jars)
    {
        return Ok(jars);
    }
    if !runs("mvn") {
        return Err("there is no mvn; `apt-get install maven` provides it".to_owned());
    }
    // Tests run beside each other, and none may read what another writes.
    let fresh = known.with_extension(std::process::id().to_string());
    let mut said = String::new();
    for offline in [true, false] {
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "dependency:build-classpath", "-f"]).arg(&pom);
        command.arg(format!("-Dmdep.outputFile={}", fresh.display()));
        if offline {
            command.arg("-o");
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if let Ok(jars) = std::fs::read_to_string(&fresh)
            && output.status.success()
            && all_there(&jars)
        {
            let _ = std::fs::rename(&fresh, &known);
            return Ok(jars);
        }
        said = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    let why = said.lines().find(|line| line.contains("ERROR")).unwrap_or("it says nothing");
    Err(format!("Maven has not got the jars: {why}"))
}
