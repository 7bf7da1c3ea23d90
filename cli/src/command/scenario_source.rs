//! The scenarios that a command was asked for, by file or by name, read once, with places for what is wrong with them.

use std::path::Path;

use chaos::builtin::{self, BUILTINS, Builtin};
use chaos::scenario::Scenario;

use crate::exit;

pub(crate) struct Source {
    pub(crate) file: String,
    text: String,
    pub(crate) scenario: Result<Scenario, String>,
}

impl Source {
    pub(crate) fn of(one: &Builtin) -> Self {
        Self::new(one.path.to_owned(), one.text.to_owned())
    }

    fn new(file: String, text: String) -> Self {
        let scenario = Scenario::parse(&file, &text).map_err(|errors| errors.to_string());
        Self {
            file,
            text,
            scenario,
        }
    }

    #[cfg(feature = "kube")]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with faults, with their lines; without a number with all that are drawn.
    pub(crate) fn complaints(
        &self,
        wrong: impl IntoIterator<Item = (impl Into<Option<usize>>, String)>,
    ) -> String {
        let complaints = wrong.into_iter().map(|(index, why)| {
            let (heading, index) = match index.into() {
                Some(index) => ("[[faults]]", index),
                None => ("[random]", 0),
            };
            let lines = (1..).zip(self.text.lines());
            let mut begins = lines.filter(|(_, line)| line.trim_start().starts_with(heading));
            let line = begins.nth(index).map_or(1, |(line, _)| line);
            format!("{}:{line}:1: {why}", self.file)
        });
        complaints.collect::<Vec<_>>().join("\n")
    }
}

pub(crate) fn source(name: &str) -> anyhow::Result<Source> {
    if let Some(builtin) = builtin::find(name).filter(|_| !Path::new(name).is_file()) {
        return Ok(Source::of(builtin));
    }
    if Path::new(name).is_file() || name.ends_with(".toml") || name.contains('/') {
        let text = results::limits::read_text(name).map_err(exit::input)?;
        return Ok(Source::new(name.to_owned(), text));
    }
    Err(exit::input(format!(
        "`{name}` is neither a file nor a built-in scenario{} (`locklab list scenarios` shows all)",
        results::spelling::nearest(name, BUILTINS.iter().map(|builtin| builtin.name))
    )))
}

pub(crate) fn seeds(first: u64, repeat: u32) -> impl Iterator<Item = u64> + Clone {
    (0..u64::from(repeat)).map(move |offset| first.wrapping_add(offset))
}
