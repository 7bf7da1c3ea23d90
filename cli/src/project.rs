//! `locklab.toml`: what `audit`, `chaos` and `gate` take in this directory where the command line says
//! nothing. `init` writes it.

use std::path::{Path, PathBuf};

use cluster_config::input::{read_file, read_table};
use serde::Deserialize;

use crate::exit;

/// The file's name, in the directory where a command is started.
pub(crate) const FILE: &str = "locklab.toml";

/// What the file says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Project {
    /// The lock under test.
    pub(crate) subject: Option<String>,
    /// Servers of one's own: a URL, or `@FILE` with one.
    pub(crate) target: Option<String>,
    /// The suite of `audit`.
    pub(crate) suite: Option<String>,
    /// What `chaos` runs: files, or names of built-in scenarios.
    pub(crate) scenarios: Vec<String>,
    /// The conditions of `gate`.
    pub(crate) budget: Option<PathBuf>,
}

impl Project {
    /// The file of this directory; nothing where there is none.
    pub(crate) fn here() -> anyhow::Result<Self> {
        if !Path::new(FILE).is_file() {
            return Ok(Self::default());
        }
        let text = results::limits::read_text(FILE).map_err(exit::input)?;
        let read = read_file(FILE, &text, |document, problems| read_table(document, FILE, problems).value);
        read.map_err(exit::input)
    }

    /// The lock, as subjects of a command.
    pub(crate) fn lock(&self) -> anyhow::Result<Vec<String>> {
        let missing = || missing("which lock? SUBJECT", "subject");
        Ok(vec![self.subject.clone().ok_or_else(missing)?])
    }

    pub(crate) fn scenarios(&self) -> anyhow::Result<Vec<String>> {
        match self.scenarios.as_slice() {
            [] => Err(missing("which scenarios? SCENARIO…", "scenarios")),
            scenarios => Ok(scenarios.to_vec()),
        }
    }
}

fn missing(what: &str, field: &str) -> anyhow::Error {
    exit::usage(format!("{what} is missing, and no {FILE} here has `{field}`; `locklab init` writes one"))
}
