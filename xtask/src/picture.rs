//! The terminal session that the README shows.
//!
//! `cargo xtask picture` runs real commands of the program in a temporary home and writes what a terminal shows as
//! `docs/terminal.svg`. Run it again when the output of one of these commands changes: the file holds ids of tasks,
//! which differ from run to run, so `tidy` does not compare it.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anstyle_svg::Term;
use anyhow::Context;

use crate::docs;
use crate::workspace::CargoWorkspace;

/// The file that the README links to, from the root of the repository.
const PICTURE: &str = "docs/terminal.svg";

/// Bold green, as shells commonly show their prompt, and back to normal.
const PROMPT: (&str, &str) = ("\x1b[1m\x1b[32m$\x1b[0m \x1b[1m", "\x1b[0m");

/// The commands, in order. Their arguments are shown as a shell would need them.
const SESSION: [&[&str]; 6] = [
    &["remember", "I prefer tabs over spaces."],
    &["remember", "In this project, the staging database listens on port 5433."],
    &["recall", "Which port does the staging database use?"],
    &["ls"],
    &["log"],
    &["undo", "-y"],
];

/// Runs the session and writes the picture.
pub(crate) fn run(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    let program = docs::build_program(workspace)?;
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("app");
    fs::create_dir(&project)?;
    let init = Command::new("git").args(["init", "--quiet"]).current_dir(&project).status()?;
    anyhow::ensure!(init.success(), "`git init` failed in the temporary project");
    let mut screen = String::new();
    for arguments in SESSION {
        let output = output_of(&program, &project, folder.path(), arguments)?;
        let separator = if screen.is_empty() { "" } else { "\n" };
        let (prompt, end) = PROMPT;
        write!(screen, "{separator}{prompt}{}{end}\n{output}", shell_line(arguments))?;
    }
    fs::write(workspace.root.join(PICTURE), Term::new().render_svg(screen.trim_end()))
        .with_context(|| format!("cannot write {PICTURE}"))?;
    println!("written: {PICTURE}");
    Ok(())
}

/// Returns what a command prints on both streams, in the order in which it prints it.
fn output_of(
    program: &Path,
    project: &Path,
    home: &Path,
    arguments: &[&str],
) -> anyhow::Result<String> {
    let (mut reader, writer) = std::io::pipe()?;
    let mut command = Command::new(program);
    command.args(["--color", "always"]).args(arguments).current_dir(project);
    // Settings and tokens of the person who runs this must not show in the picture.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", home).env("LUKASA_HOME", home.join(".lukasa"));
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    // The command holds the writing ends of the pipe, and the reader would wait for them.
    drop(command);
    let mut output = String::new();
    reader.read_to_string(&mut output)?;
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "`{}` ended with {status}:\n{output}", shell_line(arguments));
    Ok(output)
}

/// Returns the command as one types it: words with spaces are quoted.
fn shell_line(arguments: &[&str]) -> String {
    let quoted = arguments.iter().map(|argument| {
        if argument.contains(' ') { format!("'{argument}'") } else { (*argument).to_owned() }
    });
    std::iter::once("lukasa".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_spaces_are_quoted() {
        assert_eq!(shell_line(&["recall", "Which port?"]), "lukasa recall 'Which port?'");
        assert_eq!(shell_line(&["ls"]), "lukasa ls");
    }
}
