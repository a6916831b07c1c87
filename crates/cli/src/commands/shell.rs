//! What shells and manual readers want to know about the program.

use clap::CommandFactory;

use crate::args::{Cli, Completions, Man};
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite};
use crate::render::{Output, print};

/// Prints a completion script.
pub(crate) fn completions(args: &Completions) -> Result<Status, Failure> {
    let mut script = Vec::new();
    let mut grammar = Cli::command();
    clap_complete::generate(args.shell, &mut grammar, "quipu", &mut script);
    print(&script)?;
    Ok(Status::Done)
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
        files::write_out(&path, &page(command)?, Overwrite::Always)
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
