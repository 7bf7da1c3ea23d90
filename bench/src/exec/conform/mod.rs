//! Tries a driver program step by step: each is kept or not, with what came instead and how to fix it.
//!
//! Two processes of the driver talk to one target, and each one's answers are checked against the other's.
//! Nothing is asked that the protocol does not have; what a driver says it cannot do is skipped and said.

mod conformity_report;
mod scripted_driver;
mod steps;

use std::{any::Any, fmt, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use results::secrets::{redact, redact_all};

use super::PipeCost;
use crate::subject::ConnectTo;

/// Begins a fault to the lines to the target's servers, which lasts as long as what it gives is kept.
pub type LineFaults = Arc<dyn Fn(LineFault) -> Box<dyn Any + Send> + Send + Sync>;

/// What is wrong with the lines to the target's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFault {
    /// Answers come late, each by another time.
    SlowLines,
    /// Answers are lost on the way and sent again, so that half of them come late by 200 ms or more.
    LostPackets,
    /// One of the servers cannot be reached.
    OneServerAway,
}

/// How a driver is to be tried. Shown without the target's password.
#[derive(Clone)]
pub struct ConformOptions {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The target URL.
    pub target: String,
    /// What every lock's name begins with.
    pub prefix: String,
    /// The kind to try; `None`: the driver's first.
    pub kind: Option<String>,
    /// How long an answer may take beyond what it waits for.
    pub patience: Duration,
    /// The target is ours alone: its keys may be deleted, to see whether a loss is noticed.
    pub may_flush: bool,
    /// Faults to the lines to the target's servers, where these are ours.
    pub line_faults: Option<LineFaults>,
    /// Where the drivers' standard error goes.
    pub log: Option<PathBuf>,
}

impl fmt::Debug for ConformOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConformOptions")
            .field("command", &redact_all(&self.command))
            .field("target", &redact(&self.target))
            .finish_non_exhaustive()
    }
}

/// How a step came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As the protocol says.
    Kept,
    /// Not as the protocol says.
    Broken,
    /// Not asked, since the driver says that it cannot.
    Skipped,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name, a word or two.
    pub name: &'static str,
    /// What a driver has to do, in one sentence.
    pub rule: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found: figures where it was kept, what came instead where it was not, or why it was skipped.
    pub found: String,
    /// What to fix; empty where there is nothing.
    pub remedy: &'static str,
    /// The heading of its paragraph in `docs/src/driver-protocol.md`.
    pub paragraph: &'static str,
    /// Whether it asks for what the lock promises, such as exclusion, and not how a driver says so.
    pub is_promise: bool,
}

impl Step {
    /// Where the protocol says what it asks for.
    pub fn protocol_reference(&self) -> String {
        format!("docs/src/driver-protocol.md#{}", self.paragraph)
    }
}

/// What was found of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conformity {
    /// The library's name and version, as the driver says.
    pub library: String,
    /// Every step, in order.
    pub steps: Vec<Step>,
    /// A round trip through the pipe that asks no server.
    pub pipe: Option<PipeCost>,
    /// Why it was not tried, which is no fault of the driver.
    pub not_tried: Option<NotTried>,
    /// It answered hello with `failed`: it may know other servers than these.
    pub is_refused: bool,
}

/// Why a driver that said hello was not tried any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTried {
    /// It does not list the kind that was asked for.
    Kind(String),
    /// It says that it does not work on servers such as the target's.
    Topology {
        /// In its words, or with what it lists.
        why: String,
        /// Where it works; empty where it does not say.
        listed: Vec<String>,
    },
}

impl Conformity {
    /// Whether it was tried, and no step was broken.
    pub fn conforms(&self) -> bool {
        self.not_tried.is_none() && !self.steps.iter().any(|step: &Step| step.outcome == Outcome::Broken)
    }
}

/// Tries a driver, step by step; `report` is called with each step as it is done.
pub fn conform<'a>(
    options: &'a ConformOptions,
    report: impl FnMut(&Step) + Send + 'a,
) -> BoxFuture<'a, Conformity> {
    steps::Trial::new(options).run(Box::new(report))
}

impl ConformOptions {
    fn connect_to(&self, client: &str) -> ConnectTo {
        ConnectTo { log: self.log.clone(), ..ConnectTo::new(&self.target, client, 7, "none") }
    }
}
