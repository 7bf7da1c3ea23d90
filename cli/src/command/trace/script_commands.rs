//! Matches what MONITOR shows with the scripts that a client has traced: the commands inside each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::diagnostics::{Monitored, Traced};

/// Longest wait for what MONITOR has still to show at the end.
const PATIENCE: Duration = Duration::from_secs(1);

struct Run {
    node: String,
    words: Vec<String>,
    calls: Vec<String>,
}

/// The script calls that were seen, those of other clients among them, in the order of each node.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Run>>>);

impl Calls {
    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What MONITOR's lines go to. A server does nothing else while a script runs, so a script's calls follow it directly.
    pub(super) fn listener(&self) -> impl Fn(Monitored) + Send + Sync + 'static {
        let calls = self.clone();
        move |seen| {
            let mut runs = calls.runs();
            if seen.by_script {
                let last = runs.iter_mut().rfind(|run| run.node == seen.node);
                if let Some(run) = last {
                    run.calls.push(seen.words.join(" "));
                }
            } else if seen.words[0].eq_ignore_ascii_case("EVALSHA") {
                runs.push(Run {
                    node: seen.node,
                    words: seen.words.into_iter().skip(3).collect(),
                    calls: Vec::new(),
                });
            }
        }
    }

    /// The calls of each event that is a script; nothing for those that are none, and for servers that do not show theirs. Waits a
    /// moment for what is still on its way.
    pub(super) async fn of(
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
            let fits = |(place, run): &(usize, &Run)| {
                run.node == event.node
                    && run.words.iter().eq(words.iter().copied())
                    && !taken[*place]
            };
            let (place, run) = runs.iter().enumerate().find(fits)?;
            taken[place] = true;
            Some(run.calls.clone())
        };
        events.iter().map(|event| find(event)).collect()
    }
}
