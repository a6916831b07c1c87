//! The grammar of `lukasa service`.

use clap::{Args, ValueEnum};

use crate::service::InitSystem;

/// Install the daemon as a service of the system
///
/// `install` writes a user unit of systemd, or an agent of launchd on macOS, that runs `lukasa serve` in the
/// current folder, and prints how to start it. `uninstall` removes it. `status` shows whether it is installed.
/// This command itself starts and stops nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa service install                       serves the project of the current folder
  lukasa service install -- --workspace ~/shop --workspace ~/site --port 4171
  lukasa service install --dry-run             prints what would be written
  lukasa service status
  lukasa service uninstall")]
pub(crate) struct Service {
    /// Action to take
    #[arg(value_name = "ACTION")]
    pub(crate) action: ServiceAction,

    /// Print what would be written or removed and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Service manager to use; by default that of this system
    #[arg(long, value_name = "MANAGER")]
    pub(crate) manager: Option<InitSystem>,

    /// Arguments for `lukasa serve`
    #[arg(last = true, value_name = "SERVE ARGS")]
    pub(crate) serve: Vec<String>,
}

/// The actions on the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceAction {
    /// Write the service file
    Install,
    /// Remove the service file
    Uninstall,
    /// Show whether it is installed
    Status,
}
