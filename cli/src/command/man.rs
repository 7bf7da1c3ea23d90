//! `locklab man`: manual pages, made from the command line's own description.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// Flags of `man`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The command whose page to print [default: the program's own]; --out DIR writes every page there
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut program = Cli::command();
    program.build();
    if let Some(dir) = &terminal.common.out {
        let written = write_all(&program, dir.clone())?;
        terminal.note(&format!("wrote {written} pages to {}", dir.display()));
        terminal.json(&serde_json::json!({"schema": 1, "pages": written, "dir": dir}))?;
        return Ok(exit::AS_EXPECTED);
    }
    let page = match &options.command {
        None => program,
        Some(name) => shown(&program)
            .find(|command| command.get_name() == name)
            .cloned()
            .ok_or_else(|| {
                let known = shown(&program).map(clap::Command::get_name);
                exit::usage(format!(
                    "there is no command `{name}`{}",
                    results::nearest::nearest(name, known)
                ))
            })?,
    };
    let name = page.get_name().to_owned();
    let page = String::from_utf8(render(page)?)?;
    let document = serde_json::json!({"schema": 1, "command": name, "page": page});
    terminal.answer(&document, || page.clone())?;
    Ok(exit::AS_EXPECTED)
}

fn shown(program: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
}

fn render(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}

/// `locklab.1`, `locklab-up.1` and so on.
fn write_all(program: &clap::Command, dir: PathBuf) -> anyhow::Result<usize> {
    let mut pages = vec![("locklab".to_owned(), program.clone())];
    for command in shown(program) {
        let name = format!("locklab-{}", command.get_name());
        // `build` has named it so: a page's title is the name with a hyphen, as in git(1).
        pages.push((name, command.clone()));
    }
    std::fs::create_dir_all(&dir)
        .map_err(|error| exit::usage(format!("cannot create {}: {error}", dir.display())))?;
    for (name, command) in &pages {
        let page = render(command.clone())?;
        files::write(dir.join(format!("{name}.1")), page).map_err(exit::usage)?;
    }
    Ok(pages.len())
}
