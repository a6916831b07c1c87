//! The grammar of `lukasa migrate`.

use clap::Args;

/// Copy all memories and state of this machine to a PostgreSQL database, or back
///
/// Copies global memories, those of workspaces and those of projects with `--project-root host`, with history, pins,
/// usage, proposals, tasks and conversations. All numbers stay. The copy is read again and compared before it is used,
/// and the origin stays as it is. The target must have no memories. A copy that was interrupted is begun again.
///
/// HOME is a folder as in `LUKASA_HOME`. If only one side is given, the other one is the home of this machine, or
/// the database of `--database` beside a folder. Memories in checkouts stay there.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa migrate --to postgres://lukasa@db.example/lukasa --dry-run
  lukasa migrate --to postgres://lukasa@db.example/lukasa
  lukasa migrate --from postgres://lukasa@db.example/lukasa --to ~/lukasa-home
  LUKASA_DATABASE=postgres://lukasa:PASSWORD@db/lukasa lukasa migrate --from ~/.local/share/lukasa")]
pub(crate) struct Migrate {
    /// Home or database to copy
    #[arg(long, value_name = "HOME|ADDRESS")]
    pub(crate) from: Option<String>,

    /// Home or database to copy to; it must have no memories
    #[arg(long, value_name = "HOME|ADDRESS")]
    pub(crate) to: Option<String>,

    /// Database on the side that is left out
    ///
    /// Set `LUKASA_DATABASE` instead if the address has a password, as all users can see arguments.
    #[arg(long, value_name = "ADDRESS", env = "LUKASA_DATABASE", hide_env_values = true)]
    pub(crate) database: Option<String>,

    /// Owner of the memories in the database
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) owner: String,

    /// Count what would be copied, and copy nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
