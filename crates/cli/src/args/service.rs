//! The grammar of `lukasa service`.

use clap::{Args, ValueEnum};

use crate::service::InitSystem;

/// Let the system start the daemon
///
/// `install` writes a user unit of systemd, or an agent of launchd on macOS, that runs `lukasa serve` in the
/// current folder, and prints how to start it; `uninstall` removes it; `status` tells whether it is there.
/// Nothing is started or ended by this command itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa service install                       the current folder's project
  lukasa service install -- --workspace ~/shop --workspace ~/site --port 4171
  lukasa service install --dry-run             only prints what would be written
  lukasa service status
  lukasa service uninstall")]
pub(crate) struct Service {
    /// What to do
    #[arg(value_name = "ACTION")]
    pub(crate) action: ServiceAction,

    /// Only print what would be written or removed
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Who is to start it, unless that of this system
    #[arg(long, value_name = "MANAGER")]
    pub(crate) manager: Option<InitSystem>,

    /// What `lukasa serve` is to be called with
    #[arg(last = true, value_name = "SERVE ARGS")]
    pub(crate) serve: Vec<String>,
}

/// What to do with the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceAction {
    /// Write its file
    Install,
    /// Remove its file
    Uninstall,
    /// Tell whether it is there
    Status,
}
