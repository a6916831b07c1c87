//! `lukasa completions` and `lukasa man`: completion scripts of shells, and manual pages.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::env::Shells;

use crate::app;
use crate::args::{Cli, Completions, Man};
use crate::complete::VARIABLE;
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite};
use crate::render::{Output, print};

/// The name of the program.
const NAME: &str = "lukasa";

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &Completions) -> Result<Status, Failure> {
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let Some(shell) = shells.completer(&shell) else {
        return Err(Failure::usage(format!("no completions for `{shell}`")));
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, &program(), &mut script)?;
    print(&script)?;
    Ok(Status::Done)
}

/// Returns the command for a shell: the name of the program, or its absolute path if it was called by a path.
fn program() -> String {
    let program = app::raw_args().next().map(PathBuf::from).unwrap_or_default();
    match app::current_folder() {
        Some(folder) if program.components().count() > 1 => {
            folder.join(program).display().to_string()
        }
        _ => NAME.to_owned(),
    }
}

/// Prints the manual page of the program, or writes one for each command.
pub(crate) fn man(output: &Output, args: &Man) -> Result<Status, Failure> {
    let mut grammar = Cli::command().disable_help_subcommand(true);
    grammar.build();
    let Some(folder) = &args.dir else {
        print(&page(grammar)?)?;
        return Ok(Status::Done);
    };
    let commands = grammar.get_subcommands().filter(|command| !command.is_hide_set());
    let pages: Vec<_> = std::iter::once(grammar.clone()).chain(commands.cloned()).collect();
    for command in pages {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        files::write_export(&path, &page(command)?, Overwrite::Always)
            .map_err(|error| Failure::file("write", &path, &error))?;
        output.note(&path.display().to_string());
    }
    Ok(Status::Done)
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
