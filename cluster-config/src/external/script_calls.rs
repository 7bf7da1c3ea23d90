//! The commands inside scripts, by MONITOR on every master: matched with the scripts that a client has sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::External;
use crate::{MonitorLine, Role};

/// Longest wait for what MONITOR has still to show at the end.
const PATIENCE: Duration = Duration::from_secs(1);

struct ScriptRun {
    node: String,
    words: Vec<String>,
    calls: Vec<String>,
}

/// The script calls that were seen, those of other clients among them, in the order of each node. Listens
/// until it is dropped.
#[derive(Default)]
pub struct ScriptCalls {
    runs: Arc<Mutex<Vec<ScriptRun>>>,
    tasks: Vec<JoinHandle<()>>,
    /// The servers that do not let this user listen, or could not be reached, and why.
    pub refused: Vec<(String, String)>,
}

fn locked(runs: &Mutex<Vec<ScriptRun>>) -> MutexGuard<'_, Vec<ScriptRun>> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a line of a server's MONITOR. A server does nothing else while a script runs, so a script's calls
/// follow it directly.
fn add_line(runs: &mut Vec<ScriptRun>, node: &str, line: &MonitorLine<'_>) {
    let words = line.words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    if line.is_by_script() {
        if let Some(run) = runs.iter_mut().rfind(|run| run.node == node) {
            run.calls.push(words.collect::<Vec<_>>().join(" "));
        }
    } else if line.words[0].eq_ignore_ascii_case(b"EVALSHA") {
        runs.push(ScriptRun { node: node.to_owned(), words: words.skip(3).collect(), calls: Vec::new() });
    }
}

impl ScriptCalls {
    /// Listens to the masters of these servers.
    pub async fn listen(servers: &External) -> Self {
        let mut calls = Self::default();
        let masters = servers.data_servers().into_iter().filter(|(_, role)| *role == Role::Master);
        for address in masters.map(|(address, _): (SocketAddr, Role)| address) {
            let node = address.to_string();
            match servers.monitor(address).await {
                Err(why) => calls.refused.push((node, why.to_string())),
                Ok(mut stream) => {
                    let runs = calls.runs.clone();
                    calls.tasks.push(tokio::spawn(async move {
                        let mut line = Vec::new();
                        while stream.next(&mut line).await.unwrap_or(false) {
                            if let Some(line) = MonitorLine::parse(&line) {
                                add_line(&mut locked(&runs), &node, &line);
                            }
                        }
                    }));
                }
            }
        }
        calls
    }

    /// The calls inside each of these scripts, which are said as the server's address and the keys and
    /// arguments; nothing for `None`, and for servers that do not show theirs. Waits a moment for what is
    /// still on its way.
    pub async fn inside(&self, scripts: &[Option<(String, Vec<String>)>]) -> Vec<Option<Vec<String>>> {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.matched(scripts);
            let complete = scripts.iter().zip(&found).all(|(script, found)| {
                let is_shown = |node: &str| !self.refused.iter().any(|(silent, _)| silent == node);
                found.is_some() || !script.as_ref().is_some_and(|(node, _)| is_shown(node))
            });
            if complete || Instant::now() >= end {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Equal calls are told apart by their order.
    fn matched(&self, scripts: &[Option<(String, Vec<String>)>]) -> Vec<Option<Vec<String>>> {
        let runs = locked(&self.runs);
        let mut left: Vec<&ScriptRun> = runs.iter().collect();
        let mut find = |(node, words): &(String, Vec<String>)| {
            let place = left.iter().position(|run| run.node == *node && run.words == *words)?;
            Some(left.remove(place).calls.clone())
        };
        scripts.iter().map(|script| find(script.as_ref()?)).collect()
    }
}

impl Drop for ScriptCalls {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
