//! A pager for long output on a terminal.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// The exit status of a shell that did not find the program.
const NOT_FOUND: i32 = 127;

/// A program that shows a text page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pager {
    /// A shell command from the settings or the environment.
    Configured(String),
    /// `less`, which exits at once if the text fits the screen.
    Less {
        /// Whether to pass our flags; false if the user has flags in `LESS`.
        with_flags: bool,
    },
}

impl Pager {
    /// Shows a text and waits until the pager ends. If the pager cannot be started,
    /// the text is printed directly.
    pub(crate) fn show(&self, text: &str) -> io::Result<()> {
        let mut command = self.command();
        let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else { return print(text) };
        if let Some(mut stdin) = child.stdin.take()
            && let Err(error) = stdin.write_all(text.as_bytes())
            // The user closed the pager before the end.
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(error);
        }
        if child.wait()?.code() == Some(NOT_FOUND) { print(text) } else { Ok(()) }
    }

    fn command(&self) -> Command {
        match self {
            Self::Configured(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
            Self::Less { with_flags } => {
                let mut command = Command::new("less");
                if *with_flags {
                    command.arg("-FRX");
                }
                command
            }
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
