//! A driver that a step talks to line by line. Everything that breaks the protocol is noted.
//!
//! Unlike the subject's own client, this one goes on after a wrong line as long as the process lives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use results::limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::oneshot;

use super::super::log_tail;
use super::super::output::Output;
use super::super::process::{self, DriverProcess};
use super::super::processes::Processes;
use crate::protocol::{Line, Object};
use crate::subject::{ConnectTo, SubjectError};

#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// From writing the request to the first byte of its reply.
    pub(super) took: Duration,
    pub(super) at: Instant,
    /// The reply's ending: its one key beside `id`.
    pub(super) ending: String,
    pub(super) body: Value,
}

pub(super) struct ScriptedDriver {
    child: Child,
    processes: Processes,
    /// `None` once the driver's input was closed.
    stdin: Option<ChildStdin>,
    output: Output,
    logged: oneshot::Receiver<()>,
    to: ConnectTo,
    next_id: u64,
    sent_at: BTreeMap<u64, Instant>,
    answered: BTreeSet<u64>,
    /// Replies by request id; the error says what is wrong with a reply that has not exactly one ending.
    replies: BTreeMap<u64, Result<Reply, String>>,
    pub(super) events: Vec<Object>,
    /// What the driver did against the protocol, one entry per line.
    pub(super) violations: Vec<String>,
    pub(super) has_ended: bool,
}

impl ScriptedDriver {
    pub(super) fn start(command: &[String], to: &ConnectTo) -> Result<Self, SubjectError> {
        let DriverProcess { child, processes, stdin, output, logged } = process::start(command, to)?;
        Ok(ScriptedDriver {
            child,
            processes,
            stdin: Some(stdin),
            output,
            logged,
            to: to.clone(),
            next_id: 0,
            sent_at: BTreeMap::new(),
            answered: BTreeSet::new(),
            replies: BTreeMap::new(),
            events: Vec::new(),
            violations: Vec::new(),
            has_ended: false,
        })
    }

    pub(super) fn is_well(&self) -> bool {
        !self.has_ended && self.stdin.is_some() && self.violations.is_empty()
    }

    pub(super) async fn send(&mut self, mut request: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        request["id"] = json!(id);
        self.sent_at.insert(id, Instant::now());
        self.line(&request.to_string()).await;
        id
    }

    /// Writes a line unchanged. A broken pipe shows as a missing reply.
    pub(super) async fn line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let text = format!("{line}\n");
            let _ = stdin.write_all(text.as_bytes()).await;
            let _ = stdin.flush().await;
        }
    }

    pub(super) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// The answer to a request; the error says what came instead.
    pub(super) async fn reply(&mut self, id: u64, within: Duration) -> Result<Reply, String> {
        let deadline = tokio::time::Instant::now() + within;
        loop {
            if let Some(reply) = self.replies.remove(&id) {
                // The reply broke the protocol, and no better one will come.
                return reply.map_err(|wrong| format!("{wrong}{}", log_tail(self.to.log.as_ref())));
            }
            if self.has_ended {
                return Err(self.ended().await);
            }
            if self.next_line(deadline).await.is_none() {
                let instead = match self.violations.last() {
                    Some(wrong) => format!("; it {wrong}"),
                    None => String::new(),
                };
                return Err(format!(
                    "no answer within {within:?}{instead}{}",
                    log_tail(self.to.log.as_ref())
                ));
            }
        }
    }

    pub(super) async fn ask(&mut self, request: Value, within: Duration) -> Result<Reply, String> {
        let id = self.send(request).await;
        self.reply(id, within).await
    }

    pub(super) async fn listen(&mut self, length: Duration, enough: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + length;
        while !self.has_ended && !enough(self) && self.next_line(deadline).await.is_some() {}
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.answered.contains(&id)
    }

    async fn next_line(&mut self, deadline: tokio::time::Instant) -> Option<()> {
        match tokio::time::timeout_at(deadline, self.output.next()).await {
            Err(_) => return None,
            Ok(Ok(Some(line))) => self.read_line(line.at, &line.text),
            Ok(Ok(None)) => self.has_ended = true,
            Ok(Err(error)) => {
                self.violations.push(error.to_string());
                self.has_ended = true;
            }
        }
        Some(())
    }

    fn read_line(&mut self, at: Instant, line: &str) {
        let shown: String = line.chars().take(200).collect();
        // So many wrong lines are enough: another one says nothing new.
        self.has_ended |= self.violations.len() == limits::EVENTS;
        let (id, ending) = match Line::parse(line) {
            Ok(Line::Event(event)) => {
                if self.events.len() == limits::EVENTS {
                    self.violations.push(format!("printed more than {} events", limits::EVENTS));
                    self.has_ended = true;
                }
                return self.events.push(event);
            }
            Ok(Line::Reply(id, ending)) => (id, ending),
            Err(what) => return self.violations.push(format!("{what}: `{shown}`")),
        };
        let Some(sent_at) = self.sent_at.get(&id).copied() else {
            return self.violations.push(format!("answered an id that was never asked: `{shown}`"));
        };
        if !self.answered.insert(id) {
            return self.violations.push(format!("answered an id twice: `{shown}`"));
        }
        let Some((ending, body)) = ending else {
            let what = format!("answered without exactly one ending: `{shown}`");
            self.replies.insert(id, Err(what.clone()));
            self.violations.push(what);
            return;
        };
        let took = at.saturating_duration_since(sent_at);
        self.replies.insert(id, Ok(Reply { took, at, ending, body }));
    }

    async fn ended(&mut self) -> String {
        let status = tokio::time::timeout(Duration::from_secs(1), self.child.wait()).await;
        let how = match status {
            Ok(status) => {
                let _ = tokio::time::timeout(Duration::from_millis(500), &mut self.logged).await;
                process::ending(status)
            }
            Err(_) => "closed its output".to_owned(),
        };
        format!("the driver {how} instead{}", log_tail(self.to.log.as_ref()))
    }

    /// Waits for the process to exit, and gives its exit code. The error says what the process did instead.
    pub(super) async fn wait(&mut self, within: Duration) -> Result<Option<i32>, String> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(Ok(status)) => {
                self.processes.end().await;
                Ok(status.code())
            }
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!("it was still there after {within:?}")),
        }
    }

    /// Sends a signal to all of the driver's processes.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), String> {
        self.processes.signal(signal)
    }

    /// Sends SIGKILL to all of the driver's processes, and waits until they are gone.
    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
        self.processes.end().await;
        self.has_ended = true;
    }
}
