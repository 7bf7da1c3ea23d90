//! A driver program, in any language, as a [`Subject`]: the harness's end of the subject protocol.
//!
//! One process is one client. Times are the harness's own, so the pipe widens an operation and narrows a
//! hold. What a driver says of the past is the one exception: `age_ms` is counted back from the moment at
//! which the line could be read, and so is late by what the pipe took. A driver may therefore add the
//! absolute time on the clock that all processes of a machine share, in nanoseconds of `CLOCK_MONOTONIC`:
//! `sent_mono_ns` beside a grant, `at_mono_ns` beside `extended` and `lost`. It is taken instead of the age
//! where it lies between the call and the reading (it does not where driver and harness have different
//! clocks); our own drivers give it.
//!
//! A driver that exits, prints something that is not JSON, answers twice or with an unknown ending, or never
//! answers is reported with its command, the line and the end of its log; whatever it had in flight is then
//! unknown.
//!
//! | file | what it is for |
//! |---|---|
//! | `program.rs`, `process.rs`, `processes.rs` | finds the program, starts it, ends all that it started |
//! | `guard.rs` | ends drivers that outlive the harness |
//! | `client.rs` | each call as a request line |
//! | `output.rs`, `reader.rs` | lines with their times; answers, events and misbehaviour |
//! | `pipe.rs` | what the pipe costs |
//! | `templates.rs` | drivers to begin with, in each language that has an SDK |
//! | `conform/`, `schema.rs` | tries a driver step by step; the JSON Schema of the lines |

mod client;
pub mod conform;
pub mod guard;
mod output;
mod pipe;
mod process;
mod processes;
mod program;
mod reader;
mod schema;
pub mod templates;

pub use pipe::{PipeCost, pipe_cost};
pub use processes::{Member, Processes, escaped_processes};
pub use program::check as check_program;
pub(crate) use program::is_command;
pub use schema::json_schema;

use std::path::PathBuf;

use async_trait::async_trait;

use crate::subject::{ConnectTo, Connected, Subject, SubjectError};

/// A driver program as a subject.
#[derive(Debug, Clone, Default)]
pub struct ExecSubject {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) command: Vec<String>,
    /// The program serves one of our own subjects.
    pub(crate) is_ours: bool,
    /// The system that it is a lock on, where that is known before it runs and is not Redis.
    pub(crate) system: Option<&'static str>,
    pub(crate) missing: Option<String>,
}

impl ExecSubject {
    /// From what follows `exec:`, split as a shell splits words (quotes, backslashes; nothing is expanded).
    pub fn from_command_line(line: &str) -> Result<Self, SubjectError> {
        let command =
            shell_words::split(line).map_err(|e| usage!("cannot split `exec:{line}` into words: {e}"))?;
        if command.is_empty() {
            bail!("`exec:` needs a program, e.g. `exec:python3 driver.py`",);
        }
        Ok(ExecSubject {
            name: format!("exec:{line}"),
            about: "a driver program that speaks the subject protocol".into(),
            command,
            ..ExecSubject::default()
        })
    }

    /// `subject`, in a process of its own per client: `command` is a program that [serves](crate::serve) it.
    pub fn for_subject(subject: &dyn Subject, command: Vec<String>) -> Self {
        ExecSubject {
            name: subject.name().to_owned(),
            about: subject.about().to_owned(),
            kinds: subject.kinds(),
            command,
            is_ours: true,
            ..ExecSubject::default()
        }
    }
}

#[async_trait]
impl Subject for ExecSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn kinds(&self) -> Vec<String> {
        self.kinds.clone()
    }

    fn program(&self) -> Option<&[String]> {
        (!self.is_ours).then_some(&self.command)
    }

    fn system(&self) -> Option<&str> {
        self.system
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        match &self.missing {
            Some(why) => Err(SubjectError::unreachable(why.as_str())),
            None => client::start(&self.command, to, self.is_ours).await,
        }
    }
}

/// The end of a driver's log, for messages; empty if there is none.
fn log_tail(log: Option<&PathBuf>) -> String {
    const TAIL: u64 = 600;
    let tail = |path: &PathBuf| {
        let bytes = results::limits::tail(path, TAIL).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| format!("; its log {} ends: {text}", path.display()))
    };
    log.and_then(tail).unwrap_or_default()
}
