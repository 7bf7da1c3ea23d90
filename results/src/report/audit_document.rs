//! The documents of an audit and a watch for programs: the findings, and what they were made with.

use serde::Serialize;

use crate::answer;
use crate::audit::Audit;
use crate::record::run::{BenchRow, Run};
use crate::record::watch::{PerhapsLock, WatchCost, WatchFinding, WatchedHolder, WatchedLock};
use crate::wording::command_line::again;

/// The document of `audit --json`, which is `audit.json` of a run's directory.
#[derive(Debug, Serialize)]
pub struct AuditDocument<'a> {
    schema: u32,
    run: &'a str,
    seed: u64,
    partial: bool,
    answer: String,
    lost: usize,
    as_expected: Option<bool>,
    started_at: &'a str,
    locklab: String,
    command: String,
    servers: String,
    machine: String,
    #[serde(flatten)]
    audit: &'a Audit,
    rows: &'a [BenchRow],
    warnings: &'a [String],
}

impl<'a> AuditDocument<'a> {
    /// The document of a run; `None` of one that is no audit.
    pub fn of(run: &'a Run) -> Option<Self> {
        Some(Self {
            schema: run.schema,
            run: &run.run,
            seed: run.meta.seed,
            partial: run.partial,
            answer: answer::answer(run),
            lost: answer::lost(run),
            as_expected: run.as_expected,
            started_at: &run.meta.started_at,
            locklab: format!("{} {}", run.meta.version, run.meta.commit),
            command: again(run),
            servers: run.meta.environment.server_versions(),
            machine: run.meta.environment.machine(),
            audit: run.audit.as_deref()?,
            rows: &run.rows,
            warnings: &run.warnings,
        })
    }
}

/// The document of `watch --json`.
#[derive(Debug, Serialize)]
pub struct WatchDocument<'a> {
    schema: u32,
    run: &'a str,
    partial: bool,
    answer: String,
    watch: WatchFacts<'a>,
    locks: &'a [WatchedLock],
    perhaps: &'a [PerhapsLock],
    findings: Vec<WatchFinding>,
    holders: &'a [WatchedHolder],
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
struct WatchFacts<'a> {
    servers: &'a [String],
    source: &'a str,
    seconds: f64,
    commands: u64,
    cost: &'a Option<WatchCost>,
}

impl<'a> WatchDocument<'a> {
    /// The document of a run; `None` of one that is no watch.
    pub fn of(run: &'a Run) -> Option<Self> {
        let watch = run.watch.as_deref()?;
        let without_picture = |finding: &WatchFinding| WatchFinding { picture: None, ..finding.clone() };
        Some(Self {
            schema: run.schema,
            run: &run.run,
            partial: run.partial,
            answer: answer::answer(run),
            watch: WatchFacts {
                servers: &watch.servers,
                source: &watch.source,
                seconds: watch.seconds,
                commands: watch.commands,
                cost: &watch.cost,
            },
            locks: &watch.locks,
            perhaps: &watch.perhaps,
            findings: watch.findings.iter().map(without_picture).collect(),
            holders: &watch.holders,
            warnings: &run.warnings,
        })
    }
}
