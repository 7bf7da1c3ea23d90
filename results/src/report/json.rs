//! Turns a run into one JSON document: the fields of `run.json`, which are those of `--json`.

use super::{Exporter, ReportError};
use crate::run::Run;

/// `--format json`.
#[derive(Debug)]
pub struct Json;

impl Exporter for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "everything, for programs"
    }

    fn render(&self, run: &Run) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(run).map_err(|error| ReportError {
            format: "json",
            message: error.to_string(),
        })?;
        text.push('\n');
        Ok(text)
    }
}
