//! The grammar of what has to do with the daemon: starting it, its token, its events.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

#[cfg(feature = "cluster")]
use clap::Subcommand;
use clap::{Args, ValueEnum, ValueHint};
#[cfg(feature = "cluster")]
use memory::limits::TOKEN_DAYS_MAX;
#[cfg(feature = "cluster")]
use memory::owner::Role;
use serde::Deserialize;

/// The default port of a daemon.
pub(crate) const DEFAULT_PORT: u16 = 4170;

/// Open the web page that shows and edits memories
///
/// Uses the running daemon, or starts one for the current folder, and opens your browser. The address is valid for one
/// login within a minute.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lukasa ui\n  lukasa ui --print                  for another browser on this machine"
)]
pub(crate) struct Ui {
    /// Print the address instead of opening a browser
    #[arg(long)]
    pub(crate) print: bool,
}

/// Serve memories and tasks over HTTP
///
/// Listens on this machine only, at 127.0.0.1:4170 and at a socket in the state folder. Every
/// caller needs a token, which is created on the first start. Serves the task API that published
/// clients of coding agents use, and `/v1` for everything else. Ctrl-C or SIGTERM stops it: running
/// tasks get ten seconds to end, waiting tasks continue after the next start.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa serve                                     serves the project of the current folder
  lukasa serve --workspace ~/shop --workspace ~/site
  lukasa serve --port 0 --json                     any free port; prints address and log as JSON
  lukasa serve --allow-origin http://localhost:3000
  LUKASA_DATABASE=postgres://lukasa@db/lukasa lukasa serve --workspace-id team
  LUKASA_DATABASE=... lukasa serve --oidc-issuer https://login.example.com --oidc-audience lukasa")]
pub(crate) struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub(crate) host: IpAddr,

    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,

    /// Folder to serve; the first one is the default of requests that name none
    #[arg(long = "workspace", value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["flat", "workspace_id"])]
    pub(crate) workspaces: Vec<PathBuf>,

    /// Folder to list to clients as untrusted: its memories cannot be used
    #[arg(long = "untrusted", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) untrusted: Vec<PathBuf>,

    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub(crate) provider: Box<ProviderOptions>,

    #[command(flatten)]
    pub(crate) access: HttpAccess,

    /// Accept no tasks: clients cannot remember, forget or dream
    #[arg(long)]
    pub(crate) no_tasks: bool,

    /// Maximum number of tasks that run at a time; one per workspace
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrent_tasks: Option<NonZeroUsize>,

    /// Process that runs tasks; by default the setting `runner`, else a child process if a model works on tasks
    #[cfg(feature = "child")]
    #[arg(long, value_name = "RUNNER")]
    pub(crate) runner: Option<RunnerKind>,
}

/// The options of daemons that share a database.
#[cfg(feature = "cluster")]
#[derive(Args, Debug)]
#[command(next_help_heading = "Several daemons")]
pub(crate) struct Cluster {
    /// PostgreSQL database that several daemons share, such as `postgres://user@host/name`
    ///
    /// The daemon serves no folders then, but every workspace that a request names; `--workspace-id` names that of
    /// requests without one (`default`). Global memories, those of workspaces and all state are rows there instead of
    /// files here. Set `LUKASA_DATABASE` instead if the address has a password, as all users can see arguments.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "LUKASA_DATABASE",
        hide_env_values = true, conflicts_with_all = ["flat", "project", "workspaces", "untrusted"])]
    pub(crate) database: Option<String>,

    /// Owner to whom the token of this daemon leads; `lukasa token create` makes tokens of others
    #[arg(long, value_name = "NAME", default_value = "default", requires = "database")]
    pub(crate) owner: String,

    /// Bytes of memories that each owner may have, without history
    #[arg(long, value_name = "N", requires = "database")]
    pub(crate) max_owner_bytes: Option<u64>,

    /// Tasks of each owner that may wait or run at a time, in all workspaces
    #[arg(long, value_name = "N", requires = "database")]
    pub(crate) max_owner_tasks: Option<u64>,
}

/// The options of an identity provider whose tokens are accepted.
#[cfg(feature = "cluster")]
#[derive(Args, Debug)]
#[command(next_help_heading = "Tokens of an identity provider")]
pub(crate) struct ProviderOptions {
    /// Issuer whose tokens are accepted too, such as `https://login.example.com/realm` (OpenID Connect)
    #[arg(
        long = "oidc-issuer",
        value_name = "URL",
        env = "LUKASA_OIDC_ISSUER",
        hide_env_values = true,
        requires_all = ["database", "audience"])]
    pub(crate) issuer: Option<String>,

    /// Audience that such a token must have
    #[arg(
        long = "oidc-audience",
        value_name = "NAME",
        env = "LUKASA_OIDC_AUDIENCE",
        hide_env_values = true,
        requires = "issuer"
    )]
    pub(crate) audience: Option<String>,

    /// Claim that names the owner
    #[arg(
        long = "oidc-owner-claim",
        value_name = "NAME",
        env = "LUKASA_OIDC_OWNER_CLAIM",
        hide_env_values = true,
        default_value = "sub",
        requires = "issuer"
    )]
    pub(crate) owner_claim: String,

    /// Owner to whom a value of that claim leads
    #[arg(
        long = "oidc-owner-mapping",
        value_name = "MAPPING",
        env = "LUKASA_OIDC_OWNER_MAPPING",
        hide_env_values = true,
        default_value = "digest",
        requires = "issuer"
    )]
    pub(crate) owner_mapping: OwnerMapping,

    /// Claim with `read`, `write` or `admin`; without this option the role is `write`
    #[arg(
        long = "oidc-role-claim",
        value_name = "NAME",
        env = "LUKASA_OIDC_ROLE_CLAIM",
        hide_env_values = true,
        requires = "issuer"
    )]
    pub(crate) role_claim: Option<String>,
}

/// The owner to whom the claim of a token leads.
#[cfg(feature = "cluster")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnerMapping {
    /// One that no other token leads to, named by a digest of issuer, claim and value
    Digest,
    /// The one of that name, which may have other tokens; the provider must not let users choose the value
    Name,
}

/// The process that runs tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunnerKind {
    /// A separate process, started when a task needs it
    Child,
    /// The daemon
    #[value(name = "inline")]
    InProcess,
}

/// The options that decide which callers are accepted.
#[derive(Args, Debug)]
#[command(next_help_heading = "Access")]
pub(crate) struct HttpAccess {
    /// Token of callers; `LUKASA_TOKEN` or a file is safer, as all users can see arguments
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,

    /// File with the token; created if it does not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// Accept requests to this host name too, such as `host.docker.internal`
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// Accept requests of web pages of this origin
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,

    /// Allow an address that other machines can reach
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Declare that a TLS proxy is in front of that address
    #[arg(long, requires = "allow_remote")]
    pub(crate) behind_proxy: bool,

    /// Maximum number of requests per second of one client; eight times that for all clients of one address
    #[arg(long, value_name = "N")]
    pub(crate) rate_limit: Option<NonZeroU32>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    if text == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    text.parse().map_err(|_| "expected an IP address, such as 127.0.0.1 or ::1".to_owned())
}

/// Print the token of the daemon, or manage the tokens in a database
///
/// Without an action, prints the token of the daemon of this machine. It is created if there is none yet, and stored in
/// the state folder, where only you can read it. The actions are for daemons that share a database: each token there
/// belongs to an owner and has a role.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  curl -H \"Authorization: Bearer $(lukasa token)\" http://127.0.0.1:4170/capabilities
  lukasa token create --owner ann --role write --note 'laptop of Ann' --days 90
  lukasa token list
  lukasa token revoke 3f9c2a7d10be")]
pub(crate) struct Token {
    /// Action on the tokens in a database
    #[cfg(feature = "cluster")]
    #[command(subcommand)]
    pub(crate) action: Option<TokenAction>,
}

/// The actions on the tokens in a database.
#[cfg(feature = "cluster")]
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Create a token, and print it
    ///
    /// The token is shown once: the database has only its digest. An owner with a new name is registered.
    Create {
        #[command(flatten)]
        database: DatabaseAddress,
        /// Owner of the memories that the token gives access to
        #[arg(long, value_name = "NAME")]
        owner: String,
        /// `read` sees everything of the owner, `write` also changes memories, `admin` also manages the owner's tokens
        #[arg(long, value_name = "ROLE", default_value = "write", value_parser = role)]
        role: Role,
        /// Purpose of the token, for the list
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Days until the token stops to be valid; without it, only a revocation ends it
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(TOKEN_DAYS_MAX)))]
        days: Option<u32>,
    },
    /// List the tokens, without their texts
    List {
        #[command(flatten)]
        database: DatabaseAddress,
        /// List only the tokens of this owner
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
    },
    /// Revoke a token; daemons refuse it within ten seconds
    Revoke {
        #[command(flatten)]
        database: DatabaseAddress,
        /// Id of the token, from the list
        id: String,
    },
}

/// The address of the database that daemons share.
#[cfg(feature = "cluster")]
#[derive(Args, Debug)]
pub(crate) struct DatabaseAddress {
    /// PostgreSQL database of the daemons, such as `postgres://user@host/name`
    #[arg(long, value_name = "ADDRESS", env = "LUKASA_DATABASE", hide_env_values = true)]
    pub(crate) database: String,
}

#[cfg(feature = "cluster")]
fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|_| "expected `read`, `write` or `admin`".to_owned())
}

/// Show the events of the running daemon
///
/// One line for each change of a memory, by any program. Without `--follow`, the events since
/// the daemon started.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa events
  lukasa events --follow
  lukasa events --follow --json | jq -r .data.path")]
pub(crate) struct Events {
    /// Wait for further events until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}
