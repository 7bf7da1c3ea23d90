//! The plain lock and rslock's, which is the same lock: rates and processor time in one run.

use std::{sync::Arc, time::Duration};

use lock_core::{Kind, Lease};
use rslock::LockManager;

use crate::{
    Failure,
    cycle::{self, Count, Pairs, ROUNDS, TASKS},
    goals::{self, Bound},
    support::Server,
};

const LEASE: Duration = Duration::from_secs(30);

/// Both on the installed server, which looks after itself as often as servers of users do: ten times a
/// second, where those of our tests do it a hundred times.
pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start_program("redis-server", &[]);
    let client = cycle::connect(&server).await?;
    let mut manager = LockManager::new(vec![server.url()]);
    manager.set_retry(1, Duration::ZERO);
    let info = server.ok(&["INFO", "server"]);
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let version = field("valkey_version:").or(field("redis_version:"));
    let version = version.unwrap_or("?").trim();
    println!("\nan uncontended cycle: the plain lock, and rslock 0.10, on redis-server {version}");
    cycle::heading("rslock");
    let mut all = Vec::new();
    for tasks in TASKS {
        let mut pairs = Pairs::default();
        for _ in 0..ROUNDS {
            let ours = cycle::library(&client, &server, tasks, Kind::Plain, Lease::Fixed(LEASE));
            pairs.ours.push(ours.await?);
            let theirs = |task: usize, count: Arc<Count>| {
                let manager = manager.clone();
                async move { cycles(&manager, format!("peer:{task}"), &count).await }
            };
            pairs.theirs.push(cycle::round(&server, tasks, theirs).await?);
        }
        pairs.print(tasks, "");
        all.push((tasks, pairs));
    }
    for (tasks, pairs) in all {
        let name = |what: &str| format!("{what} against rslock, {tasks} tasks, server {version}");
        goals::ratio(&name("cycles"), pairs.rate(), Bound::AtLeast(1.0));
        let client = name("client's processor time per cycle");
        goals::ratio(&client, pairs.client(), Bound::AtMost(1.0));
        let server = name("server's processor time per cycle");
        goals::ratio(&server, pairs.server(), Bound::AtMost(1.0));
    }
    client.close().await;
    Ok(())
}

/// Cycles of rslock; where others want the lock it waits as it does by itself.
pub(crate) async fn cycles(manager: &LockManager, name: String, count: &Count) -> Result<(), Failure> {
    loop {
        let lock = manager.acquire_no_guard(name.as_str(), LEASE).await;
        let lock = lock.map_err(|error| format!("rslock: {error}"))?;
        manager.unlock(&lock).await;
        if !count.go_on() {
            return Ok(());
        }
    }
}
