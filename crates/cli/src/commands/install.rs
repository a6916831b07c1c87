//! `quipu install` and `quipu uninstall`: an agent's own settings.
//!
//! All files are read and edited in memory first; nothing is written if one of them is not understood.

use std::path::{Path, PathBuf};

use memory::change::unified_diff;
use memory::code::Code;
use serde_json::json;

use crate::args::{Globals, Installation};
use crate::commands::ask;
use crate::compose::{self, App};
use crate::exit::{Failure, Status};
use crate::files::{self, NotReplaced, Readers};
use crate::install::agents::{AgentName, Reach, Target, Wanted};
use crate::install::{self, Edited, Misread};
use crate::render::diff;

/// A file, as it is and as it is to be.
struct Change {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
    diff: String,
    notes: Vec<String>,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Install,
    Uninstall,
}

/// Tells an agent to use Quipu.
pub(crate) async fn install(app: &App, args: &Installation) -> Result<Status, Failure> {
    run(app, args, Doing::Install).await
}

/// Takes from an agent what it was told.
pub(crate) async fn uninstall(app: &App, args: &Installation) -> Result<Status, Failure> {
    run(app, args, Doing::Uninstall).await
}

async fn run(app: &App, args: &Installation, doing: Doing) -> Result<Status, Failure> {
    let wanted = wanted(app, args)?;
    let targets = wanted.targets(&compose::agent_homes()?);
    let changes = targets.into_iter().map(|target| change(target, doing));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let nothing = changes.iter().all(|change| change.diff.is_empty());
    if !app.output.json {
        show(app, &changes)?;
    }
    if nothing && !app.output.json {
        let title = args.agent.title();
        app.output.note(&match doing {
            Doing::Install => format!("{title} is told already; nothing to write"),
            Doing::Uninstall => format!("{title} has nothing of Quipu there; nothing to write"),
        });
    }
    if !nothing && !args.dry_run {
        if !args.yes && ask::can_ask(app) && !ask::confirm(app, "Write this?").await? {
            app.output.note("nothing was written");
            return Ok(Status::Refused);
        }
        for change in changes.iter().filter(|change| !change.diff.is_empty()) {
            write(change, args.scope)?;
            if !app.output.json {
                let done = if change.after.is_some() { "wrote" } else { "removed" };
                app.output.note(&format!("{done} {}", change.path.display()));
            }
        }
    }
    tell(app, args, doing, &changes)
}

fn wanted(app: &App, args: &Installation) -> Result<Wanted, Failure> {
    let Globals { project, project_root, workspace_id, flat, .. } = &app.globals;
    if project_root.is_some() || workspace_id.is_some() || flat.is_some() {
        return Err(Failure::usage("an agent is not told which memories to mount")
            .help("add such flags to `args` of the server in the agent's settings"));
    }
    let project = match args.scope {
        Reach::User if project.is_some() => {
            return Err(Failure::usage("`--project` goes with `--scope project`"));
        }
        Reach::User => None,
        Reach::Project => Some(project_folder(app)?),
    };
    let program = match &project {
        // The settings of a project are shared: others have the program elsewhere.
        Some(_) => "quipu".to_owned(),
        None => this_program()?,
    };
    let variables = match (args.agent, &project) {
        (AgentName::Codex, None) => {
            compose::folder_variables().into_iter().map(|(name, _)| name).collect()
        }
        _ => Vec::new(),
    };
    Ok(Wanted { agent: args.agent, project, program, variables })
}

fn this_program() -> Result<String, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::file("find the program to start", Path::new("quipu"), &error))?;
    program.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("`{}` cannot stand in settings", program.display()))
            .help("install the program where the path is plain text")
    })
}

/// Returns the top of the checkout, else the folder itself.
fn project_folder(app: &App) -> Result<PathBuf, Failure> {
    let folder = app.binding().project_dir.clone();
    let folder = folder.ok_or_else(|| Failure::usage("there is no current folder"))?;
    let top = folder.ancestors().find(|above| files::is_there(&above.join(".git")));
    Ok(top.unwrap_or(&folder).to_owned())
}

fn change(target: Target, doing: Doing) -> Result<Change, Failure> {
    let Target { path, parts } = target;
    let before = files::read_if_there(&path).map_err(|error| unreadable(&path, &error))?;
    let edited = match (doing, &before) {
        (Doing::Install, before) => install::install(before.as_deref(), &parts),
        (Doing::Uninstall, Some(before)) => install::uninstall(before, &parts),
        (Doing::Uninstall, None) => Ok(Edited::default()),
    };
    let Edited { text: after, notes } = edited.map_err(|misread| unchanged(&path, &misread))?;
    let shown = path.display().to_string();
    let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
    let diff = unified_diff((&shown, old), (&shown, new));
    if !diff.is_empty() {
        files::may_replace(&path).map_err(|why| not_replaced(&path, &why))?;
    }
    Ok(Change { path, before, after, diff, notes })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::InvalidData {
        let what = format!("`{}` is not UTF-8 text; nothing was written", path.display());
        return Failure::new(Code::NotText, what);
    }
    Failure::file("read", path, error)
}

fn unchanged(path: &Path, misread: &Misread) -> Failure {
    let what = format!("`{}`: {}; nothing was written", path.display(), misread.reason());
    Failure::usage(what).help(match misread {
        Misread::Syntax { .. } => "mend the file, which the agent does not understand either",
        Misread::Shape(_) | Misread::Form(_) => "edit it by hand: the README shows what goes in",
    })
}

fn not_replaced(path: &Path, why: &NotReplaced) -> Failure {
    let shown = path.display();
    match why {
        NotReplaced::Link(target) => {
            let what = format!("`{shown}` is a link to `{}`", target.display());
            Failure::new(Code::ReadOnly, what)
                .help("links are not written through: edit that file, or put a file in its place")
        }
        NotReplaced::ReadOnly => Failure::new(Code::ReadOnly, format!("`{shown}` is read-only"))
            .help("`chmod u+w` lets it be written"),
        NotReplaced::Changed => {
            let what = format!("`{shown}` was changed by another program at this very moment");
            Failure::new(Code::Conflict, what).help("the same command again looks at it anew")
        }
        NotReplaced::System(error) => Failure::file("write", path, error),
    }
}

fn write(change: &Change, scope: Reach) -> Result<(), Failure> {
    let readers = match scope {
        // Agents keep keys beside what is written here.
        Reach::User => Readers::Owner,
        Reach::Project => Readers::Usual,
    };
    let texts = (change.before.as_deref(), change.after.as_deref());
    files::replace(&change.path, texts, readers).map_err(|why| not_replaced(&change.path, &why))
}

fn show(app: &App, changes: &[Change]) -> Result<(), Failure> {
    let shown = changes.iter().map(|change| diff::colored(&change.diff, app.output.look));
    app.output.text(&shown.collect::<String>())?;
    for note in changes.iter().flat_map(|change| &change.notes) {
        app.output.warning(note);
    }
    Ok(())
}

fn tell(
    app: &App,
    args: &Installation,
    doing: Doing,
    changes: &[Change],
) -> Result<Status, Failure> {
    let anything = changes.iter().any(|change| !change.diff.is_empty());
    let next = (doing == Doing::Install && anything).then(|| args.agent.next());
    if app.output.json {
        let files = changes.iter().map(|change| {
            let does = match &change.after {
                _ if change.diff.is_empty() => "leave",
                Some(_) => "write",
                None => "remove",
            };
            json!({ "file": change.path, "does": does, "diff": change.diff, "notes": change.notes })
        });
        app.output.value(&json!({
            "files": files.collect::<Vec<_>>(),
            "dry_run": args.dry_run,
            "next": next,
        }))?;
    } else if let Some(next) = next.filter(|_| !args.dry_run) {
        app.output.note(next);
    }
    Ok(Status::Done)
}
