//! `locklab help`: every command in groups, or one with all its options.

use clap::Args;

use crate::args::{GROUPS, program};
use crate::exit;
use crate::terminal::{Terminal, columns};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A command, or `all` for a list of all of them
    command: Option<String>,
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut program = program();
    let about = |name: &&str| {
        let command = program.find_subcommand(name)?;
        let about = command.get_about().map(ToString::to_string);
        Some(vec![format!("  {name}"), about.unwrap_or_default()])
    };
    let text = match options.command.as_deref() {
        None => program.render_help().to_string(),
        Some("all") => {
            let group = |(title, names): &(&str, &[&str])| {
                let rows: Vec<_> = names.iter().filter_map(about).collect();
                format!("{title}\n{}", columns(&rows, 0..0))
            };
            GROUPS.iter().map(group).collect::<Vec<_>>().join("\n")
        }
        Some(name) => {
            let found = program.find_subcommand_mut(name);
            let all = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
            let unknown = || {
                let near = results::spelling::nearest(name, all);
                exit::usage(format!("there is no command `{name}`{near}; `locklab help all` shows them"))
            };
            found.ok_or_else(unknown)?.render_long_help().to_string()
        }
    };
    terminal.result(&text);
    Ok(exit::AS_EXPECTED)
}
