//! `locklab man`: manual pages, made from the command line's own description.

use std::path::Path;

use clap::Args;
use clap_mangen::Man;

use crate::args::commands;
use crate::exit;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The command whose page to print [default: the program's own]; --out DIR writes every page there
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if let Some(dir) = &terminal.common.out {
        let written = write_all(dir)
            .map_err(|error| exit::usage(format!("cannot write {}: {error}", dir.display())))?;
        terminal.note(&format!("wrote {written} pages to {}", dir.display()));
        return terminal.json(&serde_json::json!({"schema": 1, "pages": written, "dir": dir}));
    }
    let mut program = program_with_all();
    program.build();
    let page = match &options.command {
        None => program,
        Some(name) => {
            shown(&program).find(|command| command.get_name() == name).cloned().ok_or_else(|| {
                let known = shown(&program).map(clap::Command::get_name);
                exit::usage(format!(
                    "there is no command `{name}`{}",
                    results::spelling::nearest(name, known)
                ))
            })?
        }
    };
    let name = page.get_name().to_owned();
    let page = String::from_utf8(render(page)?)?;
    let document = serde_json::json!({"schema": 1, "command": name, "page": page});
    terminal.answer_data(&document, || page.clone())
}

/// The program with every command but those that other programs start.
fn program_with_all() -> clap::Command {
    commands().disable_help_subcommand(true).mut_subcommands(|one| {
        let is_hidden = ["driver", "guard", "help"].contains(&one.get_name());
        one.hide(is_hidden)
    })
}

fn shown(program: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

fn render(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}

/// `locklab.1`, `locklab-up.1` and so on; how many.
fn write_all(dir: &Path) -> std::io::Result<usize> {
    fn pages(command: &clap::Command) -> usize {
        1 + shown(command).map(pages).sum::<usize>()
    }
    std::fs::create_dir_all(dir)?;
    let program = program_with_all();
    clap_mangen::generate_to(program.clone(), dir)?;
    Ok(pages(&program))
}
