//! Scenarios that were asked for, by file or by name, with places for what is wrong with them; and the
//! servers of a matrix.

use std::path::Path;

use cluster_config::{ClusterError, Server, Topology};

use crate::planning::plan::Plan;
use crate::planning::plan_parts::{Digest, digest_of_plan};
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::scenario::builtin::{self, BUILTINS, Builtin};

/// A scenario as it was asked for.
pub struct ScenarioSource {
    /// Its file, for messages.
    pub file: String,
    /// The file's text.
    pub text: String,
    /// What it says, or what is wrong with it.
    pub scenario: Result<Scenario, String>,
}

impl ScenarioSource {
    /// One that comes with the program.
    pub fn of(one: &Builtin) -> Self {
        Self::new(one.path.to_owned(), one.text.to_owned())
    }

    fn new(file: String, text: String) -> Self {
        let scenario = Scenario::parse(&file, &text).map_err(|errors| errors.to_string());
        Self { file, text, scenario }
    }

    /// The one that is meant by a file's path or a built-in name.
    ///
    /// # Errors
    /// Neither, or a file that cannot be read.
    pub fn find(name: &str) -> Result<Self, RunError> {
        if let Some(builtin) = builtin::find(name).filter(|_| !Path::new(name).is_file()) {
            return Ok(Self::of(builtin));
        }
        if Path::new(name).is_file() || name.ends_with(".toml") || name.contains('/') {
            let text = results::limits::read_text(name).map_err(RunError::Input)?;
            return Ok(Self::new(name.to_owned(), text));
        }
        let near = results::spelling::nearest(name, BUILTINS.iter().map(|one| one.name));
        Err(RunError::Input(format!(
            "`{name}` is neither a file nor a built-in scenario{near} (`locklab list scenarios` shows all)"
        )))
    }

    /// Those of several names.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_all(names: &[String]) -> Result<Vec<Self>, RunError> {
        names.iter().map(|name| Self::find(name)).collect()
    }

    /// Those that come with the program and that are wanted.
    pub fn suite(wanted: impl Fn(&Builtin, &Scenario) -> bool) -> Vec<Self> {
        let all = builtin::suite().into_iter().map(|one| (one, Self::of(one)));
        let all =
            all.filter(|(one, source)| source.scenario.as_ref().is_ok_and(|scenario| wanted(one, scenario)));
        all.map(|(_, source)| source).collect()
    }

    /// Where its file says what it expects, as `locks.toml:12`; empty of a scenario that comes with the
    /// program.
    pub(crate) fn declared_at(&self) -> String {
        if BUILTINS.iter().any(|one| one.path == self.file) {
            return String::new();
        }
        format!("{}:{}", self.file, self.line_of("[expect", 0))
    }

    /// The line of a heading that stands there so many times before; the first line where it does not stand.
    fn line_of(&self, heading: &str, index: usize) -> usize {
        let lines = (1..).zip(self.text.lines());
        let mut begins = lines.filter(|(_, line)| line.trim_start().starts_with(heading));
        begins.nth(index).map_or(1, |(line, _)| line)
    }

    /// What is wrong with faults, with their lines; without a number with all that are drawn.
    pub fn complaints(&self, wrong: impl IntoIterator<Item = (impl Into<Option<usize>>, String)>) -> String {
        let complaints = wrong.into_iter().map(|(index, why)| {
            let (heading, index) = index.into().map_or(("[random]", 0), |index| ("[[faults]]", index));
            let line = self.line_of(heading, index);
            format!("{}:{line}:1: {why}", self.file)
        });
        complaints.collect::<Vec<_>>().join("\n")
    }
}

/// Puts a scenario on the servers that it is to run on, or says what cannot be done there, with the lines of
/// the faults.
pub type FitServers<'a> = dyn Fn(&ScenarioSource, Scenario) -> Result<Scenario, String> + 'a;

/// A server on which everything is run.
#[derive(Debug, Clone)]
pub struct MatrixServer {
    /// As it was asked for.
    pub asked: String,
    /// Its make and version.
    pub name: String,
}

/// Each server once; `None` alone: what each scenario says.
///
/// # Errors
/// A server that is not on this machine.
pub fn server_matrix(asked: &[String]) -> Result<Vec<Option<MatrixServer>>, ClusterError> {
    let mut all: Vec<Option<MatrixServer>> = Vec::new();
    for asked in asked {
        let name = Server::find(asked)?.name();
        if !all.iter().flatten().any(|other| other.name == name) {
            let asked = asked.clone();
            all.push(Some(MatrixServer { asked, name }));
        }
    }
    if all.is_empty() {
        all.push(None);
    }
    Ok(all)
}

/// Seeds from `first` on.
pub fn seeds(first: u64, repeat: u32) -> impl Iterator<Item = u64> + Clone {
    (0..u64::from(repeat)).map(move |offset| first.wrapping_add(offset))
}

/// What parts must have in common of a scenario as it was asked for: on this server, with this lock.
pub(crate) fn digest(
    asked: &Scenario,
    server: Option<&MatrixServer>,
    seed: u64,
    lock: &str,
) -> Result<Digest, RunError> {
    let mut asked = asked.clone();
    on_server(&mut asked.topology, server);
    digest_of_plan(&Plan::new(&asked, seed), lock).map_err(|error| RunError::Other(error.to_string()))
}

/// Puts a scenario's topology on a server of a matrix.
pub(crate) fn on_server(topology: &mut Topology, server: Option<&MatrixServer>) {
    if let Some(server) = server {
        topology.server.clone_from(&server.asked);
    }
}
