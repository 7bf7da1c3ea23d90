//! `locklab new-driver`: a driver of 60 to 100 lines, on the SDK of its language, in a new directory.

use std::{io, path::Path};

use bench::exec::templates::DriverTemplate;
use clap::Args;
use serde_json::json;

use crate::{exit, terminal::Terminal};

#[derive(Debug, Args)]
#[command(after_help = format!("Languages: {}", DriverTemplate::languages()))]
pub(crate) struct Options {
    /// The language of your lock library
    #[arg(value_parser = DriverTemplate::find)]
    language: &'static DriverTemplate,
    /// The new directory, and what the driver calls your lock: letters, digits, `-` and `_`
    #[arg(value_parser = driver_name)]
    name: String,
}

const NAME_MAX: usize = 60;

/// The name becomes a directory, and a word of the languages' own files.
fn driver_name(name: &str) -> Result<String, String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= NAME_MAX
        && name.chars().all(letters);
    good.then(|| name.to_owned()).ok_or_else(|| {
        format!(
            "`{name}` is no name for a driver: a letter, then letters, digits, `-` and `_`, at most {NAME_MAX}"
        )
    })
}

fn write(at: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    std::fs::create_dir(at).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exit::usage(format!("{} is there already", at.display())),
        _ => exit::usage(format!("cannot create {}: {error}", at.display())),
    })?;
    for (path, text) in files {
        let path = at.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(at))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let (template, name) = (options.language, options.name.as_str());
    let files = template.files(name);
    write(Path::new(name), &files)?;
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let DriverTemplate { language, build, run, .. } = template;
    let document = json!({
        "schema": 1, "language": language, "directory": name, "files": paths, "build": build, "run": run,
    });
    terminal.answer(&document, || {
        let build = if build.is_empty() { String::new() } else { format!(" && {build}") };
        format!("{name}: {}\ncd {name}{build} && locklab conform '{run}'", paths.join(", "))
    })
}
