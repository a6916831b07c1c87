//! `lukasa service`: installs the daemon as a service of the system.
//!
//! Writes or removes one file and prints the next commands. The user runs these commands of the service manager, and so
//! sees their effects.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::app::{self, App};
use crate::args::{Cli, Command, HttpAccess, Serve, ServiceAction};
use crate::args::{Globals, Service as Args};
use crate::daemon::{self, DaemonRecord};
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite};
use crate::os;
use crate::render::text::TextBuffer;
use crate::render::{FAINT, print, sanitize};
use crate::service::{self, InitSystem, Service};

/// Installs, removes or checks the service.
pub(crate) fn run(app: &App, args: &Args) -> Result<Status, Failure> {
    let manager = args.manager.or(os::service_manager()).ok_or_else(|| {
        Failure::usage("the service manager of this system is not supported")
            .help("set up the system to start `lukasa serve`")
    })?;
    let Globals { project, project_root, workspace_id, flat, .. } = &app.globals;
    if project.is_some() || project_root.is_some() || workspace_id.is_some() || flat.is_some() {
        return Err(Failure::usage("`lukasa service` does not take flags that select memories")
            .help("put them after `--`: `lukasa service install -- --project DIR`"));
    }
    if args.action != ServiceAction::Install && !args.serve.is_empty() {
        return Err(Failure::usage("only `install` takes arguments for the daemon"));
    }
    let (home, config) = app::system_folders()?;
    let file = manager.file(&home, &config);
    match args.action {
        ServiceAction::Install => install(app, args, manager, &file),
        ServiceAction::Uninstall => uninstall(app, args, manager, &file),
        ServiceAction::Status => status(app, manager, &file),
    }
}

fn install(app: &App, args: &Args, manager: InitSystem, file: &Path) -> Result<Status, Failure> {
    check(&args.serve)?;
    let log = app.folders.state.join("daemon.log");
    let service = Service {
        program: app::lasting_program(&app.folders)?,
        args: args.serve.clone(),
        folder: app::current_folder()
            .ok_or_else(|| Failure::usage("there is no current folder"))?,
        environment: app::folder_variables(),
        log: log.clone(),
    };
    let text = manager.text(&service)?;
    if args.dry_run {
        if app.output.json {
            app.output.value(&json!({ "file": file, "would": "write", "text": text }))?;
            return Ok(Status::Done);
        }
        app.output.note(&format!("would write {}", file.display()));
        return print(text.as_bytes()).map(|()| Status::Done);
    }
    is_our_file(file)?;
    app::keep_program(&app.folders)?;
    files::write_export(file, text.as_bytes(), Overwrite::Always)
        .map_err(|error| Failure::file("write", file, &error))?;
    if app::token().is_some() {
        app.output.warning(
            "LUKASA_TOKEN is not passed on: the service creates a token, or uses --token-file",
        );
    }
    report(app, "wrote", file, &manager.steps_to_start(file, &log))
}

/// Refuses invalid arguments for the daemon, and a token, which all users could read in the service file.
fn check(serve: &[String]) -> Result<(), Failure> {
    let words = ["lukasa", "serve"].into_iter().chain(serve.iter().map(String::as_str));
    let parsed = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(format!("invalid arguments for `lukasa serve`: {what}"))
    })?;
    match parsed.command {
        Some(Command::Serve(Serve { access: HttpAccess { token: Some(_), .. }, .. })) => {
            Err(Failure::usage("all users can read a token in a service file")
                .help("leave it out, or use `--token-file FILE`"))
        }
        _ => Ok(()),
    }
}

fn uninstall(app: &App, args: &Args, manager: InitSystem, file: &Path) -> Result<Status, Failure> {
    if !is_our_file(file)? {
        return Err(Failure::new(
            MemoryErrorCode::NotFound,
            format!("{} does not exist", file.display()),
        ));
    }
    let link = manager.link(file).filter(|link| files::exists(link));
    if args.dry_run {
        if app.output.json {
            app.output.value(&json!({ "file": file, "would": "remove" }))?;
            return Ok(Status::Done);
        }
        for path in link.iter().map(PathBuf::as_path).chain([file]) {
            app.output.note(&format!("would remove {}", path.display()));
        }
        return Ok(Status::Done);
    }
    // The link is removed first, so that it never points to a missing file.
    for path in link.iter().map(PathBuf::as_path).chain([file]) {
        files::remove(path).map_err(|error| Failure::file("remove", path, &error))?;
    }
    report(app, "removed", file, &manager.steps_to_end())
}

/// Checks whether the service file exists; a file that Lukasa did not write is an error.
fn is_our_file(file: &Path) -> Result<bool, Failure> {
    let text = files::read_optional(file).map_err(|error| Failure::file("read", file, &error))?;
    match text {
        None => Ok(false),
        Some(text) if service::is_ours(&text) => Ok(true),
        Some(_) => {
            let what = format!("{} was not written by `lukasa service`", file.display());
            Err(Failure::new(MemoryErrorCode::AlreadyExists, what).help("move it away first"))
        }
    }
}

fn report(
    app: &App,
    done: &str,
    file: &Path,
    steps: &[(String, &'static str)],
) -> Result<Status, Failure> {
    if app.output.json {
        let next: Vec<_> = steps.iter().map(|(command, _)| command).collect();
        app.output.value(&json!({ "file": file, "done": done, "next": next }))?;
        return Ok(Status::Done);
    }
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = TextBuffer::default();
    text.line(format_args!("{done} {}\n\nNext:", sanitize::line(&file.display().to_string())));
    for (command, why) in steps {
        let why = app.output.style.paint(FAINT, &format!("# {why}"));
        text.line(format_args!("  {command:width$}  {why}"));
    }
    app.output.text(&text.into_string())?;
    Ok(Status::Done)
}

fn status(app: &App, manager: InitSystem, file: &Path) -> Result<Status, Failure> {
    let is_installed = is_our_file(file)?;
    let starts = manager.link(file).map(|link| files::exists(&link));
    let daemon = daemon::find(&app.folders.state).filter(is_reachable);
    let status = if is_installed { Status::Done } else { Status::Refused };
    if app.output.json {
        let url = daemon.as_ref().map(|daemon| &daemon.url);
        app.output.value(&json!({
            "file": file, "installed": is_installed, "enabled": starts, "url": url,
        }))?;
        return Ok(status);
    }
    let mut text = TextBuffer::default();
    let shown = |path: &Path| sanitize::line(&path.display().to_string()).into_owned();
    if is_installed {
        text.line(format_args!("installed: {}", shown(file)));
    } else {
        text.line(format_args!("not installed: `lukasa service install`"));
    }
    match starts.filter(|_| is_installed) {
        Some(true) => text.line(format_args!("starts at login")),
        Some(false) => text.line(format_args!("does not start at login")),
        None => {}
    }
    match &daemon {
        Some(DaemonRecord { url, pid, .. }) => {
            text.line(format_args!("a daemon listens on {url} (process {pid})"));
        }
        None => text.line(format_args!("no daemon runs")),
    }
    if let Some(socket) = daemon.as_ref().and_then(|daemon| daemon.socket.as_deref()) {
        text.line(format_args!("and on the socket {}", shown(socket)));
    }
    app.output.text(&text.into_string())?;
    Ok(status)
}

/// Checks whether the daemon of a record still accepts connections: the record outlives a crash.
fn is_reachable(daemon: &DaemonRecord) -> bool {
    match &daemon.socket {
        Some(socket) => UnixStream::connect(socket).is_ok(),
        None => TcpStream::connect(daemon.url.trim_start_matches("http://")).is_ok(),
    }
}
