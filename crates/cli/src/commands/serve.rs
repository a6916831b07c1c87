//! `lukasa serve`: starts the daemon.
//!
//! Resolves the workspaces and the access rules, acquires the lock of the state folder, listens, and prints the address
//! with examples. The server itself is in the `server` crate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Engine, Workspace, WorkspaceChoice};
use memory::error_code::MemoryErrorCode;
use memory::limits::{FILES_KEPT_FREE, HTTP_CONNECTIONS_MAX};
#[cfg(feature = "cluster")]
use postgres::{OwnerLimits, OwnerName};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use server::http::{
    self, AllowedHosts, BearerToken, DirectoryConfig, GuardConfig, HttpConfig, Listener,
};
use state::private_files::restrict_to_owner;
use store::clock::SystemClock;
use tokio_util::sync::CancellationToken;

use crate::app::{self, App, SelectedRunner, SettingsFile};
#[cfg(feature = "cluster")]
use crate::args::Cluster;
use crate::args::{HttpAccess, Serve};
use crate::daemon::{self, DaemonLock, DaemonRecord};
#[cfg(feature = "cluster")]
use crate::database;
use crate::exit::{Failure, Status};
use crate::files;
use crate::hooks::host;
use crate::render::text::quoted;
use crate::render::{print, sanitize};

#[cfg(feature = "cluster")]
mod owners;
#[cfg(feature = "cluster")]
mod provider;
mod task_options;

#[cfg(feature = "cluster")]
use self::owners::DatabaseOwners;
use self::task_options::TaskOptions;

/// The workspace of a daemon that has a database and no folder.
#[cfg(feature = "cluster")]
const DEFAULT_WORKSPACE: &str = "default";

/// Serves until a signal arrives; a second signal ends without waiting for running work.
pub(crate) async fn run(app: &App, args: &Serve) -> Result<Status, Failure> {
    let (rules, token_file) = rules(app, &args.access)?;
    if !args.host.is_loopback() && !args.access.behind_proxy {
        return Err(Failure::usage(format!("other machines can reach {}", args.host))
            .help("use `--allow-remote --behind-proxy` if a TLS proxy is in front of it"));
    }
    let lock = DaemonLock::acquire(&app.folders.state)?;
    let opened = open(app, args).await?;
    let workspaces = workspaces(app, args)?;
    let socket = daemon::socket(&app.folders.state);
    let (listeners, address) = listen((args.host, args.port).into(), socket.as_deref())?;
    let url = format!("http://{address}");
    let place = DaemonRecord { pid: std::process::id(), url, socket, token_file };
    let lanes = task_options(args).lanes(&opened.engine);
    let runner = Arc::clone(&opened.runner.runner);
    let host = HttpConfig {
        serving: opened.engine.serve_with(runner, &workspaces, lanes).await?,
        engine: opened.engine.clone(),
        workspaces,
        clock: Arc::new(SystemClock),
        rules,
        connections_max: connections_max(),
        settings: Some(Arc::new(SettingsFile::new(app.features.clone())?)),
        agents: host::HookHost::all(),
        directory: opened.directory,
    };
    lock.write_record(&place)?;
    // Before the address is printed, since a program that reads it may send a signal at once.
    let interrupted = app.interrupts.wait_for_signal();
    announce(app, &host, &place)?;
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(http::serve(host, listeners, stop.clone()));
    tokio::select! {
        () = &mut serving => {}
        _ = interrupted => {
            app.output.note("shutting down; press Ctrl-C again to stop at once");
            stop.cancel();
            tokio::select! {
                () = &mut serving => {}
                _ = app.interrupts.wait_for_signal() => {}
            }
        }
    }
    opened.runner.close().await;
    #[cfg(feature = "cluster")]
    if let Some(database) = opened.database {
        opened.engine.close().await;
        database.close().await;
    }
    if let Some(socket) = &place.socket {
        // An error is ignored, since the next daemon replaces the socket.
        files::remove(socket).unwrap_or_default();
    }
    Ok(Status::Done)
}

/// The engine of the daemon's own owner.
struct DaemonEngine {
    engine: Engine,
    runner: SelectedRunner,
    /// The owners of tokens, if the daemon has a database.
    directory: Option<DirectoryConfig>,
    #[cfg(feature = "cluster")]
    database: Option<postgres::Database>,
}

fn task_options(args: &Serve) -> TaskOptions {
    #[cfg(feature = "child")]
    let runner = args.runner;
    #[cfg(not(feature = "child"))]
    let runner = None;
    TaskOptions { runner, concurrent_max: args.max_concurrent_tasks }
}

/// Opens the engine on the database that the daemon shares with others, if it has one, else that of this machine.
#[cfg_attr(
    not(feature = "cluster"),
    expect(clippy::unused_async, reason = "only a database is awaited")
)]
async fn open(app: &App, args: &Serve) -> Result<DaemonEngine, Failure> {
    let tasks = task_options(args);
    #[cfg(feature = "cluster")]
    if let Cluster { database: Some(address), owner, max_owner_bytes, max_owner_tasks } =
        &args.cluster
    {
        let owner: OwnerName =
            owner.parse().map_err(|error| Failure::usage(format!("--owner: {error}")))?;
        let identity_provider = provider::start(&args.provider, &owner)?;
        let limits =
            OwnerLimits { memory_bytes: *max_owner_bytes, unfinished_tasks: *max_owner_tasks };
        let database = database::open_with(address, limits).await?;
        app.output.note(&format!(
            "memories are in {}; the token of this daemon is for the owner {}",
            database.name(),
            owner.as_str()
        ));
        let owners = DatabaseOwners::new(database.clone(), app.globals.clone(), tasks);
        let storage = owners.storage(&owner).await?;
        let (engine, runner) = owners.engine(&owner, storage)?;
        let (owners, own_name) = (Arc::new(owners), owner.as_str().to_owned());
        let directory = Some(DirectoryConfig { owners, own_name, identity_provider });
        return Ok(DaemonEngine { engine, runner, directory, database: Some(database) });
    }
    let engine = app.engine.clone();
    let runner = app.runners.for_daemon(&engine, tasks.runner);
    Ok(DaemonEngine {
        engine,
        runner,
        directory: None,
        #[cfg(feature = "cluster")]
        database: None,
    })
}

/// Returns the access rules, and the file of the token unless the token came from elsewhere.
fn rules(app: &App, guard: &HttpAccess) -> Result<(GuardConfig, Option<PathBuf>), Failure> {
    let token = guard.token.clone().or_else(app::token);
    let file = match (&token, &guard.token_file) {
        (Some(_), None) => None,
        // Absolute, since other commands read it from the daemon record and run in other folders.
        (_, Some(file)) => Some(std::path::absolute(file).unwrap_or_else(|_| file.clone())),
        (None, None) => Some(daemon::token_file(&app.folders.state)),
    };
    let token = match &file {
        Some(file) => {
            let token = daemon::token(file)?;
            if files::mode(file).is_ok_and(|mode| mode & 0o077 != 0) {
                let file = file.display();
                app.output
                    .warning(&format!("other users can read the token in {file}: `chmod 600` it"));
            }
            token
        }
        None => token.unwrap_or_default(),
    };
    let mut hosts = AllowedHosts::default();
    for host in &guard.hosts {
        hosts.add(host).map_err(|error| Failure::usage(format!("--allow-host: {error}")))?;
    }
    let origin = |text: &String| {
        text.parse().map_err(|error| Failure::usage(format!("--allow-origin: {error}")))
    };
    let rules = GuardConfig {
        hosts,
        origins: guard.origins.iter().map(origin).collect::<Result<_, _>>()?,
        token: BearerToken::new(&token).map_err(|error| Failure::usage(error.to_string()))?,
        behind_proxy: guard.behind_proxy,
        requests_per_second_max: guard.rate_limit,
    };
    Ok((rules, file))
}

/// Returns the workspaces to serve, each once.
fn workspaces(app: &App, args: &Serve) -> Result<Vec<Workspace>, Failure> {
    let mut served = Vec::new();
    #[cfg(feature = "cluster")]
    if args.cluster.database.is_some() {
        served.push(named_workspace(app)?);
    }
    if served.is_empty() && args.workspaces.is_empty() {
        served.push(app.workspace());
    }
    for folder in &args.workspaces {
        served.push(workspace(app, folder)?);
    }
    for folder in &args.untrusted {
        served.push(Workspace { trusted: false, ..workspace(app, folder)? });
    }
    let mut workspaces: Vec<Workspace> = Vec::new();
    for one in served {
        if let Some(known) = workspaces.iter_mut().find(|known| known.id == one.id) {
            // A folder that is named twice, once as untrusted, is untrusted.
            known.trusted &= one.trusted;
            continue;
        }
        let primary = workspaces.is_empty();
        workspaces.push(Workspace { primary, memory_enabled: !args.no_tasks, ..one });
    }
    Ok(workspaces)
}

/// Returns the workspace that a daemon serves which has a database and no folder.
#[cfg(feature = "cluster")]
fn named_workspace(app: &App) -> Result<Workspace, Failure> {
    let name = app.globals.workspace_id.as_deref().unwrap_or(DEFAULT_WORKSPACE);
    let name = name.parse().map_err(|error| Failure::usage(format!("--workspace-id: {error}")))?;
    Ok(Workspace::named(name))
}

fn workspace(app: &App, folder: &Path) -> Result<Workspace, Failure> {
    if let Some(remote) = app.settings.remote_folder(folder)? {
        return Ok(app::workspace_of(remote, app.binding.project_root));
    }
    let real = files::real_path(&app::expand(folder.to_owned()))
        .map_err(|error| Failure::file("serve the workspace", folder, &error))?;
    Ok(app::workspace_of(real, app.binding.project_root))
}

/// Listens on an address and on a socket; also returns the bound address.
fn listen(
    address: SocketAddr,
    socket: Option<&Path>,
) -> Result<(Vec<Listener>, SocketAddr), Failure> {
    let listener = Listener::at_address(address).map_err(|error| {
        let what = format!("cannot listen on {address}: {error}");
        Failure::new(MemoryErrorCode::StorageFailed, what).help("`--port 0` takes any free port")
    })?;
    let bound = listener.address().unwrap_or(address);
    let mut listeners = vec![listener];
    if let Some(path) = socket {
        let wrong = |error: &std::io::Error| Failure::file("listen on the socket", path, error);
        // This process has the lock, so no other daemon listens on the old socket.
        files::remove(path).map_err(|error| wrong(&error))?;
        listeners.push(Listener::at_socket(path).map_err(|error| wrong(&error))?);
        restrict_to_owner(path).map_err(|error| wrong(&error))?;
    }
    Ok((listeners, bound))
}

/// Raises the limit of open files to its maximum; returns the number of connections that it allows.
fn connections_max() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    files.saturating_sub(FILES_KEPT_FREE).clamp(1, HTTP_CONNECTIONS_MAX)
}

/// Prints the address of the daemon, and commands to try.
fn announce(app: &App, host: &HttpConfig, place: &DaemonRecord) -> Result<(), Failure> {
    let DaemonRecord { pid, url, socket, token_file } = place;
    let served = |one: &Workspace| match (&one.binding.workspace, &one.binding.project) {
        (WorkspaceChoice::Id(id), None) => format!("the workspace {id}"),
        _ => one.cwd.to_string(),
    };
    let served: Vec<_> = host.workspaces.iter().map(served).collect();
    if app.output.json {
        let value = json!({
            "url": url, "pid": pid, "socket": socket, "token_file": token_file,
            "workspaces": host.workspaces.iter().map(|one| {
                json!({ "id": one.id, "cwd": one.cwd.to_string(), "primary": one.primary, "trusted": one.trusted })
            }).collect::<Vec<_>>(),
        });
        return print(format!("{value}\n").as_bytes());
    }
    let token = match token_file {
        Some(file) => format!("$(cat {})", quoted(&file.display().to_string())),
        None => "$LUKASA_TOKEN".to_owned(),
    };
    let curl = format!("curl -sS -H \"Authorization: Bearer {token}\"");
    let text = format!(
        "Lukasa listens on {url} for {}\n\n\
         Try, in another terminal:\n\
         \n  {curl} -d '{{\"content\": \"I prefer short answers.\"}}' {url}/workspace/memory/remember\n\
         \n  {curl} {url}/v1/memories\n\
         \n  {curl} -N {url}/v1/events\n\n\
         For an agent that speaks MCP over HTTP:\n\
         \n  claude mcp add --transport http lukasa {url}/mcp --header \"Authorization: Bearer {token}\"\n\n\
         `{url}/docs`, requested with that header, describes the rest. Ctrl-C stops the daemon.\n",
        sanitize::line(&served.join(", "))
    );
    print(text.as_bytes())
}
