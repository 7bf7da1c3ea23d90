//! Other libraries as subjects: programs in folders of `drivers/peers/`, which `make peers` builds.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{exec::ExecSubject, subject::Subject};

struct Peer {
    /// The folder's, and the subject's behind `peer:`.
    name: &'static str,
    about: &'static str,
    system: Option<&'static str>,
    /// What is there once it is built, below the folder.
    built: &'static str,
}

const PEER: Peer = Peer { name: "", about: "", system: None, built: "" };

#[allow(clippy::needless_update, reason = "the last row differs in everything")]
const PEERS: &[Peer] = rows! { Peer;
    "redisson": PEER { built: "build/classes/RedissonDriver.class" }
        "Redisson 4.7.0 (Java), asynchronous calls: reentrant, fair, read-write, fenced, spin, multi, redlock, semaphores; notified waits, a watchdog"
    "redsync": PEER { built: "build/driver" }
        "redsync 4.18.1 over go-redis 9.23.0 (Go): SET NX PX on one server or a majority of several, tries every 50 to 250 ms; no renewal"
    "bsm-redislock": PEER { built: "build/driver" }
        "bsm/redislock 0.9.4 over go-redis 9.23.0 (Go): SET NX PX by a script, tries every 100 ms; no renewal"
    "redis-py": PEER { built: ".venv/built" }
        "redis-py 8.1.0 (Python): SET NX PX, tries every 100 ms, sends a command again up to ten times; no renewal"
    "node-redlock": PEER { built: "node_modules/redlock/package.json" }
        "node-redlock 5.0.0-beta.2 over ioredis 5.11.1 (Node): a script on one server or a majority of several, tries every 100 to 300 ms; `using` renews"
    "redis-semaphore": PEER { built: "node_modules/redis-semaphore/package.json" }
        "redis-semaphore 5.8.0 over ioredis 6.0.0 (Node): SET NX PX on one server or a majority of several, semaphores, tries every 10 ms; renews at 0.8 of the lease"
    "rslock": PEER { built: "build/release/rslock-driver" }
        "rslock 0.10.0 over redis-rs 1.8.1 (Rust): SET NX PX on one server or a majority of several, tries every 0 to 200 ms; no renewal"
    "redlock": PEER { built: "../rust-shelf/build/release/redlock" } "redlock 2.0.0 over redis-rs 0.23.5 (Rust): SET NX PX on one server or a majority of several, blocking, tries every 0 to 200 ms; no renewal"
    "redis-lock": PEER { built: "../rust-shelf/build/release/redis-lock" } "redis-lock 0.5.1 over redis-rs 0.27.6 (Rust): a future run under SET NX PX on one server or a majority of several, tries every 100 ms; no renewal"
    "async-redis-lock": PEER { built: "../rust-shelf/build/release/async-redis-lock" } "async-redis-lock 0.4.0 over redis-rs 1.8.1 (Rust): a script on one or several keys, tries every 100 ms; renews at a third of the lease"
    "rdlock": PEER { built: "../rust-shelf/build/release/rdlock" } "rdlock 1.0.3 over redis-rs 0.27.6 (Rust): SET NX EX in whole seconds, keyspace notifications wake waiters; no renewal"
    "distributed-lock": PEER { built: "../rust-shelf/build/release/distributed-lock" } "distributed-lock-redis 0.2.0 over fred 9.4.0 (Rust): SET NX PX on one server or a majority of several, read-write, semaphores; renews at a third of the lease"
    "curator": PEER { built: "build/classes/CuratorDriver.class", system: Some("zookeeper") }
        "Curator 5.9.0 (Java), InterProcessMutex on ZooKeeper: an ephemeral sequential node for each acquire; notified waits, a session"
};

/// Where the folder `peers` is: as the environment says, beside the sources of this build, or here.
fn drivers() -> PathBuf {
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers"));
    let found = if sources.is_dir() { sources } else { Path::new("drivers") };
    env::var_os("LOCKLAB_DRIVERS").map_or_else(|| found.to_owned(), PathBuf::from)
}

impl Peer {
    fn subject(&self, drivers: &Path) -> ExecSubject {
        let folder = drivers.join("peers").join(self.name);
        let folder = folder.canonicalize().unwrap_or(folder);
        let build = folder.join("build.sh");
        let how =
            || format!("peer:{} is not built: `make peers` or `sh {}` builds it", self.name, build.display());
        ExecSubject {
            name: format!("peer:{}", self.name),
            about: self.about.to_owned(),
            command: vec![folder.join("run").to_string_lossy().into_owned()],
            system: self.system,
            missing: (!folder.join(self.built).exists()).then(how),
            ..ExecSubject::default()
        }
    }
}

pub(super) fn subjects() -> Vec<Arc<dyn Subject>> {
    let drivers = drivers();
    PEERS.iter().map(|peer| Arc::new(peer.subject(&drivers)) as Arc<dyn Subject>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_there_once_its_build_has_left_its_file() {
        let drivers = tempfile::tempdir().expect("a temporary directory");
        let peer = &PEERS[0];
        let missing = || peer.subject(drivers.path()).missing().map(str::to_owned);
        let why = missing().expect("nothing is built");
        assert!(why.contains("make peers") && why.contains("build.sh"), "{why}");
        let built = drivers.path().join("peers").join(peer.name).join(peer.built);
        std::fs::create_dir_all(built.parent().expect("a folder")).expect("a folder");
        std::fs::write(built, "").expect("a file");
        assert_eq!(missing(), None);
    }
}
