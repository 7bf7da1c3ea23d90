//! Turns a server's name (`redis`, `valkey`, a path) into a binary that was asked for its version.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ClusterError;

/// A server binary that exists and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The binary.
    pub path: PathBuf,
    /// What `--version` says, for example `7.0.15`.
    pub version: String,
}

/// Oldest version that has what every topology needs: `bind-source-addr`, `cluster-port`, `SENTINEL DEBUG`.
const OLDEST: (u32, u32) = (7, 0);

impl Server {
    /// Finds the binary (in `PATH` unless a path is given) and asks for its version. For `redis` and `valkey` the
    /// variables `LOCKLAB_REDIS_SERVER` and `LOCKLAB_VALKEY_SERVER` come before `PATH`.
    ///
    /// The error names the package to install when the binary is absent or older than 7.0.
    pub fn find(server: &str) -> Result<Server, ClusterError> {
        let (path, mend) = match server {
            "redis" => (
                named_or_in_path("LOCKLAB_REDIS_SERVER", "redis-server"),
                package("redis-server"),
            ),
            "valkey" => (
                named_or_in_path("LOCKLAB_VALKEY_SERVER", "valkey-server"),
                package("valkey-server"),
            ),
            other if other.contains('/') => (
                Some(PathBuf::from(other)).filter(|path| path.is_file()),
                "check the path, or say redis or valkey".to_owned(),
            ),
            other => (
                in_path(other),
                "say redis, valkey, or the path of a server binary".to_owned(),
            ),
        };
        let Some(path) = path else {
            return Err(ClusterError::missing(format!(
                "the server {server:?} was not found; {mend}"
            )));
        };
        let version = ask_version(&path).map_err(|why| {
            ClusterError::missing(format!("{} --version: {why}; {mend}", path.display()))
        })?;
        if major_minor(&version).is_none_or(|found| found < OLDEST) {
            return Err(ClusterError::missing(format!(
                "{} is version {version}; {}.{} or newer is needed; {mend}",
                path.display(),
                OLDEST.0,
                OLDEST.1
            )));
        }
        Ok(Server { path, version })
    }
}

fn package(name: &str) -> String {
    format!("install it with: sudo apt-get install {name} (version 7.0 or newer)")
}

/// A binary that a variable names is taken as it is, so that a wrong one is reported and not passed over.
fn named_or_in_path(variable: &str, name: &str) -> Option<PathBuf> {
    match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(path) => Some(PathBuf::from(path)),
        None => in_path(name),
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn ask_version(path: &Path) -> Result<String, String> {
    let output = Command::new(path)
        .arg("--version")
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text)
        .ok_or_else(|| format!("answered {:?}, which names no version", text.trim()))
}

/// `Redis server v=7.0.15 sha=…` and `Valkey server v=8.0.1 …` both give the word after `v=`.
fn parse_version(text: &str) -> Option<String> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .map(str::to_owned)
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_servers_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(parse_version(redis).as_deref(), Some("7.0.15"));
        let valkey = "Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64";
        assert_eq!(parse_version(valkey).as_deref(), Some("8.0.1"));
        assert_eq!(major_minor("6.2.14"), Some((6, 2)));
    }

    #[test]
    fn an_absent_server_names_the_mend_and_counts_as_missing() {
        let error = Server::find("/nowhere/redis-server").unwrap_err();
        assert!(error.missing);
        assert!(error.message.contains("/nowhere/redis-server"), "{error}");
    }

    #[test]
    fn a_program_that_is_no_server_counts_as_missing() {
        let error = Server::find("/bin/true").unwrap_err();
        assert!(error.missing, "{error}");
    }
}
