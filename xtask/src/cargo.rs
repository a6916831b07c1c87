//! Functions that run programs, mostly cargo.
//!
//! Each failure becomes an error that names the command and its status.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::Context;

/// Returns cargo itself, the same one that started `xtask`.
pub(crate) fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a program in the terminal and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    anyhow::ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Runs a program and returns what it printed; fails with its error output unless it succeeds.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let error_output = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("`{shown}` ended with {}: {}", output.status, error_output.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print UTF-8"))
}

/// Returns the command as a person would type it.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    std::iter::once(program.file_name().unwrap_or(OsStr::new("?")))
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
