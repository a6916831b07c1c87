//! `lukasa remote`: prepares other machines. `lukasa backend` is what runs there.

use std::io;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use engine::{BindingRequest, Caller, ProjectFolder, RemoteFolder, RemoteHost};
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::path::{MemoryPath, Mount, Scope};
use serde_json::json;
use store::backend::remote::{serve as serve_backend, ssh_failure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use crate::app::{self, App};
use crate::args::{Remote, RemoteAction};
use crate::commands::ask;
use crate::exit::{Failure, Status};
use crate::files;
use crate::render::sanitize;

/// Prepares or checks another machine.
pub(crate) async fn run(app: &App, args: &Remote) -> Result<Status, Failure> {
    match &args.action {
        RemoteAction::Install { host } => install(app, host).await,
        RemoteAction::Check { address } => check(app, &folder(app, address)?).await,
        RemoteAction::Forget { address } => forget(app, &folder(app, address)?),
    }
}

/// Offers to install Lukasa on the machine of the project, if it lacks this version and the person can be asked.
pub(crate) async fn offer_install(app: &App) -> Result<(), Failure> {
    let Some(ProjectFolder::Remote(folder)) = &app.binding.project else { return Ok(()) };
    if !ask::can_ask(app) {
        return Ok(());
    }
    let connecting = tokio::time::timeout(OFFER_WAIT, app.engine.connect(folder));
    let connected = app.wait_with_progress("connecting", connecting).await;
    let Ok(Err(error)) = connected else { return Ok(()) };
    if !error.lacks_program {
        // The command says which scope is unavailable, and why.
        return Ok(());
    }
    let host = folder.host().to_string();
    let question = format!("{error}. Install it now?");
    if ask::confirm(app, &question).await? {
        // The other scopes can be used without it.
        if let Err(failure) = install(app, &host).await {
            app.output.failure(&failure);
        } else if let Err(error) = app.engine.connect(folder).await {
            app.output.warning(&error.to_string());
        }
    }
    Ok(())
}

/// The longest wait for a machine before a command that may not need it.
const OFFER_WAIT: Duration = Duration::from_secs(3);

/// Serves the projects of this machine until the client leaves.
pub(crate) async fn serve(app: &App) -> Result<Status, Failure> {
    let (home, _) = app::system_folders()?;
    let served = serve_backend(tokio::io::stdin(), tokio::io::stdout(), &app.folders, &home).await;
    served.map_err(|error| {
        Failure::new(MemoryErrorCode::StorageFailed, format!("the connection failed: {error}"))
    })?;
    Ok(Status::Done)
}

fn folder(app: &App, address: &str) -> Result<RemoteFolder, Failure> {
    app.settings.remote_folder(Path::new(address))?.ok_or_else(|| {
        Failure::usage(format!("`{address}` is no address of a remote folder"))
            .help("write `ssh://HOST/PATH`, or `remote:NAME` for a name of the settings")
    })
}

/// Copies this program to a machine.
async fn install(app: &App, host: &str) -> Result<Status, Failure> {
    let host: RemoteHost =
        host.parse().map_err(|error| Failure::usage(format!("HOST: {error}")))?;
    let program = app::this_program()?;
    let bytes = files::read(&program)
        .map_err(|error| Failure::file("read the program", &program, &error))?;
    let there = on_host(app, &host, SYSTEM_COMMAND, Vec::new(), "looking at the machine").await?;
    let there = String::from_utf8_lossy(&there.stdout).trim().to_owned();
    let here = this_system();
    if !there.ends_with(&here) {
        let there = sanitize::line(there.lines().last().unwrap_or_default()).into_owned();
        return Err(Failure::usage(format!(
            "`{host}` is another system: {there}, and here is {here}"
        ))
        .help("install Lukasa there by other means, such as `cargo install`"));
    }
    let size = bytes.len();
    let command = install_command(&Revision::digest(&bytes).to_string());
    on_host(app, &host, &command, bytes, "copying the program").await?;
    if app.output.json {
        app.output.value(&json!({ "installed": true, "host": host.to_string(), "bytes": size }))?;
    } else {
        app.output.text(&format!("installed this version of Lukasa on {host}\n"))?;
    }
    Ok(Status::Done)
}

/// The command that prints system and processor of a machine.
const SYSTEM_COMMAND: &str = "exec uname -sm";

fn this_system() -> String {
    let system = match std::env::consts::OS {
        "macos" => "Darwin",
        "linux" => "Linux",
        other => other,
    };
    let processor = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", "aarch64") => "arm64",
        (_, processor) => processor,
    };
    format!("{system} {processor}")
}

/// Returns the command that stores its input as the program, if it arrives complete and runs. It has no single quote of its
/// own, so any login shell passes it on.
fn install_command(digest: &str) -> String {
    let script = [
        "set -e; umask 077",
        "d=\"$HOME/.local/share/lukasa/bin\"; mkdir -p \"$d\"; t=\"$d/.lukasa.$$\"",
        "trap \"rm -f \\\"$t\\\"\" EXIT",
        "cat > \"$t\"",
        "if command -v sha256sum > /dev/null; then s=$(sha256sum < \"$t\"); else s=$(shasum -a 256 < \"$t\"); fi",
        &format!("if [ \"${{s%% *}}\" != {digest} ]; then echo the copy is incomplete >&2; exit 1; fi"),
        "chmod 700 \"$t\"; \"$t\" --version",
        "mv -f \"$t\" \"$d/lukasa\"",
    ]
    .join("; ");
    format!("exec sh -c '{script}'")
}

/// Runs a command on a machine with this input.
async fn on_host(
    app: &App,
    host: &RemoteHost,
    command: &str,
    input: Vec<u8>,
    doing: &str,
) -> Result<Output, Failure> {
    let running = async {
        let mut child = app.settings.ssh().run_on(host, command).spawn()?;
        let mut stdin = child.stdin.take();
        let feed = async {
            if let Some(stdin) = &mut stdin {
                // If the command ends early, its status says why.
                drop(stdin.write_all(&input).await);
                drop(stdin.shutdown().await);
            }
            drop(stdin);
        };
        let stdout = first_bytes(child.stdout.take());
        let stderr = first_bytes(child.stderr.take());
        let (status, stdout, stderr, ()) = tokio::join!(child.wait(), stdout, stderr, feed);
        Ok::<_, io::Error>(Output { status: status?, stdout, stderr })
    };
    let output = app.wait_with_progress(doing, running).await.map_err(|error| {
        Failure::new(MemoryErrorCode::StorageFailed, format!("cannot start ssh: {error}"))
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(255) {
        let what = ssh_failure(&host.to_string(), Some(255), &stderr).reason;
        return Err(Failure::new(MemoryErrorCode::ScopeUnavailable, what));
    }
    let last = sanitize::line(stderr.trim().lines().last().unwrap_or_default()).into_owned();
    Err(Failure::new(MemoryErrorCode::StorageFailed, format!("{doing} failed on `{host}`: {last}")))
}

/// Maximum number of bytes kept of what a machine prints. The rest is read and dropped, so that it does not wait.
const PRINTED_BYTES_MAX: u64 = 64 << 10;

/// Reads to the end, and returns the first bytes.
async fn first_bytes(output: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut output) = output else { return bytes };
    // A broken pipe ends the output, and the status says why.
    drop((&mut output).take(PRINTED_BYTES_MAX).read_to_end(&mut bytes).await);
    drop(tokio::io::copy(&mut output, &mut tokio::io::sink()).await);
    bytes
}

/// Checks whether the project at an address can be used.
async fn check(app: &App, folder: &RemoteFolder) -> Result<Status, Failure> {
    let binding =
        BindingRequest { project: Some(folder.clone().into()), ..BindingRequest::default() };
    let memories = app.engine.memories(&binding, Caller::person("cli"));
    let project = MemoryPath::Root(Mount::Scope(Scope::Project));
    let listing = app.wait_with_progress("connecting", memories.list(Some(&project))).await?;
    let count = listing.memories.len() + listing.omitted;
    if app.output.json {
        app.output.value(&json!({ "usable": true, "memories": count }))?;
    } else {
        let plural = if count == 1 { "memory" } else { "memories" };
        app.output.text(&format!("{folder} can be used; it has {count} {plural}\n"))?;
    }
    Ok(Status::Done)
}

/// Forgets the identity of the folder at an address.
fn forget(app: &App, folder: &RemoteFolder) -> Result<Status, Failure> {
    let forgotten = app.engine.forget_remote(folder).map_err(|error| {
        Failure::new(MemoryErrorCode::StorageFailed, format!("cannot forget the folder: {error}"))
    })?;
    if app.output.json {
        app.output.value(&json!({ "forgotten": forgotten }))?;
    } else if forgotten {
        app.output.text("the next folder at this address is accepted\n")?;
    } else {
        app.output.note("no folder at this address is known");
    }
    Ok(if forgotten { Status::Done } else { Status::Refused })
}
