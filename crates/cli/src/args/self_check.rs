//! The arguments of `lukasa self`.

use clap::{Args, Subcommand};

/// Check this program
#[derive(Args, Debug)]
pub(crate) struct SelfArgs {
    #[command(subcommand)]
    pub(crate) action: SelfAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SelfAction {
    Check(SelfCheck),
}

/// Compare this program with the databases and the running daemon
///
/// A database of a later version is refused by this program and stays as it is: update the program then. A daemon keeps the version
/// that it was started with: restart it after an update. Ends with status 1 if something does not fit.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa self check
  LUKASA_DATABASE=postgres://lukasa:PASSWORD@db/lukasa lukasa self check")]
pub(crate) struct SelfCheck {
    /// Also check this PostgreSQL database
    ///
    /// Set `LUKASA_DATABASE` instead if the address has a password, as all users can see arguments.
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "ADDRESS", env = "LUKASA_DATABASE", hide_env_values = true)]
    pub(crate) database: Option<String>,
}
