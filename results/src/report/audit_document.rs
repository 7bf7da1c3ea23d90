//! The document of an audit for programs: its scorecard, and what it was made with.

use serde::Serialize;

use crate::answer;
use crate::audit::Audit;
use crate::command_line::again;
use crate::run::{BenchRow, Run};

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
