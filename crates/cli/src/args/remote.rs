//! The grammar of `lukasa remote` and `lukasa backend`.

use clap::{Args, Subcommand};

/// Prepare other machines whose projects are used over SSH
///
/// `--project ssh://HOST/PATH` uses the project memories of a checkout on another machine. A Lukasa there reads and writes
/// them. `ssh HOST` must work without a question; your SSH configuration, agent and known hosts count.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa remote install build.example
  lukasa remote check ssh://build.example/srv/shop
  lukasa --project ssh://build.example/srv/shop ls
  lukasa mcp --project ssh://build.example/srv/shop")]
pub(crate) struct Remote {
    /// Action to take
    #[command(subcommand)]
    pub(crate) action: RemoteAction,
}

/// The actions on other machines.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Copy this program to a machine
    ///
    /// It is copied to `~/.local/share/lukasa/bin` there, and compared by its checksum. The machine must have the same
    /// system and processor as this one; otherwise install Lukasa there by other means.
    Install {
        /// Machine, as `ssh` knows it: `HOST`, `USER@HOST` or `USER@HOST:PORT`
        host: String,
    },
    /// Check whether a project on another machine can be used
    Check {
        /// Address of the project: `ssh://HOST/PATH`, or `remote:NAME` of the settings
        address: String,
    },
    /// Accept that another folder is at an address now
    ///
    /// Lukasa refuses a folder that is another one than before, because the history is of the first one.
    Forget {
        /// Address of the project
        address: String,
    },
}

/// Serve the projects of this machine to another one
#[derive(Args, Debug)]
pub(crate) struct Backend {
    /// Serve on standard input and output
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}
