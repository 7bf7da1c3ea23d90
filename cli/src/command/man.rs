//! Turns the command line's own description into manual pages: one on standard output, or all of them in a directory.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Cli, Common};
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `man`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The command whose page is wanted; the program's own without it. With --out DIR every page is written there
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn run(options: &Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut program = Cli::command();
    program.build();
    if let Some(dir) = &common.out {
        let written = write_all(&program, dir.clone())?;
        terminal.note(&format!("wrote {written} pages to {}", dir.display()));
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
    terminal.result(&String::from_utf8_lossy(&render(page)?));
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
        let path = dir.join(format!("{name}.1"));
        results::store::write_whole(&path, &render(command.clone())?)
            .map_err(|error| exit::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(pages.len())
}
