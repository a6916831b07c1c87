//! The grammar of what has to do with the daemon: starting it, its token, its events.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;

/// The port of a daemon that is given none.
pub(crate) const DEFAULT_PORT: u16 = 4170;

/// Open the page on which people see and edit what their agents remember
///
/// Asks the running daemon, or starts one for the current folder, and opens your browser. The address is good for one login
/// within a minute.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lukasa ui\n  lukasa ui --print                  for a browser elsewhere on this machine"
)]
pub(crate) struct Ui {
    /// Print the address and open no browser
    #[arg(long)]
    pub(crate) print: bool,
}

/// Serve memories and tasks over HTTP
///
/// Listens on this machine only, at 127.0.0.1:4170 and at a socket in the state folder, and asks
/// every caller for a token, which is made on the first start. Speaks the task API that published
/// clients of coding agents speak, and `/v1` for everything else. Ends by Ctrl-C or SIGTERM: running
/// tasks have ten seconds, the others go on with the next start.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa serve                                     the current folder's project
  lukasa serve --workspace ~/shop --workspace ~/site
  lukasa serve --port 0 --json                     any free port; says where, and logs, as JSON
  lukasa serve --allow-origin http://localhost:3000")]
pub(crate) struct Serve {
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub(crate) host: IpAddr,

    /// The port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,

    /// A folder to serve, the first of them as the one that is meant where none is named
    #[arg(long = "workspace", value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["flat", "workspace_id"])]
    pub(crate) workspaces: Vec<PathBuf>,

    /// A folder to name to clients whose memories nobody may use
    #[arg(long = "untrusted", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) untrusted: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) access: HttpAccess,

    /// Take no tasks: nothing is remembered, forgotten or tidied up for clients
    #[arg(long)]
    pub(crate) no_tasks: bool,

    /// How many tasks may run at a time; of one workspace, one does
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrent_tasks: Option<NonZeroUsize>,

    /// Where tasks are done; without it, and without the setting `runner`, in a child once a model does them
    #[cfg(feature = "child")]
    #[arg(long, value_name = "RUNNER")]
    pub(crate) runner: Option<RunnerKind>,
}

/// Where tasks are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunnerKind {
    /// In a process of their own, which is started when a task needs it
    Child,
    /// In the daemon
    #[value(name = "inline")]
    InProcess,
}

/// Who may call.
#[derive(Args, Debug)]
#[command(next_help_heading = "Who may call")]
pub(crate) struct HttpAccess {
    /// The token that callers bring; better in `LUKASA_TOKEN` or a file than here for all to see
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,

    /// The file that holds the token; made if it is not there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// Another name by which callers reach this machine, such as `host.docker.internal`
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// Pages of this origin may call
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,

    /// Listen at an address that other machines reach
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// A proxy that speaks TLS stands before that address
    #[arg(long, requires = "allow_remote")]
    pub(crate) behind_proxy: bool,

    /// Requests a second that one client may send; all of one address together, eight times as many
    #[arg(long, value_name = "N")]
    pub(crate) rate_limit: Option<NonZeroU32>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    if text == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    text.parse().map_err(|_| "it is an address, such as 127.0.0.1 or ::1".to_owned())
}

/// Print the token that the daemon asks for
///
/// It is made if there is none yet, and kept in the state folder, where only you can read it.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  curl -H \"Authorization: Bearer $(lukasa token)\" http://127.0.0.1:4170/capabilities")]
pub(crate) struct Token {}

/// Show what changes, as the running daemon tells it
///
/// One line for each change of a memory, by whatever program. Without `--follow`, what happened since
/// the daemon started.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa events
  lukasa events --follow
  lukasa events --follow --json | jq -r .data.path")]
pub(crate) struct Events {
    /// Go on until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}
