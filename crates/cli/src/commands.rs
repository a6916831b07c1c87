//! The commands: each calls the engine and passes the result to `render`.
//!
//! No rules about memories are implemented here. When a command ends, its result is printed and its
//! writes are durable.

use engine::{Listing, Memories};
use memory::change::ChangeId;
use memory::command::{CommandError, Reply, Warning};
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::path::MemoryPath;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::Command;
use crate::exit::{Failure, Status};
use crate::hooks;

mod accept;
#[cfg(feature = "child")]
pub(crate) mod acp;
mod ask;
mod context;
pub(crate) mod demo;
mod drafts;
mod edit;
mod editor;
mod encoder;
mod events;
mod export;
mod features;
mod grep;
mod history;
mod import;
mod install;
mod ls;
pub(crate) mod mcp;
pub(crate) mod merge_driver;
#[cfg(feature = "cluster")]
mod migrate;
mod models;
pub(crate) mod origin;
pub(crate) mod pending;
mod recall;
pub(crate) mod reference;
mod remote;
mod runs;
mod save;
mod self_check;
pub(crate) mod serve;
mod service;
pub(crate) mod shell;
mod status;
mod task;
mod token;
mod trust;
mod ui;
mod undo;
mod view;
mod workspace;
mod write;

/// Returns the feature that a command needs, if it needs one.
const fn required_feature(command: &Command) -> Option<Feature> {
    match command {
        Command::Ls(_)
        | Command::View(_)
        | Command::Create(_)
        | Command::Replace(_)
        | Command::Insert(_)
        | Command::Rm(_)
        | Command::Mv(_)
        | Command::Edit(_)
        | Command::Pin(_)
        | Command::Unpin(_)
        | Command::Grep(_)
        | Command::Log(_)
        | Command::Show(_)
        | Command::Diff(_)
        | Command::Undo(_)
        | Command::Pending(_)
        | Command::Accept(_)
        | Command::Context(_)
        | Command::Workspace(_)
        | Command::Import(_)
        | Command::Export(_) => Some(Feature::Memory),
        Command::Recall(_) => Some(Feature::Recall),
        Command::Remember(_) | Command::Forget(_) | Command::Dream(_) | Command::Tasks(_) => {
            Some(Feature::Tasks)
        }
        Command::Save(_) => Some(Feature::SaveMemory),
        Command::Ui(_) => Some(Feature::Page),
        Command::Models(_) | Command::Runs(_) => Some(Feature::Models),
        #[cfg(feature = "child")]
        Command::Acp(_) => Some(Feature::Child),
        #[cfg(feature = "cluster")]
        Command::Migrate(_) => None,
        // Commands that show or change the setup, and servers, whose parts check their features themselves.
        Command::Trust(_)
        | Command::Status
        | Command::Features
        | Command::Doctor(_)
        | Command::Serve(_)
        | Command::Service(_)
        | Command::Encoder(_)
        | Command::Remote(_)
        | Command::Backend(_)
        | Command::Token(_)
        | Command::Events(_)
        | Command::Mcp(_)
        | Command::Install(_)
        | Command::Uninstall(_)
        | Command::Hook(_)
        | Command::MergeDriver(_)
        | Command::Demo(_)
        | Command::Itself(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Reference(_) => None,
    }
}

/// Checks whether a command mostly needs the memories of the project.
const fn uses_memories(command: &Command) -> bool {
    matches!(
        command,
        Command::Ls(_)
            | Command::View(_)
            | Command::Create(_)
            | Command::Replace(_)
            | Command::Insert(_)
            | Command::Rm(_)
            | Command::Mv(_)
            | Command::Edit(_)
            | Command::Grep(_)
            | Command::Recall(_)
            | Command::Context(_)
    )
}

/// Fails if the feature of a command is off.
fn check_feature(app: &App, command: &Command) -> Result<(), Failure> {
    let Some(feature) = required_feature(command) else { return Ok(()) };
    let features = app.engine.switches().for_workspace(&app.workspace());
    if features.has(feature) {
        Ok(())
    } else {
        Err(CommandError::FeatureDisabled { feature }.into())
    }
}

/// Runs a command, if its feature is on.
pub(crate) async fn run(app: &App, command: Command) -> Result<Status, Failure> {
    let draft = if let Command::Edit(args) = &command { args.draft.as_deref() } else { None };
    check_feature(app, &command)?;
    if uses_memories(&command) {
        remote::offer_install(app).await?;
    }
    drafts::sweep(app, draft);
    match command {
        Command::Ls(args) => ls::run(app, &args).await,
        Command::View(args) => view::run(app, &args).await,
        Command::Create(args) => write::create(app, args).await,
        Command::Replace(args) => write::replace(app, args).await,
        Command::Insert(args) => write::insert(app, args).await,
        Command::Rm(args) => write::rm(app, &args).await,
        Command::Mv(args) => write::mv(app, &args).await,
        Command::Edit(args) => edit::run(app, &args).await,
        Command::Pin(args) => write::pin(app, &args, true).await,
        Command::Unpin(args) => write::pin(app, &args, false).await,
        Command::Grep(args) => grep::run(app, &args).await,
        Command::Recall(args) => recall::run(app, &args).await,
        Command::Log(args) => history::log(app, &args).await,
        Command::Show(args) => history::show(app, &args).await,
        Command::Diff(args) => history::diff(app, &args).await,
        Command::Undo(args) => undo::run(app, &args).await,
        Command::Remember(args) => task::remember(app, args).await,
        Command::Forget(args) => task::forget(app, args).await,
        Command::Dream(args) => task::dream(app, &args).await,
        Command::Tasks(args) => task::tasks(app, &args).await,
        Command::Pending(args) => pending::run(app, &args).await,
        Command::Save(args) => save::run(app, args).await,
        Command::Context(args) => context::run(app, &args).await,
        Command::Trust(args) => trust::run(app, &args).await,
        Command::Accept(args) => accept::run(app, &args).await,
        Command::Workspace(args) => workspace::run(app, &args).await,
        Command::Status => status::status(app).await,
        Command::Features => features::run(app),
        Command::Models(args) => models::run(app, &args).await,
        Command::Runs(args) => runs::run(app, &args).await,
        Command::Doctor(args) => status::doctor(app, &args).await,
        Command::Import(args) => import::run(app, &args).await,
        Command::Export(args) => export::run(app, &args).await,
        #[cfg(feature = "cluster")]
        Command::Migrate(args) => migrate::run(app, &args).await,
        Command::Ui(args) => ui::run(app, &args).await,
        Command::Serve(args) => serve::run(app, &args).await,
        Command::Service(args) => service::run(app, &args),
        Command::Encoder(args) => encoder::run(app, &args).await,
        Command::Remote(args) => remote::run(app, &args).await,
        Command::Backend(_) => remote::serve(app).await,
        Command::Token(args) => token::run(app, &args).await,
        Command::Events(args) => events::run(app, &args).await,
        Command::Mcp(args) => mcp::run(app, &args).await,
        #[cfg(feature = "child")]
        Command::Acp(_) => acp::run(app).await,
        Command::Install(args) => install::install(app, &args).await,
        Command::Uninstall(args) => install::uninstall(app, &args).await,
        Command::Hook(args) => Ok(hooks::run(app.globals.clone(), args)),
        Command::MergeDriver(args) => merge_driver::run(&app.output, &args),
        Command::Demo(args) => demo::run(&app.output, &args).await,
        Command::Itself(args) => self_check::run(app, &args).await,
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&app.output, &args),
        Command::Reference(args) => reference::run(&app.output, &args),
    }
}

/// The result of a write to one memory.
struct CommandOutcome {
    change: Option<ChangeId>,
    revision: Option<Revision>,
    warnings: Vec<Warning>,
}

impl CommandOutcome {
    /// Converts a reply; a refusal is a failure.
    fn from_reply(reply: Reply) -> Result<Self, Failure> {
        match reply {
            Reply::Done { change, revision, warnings, .. } => {
                Ok(Self { change, revision, warnings })
            }
            Reply::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Prints a note about the write, or with `--json` its result.
    fn report(&self, app: &App, done: &str, path: &MemoryPath) -> Result<Status, Failure> {
        if app.output.json {
            app.output.value(&json!({
                "path": path.to_string(),
                "change": self.change.map(|id| id.0),
                "revision": self.revision.as_ref().map(ToString::to_string),
                "warnings": warning_values(&self.warnings),
            }))?;
        } else {
            report_warnings(app, &self.warnings);
            app.output.note(&with_change(done, self.change));
        }
        Ok(Status::Done)
    }
}

/// Adds the number of a change to a note, so that the change can be undone.
fn with_change(done: &str, change: Option<ChangeId>) -> String {
    match change {
        Some(change) => format!("{done} (change {change})"),
        None => done.to_owned(),
    }
}

fn report_warnings(app: &App, warnings: &[Warning]) {
    for Warning { rule, line } in warnings {
        app.output.warning(&format!("line {line} matches the screening rule `{rule}`"));
    }
}

fn warning_values(warnings: &[Warning]) -> Vec<Value> {
    let value = |warning: &Warning| json!({ "rule": warning.rule, "line": warning.line });
    warnings.iter().map(value).collect()
}

/// The kind of an existing path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathKind {
    Memory,
    Folder,
}

/// Returns the kind of a path; a missing path is a failure.
async fn path_kind(memories: &Memories, path: &MemoryPath) -> Result<PathKind, Failure> {
    if path.relative().is_none() {
        return Ok(PathKind::Folder);
    }
    match memories.read(path).await {
        Ok(_) => Ok(PathKind::Memory),
        Err(error) => match error.code() {
            MemoryErrorCode::NotAFile => Ok(PathKind::Folder),
            // The memory exists, but cannot be read as text.
            MemoryErrorCode::NotText | MemoryErrorCode::TooLarge => Ok(PathKind::Memory),
            _ => Err(error.into()),
        },
    }
}

/// Lists one memory, the memories of a folder or scope, or all memories.
async fn listing(memories: &Memories, path: Option<&MemoryPath>) -> Result<Listing, Failure> {
    let Some(path) = path else { return Ok(memories.list(None).await?) };
    if path_kind(memories, path).await? == PathKind::Folder {
        return Ok(memories.list(Some(path)).await?);
    }
    let mut listing = memories.list(Some(&folder_of(path))).await?;
    listing.memories.retain(|listed| listed.path == *path);
    listing.omitted = 0;
    Ok(listing)
}

/// Returns the parent folder of a path.
fn folder_of(path: &MemoryPath) -> MemoryPath {
    match path {
        MemoryPath::Top | MemoryPath::Root(_) => MemoryPath::Top,
        MemoryPath::Inside(mount, relative) => match relative.parent() {
            Some(parent) => MemoryPath::Inside(*mount, parent),
            None => MemoryPath::Root(*mount),
        },
    }
}
