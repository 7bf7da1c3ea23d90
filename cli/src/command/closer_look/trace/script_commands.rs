//! Matches what MONITOR shows with the scripts that a client has traced: the commands inside each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster_config::MonitorLine;
use lock_core::diagnostics::Traced;

/// Longest wait for what MONITOR has still to show at the end.
const PATIENCE: Duration = Duration::from_secs(1);

struct ScriptRun {
    node: String,
    words: Vec<String>,
    calls: Vec<String>,
}

/// The script calls that were seen, those of other clients among them, in the order of each node.
#[derive(Clone, Default)]
pub(super) struct ScriptCalls(Arc<Mutex<Vec<ScriptRun>>>);

impl ScriptCalls {
    fn runs(&self) -> MutexGuard<'_, Vec<ScriptRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line of a server's MONITOR. A server does nothing else while a script runs, so a script's
    /// calls follow it directly.
    pub(super) fn add_line(&self, node: &str, line: &MonitorLine<'_>) {
        let words = line.words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        let mut runs = self.runs();
        if line.is_by_script() {
            let last = runs.iter_mut().rfind(|run| run.node == node);
            if let Some(run) = last {
                run.calls.push(words.collect::<Vec<_>>().join(" "));
            }
        } else if line.words[0].eq_ignore_ascii_case(b"EVALSHA") {
            runs.push(ScriptRun { node: node.to_owned(), words: words.skip(3).collect(), calls: Vec::new() });
        }
    }

    /// The calls of each event that is a script; nothing for those that are none, and for servers that do not
    /// show theirs. Waits a moment for what is still on its way.
    pub(super) async fn of_events(
        &self,
        events: &[&Traced],
        refused: &[(String, String)],
    ) -> Vec<Option<Vec<String>>> {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.matched(events);
            let complete = events.iter().zip(&found).all(|(event, found)| {
                let silent = refused.iter().any(|(node, _)| *node == event.node);
                event.script.is_none() || silent || found.is_some()
            });
            if complete || Instant::now() >= end {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Equal calls are told apart by their order.
    fn matched(&self, events: &[&Traced]) -> Vec<Option<Vec<String>>> {
        let runs = self.runs();
        let mut taken = vec![false; runs.len()];
        let mut find = |event: &Traced| {
            event.script?;
            let words: Vec<_> = event.keys.iter().chain(&event.args).collect();
            let fits = |(place, run): &(usize, &ScriptRun)| {
                run.node == event.node && run.words.iter().eq(words.iter().copied()) && !taken[*place]
            };
            let (place, run) = runs.iter().enumerate().find(fits)?;
            taken[place] = true;
            Some(run.calls.clone())
        };
        events.iter().map(|event| find(event)).collect()
    }
}
